//! Deterministic data sets as text files: the eight TPC-H tables as CSV or NDJSON, and orders with their lineitems
//! nested; and TPC-H's queries.
//!
//! Owns how a row becomes text and how parts are produced in parallel, both of which the lab's other data sets use too.
//! The rows themselves come from `tpchgen`.
//! Does not own files: every writer takes an `io::Write` and reports how many bytes it wrote.
//!
//! Invariants: the bytes depend on table, format, scale and text pool only, never on the number of threads; every line
//! ends with a newline; each table's fields are listed in one place (`tables`), whatever the format.
//!
//! Concurrency: parts are claimed by fixed stride and written in order by the calling thread (`ordered_parts`).

mod fields;
mod nested_orders;
mod ordered_parts;
mod sql;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod tpch;

pub use nested_orders::write_nested_orders;
pub use ordered_parts::{take_parts, write_parts};
pub use sql::QUERIES;
pub use text::{push_hundredths, push_integer, push_json_string};
pub use tpch::{TextFormat, TpchTable, write_table};

pub use tpchgen::text::TextPool;

use tpchgen::distribution::Distributions;

/// What the generators need besides the table: how much, from which text, on how many threads.
#[derive(Debug, Clone, Copy)]
pub struct DataSet<'a> {
    /// TPC-H scale factor: 1.0 is 1,500,000 orders. Fractions are fine; below 1/10,000 some tables come out empty.
    pub scale: f64,
    /// Where comments are cut from. [`standard_text`] gives the rows that dbgen gives; a small [`TextPool`] starts
    /// faster and repeats itself sooner.
    pub text: &'a TextPool,
    /// Threads that format rows. One more, the caller's, writes.
    pub thread_count: usize,
}

/// The text pool of TPC-H itself: 300 MiB, built once per process.
pub fn standard_text() -> &'static TextPool {
    TextPool::get_or_init_default()
}

/// A pool of 4 MiB of the same grammar: built in some ten milliseconds and freed when dropped, for data sets
/// whose comments need not be dbgen's to the letter. Repeats itself sooner, and is as deterministic.
pub fn small_text() -> TextPool {
    TextPool::new(SMALL_TEXT_BYTES, Distributions::static_default())
}

/// Some forty thousand different comments of full length, cut at any byte.
const SMALL_TEXT_BYTES: i32 = 4 << 20;
