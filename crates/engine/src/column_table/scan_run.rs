//! Running a scan of a column table: row groups are claimed by whichever partition polls next, their pages come from
//! the buffer pool, and are decoded some mini-blocks at a time.
//!
//! Pages of the row groups that come next are asked for before anyone claims them, so that the device is kept busy
//! while what has arrived is worked on. The time that each batch's consumer takes, beside that of decoding, is what the
//! pipeline would take if all pages were there: it is told to the pool's tuner, row group by row group.

use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use futures::Stream;
use parking_lot::Mutex;
use thermocline_budget::{Account, Purpose, Reservation};
use thermocline_buffer_pool::{PageReader, PinnedPage, PipelineStart, ReadOptions, RunningPipeline, Watcher, Work};
use thermocline_column_store::{MINI_BLOCK_VALUES, Page, RowGroup, Segment};
use thermocline_medium::{AlignedBuffer, Medium};
use thermocline_predicate::Conjunction;
use tokio::task::{JoinHandle, spawn_blocking};
use xxhash_rust::xxh3::xxh3_64;

use super::pages::page_number;
use super::pruning;
use super::store::{OpenSegment, OpenTable};
use crate::database::Database;
use crate::idle_work::Busy;
use crate::query::Progress;
use crate::raw_table::listing::external;

/// Bytes of pages asked for beyond the row groups that are being worked on: a few of the device's longest requests.
const READ_AHEAD_BYTES: u64 = 8 << 20;

/// Mini-blocks decoded at once at most: enough that opening a page again costs nothing, few enough that the values of
/// some columns stay in a core's second cache until they are used.
const DECODED_MINI_BLOCKS: usize = 16;

/// Bytes decoded at once, about; one mini-block is decoded however long its texts are, and however few rows a batch is to
/// have: whoever holds a slice of more holds, and counts, all of it. Nobody reserves them.
const DECODED_BYTES: usize = 4 << 20;

/// What a query reads of a column table.
#[derive(Debug)]
pub(crate) struct ColumnScan {
    pub(crate) database: Arc<Database>,
    pub(crate) table: Arc<OpenTable>,
    /// The row groups to read, in order.
    pub(crate) groups: Arc<[GroupPlace]>,
    /// Why others are left out.
    pub(crate) predicate: Conjunction,
    /// Of the query that it is part of: what is done with its rows.
    pub(crate) plan_signature: u64,
    /// Of that query.
    progress: Arc<Progress>,
    /// Whether pages come through the buffer pool, or from the files each time.
    pub(crate) uses_pool: bool,
    /// For pages that do not.
    pub(crate) account: Account,
    /// Why it is not part of a fused pipeline, if that was tried.
    pub(crate) unfused: Option<Arc<str>>,
}

/// One row group of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupPlace {
    pub(crate) segment: usize,
    pub(crate) row_group: usize,
}

impl ColumnScan {
    /// Reads the row groups that can have rows which pass `predicate`.
    pub(crate) fn new(
        database: Arc<Database>,
        table: Arc<OpenTable>,
        predicate: Conjunction,
        (plan_signature, progress): (u64, &Arc<Progress>),
        uses_pool: bool,
    ) -> Self {
        let groups = pruning::row_groups(&table, &predicate).into();
        let progress = Arc::clone(progress);
        let account = database.budget().account(format!("scan of {}", table.name), Purpose::Query);
        Self { database, table, groups, predicate, plan_signature, progress, uses_pool, account, unfused: None }
    }

    pub(crate) fn open_segment(&self, place: GroupPlace) -> &Arc<OpenSegment> {
        &self.table.segments[place.segment]
    }

    pub(crate) fn row_group(&self, place: GroupPlace) -> &RowGroup {
        &self.open_segment(place).segment.row_groups()[place.row_group]
    }

    /// The row groups that are read.
    pub(super) fn row_groups(&self) -> impl Iterator<Item = &RowGroup> {
        self.groups.iter().map(|&place| self.row_group(place))
    }

    /// Rows that are read.
    pub(super) fn row_count(&self) -> u64 {
        self.row_groups().map(|group| group.row_count() as u64).sum()
    }

    /// The scan as the tuner knows it, when it reads these columns, in whichever order.
    pub(crate) fn pipeline(&self, columns: &[usize], thread_count: usize) -> PipelineStart {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let names: Vec<&str> = columns.iter().map(|&column| self.table.schema.field(column).name().as_str()).collect();
        let label = format!("{} ({})", self.table.name, names.join(", "));
        PipelineStart {
            signature: xxh3_64(label.as_bytes()) ^ self.plan_signature,
            label: label.into(),
            columns: columns.iter().map(|&column| (self.table.lists[column], self.column_bytes(column))).collect(),
            thread_count: u32::try_from(thread_count).unwrap_or(u32::MAX),
            shows_storage: true,
            watcher: Some(Arc::clone(&self.progress) as Arc<dyn Watcher>),
        }
    }

    /// Bytes of one column's pages that are read.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        self.row_groups().map(|group| group.pages()[column].stored_bytes() as u64).sum()
    }
}

/// One execution of a scan.
#[derive(Debug)]
pub(super) struct ColumnScanRun {
    scan: Arc<ColumnScan>,
    /// Columns to read, each once, and where each output column is among them.
    read_columns: Vec<usize>,
    outputs: Vec<usize>,
    schema: SchemaRef,
    partition_count: usize,
    queue: Mutex<Queue>,
    groups_left: AtomicUsize,
    counters: Counters,
}

#[derive(Debug)]
struct Counters {
    hits: Count,
    misses: Count,
    waited: Time,
}

/// Row groups that nobody has claimed.
#[derive(Debug, Default)]
struct Queue {
    /// The first of the scan's groups that was not asked for.
    next: usize,
    /// What the tuner knows the scan as, once it has begun, if it goes through the pool.
    pipeline: Option<Arc<RunningPipeline>>,
    asked: VecDeque<AskedGroup>,
    asked_bytes: u64,
}

#[derive(Debug)]
struct AskedGroup {
    place: GroupPlace,
    size_bytes: u64,
    pages: ComingPages,
}

/// Pages of a row group that are on their way.
#[derive(Debug)]
enum ComingPages {
    Pooled(PageReader),
    /// Read past it, into memory that is reserved.
    Alone(JoinHandle<Result<(Vec<AlignedBuffer>, Reservation)>>),
}

/// The bytes of a page.
enum PageBytes {
    Pinned(PinnedPage),
    Alone { buffer: AlignedBuffer, size_bytes: usize },
}

impl Deref for PageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Pinned(page) => page,
            Self::Alone { buffer, size_bytes } => &buffer[..*size_bytes],
        }
    }
}

impl ColumnScanRun {
    pub(super) fn new(
        scan: &Arc<ColumnScan>,
        columns: &[usize],
        schema: SchemaRef,
        partition_count: usize,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Arc<Self> {
        let mut read_columns = columns.to_vec();
        read_columns.sort_unstable();
        read_columns.dedup();
        let outputs = columns.iter().filter_map(|column| read_columns.binary_search(column).ok()).collect();
        let counters = Counters {
            hits: MetricBuilder::new(metrics).global_counter("pages_from_memory"),
            misses: MetricBuilder::new(metrics).global_counter("pages_read"),
            waited: MetricBuilder::new(metrics).subset_time("time_waiting_for_pages", 0),
        };
        Arc::new(Self {
            scan: Arc::clone(scan),
            read_columns,
            outputs,
            schema,
            partition_count,
            queue: Mutex::default(),
            groups_left: AtomicUsize::new(scan.groups.len()),
            counters,
        })
    }

    /// The next row group that nobody has, its pages asked for, and those of some that follow.
    ///
    /// # Errors
    /// There is no memory for pages past the pool.
    fn claim(&self) -> Result<Option<AskedGroup>> {
        let mut queue = self.queue.lock();
        let is_first = queue.next == 0 && !self.scan.groups.is_empty();
        if is_first && self.scan.uses_pool && !self.read_columns.is_empty() {
            let start = self.scan.pipeline(&self.read_columns, self.partition_count);
            queue.pipeline = Some(Arc::new(self.scan.table.tuner.start(start)));
        }
        while queue.asked.is_empty() || queue.asked_bytes < READ_AHEAD_BYTES {
            let Some(&place) = self.scan.groups.get(queue.next) else { break };
            let asked = match self.ask(place) {
                Ok(asked) => asked,
                Err(error) if queue.asked.is_empty() => return Err(error),
                // Nothing is read ahead for which there is no memory.
                Err(_) => break,
            };
            queue.next += 1;
            queue.asked_bytes += asked.size_bytes;
            queue.asked.push_back(asked);
        }
        let Some(claimed) = queue.asked.pop_front() else { return Ok(None) };
        queue.asked_bytes -= claimed.size_bytes;
        Ok(Some(claimed))
    }

    /// A row group was worked on by one partition.
    fn done(&self, work: Work) {
        let is_last = self.groups_left.fetch_sub(1, Ordering::AcqRel) == 1;
        let pipeline = {
            let mut queue = self.queue.lock();
            if is_last { queue.pipeline.take() } else { queue.pipeline.clone() }
        };
        let Some(pipeline) = pipeline else { return };
        pipeline.observe(work);
        if is_last {
            pipeline.finish();
        }
    }

    fn ask(&self, place: GroupPlace) -> Result<AskedGroup> {
        let open = self.scan.open_segment(place);
        let row_group = self.scan.row_group(place);
        let size_bytes = self.read_columns.iter().map(|&column| row_group.pages()[column].stored_bytes() as u64).sum();
        let pages = if self.scan.uses_pool {
            let column_count = self.scan.table.schema.fields().len();
            let pages = self.read_columns.iter().map(|&column| page_number(place.row_group, column, column_count));
            let pages: Vec<u32> = pages.collect();
            let mut reader = open.source.reader(pages, ReadOptions::default());
            reader.start();
            ComingPages::Pooled(reader)
        } else {
            let (tables_medium, segment) = (Arc::clone(&self.scan.table.medium), Arc::clone(&open.segment));
            let columns = self.read_columns.clone();
            let reservation = self.scan.account.try_reserve(size_bytes).map_err(external)?;
            ComingPages::Alone(spawn_blocking(move || {
                let pages = read_alone(tables_medium.as_ref(), &segment, place.row_group, &columns)?;
                Ok((pages, reservation))
            }))
        };
        Ok(AskedGroup { place, size_bytes, pages })
    }

    /// The batches of one partition: of whatever row groups no other partition has taken.
    pub(super) fn partition_stream(
        self: Arc<Self>,
        partition: usize,
        limit: Option<usize>,
        batch_rows: usize,
        metrics: &ExecutionPlanMetricsSet,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let state = PartitionState {
            baseline: BaselineMetrics::new(metrics, partition),
            _busy: self.scan.database.idle_work().busy(),
            run: self,
            group: None,
            left_rows: limit,
            batch_rows,
            decoded_mini_blocks: 1,
            handed_out_ns: None,
            work: Work::default(),
        };
        futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        })
    }

    fn now_ns(&self) -> u64 {
        self.scan.database.clock().monotonic_ns()
    }
}

/// Reads pages past everything that is shared, and checks them. Their memory is the caller's to reserve.
pub(crate) fn read_alone(
    medium: &dyn Medium,
    segment: &Segment,
    row_group: usize,
    columns: &[usize],
) -> Result<Vec<AlignedBuffer>> {
    let mut buffers = Vec::with_capacity(columns.len());
    for &column in columns {
        let place = &segment.row_groups()[row_group].pages()[column];
        let mut buffer = AlignedBuffer::new(place.stored_bytes());
        medium.read_at(segment.file(), place.offset_bytes(), &mut buffer).map_err(external)?;
        segment.check_page(row_group, column, &buffer[..place.size_bytes()]).map_err(external)?;
        buffers.push(buffer);
    }
    Ok(buffers)
}

struct PartitionState {
    run: Arc<ColumnScanRun>,
    group: Option<ClaimedGroup>,
    left_rows: Option<usize>,
    batch_rows: usize,
    /// How many mini-blocks are decoded at once, by what those before them took.
    decoded_mini_blocks: usize,
    /// When the last batch was handed to the consumer.
    handed_out_ns: Option<u64>,
    /// What was done on the row group at hand, by this partition and its consumer.
    work: Work,
    baseline: BaselineMetrics,
    /// Until the partition's last row was taken, idle work gives way to it.
    _busy: Busy,
}

/// A row group whose pages are there.
struct ClaimedGroup {
    place: GroupPlace,
    pages: Vec<PageBytes>,
    /// Of pages that are not the pool's.
    _reservation: Option<Reservation>,
    row_count: usize,
    /// The first row that was not decoded.
    next_row: usize,
}

impl PartitionState {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(handed_out_ns) = self.handed_out_ns.take() {
            self.work.busy_ns += self.run.now_ns().saturating_sub(handed_out_ns);
        }
        while self.left_rows != Some(0) {
            if let Some(group) = &mut self.group {
                let begun_ns = self.run.now_ns();
                let timer = self.baseline.elapsed_compute().timer();
                let batch = group.next(&self.run, self.batch_rows, &mut self.decoded_mini_blocks)?;
                timer.done();
                let now_ns = self.run.now_ns();
                self.work.busy_ns += now_ns.saturating_sub(begun_ns);
                match batch {
                    Some(batch) => {
                        self.handed_out_ns = Some(now_ns);
                        return Ok(Some(self.limited(batch)));
                    }
                    None => {
                        self.group = None;
                        self.run.done(std::mem::take(&mut self.work));
                    }
                }
            }
            let Some(asked) = self.run.claim()? else { break };
            self.group = Some(self.arrived(asked).await?);
        }
        Ok(None)
    }

    /// Waits for the pages of a group.
    async fn arrived(&mut self, asked: AskedGroup) -> Result<ClaimedGroup> {
        let run = &self.run;
        let place = asked.place;
        let row_group = run.scan.row_group(place);
        let begun_ns = run.now_ns();
        let (pages, reservation) = match asked.pages {
            ComingPages::Pooled(mut reader) => {
                let mut pages = Vec::with_capacity(run.read_columns.len());
                while let Some(page) = reader.next().await {
                    let page = page.map_err(external)?;
                    if page.was_hit() {
                        run.counters.hits.add(1);
                    } else {
                        run.counters.misses.add(1);
                        self.work.read_bytes += page.len() as u64;
                    }
                    pages.push(PageBytes::Pinned(page));
                }
                (pages, None)
            }
            ComingPages::Alone(reading) => {
                let (buffers, reservation) = reading.await.map_err(external)??;
                run.counters.misses.add(buffers.len());
                let sizes = run.read_columns.iter().map(|&column| row_group.pages()[column].size_bytes());
                let pages = buffers.into_iter().zip(sizes);
                let pages = pages.map(|(buffer, size_bytes)| PageBytes::Alone { buffer, size_bytes });
                (pages.collect(), Some(reservation))
            }
        };
        let waited_ns = run.now_ns().saturating_sub(begun_ns);
        self.work.bytes = asked.size_bytes;
        self.work.waited_ns = waited_ns;
        run.counters.waited.add_duration(std::time::Duration::from_nanos(waited_ns));
        Ok(ClaimedGroup { place, pages, _reservation: reservation, row_count: row_group.row_count(), next_row: 0 })
    }

    fn limited(&mut self, batch: RecordBatch) -> RecordBatch {
        let batch = match &mut self.left_rows {
            Some(left) => {
                let taken = batch.num_rows().min(*left);
                *left -= taken;
                batch.slice(0, taken)
            }
            None => batch,
        };
        self.baseline.output_rows().add(batch.num_rows());
        batch
    }
}

impl ClaimedGroup {
    /// The next rows; `None` when there are no more. Sets how many mini-blocks to decode next time, so that a batch has
    /// `batch_rows` at most.
    fn next(
        &mut self,
        run: &ColumnScanRun,
        batch_rows: usize,
        mini_block_count: &mut usize,
    ) -> Result<Option<RecordBatch>> {
        if self.next_row == self.row_count {
            return Ok(None);
        }
        let decoded = self.decode(run, *mini_block_count)?;
        let each_bytes = decoded.get_array_memory_size() / decoded.num_rows().div_ceil(MINI_BLOCK_VALUES).max(1);
        let most = (batch_rows / MINI_BLOCK_VALUES).clamp(1, DECODED_MINI_BLOCKS);
        *mini_block_count = (DECODED_BYTES / each_bytes.max(1)).clamp(1, most);
        Ok(Some(decoded))
    }

    fn decode(&mut self, run: &ColumnScanRun, mini_block_count: usize) -> Result<RecordBatch> {
        let first = self.next_row / MINI_BLOCK_VALUES;
        let end_row = ((first + mini_block_count) * MINI_BLOCK_VALUES).min(self.row_count);
        let mini_blocks = first..end_row.div_ceil(MINI_BLOCK_VALUES);
        let mut arrays = Vec::with_capacity(self.pages.len());
        for (&column, bytes) in run.read_columns.iter().zip(&self.pages) {
            arrays.push(self.decode_column(run, column, bytes, mini_blocks.clone())?);
        }
        let columns = run.outputs.iter().map(|&index| Arc::clone(&arrays[index])).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(end_row - self.next_row));
        self.next_row = end_row;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&run.schema), columns, &options)?)
    }

    fn decode_column(
        &self,
        run: &ColumnScanRun,
        column: usize,
        bytes: &[u8],
        mini_blocks: Range<usize>,
    ) -> Result<ArrayRef> {
        let segment = &run.scan.open_segment(self.place).segment;
        let page: Page<'_> = segment.open_page(self.place.row_group, column, bytes).map_err(external)?;
        let data_type = run.scan.table.schema.field(column).data_type();
        page.decode_range(mini_blocks, data_type).map_err(external)
    }
}
