//! The pages of a column table's scan as pipelines ask for them.
//!
//! **Owns**: pages that were asked for ahead, until the row group is done with; telling the tuner what each row group
//! took, and of which columns how much was asked for.
//! **Does not own**: which pages are wanted and when (`pipeline`), which of them stay in memory (`buffer-pool`).
//!
//! **Concurrency**: a row group belongs to one thread at a time. The map is locked to look one up, the row group itself
//! while its thread waits for a page.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_buffer_pool::{PageReader, PinnedPage, ReadOptions, RunningPipeline, Work};
use thermocline_medium::AlignedBuffer;
use thermocline_pipeline::{PageFacts, PageSource, SourceColumn};

use super::run::Counters;
use crate::column_table::{ColumnScan, GroupPlace, page_number, read_alone};

/// Bytes that are read ahead of all threads together: a few of the device's longest requests for each, so that it has
/// always something to do while threads work on pages that are in memory. These do not count: as many row groups are
/// looked at as it takes to find so much that is missing.
const READ_AHEAD_BYTES: u64 = 8 << 20;

/// See the module.
pub(super) struct ScanPages<'r> {
    scan: &'r ColumnScan,
    columns: &'r [usize],
    counters: &'r Counters,
    /// What the tuner knows the scan as, if it goes through the pool and reads anything.
    pipeline: Option<RunningPipeline>,
    /// Bytes asked for of each column.
    asked_bytes: Vec<AtomicU64>,
    coming: Mutex<Coming>,
}

/// Row groups that were asked for or are worked on.
struct Coming {
    groups: HashMap<usize, Arc<Mutex<Group>>>,
    /// Row groups that were begun or are done with: nobody reads ahead for them any more. A thread may announce one that
    /// another has taken from it meanwhile.
    begun: HashSet<usize>,
    /// Bytes read ahead of each thread.
    ahead_bytes: Vec<u64>,
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
}

/// The bytes of a page that was read past the pool.
struct Alone {
    buffer: AlignedBuffer,
    size_bytes: usize,
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
        let coming = Mutex::new(Coming { groups: HashMap::new(), begun: HashSet::new(), ahead_bytes });
        Self { scan, columns, counters, pipeline, asked_bytes, coming }
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

    fn pooled(&self, row_group: usize, column: usize) -> thermocline_buffer_pool::Result<Option<PinnedPage>> {
        let group = self.group(row_group);
        let mut group = group.lock();
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
        self.scan.groups.len()
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.scan.row_group(self.place(row_group)).row_count()
    }

    fn facts(&self, row_group: usize, column: usize) -> Option<PageFacts<'_>> {
        let page = &self.scan.row_group(self.place(row_group)).pages()[column];
        Some(PageFacts { zone_map: page.zone_map(), null_count: page.null_count() })
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        if self.scan.uses_pool {
            let page = self.pooled(row_group, column)?.ok_or("the reader of one page gave none")?;
            return Ok(SourceColumn::Page(Box::new(page)));
        }
        let place = self.place(row_group);
        let segment = &self.scan.open_segment(place).segment;
        let mut buffers = read_alone(self.scan.table.medium.as_ref(), segment, place.row_group, &[column])?;
        let buffer = buffers.pop().ok_or("the page was not read")?;
        self.counters.pages_read.add(1);
        let size_bytes = self.scan.row_group(place).pages()[column].size_bytes();
        Ok(SourceColumn::Page(Box::new(Alone { buffer, size_bytes })))
    }

    fn announce(&self, thread: usize, row_group: usize, columns: &[usize]) -> bool {
        if !self.scan.uses_pool || columns.is_empty() {
            return false;
        }
        let mut coming = self.coming.lock();
        if coming.ahead_bytes[thread] >= READ_AHEAD_BYTES / coming.ahead_bytes.len() as u64 {
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

    fn begin(&self, row_group: usize, columns: &[usize]) {
        if !self.scan.uses_pool {
            return;
        }
        let group = {
            let mut coming = self.coming.lock();
            coming.begun.insert(row_group);
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

    fn done(&self, row_group: usize, took_ns: u64) {
        let group = {
            let mut coming = self.coming.lock();
            coming.begun.insert(row_group);
            let group = coming.groups.remove(&row_group);
            if let Some(group) = &group
                && let Some((of_thread, bytes)) = group.lock().ahead.take()
            {
                coming.ahead_bytes[of_thread] -= bytes;
            }
            group
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
