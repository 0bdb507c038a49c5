//! A pipeline that runs, as its tuner sees it.
//!
//! **Owns**: what of a pipeline is told to the tuner ([`PipelineStart`], [`Work`]), its sums, and what is known of it
//! at any moment ([`PipelineReport`]). **Does not own**: what is decided from that (`tuner`).

use std::fmt;
use std::sync::Arc;

use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::model::{Pipeline, Rates, Shares, expected_s};
use thermocline_placement::page_cache::window::{Pace, Ran, RunId};

use crate::Tuner;

/// A pipeline about to run.
#[derive(Debug, Clone)]
pub struct PipelineStart {
    /// The same for pipelines of the same plan, whatever the constants in it.
    pub signature: u64,
    /// What it reads, for reports.
    pub label: Arc<str>,
    /// Bytes that it may ask for of each list, each named once.
    pub columns: Vec<(ListKey, u64)>,
    /// How many threads will work on it.
    pub thread_count: u32,
    /// Whether how long it is busy shows what reads of the database's storage cost: not if they are of another device.
    pub shows_storage: bool,
}

/// A piece of a pipeline's work, done by one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// What was worked on.
    pub bytes: u64,
    /// What of it came from storage.
    pub read_bytes: u64,
    /// Time with the pages at hand.
    pub busy_ns: u64,
    /// Time until they were, for checks of pages too.
    pub waited_ns: u64,
}

/// What is known of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineReport {
    /// Which plan it has.
    pub signature: u64,
    /// What it reads.
    pub label: Arc<str>,
    /// Whether it has not ended yet.
    pub is_running: bool,
    /// Bytes that it asks for of all its columns: what it is taken to as long as it runs, and then what it did.
    pub size_bytes: u64,
    /// What came from storage so far.
    pub read_bytes: u64,
    /// How long each of its threads has waited for that so far, on average.
    pub waited_s: f64,
    /// P as it looks; `None` if nothing was seen of it and no pipeline of its plan had run before.
    pub throughput_bytes_per_s: Option<f64>,
    /// Of one that runs, how long it will take in all by what is known now. Of one that has ended, what was predicted
    /// when it began; `None` if no pipeline of its plan had run before.
    pub predicted_s: Option<f64>,
    /// How long it would take with all its columns in memory, by P as it looks.
    pub in_memory_s: Option<f64>,
    /// How long it took, or has run so far.
    pub took_s: f64,
}

/// A pipeline that runs. One that is dropped before it is finished counts by what it has reported.
pub struct RunningPipeline {
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) run: RunId,
}

impl RunningPipeline {
    /// Some of it is done.
    pub fn observe(&self, work: Work) {
        self.tuner.observe(self.run, work);
    }

    /// All of it is done. What it asked for of each list was not seen.
    pub fn finish(&self) {
        self.tuner.finish(self.run, None);
    }

    /// All of it is done, and it asked for these bytes of its lists.
    pub fn finish_having_asked(&self, asked: Vec<(ListKey, u64)>) {
        self.tuner.finish(self.run, Some(asked));
    }
}

impl Drop for RunningPipeline {
    fn drop(&mut self) {
        self.tuner.give_up(self.run);
    }
}

impl fmt::Debug for RunningPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningPipeline").field("run", &self.run).finish_non_exhaustive()
    }
}

/// The sums of a pipeline that runs.
#[derive(Debug)]
pub(crate) struct Progress {
    start: PipelineStart,
    /// What it is taken to ask for of its lists, and in the end did.
    columns: Vec<(ListKey, u64)>,
    /// What was in memory of its columns when it began.
    held: Shares,
    pace: Pace,
    begun_ns: u64,
    predicted_s: Option<f64>,
    waited_ns: u64,
}

impl Progress {
    /// Of one that begins, with what its plan is expected to ask for and the P that it was known for.
    pub(crate) fn new(
        start: PipelineStart,
        columns: Vec<(ListKey, u64)>,
        held: Shares,
        known_bytes_per_s: Option<f64>,
        rates: Rates,
        begun_ns: u64,
    ) -> Self {
        let pace = Pace::new(start.thread_count, size_bytes(&columns), known_bytes_per_s);
        let mut progress = Self { start, columns, held, pace, begun_ns, predicted_s: None, waited_ns: 0 };
        progress.predicted_s = known_bytes_per_s.map(|known| progress.predict(known, rates, &progress.held));
        progress
    }

    fn predict(&self, throughput_bytes_per_s: f64, rates: Rates, held: &Shares) -> f64 {
        let pipeline = Pipeline { columns: self.columns.clone(), throughput_bytes_per_s, weight: 1.0 };
        expected_s(&pipeline, rates, held)
    }

    /// Some of it is done.
    pub(crate) fn add(&mut self, work: Work) {
        self.pace.observe(work.bytes, work.read_bytes, work.busy_ns);
        self.waited_ns += work.waited_ns;
    }

    /// How fast it works.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// What it did.
    pub(crate) fn ran(&self) -> Ran {
        self.pace.ran(self.start.shows_storage)
    }

    fn waited_ns(&self) -> u64 {
        self.waited_ns / u64::from(self.start.thread_count.max(1))
    }

    /// It has asked for these bytes.
    pub(crate) fn has_asked(&mut self, asked: &[(ListKey, u64)]) {
        self.columns = asked.to_vec();
    }

    /// What is known of it now.
    pub(crate) fn report(&self, is_running: bool, rates: Rates, now_ns: u64) -> PipelineReport {
        let throughput_bytes_per_s = self.pace.throughput_bytes_per_s(rates.reading_s_per_byte);
        let whole = Shares::new(self.columns.iter().map(|(list, _)| (*list, 1.0)));
        let predicted_now = throughput_bytes_per_s.map(|throughput| self.predict(throughput, rates, &self.held));
        PipelineReport {
            signature: self.start.signature,
            label: Arc::clone(&self.start.label),
            is_running,
            size_bytes: size_bytes(&self.columns),
            read_bytes: self.pace.read_bytes(),
            waited_s: self.waited_ns() as f64 * 1e-9,
            throughput_bytes_per_s,
            predicted_s: if is_running { predicted_now } else { self.predicted_s },
            in_memory_s: throughput_bytes_per_s.map(|throughput| self.predict(throughput, rates, &whole)),
            took_s: now_ns.saturating_sub(self.begun_ns) as f64 * 1e-9,
        }
    }
}

fn size_bytes(columns: &[(ListKey, u64)]) -> u64 {
    columns.iter().map(|(_, bytes)| bytes).sum()
}
