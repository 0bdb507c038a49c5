//! The order of priorities, and ageing.

use super::*;
use crate::page_cache::replay::{SlowPages, same_answers};

/// Priorities by the definition: the floor at the last use is written down at each use.
#[derive(Debug)]
struct Slow {
    pages: Vec<(PageKey, ListKey, u64, Uses)>,
    floor: u64,
    now: u64,
}

impl PagePolicy for Slow {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        self.pages.retain(|of| of.0 != page);
        self.pages.push((page, list, size_bytes, Uses::default()));
        self.touch(page);
    }

    fn touch(&mut self, page: PageKey) {
        self.now += 1;
        for (_, _, _, uses) in self.pages.iter_mut().filter(|of| of.0 == page) {
            *uses = Uses { count: uses.count + 1, priority: uses.count + 1 + self.floor, last: self.now };
        }
    }

    fn remove(&mut self, page: PageKey) {
        self.pages.retain(|of| of.0 != page);
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        let movable = self.pages.iter().filter(|of| can_go(of.0));
        let (page, _, _, uses) = movable.min_by_key(|of| (of.3.priority, of.3.last))?;
        self.floor = self.floor.max(uses.priority);
        Some(*page)
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        SlowPages::sums(self.pages.iter().map(|of| (of.0, of.1, of.2)))
    }
}

#[test]
fn the_page_used_least_often_goes_first() {
    for seed in 0..100 {
        same_answers(seed, &mut Lfu::default(), &mut Slow { pages: Vec::new(), floor: 0, now: 0 });
    }
}

#[test]
fn a_page_that_no_query_wants_any_more_goes_at_last() {
    let mut lfu = Lfu::default();
    let page = |page| PageKey { source: 0, page };
    (0..4).for_each(|at| lfu.admit(page(at), ListKey(0), 1, 0));
    (0..20).for_each(|_| lfu.touch(page(0)));
    let mut newcomer = 100;
    while let Some(victim) = lfu.victim(None, &mut |_| true)
        && victim != page(0)
    {
        lfu.remove(victim);
        lfu.admit(page(newcomer), ListKey(0), 1, 0);
        newcomer += 1;
        assert!(newcomer < 200, "20 uses outlast as many rounds of the others, not more");
    }
    assert!(newcomer > 130, "but {} newcomers went before", newcomer - 100);
}
