//! What a scan of Parquet files tells the pool's tuner: how long its pipeline works on what it reads.
//!
//! Owns: measuring one execution of a scan ([`ScanRun`]) and one file of it ([`FileMeter`]). Does not own: what is made
//! of that (`buffer-pool`, `placement`).
//!
//! What is measured. DataFusion decodes whenever a stream of record batches is polled, and waits for bytes by
//! returning; its operators work on a batch between taking it and asking for the next. So the time in polls and that
//! after each batch is what the pipeline would take with all its bytes in memory, as it is measured for column tables.
//! It is told together with the bytes that were asked for meanwhile, whenever a stream asks for more of them and when
//! it ends. Copying out of pages is part of it; reading footers and pruning is not.
//!
//! What is estimated. When a scan begins it is not known which row groups statistics will leave out, so it counts with
//! all chunks of its columns at first. How fast storage is, is not told, nor what waiting for it costs: the tuner knows
//! one rate, and that is the one of the database's own files; a file that the system's page cache has, or an object
//! store, would make it wrong for these.
//!
//! Concurrency: a run is shared by all partitions, and ends when nobody has a stream of it any more.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use futures::Stream;
use futures::stream::BoxStream;
use thermocline_buffer_pool::{PipelineStart, RunningPipeline, Tuner, Work};
use thermocline_hardware::Clock;

use super::file_pages::Served;

/// One execution of a scan.
pub(super) struct ScanRun {
    pipeline: RunningPipeline,
    clock: Arc<dyn Clock>,
    /// A stream was dropped before its end, so that how long the whole takes was not seen.
    is_cut_short: AtomicBool,
}

impl ScanRun {
    pub(super) fn begin(tuner: &Arc<Tuner>, start: PipelineStart, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { pipeline: tuner.start(start), clock: Arc::clone(clock), is_cut_short: AtomicBool::new(false) })
    }
}

impl Drop for ScanRun {
    fn drop(&mut self) {
        if !*self.is_cut_short.get_mut() {
            self.pipeline.finish();
        }
    }
}

impl fmt::Debug for ScanRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanRun").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}

/// One file of an execution, or a part of one: what was asked for and worked on since the tuner was last told.
#[derive(Debug)]
pub(super) struct FileMeter {
    run: Arc<ScanRun>,
    asked_bytes: AtomicU64,
    read_bytes: AtomicU64,
    busy_ns: AtomicU64,
}

impl FileMeter {
    pub(super) fn new(run: &Arc<ScanRun>) -> Arc<Self> {
        let (asked_bytes, read_bytes, busy_ns) = Default::default();
        Arc::new(Self { run: Arc::clone(run), asked_bytes, read_bytes, busy_ns })
    }

    /// So many bytes were asked for and have come; the work on those before is done.
    pub(super) fn came(&self, asked_bytes: u64, served: Served) {
        self.tell();
        self.asked_bytes.fetch_add(asked_bytes, Ordering::Relaxed);
        self.read_bytes.fetch_add(served.read_bytes, Ordering::Relaxed);
    }

    fn tell(&self) {
        let [bytes, read_bytes, busy_ns] =
            [&self.asked_bytes, &self.read_bytes, &self.busy_ns].map(|sum| sum.swap(0, Ordering::Relaxed));
        if bytes > 0 || busy_ns > 0 {
            self.run.pipeline.observe(Work { bytes, read_bytes, busy_ns, waited_ns: 0 });
        }
    }

    /// `batches` with the time measured that they take.
    pub(super) fn measured(
        self: Arc<Self>,
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        Measured { batches, meter: self, handed_out_ns: None, is_at_end: false }
    }
}

struct Measured {
    batches: BoxStream<'static, Result<RecordBatch>>,
    meter: Arc<FileMeter>,
    /// When the last batch was.
    handed_out_ns: Option<u64>,
    is_at_end: bool,
}

impl Stream for Measured {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let clock = Arc::clone(&self.meter.run.clock);
        let begun_ns = self.handed_out_ns.take().unwrap_or_else(|| clock.monotonic_ns());
        let polled = self.batches.as_mut().poll_next(context);
        let now_ns = clock.monotonic_ns();
        self.meter.busy_ns.fetch_add(now_ns.saturating_sub(begun_ns), Ordering::Relaxed);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.handed_out_ns = Some(now_ns),
            Poll::Ready(None) => {
                self.is_at_end = true;
                self.meter.tell();
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if !self.is_at_end {
            self.meter.run.is_cut_short.store(true, Ordering::Relaxed);
        }
    }
}
