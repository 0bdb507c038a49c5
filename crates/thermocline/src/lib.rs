//! Thermocline: ask many questions of files larger than memory.
//!
//! Point it at NDJSON, CSV or Parquet and ask in SQL. The first answer comes straight from the file; the following
//! ones, merely similar ones too, come from memory, within the budget you set. Nothing is declared, nothing is loaded,
//! nothing is ever stale.
//!
//! ```no_run
//! # async fn example() -> thermocline::Result<()> {
//! let session = thermocline::SessionBuilder::new().memory("4GB")?.build()?;
//! let mut rows = session.sql("SELECT status, count(*) FROM 'events.ndjson' GROUP BY status").await?;
//! while let Some(batch) = rows.next().await {
//!     println!("{:?}", batch?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Sessions work on the runtime that they are asked on. The budget is kept to best where its threads for blocking work
//! end soon when there is nothing to do, since an allocator keeps by thread what others have freed:
//! `Builder::thread_keep_alive(Duration::from_millis(5))`, as the command and the Python package have it. Statements of
//! thousands of operators need `Builder::thread_stack_size(THREAD_STACK_BYTES)`.
//!
//! An existing DataFusion `SessionContext` gets the same caches with [`add_caches`]; see `examples/datafusion.rs`.

mod builder;

pub use builder::SessionBuilder;
pub use thermocline_engine::{
    Database, DatabaseOptions, Error, ErrorKind, Eviction, MAX_THREADS, Progress, QueryResult, Result, Session,
    SqlStatement, StoreOptions, THREAD_STACK_BYTES, add_caches, arrow, datafusion,
};

/// Memory: the counting allocator for a host's binary, sizes as text, and what rows take.
pub mod memory {
    pub use thermocline_budget::{CountingAllocator, format_bytes, parse_bytes};
    pub use thermocline_engine::used_bytes;
}
