//! Where the pages of a segment lie, and what is in them.

use thermocline_placement::column_encoding::Encoding;

use super::row_group::{EncodedPage, EncodedRowGroup};
use super::stored_bytes;
use crate::{ZoneMap, ZoneValue};

/// A horizontal slice of a table: for each column a page of the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowGroup {
    pub(super) first_row: u64,
    pub(super) row_count: usize,
    pub(super) pages: Box<[PagePlace]>,
}

/// Where a page is, and what the footer says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PagePlace {
    pub(super) offset_bytes: u64,
    pub(super) size_bytes: u32,
    pub(super) null_count: u32,
    pub(super) checksum: u64,
    pub(super) encoding: Encoding,
    pub(super) zone_map: ZoneMap,
}

impl RowGroup {
    /// Of pages that are laid one behind the other from `offset_bytes` on.
    pub(super) fn of(encoded: &EncodedRowGroup, first_row: u64, offset_bytes: u64) -> Self {
        let mut offset_bytes = offset_bytes;
        let pages = encoded.pages.iter().map(|EncodedPage { bytes, summary }| {
            let place = PagePlace {
                offset_bytes,
                // A page's own header has 32 bits for each.
                size_bytes: bytes.len() as u32,
                null_count: summary.null_count as u32,
                checksum: summary.checksum,
                encoding: summary.encoding,
                zone_map: summary.zone_map.clone(),
            };
            offset_bytes += stored_bytes(bytes.len() as u64);
            place
        });
        Self { first_row, row_count: encoded.row_count, pages: pages.collect() }
    }

    /// Rows of the segment before this row group.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }

    /// Rows of the row group, which is the number of values of each page.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The pages, in the order of the columns.
    pub fn pages(&self) -> &[PagePlace] {
        &self.pages
    }

    /// The page of a column.
    ///
    /// # Panics
    /// If the segment has no such column.
    pub fn page(&self, column: usize) -> &PagePlace {
        &self.pages[column]
    }
}

impl PagePlace {
    /// Where the page starts: a multiple of [`PAGE_ALIGNMENT_BYTES`](super::PAGE_ALIGNMENT_BYTES).
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Bytes of the page.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes as usize
    }

    /// Bytes from the page's start to the next one's: with the padding, a multiple of
    /// [`PAGE_ALIGNMENT_BYTES`](super::PAGE_ALIGNMENT_BYTES). What is to be read past the page cache.
    pub fn stored_bytes(&self) -> usize {
        stored_bytes(u64::from(self.size_bytes)) as usize
    }

    /// NULLs among the values.
    pub fn null_count(&self) -> usize {
        self.null_count as usize
    }

    /// How the page is written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The least and greatest value.
    pub fn zone_map(&self) -> &ZoneMap {
        &self.zone_map
    }

    /// The page's checksum, as its header has it.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// Memory that this takes besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let of = |bound: &Option<ZoneValue>| match bound {
            Some(ZoneValue::Bytes(bytes)) => bytes.capacity(),
            _ => 0,
        };
        of(&self.zone_map.least) + of(&self.zone_map.greatest)
    }
}
