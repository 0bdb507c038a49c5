//! Fused pipelines on encoded column pages and on record batches: scan, filters, probes and a sink in one loop.
//!
//! **Owns**: the intermediate representation of pipelines, checked and printable ([`PipelineBuilder`], [`Pipeline`]);
//! the CPU backend ([`run`]): predicates on packed values and dictionary codes, tables that are probed, groups,
//! threads; rowsets, what leaves a pipeline. **Does not own**: SQL and its plans (`engine`), where pages lie and which
//! are in memory ([`PageSource`] is what it asks), where batches come from ([`BatchSource`]), encodings
//! (`column-store`).
//!
//! **Invariants**
//! - What a pipeline cannot express is refused while it is made, with the reason; one that exists runs on every
//!   backend.
//! - Values of pages are never decoded to arrays: filters work on packed words and codes, texts are codes until somebody
//!   reads a result. (Parquet chunks and record batches are brought into the same form first.)
//! - The answer is that of the slow, obvious interpreter in the tests, for every encoding, order, instruction set and
//!   number of threads.
//!
//! **Concurrency**: pipelines and tables are immutable and shared freely; [`run`] brings threads of its own and returns
//! when they are done.
//!
//! **Paper**: the unit that HetCache (CIDR 2023) routes to devices and caches for, §5 and §6.
//!
//! # Example
//!
//! Q2.1 of the Star Schema Benchmark: revenue of a category's brands by year, for suppliers of a region. First the
//! three dimensions become tables; what groups are made by is their payload.
//!
//! ```
//! # use std::sync::{Arc, atomic::AtomicBool};
//! # use arrow::array::{ArrayRef, Int32Array, StringArray};
//! # use thermocline_budget::{Budget, Purpose};
//! # use thermocline_column_store::encode;
//! # use thermocline_hardware::SystemClock;
//! # fn pages(columns: Vec<ArrayRef>) -> MemoryPages {
//! #     let page = |column: &ArrayRef| {
//! #         let mut bytes = Vec::new();
//! #         encode(column, &mut bytes).map(|summary| (bytes, summary))
//! #     };
//! #     let mut source = MemoryPages::new();
//! #     source.push(columns.iter().map(page).collect::<Result<_, _>>().unwrap());
//! #     source
//! # }
//! # fn texts(texts: &[&str]) -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) }
//! # fn ints(ints: &[i32]) -> ArrayRef { Arc::new(Int32Array::from(ints.to_vec())) }
//! # let brands = texts(&["MFGR#1201", "MFGR#1301", "MFGR#1202"]);
//! # let part = pages(vec![ints(&[1, 2, 3]), texts(&["MFGR#12", "MFGR#13", "MFGR#12"]), brands]);
//! # let supplier = pages(vec![ints(&[1, 2]), texts(&["AMERICA", "ASIA"])]);
//! # let date = pages(vec![ints(&[19920101, 19930101]), ints(&[1992, 1993])]);
//! # let lineorder = pages(vec![
//! #     ints(&[19920101, 19930101, 19930101, 19930101, 19930101]),
//! #     ints(&[1, 3, 3, 2, 1]),
//! #     ints(&[1, 1, 1, 1, 2]),
//! #     ints(&[10, 20, 30, 40, 50]),
//! # ]);
//! # let (clock, cancelled) = (SystemClock::new(), AtomicBool::new(false));
//! # let account = Budget::new(1 << 30, None).account("query", Purpose::Query);
//! # let instructions = InstructionSet::detect();
//! # let (clock, account, cancelled) = (&clock, &account, &cancelled);
//! # let options = RunOptions { thread_count: 2, instructions, clock, account, cancelled, groups: GroupWay::Together };
//! use thermocline_pipeline::*;
//! use thermocline_predicate::{Domain, Scalar};
//! use ValueType::{Int32, Text};
//!
//! // Builds a table of the rows whose filter column is the text, or of all.
//! let build = |name: &str, source, filter: Option<&str>, payload: Option<(&str, usize, ValueType)>| {
//!     let mut builder = PipelineBuilder::new();
//!     let key = builder.scan("key", 0, Int32, false)?;
//!     if let Some(text) = filter {
//!         let filtered = builder.scan("filtered", 1, Text, false)?;
//!         builder.filter(filtered, Domain::point(Scalar::from(text)))?;
//!     }
//!     let payload = payload.map(|(name, column, of)| builder.scan(name, column, of, false)).transpose()?;
//!     match run(&builder.build(name, key, Vec::from_iter(payload))?, source, &[], &options)? {
//!         (Outcome::Table(table), _) => Ok::<_, PipelineError>(table),
//!         _ => unreachable!("the sink is a table"),
//!     }
//! };
//! let parts = build("part", &part, Some("MFGR#12"), Some(("p_brand1", 2, Text)))?;
//! let suppliers = build("supplier", &supplier, Some("AMERICA"), None)?;
//! let dates = build("date", &date, None, Some(("d_year", 1, Int32)))?;
//!
//! let mut builder = PipelineBuilder::new();
//! let orderdate = builder.scan("lo_orderdate", 0, Int32, false)?;
//! let partkey = builder.scan("lo_partkey", 1, Int32, false)?;
//! let suppkey = builder.scan("lo_suppkey", 2, Int32, false)?;
//! let revenue = builder.scan("lo_revenue", 3, Int32, false)?;
//! let brand = builder.probe(parts.shape(), partkey, ProbeKind::Inner, &[0])?;
//! builder.probe(suppliers.shape(), suppkey, ProbeKind::Inner, &[])?;
//! let year = builder.probe(dates.shape(), orderdate, ProbeKind::Inner, &[0])?;
//! let q2_1 = builder.aggregate(vec![year[0], brand[0]], vec![Aggregate::Sum(revenue)])?;
//! assert_eq!(
//!     q2_1.to_string(),
//!     "scan lo_orderdate: int32 #0, lo_partkey: int32 #1, lo_suppkey: int32 #2, lo_revenue: int32 #3\n\
//!      probe part with lo_partkey for p_brand1\n\
//!      probe supplier with lo_suppkey\n\
//!      probe date with lo_orderdate for d_year\n\
//!      aggregate sum(lo_revenue) by d_year, p_brand1"
//! );
//!
//! let (outcome, _) = run(&q2_1, &lineorder, &[parts, suppliers, dates], &options)?;
//! let Outcome::Rows { rowset, .. } = outcome else { unreachable!("the sink is groups") };
//! let number = Value::Integer;
//! let text = |text: &str| Value::Text(text.into());
//! assert_eq!(rowset.sorted_rows(), [
//!     vec![number(1992), text("MFGR#1201"), number(10)],
//!     vec![number(1993), text("MFGR#1202"), number(50)],
//! ]);
//! # Ok::<(), PipelineError>(())
//! ```

mod cpu;
mod error;
mod hash;
mod ir;
mod kernels;
mod membership;
mod ordinal;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod reference;
mod rowset;
mod source;
mod table;
mod text_list;
mod threads;
mod tuples;

pub use cpu::{
    BatchConsumer, BatchSize, GroupWay, Outcome, RunOptions, RunReport, WORKER_STACK_BYTES, run, run_in_batches,
    run_over_batches,
};
pub use error::{PipelineError, Result};
pub use ir::{
    Aggregate, ColumnShape, Comparison, Condition, DatePart, Expression, Operator, Origin, Pipeline, PipelineBuilder,
    ProbeKind, Sink, Slot, SlotInfo, Step, TableShape, TextMap, TextTest, ValueType,
};
pub use kernels::InstructionSet;
pub use rowset::{Rowset, RowsetColumn, RowsetValues, Value};
pub use source::{
    BatchSource, FailedElsewhere, MemoryPages, PageFacts, PageSource, PinnedPage, SourceBatch, SourceColumn,
};
pub use table::BuiltTable;
pub use text_list::TextList;
