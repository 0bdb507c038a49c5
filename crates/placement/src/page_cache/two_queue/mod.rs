//! 2Q: a page is kept for long only if it is asked for again after it has gone once.
//!
//! Pages come into a queue of their own (*first seen*, A1in), in which uses do not count, since they are most likely
//! those of the query that brought the page. When the queue has more than a quarter of the bytes it gives up its oldest
//! page and remembers its name (*remembered*, A1out); a page that comes while its name is remembered goes to the
//! *returned* pages (Am), which are given up by last use.
//!
//! Paper: Johnson and Shasha, VLDB 1994, the full version (§3.2), with its Kin of 25 % and Kout of 50 %. Deviations:
//! pages differ in size, so both are shares of the bytes held instead of page slots; the bytes held when room is asked
//! for stand for the size of the pool, which may change. Pages pinned in one queue are made up for by the other. Pure;
//! O(1).

#[cfg(test)]
mod tests;

use super::page_table::{Chain, PageTable, Slot};
use super::{HeldBytes, ListKey, PageKey, PagePolicy};

/// Kin: the first-seen pages may have one byte in so many.
const FIRST_SEEN_PART: u64 = 4;
/// Kout: names are remembered for pages of one byte in so many.
const REMEMBERED_PART: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    FirstSeen,
    Returned,
}

/// Gives up pages seen once before those that came back.
#[derive(Debug, Default)]
pub struct TwoQueue {
    pages: PageTable<Queue>,
    first_seen: Chain,
    returned: Chain,
    names: PageTable<()>,
    remembered: Chain,
    /// Named by `victim` and not yet removed: its name is remembered when it goes.
    named: Option<PageKey>,
}

impl TwoQueue {
    fn first_that_can_go(&self, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        let first_seen_goes = self.first_seen.size_bytes() > self.pages.size_bytes() / FIRST_SEEN_PART;
        let order = match first_seen_goes {
            true => [&self.first_seen, &self.returned],
            false => [&self.returned, &self.first_seen],
        };
        let slot = order.into_iter().find_map(|chain| self.pages.oldest_that_can_go(chain, can_go))?;
        Some(self.pages.key(slot))
    }

    fn unlink(&mut self, slot: Slot) {
        let chain = match self.pages.value(slot) {
            Queue::FirstSeen => &mut self.first_seen,
            Queue::Returned => &mut self.returned,
        };
        self.pages.unlink(chain, slot);
    }

    fn forget(&mut self, name: Slot) {
        self.names.unlink(&mut self.remembered, name);
        self.names.remove(name);
    }

    fn remember(&mut self, page: PageKey, list: ListKey, size_bytes: u64) {
        let name = self.names.insert(page, list, size_bytes, ());
        self.names.push_newest(&mut self.remembered, name);
        while self.names.size_bytes() > self.pages.size_bytes() / REMEMBERED_PART
            && let Some(oldest) = self.remembered.oldest()
        {
            self.forget(oldest);
        }
    }
}

impl PagePolicy for TwoQueue {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        if self.pages.find(page).is_some() {
            return self.touch(page);
        }
        if let Some(name) = self.names.find(page) {
            self.forget(name);
            let slot = self.pages.insert(page, list, size_bytes, Queue::Returned);
            self.pages.push_newest(&mut self.returned, slot);
        } else {
            let slot = self.pages.insert(page, list, size_bytes, Queue::FirstSeen);
            self.pages.push_newest(&mut self.first_seen, slot);
        }
    }

    fn touch(&mut self, page: PageKey) {
        if let Some(slot) = self.pages.find(page)
            && self.pages.value(slot) == Queue::Returned
        {
            self.unlink(slot);
            self.pages.push_newest(&mut self.returned, slot);
        }
    }

    fn remove(&mut self, page: PageKey) {
        let named = self.named.take_if(|named| *named == page).is_some();
        if let Some(slot) = self.pages.find(page) {
            let (list, size_bytes) = (self.pages.list(slot), self.pages.page_bytes(slot));
            let queue = self.pages.value(slot);
            self.unlink(slot);
            self.pages.remove(slot);
            if named && queue == Queue::FirstSeen {
                self.remember(page, list, size_bytes);
            }
        }
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.named = self.first_that_can_go(can_go);
        self.named
    }

    /// To look names none.
    fn show_next(&mut self, look: &mut dyn FnMut(PageKey) -> bool) {
        self.first_that_can_go(look);
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        self.pages.all_kept()
    }
}
