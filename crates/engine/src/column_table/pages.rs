//! The pages of a segment as the buffer pool sees them: numbered row group by row group, each group's columns in order.

use std::error::Error;
use std::sync::Arc;

use thermocline_buffer_pool::{PagePlace, PageSource};
use thermocline_column_store::{EntryName, Segment};
use thermocline_medium::Medium;

use super::store::ColumnLists;

/// The pages of one segment of a table.
#[derive(Debug)]
pub(super) struct SegmentPages {
    table: EntryName,
    medium: Arc<dyn Medium>,
    segment: Arc<Segment>,
    lists: Arc<ColumnLists>,
}

/// The number of a page among those of a segment with so many columns.
pub(crate) fn page_number(row_group: usize, column: usize, column_count: usize) -> u32 {
    // Segments have at most as many pages as their writers count with 32 bits.
    u32::try_from(row_group * column_count + column).unwrap_or(u32::MAX)
}

impl SegmentPages {
    pub(super) fn new(
        table: EntryName,
        medium: Arc<dyn Medium>,
        segment: Arc<Segment>,
        lists: Arc<ColumnLists>,
    ) -> Self {
        Self { table, medium, segment, lists }
    }

    fn of(&self, page: u32) -> (usize, usize) {
        let column_count = self.lists.len();
        (page as usize / column_count, page as usize % column_count)
    }
}

impl PageSource for SegmentPages {
    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    fn place(&self, page: u32) -> PagePlace {
        let (row_group, column) = self.of(page);
        let place = &self.segment.row_groups()[row_group].pages()[column];
        PagePlace {
            file: self.segment.file().clone(),
            offset_bytes: place.offset_bytes(),
            read_bytes: place.stored_bytes() as u32,
            size_bytes: place.size_bytes() as u32,
            list: self.lists[column],
            rows: row_group as u32,
        }
    }

    fn check(&self, page: u32, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (row_group, column) = self.of(page);
        self.segment.check_page(row_group, column, bytes)?;
        Ok(())
    }

    fn describe(&self, page: u32) -> String {
        let (row_group, column) = self.of(page);
        let column = self.segment.schema().field(column).name().clone();
        format!("table {}, {}, row group {row_group}, column '{column}'", self.table, self.segment.file().name())
    }
}
