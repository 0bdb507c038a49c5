#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_budget::Budget;
use thermocline_hardware::{ManualClock, SystemClock};
use thermocline_placement::page_cache::PagePolicyName;

use super::*;
use crate::tests::stage::FragilePolicy;
use crate::{PoolOptions, Watcher};

const MIB: u64 = 1 << 20;

struct Stage {
    clock: Arc<ManualClock>,
    tuner: Arc<Tuner>,
    lists: Vec<ListKey>,
}

impl Stage {
    fn new(memory_bytes: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let budget = Budget::new(memory_bytes, None);
        let policy = PagePolicyName::Proportional.build();
        let pool =
            BufferPool::new(PoolOptions::default(), &budget, policy, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        let lists = (0..3).map(|_| pool.new_list()).collect();
        Self { tuner: Tuner::new(pool, Arc::clone(&clock) as Arc<dyn Clock>), clock, lists }
    }

    /// A pipeline of two threads that reads so many bytes of each list.
    fn start(&self, signature: u64, lists: Range<usize>, bytes: u64) -> PipelineStart {
        let columns = self.lists[lists].iter().map(|list| (*list, bytes)).collect();
        PipelineStart {
            signature,
            label: format!("plan {signature}").into(),
            columns,
            thread_count: 2,
            shows_storage: true,
            watcher: None,
        }
    }

    /// Runs one that works at `bytes_per_s` in all and reads a part of its bytes, each of which keeps it busy and has
    /// it wait for so long.
    fn run(&self, start: PipelineStart, bytes_per_s: f64, read_part: f64, reading_s: [f64; 2]) {
        let [busy_s_per_byte, waited_s_per_byte] = reading_s;
        let bytes: u64 = start.columns.iter().map(|(_, bytes)| bytes).sum();
        let running = self.tuner.start(start);
        for _ in 0..4 {
            let read_bytes = (bytes as f64 * read_part) as u64 / 4;
            let busy_s = bytes as f64 / 4.0 / bytes_per_s + read_bytes as f64 * busy_s_per_byte;
            let waited_s = read_bytes as f64 * waited_s_per_byte;
            self.clock.advance_ns(((busy_s + waited_s) * 1e9) as u64);
            // What passes once passes for two threads.
            let ns = |seconds: f64| (seconds * 2e9) as u64;
            running.observe(Work { bytes: bytes / 4, read_bytes, busy_ns: ns(busy_s), waited_ns: ns(waited_s) });
        }
        running.finish();
    }

    /// Decides, and has the programme rest from then on while the clock stands still, once no decision that the
    /// tuner's thread had begun is left to come.
    fn rest_decided(&self) {
        self.tuner.decide();
        wait_until(|| !self.tuner.state.lock().has_thread);
        let mut state = self.tuner.state.lock();
        assert!(!state.has_thread);
        state.deciding.follow(self.clock.monotonic_ns(), Duration::from_secs(10), rest::LONG);
    }

    fn quota(&self, list: usize) -> u64 {
        let quotas = self.tuner.decision().quotas;
        quotas.iter().find(|(of, _)| *of == self.lists[list]).map_or(0, |(_, bytes)| *bytes)
    }
}

/// Waits for the tuner's thread, but not for ever: what was waited for is looked at afterwards.
fn wait_until(has_happened: impl Fn() -> bool) {
    let (time, end_ns) = (SystemClock::new(), 20_000_000_000);
    while !has_happened() && time.monotonic_ns() < end_ns {
        std::thread::yield_now();
    }
}

#[test]
fn memory_goes_first_to_what_storage_is_too_slow_for() {
    let stage = Stage::new(44 * MIB);
    stage.run(stage.start(1, 0..1, 60 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.run(stage.start(2, 1..2, 60 * MIB), 0.2e9, 0.0, [0.0; 2]);
    stage.tuner.decide();
    // Storage is taken to give 1.5 GB/s: with less than three quarters in memory it would be too slow for 6 GB/s.
    assert!(stage.quota(0) > 43 * MIB, "{:?}", stage.tuner.decision());
    assert!(stage.quota(1) < MIB);
    assert_eq!(stage.tuner.decision().read, stage.lists[..2]);
}

#[test]
fn memory_that_nothing_needs_saves_what_reading_costs() {
    let stage = Stage::new(100 * MIB);
    let slow = || stage.start(2, 1..2, 60 * MIB);
    let benefit = || {
        stage.tuner.decide();
        assert!(stage.quota(1) > 30 * MIB, "{:?}", stage.tuner.decision());
        stage.tuner.decision().marginal_benefit_s_per_byte
    };
    stage.run(stage.start(1, 0..1, 60 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.run(slow(), 0.2e9, 0.0, [0.0; 2]);
    let guessed = benefit();
    for _ in 0..5 {
        stage.run(slow(), 0.2e9, 1.0, [0.5e-9, 0.0]);
    }
    // Ten times as much as was guessed.
    assert!(benefit() > 8.0 * guessed && guessed > 0.0, "{} after {guessed}", benefit());
}

#[test]
fn waits_for_a_device_that_is_too_slow_are_its_rate_and_no_cost_of_reading() {
    let stage = Stage::new(100 * MIB);
    let before = stage.tuner.state.lock().rates();
    // It reads 1 GB/s, works at 6, and so waits for five sixths of the time.
    for _ in 0..20 {
        let read = stage.tuner.pool.device.begin();
        stage.run(stage.start(1, 0..1, 60 * MIB), 6e9, 1.0, [0.0, 1e-9 - 1.0 / 6e9]);
        read.arrived(60 * MIB);
    }
    stage.tuner.decide();
    let after = stage.tuner.state.lock().rates();
    assert_eq!(after.reading_s_per_byte, before.reading_s_per_byte);
    assert!((after.storage_bytes_per_s / 1e9 - 1.0).abs() < 0.1, "{after:?}");
}

#[test]
fn what_runs_more_often_comes_first_where_memory_is_short() {
    let stage = Stage::new(32 * MIB);
    for _ in 0..3 {
        stage.run(stage.start(1, 0..1, 60 * MIB), 20e9, 0.0, [0.0; 2]);
    }
    stage.run(stage.start(2, 1..2, 60 * MIB), 20e9, 0.0, [0.0; 2]);
    stage.tuner.decide();
    assert!(stage.quota(0) > 25 * MIB, "{:?}", stage.tuner.decision());
    assert!(stage.quota(1) < MIB);
    assert!(stage.tuner.decision().marginal_benefit_s_per_byte > 0.0);
}

#[test]
fn a_pipeline_that_begins_is_decided_for_while_the_tuner_rests() {
    let stage = Stage::new(100 * MIB);
    // The clock stands still, so that this rest does not end by itself.
    stage.tuner.state.lock().deciding.follow(0, Duration::from_micros(400), rest::LONG);
    let running = stage.tuner.start(stage.start(1, 0..1, 60 * MIB));
    wait_until(|| stage.quota(0) > 0);
    assert!(stage.quota(0) > 50 * MIB, "{:?}", stage.tuner.decision());
    drop(running);
}

#[test]
fn memory_on_small_pages_is_moved_when_nothing_is_to_be_decided() {
    let stage = Stage::new(100 * MIB);
    let arena = &stage.tuner.pool.arena;
    if !arena.finds_huge_pages_slow() {
        return;
    }
    let _extent = arena.take(2 * MIB).unwrap();
    assert!(arena.has_small());
    stage.run(stage.start(1, 0..1, 60 * MIB), 20e9, 0.0, [0.0; 2]);
    wait_until(|| !arena.has_small());
    assert!(!arena.has_small());
}

#[test]
fn what_pipelines_in_order_use_first_is_lent_the_room_of_what_they_use_last() {
    let stage = Stage::new(64 * MIB);
    let start = |list: usize| stage.start(list as u64, list..list + 1, 60 * MIB);
    [0, 0, 0, 0, 1, 1, 1, 1].iter().cycle().take(44).for_each(|list| stage.run(start(*list), 20e9, 0.0, [0.0; 2]));
    // Whatever is decided from now on is lending.
    stage.rest_decided();
    let running = stage.tuner.start(start(1));
    wait_until(|| stage.quota(1) > 50 * MIB);
    let Decision { quotas, standing_quotas, .. } = stage.tuner.decision();
    let standing = standing_quotas.iter().find(|(list, _)| *list == stage.lists[1]).map_or(0, |(_, bytes)| *bytes);
    assert!(stage.quota(1) > 50 * MIB && standing < 40 * MIB, "{quotas:?} and {standing_quotas:?}");
    let sum = |quotas: &[(ListKey, u64)]| quotas.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(sum(&quotas), sum(&standing_quotas));
    drop(running);
}

#[test]
fn a_new_large_pipeline_is_lent_room_before_all_is_decided_anew() {
    let stage = Stage::new(64 * MIB);
    // Two plans in turns, so that columns are taken to be asked for again; both find room.
    for signature in [1, 2, 1, 2, 1, 2] {
        stage.run(stage.start(signature, 0..2, 30 * MIB), 20e9, 0.0, [0.0; 2]);
    }
    stage.rest_decided();
    assert!(stage.quota(0) > 29 * MIB && stage.quota(1) > 29 * MIB, "{:?}", stage.tuner.decision());
    let running = stage.tuner.start(stage.start(3, 2..3, 61 * MIB));
    wait_until(|| stage.quota(2) > 40 * MIB);
    let Decision { quotas, standing_quotas, .. } = stage.tuner.decision();
    assert!(stage.quota(2) > 40 * MIB, "{quotas:?} and {standing_quotas:?}");
    assert!(quotas.iter().map(|(_, bytes)| bytes).sum::<u64>() <= stage.tuner.pool().keepable_bytes());
    drop(running);
}

#[test]
fn where_all_has_room_nothing_is_looked_ahead_for() {
    let stage = Stage::new(200 * MIB);
    let start = |list: usize| stage.start(list as u64, list..list + 1, 60 * MIB);
    [0, 0, 0, 0, 1, 1, 1, 1].iter().cycle().take(44).for_each(|list| stage.run(start(*list), 20e9, 0.0, [0.0; 2]));
    stage.tuner.decide();
    let running = stage.tuner.start(start(1));
    assert!(!stage.tuner.state.lock().must_lend);
    drop(running);
}

#[test]
fn a_watcher_is_told_of_every_byte_once_also_of_those_that_are_not_asked_for() {
    #[derive(Debug, Default)]
    struct Sums([AtomicU64; 2]);
    impl Watcher for Sums {
        fn begun(&self, bytes: u64) {
            self.0[0].fetch_add(bytes, Ordering::Relaxed);
        }
        fn done(&self, bytes: u64) {
            self.0[1].fetch_add(bytes, Ordering::Relaxed);
        }
    }
    let (stage, sums) = (Stage::new(64 * MIB), Arc::new(Sums::default()));
    let seen = || sums.0.each_ref().map(|sum| sum.load(Ordering::Relaxed));
    let watcher: Arc<dyn Watcher> = Arc::clone(&sums) as Arc<dyn Watcher>;
    let running = stage.tuner.start(PipelineStart { watcher: Some(watcher), ..stage.start(1, 0..2, 50) });
    running.observe(Work { bytes: 30, ..Work::default() });
    assert_eq!(seen(), [100, 30]);
    running.observe(Work { bytes: 80, ..Work::default() });
    assert_eq!(seen(), [100, 100]);
    let watcher: Arc<dyn Watcher> = Arc::clone(&sums) as Arc<dyn Watcher>;
    drop(stage.tuner.start(PipelineStart { watcher: Some(watcher), ..stage.start(1, 0..1, 40) }));
    drop(running);
    assert_eq!(seen(), [140, 140]);
}

#[test]
fn less_memory_is_told_with_the_slow_down_that_it_brings() {
    let stage = Stage::new(64 * MIB);
    assert_eq!(stage.tuner.memory_needs().unwrap(), []);
    // The first list's bytes are worked on faster than storage gives them, those of the second much slower.
    stage.run(stage.start(1, 0..1, 100 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.run(stage.start(2, 1..2, 100 * MIB), 1e8, 0.0, [0.0; 2]);
    let needs = stage.tuner.memory_needs().unwrap();
    let current = needs.iter().find(|need| need.is_current).unwrap();
    assert_eq!(current.memory_bytes, stage.tuner.pool().keepable_bytes());
    let least: Vec<_> = needs.iter().filter(|need| !need.is_current).collect();
    assert!(least.first().unwrap().slow_down < 0.001, "{least:?}");
    assert_eq!(least.last().unwrap().memory_bytes, 0, "{least:?}");
    for pair in needs.windows(2) {
        assert!(pair[0].memory_bytes >= pair[1].memory_bytes, "{needs:?}");
        assert!(pair[0].predicted_s <= pair[1].predicted_s * 1.001, "{needs:?}");
    }
}

#[test]
fn a_plan_is_predicted_once_one_like_it_has_run() {
    let stage = Stage::new(100 * MIB);
    let start = || stage.start(1, 0..1, 60 * MIB);
    assert_eq!(stage.tuner.predicted_s(1, &start().columns), None);
    for _ in 0..2 {
        stage.run(start(), 0.5e9, 0.0, [0.0; 2]);
    }
    let pipelines = stage.tuner.pipelines();
    let took_s = (60 * MIB) as f64 / 0.5e9;
    assert_eq!((pipelines[0].predicted_s, pipelines[0].is_running), (None, false));
    let predicted_s = pipelines[1].predicted_s.unwrap();
    // Storage would take a third as long, and its bytes cost something.
    assert!((predicted_s / took_s - 1.0).abs() < 0.05, "{predicted_s} of {took_s}");
    assert!((pipelines[1].took_s / took_s - 1.0).abs() < 0.01);
    assert_eq!(stage.tuner.last_ended(1), pipelines.last().cloned());
}

#[test]
fn one_that_runs_is_reported_with_what_is_known_now_until_it_ends_or_is_dropped() {
    let stage = Stage::new(100 * MIB);
    let running = stage.tuner.start(stage.start(1, 0..1, 60 * MIB));
    let report = || stage.tuner.pipelines().pop().unwrap();
    assert_eq!((report().is_running, report().predicted_s, report().in_memory_s), (true, None, None));
    // Nothing is in memory, and storage gives 1.5 GB/s.
    stage.clock.advance_ns(5_000_000);
    running.observe(Work { bytes: 6 * MIB, read_bytes: 6 * MIB, busy_ns: 2_000_000, waited_ns: 8_000_000 });
    let (predicted_s, in_memory_s) = (report().predicted_s.unwrap(), report().in_memory_s.unwrap());
    assert!((predicted_s / ((60 * MIB) as f64 / 1.5e9) - 1.0).abs() < 0.01, "{predicted_s}");
    // What its reads are taken to have cost in the fifth of the time in which it did not wait, it would not need.
    let reading_s = 0.2 * 60.0 * MIB as f64 * stage.tuner.state.lock().rates().reading_s_per_byte;
    assert!((in_memory_s / (0.01 - reading_s) - 1.0).abs() < 0.01, "{in_memory_s} and {reading_s}");
    assert_eq!((report().read_bytes, report().took_s), (6 * MIB, 0.005));
    drop(running);
    assert_eq!(stage.tuner.pipelines(), []);
}

#[test]
fn one_that_is_dropped_early_claims_no_memory_for_what_it_did_not_come_to() {
    let stage = Stage::new(64 * MIB);
    let running = stage.tuner.start(stage.start(1, 0..1, 60 * MIB));
    running.observe(Work { bytes: 3 * MIB, read_bytes: 3 * MIB, busy_ns: 1_000_000, waited_ns: 0 });
    drop(running);
    stage.tuner.decide();
    assert!((2 * MIB..4 * MIB).contains(&stage.quota(0)), "{:?}", stage.tuner.decision());
    drop(stage.tuner.start(stage.start(2, 1..2, 60 * MIB)));
    stage.tuner.decide();
    assert_eq!(stage.quota(1), 0, "{:?}", stage.tuner.decision());
    assert_eq!(stage.tuner.decision().read, stage.lists[..1]);
    // One that ended counts with all.
    stage.run(stage.start(3, 1..2, 30 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.tuner.decide();
    assert!(stage.quota(1) > 20 * MIB, "{:?}", stage.tuner.decision());
}

#[test]
fn what_was_known_of_a_list_is_forgotten_when_it_is_given_to_something_else() {
    let stage = Stage::new(64 * MIB);
    stage.run(stage.start(1, 0..2, 20 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.run(stage.start(2, 2..3, 20 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.tuner.decide();
    assert!(stage.quota(0) > 15 * MIB && stage.quota(2) > 15 * MIB, "{:?}", stage.tuner.decision());
    stage.tuner.pool.reuse_list(stage.lists[0]);
    stage.tuner.decide();
    assert_eq!(stage.tuner.decision().read, stage.lists[2..], "what read it along with others is gone too");
    assert_eq!((stage.quota(0), stage.quota(1)), (0, 0));
    assert!(stage.quota(2) > 15 * MIB);
    assert_eq!(stage.tuner.state.lock().shares.of(stage.lists[0]), 0.0);
    // What it is given to counts by itself.
    stage.tuner.pool.reuse_list(stage.lists[0]);
    stage.run(stage.start(4, 0..1, 8 * MIB), 6e9, 0.0, [0.0; 2]);
    stage.tuner.decide();
    assert!((6 * MIB..9 * MIB).contains(&stage.quota(0)), "{:?}", stage.tuner.decision());
}

#[test]
fn the_pool_bids_by_what_a_step_more_would_save_too() {
    use thermocline_budget::ReclaimableCache;
    let stage = Stage::new(64 * MIB);
    let pool = &stage.tuner.pool;
    assert_eq!(pool.gain(MIB), None, "it holds nothing");
    let _extent = pool.arena.take(2 * MIB).unwrap();
    stage.run(stage.start(1, 0..1, 400 * MIB), 20e9, 0.0, [0.0; 2]);
    stage.tuner.bid();
    assert!(pool.gain(4 * MIB).unwrap() > 0.0, "it has much less than it could use");
    let small = Stage::new(64 * MIB);
    let pool = &small.tuner.pool;
    let _extent = pool.arena.take(2 * MIB).unwrap();
    small.run(small.start(1, 0..1, MIB), 20e9, 0.0, [0.0; 2]);
    small.tuner.bid();
    assert_eq!(pool.gain(4 * MIB), Some(0.0), "it has all that it can use");
    assert!(pool.marginal_benefit(2 * MIB) > 0.0);
}

#[test]
fn a_decision_that_panics_is_not_the_last() {
    let stage = Stage::new(44 * MIB);
    // At the first quotas after those that it begins with.
    let (policy, calls_left) = FragilePolicy::new(PagePolicyName::Proportional, 2);
    stage.tuner.pool.set_policy(policy);
    let run = || stage.run(stage.start(1, 0..1, 60 * MIB), 6e9, 0.0, [0.0; 2]);
    run();
    wait_until(|| calls_left.load(Ordering::SeqCst) == 0);
    run();
    wait_until(|| stage.quota(0) > 0);
    assert!(stage.quota(0) > 0, "{:?}", stage.tuner.decision());
}
