//! The engine as its users meet it: SQL in, rows out, files changing underneath.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod answers;
mod bad_values;
mod caching;
mod column_stars;
mod column_tables;
mod concurrency;
mod copy;
mod copy_to_stores;
mod differential;
mod explain;
mod fused_arrays;
mod fused_files;
mod fused_groups;
mod fused_pipelines;
mod fused_sieves;
mod growth;
mod harness;
mod interrupts;
mod joined_rows;
mod listing;
mod many_inserts;
mod maps;
mod membership;
mod parquet_pages;
mod pipelines_and_operators;
mod read_only;
mod remote;
mod replacing;
mod security;
mod slt;
mod staleness;
mod stars;
mod statements;
mod tpch;
mod tracing;
