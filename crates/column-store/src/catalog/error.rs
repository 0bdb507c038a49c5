//! What can go wrong with a catalog. Offsets count from the manifest's first byte, lines from 1.

use arrow::datatypes::DataType;
use thermocline_medium::MediumError;

use super::EntryName;

/// Errors of the catalog and of the manifest that it is kept in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The medium failed. Nothing was changed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The file is not a manifest.
    #[error("manifest, byte 0: found {found:?}, expected {expected:?}: this file is no manifest")]
    Magic {
        /// How it starts.
        found: String,
        /// How a manifest starts.
        expected: &'static str,
    },
    /// The manifest was written by a version of the format that this program does not know.
    #[error(
        "manifest, line 1: version {found} of the format, expected {expected}; open the database with a newer program"
    )]
    Version {
        /// The manifest's version.
        found: u64,
        /// The version this program reads.
        expected: u64,
    },
    /// The manifest ends too early, or goes on after its end.
    #[error("manifest: {found_bytes} bytes after line 1, expected {expected_bytes} as it says there: it is damaged")]
    Length {
        /// Bytes that there are.
        found_bytes: u64,
        /// Bytes that there should be.
        expected_bytes: u64,
    },
    /// The bytes are not those that were written.
    #[error("manifest: the checksum is {found:016x}, expected {expected:016x} as line 1 says: it is damaged")]
    Checksum {
        /// Hash of what follows line 1.
        found: u64,
        /// The hash in line 1.
        expected: u64,
    },
    /// The manifest would be, or is, longer than a reader takes.
    #[error("manifest: {size_bytes} bytes, expected at most {limit_bytes}")]
    TooLarge {
        /// Its length.
        size_bytes: u64,
        /// The longest possible.
        limit_bytes: u64,
    },
    /// The manifest is no text.
    #[error("manifest, byte {offset}: found bytes that are no UTF-8, expected text")]
    Text {
        /// Where the first such byte is.
        offset: u64,
    },
    /// A line contradicts the format or an earlier line.
    #[error("manifest, line {line}: found {found}, expected {expected}")]
    Line {
        /// Which line.
        line: u64,
        /// What it says, shortened.
        found: String,
        /// What it may say.
        expected: String,
    },
    /// There are segments and no manifest: somebody took it away. Nothing is removed.
    #[error(
        "manifest: no such file, expected one beside the {segment_count} segments, {segment} among them; put it back \
         from a copy of the folder, or use another folder"
    )]
    Missing {
        /// The segment with the greatest number.
        segment: String,
        /// How many there are.
        segment_count: usize,
    },
    /// There is a segment that this manifest cannot have been written before: the manifest is of another time or
    /// folder. Nothing is removed.
    #[error(
        "manifest: segment {segment} is there, expected numbers below {next_file}: the manifest is older than the folder's \
         other files; put them all back from one copy"
    )]
    Older {
        /// The segment with the greatest number.
        segment: String,
        /// The manifest's bound.
        next_file: u64,
    },
    /// An entry names a segment that it may not name.
    #[error("{entry}: segment {segment} {reason}")]
    Segment {
        /// The entry.
        entry: EntryName,
        /// The segment's name.
        segment: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A column's type cannot be kept.
    #[error("{entry}: column {column:?} is of type {data_type}, expected one that column pages hold")]
    Type {
        /// The entry.
        entry: EntryName,
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// The medium failed at a moment after which either the old or the new manifest may be found.
    #[error(
        "whether this change is saved is not known: {source}; queries go on without it, open the database again to see and \
         to make changes"
    )]
    InDoubt {
        /// What failed.
        #[source]
        source: MediumError,
    },
    /// An earlier change is in doubt.
    #[error(
        "no change can be made, since it is not known whether an earlier one is saved: {reason}; open the database again"
    )]
    Refused {
        /// What failed then.
        reason: String,
    },
    /// The catalog was opened to read alone.
    #[error(
        "no change can be made: the database is open to be read alone; open it for changes, where nobody else has it open"
    )]
    ReadOnly,
    /// Numbers have run out: nobody gets there but by a manifest made by hand.
    #[error("manifest: {what} is {found}, expected less: none is left")]
    Exhausted {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: u64,
    },
}
