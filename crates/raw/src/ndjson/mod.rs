//! NDJSON: a JSON object a line.
//!
//! **Owns**: everything that knows what JSON looks like.
//!
//! | file | owns |
//! |---|---|
//! | `infer` | schema from a sample |
//! | `decoder` | lines, bad records, the words of errors |
//! | `program` | plan to targets |
//! | `scope` | one level of rows: predicates early, the rest late, taking back; `known`: by places known before |
//! | `walk`, `field_table` | fields of an object, predicted by their order |
//! | `value` | columns of any nesting |
//! | `byte_scan`, `skip`, `skip_avx2` | ends of strings, scalars, objects and lists |
//! | `token` | numbers, literals, escapes |
//! | `validate` | the whole grammar |
//! | `bad` | faults in a machine word |
//!
//! **Does not own**: reading files and morsels (`FileScan`), text to flat values (`leaf`).
//!
//! **Rules**: a record is a line that begins with `{` and ends with `}`; blank lines, CRLF and a byte order mark are
//! accepted. Of several fields of one name the first counts, hence nothing behind the last wanted field is looked at.
//! What is skipped is only checked as far as that takes (quotes and brackets); strict plans validate each record first,
//! and so is always a last line without a newline, which may be cut off. Nesting ends at 512 levels, a line at 256 MiB.
//!
//! **Concurrency**: a decoder belongs to one thread.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.1. Skipping costs about what scanning for a few bytes costs, so a scan without a
//! positional map is not much slower than one with it; see `positional_map`.

mod bad;
mod byte_scan;
mod decoder;
mod field_table;
mod infer;
mod program;
mod scope;
mod skip;
#[cfg(target_arch = "x86_64")]
mod skip_avx2;
mod token;
mod validate;
mod value;
mod walk;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub(crate) mod tests;

pub use decoder::NdjsonDecoder;
pub use infer::{InferOptions, infer};
