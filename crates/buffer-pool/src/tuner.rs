//! Divides the pool's memory among lists by what pipelines would gain by it.
//!
//! **Owns**: what pipelines report while they run, the thread that decides anew, what was predicted and what it then took.
//! **Does not own**: the model and the programme (`placement::page_cache`), which page of a list goes (its policies).
//!
//! **Rules**: a pipeline reports each piece of its work; a report costs a short lock. Deciding happens behind the queries, as soon
//! as something new is known, and rests for [`REST_FACTOR`] times as long as it took, so that it costs at most one part in a
//! hundred of one processor. There is a thread while pipelines report, and none after [`QUIET`].
//!
//! **Concurrency**: one lock for what is known, which is not held while the programme is solved; decisions are made one after the
//! other.
//!
//! **Paper**: HPCache (DaMoN 2022), §4.3. Deviation: the first decision of a pipeline counts on what pipelines of the same plan were
//! known for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use thermocline_hardware::Clock;
use thermocline_placement::broker::BenefitCurve;
use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::model::{Combination, Pipeline, Rates, Shares, pipeline_s};
use thermocline_placement::page_cache::programmes::{Workload, benefit_curve, least_time};
use thermocline_placement::page_cache::window::{DeviceRate, Pace, PipelineWindow, RunId};

use crate::BufferPool;

/// How much longer than deciding took nothing is decided.
const REST_FACTOR: u32 = 100;
/// After so long without reports the thread ends: it keeps the pool, so it should not outlive the last query for long.
const QUIET: Duration = Duration::from_millis(50);
/// Of the last so many pipelines it is known what was predicted.
const OUTCOME_COUNT: usize = 256;
/// Points of the curve that is bid with when the budget is divided.
const CURVE_POINTS: u32 = 8;

/// What storage gives until reports say better: an NVMe disk.
const GUESSED_STORAGE_BYTES_PER_S: f64 = 1.5e9;
/// What memory is taken to give: two cores' worth. Only pipelines that do hardly more than read come near it, so that it
/// is neither measured nor corrected.
const MEMORY_BYTES_PER_S: f64 = 20e9;

/// Measures pipelines and has the pool keep what gains them most; see the module.
pub struct Tuner {
    pool: Arc<BufferPool>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a decision is made, so that none is followed by an older one.
    deciding: Mutex<()>,
}

struct State {
    window: PipelineWindow,
    storage: DeviceRate,
    shares: Shares,
    outcomes: VecDeque<PipelineOutcome>,
    is_new: bool,
    has_thread: bool,
    decision: Decision,
}

/// What was decided last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Bytes that each list may keep.
    pub quotas: Vec<(ListKey, u64)>,
    /// The lists that the pipelines remembered read, in order.
    pub read: Vec<ListKey>,
    /// Seconds that one more byte would save them.
    pub marginal_benefit_s_per_byte: f64,
}

/// A pipeline about to run.
#[derive(Debug, Clone)]
pub struct PipelineStart {
    /// The same for pipelines of the same plan, whatever the constants in it.
    pub signature: u64,
    /// What it reads, for reports.
    pub label: Arc<str>,
    /// Bytes that it will read of each list.
    pub columns: Vec<(ListKey, u64)>,
    /// How many threads will work on it.
    pub thread_count: u32,
}

/// What was predicted for a pipeline when it began, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineOutcome {
    /// Which plan it had.
    pub signature: u64,
    /// What it read.
    pub label: Arc<str>,
    /// Bytes of all its columns.
    pub size_bytes: u64,
    /// Of these, read from storage.
    pub read_bytes: u64,
    /// P as it was seen.
    pub throughput_bytes_per_s: f64,
    /// Predicted when it began; `None` if no pipeline of its plan had run before.
    pub predicted_s: Option<f64>,
    /// Predicted with all its columns in memory, by P as it was seen.
    pub in_memory_s: f64,
    /// What it took.
    pub took_s: f64,
}

/// A pipeline that runs. One that is never finished counts by what it has reported.
pub struct RunningPipeline {
    tuner: Arc<Tuner>,
    run: RunId,
    start: PipelineStart,
    size_bytes: u64,
    predicted_s: Option<f64>,
    pace: Mutex<Pace>,
}

impl Tuner {
    /// Tunes `pool`, of which nothing is known yet.
    pub fn new(pool: Arc<BufferPool>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = State {
            window: PipelineWindow::default(),
            storage: DeviceRate::new(GUESSED_STORAGE_BYTES_PER_S),
            shares: Shares::default(),
            outcomes: VecDeque::new(),
            is_new: false,
            has_thread: false,
            decision: Decision::default(),
        };
        Arc::new(Self { pool, clock, state: Mutex::new(state), changed: Condvar::new(), deciding: Mutex::default() })
    }

    /// A pipeline begins.
    pub fn start(self: &Arc<Self>, start: PipelineStart) -> RunningPipeline {
        let size_bytes = start.columns.iter().map(|(_, bytes)| bytes).sum();
        let held = self.pool.shares(&start.columns);
        let (run, known_bytes_per_s, rates) = {
            let mut state = self.state.lock();
            let known_bytes_per_s = state.window.known_throughput(start.signature);
            let run = state.window.start(start.signature, start.columns.clone());
            (run, known_bytes_per_s, state.rates())
        };
        let predicted_s = known_bytes_per_s.map(|throughput_bytes_per_s| {
            let pipeline = Pipeline { columns: start.columns.clone(), throughput_bytes_per_s, weight: 1.0 };
            pipeline_s(&pipeline, rates, &held, Combination::default())
        });
        let pace = Mutex::new(Pace::new(start.thread_count, size_bytes, known_bytes_per_s));
        self.note_news();
        RunningPipeline { tuner: Arc::clone(self), run, start, size_bytes, predicted_s, pace }
    }

    /// What was predicted and what came of it, of the last pipelines that ended, the oldest first.
    pub fn outcomes(&self) -> Vec<PipelineOutcome> {
        self.state.lock().outcomes.iter().cloned().collect()
    }

    /// What was decided last.
    pub fn decision(&self) -> Decision {
        self.state.lock().decision.clone()
    }

    /// Seconds that a pipeline of this plan would take with what is in memory now; `None` if none has run lately.
    pub fn predicted_s(&self, signature: u64, columns: &[(ListKey, u64)]) -> Option<f64> {
        let held = self.pool.shares(columns);
        let state = self.state.lock();
        let throughput_bytes_per_s = state.window.known_throughput(signature)?;
        let pipeline = Pipeline { columns: columns.to_vec(), throughput_bytes_per_s, weight: 1.0 };
        Some(pipeline_s(&pipeline, state.rates(), &held, Combination::default()))
    }

    /// Has the division decided anew, on the tuner's thread.
    fn note_news(self: &Arc<Self>) {
        let needs_thread = {
            let mut state = self.state.lock();
            state.is_new = true;
            !std::mem::replace(&mut state.has_thread, true)
        };
        self.changed.notify_one();
        if needs_thread {
            let tuner = Arc::downgrade(self);
            let thread = std::thread::Builder::new().name("thermocline-tuner".to_string());
            if thread.spawn(move || Self::run(&tuner)).is_err() {
                // Nothing is decided then; the next report tries again.
                self.state.lock().has_thread = false;
            }
        }
    }

    fn run(tuner: &Weak<Self>) {
        while let Some(tuner) = tuner.upgrade() {
            {
                let mut state = tuner.state.lock();
                if !state.is_new {
                    let timed_out = tuner.changed.wait_for(&mut state, QUIET).timed_out();
                    if timed_out && !state.is_new {
                        state.has_thread = false;
                        return;
                    }
                }
            }
            let began_ns = tuner.clock.monotonic_ns();
            tuner.decide();
            let took_ns = tuner.clock.monotonic_ns().saturating_sub(began_ns);
            drop(tuner);
            std::thread::sleep(Duration::from_nanos(took_ns) * REST_FACTOR);
        }
    }

    /// Decides from what is known now, and has the pool follow.
    pub fn decide(&self) {
        let _turn = self.deciding.lock();
        self.pool.make_room();
        let (pipelines, rates, earlier) = {
            let mut state = self.state.lock();
            state.is_new = false;
            (state.window.merged(), state.rates(), state.shares.clone())
        };
        let memory_bytes = self.pool.capacity_bytes();
        let workload =
            Workload { pipelines: &pipelines, rates, combination: Combination::default(), earlier: &earlier };
        // Where the solver fails the earlier quotas stay good.
        let Ok(placement) = least_time(workload, memory_bytes) else { return };
        self.pool.set_quotas(&placement.quotas);
        if let Ok(curve) = benefit_curve(workload, memory_bytes, CURVE_POINTS) {
            self.pool.set_marginal_benefit(Box::new(move |bytes| lost_s_per_byte(&curve, memory_bytes, bytes)));
        }
        let mut read: Vec<ListKey> =
            pipelines.iter().flat_map(|pipeline| pipeline.columns.iter().map(|(list, _)| *list)).collect();
        read.sort_unstable();
        read.dedup();
        let mut state = self.state.lock();
        state.shares = placement.shares;
        state.decision = Decision {
            quotas: placement.quotas,
            read,
            marginal_benefit_s_per_byte: placement.marginal_benefit_s_per_byte,
        };
    }
}

/// Seconds lost for each of `bytes` if they were taken away.
fn lost_s_per_byte(curve: &BenefitCurve, memory_bytes: u64, bytes: u64) -> f64 {
    let bytes = bytes.clamp(1, memory_bytes.max(1));
    (curve.seconds(memory_bytes) - curve.seconds(memory_bytes - bytes.min(memory_bytes))) / bytes as f64
}

impl State {
    fn rates(&self) -> Rates {
        Rates { storage_bytes_per_s: self.storage.bytes_per_s(), memory_bytes_per_s: MEMORY_BYTES_PER_S }
    }
}

impl RunningPipeline {
    /// One thread has worked so long on so many bytes that were in memory by then; waiting for them is not counted.
    pub fn observe(&self, bytes: u64, busy_ns: u64) {
        let throughput = {
            let mut pace = self.pace.lock();
            pace.observe(bytes, busy_ns);
            pace.throughput_bytes_per_s()
        };
        if let Some(throughput) = throughput {
            self.tuner.state.lock().window.estimate(self.run, throughput);
            self.tuner.note_news();
        }
    }

    /// It has read everything: `read_bytes` of it from storage, `device_bound_ns` of the `took_ns` with nothing to work on.
    pub fn finish(&self, read_bytes: u64, took_ns: u64, device_bound_ns: u64) {
        let Some(throughput_bytes_per_s) = self.pace.lock().throughput_bytes_per_s() else { return };
        let mut state = self.tuner.state.lock();
        state.window.finish(self.run, throughput_bytes_per_s);
        // Storage has set the pace if work waited for it for the most part.
        if read_bytes > 0 && device_bound_ns * 2 > took_ns {
            state.storage.observe(read_bytes, took_ns);
        }
        let columns = self.start.columns.clone();
        let pipeline = Pipeline { columns, throughput_bytes_per_s, weight: 1.0 };
        let whole = Shares::new(pipeline.columns.iter().map(|(list, _)| (*list, 1.0)));
        let in_memory_s = pipeline_s(&pipeline, state.rates(), &whole, Combination::default());
        if state.outcomes.len() == OUTCOME_COUNT {
            state.outcomes.pop_front();
        }
        state.outcomes.push_back(PipelineOutcome {
            signature: self.start.signature,
            label: Arc::clone(&self.start.label),
            size_bytes: self.size_bytes,
            read_bytes,
            throughput_bytes_per_s,
            predicted_s: self.predicted_s,
            in_memory_s,
            took_s: took_ns as f64 * 1e-9,
        });
        drop(state);
        self.tuner.note_news();
    }
}

impl fmt::Debug for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuner").field("decision", &self.state.lock().decision).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunningPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningPipeline").field("label", &self.start.label).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use thermocline_budget::Budget;
    use thermocline_hardware::ManualClock;
    use thermocline_placement::page_cache::PagePolicyName;

    use super::*;
    use crate::PoolOptions;

    const MIB: u64 = 1 << 20;

    fn tuner(memory_bytes: u64) -> (Arc<Tuner>, Vec<ListKey>) {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let budget = Budget::new(memory_bytes, None);
        let policy = PagePolicyName::Proportional.build();
        let pool = BufferPool::new(PoolOptions::default(), &budget, policy, Arc::clone(&clock)).unwrap();
        let lists = (0..3).map(|_| pool.new_list()).collect();
        (Tuner::new(pool, clock), lists)
    }

    fn start(signature: u64, lists: &[ListKey], bytes: u64) -> PipelineStart {
        let columns = lists.iter().map(|list| (*list, bytes)).collect();
        PipelineStart { signature, label: format!("plan {signature}").into(), columns, thread_count: 2 }
    }

    /// A pipeline of two threads that works at `bytes_per_s` in all.
    fn run(tuner: &Arc<Tuner>, start: PipelineStart, bytes_per_s: f64) {
        let running = tuner.start(start);
        let bytes = running.size_bytes / 4;
        for _ in 0..4 {
            running.observe(bytes, (bytes as f64 / bytes_per_s * 2e9) as u64);
        }
        running.finish(running.size_bytes, (running.size_bytes as f64 / bytes_per_s * 1e9) as u64, 0);
    }

    fn quota(tuner: &Tuner, list: ListKey) -> u64 {
        tuner.decision().quotas.iter().find(|(of, _)| *of == list).map_or(0, |(_, bytes)| *bytes)
    }

    #[test]
    fn memory_goes_to_what_storage_is_too_slow_for() {
        let (tuner, lists) = tuner(100 * MIB);
        run(&tuner, start(1, &lists[..1], 60 * MIB), 6e9);
        run(&tuner, start(2, &lists[1..2], 60 * MIB), 0.2e9);
        tuner.decide();
        // Storage is taken to give 1.5 GB/s: three quarters must come from memory for 6 GB/s.
        let wanted = quota(&tuner, lists[0]) as f64 / (60 * MIB) as f64;
        assert!((0.74..0.76).contains(&wanted), "{wanted}");
        assert_eq!(quota(&tuner, lists[1]), 0);
        assert_eq!(tuner.decision().read, lists[..2]);
        assert_eq!(tuner.decision().marginal_benefit_s_per_byte, 0.0);
    }

    #[test]
    fn what_runs_more_often_comes_first_where_memory_is_short() {
        let (tuner, lists) = tuner(32 * MIB);
        for _ in 0..3 {
            run(&tuner, start(1, &lists[..1], 60 * MIB), 20e9);
        }
        run(&tuner, start(2, &lists[1..2], 60 * MIB), 20e9);
        tuner.decide();
        assert!(quota(&tuner, lists[0]) > 25 * MIB, "{:?}", tuner.decision());
        assert!(quota(&tuner, lists[1]) < MIB);
        assert!(tuner.decision().marginal_benefit_s_per_byte > 0.0);
    }

    #[test]
    fn a_plan_is_predicted_once_one_like_it_has_run() {
        let (tuner, lists) = tuner(100 * MIB);
        assert_eq!(tuner.predicted_s(1, &[(lists[0], 60 * MIB)]), None);
        for _ in 0..2 {
            run(&tuner, start(1, &lists[..1], 60 * MIB), 0.5e9);
        }
        let outcomes = tuner.outcomes();
        let took_s = (60 * MIB) as f64 / 0.5e9;
        assert_eq!(outcomes[0].predicted_s, None);
        let predicted_s = outcomes[1].predicted_s.unwrap();
        assert!((predicted_s / took_s - 1.0).abs() < 0.01, "{predicted_s} of {took_s}");
        assert!((outcomes[1].took_s / took_s - 1.0).abs() < 0.01);
    }
}
