//! What can go wrong with segments.

use std::fmt;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_medium::MediumError;

use crate::PageError;

/// Errors of segments. Offsets count from the file's first byte, row groups and columns from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The medium failed. Its message names the file.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// A table without columns has nothing to store.
    #[error("a table of no columns, expected at least one: its rows would hold nothing")]
    NoColumns,
    /// Values of this type cannot be stored.
    #[error("column {column:?}: values of type {data_type} cannot be stored in a column table; cast the column")]
    ColumnType {
        /// The column's name.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A name or a piece of metadata of the table is too long.
    #[error("a name or metadata of {size_bytes} bytes, expected at most {limit_bytes}")]
    SchemaText {
        /// Its length.
        size_bytes: usize,
        /// The longest possible.
        limit_bytes: usize,
    },
    /// A batch does not have the table's columns.
    #[error("column {index} of a batch is {found}, expected {expected}")]
    BatchColumn {
        /// Which column, from 0.
        index: usize,
        /// What it is.
        found: String,
        /// What the table has there.
        expected: String,
    },
    /// A row group is not made for the table of the segment.
    #[error("{file}: a row group with the columns {found}, expected {expected}")]
    RowGroupColumns {
        /// The segment.
        file: String,
        /// The row group's columns.
        found: String,
        /// The segment's.
        expected: String,
    },
    /// NULL in a column that has none.
    #[error("column {column:?}: {null_count} NULLs, expected none as the column is NOT NULL")]
    UnexpectedNull {
        /// The column's name.
        column: String,
        /// How many there are.
        null_count: usize,
    },
    /// Too few or too many rows for a row group.
    #[error("a row group of {found} rows, expected 1 to {limit}")]
    RowCount {
        /// Rows given.
        found: usize,
        /// Most rows of a row group.
        limit: usize,
    },
    /// The values of a column cannot become a page.
    #[error("column {column:?}: {source}")]
    Encode {
        /// The column's name.
        column: String,
        /// Why not.
        #[source]
        source: PageError,
    },
    /// The values of a column cannot be laid together.
    #[error("column {column:?}: {source}; take fewer rows at once")]
    Concatenate {
        /// The column's name.
        column: String,
        /// Why not.
        #[source]
        source: ArrowError,
    },
    /// A write failed before, so that the file is of no use.
    #[error("{file}: a write to this segment failed before; write it anew, under another name")]
    Broken {
        /// The segment.
        file: String,
    },
    /// The file is longer or shorter than it was when it was written.
    #[error("{file}: {found_bytes} bytes long, expected {expected_bytes}: the file was cut, or is another one")]
    Length {
        /// The segment.
        file: String,
        /// The file's length.
        found_bytes: u64,
        /// Its length when it was written.
        expected_bytes: u64,
    },
    /// The file does not end as a segment does.
    #[error("{file}: offset {offset}: the file ends with {found:02x?}, expected {expected:02x?}: it is no segment")]
    Magic {
        /// The file.
        file: String,
        /// Where its last bytes are.
        offset: u64,
        /// The last bytes.
        found: [u8; 4],
        /// The last bytes of a segment.
        expected: [u8; 4],
    },
    /// The segment was written by a version of the format that this program does not know.
    #[error(
        "{file}: offset {offset}: version {found} of its format, expected {expected}; read it with a newer program"
    )]
    Version {
        /// The segment.
        file: String,
        /// Where the version stands.
        offset: u64,
        /// The segment's version.
        found: u16,
        /// The version this program reads.
        expected: u16,
    },
    /// The footer's bytes are not those that were written.
    #[error("{file}: offset {offset}: the footer's checksum is {found:016x}, expected {expected:016x}: it is damaged")]
    Checksum {
        /// The segment.
        file: String,
        /// Where the footer starts.
        offset: u64,
        /// Hash of the bytes.
        found: u64,
        /// The hash that was written.
        expected: u64,
    },
    /// The footer is a whole one, but not of the segment that was meant.
    #[error(
        "{file}: offset {offset}: the checksum of the footer is {found:016x}, expected {expected:016x}: this is another \
         segment than the table's"
    )]
    OtherSegment {
        /// The file.
        file: String,
        /// Where the checksum stands.
        offset: u64,
        /// The footer's checksum.
        found: u64,
        /// The checksum of the segment that was meant.
        expected: u64,
    },
    /// A field of the footer contradicts the format or another field.
    #[error("{file}: offset {offset}: {field} is {found}, expected {expected}")]
    Field {
        /// The segment.
        file: String,
        /// Where it is.
        offset: u64,
        /// Which field.
        field: String,
        /// What it says.
        found: String,
        /// What it may say.
        expected: String,
    },
    /// The segment's columns are not those of the table.
    #[error("{file}: the segment has the columns {found}, expected {expected} as in the table")]
    Schema {
        /// The segment.
        file: String,
        /// Its columns.
        found: String,
        /// The table's.
        expected: String,
    },
    /// A row group or column that the segment does not have was asked for.
    #[error("{file}: {what} {asked} asked for, expected less than {count}")]
    NoSuchPage {
        /// The segment.
        file: String,
        /// `row group` or `column`.
        what: &'static str,
        /// What was asked for.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// The bytes of a page are damaged.
    #[error("{place}: {source}")]
    Page {
        /// Which page.
        place: Box<PageName>,
        /// What is wrong.
        #[source]
        source: PageError,
    },
    /// A page is whole, but not the one that belongs there.
    #[error(
        "{place}: {field} is {found}, expected {expected} as the footer says: this is another page, or the file is damaged"
    )]
    OtherPage {
        /// Which page.
        place: Box<PageName>,
        /// What differs.
        field: &'static str,
        /// What the page says.
        found: String,
        /// What the footer says.
        expected: String,
    },
}

/// Which page of a segment a message is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageName {
    /// The segment.
    pub file: String,
    /// The column's name.
    pub column: String,
    /// The row group.
    pub row_group: usize,
    /// Where the page starts.
    pub offset: u64,
}

impl fmt::Display for PageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, column, row_group, offset } = self;
        write!(f, "{file}: offset {offset}, column {column:?}, row group {row_group}")
    }
}
