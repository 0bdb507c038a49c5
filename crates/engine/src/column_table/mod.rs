//! Column tables: tables in a database's folder, written as column pages and read through the buffer pool.
//!
//! **Owns**: [`ColumnTables`], the tables of a database by name, and their pages as a source of the pool; writing rows
//! into segments (`load`), few rows together with those of small ones (`merging`); the scan that reads them
//! (`scan_exec`, `scan_run`), which row groups it need not read (`pruning`), what is known of its columns beforehand
//! (`statistics`).
//!
//! **Does not own**: the bytes of pages, segments and the manifest (`column-store`), what of them stays in memory
//! (`buffer-pool`, as `placement` decides), statements (`session`).
//!
//! **Invariants**: a [`ColumnTable`] is a snapshot: its segments never change, and stay readable while a query has
//! them, even if the table is dropped meanwhile. Rows are in a table when the statement that wrote them returns, all or
//! none of them, and then survive a crash.
//!
//! **Concurrency**: readers never wait for writers. Statements that change tables are put in order by the catalog.

#[cfg(test)]
mod faults_tests;
mod insert;
mod load;
mod merging;
mod pages;
mod pruning;
pub(crate) mod scan_exec;
mod scan_run;
mod statistics;
mod store;
mod table;

pub(crate) use load::{LoadedRows, load};
pub(crate) use pages::page_number;
pub(crate) use scan_run::{ColumnScan, GroupPlace, read_alone};
pub(crate) use store::{ColumnTables, OpenTable, Reading, UnreadableTable};
pub(crate) use table::ColumnTable;
