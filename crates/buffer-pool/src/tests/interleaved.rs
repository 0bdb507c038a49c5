//! Readers, reads, pins, queries and sources that come and go in random order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use thermocline_budget::{Account, Purpose, Reservation};
use thermocline_placement::page_cache::PagePolicyName;
use thermocline_seeded::Random;

use super::stage::{CHARGE_BYTES, Flag, Pages, Play, poll_once};
use crate::{PageReader, PinnedPage, ReadOptions, RegisteredSource};

const PAGE_COUNT: usize = 24;

/// A reader, the pages that it has yet to give, and the flag of its last poll if that had none.
struct Reading {
    reader: PageReader,
    pages: Arc<Pages>,
    wanted: Vec<u32>,
    waiting: Option<Arc<Flag>>,
}

struct Show {
    play: Play,
    random: Random,
    seed: u64,
    sources: Vec<(Arc<Pages>, RegisteredSource)>,
    readings: Vec<Reading>,
    pins: Vec<(Arc<Pages>, PinnedPage)>,
    query: Account,
    reserved: Vec<Reservation>,
}

impl Show {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let limit_bytes = (2 + random.below(8) as u64) * CHARGE_BYTES + random.below(20_000) as u64;
        let cache_limit_bytes = random.one_in(2).then(|| limit_bytes / (1 + random.below(4) as u64));
        let play = Play::new(limit_bytes, cache_limit_bytes, &[4096]);
        play.hold(true);
        let query = play.budget.account("query", Purpose::Query);
        Self { play, random, seed, sources: vec![], readings: vec![], pins: vec![], query, reserved: vec![] }
    }

    fn step(&mut self) {
        let Self { play, random, .. } = self;
        match random.below(24) {
            0 if self.sources.len() < 3 => self.add_source(),
            1 if random.one_in(8) && !self.sources.is_empty() => {
                self.sources.swap_remove(random.below(self.sources.len()));
            }
            2 if self.readings.len() < 6 && !self.sources.is_empty() => self.add_reading(),
            3 if random.one_in(3) && !self.readings.is_empty() => {
                self.readings.swap_remove(random.below(self.readings.len()));
            }
            4 | 5 if !self.pins.is_empty() => {
                self.pins.swap_remove(random.below(self.pins.len()));
            }
            6 if !self.pins.is_empty() => {
                let (pages, pin) = &self.pins[random.below(self.pins.len())];
                self.pins.push((Arc::clone(pages), pin.clone()));
            }
            7 => self.reserved.extend(self.query.try_reserve(random.below(3 * CHARGE_BYTES as usize) as u64)),
            8 if !self.reserved.is_empty() => {
                drop(self.reserved.swap_remove(random.below(self.reserved.len())));
            }
            9 => {
                let lists = play.pool.snapshot().lists;
                let quotas: Vec<_> = lists.iter().map(|list| (list.list, random.below(6 << 16) as u64)).collect();
                play.pool.set_quotas(&quotas);
            }
            10 if random.one_in(6) => {
                let policy = *[
                    PagePolicyName::Proportional,
                    PagePolicyName::LeastRecentlyUsed,
                    PagePolicyName::MostRecentlyUsed,
                    PagePolicyName::TwoQueue,
                    PagePolicyName::LeastFrequentlyUsed,
                    PagePolicyName::Os,
                ]
                .get(random.below(6))
                .unwrap();
                play.pool.set_policy(policy.build());
            }
            11 if random.one_in(6) => play.pool.clear(),
            12 if random.one_in(2) => {
                play.stage.bad_bytes.lock().insert(random.below(400_000) as u64);
            }
            13 => play.stage.bad_bytes.lock().clear(),
            14..=17 if play.stage.held_count() > 0 => {
                let index = random.below(play.stage.held_count());
                play.stage.complete(index);
            }
            _ if !self.readings.is_empty() => self.poll(),
            _ => {}
        }
    }

    fn add_source(&mut self) {
        let Self { play, random, .. } = self;
        let mut size_bytes = || {
            let most = if random.one_in(10) { 100_000 } else { 20_000 };
            1 + random.below(most) as u32
        };
        let sizes: Vec<u32> = (0..PAGE_COUNT).map(|_| size_bytes()).collect();
        let lists = [play.pool.new_list(), play.pool.new_list()];
        let salt = 100 + random.below(1 << 30) as u32;
        let pages = Pages::new(Arc::clone(&play.stage) as _, salt, &sizes, &lists);
        let source = play.pool.register(Arc::clone(&pages) as _);
        self.sources.push((pages, source));
    }

    fn add_reading(&mut self) {
        let random = &mut self.random;
        let (pages, source) = &self.sources[random.below(self.sources.len())];
        let from = random.below(PAGE_COUNT);
        let wanted: Vec<u32> = if random.one_in(2) {
            (from..PAGE_COUNT).map(|page| page as u32).collect()
        } else {
            (0..random.below(12)).map(|_| random.below(PAGE_COUNT) as u32).collect()
        };
        let options = ReadOptions { read_ahead_bytes: random.below(200_000) as u64 };
        let reader = source.reader(wanted.clone(), options);
        self.readings.push(Reading { reader, pages: Arc::clone(pages), wanted, waiting: None });
    }

    fn poll(&mut self) {
        let index = self.random.below(self.readings.len());
        let reading = &mut self.readings[index];
        let (poll, flag) = poll_once(&mut reading.reader);
        let context = format!("seed {:#x}", self.seed);
        match poll {
            Poll::Pending => reading.waiting = Some(flag),
            Poll::Ready(None) => {
                assert!(reading.wanted.is_empty(), "{context}: {:?} did not come", reading.wanted);
                self.readings.swap_remove(index);
            }
            Poll::Ready(Some(outcome)) => {
                reading.waiting = None;
                let page = reading.wanted.remove(0);
                if let Ok(pin) = outcome {
                    assert_eq!(pin.page(), page, "{context}");
                    reading.pages.assert_is(page, &pin, &context);
                    if !self.random.one_in(3) {
                        self.pins.push((Arc::clone(&reading.pages), pin));
                    }
                }
            }
        }
    }

    fn look(&mut self) {
        let context = format!("seed {:#x}", self.seed);
        let budget = &self.play.budget;
        assert!(budget.reserved_bytes() <= budget.limit_bytes(), "{context}");
        let cache_limit_bytes = budget.cache_limit_bytes().unwrap_or(u64::MAX);
        assert!(budget.cache_reserved_bytes() <= cache_limit_bytes, "{context}");
        let snapshot = self.play.pool.snapshot();
        assert!(snapshot.mapped_bytes <= snapshot.reserved_bytes, "{context}: {snapshot:?}");
        assert_eq!(snapshot.reserved_bytes, budget.cache_reserved_bytes(), "{context}");
        let listed_bytes: u64 = snapshot.lists.iter().map(|list| list.held_bytes).sum();
        let listed_count: u64 = snapshot.lists.iter().map(|list| list.page_count).sum();
        assert!(
            listed_bytes <= snapshot.mapped_bytes && listed_count == snapshot.page_count,
            "{context}: {snapshot:?}"
        );
        if !self.pins.is_empty() {
            let (pages, pin) = &self.pins[self.random.below(self.pins.len())];
            pages.assert_is(pin.page(), pin, &context);
        }
        // Of pages whose source is registered no byte is on its way twice.
        let mut ends: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
        for (name, offset, length) in self.play.stage.held() {
            if self.sources.iter().any(|(pages, _)| pages.places[0].file.name() == name) {
                ends.entry(name).or_default().push((offset, offset + length));
            }
        }
        for reads in ends.values_mut() {
            reads.sort_unstable();
            assert!(reads.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{context}: {reads:?}");
        }
    }

    /// With every read done, everyone who waits was woken and everything comes.
    fn end(mut self) {
        self.play.stage.bad_bytes.lock().clear();
        let context = format!("seed {:#x}", self.seed);
        for round in 0.. {
            assert!(round < 100_000, "{context}: it does not end");
            self.play.stage.complete_all();
            if self.readings.is_empty() {
                break;
            }
            for reading in &self.readings {
                assert!(reading.waiting.as_ref().is_none_or(|flag| flag.count() > 0), "{context}: nobody woke it");
            }
            self.pins.clear();
            self.reserved.clear();
            self.poll();
        }
        self.pins.clear();
        self.reserved.clear();
        self.sources.clear();
        self.play.pool.clear();
        let snapshot = self.play.pool.snapshot();
        assert_eq!((snapshot.page_count, snapshot.mapped_bytes), (0, 0), "{context}");
        assert_eq!(self.play.budget.reserved_bytes(), 0, "{context}");
    }
}

#[test]
fn whatever_comes_in_between_pages_are_right_limits_hold_and_nothing_is_left() {
    for seed in 0..300 {
        let mut show = Show::new(seed);
        for _ in 0..400 {
            show.step();
            show.look();
        }
        show.end();
    }
}
