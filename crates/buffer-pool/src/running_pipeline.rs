//! A pipeline that runs, as its tuner sees it.
//!
//! **Owns**: what of a pipeline is told to the tuner ([`PipelineStart`], [`Work`]), its sums, and what is known of it
//! at any moment ([`PipelineReport`]). **Does not own**: what is decided from that (`tuner`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::model::{Rates, Shares, expected_s};
use thermocline_placement::page_cache::window::{Pace, PipelineWindow, Ran, RunId};

use crate::Tuner;

/// Is told how far pipelines have come. Called from their threads, and cheap.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// A pipeline that may ask for so many bytes has begun.
    fn begun(&self, bytes: u64);
    /// So many of them are done. Those that a pipeline turns out not to need are done when it ends.
    fn done(&self, bytes: u64);
}

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
    /// Who wants to know how far it has come.
    pub watcher: Option<Arc<dyn Watcher>>,
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
    pub(crate) watched: Option<Watched>,
}

/// What a pipeline's watcher has still to be told of.
pub(crate) struct Watched {
    watcher: Arc<dyn Watcher>,
    left_bytes: AtomicU64,
}

impl Watched {
    pub(crate) fn begin(start: &PipelineStart) -> Option<Self> {
        let watcher = Arc::clone(start.watcher.as_ref()?);
        let bytes = start.columns.iter().map(|(_, bytes)| bytes).sum();
        watcher.begun(bytes);
        Some(Self { watcher, left_bytes: AtomicU64::new(bytes) })
    }

    fn done(&self, bytes: u64) {
        let taken = |left: u64| Some(left.saturating_sub(bytes));
        let left_bytes = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).unwrap_or_default();
        self.watcher.done(bytes.min(left_bytes));
    }
}

impl RunningPipeline {
    /// Some of it is done.
    pub fn observe(&self, work: Work) {
        if let Some(watched) = &self.watched {
            watched.done(work.bytes);
        }
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
        if let Some(watched) = &self.watched {
            watched.done(u64::MAX);
        }
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
    /// What the pool had of the system's memory when it began.
    mapped_bytes: u64,
    /// When it began.
    predicted_s: Option<f64>,
}

impl Progress {
    /// Of one that begins with these shares of its columns in memory, by what the window knows of its plan.
    pub(crate) fn new(
        start: PipelineStart,
        held: Shares,
        (window, rates): (&PipelineWindow, Rates),
        (begun_ns, mapped_bytes): (u64, u64),
    ) -> Self {
        let columns = window.expected(start.signature, &start.columns);
        let known_bytes_per_s = window.known_throughput(start.signature, rates);
        let pace = Pace::new(start.thread_count, size_bytes(&columns), known_bytes_per_s);
        let predicted_s =
            known_bytes_per_s.map(|known| window.predicted_s(start.signature, &columns, &held, known, rates));
        Self { start, columns, held, pace, begun_ns, mapped_bytes, predicted_s }
    }

    /// Some of it is done, and by now the pool has so much memory.
    pub(crate) fn add(&mut self, work: Work, mapped_bytes: u64) {
        self.pace.note_new_memory(mapped_bytes.saturating_sub(self.mapped_bytes));
        self.pace.observe(work.bytes, work.read_bytes, work.busy_ns, work.waited_ns);
    }

    /// Of what it was taken to ask for, the part that it has reported.
    pub(crate) fn done_part(&self) -> f64 {
        (self.pace.bytes() as f64 / size_bytes(&self.columns).max(1) as f64).min(1.0)
    }

    /// How fast it works.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// It ends, having asked for these bytes if that was seen, when the pool has so much memory.
    pub(crate) fn end(&mut self, asked: Option<&[(ListKey, u64)]>, (now_ns, mapped_bytes): (u64, u64)) -> Ran {
        if let Some(asked) = asked {
            self.columns = asked.to_vec();
        }
        self.pace.note_new_memory(mapped_bytes.saturating_sub(self.mapped_bytes));
        let held_bytes: f64 = self.columns.iter().map(|(list, bytes)| self.held.of(*list) * *bytes as f64).sum();
        Ran {
            held_bytes: held_bytes as u64,
            took_s: self.took_s(now_ns),
            shows_storage: self.start.shows_storage,
            ..self.pace.ran()
        }
    }

    fn took_s(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.begun_ns) as f64 * 1e-9
    }

    /// What is known of it now.
    pub(crate) fn report(
        &self,
        is_running: bool,
        (window, rates): (&PipelineWindow, Rates),
        now_ns: u64,
    ) -> PipelineReport {
        let throughput_bytes_per_s = self.pace.throughput_bytes_per_s(rates);
        let size_bytes = size_bytes(&self.columns);
        let predicted_now =
            |throughput| window.predicted_s(self.start.signature, &self.columns, &self.held, throughput, rates);
        PipelineReport {
            signature: self.start.signature,
            label: Arc::clone(&self.start.label),
            is_running,
            size_bytes,
            read_bytes: self.pace.read_bytes(),
            waited_s: self.pace.waited_s(),
            throughput_bytes_per_s,
            predicted_s: if is_running { throughput_bytes_per_s.map(predicted_now) } else { self.predicted_s },
            in_memory_s: throughput_bytes_per_s.map(|throughput| expected_s(size_bytes as f64, 0.0, throughput, rates)),
            took_s: self.took_s(now_ns),
        }
    }
}

fn size_bytes(columns: &[(ListKey, u64)]) -> u64 {
    columns.iter().map(|(_, bytes)| bytes).sum()
}
