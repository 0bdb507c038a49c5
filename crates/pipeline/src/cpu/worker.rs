//! One thread's part of a run: row group after row group, mini-block after mini-block, through all stages into the
//! sink.
//!
//! **Invariants**: rows that multiply do so piece by piece, each of which goes all the way to the sink before the next
//! is made.
//!
//! **Concurrency**: workers share the queue, the interners and two flags.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use arrow::buffer::BooleanBuffer;
use thermocline_budget::Account;
use thermocline_column_store::MINI_BLOCK_VALUES;

use super::ahead::Pace;
use super::batches::Batches;
use super::expansion::Multiplied;
use super::groups::{self, Dimension, Groups};
use super::keyed::Interners;
use super::memory::Memory;
use super::numbers::Lane;
use super::order::Order;
use super::queue::RowGroupQueue;
use super::rows::Rows;
use super::selection::{PLACES, RowPlaces, Selection, room_for};
use super::stage::{Expansion, Stage, Stages, scanned_sources};
use super::view::{Pins, RunContext, View};
use super::waiting::Waiting;
use super::{RunOptions, RunReport};
use crate::ir::{Origin, Sink, Slot};
use crate::source::BatchGroup;
use crate::{BatchSource, PipelineError, Result, SourceBatch};

/// How many row groups beyond its own a thread tells the source of: whose pages are in memory costs a look-up for each.
const LOOK_AHEAD_ROW_GROUPS: u32 = 64;

/// Mini-blocks between two looks at the flags: some tens of microseconds.
const BLOCKS_PER_CHECK: usize = 16;
/// What a thread takes for a slot: of a scanned column the words of a mini-block in each size, values that wait, and which
/// rows; of what is computed, values of mini-blocks.
const SCRATCH_BYTES: usize = MINI_BLOCK_VALUES * (16 + 17 + 4);
/// Rows of a mini-block that do not wait for others.
const ENOUGH_ROWS: usize = MINI_BLOCK_VALUES / 2;
/// So many rows of a mini-block are tested where they lie, although rows are few elsewhere.
const MANY_ROWS: usize = MINI_BLOCK_VALUES / 8;

/// Where a thread's rows go.
pub(super) enum Collected<'r> {
    Groups(Box<Groups<'r>>),
    Rows(Rows<'r>),
}

/// Where the rows come from.
#[derive(Clone, Copy)]
pub(super) enum Input<'r> {
    /// Row groups of the context's source.
    RowGroups(&'r RowGroupQueue),
    /// Batches; the context's source has no row groups.
    Batches(&'r dyn BatchSource),
}

/// What all threads of a run are given.
pub(super) struct Shared<'r> {
    pub(super) context: RunContext<'r>,
    pub(super) options: &'r RunOptions<'r>,
    pub(super) input: Input<'r>,
    pub(super) interners: &'r Interners,
    pub(super) dimensions: &'r [Option<Dimension>],
    /// Where rows go before all are done.
    pub(super) batches: Option<Batches<'r>>,
    /// Set by the first thread that fails, so that the others stop.
    pub(super) failed: &'r AtomicBool,
}

/// Works through the queue as thread number `thread`.
pub(super) fn work<'r>(shared: &Shared<'r>, thread: usize) -> Result<(Collected<'r>, RunReport)> {
    let _stops_others = StopsOthers(shared.failed);
    let worked = Worker::new(shared).and_then(|mut worker| {
        match shared.input {
            Input::RowGroups(queue) => worker.row_groups(queue, thread)?,
            Input::Batches(batches) => worker.batches(batches, thread)?,
        }
        worker.give(|_, _| true)?;
        Ok((worker.collected, worker.report))
    });
    if worked.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    worked
}

/// Tells the other threads when this one panics.
struct StopsOthers<'f>(&'f AtomicBool);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

struct Worker<'s, 'r> {
    shared: &'s Shared<'r>,
    stages: Vec<Stage<'r>>,
    expansions: Vec<Expansion<'r>>,
    order: Order,
    /// Of the order's stages, those that each mini-block goes through on its own; the others follow for the rows that
    /// wait.
    dense_count: usize,
    waiting: Waiting,
    pace: Pace,
    /// Room for the places of a mini-block's rows.
    places: Option<Box<RowPlaces>>,
    collected: Collected<'r>,
    report: RunReport,
    /// The first row group of the thread's part that the source was not told of.
    announced: u32,
    /// The scanned columns, and in how many row groups the page of each was needed.
    columns: Vec<(usize, u64)>,
    _scratch: Memory,
}

impl<'s, 'r> Worker<'s, 'r> {
    fn new(shared: &'s Shared<'r>) -> Result<Self> {
        let Shared { context, interners, dimensions, .. } = *shared;
        let account: &Account = shared.options.account;
        let scratch = Memory::new(account, context.pipeline.slots().len() * SCRATCH_BYTES)?;
        let Stages { first: stages, expansions, .. } = Stages::of(context);
        let order = Order::new(&stages);
        let collected = match context.pipeline.sink() {
            Sink::Aggregate { groups, aggregates } => {
                let groups = Groups::new(context, (groups, aggregates), dimensions, interners, shared.options)?;
                Collected::Groups(Box::new(groups))
            }
            Sink::Build { keys, payload, .. } => {
                let slots = [keys.as_slice(), payload.as_slice()].concat();
                Collected::Rows(Rows::new(context, &slots, interners, account)?)
            }
            Sink::Materialise { columns } => Collected::Rows(Rows::new(context, columns, interners, account)?),
        };
        let mut columns: Vec<(usize, u64)> = Vec::new();
        for slot in context.pipeline.slots() {
            if let Origin::Column(column) = slot.origin
                && columns.iter().all(|(of, _)| *of != column)
            {
                columns.push((column, 0));
            }
        }
        let dense_count = order.sequence().len();
        Ok(Self {
            shared,
            stages,
            expansions,
            order,
            dense_count,
            waiting: Waiting::new(scanned_sources(context, taken_slots(context))),
            pace: Pace::new(),
            places: None,
            collected,
            report: RunReport::default(),
            announced: 0,
            columns,
            _scratch: scratch,
        })
    }

    /// Tells the source which pages will probably be asked for: of this row group, and of those behind it as far as it
    /// goes along. A page that most row groups had no use for is not among them.
    fn announce(&mut self, thread: usize, row_group: u32, rest: Range<u32>) {
        let Shared { context, .. } = *self.shared;
        let may_pass = |row_group: u32| self.stages.iter().all(|stage| stage.may_pass(context, row_group as usize));
        let done = self.report.row_groups_scanned;
        let likely = self.columns.iter().filter(|(_, needed)| 2 * needed >= done).map(|(column, _)| *column);
        let likely: Vec<usize> = likely.collect();
        if may_pass(row_group) {
            context.source.begin(row_group as usize, &likely);
        }
        // After half of another thread's part was taken what was announced lies elsewhere.
        let is_here = (rest.start..=rest.end).contains(&self.announced);
        let mut next = if is_here { self.announced } else { rest.start };
        let end = rest.end.min(row_group + LOOK_AHEAD_ROW_GROUPS + 1);
        while next < end && (!may_pass(next) || context.source.announce(thread, next as usize, &likely)) {
            next += 1;
        }
        self.announced = next;
    }

    fn row_groups(&mut self, queue: &RowGroupQueue, thread: usize) -> Result<()> {
        let Shared { context, options, .. } = *self.shared;
        while let Some(row_group) = queue.next(thread) {
            let begun_ns = options.clock.monotonic_ns();
            self.announce(thread, row_group, queue.rest(thread));
            self.row_group(context, row_group as usize, None)?;
            context.source.done(row_group as usize, options.clock.monotonic_ns().saturating_sub(begun_ns));
        }
        Ok(())
    }

    fn batches(&mut self, batches: &dyn BatchSource, thread: usize) -> Result<()> {
        // Numbers tell a thread's batches apart, as they do row groups.
        for number in 0.. {
            self.check_flags()?;
            let next = batches.next(thread).map_err(|source| PipelineError::Batches { source })?;
            let Some(SourceBatch { batch, selected }) = next else { return Ok(()) };
            let source = BatchGroup { batch: &batch, columns: batches.columns() };
            self.row_group(RunContext { source: &source, ..self.shared.context }, number, selected.as_ref())?;
        }
        Ok(())
    }

    /// Works through a row group, of which the `selected` rows count, or all.
    fn row_group(&mut self, context: RunContext<'_>, row_group: usize, selected: Option<&BooleanBuffer>) -> Result<()> {
        self.check_flags()?;
        if !self.stages.iter().all(|stage| stage.may_pass(context, row_group)) {
            self.report.row_groups_skipped += 1;
            return Ok(());
        }
        let pins: Pins = context.pipeline.slots().iter().map(|_| std::cell::OnceCell::new()).collect();
        let mut view = View::new(context, row_group, &pins, self.pace);
        let row_count = context.source.row_count(row_group);
        for block in context.source.mini_blocks(row_group) {
            if block % BLOCKS_PER_CHECK == 0 {
                self.check_flags()?;
            }
            let start = block * MINI_BLOCK_VALUES;
            let mut rows = Selection::of_block(start, (row_count - start).min(MINI_BLOCK_VALUES), selected);
            if rows.count() > 0 {
                self.block(&mut view, block, &mut rows)?;
            }
        }
        self.take_waiting(&mut view)?;
        self.pace = view.next_pace();
        for (column, needed) in &mut self.columns {
            *needed += u64::from(view.has_page(*column));
        }
        self.report.row_groups_scanned += 1;
        self.report.pages_read += view.pages_read();
        Ok(())
    }

    /// Takes the selected rows of a mini-block through the stages and to the sink, or lets them wait.
    fn block(&mut self, view: &mut View<'_>, block: usize, selection: &mut Selection) -> Result<()> {
        let context = self.shared.context;
        let instructions = self.shared.options.instructions;
        if self.order.samples_next() {
            self.sample(view, block, selection)?;
        }
        for (number, stage) in self.order.sequence().iter().enumerate() {
            if number == self.dense_count && selection.count() < MANY_ROWS {
                break;
            }
            self.stages[*stage].apply(view, context, block, selection, instructions)?;
            view.ask_ahead();
            if selection.count() == 0 {
                return Ok(());
            }
        }
        if self.expansions.is_empty() {
            return self.keep(view, block, selection);
        }
        view.expand(Some(Multiplied::of(selection.rows(&mut [0; room_for(MINI_BLOCK_VALUES)]))));
        let expanded = self.expand(view, block, 0);
        view.expand(None);
        expanded
    }

    /// Multiplies the view's rows by all probes from number `level` on that do.
    fn expand(&mut self, view: &mut View<'_>, block: usize, level: usize) -> Result<()> {
        let Some(&Expansion { step, table, is_outer, .. }) = self.expansions.get(level) else {
            let places = Selection::all(view.row_count());
            return self.take(view, block, places.rows(&mut [0; room_for(MINI_BLOCK_VALUES)]));
        };
        let mut places = [0; room_for(MINI_BLOCK_VALUES)];
        let codes = view.key_codes(step, block, Selection::all(view.row_count()).rows(&mut places))?;
        let Some(before) = view.expand(None) else { return Ok(()) };
        let finds = |place: usize| match &codes.lane {
            Lane::Narrow(keys) if codes.is_valid(place) => table.rows(keys[place]),
            _ => 0..0,
        };
        before.multiply(step, is_outer, finds, |piece| {
            // Of one row there may be millions.
            self.check_flags()?;
            view.expand(Some(piece));
            let mut selection = Selection::all(view.row_count());
            let (context, instructions) = (self.shared.context, self.shared.options.instructions);
            for stage in &mut self.expansions[level].stages {
                stage.apply(view, context, block, &mut selection, instructions)?;
            }
            view.retain(&selection);
            if selection.count() == 0 { Ok(()) } else { self.expand(view, block, level + 1) }
        })?;
        view.expand(Some(before));
        Ok(())
    }

    /// Gives some rows of a mini-block to the sink, or lets them wait for others.
    fn keep(&mut self, view: &mut View<'_>, block: usize, selection: &Selection) -> Result<()> {
        // Many have gone through all stages.
        if selection.count() >= MANY_ROWS && self.take_block(view, block, selection)? {
            view.ask_ahead();
            return Ok(());
        }
        // Where many follow a few, values are not to be looked up late.
        let many_follow = selection.count() >= MANY_ROWS && self.waiting.columns.iter().any(|column| column.is_late);
        if many_follow || !self.waiting.has_room(selection.count()) {
            self.take_waiting(view)?;
        }
        let mut places = self.places.take().unwrap_or_else(|| Box::new([0; room_for(MINI_BLOCK_VALUES)]));
        let rows = selection.rows(places.as_mut());
        let kept = if self.waiting.row_count() == 0 && rows.len() >= ENOUGH_ROWS {
            self.take(view, block, rows)
        } else {
            view.keep(&mut self.waiting, block, rows)
        };
        view.ask_ahead();
        self.places = Some(places);
        kept
    }

    /// Takes the rows that wait through the other stages, and gives what is left to the sink.
    fn take_waiting(&mut self, view: &mut View<'_>) -> Result<()> {
        if self.waiting.row_count() == 0 {
            return Ok(());
        }
        let (context, instructions) = (self.shared.context, self.shared.options.instructions);
        let mut row_count = self.waiting.row_count();
        view.ask_of(Some(std::mem::take(&mut self.waiting)));
        for stage in &self.order.sequence()[self.dense_count..] {
            let mut selection = Selection::all(row_count);
            self.stages[*stage].apply(view, context, 0, &mut selection, instructions)?;
            view.retain(&selection);
            row_count = selection.count();
            if row_count == 0 {
                break;
            }
        }
        if row_count > 0 {
            self.take(view, 0, &PLACES[..row_count])?;
        }
        self.waiting = view.ask_of(None).unwrap_or_default();
        self.waiting.clear();
        Ok(())
    }

    /// Gives the rows to the sink as they lie in the mini-block, if it takes them so; whether it has.
    fn take_block(&mut self, view: &mut View<'_>, block: usize, selection: &Selection) -> Result<bool> {
        let Shared { context, options, .. } = self.shared;
        let Collected::Groups(groups) = &mut self.collected else { return Ok(false) };
        let has_taken = groups.take_block(view, *context, block, selection, options.instructions)?;
        self.report.rows_kept += if has_taken { selection.count() as u64 } else { 0 };
        Ok(has_taken)
    }

    /// Gives the rows at some places of the view to the sink.
    fn take(&mut self, view: &mut View<'_>, block: usize, rows: &[u16]) -> Result<()> {
        self.report.rows_kept += rows.len() as u64;
        view.same_rows();
        match &mut self.collected {
            Collected::Groups(groups) => groups.take(view, self.shared.context, block, rows),
            Collected::Rows(kept) => kept.take(view, block, rows),
        }?;
        view.end_of_same_rows();
        self.give(Batches::is_full)
    }

    /// Gives out the rows so far, if rows are given out in batches and these are enough for one.
    fn give(&mut self, is_enough: impl Fn(&Batches<'r>, &Rows<'r>) -> bool) -> Result<()> {
        match (&mut self.collected, &self.shared.batches) {
            (Collected::Rows(rows), Some(batches)) if is_enough(batches, rows) => batches.give(rows, self.shared),
            _ => Ok(()),
        }
    }

    /// Measures the stages on all rows of a mini-block: those that need no other and cannot fail, and whose pages are there
    /// anyway. Then decides anew in which order they come, and from which on rows wait. Seldom, so it stays out of the loop over
    /// mini-blocks.
    #[cold]
    fn sample(&mut self, view: &mut View<'_>, block: usize, all: &Selection) -> Result<()> {
        let context = self.shared.context;
        let clock = self.shared.options.clock;
        if self.stages.len() < 2 {
            return Ok(());
        }
        // The last first: so the implied stage, which comes behind the other, unpacks the column that both take.
        for (number, stage) in self.stages.iter_mut().enumerate().rev() {
            if stage.needs.is_empty() && !stage.may_fail && stage.is_open(view) {
                let start_ns = clock.monotonic_ns();
                let mut kept = *all;
                stage.apply(view, context, block, &mut kept, self.shared.options.instructions)?;
                let ns = clock.monotonic_ns().saturating_sub(start_ns);
                self.order.measured(number, all.count(), kept.count(), ns);
            }
        }
        let mut order = self.order.clone();
        order.arrange();
        let late_rows = |stage: usize| self.stages[stage].late_rows(view);
        // Rows that multiply do not wait.
        let (mut dense_count, usual_rows) = order.dense_count(MINI_BLOCK_VALUES, late_rows);
        if !self.expansions.is_empty() {
            dense_count = order.sequence().len();
        }
        if dense_count != self.dense_count || order.sequence() != self.order.sequence() {
            self.take_waiting(view)?;
            let late =
                order.sequence()[dense_count..].iter().flat_map(|stage| self.stages[*stage].slots().iter().copied());
            let slots = late.chain(taken_slots(context));
            self.waiting = Waiting::new(scanned_sources(context, slots));
            self.dense_count = dense_count;
        }
        self.waiting.usual_rows = Some(usual_rows);
        self.order = order;
        Ok(())
    }

    fn check_flags(&self) -> Result<()> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is_set(self.shared.options.cancelled) || is_set(self.shared.failed) {
            return Err(PipelineError::Cancelled);
        }
        Ok(())
    }
}

/// The slots whose values the sink takes.
fn taken_slots(context: RunContext<'_>) -> Vec<Slot> {
    match context.pipeline.sink() {
        Sink::Aggregate { groups, aggregates } => {
            let of_aggregates = aggregates.iter().filter_map(|aggregate| groups::value_of(context, *aggregate));
            groups.iter().copied().chain(of_aggregates).collect()
        }
        Sink::Build { keys, payload, .. } => [keys.as_slice(), payload.as_slice()].concat(),
        Sink::Materialise { columns } => columns.clone(),
    }
}
