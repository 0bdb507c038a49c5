//! Divides the pool's memory among lists by what pipelines would gain by it.
//!
//! **Owns**: what pipelines report while they run, the thread that decides anew, what was predicted and what it then
//! took. **Does not own**: the model and the programme (`placement::page_cache`), which page of a list goes (its
//! policies), the sums of one pipeline (`running_pipeline`).
//!
//! **Rules**: a pipeline reports each piece of its work; a report costs a short lock. Deciding happens behind the
//! queries, as soon as something new is known, and rests between decisions (`rest`); a pipeline that begins does not
//! wait for that, since the first pages that it reads are kept or not by the quotas that there are. What the pool bids
//! with when the budget is divided takes several programmes and rests by itself. There is a thread while pipelines
//! report, and none after [`QUIET`].
//!
//! **Concurrency**: one lock for what is known, which is not held while the programme is solved; decisions are made one
//! after the other.
//!
//! **Paper**: HPCache (DaMoN 2022), §4.3. Deviation: the first decision of a pipeline counts on what pipelines of the
//! same plan were known for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thermocline_hardware::Clock;
use thermocline_placement::broker::BenefitCurve;
use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::lending::lend;
use thermocline_placement::page_cache::model::{Combination, Pipeline, Rates, Shares};
use thermocline_placement::page_cache::programmes::{Workload, benefit_curve, next_placement};
use thermocline_placement::page_cache::window::{DeviceRate, PipelineWindow, RunId, SHORTEST_REPORT_NS};

use crate::rest::Rest;
use crate::running_pipeline::Progress;
use crate::{BufferPool, PipelineReport, PipelineStart, RunningPipeline, Work};

/// After so long without reports the thread ends: it keeps the pool, so it should not outlive the last query for long.
const QUIET: Duration = Duration::from_millis(50);
/// Of the last so many pipelines it is known what was predicted.
const ENDED_COUNT: usize = 256;
/// Room is lent for a pipeline that reads at least one part in so many of the memory: hardly any is missing to others.
const LARGE_PART: u64 = 64;
/// Points of the curve that is bid with when the budget is divided.
const CURVE_POINTS: u32 = 8;

/// What storage gives until reports say better: an NVMe disk.
const GUESSED_STORAGE_BYTES_PER_S: f64 = 1.5e9;
/// What memory is taken to give: two cores' worth. Only pipelines that do hardly more than read come near it, so that
/// it is neither measured nor corrected.
const MEMORY_BYTES_PER_S: f64 = 20e9;

/// Measures pipelines and has the pool keep what gains them most; see the module.
pub struct Tuner {
    pool: Arc<BufferPool>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a decision is made, so that none is followed by an older one.
    turn: Mutex<()>,
}

struct State {
    window: PipelineWindow,
    storage: DeviceRate,
    shares: Shares,
    running: BTreeMap<RunId, Progress>,
    /// The last ones, the oldest first.
    ended: VecDeque<PipelineReport>,
    /// Whether something is known that the last decision did not know,
    is_new: bool,
    /// and that a pipeline has begun.
    is_urgent: bool,
    /// Whether a pipeline has begun that room may be lent for.
    must_lend: bool,
    has_thread: bool,
    /// What each list may keep in whatever order pipelines come.
    standing_quotas: Vec<(ListKey, u64)>,
    deciding: Rest,
    lending: Rest,
    bidding: Rest,
    decision: Decision,
}

/// What was decided last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Bytes that each list may keep for now.
    pub quotas: Vec<(ListKey, u64)>,
    /// The lists that the pipelines remembered read, in order.
    pub read: Vec<ListKey>,
    /// Seconds that one more byte would save them.
    pub marginal_benefit_s_per_byte: f64,
}

impl Tuner {
    /// Tunes `pool`, of which nothing is known yet.
    pub fn new(pool: Arc<BufferPool>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            window: PipelineWindow::default(),
            storage: DeviceRate::new(GUESSED_STORAGE_BYTES_PER_S),
            shares: Shares::default(),
            running: BTreeMap::new(),
            ended: VecDeque::new(),
            is_new: false,
            is_urgent: false,
            must_lend: false,
            has_thread: false,
            standing_quotas: Vec::new(),
            deciding: Rest::default(),
            lending: Rest::default(),
            bidding: Rest::default(),
            decision: Decision::default(),
        };
        Arc::new(Self { pool, clock, state: Mutex::new(state), changed: Condvar::new(), turn: Mutex::default() })
    }

    /// A pipeline begins.
    pub fn start(self: &Arc<Self>, start: PipelineStart) -> RunningPipeline {
        let held = self.pool.shares(&start.columns);
        let begun = (self.clock.monotonic_ns(), self.pool.mapped_bytes());
        let is_large = start.columns.iter().map(|(_, bytes)| bytes).sum::<u64>() >= self.pool.mapped_bytes() / LARGE_PART;
        let run = {
            let mut state = self.state.lock();
            state.must_lend |= is_large;
            let (signature, columns) = (start.signature, start.columns.clone());
            let progress = Progress::new(start, held, (&state.window, state.rates()), begun);
            let run = state.window.start(signature, columns);
            state.running.insert(run, progress);
            run
        };
        self.note_news(true);
        RunningPipeline { tuner: Arc::clone(self), run }
    }

    /// Some of a pipeline is done.
    pub(crate) fn observe(self: &Arc<Self>, run: RunId, work: Work) {
        let mapped_bytes = self.pool.mapped_bytes();
        let mut state = self.state.lock();
        let rates = state.rates();
        let Some(progress) = state.running.get_mut(&run) else { return };
        progress.add(work, mapped_bytes);
        if let Some(throughput_bytes_per_s) = progress.pace().throughput_bytes_per_s(rates) {
            state.window.estimate(run, throughput_bytes_per_s);
            drop(state);
            self.note_news(false);
        }
    }

    /// All of a pipeline is done, and it asked for these bytes of its lists if that was seen.
    pub(crate) fn finish(self: &Arc<Self>, run: RunId, asked: Option<Vec<(ListKey, u64)>>) {
        let (now_ns, mapped_bytes) = (self.clock.monotonic_ns(), self.pool.mapped_bytes());
        {
            let mut state = self.state.lock();
            let Some(mut progress) = state.running.remove(&run) else { return };
            state.learn_of_device(&self.pool);
            state.window.finish(run, progress.end(asked.as_deref(), (now_ns, mapped_bytes)), asked.as_deref());
            let report = progress.report(false, (&state.window, state.rates()), now_ns);
            if state.ended.len() == ENDED_COUNT {
                state.ended.pop_front();
            }
            state.ended.push_back(report);
        }
        self.note_news(false);
    }

    /// A pipeline is not heard of any more.
    pub(crate) fn give_up(&self, run: RunId) {
        self.state.lock().running.remove(&run);
    }

    /// The last pipelines that ended, the oldest first, and then those that run.
    pub fn pipelines(&self) -> Vec<PipelineReport> {
        let now_ns = self.clock.monotonic_ns();
        let state = self.state.lock();
        let known = (&state.window, state.rates());
        let running = state.running.values().map(|progress| progress.report(true, known, now_ns));
        state.ended.iter().cloned().chain(running).collect()
    }

    /// The last pipeline of this plan that ended.
    pub fn last_ended(&self, signature: u64) -> Option<PipelineReport> {
        self.state.lock().ended.iter().rev().find(|ended| ended.signature == signature).cloned()
    }

    /// What was decided last.
    pub fn decision(&self) -> Decision {
        self.state.lock().decision.clone()
    }

    /// Seconds that a pipeline of this plan would take with what is in memory now; `None` if none has run lately.
    pub fn predicted_s(&self, signature: u64, columns: &[(ListKey, u64)]) -> Option<f64> {
        let held = self.pool.shares(columns);
        let state = self.state.lock();
        let (window, rates) = (&state.window, state.rates());
        let throughput_bytes_per_s = window.known_throughput(signature, rates)?;
        let columns = window.expected(signature, columns);
        Some(window.predicted_s(signature, &columns, &held, throughput_bytes_per_s, rates))
    }

    /// Has the division decided anew, on the tuner's thread.
    fn note_news(self: &Arc<Self>, is_urgent: bool) {
        let needs_thread = {
            let mut state = self.state.lock();
            // One that waits for its rest to end knows of news, and is not woken by each report.
            if !state.is_new || is_urgent {
                self.changed.notify_one();
            }
            state.is_new = true;
            state.is_urgent |= is_urgent;
            !std::mem::replace(&mut state.has_thread, true)
        };
        if needs_thread {
            let tuner = Arc::downgrade(self);
            let thread = std::thread::Builder::new().name("thermocline-tuner".to_string());
            if thread.spawn(move || while tuner.upgrade().is_some_and(|tuner| tuner.decide_in_time()) {}).is_err() {
                // Nothing is decided then; the next report tries again.
                self.state.lock().has_thread = false;
            }
        }
    }

    /// Waits for news and for the end of its rest, but not for long: a tuner that waits keeps the pool. Decides if both
    /// are there. Whether the thread should go on.
    fn decide_in_time(&self) -> bool {
        {
            let mut state = self.state.lock();
            let now_ns = self.clock.monotonic_ns();
            let until_decided = if state.is_new { state.deciding.left(now_ns, state.is_urgent) } else { Some(QUIET) };
            let until_lent = if state.must_lend { state.lending.left(now_ns, true) } else { Some(QUIET) };
            if until_decided.is_some() && until_lent.is_none() {
                drop(state);
                self.work_and_rest(Self::lend, |state| &mut state.lending);
                return true;
            }
            if let (Some(until_decided), Some(until_lent)) = (until_decided, until_lent) {
                let waits = until_decided.min(until_lent).min(QUIET);
                let timed_out = self.changed.wait_for(&mut state, waits).timed_out();
                state.has_thread = state.is_new || state.must_lend || !timed_out;
                return state.has_thread;
            }
        }
        self.work_and_rest(Self::decide, |state| &mut state.deciding);
        let must_bid = self.state.lock().bidding.left(self.clock.monotonic_ns(), false).is_none();
        if must_bid {
            self.work_and_rest(Self::bid, |state| &mut state.bidding);
        }
        true
    }

    fn work_and_rest(&self, work: impl FnOnce(&Self), rest: impl FnOnce(&mut State) -> &mut Rest) {
        let began_ns = self.clock.thread_cpu_ns();
        work(self);
        let took = Duration::from_nanos(self.clock.thread_cpu_ns().saturating_sub(began_ns));
        rest(&mut self.state.lock()).follow(self.clock.monotonic_ns(), took);
    }

    /// Decides from what is known now, and has the pool follow.
    pub fn decide(&self) {
        let _turn = self.turn.lock();
        self.pool.make_room();
        let known = {
            let mut state = self.state.lock();
            (state.is_new, state.is_urgent) = (false, false);
            state.learn_of_device(&self.pool);
            state.known()
        };
        // Where the solver fails the earlier quotas stay good.
        let Ok(placement) = next_placement(known.workload(), self.pool.keepable_bytes()) else { return };
        let mut read: Vec<ListKey> =
            known.pipelines.iter().flat_map(|pipeline| pipeline.columns.iter().map(|(list, _)| *list)).collect();
        read.sort_unstable();
        read.dedup();
        {
            let mut state = self.state.lock();
            state.shares = placement.shares;
            state.standing_quotas = placement.quotas;
            state.decision.read = read;
            state.decision.marginal_benefit_s_per_byte = placement.marginal_benefit_s_per_byte;
        }
        self.set_quotas();
    }

    /// Has lists lend each other room for the pipeline that began last, and the pool follow.
    fn lend(&self) {
        let _turn = self.turn.lock();
        self.set_quotas();
    }

    /// Has the pool follow what was decided, for now.
    fn set_quotas(&self) {
        let (standing_quotas, outlook, rates) = {
            let mut state = self.state.lock();
            state.must_lend = false;
            let rates = state.rates();
            (state.standing_quotas.clone(), state.window.outlook(rates), rates)
        };
        let quotas = lend(&standing_quotas, &outlook, rates);
        self.pool.set_quotas(&quotas);
        self.state.lock().decision.quotas = quotas;
    }

    /// Has the pool bid with what its memory is worth by what is known now.
    fn bid(&self) {
        let known = self.state.lock().known();
        let memory_bytes = self.pool.keepable_bytes();
        if let Ok(curve) = benefit_curve(known.workload(), memory_bytes, CURVE_POINTS) {
            self.pool.set_marginal_benefit(Box::new(move |bytes| lost_s_per_byte(&curve, memory_bytes, bytes)));
        }
    }
}

/// What a decision is made from.
struct Known {
    pipelines: Vec<Pipeline>,
    rates: Rates,
    earlier: Shares,
}

impl Known {
    fn workload(&self) -> Workload<'_> {
        let Self { pipelines, rates, earlier } = self;
        Workload { pipelines, rates: *rates, combination: Combination::default(), earlier }
    }
}

/// Seconds lost for each of `bytes` if they were taken away.
fn lost_s_per_byte(curve: &BenefitCurve, memory_bytes: u64, bytes: u64) -> f64 {
    let bytes = bytes.clamp(1, memory_bytes.max(1));
    (curve.seconds(memory_bytes) - curve.seconds(memory_bytes - bytes.min(memory_bytes))) / bytes as f64
}

impl State {
    fn rates(&self) -> Rates {
        let storage_bytes_per_s = self.storage.bytes_per_s();
        Rates {
            storage_bytes_per_s,
            memory_bytes_per_s: MEMORY_BYTES_PER_S,
            reading_s_per_byte: self.window.reading_s_per_byte(storage_bytes_per_s),
        }
    }

    fn known(&self) -> Known {
        let rates = self.rates();
        Known { pipelines: self.window.merged(rates), rates, earlier: self.shares.clone() }
    }

    fn learn_of_device(&mut self, pool: &BufferPool) {
        if let Some(work) = pool.device.take(SHORTEST_REPORT_NS) {
            self.storage.observe(work.bytes, work.busy_ns);
        }
    }
}

impl fmt::Debug for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuner").field("decision", &self.state.lock().decision).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Range;

    use thermocline_budget::Budget;
    use thermocline_hardware::{ManualClock, SystemClock};
    use thermocline_placement::page_cache::PagePolicyName;

    use super::*;
    use crate::PoolOptions;

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

        fn quota(&self, list: usize) -> u64 {
            let quotas = self.tuner.decision().quotas;
            quotas.iter().find(|(of, _)| *of == self.lists[list]).map_or(0, |(_, bytes)| *bytes)
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
        stage.tuner.state.lock().deciding.follow(0, Duration::from_micros(400));
        let running = stage.tuner.start(stage.start(1, 0..1, 60 * MIB));
        let (time, end_ns) = (SystemClock::new(), 20_000_000_000);
        while stage.quota(0) == 0 && time.monotonic_ns() < end_ns {
            std::thread::yield_now();
        }
        assert!(stage.quota(0) > 50 * MIB, "{:?}", stage.tuner.decision());
        drop(running);
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
}
