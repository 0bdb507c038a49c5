//! A pool of pages without bytes.

use std::collections::{HashMap, VecDeque};

use thermocline_seeded::Random;

use crate::page_cache::{ListKey, PageKey, PagePolicy};

/// Every page has as many bytes.
pub(in crate::page_cache) const PAGE_BYTES: u64 = 4;

/// Keeps pages as a policy says, the last few always pinned.
#[derive(Debug)]
pub(in crate::page_cache) struct Pool {
    pub(in crate::page_cache) policy: Box<dyn PagePolicy>,
    pub(in crate::page_cache) capacity_pages: usize,
    /// How often each page is asked for in a row by who uses it.
    pub(in crate::page_cache) uses_in_a_row: usize,
    pub(in crate::page_cache) pin_count: usize,
    there: HashMap<PageKey, ListKey>,
    pinned: VecDeque<PageKey>,
}

impl Pool {
    pub(in crate::page_cache) fn new(policy: Box<dyn PagePolicy>, capacity_pages: usize, pin_count: usize) -> Self {
        let (there, pinned) = (HashMap::new(), VecDeque::new());
        Self { policy, capacity_pages, uses_in_a_row: 1, pin_count, there, pinned }
    }

    /// Asks for the pages of a list in this order; how many were there.
    pub(in crate::page_cache) fn scan(&mut self, list: u32, pages: impl IntoIterator<Item = u32>) -> usize {
        pages.into_iter().filter(|page| self.ask(list, *page)).count()
    }

    /// Whether the page was there.
    pub(in crate::page_cache) fn ask(&mut self, list: u32, page: u32) -> bool {
        let key = PageKey { source: list, page };
        let hit = self.there.contains_key(&key);
        if hit {
            self.policy.touch(key);
        } else {
            self.make_room(Some(ListKey(list)), 1);
            self.there.insert(key, ListKey(list));
            self.policy.admit(key, ListKey(list), PAGE_BYTES, key.page);
        }
        (1..self.uses_in_a_row).for_each(|_| self.policy.touch(key));
        self.pinned.push_back(key);
        while self.pinned.len() > self.pin_count {
            self.pinned.pop_front();
        }
        if !self.policy.keeps_unpinned() {
            self.make_room(None, self.capacity_pages);
        }
        hit
    }

    /// Lets pages go until as many more would fit, or none can.
    pub(in crate::page_cache) fn make_room(&mut self, incoming: Option<ListKey>, page_count: usize) {
        while self.there.len() + page_count > self.capacity_pages {
            let pinned = &self.pinned;
            let Some(victim) = self.policy.victim(incoming, &mut |page| !pinned.contains(&page)) else { return };
            assert!(self.there.remove(&victim).is_some(), "{victim:?} is not there");
            self.policy.remove(victim);
        }
    }

    /// Pages of a list that are kept, and that are on the free list.
    pub(in crate::page_cache) fn held_pages(&self, list: u32) -> (u64, u64) {
        let held = self.policy.held();
        let of_list = held.iter().find(|held| held.list == ListKey(list));
        of_list.map_or((0, 0), |held| (held.kept_bytes / PAGE_BYTES, held.free_list_bytes / PAGE_BYTES))
    }

    /// Whether the page is in memory, without asking for it.
    pub(in crate::page_cache) fn has(&self, list: u32, page: u32) -> bool {
        self.there.contains_key(&PageKey { source: list, page })
    }

    /// Quotas in pages.
    pub(in crate::page_cache) fn set_quotas(&mut self, quotas: &[(u32, u64)]) {
        let quotas: Vec<_> = quotas.iter().map(|(list, pages)| (ListKey(*list), pages * PAGE_BYTES)).collect();
        self.policy.set_quotas(&quotas);
    }
}

/// Pages from zero, as `thread_count` threads would ask for them, each going through its part in order, none keeping
/// step.
pub(in crate::page_cache) fn by_threads(page_count: u32, thread_count: u32, random: &mut Random) -> Vec<u32> {
    let part = page_count.div_ceil(thread_count);
    let mut parts: Vec<_> = (0..thread_count)
        .map(|at| at * part..((at + 1) * part).min(page_count))
        .filter(|part| !part.is_empty())
        .collect();
    let mut order = Vec::new();
    while !parts.is_empty() {
        let at = random.below_u64(parts.len() as u64) as usize;
        order.extend(parts[at].next());
        if parts[at].is_empty() {
            parts.swap_remove(at);
        }
    }
    order
}
