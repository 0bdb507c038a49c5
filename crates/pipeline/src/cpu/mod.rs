//! The backend for processors: a fused loop over the mini-blocks of encoded pages.
//!
//! **Owns**: running a pipeline on threads of its own. Of each mini-block the stages (`stage`: filters, conditions,
//! probes, and the key ranges of probed tables) are worked through in the order that measurements say (`order`), each
//! on the rows that the ones before have left, as bits or one by one depending on how many these are (`selection`);
//! what is left multiplies if a probe finds several rows for a key (`expansion`), and goes to the sink (`groups`,
//! `rows`), which alone computes values and looks payload up. Row groups that zone maps rule out are left out, and a
//! page that no surviving row needs is not read (`view`).
//!
//! **Does not own**: pages, which a [`PageSource`] gives, and batches, which a [`BatchSource`] gives; tables, which are
//! built before.
//!
//! **Invariants**
//! - The answer does not depend on the number of threads, the order of stages or the instruction set; only sums and
//!   averages of floats do by their rounding, as they depend on the order in which values are added.
//! - Memory for what grows with the data is reserved before it is allocated; what is returned holds its reservation.
//!   Not counted: what is there of a mini-block alone while it is worked on; texts and codes of text pages without a
//!   dictionary, which exist while such a page is worked on.
//! - An overflow is an error if a row that is left has it, and may be one if a row has it that another stage drops.
//!
//! **Concurrency**: the calling thread works too. Threads share row groups by stealing (`queue`), nothing else in the
//! loop but two flags, which each looks at every few mini-blocks: a run that is cancelled or has failed ends soon.
//!
//! **Paper**: pipelines are HetCache's (CIDR 2023), §6, on one device; the loop over vectors that stay in the
//! first-level cache is MonetDB/X100's (CIDR 2005).

mod ahead;
mod array_texts;
mod batches;
mod coded;
mod column;
mod computed;
mod expansion;
mod form;
mod groups;
mod interner;
mod kept_texts;
mod keyed;
mod memory;
mod native;
mod numbers;
mod order;
mod page_texts;
mod place;
mod queue;
mod rows;
mod runs;
mod selection;
mod stage;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod texts;
mod view;
mod waiting;
mod whole_blocks;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thermocline_budget::{Account, Reservation};
use thermocline_hardware::Clock;

use crate::ir::{Pipeline, Sink, Slot};
use crate::kernels::InstructionSet;
use crate::threads::Threads;
use crate::{BatchSource, BuiltTable, MemoryPages, PageSource, PipelineError, Result, Rowset, TextList};
use batches::Batches;
pub use batches::{BatchConsumer, BatchSize};
use groups::{Groups, added_up};
use keyed::Interners;
use memory::Memory;
use queue::RowGroupQueue;
use rows::Rows;
use texts::RunTexts;
use view::RunContext;
use worker::{Collected, Input, Shared, work};

/// How a pipeline runs.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions<'a> {
    /// Threads, the calling one included; 0 counts as 1.
    pub thread_count: usize,
    /// Which instructions kernels use.
    pub instructions: InstructionSet,
    /// What stages are measured with.
    pub clock: &'a dyn Clock,
    /// Where memory is reserved.
    pub account: &'a Account,
    /// Ends the run soon after it was set.
    pub cancelled: &'a AtomicBool,
    /// How groups are kept.
    pub groups: GroupWay,
}

/// How a run keeps groups. The answer is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupWay {
    /// Each thread adds rows up in all groups as they come.
    #[default]
    Together,
    /// The same, but the run ends where a thread has more groups.
    AtMost(u64),
    /// Rows are parted by their groups first and added up part by part when all are there: for groups that caches do not
    /// hold. Takes memory for all rows' values. Where aggregates keep texts, as together.
    Parted,
}

/// What a pipeline ends in.
#[derive(Debug)]
pub enum Outcome {
    /// Rows or groups.
    Rows {
        /// The rows.
        rowset: Rowset,
        /// Their memory: to be kept as long as they are.
        reservation: Reservation,
    },
    /// A table.
    Table(Arc<BuiltTable>),
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Row groups that were worked on.
    pub row_groups_scanned: u64,
    /// Row groups that zone maps ruled out.
    pub row_groups_skipped: u64,
    /// Pages that were asked for.
    pub pages_read: u64,
    /// Rows that reached the sink.
    pub rows_kept: u64,
}

/// Runs a pipeline over all row groups of a source. `tables` are those of its probes ([`Pipeline::tables`]).
///
/// # Errors
/// [`PipelineError::Table`] for other tables than the pipeline was made for; whatever the source's pages,
/// arithmetic and memory meet; [`PipelineError::Cancelled`].
pub fn run(
    pipeline: &Pipeline,
    source: &dyn PageSource,
    tables: &[Arc<BuiltTable>],
    options: &RunOptions<'_>,
) -> Result<(Outcome, RunReport)> {
    outcome(pipeline, collect(pipeline, From::Pages(source), tables, options, None)?, options)
}

/// Runs a pipeline as [`run`] does over record batches instead of row groups: on so many threads as `options` say, each
/// of which asks for batches until there are none left for it.
///
/// # Errors
/// Those of [`run`]; [`PipelineError::Batches`] with what the source meets.
pub fn run_over_batches(
    pipeline: &Pipeline,
    source: &dyn BatchSource,
    tables: &[Arc<BuiltTable>],
    options: &RunOptions<'_>,
) -> Result<(Outcome, RunReport)> {
    outcome(pipeline, collect(pipeline, From::Batches(source), tables, options, None)?, options)
}

/// What a pipeline ends in, of what its threads have kept.
fn outcome(
    pipeline: &Pipeline,
    (rowset, reservation, report): (Rowset, Reservation, RunReport),
    options: &RunOptions<'_>,
) -> Result<(Outcome, RunReport)> {
    let outcome = match pipeline.table_shape() {
        Some(shape) => {
            let threads = Threads(options.thread_count);
            Outcome::Table(Arc::new(BuiltTable::new(shape, rowset, reservation, threads)?))
        }
        None => {
            reservation.resize(rowset.size_bytes())?;
            Outcome::Rows { rowset, reservation }
        }
    };
    Ok((outcome, report))
}

/// Runs a pipeline as [`run`] does and gives its rows to `consumer` batch by batch, from all threads at once and in no
/// order: a batch of `size` for each thread is in memory here. Groups are one batch, when all are done.
///
/// # Errors
/// Those of [`run`]; [`PipelineError::Consumer`] with what the consumer says, which ends the run soon;
/// [`PipelineError::TableInBatches`] for a pipeline that builds a table. Batches that were given out before stay so.
pub fn run_in_batches(
    pipeline: &Pipeline,
    source: &dyn PageSource,
    tables: &[Arc<BuiltTable>],
    options: &RunOptions<'_>,
    size: BatchSize,
    consumer: &BatchConsumer<'_>,
) -> Result<RunReport> {
    if let Some(shape) = pipeline.table_shape() {
        return Err(PipelineError::TableInBatches { table: shape.name });
    }
    let batches = Batches { size, consumer };
    let (rowset, reservation, report) = collect(pipeline, From::Pages(source), tables, options, Some(batches))?;
    // Rows were given out by their threads.
    if rowset.row_count > 0 {
        reservation.resize(rowset.size_bytes())?;
        batches.consume(rowset, reservation)?;
    }
    Ok(report)
}

/// Where a run's rows come from.
#[derive(Clone, Copy)]
enum From<'a> {
    Pages(&'a dyn PageSource),
    Batches(&'a dyn BatchSource),
}

/// What all threads together keep of a run's rows or groups.
fn collect(
    pipeline: &Pipeline,
    from: From<'_>,
    tables: &[Arc<BuiltTable>],
    options: &RunOptions<'_>,
    batches: Option<Batches<'_>>,
) -> Result<(Rowset, Reservation, RunReport)> {
    check_tables(pipeline, tables)?;
    let no_texts = RunTexts::default();
    // Nothing is known of batches before they come.
    let no_pages = MemoryPages::new();
    let source = if let From::Pages(source) = from { source } else { &no_pages };
    let context = RunContext { pipeline, source, tables, texts: &no_texts };
    let texts = RunTexts::new(pipeline, context)?;
    let context = RunContext { texts: &texts, ..context };
    let (groups, taken) = sink_slots(pipeline);
    let interners = Interners::new(context, taken.into_iter(), options.account)?;
    let dimensions: Vec<_> = groups.iter().map(|slot| groups::dimension(context, *slot)).collect();
    let row_group_count = u32::try_from(source.row_group_count())
        .map_err(|_| PipelineError::TooMany { what: "row groups of a source".to_owned() })?;
    let most_threads = if let From::Pages(_) = from { source.row_group_count().max(1) } else { usize::MAX };
    let thread_count = options.thread_count.clamp(1, most_threads);
    let queue = RowGroupQueue::new(row_group_count, thread_count);
    let input = if let From::Batches(batches) = from { Input::Batches(batches) } else { Input::RowGroups(&queue) };
    let failed = AtomicBool::new(false);
    let shared =
        Shared { context, options, input, interners: &interners, dimensions: &dimensions, failed: &failed, batches };
    let parts = work_on_threads(&shared, thread_count)?;
    let mut report = RunReport::default();
    let mut groups: Vec<Box<Groups<'_>>> = Vec::new();
    let mut rows: Vec<Rows<'_>> = Vec::new();
    for (part, part_report) in parts {
        report.add(part_report);
        match part {
            Collected::Groups(more) => groups.push(more),
            Collected::Rows(more) => rows.push(more),
        }
    }
    let texts = interners.texts();
    let (rowset, memory) = match (groups, rows.pop()) {
        (groups, _) if !groups.is_empty() => merged(groups, context, &interners, &texts, options)?,
        (_, Some(mut last)) => {
            last.merge(rows, Threads(thread_count))?;
            last.finish(context, &texts, options.account)?
        }
        (_, None) => (Rowset { columns: Vec::new(), row_count: 0 }, Memory::new(options.account, 0)?),
    };
    // What rows say in texts goes on with them.
    interners.hand_over(&memory);
    Ok((rowset, memory.into_reservation(), report))
}

/// The groups of all threads together, and their memory.
fn merged(
    groups: Vec<Box<Groups<'_>>>,
    context: RunContext<'_>,
    interners: &Interners,
    texts: &[(Slot, Arc<TextList>)],
    options: &RunOptions<'_>,
) -> Result<(Rowset, Memory)> {
    if let (Sink::Aggregate { groups: slots, aggregates }, true) =
        (context.pipeline.sink(), groups.iter().all(|groups| groups.are_parted()))
    {
        return added_up(groups, context, (slots, aggregates), interners, texts, options);
    }
    let mut threads = groups.into_iter();
    let Some(mut all) = threads.next() else {
        return Ok((Rowset { columns: Vec::new(), row_count: 0 }, Memory::new(options.account, 0)?));
    };
    for more in threads {
        all.merge(*more)?;
    }
    all.finish(context, texts)
}

/// The stack of a thread that runs a pipeline: conditions and computed values of thousands of levels are worked out level
/// by level. Only what is used of it takes memory.
pub const WORKER_STACK_BYTES: usize = 32 << 20;

/// What each thread has collected; of errors the first that does not follow another one.
fn work_on_threads<'r>(shared: &Shared<'r>, thread_count: usize) -> Result<Vec<(Collected<'r>, RunReport)>> {
    let worked: Vec<Result<(Collected<'r>, RunReport)>> = std::thread::scope(|scope| {
        let worker = || std::thread::Builder::new().stack_size(WORKER_STACK_BYTES);
        // Where the system gives no more threads, those that there are take the row groups of the others too.
        let others: Vec<_> = (1..thread_count)
            .filter_map(|thread| worker().spawn_scoped(scope, move || work(shared, thread)).ok())
            .collect();
        let own = work(shared, 0);
        let joined = others.into_iter().map(|thread| match thread.join() {
            Ok(worked) => worked,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(joined).collect()
    });
    let mut parts = Vec::with_capacity(worked.len());
    let mut first_error: Option<PipelineError> = None;
    for part in worked {
        match part {
            Ok(part) => parts.push(part),
            Err(error) if first_error.as_ref().is_none_or(PipelineError::follows_another) => first_error = Some(error),
            Err(_) => {}
        }
    }
    first_error.map_or(Ok(parts), Err)
}

fn check_tables(pipeline: &Pipeline, tables: &[Arc<BuiltTable>]) -> Result<()> {
    let expected = pipeline.tables();
    for (probe, shape) in expected.iter().enumerate() {
        let found = tables.get(probe).map(|table| table.shape());
        if found != Some(shape) {
            let text =
                |shape: &crate::TableShape| format!("table {} of {} payload columns", shape.name, shape.payload.len());
            let found = found.map_or_else(|| "none".to_owned(), text);
            return Err(PipelineError::Table { probe, expected: text(shape), found });
        }
    }
    Ok(())
}

/// The slots that the sink groups by, and all whose texts it tells apart.
fn sink_slots(pipeline: &Pipeline) -> (Vec<Slot>, Vec<Slot>) {
    match pipeline.sink() {
        Sink::Aggregate { groups, .. } => (groups.clone(), groups.clone()),
        Sink::Build { keys, .. } if pipeline.lists_texts() => (Vec::new(), keys.clone()),
        Sink::Build { keys, payload, .. } => (Vec::new(), [keys.as_slice(), payload.as_slice()].concat()),
        Sink::Materialise { .. } => (Vec::new(), Vec::new()),
    }
}

impl RunReport {
    fn add(&mut self, other: Self) {
        self.row_groups_scanned += other.row_groups_scanned;
        self.row_groups_skipped += other.row_groups_skipped;
        self.pages_read += other.pages_read;
        self.rows_kept += other.rows_kept;
    }
}
