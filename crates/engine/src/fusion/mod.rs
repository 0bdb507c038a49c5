//! Star queries over column tables and raw files as fused pipelines.
//!
//! **Owns**: which parts of a plan run so, and which do not and why ([`rule`]); reading them as relations that are
//! joined by equalities (`join_graph`, `other_values`), which relation is scanned and which are looked up in (`tree`),
//! the pipelines of that (`star`), and which of them are for few keys alone (`sieves`); running the pipelines over pages
//! of the buffer pool (`exec`, `run`, `pages`) and over batches that scans of raw files make (`batches`), and the arrays
//! that come out of them (`output`); subqueries whose value pipelines take (`subqueries`).
//!
//! **Does not own**: the loop itself, what a pipeline can compute (`pipeline`), what pipelines are bad at
//! (`placement`), pages (`buffer-pool`), the operators that take over where a pipeline cannot go on (DataFusion's).
//!
//! **Invariants**
//! - A plan with a fused part keeps the output's qualified names, types and nullability, and has the answer of the plan
//!   it stands for.
//! - What a pipeline finds out only while it runs (an overflow, too little memory) costs no answer: no row has
//!   left it by then, and the part is run by DataFusion's operators instead. Of a join's rows that is so until 16 MB of
//!   them have left; memory that is too little after that ends the query.
//!
//! **How**: an aggregate over joins over filters over column tables becomes the scan of a table that no catalog has
//! ([`table::FusedTable`]). So whatever planner the host's session has plans it, as any other table.
//!
//! **Concurrency**: plans are immutable; a run shares row groups among threads of its own.
//!
//! **Paper**: the pipelines that HetCache (CIDR 2023), §6, routes and caches for; §5 for what a scan and its probes
//! are.

mod arrays;
mod batches;
mod calls;
mod chunks;
mod equalities;
mod estimates;
mod exec;
mod expressions;
mod fallback;
mod giving;
mod join_graph;
mod joined_rows;
mod other_values;
mod outer_joins;
mod output;
mod pages;
mod patterns;
mod relation;
mod rule;
mod run;
mod sieves;
mod star;
mod subqueries;
mod table;
mod text_functions;
mod tree;

pub(crate) use exec::PipelineExec;
pub(crate) use rule::install;

use std::fmt;

use datafusion::common::DataFusionError;
use thermocline_pipeline::PipelineError;

/// Why a part of a plan does not run as pipelines, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal(String);

impl Refusal {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<DataFusionError> for Refusal {
    fn from(error: DataFusionError) -> Self {
        Self(error.to_string())
    }
}

impl From<PipelineError> for Refusal {
    fn from(error: PipelineError) -> Self {
        Self(error.to_string())
    }
}
