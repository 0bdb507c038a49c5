//! Divides the pool's memory among lists by what pipelines would gain by it.
//!
//! **Owns**: what pipelines report while they run, the thread that decides anew, what was predicted and what it then
//! took. **Does not own**: the model and the programme (`placement::page_cache`), which page of a list goes (its
//! policies), the sums of one pipeline (`running_pipeline`).
//!
//! **Rules**: a pipeline reports each piece of its work; a report costs a short lock. Deciding happens behind the
//! queries, as soon as something new is known, and rests between decisions (`rest`); a pipeline that begins does not
//! wait for that, since the first pages that it reads are kept or not by the quotas that there are. Room that lists lend
//! each other until they are used again is decided when a large pipeline begins, in a fraction of that time, and what
//! the pool bids with when the budget is divided takes several programmes: both rest by themselves. While nothing is to
//! be decided the thread moves the pool's memory to huge pages, where it is to lie on them. There is a thread while
//! pipelines report or memory is to be moved, and none after [`QUIET`].
//!
//! **Concurrency**: one lock for what is known, which is not held while the programme is solved; decisions are made one
//! after the other.
//!
//! **Paper**: HPCache (DaMoN 2022), §4.3. Deviation: the first decision of a pipeline counts on what pipelines of the
//! same plan were known for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thermocline_hardware::Clock;
use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::lending::{Standing, lend};
use thermocline_placement::page_cache::model::{Combination, Pipeline, Rates, Shares, list_bytes};
use thermocline_placement::page_cache::programmes::{Workload, benefit_curve, next_placement};
use thermocline_placement::page_cache::window::{DeviceRate, PipelineWindow, RunId, SHORTEST_REPORT_NS};

use crate::pool::Worth;
use crate::rest::{self, Rest};
use crate::running_pipeline::{Progress, Watched};
use crate::{BufferPool, PipelineReport, PipelineStart, RunningPipeline, Work};

/// After so long without reports the thread ends: it keeps the pool, so it should not outlive the last query for long.
const QUIET: Duration = Duration::from_millis(50);
/// Of the last so many pipelines it is known what was predicted.
const ENDED_COUNT: usize = 256;
/// Room is lent for a pipeline that reads at least one part in so many of the memory: hardly any is missing to others.
const LARGE_PART: u64 = 64;
/// How much longer than it moves memory to huge pages it rests, unless it is quiet: then it rests as long.
const ENLARGING_REST: u32 = 40;
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
    /// when that was reported,
    news_ns: u64,
    /// and that a pipeline has begun.
    is_urgent: bool,
    /// What was decided last, in whatever order pipelines come,
    standing: Standing,
    /// and whether a large pipeline has begun since for which lists may lend each other room.
    must_lend: bool,
    has_thread: bool,
    deciding: Rest,
    lending: Rest,
    bidding: Rest,
    enlarging: Rest,
    decision: Decision,
}

/// What was decided last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Bytes that each list may keep for now.
    pub quotas: Vec<(ListKey, u64)>,
    /// Bytes that each may keep in whatever order pipelines come: without what lists lend each other.
    pub standing_quotas: Vec<(ListKey, u64)>,
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
            news_ns: 0,
            is_urgent: false,
            standing: Standing::default(),
            must_lend: false,
            has_thread: false,
            deciding: Rest::default(),
            lending: Rest::default(),
            bidding: Rest::default(),
            enlarging: Rest::default(),
            decision: Decision::default(),
        };
        Arc::new(Self { pool, clock, state: Mutex::new(state), changed: Condvar::new(), turn: Mutex::default() })
    }

    /// A pipeline begins.
    pub fn start(self: &Arc<Self>, start: PipelineStart) -> RunningPipeline {
        let watched = Watched::begin(&start);
        let held = self.pool.shares(&start.columns);
        let begun = (self.clock.monotonic_ns(), self.pool.mapped_bytes());
        let is_large =
            start.columns.iter().map(|(_, bytes)| bytes).sum::<u64>() >= self.pool.mapped_bytes() / LARGE_PART;
        let memory_bytes = if is_large { self.pool.keepable_bytes() } else { 0 };
        let run = {
            let mut state = self.state.lock();
            state.forget_reused(&self.pool);
            let (signature, columns) = (start.signature, start.columns.clone());
            let progress = Progress::new(start, held, (&state.window, state.rates()), begun);
            let run = state.window.start(signature, columns);
            let begun = state.window.last_columns();
            let may_lend = is_large && state.standing.with_begun(begun, memory_bytes).may_lend(begun);
            state.must_lend |= may_lend;
            state.running.insert(run, progress);
            run
        };
        self.note_news(true);
        RunningPipeline { tuner: Arc::clone(self), run, watched }
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

    /// A pipeline is not heard of any more. Unless it has ended it counts by what it did: one that stopped early may
    /// have asked for hardly any of its columns.
    pub(crate) fn give_up(self: &Arc<Self>, run: RunId) {
        {
            let mut state = self.state.lock();
            let Some(progress) = state.running.remove(&run) else { return };
            state.window.give_up(run, progress.done_part());
        }
        self.note_news(false);
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

    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// What the next decision would be made from.
    pub(crate) fn known(&self) -> Known {
        let mut state = self.state.lock();
        state.forget_reused(&self.pool);
        state.known()
    }

    /// Has the division decided anew, on the tuner's thread.
    fn note_news(self: &Arc<Self>, is_urgent: bool) {
        let now_ns = self.clock.monotonic_ns();
        let needs_thread = {
            let mut state = self.state.lock();
            state.news_ns = now_ns;
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

    /// Does what is to be done, or waits for news and for the end of its rest, but not for long: a tuner that waits keeps
    /// the pool. Whether the thread should go on.
    fn decide_in_time(&self) -> bool {
        let mut state = self.state.lock();
        let now_ns = self.clock.monotonic_ns();
        let has_small_pages = self.pool.has_small_pages();
        let until = |is_wanted: bool, rest: Rest, is_urgent: bool| {
            if is_wanted { rest.left(now_ns, is_urgent) } else { Some(QUIET) }
        };
        let until_decided = until(state.is_new, state.deciding, state.is_urgent);
        let until_lent = until(state.must_lend, state.lending, true);
        let until_enlarged = until(has_small_pages, state.enlarging, false);
        match (until_decided, until_lent, until_enlarged) {
            (None, _, _) => {
                drop(state);
                self.work_and_rest(Self::decide, |state| (&mut state.deciding, rest::LONG));
                let must_bid = self.state.lock().bidding.left(self.clock.monotonic_ns(), false).is_none();
                if must_bid {
                    self.work_and_rest(Self::bid, |state| (&mut state.bidding, rest::LONG));
                }
                true
            }
            (_, None, _) => {
                drop(state);
                self.work_and_rest(Self::lend, |state| (&mut state.lending, rest::LONG));
                true
            }
            (_, _, None) => {
                let is_quiet = state.running.is_empty() && now_ns >= state.news_ns + QUIET.as_nanos() as u64;
                drop(state);
                let factor = if is_quiet { 1 } else { ENLARGING_REST };
                self.work_and_rest(|tuner| tuner.pool.enlarge_pages(), |state| (&mut state.enlarging, factor));
                true
            }
            (Some(until_decided), Some(until_lent), Some(until_enlarged)) => {
                let waits = until_decided.min(until_lent).min(until_enlarged).min(QUIET);
                let timed_out = self.changed.wait_for(&mut state, waits).timed_out();
                state.has_thread = state.is_new || state.must_lend || has_small_pages || !timed_out;
                state.has_thread
            }
        }
    }

    /// Does some work, and rests for so many times as long. A panic, of which the panic hook tells, ends the work and
    /// not the thread: there would never be another.
    fn work_and_rest(&self, work: impl FnOnce(&Self), rest: impl FnOnce(&mut State) -> (&mut Rest, u32)) {
        let began_ns = self.clock.thread_cpu_ns();
        // No lock is held over it, and what was decided before stays good.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| work(self)));
        let worked = Duration::from_nanos(self.clock.thread_cpu_ns().saturating_sub(began_ns));
        let mut state = self.state.lock();
        let (rest, factor) = rest(&mut state);
        rest.follow(self.clock.monotonic_ns(), worked, factor);
    }

    /// Decides from what is known now, and has the pool follow.
    pub fn decide(&self) {
        let _turn = self.turn.lock();
        self.pool.make_room();
        let known = {
            let mut state = self.state.lock();
            (state.is_new, state.is_urgent) = (false, false);
            state.learn_of_device(&self.pool);
            state.forget_reused(&self.pool);
            state.known()
        };
        // Where the solver fails the earlier quotas stay good.
        let Ok(placement) = next_placement(known.workload(), self.pool.keepable_bytes()) else { return };
        let asked_bytes = list_bytes(&known.pipelines);
        let mut read: Vec<ListKey> =
            known.pipelines.iter().flat_map(|pipeline| pipeline.columns.iter().map(|(list, _)| *list)).collect();
        read.sort_unstable();
        read.dedup();
        {
            let mut state = self.state.lock();
            state.shares = placement.shares;
            state.decision.standing_quotas.clone_from(&placement.quotas);
            state.standing = Standing { quotas: placement.quotas, asked_bytes };
            state.decision.read = read;
            state.decision.marginal_benefit_s_per_byte = placement.marginal_benefit_s_per_byte;
        }
        let quotas = self.quotas_for_now();
        self.pool.set_quotas(&quotas);
        self.state.lock().decision.quotas = quotas;
    }

    /// Has lists lend each other room by which pipeline began last, and the pool follow if that changes anything.
    fn lend(&self) {
        let _turn = self.turn.lock();
        let quotas = self.quotas_for_now();
        if self.state.lock().decision.quotas != quotas {
            self.pool.set_quotas(&quotas);
            self.state.lock().decision.quotas = quotas;
        }
    }

    /// What was decided, with what is lent.
    fn quotas_for_now(&self) -> Vec<(ListKey, u64)> {
        let memory_bytes = self.pool.keepable_bytes();
        let (standing, outlook, rates) = {
            let mut state = self.state.lock();
            state.must_lend = false;
            let begun = state.window.last_columns();
            let standing = state.standing.with_begun(begun, memory_bytes);
            if !standing.may_lend(begun) {
                return state.standing.quotas.clone();
            }
            let rates = state.rates();
            (standing, state.window.outlook(rates), rates)
        };
        lend(&standing.quotas, &outlook, rates)
    }

    /// Has the pool bid with what its memory is worth by what is known now.
    fn bid(&self) {
        let known = self.known();
        // A step more too: it bids for that itself.
        let known_bytes = self.pool.keepable_bytes().saturating_add(self.pool.step_bytes());
        if let Ok(curve) = benefit_curve(known.workload(), known_bytes, CURVE_POINTS) {
            self.pool.set_worth(Worth { curve, known_bytes });
        }
    }
}

/// What a decision is made from.
pub(crate) struct Known {
    pipelines: Vec<Pipeline>,
    rates: Rates,
    earlier: Shares,
}

impl Known {
    pub(crate) fn workload(&self) -> Workload<'_> {
        let Self { pipelines, rates, earlier } = self;
        Workload { pipelines, rates: *rates, combination: Combination::default(), earlier }
    }
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

    /// Forgets what was known of lists that mean something else by now.
    fn forget_reused(&mut self, pool: &BufferPool) {
        let reused = pool.take_reused();
        if reused.is_empty() {
            return;
        }
        self.window.forget(&reused);
        self.shares = Shares::new(self.shares.iter().filter(|(list, _)| !reused.contains(list)));
        self.standing.forget(&reused);
        let Decision { quotas, standing_quotas, read, .. } = &mut self.decision;
        quotas.retain(|(list, _)| !reused.contains(list));
        standing_quotas.retain(|(list, _)| !reused.contains(list));
        read.retain(|list| !reused.contains(list));
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
mod tests;
