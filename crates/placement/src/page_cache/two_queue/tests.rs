//! The two queues and the names, against the paper's pseudocode on plain vectors.

use super::*;
use crate::page_cache::replay::{SlowPages, same_answers};

type Page = (PageKey, ListKey, u64);

/// Oldest first each.
#[derive(Debug, Default)]
struct Slow {
    first_seen: Vec<Page>,
    returned: Vec<Page>,
    names: Vec<Page>,
    named: Option<PageKey>,
}

fn bytes(pages: &[Page]) -> u64 {
    pages.iter().map(|page| page.2).sum()
}

fn take(pages: &mut Vec<Page>, key: PageKey) -> Option<Page> {
    let at = pages.iter().position(|page| page.0 == key)?;
    Some(pages.remove(at))
}

impl PagePolicy for Slow {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        match take(&mut self.names, page) {
            Some(_) => self.returned.push((page, list, size_bytes)),
            None => self.first_seen.push((page, list, size_bytes)),
        }
    }

    fn touch(&mut self, page: PageKey) {
        if let Some(page) = take(&mut self.returned, page) {
            self.returned.push(page);
        }
    }

    fn remove(&mut self, page: PageKey) {
        take(&mut self.returned, page);
        if let Some(gone) = take(&mut self.first_seen, page)
            && self.named == Some(page)
        {
            self.names.push(gone);
            while bytes(&self.names) > (bytes(&self.first_seen) + bytes(&self.returned)) / 2 {
                self.names.remove(0);
            }
        }
        self.named = self.named.filter(|named| *named != page);
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        let held_bytes = bytes(&self.first_seen) + bytes(&self.returned);
        let first_seen = self.first_seen.iter().find(|page| can_go(page.0)).map(|page| page.0);
        let returned = self.returned.iter().find(|page| can_go(page.0)).map(|page| page.0);
        let victim = match bytes(&self.first_seen) > held_bytes / 4 {
            true => first_seen.or(returned),
            false => returned.or(first_seen),
        };
        self.named = victim.or(self.named);
        victim
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        SlowPages::sums(self.first_seen.iter().chain(&self.returned).copied())
    }
}

#[test]
fn pages_go_as_in_the_paper() {
    for seed in 0..100 {
        same_answers(seed, &mut TwoQueue::default(), &mut Slow::default());
    }
}

#[test]
fn a_page_that_came_back_outlasts_those_seen_once() {
    let mut policy = TwoQueue::default();
    let page = |page| PageKey { source: 0, page };
    (0..8).for_each(|at| policy.admit(page(at), ListKey(0), 1, 0));
    assert_eq!(policy.victim(None, &mut |_| true), Some(page(0)));
    policy.remove(page(0));
    policy.admit(page(0), ListKey(0), 1, 0);
    for at in 8..40 {
        let victim = policy.victim(None, &mut |_| true);
        assert_ne!(victim, Some(page(0)));
        victim.into_iter().for_each(|victim| policy.remove(victim));
        policy.admit(page(at), ListKey(0), 1, 0);
    }
}
