//! Fused pipelines on encoded column pages: scan, filters, probes and a sink in one loop.
//!
//! **Owns**: the intermediate representation of pipelines, checked and printable ([`PipelineBuilder`], [`Pipeline`]); the CPU
//! backend (`run`): predicates on packed values and dictionary codes, tables that are probed, groups, threads; rowsets, what
//! leaves a pipeline. **Does not own**: SQL and its plans (`engine`), where pages lie and which are in memory ([`PageSource`] is what
//! it asks), encodings (`column-store`).
//!
//! **Invariants**
//! - What a pipeline cannot express is refused while it is made, with the reason; one that exists runs on every backend.
//! - Values are never decoded to arrays: filters work on packed words and codes, texts are codes until somebody reads a result.
//! - The answer is that of the slow, obvious interpreter in the tests, for every encoding, order, instruction set and number of
//!   threads.
//!
//! **Concurrency**: pipelines and tables are immutable and shared freely; `run` brings threads of its own and returns when they
//! are done.
//!
//! **Paper**: the unit that HetCache (CIDR 2025) routes and caches for, §5.

mod error;
mod hash;
mod ir;
mod kernels;
mod membership;
#[cfg(test)]
mod random;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod reference;
mod rowset;
mod source;
mod table;

pub use error::{PipelineError, Result};
pub use ir::{
    Aggregate, ColumnShape, Expression, Operator, Origin, Pipeline, PipelineBuilder, ProbeKind, Sink, Slot, SlotInfo,
    Step, TableShape, ValueType,
};
pub use kernels::InstructionSet;
pub use rowset::{Rowset, RowsetColumn, RowsetValues, Value};
pub use source::{MemoryPages, PageFacts, PageSource, PinnedPage};
pub use table::BuiltTable;
