//! Running a scan of raw files: from the operator cache, or through shared scans.
//!
//! A [`Scan`] describes; a [`ScanRun`] is one execution of it. For each file in turn the run asks the cache: a hit is
//! read from memory, piece by piece; a miss takes part in a shared scan; items that cover parts of what is wanted are
//! read one after the other, and then the scan of what they lack. Whatever comes is filtered by what the item or scan
//! does not imply (the *residual*), and the asked-for columns are cut out.
//!
//! **Concurrency**: the partitions of a run share one cursor a file. A file's start (pinning its version may read the
//! file to check it) happens once, on a blocking thread.

use std::fmt::Write;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use thermocline_medium::Compression;
use thermocline_operator_cache::{
    AppendPolicy, Awaited, ColumnRoute, ColumnSpec, Cut, CutPieces, CutRows, DeliveredCut, Expectation, Item,
    OpenedFile, Participant, Piece, PinnedSource, Reading, RowStream, SelectRequest, SourceFactory, SourceKey, Start,
    View,
};
use thermocline_pipeline::SourceBatch;
use thermocline_predicate::{Conjunction, FieldPath};
use thermocline_raw::csv::CsvFormat;
use thermocline_raw::{OnError, Source};
use tokio::sync::OnceCell;

use super::ahead::ScanAhead;
use super::element_digest::element_digest;
use super::estimates::{self, WholeColumns};
use super::listing::{QueryFile, external};
use super::options::{FileFormat, TableOptions};
use super::source;
use crate::database::Database;
use crate::idle_work::Busy;
use crate::query::QueryContext;
use crate::settings::{Append, ThermoclineConfig};

/// What a query reads of a raw table.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) database: Arc<Database>,
    pub(crate) config: ThermoclineConfig,
    pub(crate) options: TableOptions,
    pub(crate) format: FileFormat,
    /// Schema of the records.
    pub(crate) table_schema: SchemaRef,
    pub(crate) csv: Option<Arc<CsvFormat>>,
    pub(crate) files: Arc<[Arc<QueryFile>]>,
    pub(crate) unnest: Option<FieldPath>,
    pub(crate) predicate: Arc<Conjunction>,
    /// Type of each field of the predicate.
    pub(crate) predicate_types: Vec<(FieldPath, DataType)>,
    /// About the bytes of one record, from the sample.
    pub(crate) record_bytes: u64,
    pub(crate) context: Arc<QueryContext>,
}

impl Scan {
    /// Bytes of all files as they lie on their medium.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.version.size_bytes).sum()
    }

    /// The files in a few words.
    pub(crate) fn describe_files(&self) -> String {
        match self.files.as_ref() {
            [single] => single.path().to_string(),
            [first, rest @ ..] => format!("{} and {} more", first.path(), rest.len()),
            [] => "no file".to_string(),
        }
    }

    /// A guess of the rows, for the order of joins.
    pub(crate) fn estimated_rows(&self) -> Option<u64> {
        let rows = estimates::row_count(self, self.total_bytes() / self.record_bytes.max(1));
        Some(((rows as f64 * self.estimated_selectivity()) as u64).max(1))
    }

    /// A guess of the share of rows that pass the predicate.
    pub(crate) fn estimated_selectivity(&self) -> f64 {
        estimates::selectivity(self.predicate.fields().count())
    }

    /// The columns to ask of the files for `paths`: each once, children of a wanted struct left to the struct, and the
    /// predicate's fields if the rows are to be filtered again later.
    fn columns(&self, outputs: &[(FieldPath, DataType)], with_predicate: bool) -> Arc<[ColumnSpec]> {
        let predicate = self.predicate_types.iter().filter(|_| with_predicate);
        let mut wanted: Vec<&(FieldPath, DataType)> = outputs.iter().chain(predicate).collect();
        wanted.sort_by_key(|(path, _)| path.len());
        let mut columns: Vec<ColumnSpec> = Vec::new();
        for (path, data_type) in wanted {
            let column = ColumnSpec { path: path.clone(), data_type: data_type.clone() };
            // A list is found in its struct, and is not the elements that it is unnested into.
            if ColumnRoute::find_typed(&columns, &column).is_none() {
                columns.push(column);
            }
        }
        columns.sort_by(|left, right| left.path.cmp(&right.path));
        columns.into()
    }

    /// What is asked of `file`, which the cache knows as `pinned` if it is to be used; and when the file's whole
    /// columns are to be kept.
    pub(crate) fn request(
        &self,
        file: &QueryFile,
        outputs: &[(FieldPath, DataType)],
        pinned: Option<&PinnedSource>,
    ) -> (SelectRequest, WholeColumns) {
        let compression = file.compression(&self.options);
        let mut options = format!(
            "{} {}",
            self.options.fingerprint(self.format, &self.config, compression),
            schema_fingerprint(&self.table_schema)
        );
        if let Some(csv) = &self.csv {
            // What was not said was found out of the first of the table's files.
            let _ = write!(options, " {csv:?}");
        }
        let columns = self.columns(outputs, self.config.cache);
        let may_skip = self.options.on_error(&self.config) == OnError::Skip;
        let mut may_widen = true;
        if may_skip {
            // Which records are bad depends on the columns that are read: rows of others are another table's.
            for column in columns.iter() {
                let _ = write!(options, " {}", column.path);
            }
            // And on which elements are: of those that are rejected, the other fields are not read.
            if let Some(digest) = self.unnest.as_ref().and_then(|list| element_digest(list, &self.predicate)) {
                let _ = write!(options, " {digest:032x}");
                may_widen = false;
            }
        }
        let source = SourceKey {
            path: Arc::clone(file.path()),
            kind: self.format.source_kind(),
            options: options.into(),
            unnest: self.unnest.clone(),
        };
        let mut further_columns = Vec::new();
        let ((whole, retain_expectation), retain_columns) = match pinned.filter(|_| may_widen) {
            Some(pinned) => {
                let earlier = pinned.earlier(self.unnest.as_ref());
                let cache = self.database.cache();
                let whole = |columns: &Arc<[ColumnSpec]>| {
                    let widths_bytes = cache.kept_widths_bytes(&source, pinned, columns);
                    estimates::whole_columns(self, file, columns, &widths_bytes, earlier)
                };
                // With those that others asked for, if that is worth it too.
                let asked = cache.columns_asked(&source, pinned, &columns);
                if asked.len() > columns.len() {
                    further_columns = estimates::further_columns(self, file, &asked);
                }
                match whole(&asked) {
                    kept if kept.0 == WholeColumns::AtOnce || asked.len() == columns.len() => (kept, asked),
                    _ => (whole(&columns), Arc::clone(&columns)),
                }
            }
            None => ((WholeColumns::Never, Expectation::default()), Arc::clone(&columns)),
        };
        let retain_predicate = match whole {
            WholeColumns::AtOnce => Arc::default(),
            _ => Arc::clone(&self.predicate),
        };
        let can_seek = compression == Compression::None;
        let request = SelectRequest {
            source,
            columns,
            predicate: Arc::clone(&self.predicate),
            retain_predicate,
            retain_columns,
            further_columns: further_columns.into(),
            retain_expectation,
            may_wait: true,
            may_skip,
            can_seek,
            // Pieces of objects that are cut in order end anywhere.
            can_part: can_seek && !may_skip && matches!(file.source, Source::Local(_)),
            can_map: can_seek && !may_skip && !self.options.strict,
        };
        (request, whole)
    }

    /// The version of `file` that this query sees, as the cache knows it; found once per query and file.
    pub(crate) async fn pin(self: &Arc<Self>, file: &Arc<QueryFile>) -> Result<Arc<PinnedSource>> {
        if let Some(pinned) = file.pinned.get() {
            return Ok(Arc::clone(pinned));
        }
        let append = match self.options.append(&self.config) {
            Append::Verify => AppendPolicy::Verify,
            Append::Trust => AppendPolicy::Trust,
        };
        let cache = Arc::clone(self.database.cache());
        let opened = Arc::clone(file);
        // The check may read the whole file; the query can be cancelled meanwhile.
        let pinned = tokio::task::spawn_blocking(move || match &opened.source {
            Source::Local(local) => cache.pin(OpenedFile::Local(local), append),
            Source::Remote(_) => cache.pin(OpenedFile::Remote(&opened.version), append),
        })
        .await
        .map_err(external)?
        .map_err(external)?;
        Ok(Arc::clone(file.pinned.get_or_init(|| Arc::new(pinned))))
    }
}

fn schema_fingerprint(schema: &SchemaRef) -> String {
    schema.fields().iter().map(|field| format!("{}:{};", field.name(), field.data_type())).collect()
}

/// One execution of a scan.
pub(crate) struct ScanRun {
    scan: Arc<Scan>,
    outputs: Vec<(FieldPath, DataType)>,
    schema: SchemaRef,
    files: Vec<OnceCell<FileRun>>,
    hits: Count,
    misses: Count,
    skipped_records: Count,
    /// Pieces of what is kept whose values lie elsewhere.
    passed_over: Count,
    /// Whether the last row is wanted as much as the first.
    is_whole: bool,
    /// Whether rows may be left as they are kept ([`Cut::as_kept`]).
    as_kept: bool,
}

impl std::fmt::Debug for ScanRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanRun").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

/// How one file is read: from items, then by taking part in a scan. Often it is one item, or the scan alone.
struct FileRun {
    items: Vec<ItemRun>,
    scan: Option<(Arc<Participant>, DeliveredCut)>,
    /// What is to be kept of the file once the scan is over and nothing else to be done.
    ahead: Mutex<Option<ScanAhead>>,
}

/// How it stands with a file that is to be read.
enum Started {
    File(Box<FileRun>),
    Wait(Awaited),
}

/// Scans that a query waits for, for each of its files, at most. The second has what the first one lacked, if anybody
/// waited for that; the rest is for queries that come while it runs, over and over. As many as sessions may start
/// together, each with other columns; all who went on at the same time would slow each other down.
const WAITS: usize = 16;

struct ItemRun {
    /// The item and the form of it that is read, until its last piece was: then it may be evicted, though the query goes
    /// on with other files.
    item: Mutex<Option<(Arc<Item>, Arc<Item>)>>,
    pieces: Vec<Piece>,
    next: AtomicUsize,
    /// Pieces not yet read; who finishes the last one reports the times.
    left: AtomicUsize,
    reading: Mutex<Reading>,
    cut: Cut,
}

/// What was cut out as a batch; as it is kept, its columns may be in narrow forms of the schema's types.
fn batch(cut: CutRows, schema: &SchemaRef, as_kept: bool) -> Result<SourceBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(cut.row_count));
    let schema = if as_kept { with_forms(schema, &cut.columns) } else { Arc::clone(schema) };
    let batch = RecordBatch::try_new_with_options(schema, cut.columns, &options)?;
    Ok(SourceBatch { batch, selected: cut.selected })
}

/// The schema with the types that columns are in.
fn with_forms(schema: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    let mut fields = schema.fields().iter().zip(columns);
    if fields.all(|(field, column)| field.data_type() == column.data_type()) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().zip(columns);
    let fields = fields.map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

impl ScanRun {
    pub(crate) fn new(
        scan: Arc<Scan>,
        (paths, schema): (Vec<FieldPath>, SchemaRef),
        limit: Option<usize>,
        as_kept: bool,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let outputs = paths.into_iter().zip(schema.fields().iter().map(|field| field.data_type().clone())).collect();
        let files = scan.files.iter().map(|_| OnceCell::new()).collect();
        let count = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        Self {
            scan,
            outputs,
            schema,
            files,
            hits: count("files_from_cache"),
            misses: count("files_scanned"),
            skipped_records: count("records_skipped"),
            passed_over: count("pieces_passed_over"),
            is_whole: limit.is_none(),
            as_kept,
        }
    }

    fn output_paths(&self) -> Vec<FieldPath> {
        self.outputs.iter().map(|(path, _)| path.clone()).collect()
    }

    fn item_run(&self, item: Arc<Item>, view: View, residual: &Conjunction) -> Result<ItemRun> {
        let cut = item.cut(view, residual, &self.output_paths()).ok_or_else(lacks_column)?;
        let cut = if self.as_kept { cut.as_kept() } else { cut };
        let form = self.scan.database.cache().form_for(&item, &cut);
        Ok(ItemRun::new(item, form, cut))
    }

    /// Decides how file `index` is read, after having waited for scans of others where that spares this query its own.
    async fn start(&self, index: usize) -> Result<FileRun> {
        // Those who wait with it go by it until this query has its answer.
        let mut awaited = None;
        for _ in 0..WAITS {
            match self.start_now(index, self.is_whole).await? {
                Started::File(file) => return Ok(*file),
                Started::Wait(mut scan) => {
                    scan.over().await;
                    awaited = Some(scan);
                }
            }
        }
        let started = self.start_now(index, false).await?;
        drop(awaited);
        match started {
            Started::File(file) => Ok(*file),
            Started::Wait(_) => internal_err!("a scan waits that may not"),
        }
    }

    async fn start_now(&self, index: usize, may_wait: bool) -> Result<Started> {
        let scan = &self.scan;
        let file = &scan.files[index];
        let pinned = scan.pin(file).await?;
        let (request, whole) = scan.request(file, &self.outputs, scan.config.cache.then_some(&*pinned));
        let request = SelectRequest { may_wait, ..request };
        let factory: SourceFactory = source::factory(Arc::clone(scan), Arc::clone(file));
        let cache = scan.database.cache();
        if scan.config.cache && cache.may_load_map(&request, &pinned) {
            let (cache, request, pinned) = (Arc::clone(cache), request.clone(), Arc::clone(&pinned));
            let loading = tokio::task::spawn_blocking(move || cache.load_map(&request, &pinned));
            loading.await.map_err(external)?;
        }
        let start = if scan.config.cache {
            cache.begin(&request, &pinned, true, factory)
        } else {
            Start::Scan(cache.scan_alone(&request, &pinned, factory))
        };
        let (items, participant) = match start {
            Start::Hit { item, residual, view, .. } => (vec![self.item_run(item, view, &residual)?], None),
            Start::Combine { parts, remainder } => {
                let items = parts.into_iter().map(|part| self.item_run(part.item, View::Elements, &part.residual));
                (items.collect::<Result<_>>()?, remainder)
            }
            Start::Scan(participant) => (Vec::new(), Some(participant)),
            Start::Wait(awaited) => return Ok(Started::Wait(awaited)),
        };
        let scan = match participant {
            Some(participant) => {
                self.misses.add(1);
                let cut = participant.cut(&self.output_paths()).ok_or_else(lacks_column)?;
                let cut = if self.as_kept { cut.as_kept() } else { cut };
                Some((participant, cut))
            }
            None => {
                self.hits.add(1);
                None
            }
        };
        let is_scanned = matches!(&scan, Some((participant, _)) if *participant.predicate() == request.predicate);
        let ahead = is_scanned && whole == WholeColumns::WhenIdle;
        let ahead = Mutex::new(ahead.then(|| ScanAhead::new(&self.scan, file, &request)));
        Ok(Started::File(Box::new(FileRun { items, scan, ahead })))
    }

    /// The batches of one partition: whatever no other partition has taken.
    pub(crate) fn partition_stream(
        self: Arc<Self>,
        partition: usize,
        limit: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> impl Stream<Item = Result<SourceBatch>> + Send + use<> {
        let baseline = BaselineMetrics::new(metrics, partition);
        let busy = self.scan.database.idle_work().busy();
        let state = PartitionState {
            run: self,
            file: 0,
            item: 0,
            rows: None,
            pieces: None,
            held: None,
            left_rows: limit,
            baseline,
            _busy: busy,
        };
        futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        })
    }
}

fn lacks_column() -> DataFusionError {
    DataFusionError::Internal("what answers a scan lacks one of its columns".to_string())
}

struct PartitionState {
    run: Arc<ScanRun>,
    file: usize,
    /// Of the items that the file is read from, the first that may have pieces left.
    item: usize,
    rows: Option<RowStream>,
    /// What was read last, as far as it was not yet given.
    pieces: Option<CutPieces>,
    /// The item that they share arrays with.
    held: Option<Arc<Item>>,
    left_rows: Option<usize>,
    baseline: BaselineMetrics,
    /// Until the partition's last row was taken, idle work gives way to it.
    _busy: Busy,
}

/// How often to try to leave the worker thread.
const STEPS_ASIDE: usize = 8;

/// How long whoever calls a task back waits until the task has left its worker thread.
const CALL_BACK: Duration = Duration::from_micros(20);

/// Leaves the worker thread for a moment, after having woken the partitions that waited for a file's start. The last
/// one woken stands in this worker's slot for the next task, which no other worker takes from, and a scan hardly ever
/// gives its worker up: without this, two partitions would run one after the other while a core stands idle.
///
/// Woken from outside, this task goes to whichever worker is idle; but who is called back before having left goes on as
/// if nothing had been, and is as likely to be called back too soon the next time.
async fn step_aside() {
    for _ in 0..STEPS_ASIDE {
        let mut has_left = false;
        let mut call = pin!(tokio::task::spawn_blocking(|| std::thread::sleep(CALL_BACK)));
        let called_back = poll_fn(|context| {
            let called = call.as_mut().poll(context);
            has_left |= called.is_pending();
            called
        });
        // A runtime that shuts down fails the query anyway.
        if called_back.await.is_err() || has_left {
            return;
        }
    }
}

impl PartitionState {
    async fn next(&mut self) -> Result<Option<SourceBatch>> {
        while self.left_rows != Some(0) && self.file < self.run.files.len() {
            let run = Arc::clone(&self.run);
            if let Some(rows) = self.next_piece()? {
                match rows.batch.num_rows() {
                    0 => tokio::task::yield_now().await,
                    _ => return Ok(Some(self.limited(rows))),
                }
                continue;
            }
            let mut has_started_it = false;
            let start = || {
                has_started_it = true;
                run.start(self.file)
            };
            let file = run.files[self.file].get_or_try_init(start).await?;
            if has_started_it {
                step_aside().await;
            }
            let kept = match file.items.get(self.item) {
                Some(item) => match item.next(&run, &self.baseline)? {
                    None => {
                        self.item += 1;
                        continue;
                    }
                    kept => kept,
                },
                None => None,
            };
            let (kept, held) = kept.unzip();
            self.held = held;
            self.pieces = match (kept, &file.scan) {
                (None, Some((participant, cut))) => {
                    let rows = self.rows.get_or_insert_with(|| participant.stream());
                    match rows.next().await {
                        Some(rows) => {
                            let rows = rows.map_err(external)?;
                            run.skipped_records.add(rows.rows().skipped_count as usize);
                            let _timer = self.baseline.elapsed_compute().timer();
                            Some(cut.apply(&rows)?)
                        }
                        None => None,
                    }
                }
                (kept, _) => kept,
            };
            if self.pieces.is_none() {
                if let Some(ahead) = file.ahead.lock().take() {
                    ahead.submit();
                }
                self.file += 1;
                self.item = 0;
                self.rows = None;
            }
        }
        Ok(None)
    }

    /// The next piece of what was read last.
    fn next_piece(&mut self) -> Result<Option<SourceBatch>> {
        let Some(pieces) = &mut self.pieces else { return Ok(None) };
        let _timer = self.baseline.elapsed_compute().timer();
        match pieces.next() {
            Some(rows) => batch(rows?, &self.run.schema, self.run.as_kept).map(Some),
            None => {
                self.pieces = None;
                self.held = None;
                Ok(None)
            }
        }
    }

    fn limited(&mut self, mut rows: SourceBatch) -> SourceBatch {
        // Where there is a limit, no rows are marked.
        if let Some(left) = &mut self.left_rows {
            let taken = rows.batch.num_rows().min(*left);
            *left -= taken;
            rows.batch = rows.batch.slice(0, taken);
        }
        let row_count = rows.selected.as_ref().map_or(rows.batch.num_rows(), BooleanBuffer::count_set_bits);
        self.baseline.output_rows().add(row_count);
        rows
    }
}

impl ItemRun {
    fn new(item: Arc<Item>, form: Arc<Item>, cut: Cut) -> Self {
        let pieces = form.pieces();
        Self {
            cut,
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(pieces.len()),
            reading: Mutex::default(),
            item: Mutex::new(Some((item, form)).filter(|_| !pieces.is_empty())),
            pieces,
        }
    }

    /// The next piece, filtered, and the form of the item that it is of; `None` when all were taken.
    fn next(&self, run: &ScanRun, baseline: &BaselineMetrics) -> Result<Option<(CutPieces, Arc<Item>)>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = self.pieces.get(index) else { return Ok(None) };
        let _timer = baseline.elapsed_compute().timer();
        let Some((item, form)) = self.item.lock().clone() else {
            return internal_err!("an item went before it was read");
        };
        let mut reading = Reading::default();
        let cut = form.read(piece, &self.cut, &**run.scan.database.clock(), &mut reading)?;
        run.passed_over.add(reading.passed_over_count as usize);
        self.reading.lock().add(&reading);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.item.lock() = None;
            self.finish(&item, &form, run);
        }
        Ok(Some((cut, form)))
    }

    /// Tells the cache how reading went, and has the item converted if another layout serves its queries better.
    fn finish(&self, item: &Arc<Item>, form: &Item, run: &ScanRun) {
        let cache = run.scan.database.cache();
        let reading = *self.reading.lock();
        if let Some(conversion) = cache.finish_reading(item, form.layout(), &self.cut, &reading) {
            let cache = Arc::clone(cache);
            // Nobody waits for it; queries read the item as it is until it is there.
            drop(tokio::task::spawn_blocking(move || cache.convert(conversion)));
        }
    }
}
