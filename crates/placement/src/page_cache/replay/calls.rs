//! Random calls to a policy and to an obvious version of it, which must answer alike.

use std::collections::BTreeMap;

use thermocline_seeded::Random;

use crate::page_cache::{HeldBytes, ListKey, PageKey, PagePolicy};

/// A page as the obvious versions know it.
#[derive(Clone, Copy, Debug)]
pub(in crate::page_cache) struct SlowPage {
    pub(in crate::page_cache) key: PageKey,
    pub(in crate::page_cache) list: ListKey,
    pub(in crate::page_cache) size_bytes: u64,
    /// Number of its last use among all calls.
    pub(in crate::page_cache) last: u64,
}

/// Pages without order, of which the one with the smallest rank that can go is looked for by looking at all.
#[derive(Debug)]
pub(in crate::page_cache) struct SlowPages {
    pages: Vec<SlowPage>,
    now: u64,
    rank: fn(&SlowPage) -> u64,
}

impl SlowPages {
    pub(in crate::page_cache) fn new(rank: fn(&SlowPage) -> u64) -> Self {
        Self { pages: Vec::new(), now: 0, rank }
    }

    /// The sums of these pages, as a policy without quotas tells them.
    pub(in crate::page_cache) fn sums(pages: impl IntoIterator<Item = (PageKey, ListKey, u64)>) -> Vec<HeldBytes> {
        let mut all = Self::new(|_| 0);
        pages.into_iter().for_each(|(key, list, size_bytes)| all.admit(key, list, size_bytes, 0));
        all.held()
    }
}

impl PagePolicy for SlowPages {
    fn admit(&mut self, key: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        if self.pages.iter().all(|page| page.key != key) {
            self.pages.push(SlowPage { key, list, size_bytes, last: 0 });
        }
        self.touch(key);
    }

    fn touch(&mut self, key: PageKey) {
        self.now += 1;
        if let Some(page) = self.pages.iter_mut().find(|page| page.key == key) {
            page.last = self.now;
        }
    }

    fn remove(&mut self, key: PageKey) {
        self.pages.retain(|page| page.key != key);
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        let rank = self.rank;
        self.pages.iter().filter(|page| can_go(page.key)).min_by_key(|page| rank(page)).map(|page| page.key)
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        let mut bytes = BTreeMap::<ListKey, u64>::new();
        self.pages.iter().for_each(|page| *bytes.entry(page.list).or_default() += page.size_bytes);
        let kept = |(list, kept_bytes)| HeldBytes { list, quota_bytes: 0, kept_bytes, free_list_bytes: 0 };
        bytes.into_iter().map(kept).collect()
    }
}

/// Makes the same random calls to both, as a pool of changing size and with pins would, and compares every answer.
pub(in crate::page_cache) fn same_answers(seed: u64, fast: &mut dyn PagePolicy, slow: &mut dyn PagePolicy) {
    let mut random = Random::new(seed);
    let list_count = 1 + random.below_u64(4) as u32;
    let pages_per_list = 1 + random.below_u64(40) as u32;
    let mut capacity_bytes = 10 + random.below_u64(300);
    let pinned_part = random.below_u64(8);
    let mut there: Vec<(PageKey, u64)> = Vec::new();
    let mut scan_at = 0;
    let step_count = if cfg!(miri) { 100 } else { 600 };
    for step in 0..step_count {
        match random.below_u64(100) {
            0..=1 => capacity_bytes = random.below_u64(300),
            2..=3 => {
                let mut quotas = Vec::new();
                for list in 0..list_count + 1 {
                    if random.below_u64(3) > 0 {
                        quotas.push((ListKey(list), random.below_u64(150)));
                    }
                }
                fast.set_quotas(&quotas);
                slow.set_quotas(&quotas);
            }
            4..=5 if !there.is_empty() => {
                let (page, _) = there.swap_remove(random.below_u64(there.len() as u64) as usize);
                fast.remove(page);
                slow.remove(page);
            }
            _ => {}
        }
        // Half of the uses go round, the others are skewed.
        let at = match random.below_u64(2) {
            0 => {
                scan_at = (scan_at + 1) % (list_count * pages_per_list);
                scan_at
            }
            _ => (f64::from(list_count * pages_per_list) * random.unit().powi(3)) as u32,
        };
        let page = PageKey { source: at / pages_per_list, page: at % pages_per_list };
        let list = ListKey(page.source);
        let size_bytes = 1 + u64::from(at * 7 % 12);
        let pins = random.next_u64() >> 16;
        let mut can_go = |key: PageKey| {
            let mixed = (pins ^ u64::from(key.page) << 8 ^ u64::from(key.source)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 40) % 8 >= pinned_part
        };
        if there.iter().any(|(key, _)| *key == page) {
            fast.touch(page);
            slow.touch(page);
        } else {
            let incoming = (random.below_u64(4) > 0).then_some(list);
            while there.iter().map(|(_, bytes)| bytes).sum::<u64>() + size_bytes > capacity_bytes {
                let victim = fast.victim(incoming, &mut can_go);
                assert_eq!(victim, slow.victim(incoming, &mut can_go), "seed {seed}, step {step}: {slow:?}");
                let Some(victim) = victim else { break };
                assert!(can_go(victim), "seed {seed}, step {step}: {victim:?} is pinned");
                let count = there.len();
                there.retain(|(key, _)| *key != victim);
                assert_eq!(there.len(), count - 1, "seed {seed}, step {step}: {victim:?} is not there");
                fast.remove(victim);
                slow.remove(victim);
            }
            there.push((page, size_bytes));
            fast.admit(page, list, size_bytes, page.page);
            slow.admit(page, list, size_bytes, page.page);
        }
        assert_eq!(fast.held(), slow.held(), "seed {seed}, step {step}: {slow:?}");
    }
    let nothing_can_go = fast.victim(None, &mut |_| false);
    assert_eq!(nothing_can_go, None, "seed {seed}");
}
