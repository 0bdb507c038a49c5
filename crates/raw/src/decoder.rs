//! The seam between reading bytes and making rows.
//!
//! **Owns**: the trait that every format's decoder implements, and its result.
//!
//! **Does not own**: where records begin and end in a file ([`FileScan`](crate::FileScan)).
//!
//! **Invariants**: rows come out in the order of their records; arrays own their buffers at exactly the size needed.
//!
//! **Concurrency**: a decoder belongs to one thread at a time; each thread of a scan has its own.

use arrow::array::ArrayRef;
use arrow::buffer::OffsetBuffer;

use crate::{MapPiece, MappedRecords, RawError, RecordPositions};
use thermocline_predicate::FieldPath;

/// What a decoder made of the records it was given.
#[derive(Debug, Clone)]
pub struct Rows {
    /// One array for each column of the plan, each of `row_count` values; exactly sized, owning their buffers. Where a
    /// list is unnested, columns of the record have a value for each record that is kept instead.
    pub columns: Vec<ArrayRef>,
    /// Where a list is unnested: the rows of record `i` are those from number `i` up to number `i + 1`.
    pub element_offsets: Option<OffsetBuffer<i32>>,
    /// Rows that passed the predicate.
    pub row_count: usize,
    /// Well-formed records seen, whether they gave rows or not.
    pub record_count: u64,
    /// Records left out because they could not be read; zero unless the plan says [`OnError::Skip`](crate::OnError).
    pub skipped_count: u64,
    /// If the plan wants [`positions`](crate::ScanPlan::positions): the offset in the (decompressed) file of the first
    /// byte of each record that gave at least one row, or is kept without, in file order.
    pub positions: Option<RecordPositions>,
    /// If the plan wants a [`map`](crate::ScanPlan::map): where the records are, and the fields that the plan reads.
    pub map_piece: Option<MapPiece>,
}

/// Turns whole records into columns.
pub trait Decoder: Send {
    /// Reads `records`, which begins at a record's first byte and ends at a record's end (only the last record of
    /// a file may lack its line end), and adds the rows that pass. `file_offset` is the place of `records[0]` in the
    /// (decompressed) file, for error messages.
    ///
    /// # Errors
    /// A record that cannot be read, unless the plan skips those. After an error, [`finish`](Self::finish) gives
    /// the rows before the bad record.
    fn decode(&mut self, records: &[u8], file_offset: u64) -> Result<(), RawError>;

    /// Paths of the fields it looks for in a record, in an order of its own; of an unnested list the list's.
    fn map_paths(&self) -> &[FieldPath];

    /// Like [`decode`](Self::decode) for `mapped`, records whose fields' places are known, all of them in `content`,
    /// which begins at `file_offset` in the file. Gives the rows that `decode` gives.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_mapped(&mut self, content: &[u8], file_offset: u64, mapped: MappedRecords<'_>) -> Result<(), RawError>;

    /// Rows gathered since the last [`finish`](Self::finish).
    fn row_count(&self) -> usize;

    /// Hands over the rows gathered and starts anew.
    ///
    /// # Errors
    /// Arrow's limits, for instance a string column of more than 2 GiB.
    fn finish(&mut self) -> Result<Rows, RawError>;
}
