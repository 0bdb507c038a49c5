//! CSV files: dialect, inference, splitting into records, and decoding.
//!
//! Owns: everything that knows what a CSV file looks like. The grammar is RFC 4180 with the usual liberties: any ASCII
//! delimiter; lines end with LF or CRLF; the last line may lack its end; blank lines are not records; a quote opens
//! only as the first byte of a field and is data elsewhere; a byte order mark is skipped. A lone CR ends nothing.
//!
//! | file | owns |
//! |---|---|
//! | `dialect` | delimiter, quote, header: told or guessed |
//! | `types` | which type a text could have, and widening |
//! | `infer` | schema and format from samples |
//! | `marks`, `avx2` | structural bytes as bit masks, quotes across blocks |
//! | `splitter` | where whole records end in a stream of pieces |
//! | `index` | where each field ends in a window |
//! | `field` | quotes off a field |
//! | `decoder` | records to columns under a plan |
//! | `fault` | what was wrong, in words, and on which line |
//!
//! Does not own: reading files and morsels (`FileScan`), text to value (`leaf`).
//!
//! Concurrency: decoders belong to a thread; a splitter sees a file in order.
//!
//! ReCache §3.1: with a positional map (`positional_map`) fields are read where it says; without one, the structural
//! index of a window is built at several GB/s.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod decoder;
mod dialect;
mod fault;
mod field;
mod index;
mod infer;
mod marks;
mod splitter;
#[cfg(test)]
mod tests;
mod types;

pub use decoder::CsvDecoder;
pub use dialect::{CsvFormat, CsvOptions};
pub use fault::line_at;
pub use infer::{InferOptions, Sample, infer};
pub(crate) use marks::Marks;
pub use splitter::Splitter;
pub(crate) use splitter::first_record_end;
pub use types::BigIntegers;
