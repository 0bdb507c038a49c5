//! Segments: the immutable files that a column table consists of.
//!
//! **Owns**: what the bytes of a segment are (`docs/formats/column-segments.md`): row groups one behind the other, of
//! each one page for each column, and a footer that says where they lie and what is in them; writing a segment, opening
//! one, and telling whether bytes that somebody read are the page that belongs there.
//!
//! **Does not own**: reading pages (whoever has the memory for them does), which segments a table has and when one may
//! be removed (its manifest's to say), the pages themselves (`page`).
//!
//! **Invariants**
//! - Pages start at multiples of [`PAGE_ALIGNMENT_BYTES`], in the order of the columns, and so does the footer; the
//!   file's length is such a multiple. Nothing is written twice, and nothing that was written is read back.
//! - A [`Segment`] that could be opened has the footer that was written with the [`SegmentInfo`] it was opened by.
//! - A page that was checked is, bit by bit, the page that was written to its place: the footer keeps its checksum.
//!
//! **Concurrency**: a writer belongs to one thread at a time; an [`EncodedRowGroup`] is made in any thread. A
//! [`Segment`] does not change and is shared freely.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Array, Int64Array, RecordBatch};
//! use arrow::datatypes::{DataType, Field, Schema};
//! use thermocline_column_store::{EncodedRowGroup, RowGroupBuilder, Segment, SegmentWriter};
//! use thermocline_medium::{Medium, MemoryMedium};
//!
//! let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::Int64, false)]));
//! let numbers = Arc::new(Int64Array::from_iter_values(0..1000));
//! let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers.clone()])?;
//!
//! let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
//! let mut writer = SegmentWriter::create(Arc::clone(&medium), "1.segment", Arc::clone(&schema))?;
//! let mut builder = RowGroupBuilder::new();
//! for row_group in builder.push(batch).into_iter().chain(builder.finish()) {
//!     writer.append(&EncodedRowGroup::encode(&schema, &row_group)?)?;
//! }
//! let info = writer.finish()?;
//! medium.sync_namespace()?;
//!
//! let segment = Segment::open(medium.as_ref(), &info, &schema)?;
//! let place = segment.row_groups()[0].page(0);
//! let mut bytes = vec![0; place.stored_bytes()];
//! medium.read_at(segment.file(), place.offset_bytes(), &mut bytes)?;
//! let page = segment.check_page(0, 0, &bytes)?;
//! assert_eq!(page.decode(&DataType::Int64)?.to_data(), numbers.to_data());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod directory;
mod error;
mod footer;
mod reader;
mod row_group;
mod row_group_builder;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub(crate) mod tests;
mod writer;

pub use directory::{PagePlace, RowGroup};
pub use error::{PageName, SegmentError};
pub use reader::Segment;
pub use row_group::{EncodedRowGroup, encoding_bytes, supports};
pub use row_group_builder::{ROW_GROUP_TEXT_BYTES, RowGroupBuilder};
pub use writer::SegmentWriter;

use arrow::datatypes::Schema;

/// Rows of a full row group: as many as make pages of the commonest columns (1 to 4 bytes a value) a read of a megabyte
/// or less, and zone maps of some use. A quarter of [`MAX_PAGE_VALUES`](crate::MAX_PAGE_VALUES), which is the limit.
pub const ROW_GROUP_ROWS: usize = 1 << 18;

/// Pages start at multiples of this, so that they can be read past the operating system's page cache.
pub const PAGE_ALIGNMENT_BYTES: usize = thermocline_medium::DIRECT_ALIGNMENT_BYTES;

/// What the table's manifest keeps about a segment: enough to find it, and to tell it from every other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentInfo {
    /// The file's name within its medium.
    pub name: String,
    /// The file's length.
    pub size_bytes: u64,
    /// Rows of all row groups.
    pub row_count: u64,
    /// The footer's checksum, which depends on the checksums of all pages.
    pub footer_checksum: u64,
}

/// Bytes that a page of `size_bytes` takes in the file.
fn stored_bytes(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(PAGE_ALIGNMENT_BYTES as u64)
}

/// The columns of a table in messages.
fn schema_text(schema: &Schema) -> String {
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| {
            let null = if field.is_nullable() { "" } else { " NOT NULL" };
            format!("{:?} {}{null}", field.name(), field.data_type())
        })
        .collect();
    columns.join(", ")
}
