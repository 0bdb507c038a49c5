//! Raw NDJSON and CSV files to Arrow columns, in place: no load step, only what is asked for is parsed.
//!
//! **Owns**: positional maps; schema inference from a sample, the decoders that turn records into columns under a
//! [`ScanPlan`] (projection, predicate, unnesting), and the splitting of files into pieces that many threads decode.
//!
//! **Does not own**: which files there are and in which version (`medium`), predicates (`predicate`), plans and SQL
//! (`engine`), what is kept of the result (`operator-cache`).
//!
//! **Concurrency**: a [`FileScan`] is shared by the threads of a scan, a [`Decoder`] belongs to one.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.1: what a query does not need is skipped, not parsed.

mod bit_packing;
pub mod csv;
mod decoder;
mod error;
mod file_scan;
mod leaf;
pub mod ndjson;
mod plan;
mod positional_map;
mod record_positions;

pub use csv::{BigIntegers, Sample};
pub use decoder::{Decoder, Rows};
pub use error::{Fault, MAX_DEPTH, MAX_RECORD_BYTES, RawError, SEEN_CHARACTERS, quote_seen};
pub use file_scan::{FileScan, Format, Head, HeadSize, HoldBytes, Morsel, Source, read_head};
pub use leaf::{LeafBuilder, Mismatch};
pub use plan::{Column, OnError, ScanPlan, Unnest};
pub use positional_map::{MapPiece, MappedRecords, PositionalMap, PositionalMapBuilder};
pub use record_positions::RecordPositions;
