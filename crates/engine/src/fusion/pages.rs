//! The pages of a column table's scan as pipelines ask for them. Where there are fewer row groups than threads need to
//! share, each is cut into parts of some mini-blocks, which have its pages in common.
//!
//! **Owns**: pages that were asked for ahead, until the row group is done with; telling the tuner what each row group
//! took, and of which columns how much was asked for; the parts.
//! **Does not own**: which pages are wanted and when (`pipeline`), which of them stay in memory (`buffer-pool`).
//!
//! **Concurrency**: a part belongs to one thread at a time. The map is locked to look a row group up, the row group itself
//! while a thread waits for a page.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_buffer_pool::{PageReader, PinnedPage, ReadOptions, RunningPipeline, Work};
use thermocline_column_store::MINI_BLOCK_VALUES;
use thermocline_medium::AlignedBuffer;
use thermocline_pipeline::{PageFacts, PageSource, SourceColumn};
use thermocline_placement::fusion;
use thermocline_placement::page_cache::read_ahead_bytes;

use super::run::Counters;
use crate::column_table::{ColumnScan, GroupPlace, page_number, read_alone};

/// See the module.
pub(super) struct ScanPages<'r> {
    scan: &'r ColumnScan,
    columns: &'r [usize],
    parts: Vec<Part>,
    counters: &'r Counters,
    /// What the tuner knows the scan as, if it goes through the pool and reads anything.
    pipeline: Option<RunningPipeline>,
    /// Bytes asked for of each column.
    asked_bytes: Vec<AtomicU64>,
    coming: Mutex<Coming>,
}

/// Some mini-blocks of a row group.
struct Part {
    row_group: usize,
    mini_blocks: Range<usize>,
}

/// Row groups that were asked for or are worked on.
struct Coming {
    groups: HashMap<usize, Arc<Mutex<Group>>>,
    /// Row groups that were begun or are done with: nobody reads ahead for them any more. A thread may announce one that
    /// another has taken from it meanwhile.
    begun: HashSet<usize>,
    /// Bytes read ahead of each thread. What is in memory does not count: as many row groups are looked at as it takes
    /// to find so much that is missing.
    ahead_bytes: Vec<u64>,
    /// Most that is read ahead of one.
    most_ahead_bytes: u64,
    /// By row group, parts that are not done with, and what the others took.
    parts: Vec<(usize, u64)>,
}

/// One of them.
#[derive(Default)]
struct Group {
    /// Pages on their way, each reader's in this order of columns.
    readers: Vec<(PageReader, VecDeque<usize>)>,
    /// Pages that came before they were wanted.
    arrived: Vec<(usize, PinnedPage)>,
    /// What was read ahead, and of which thread.
    ahead: Option<(usize, u64)>,
    asked_bytes: u64,
    read_bytes: u64,
    waited_ns: u64,
    /// Pages that a part has asked for, of a row group that is cut.
    shared: Vec<(usize, SharedPage)>,
}

/// A page that parts have in common.
#[derive(Clone)]
struct SharedPage(Arc<thermocline_pipeline::PinnedPage>);

impl AsRef<[u8]> for SharedPage {
    fn as_ref(&self) -> &[u8] {
        (**self.0).as_ref()
    }
}

/// The bytes of a page that was read past the pool.
struct Alone {
    buffer: AlignedBuffer,
    size_bytes: usize,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Alone {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.size_bytes]
    }
}

impl<'r> ScanPages<'r> {
    /// Pages of these columns.
    pub(super) fn new(scan: &'r ColumnScan, columns: &'r [usize], thread_count: usize, counters: &'r Counters) -> Self {
        let is_metered = scan.uses_pool && !columns.is_empty() && !scan.groups.is_empty();
        let pipeline = is_metered.then(|| scan.table.tuner.start(scan.pipeline(columns, thread_count)));
        let asked_bytes = columns.iter().map(|_| AtomicU64::new(0)).collect();
        let ahead_bytes = vec![0; thread_count.max(1)];
        let mini_blocks_of = |place| scan.row_group(place).row_count().div_ceil(MINI_BLOCK_VALUES);
        let cuts: Vec<Vec<Range<usize>>> =
            scan.groups.iter().map(|place| cut(mini_blocks_of(*place), scan.groups.len(), thread_count)).collect();
        let most_ahead_bytes = read_ahead_bytes(scan.table.pool.capacity_bytes()) / ahead_bytes.len() as u64;
        let coming = Coming {
            groups: HashMap::new(),
            begun: HashSet::new(),
            ahead_bytes,
            most_ahead_bytes,
            parts: cuts.iter().map(|parts| (parts.len(), 0)).collect(),
        };
        let part = |row_group| move |mini_blocks| Part { row_group, mini_blocks };
        let parts = cuts.into_iter().enumerate().flat_map(|(row_group, parts)| parts.into_iter().map(part(row_group)));
        let (parts, coming) = (parts.collect(), Mutex::new(coming));
        Self { scan, columns, parts, counters, pipeline, asked_bytes, coming }
    }

    /// The scan has ended well.
    pub(super) fn finish(self) {
        if let Some(pipeline) = self.pipeline {
            let asked_bytes = self.asked_bytes.into_iter().map(AtomicU64::into_inner);
            let lists = self.columns.iter().map(|&column| self.scan.table.lists[column]);
            pipeline.finish_having_asked(lists.zip(asked_bytes).collect());
        }
    }

    fn place(&self, row_group: usize) -> GroupPlace {
        self.scan.groups[row_group]
    }

    fn page_number(&self, row_group: usize, column: usize) -> u32 {
        page_number(self.place(row_group).row_group, column, self.scan.table.schema.fields().len())
    }

    /// Notes that the pages of these columns are asked for, and returns their bytes.
    fn note_asked(&self, row_group: usize, columns: &[usize]) -> u64 {
        let group = self.scan.row_group(self.place(row_group));
        let mut all_bytes = 0;
        for column in columns {
            let bytes = group.pages()[*column].stored_bytes() as u64;
            all_bytes += bytes;
            if let Some(at) = self.columns.iter().position(|of_scan| of_scan == column) {
                self.asked_bytes[at].fetch_add(bytes, Ordering::Relaxed);
            }
        }
        all_bytes
    }

    /// A page that is read past the pool.
    fn alone(
        &self,
        row_group: usize,
        column: usize,
    ) -> Result<thermocline_pipeline::PinnedPage, Box<dyn Error + Send + Sync>> {
        let place = self.place(row_group);
        let segment = &self.scan.open_segment(place).segment;
        let page = &self.scan.row_group(place).pages()[column];
        let reservation = self.scan.account.try_reserve(page.stored_bytes() as u64)?;
        let mut buffers = read_alone(self.scan.table.medium.as_ref(), segment, place.row_group, &[column])?;
        let buffer = buffers.pop().ok_or("the page was not read")?;
        self.counters.pages_read.add(1);
        Ok(Box::new(Alone { buffer, size_bytes: page.size_bytes(), _reservation: reservation }))
    }

    fn group(&self, row_group: usize) -> Arc<Mutex<Group>> {
        Arc::clone(self.coming.lock().groups.entry(row_group).or_default())
    }

    /// Has the pages of these columns read, as far as they are not in memory. They are pinned until the row group is
    /// done with.
    fn ask_for(&self, group: &mut Group, row_group: usize, columns: &[usize]) {
        let pages = columns.iter().map(|&column| self.page_number(row_group, column));
        let source = &self.scan.open_segment(self.place(row_group)).source;
        let mut reader = source.reader(pages, ReadOptions::default());
        reader.start();
        group.asked_bytes += self.note_asked(row_group, columns);
        group.readers.push((reader, columns.iter().copied().collect()));
    }

    fn pooled(
        &self,
        group: &mut Group,
        row_group: usize,
        column: usize,
    ) -> thermocline_buffer_pool::Result<Option<PinnedPage>> {
        let page = match group.take(column)? {
            Some(page) => page,
            None => {
                let source = &self.scan.open_segment(self.place(row_group)).source;
                let mut reader = source.reader([self.page_number(row_group, column)], ReadOptions::default());
                let Some(page) = reader.wait_next() else { return Ok(None) };
                let page = page?;
                group.asked_bytes += self.note_asked(row_group, &[column]);
                group.note(&page);
                page
            }
        };
        let counter = if page.was_hit() { &self.counters.pages_from_memory } else { &self.counters.pages_read };
        counter.add(1);
        Ok(Some(page))
    }
}

/// The parts of a row group of so many mini-blocks, one of `row_group_count`.
fn cut(mini_block_count: usize, row_group_count: usize, thread_count: usize) -> Vec<Range<usize>> {
    let count = fusion::part_count(mini_block_count, row_group_count, thread_count);
    (0..count).map(|part| part * mini_block_count / count..(part + 1) * mini_block_count / count).collect()
}

impl Group {
    /// The page of a column that was asked for ahead; None if it was not.
    fn take(&mut self, column: usize) -> thermocline_buffer_pool::Result<Option<PinnedPage>> {
        if let Some(place) = self.arrived.iter().position(|(arrived, _)| *arrived == column) {
            return Ok(Some(self.arrived.swap_remove(place).1));
        }
        let Some(at) = self.readers.iter().position(|(_, expected)| expected.contains(&column)) else {
            return Ok(None);
        };
        while let (reader, expected) = &mut self.readers[at]
            && let Some(next) = expected.pop_front()
        {
            let Some(page) = reader.wait_next() else { break };
            let page = page?;
            self.note(&page);
            if next == column {
                return Ok(Some(page));
            }
            self.arrived.push((next, page));
        }
        Ok(None)
    }

    fn has_asked_for(&self, column: usize) -> bool {
        self.readers.iter().any(|(_, expected)| expected.contains(&column))
    }

    fn note(&mut self, page: &PinnedPage) {
        self.waited_ns += page.waited_ns();
        self.read_bytes += if page.was_hit() { 0 } else { page.len() as u64 };
    }
}

impl PageSource for ScanPages<'_> {
    fn row_group_count(&self) -> usize {
        self.parts.len()
    }

    fn stored_row_group(&self, part: usize) -> usize {
        self.parts[part].row_group
    }

    fn mini_blocks(&self, part: usize) -> Range<usize> {
        self.parts[part].mini_blocks.clone()
    }

    fn row_count(&self, part: usize) -> usize {
        self.scan.row_group(self.place(self.parts[part].row_group)).row_count()
    }

    fn facts(&self, part: usize, column: usize) -> Option<PageFacts<'_>> {
        let page = &self.scan.row_group(self.place(self.parts[part].row_group)).pages()[column];
        Some(PageFacts { zone_map: page.zone_map(), null_count: page.null_count() })
    }

    fn column(&self, part: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        let Part { row_group, mini_blocks } = &self.parts[part];
        let is_cut = mini_blocks.len() * MINI_BLOCK_VALUES < self.row_count(part);
        if !is_cut && !self.scan.uses_pool {
            return Ok(SourceColumn::Page(self.alone(*row_group, column)?));
        }
        let group = self.group(*row_group);
        let mut group = group.lock();
        if let Some((_, page)) = group.shared.iter().find(|(of, _)| *of == column) {
            return Ok(SourceColumn::Page(Box::new(page.clone())));
        }
        let page: thermocline_pipeline::PinnedPage = match self.scan.uses_pool {
            true => Box::new(self.pooled(&mut group, *row_group, column)?.ok_or("the reader of one page gave none")?),
            false => self.alone(*row_group, column)?,
        };
        if !is_cut {
            return Ok(SourceColumn::Page(page));
        }
        let page = SharedPage(Arc::new(page));
        group.shared.push((column, page.clone()));
        Ok(SourceColumn::Page(Box::new(page)))
    }

    fn announce(&self, thread: usize, part: usize, columns: &[usize]) -> bool {
        let row_group = self.parts[part].row_group;
        if !self.scan.uses_pool || columns.is_empty() {
            return false;
        }
        let mut coming = self.coming.lock();
        if coming.ahead_bytes[thread] >= coming.most_ahead_bytes {
            return false;
        }
        if coming.groups.contains_key(&row_group) || coming.begun.contains(&row_group) {
            return true;
        }
        let source = &self.scan.open_segment(self.place(row_group)).source;
        let pages: Vec<u32> = columns.iter().map(|&column| self.page_number(row_group, column)).collect();
        let missing = source.missing(pages.iter().copied());
        if missing.is_empty() {
            return true;
        }
        let is_missing = |at: &usize| missing.contains(&pages[*at]);
        let columns: Vec<usize> = (0..columns.len()).filter(is_missing).map(|at| columns[at]).collect();
        let group = self.scan.row_group(self.place(row_group));
        let bytes = columns.iter().map(|&column| group.pages()[column].stored_bytes() as u64).sum();
        coming.ahead_bytes[thread] += bytes;
        let group = Arc::new(Mutex::new(Group { ahead: Some((thread, bytes)), ..Group::default() }));
        let mut locked = group.lock();
        coming.groups.insert(row_group, Arc::clone(&group));
        drop(coming);
        self.ask_for(&mut locked, row_group, &columns);
        true
    }

    fn begin(&self, part: usize, columns: &[usize]) {
        if !self.scan.uses_pool {
            return;
        }
        let row_group = self.parts[part].row_group;
        let group = {
            let mut coming = self.coming.lock();
            if !coming.begun.insert(row_group) {
                // Another part has asked for them.
                return;
            }
            let group = Arc::clone(coming.groups.entry(row_group).or_default());
            if let Some((of_thread, bytes)) = group.lock().ahead.take() {
                coming.ahead_bytes[of_thread] -= bytes;
            }
            group
        };
        let mut group = group.lock();
        let columns: Vec<usize> = columns.iter().copied().filter(|column| !group.has_asked_for(*column)).collect();
        if !columns.is_empty() {
            self.ask_for(&mut group, row_group, &columns);
        }
    }

    fn done(&self, part: usize, took_ns: u64) {
        let row_group = self.parts[part].row_group;
        let (group, took_ns) = {
            let mut coming = self.coming.lock();
            coming.begun.insert(row_group);
            let (left, all_took_ns) = &mut coming.parts[row_group];
            (*left, *all_took_ns) = (*left - 1, *all_took_ns + took_ns);
            let (left, took_ns) = (*left, *all_took_ns);
            if left > 0 {
                return;
            }
            let group = coming.groups.remove(&row_group);
            if let Some(group) = &group
                && let Some((of_thread, bytes)) = group.lock().ahead.take()
            {
                coming.ahead_bytes[of_thread] -= bytes;
            }
            (group, took_ns)
        };
        let mut work = Work { busy_ns: took_ns, ..Work::default() };
        if let Some(group) = group {
            let group = group.lock();
            self.counters.waited.add_duration(std::time::Duration::from_nanos(group.waited_ns));
            let busy_ns = took_ns.saturating_sub(group.waited_ns);
            work = Work { bytes: group.asked_bytes, read_bytes: group.read_bytes, busy_ns, waited_ns: group.waited_ns };
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.observe(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mini_block_of_a_row_group_that_is_cut_is_left_out_or_worked_on_twice() {
        for (mini_blocks, row_groups, threads) in [(256, 1, 2), (147, 1, 3), (31, 1, 8), (0, 1, 2), (256, 3, 2)] {
            let all: Vec<usize> = cut(mini_blocks, row_groups, threads).into_iter().flatten().collect();
            assert_eq!(all, (0..mini_blocks).collect::<Vec<_>>());
        }
    }
}
