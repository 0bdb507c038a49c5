//! Where a pipeline's values come from: pages of row groups, or record batches.

use std::error::Error;
use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use thermocline_column_store::{MINI_BLOCK_VALUES, PageSummary, ZoneMap};

/// What is known of a page without reading it.
#[derive(Debug, Clone, Copy)]
pub struct PageFacts<'a> {
    /// The least and greatest value.
    pub zone_map: &'a ZoneMap,
    /// NULLs among the values.
    pub null_count: usize,
}

/// The bytes of a page, which stay as they are as long as this lives.
pub type PinnedPage = Box<dyn AsRef<[u8]> + Send + Sync>;

/// The values of a column in a row group.
pub enum SourceColumn {
    /// An encoded page, whose checksum was found right by whoever read it: it is not computed again.
    Page(PinnedPage),
    /// As Arrow has them, which may be slower: nothing is known of them beforehand.
    Array(ArrayRef),
}

/// What a source tells a thread that asks for what it could not give to another one. The run ends with what that one was
/// told.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("it could not be read for another thread")]
pub struct FailedElsewhere;

/// A record batch of which some rows count.
#[derive(Debug, Clone)]
pub struct SourceBatch {
    /// The rows, others among them.
    pub batch: RecordBatch,
    /// Which of them count; `None` for all.
    pub selected: Option<BooleanBuffer>,
}

impl From<RecordBatch> for SourceBatch {
    fn from(batch: RecordBatch) -> Self {
        Self { batch, selected: None }
    }
}

/// Record batches, which come one after the other. Called from all threads of a pipeline at once.
pub trait BatchSource: Sync {
    /// The columns of a table that batches have, in the batches' order: pipelines number them as the table does.
    fn columns(&self) -> &[usize];

    /// The next batch for a thread, which waits for it; `None` if there are none left for it.
    ///
    /// # Errors
    /// Whatever the source meets; the pipeline ends with it.
    fn next(&self, thread: usize) -> Result<Option<SourceBatch>, Box<dyn Error + Send + Sync>>;
}

/// Row groups and the pages of their columns. Called from all threads of a pipeline at once.
///
/// Where there are fewer row groups than threads, several here may be parts of a stored one: they have the same pages,
/// but other mini-blocks of them.
pub trait PageSource: Sync {
    /// How many row groups there are.
    fn row_group_count(&self) -> usize;

    /// Rows of the stored row group, which is the number of values of each of its pages.
    fn row_count(&self, row_group: usize) -> usize;

    /// The mini-blocks that are worked on: all, if the row group is no part of a stored one.
    fn mini_blocks(&self, row_group: usize) -> Range<usize> {
        0..self.row_count(row_group).div_ceil(MINI_BLOCK_VALUES)
    }

    /// The number of the stored row group, for messages.
    fn stored_row_group(&self, row_group: usize) -> usize {
        row_group
    }

    /// What is known of a page, if anything is. Asked for pages that are then left unread, so it must not read them.
    /// Groups are counted on it: a value that it rules out ends the run with
    /// [`PipelineError::OutsideOfStatistics`](crate::PipelineError::OutsideOfStatistics).
    fn facts(&self, row_group: usize, column: usize) -> Option<PageFacts<'_>>;

    /// The values of a column in a row group.
    ///
    /// # Errors
    /// Whatever the source meets; the pipeline ends with it.
    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>>;

    /// A thread will soon work on a row group, and probably ask for the pages of these columns. Returns whether it may
    /// announce the one after that too. May be called several times for a row group; one that was announced may be left
    /// out.
    fn announce(&self, thread: usize, row_group: usize, columns: &[usize]) -> bool {
        let _ = (thread, row_group, columns);
        false
    }

    /// A thread begins with a row group, and will probably ask for the pages of these columns.
    fn begin(&self, row_group: usize, columns: &[usize]) {
        let _ = (row_group, columns);
    }

    /// A thread is done with a row group, be it that no row of it can pass, and was so long at it, waiting included. No
    /// page of it is asked for after that.
    fn done(&self, row_group: usize, took_ns: u64) {
        let _ = (row_group, took_ns);
    }
}

/// Pages that are in memory, for tests and for data that were never written.
#[derive(Debug, Default)]
pub struct MemoryPages {
    row_groups: Vec<Vec<(std::sync::Arc<[u8]>, PageSummary)>>,
}

impl MemoryPages {
    /// No row groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row group: its pages in the order of the columns, each as [`encode`](thermocline_column_store::encode)
    /// wrote it.
    pub fn push(&mut self, pages: Vec<(Vec<u8>, PageSummary)>) {
        self.row_groups.push(pages.into_iter().map(|(bytes, summary)| (bytes.into(), summary)).collect());
    }
}

impl PageSource for MemoryPages {
    fn row_group_count(&self) -> usize {
        self.row_groups.len()
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.row_groups[row_group].first().map_or(0, |(_, summary)| summary.value_count)
    }

    fn facts(&self, row_group: usize, column: usize) -> Option<PageFacts<'_>> {
        let (_, summary) = &self.row_groups[row_group][column];
        Some(PageFacts { zone_map: &summary.zone_map, null_count: summary.null_count })
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        let (bytes, _) = &self.row_groups[row_group][column];
        Ok(SourceColumn::Page(Box::new(std::sync::Arc::clone(bytes))))
    }
}

/// A batch as a row group. Its number means nothing.
pub(crate) struct BatchGroup<'b> {
    pub(crate) batch: &'b RecordBatch,
    /// See [`BatchSource::columns`].
    pub(crate) columns: &'b [usize],
}

impl PageSource for BatchGroup<'_> {
    fn row_group_count(&self) -> usize {
        1
    }

    fn row_count(&self, _row_group: usize) -> usize {
        self.batch.num_rows()
    }

    fn facts(&self, _row_group: usize, _column: usize) -> Option<PageFacts<'_>> {
        None
    }

    fn column(&self, _row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        let place = self.columns.iter().position(|of| *of == column);
        let array = place.and_then(|place| self.batch.columns().get(place));
        let array = array.ok_or_else(|| format!("batches have the columns {:?}, and not {column}", self.columns))?;
        Ok(SourceColumn::Array(std::sync::Arc::clone(array)))
    }
}
