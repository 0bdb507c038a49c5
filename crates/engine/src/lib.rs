//! Thermocline's engine: SQL over raw files, Parquet files and its own column tables, answered from memory where that is
//! cheaper.
//!
//! **Owns**: sessions, the catalog, the rules and operators that put Thermocline's parts into DataFusion. It is the
//! only crate that names DataFusion's plan types.
//!
//! **Does not own**: parsing files (`raw`), what is kept of them (`operator-cache`), encoded pages and the folder that
//! has them (`column-store`), which pages are in memory (`buffer-pool`), loops over pages (`pipeline`), what is worth
//! keeping (`placement`), how much memory there is (`budget`).
//!
//! **How a query runs**: [`Session::execute`] parses, lets DataFusion plan, and gives the plan a `QueryContext` in
//! which every file is opened once. Tables over NDJSON and CSV are `RawTable`s; their scans become `RawScanExec` nodes,
//! which ask the operator cache for an item that covers the request, or take part in a shared scan of the file. Column
//! tables (`column_table`) and Parquet files (`parquet_table`) are read page by page through the buffer pool. Aggregates
//! and joins over any of these, and over tables in memory, become one `PipelineExec` where pipelines can run them
//! (`fusion`); the rest is left to DataFusion's operators.
//!
//! **Concurrency**: a [`Database`] is shared by threads and sessions; a [`Session`] is cheap to clone. Nothing waits
//! for another session's consumer.

mod catalog;
mod column_table;
mod database;
mod error;
mod explain_cache;
mod filters;
mod folder;
mod fusion;
mod idle_work;
mod interruption;
mod lineage;
mod logical_rules;
mod memory_pool;
mod own_batch;
mod page_pool;
mod parquet_table;
mod physical_rules;
mod plan_expressions;
mod planner;
mod query;
mod raw_table;
mod read_tables;
mod runs;
mod session;
mod settings;
mod spill_files;
mod sql;
mod staged_copy;
mod stand_ins;
mod trace_file;
mod unnest;
mod verify;

pub use database::{Database, DatabaseOptions, Eviction, MAX_THREADS, StoreOptions};
pub use datafusion;
pub use datafusion::arrow;
pub use error::{Error, ErrorKind, Result};
pub use own_batch::used_bytes;
pub use query::{Progress, QueryContext};
pub use session::{QueryResult, Session, add_caches};
pub use settings::{Append, SharedSettings, ThermoclineConfig};
pub use sql::{SqlStatement, THREAD_STACK_BYTES};
