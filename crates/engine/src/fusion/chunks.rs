//! The row groups of Parquet files as pipelines ask for them: in slices, so that threads have enough to share and what
//! is decoded stays in their caches.
//!
//! **Owns**: when a chunk is read and for how long its bytes are held; which cursor reads a slice; telling the tuner
//! what each slice took. **Does not own**: decoding (`parquet-columns`), which pages stay in memory (`buffer-pool`).
//!
//! What a slice's texts take is reserved until the slice is done with, what a chunk's dictionary takes until the chunk
//! is. Where texts are long, slices have fewer rows.
//!
//! A chunk is read as a whole when the first of its row group's slices begins that may need it, and held until the last
//! one is done with. Threads go through neighbouring slices, so that a cursor that one slice leaves is mostly where the
//! next begins.
//!
//! **Concurrency**: the map is locked to look a chunk up, the chunk itself while its thread waits for its bytes or looks
//! for a cursor.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use datafusion::arrow::array::AsArray;
use datafusion::common::DataFusionError;
use parking_lot::Mutex;
use thermocline_budget::{Account, BudgetError, Reservation};
use thermocline_buffer_pool::{RunningPipeline, Work};
use thermocline_column_store::{MINI_BLOCK_VALUES, ZoneMap};
use thermocline_hardware::Clock;
use thermocline_parquet_columns::{ChunkError, ColumnChunk, Cursor};
use thermocline_pipeline::{FailedElsewhere, PageFacts, PageSource, SourceColumn};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::batches::Cancellation;
use crate::parquet_table::{PageCounts, RowGroups, Served};
use crate::raw_table::listing::external;

/// Rows of a slice at most: of a column of four bytes a quarter of a megabyte, and some thousand slices of the largest
/// row groups that writers make.
pub(super) const SLICE_ROWS: usize = 1 << 16;
/// Bytes of the texts of a slice, in each column and if they are spread evenly. Long ones are in no cache together, and each
/// thread holds those of its slice.
const SLICE_TEXT_BYTES: u64 = 8 << 20;
/// Bytes of chunks that are read ahead of all threads.
const READ_AHEAD_BYTES: u64 = 32 << 20;

/// The rows of a row group, cut into slices of whole mini-blocks and about the same size, of `most_rows` at most but for
/// that.
pub(super) fn slices(row_count: usize, most_rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = row_count.div_ceil(most_rows).max(1);
    let rows = row_count.div_ceil(count).next_multiple_of(MINI_BLOCK_VALUES);
    (0..row_count).step_by(rows.max(1)).map(move |first| (first, rows.min(row_count - first)))
}

/// Rows of a slice of a row group whose longest column of texts takes so many bytes.
fn slice_rows(row_count: usize, text_bytes: u64) -> usize {
    let rows = u128::from(SLICE_TEXT_BYTES) * row_count as u128 / u128::from(text_bytes.max(1));
    let rows = rows.min(SLICE_ROWS as u128) as usize;
    // Whole mini-blocks, of which one is the least.
    (rows / MINI_BLOCK_VALUES * MINI_BLOCK_VALUES).clamp(MINI_BLOCK_VALUES, SLICE_ROWS)
}

/// Texts of a slice that one array cannot hold, or memory. Nothing is wrong with the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooLong(DataFusionError);

/// See the module.
pub(super) struct ScanChunks<'r> {
    row_groups: &'r Arc<RowGroups>,
    slices: Vec<Slice>,
    /// By row group, slices that are not done with.
    left: Vec<AtomicUsize>,
    /// By row group and column.
    chunks: Mutex<HashMap<(usize, usize), SharedChunk>>,
    ahead_bytes: AtomicU64,
    /// Of all chunks that are there or on their way.
    held_bytes: AtomicU64,
    pipeline: Option<RunningPipeline>,
    counts: PageCounts,
    account: &'r Account,
    clock: &'r dyn Clock,
    runtime: &'r Handle,
    cancellation: &'r Cancellation,
    /// Memory of the texts of slices that go on, which are not what pages or dictionaries have.
    decoded: Mutex<HashMap<usize, Vec<Reservation>>>,
    /// Waiting, of slices that go on.
    waited_ns: Mutex<HashMap<usize, u64>>,
}

/// Some rows of a row group.
struct Slice {
    row_group: usize,
    first_row: usize,
    row_count: usize,
    /// What is known of each column.
    zones: Vec<Option<(ZoneMap, usize)>>,
}

type SharedChunk = Arc<Mutex<Chunk>>;
/// A chunk's bytes, what of them was not in memory, and the memory of those that are not the pool's.
type Read = Result<(Arc<ColumnChunk>, Served, Reservation), Box<dyn Error + Send + Sync>>;

/// A column of a row group that is asked for.
#[derive(Default)]
struct Chunk {
    coming: Option<JoinHandle<Read>>,
    there: Option<(Arc<ColumnChunk>, Reservation)>,
    /// Of its dictionary, as far as they are reserved.
    dictionary_bytes: u64,
    cursors: Vec<Cursor>,
    /// Bytes that count as read ahead.
    ahead_bytes: u64,
}

impl Chunk {
    /// Reserves what the dictionary takes once it is there, for as long as the chunk is held.
    fn count_dictionary(&mut self) -> Result<(), BudgetError> {
        let Some((read, reservation)) = &self.there else { return Ok(()) };
        let found_bytes = read.dictionary_bytes();
        reservation.try_grow(found_bytes.saturating_sub(self.dictionary_bytes))?;
        self.dictionary_bytes = self.dictionary_bytes.max(found_bytes);
        Ok(())
    }
}

impl<'r> ScanChunks<'r> {
    /// The slices of these row groups, of which chunks are read on `runtime`, waited for until `cancellation`, and held
    /// from `account`.
    pub(super) fn new(
        row_groups: &'r Arc<RowGroups>,
        thread_count: usize,
        counts: PageCounts,
        (account, clock, runtime): (&'r Account, &'r dyn Clock, &'r Handle),
        cancellation: &'r Cancellation,
    ) -> Self {
        let (mut all, mut left) = (Vec::new(), Vec::new());
        for (row_group, of) in row_groups.groups.iter().enumerate() {
            let before = all.len();
            let text_bytes = (0..row_groups.columns.len()).map(|at| of.text_bytes(at)).max().unwrap_or_default();
            for (first_row, row_count) in slices(of.row_count, slice_rows(of.row_count, text_bytes)) {
                let zone = |at: usize| of.zone(at).and_then(|zone| zone_of_slice(zone, of.row_count, row_count));
                let zones = (0..row_groups.columns.len()).map(zone).collect();
                all.push(Slice { row_group, first_row, row_count, zones });
            }
            left.push(AtomicUsize::new(all.len() - before));
        }
        let scan = row_groups.scan.as_ref().filter(|scan| scan.uses_pool() && !row_groups.columns.is_empty());
        let pipeline = scan.and_then(|scan| {
            let start = scan.pipeline(&row_groups.columns, thread_count);
            (!start.columns.is_empty()).then(|| scan.pool().tuner().start(start))
        });
        Self {
            row_groups,
            slices: all,
            left,
            chunks: Mutex::default(),
            ahead_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            pipeline,
            counts,
            account,
            clock,
            runtime,
            cancellation,
            decoded: Mutex::default(),
            waited_ns: Mutex::default(),
        }
    }

    /// The scan has ended well.
    pub(super) fn finish(self) {
        if let Some(pipeline) = self.pipeline {
            pipeline.finish();
        }
    }

    fn place(&self, column: usize) -> Result<usize, Box<dyn Error + Send + Sync>> {
        let place = self.row_groups.columns.iter().position(|of| *of == column);
        place.ok_or_else(|| format!("no column {column} among {:?}", self.row_groups.columns).into())
    }

    /// The chunk of a column, on its way at the latest from now on. `None` if it was to be read ahead and its row group is
    /// done with: a thread may announce one whose slices others have taken from it meanwhile.
    fn chunk(&self, row_group: usize, at: usize, is_ahead: bool) -> Option<SharedChunk> {
        let mut chunks = self.chunks.lock();
        // Counted down before the row group's chunks go, for which this is locked.
        if is_ahead && self.left[row_group].load(Ordering::Acquire) == 0 {
            return None;
        }
        let chunk = chunks.entry((row_group, at)).or_insert_with(|| {
            let bytes = self.row_groups.groups[row_group].chunk_bytes(at);
            let held_bytes = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
            let coming = Some(self.read(row_group, at, held_bytes));
            let ahead_bytes = if is_ahead { bytes } else { 0 };
            self.ahead_bytes.fetch_add(ahead_bytes, Ordering::Relaxed);
            Arc::new(Mutex::new(Chunk { coming, ahead_bytes, ..Chunk::default() }))
        });
        Some(Arc::clone(chunk))
    }

    /// Begins to read a chunk, beside the `held_bytes` of others.
    fn read(&self, row_group: usize, at: usize, held_bytes: u64) -> JoinHandle<Read> {
        let (row_groups, counts) = (Arc::clone(self.row_groups), self.counts.clone());
        let account = self.account.clone();
        self.runtime.spawn(async move {
            let group = &row_groups.groups[row_group];
            let copied_bytes = if group.is_read_in_place(at, held_bytes) { 0 } else { group.chunk_bytes(at) };
            let reservation = account.try_reserve(copied_bytes)?;
            let (read, served) = group.read(at, held_bytes, &counts).await?;
            reservation.resize(served.copied_bytes)?;
            Ok((read, served, reservation))
        })
    }

    /// Has what these columns have in a row group read.
    fn ask_for(&self, row_group: usize, columns: &[usize], is_ahead: bool) {
        for column in columns {
            if let Ok(at) = self.place(*column) {
                self.chunk(row_group, at, is_ahead);
            }
        }
    }

    /// The chunk and a cursor in it that is not behind `first_row`.
    fn cursor(&self, slice: usize, at: usize) -> Result<(SharedChunk, Cursor), Box<dyn Error + Send + Sync>> {
        let Slice { row_group, first_row, .. } = self.slices[slice];
        let chunk = self.chunk(row_group, at, false).ok_or(FailedElsewhere)?;
        let mut locked = chunk.lock();
        if let Some(coming) = locked.coming.take() {
            let begun_ns = self.clock.monotonic_ns();
            let mut read = self.cancellation.wait(self.runtime, coming)?.map_err(external)?;
            if read.is_err() && locked.ahead_bytes > 0 {
                // There was no memory for it then, perhaps.
                let again = self.read(row_group, at, self.held_bytes.load(Ordering::Relaxed));
                read = self.cancellation.wait(self.runtime, again)?.map_err(external)?;
            }
            let (read, served, reservation) = read?;
            let waited_ns = self.clock.monotonic_ns().saturating_sub(begun_ns);
            *self.waited_ns.lock().entry(slice).or_default() += waited_ns;
            self.ahead_bytes.fetch_sub(std::mem::take(&mut locked.ahead_bytes), Ordering::Relaxed);
            locked.there = Some((read, reservation));
            if let Some(pipeline) = &self.pipeline {
                let bytes = self.row_groups.groups[row_group].chunk_bytes(at);
                pipeline.observe(Work { bytes, read_bytes: served.read_bytes, busy_ns: 0, waited_ns });
            }
        }
        let nearest = (0..locked.cursors.len()).filter(|&of| locked.cursors[of].next_row() <= first_row);
        let nearest = nearest.max_by_key(|&of| locked.cursors[of].next_row());
        let cursor = match (nearest, &locked.there) {
            (Some(nearest), _) => locked.cursors.swap_remove(nearest),
            (None, Some((read, _))) => read.cursor().map_err(|error| self.error(row_group, at, error))?,
            (None, None) => return Err(FailedElsewhere.into()),
        };
        drop(locked);
        Ok((chunk, cursor))
    }

    fn error(&self, row_group: usize, at: usize, error: ChunkError) -> DataFusionError {
        self.row_groups.groups[row_group].error(self.row_groups.column_name(at), error)
    }
}

/// What is known of a slice's values by what is known of its row group's. Nothing if it has one row, which may be one of
/// the NULLs or not.
fn zone_of_slice((zone, null_count): &(ZoneMap, usize), rows: usize, slice_rows: usize) -> Option<(ZoneMap, usize)> {
    let null_count = match *null_count {
        0 => 0,
        all if all == rows => slice_rows,
        _ if slice_rows == 1 => return None,
        // Some, of which nobody knows where they are.
        some => some.min(slice_rows.saturating_sub(1)).max(1),
    };
    Some((zone.clone(), null_count))
}

impl PageSource for ScanChunks<'_> {
    fn row_group_count(&self) -> usize {
        self.slices.len()
    }

    fn stored_row_group(&self, slice: usize) -> usize {
        self.slices[slice].row_group
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.slices[row_group].row_count
    }

    fn facts(&self, row_group: usize, column: usize) -> Option<PageFacts<'_>> {
        let (zone_map, null_count) = self.slices[row_group].zones[self.place(column).ok()?].as_ref()?;
        Some(PageFacts { zone_map, null_count: *null_count })
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        let at = self.place(column)?;
        let slice = &self.slices[row_group];
        let (chunk, mut cursor) = self.cursor(row_group, at)?;
        let skipped = slice.first_row - cursor.next_row();
        let group = &self.row_groups.groups[slice.row_group];
        // As much as they are on average, until it is known.
        let text_bytes = u128::from(group.text_bytes(at)) * slice.row_count as u128 / group.row_count.max(1) as u128;
        let reservation = self.account.try_reserve(text_bytes as u64)?;
        let read = cursor.skip(skipped).and_then(|()| cursor.take(slice.row_count));
        let array = read.map_err(|error| -> Box<dyn Error + Send + Sync> {
            match (error.is_too_long(), self.error(slice.row_group, at, error)) {
                (true, error) => TooLong(error).into(),
                (false, error) => error.into(),
            }
        })?;
        {
            let mut locked = chunk.lock();
            locked.cursors.push(cursor);
            locked.count_dictionary()?;
        }
        if text_bytes > 0 {
            // A dictionary is that of all slices.
            let own = array.as_any_dictionary_opt().map_or(&*array, |coded| coded.keys());
            reservation.resize(own.get_array_memory_size() as u64)?;
            self.decoded.lock().entry(row_group).or_default().push(reservation);
        }
        Ok(SourceColumn::Array(array))
    }

    fn announce(&self, _thread: usize, row_group: usize, columns: &[usize]) -> bool {
        if self.ahead_bytes.load(Ordering::Relaxed) >= READ_AHEAD_BYTES {
            return false;
        }
        self.ask_for(self.slices[row_group].row_group, columns, true);
        true
    }

    fn begin(&self, row_group: usize, columns: &[usize]) {
        self.ask_for(self.slices[row_group].row_group, columns, false);
    }

    fn done(&self, row_group: usize, took_ns: u64) {
        let of = self.slices[row_group].row_group;
        if self.left[of].fetch_sub(1, Ordering::AcqRel) == 1 {
            for at in 0..self.row_groups.columns.len() {
                let Some(chunk) = self.chunks.lock().remove(&(of, at)) else { continue };
                let ahead_bytes = std::mem::take(&mut chunk.lock().ahead_bytes);
                self.ahead_bytes.fetch_sub(ahead_bytes, Ordering::Relaxed);
                self.held_bytes.fetch_sub(self.row_groups.groups[of].chunk_bytes(at), Ordering::Relaxed);
            }
        }
        self.decoded.lock().remove(&row_group);
        let waited_ns = self.waited_ns.lock().remove(&row_group).unwrap_or_default();
        if let Some(pipeline) = &self.pipeline {
            let busy_ns = took_ns.saturating_sub(waited_ns);
            pipeline.observe(Work { bytes: 0, read_bytes: 0, busy_ns, waited_ns: 0 });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;

    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::file::properties::WriterProperties;
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
    use datafusion::prelude::SessionContext;
    use thermocline_budget::{Budget, Purpose};
    use thermocline_hardware::ManualClock;
    use thermocline_medium::PinnedFile;

    use super::*;
    use crate::parquet_table::{FooterCache, ParquetFile, ParquetTable};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_row_group_that_is_done_with_is_not_read_ahead_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1000)).build();
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let budget = Budget::new(1 << 30, None);
        let clock = Arc::new(ManualClock::new(0));
        let footers = FooterCache::new(&budget, Arc::<ManualClock>::clone(&clock));
        let file = ParquetFile::Local(Arc::new(PinnedFile::open(&path).unwrap()));
        let table = ParquetTable::try_new(vec![file], None, footers).await.unwrap();
        let row_groups = Arc::new(table.row_groups(&SessionContext::new().state(), &[0]).unwrap());
        let (account, runtime) = (budget.account("chunks", Purpose::Query), Handle::current());
        let counts = PageCounts::new(&ExecutionPlanMetricsSet::new(), 0);
        let cancellation = Cancellation::default();
        let held_from = (&account, clock.as_ref() as &dyn Clock, &runtime);
        let chunks = ScanChunks::new(&row_groups, 1, counts, held_from, &cancellation);
        assert_eq!(chunks.row_group_count(), 2);
        assert!(chunks.announce(0, 1, &[0]));
        chunks.begin(0, &[0]);
        chunks.done(0, 0);
        // By a thread from which it was taken before it was announced.
        assert!(chunks.announce(0, 0, &[0]));
        assert!(chunks.chunks.lock().keys().eq([&(1, 0)]));
        assert_eq!(chunks.held_bytes.load(Ordering::Relaxed), row_groups.groups[1].chunk_bytes(0));
        chunks.done(1, 0);
        assert!(chunks.chunks.lock().is_empty());
        assert_eq!(chunks.ahead_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn slices_of_long_texts_have_few_rows_and_all_have_all_of_them() {
        for (row_count, text_bytes, most_rows) in [
            (1_000_000, 0, SLICE_ROWS),
            (1_000_000, 40_000_000, SLICE_ROWS),
            // Three thousand bytes each.
            (1_000_000, 3_000_000_000, 2 * MINI_BLOCK_VALUES),
            (500, 2_000_000_000, MINI_BLOCK_VALUES),
            (1, u64::MAX, MINI_BLOCK_VALUES),
            (0, 0, MINI_BLOCK_VALUES),
        ] {
            let rows = slice_rows(row_count, text_bytes);
            assert_eq!(rows, most_rows, "{row_count} rows of {text_bytes} bytes");
            let mut next = 0;
            for (first_row, count) in slices(row_count, rows) {
                assert_eq!(first_row, next);
                assert!(count > 0 && count <= rows, "{count} of {rows} rows");
                next += count;
            }
            assert_eq!(next, row_count);
        }
    }
}
