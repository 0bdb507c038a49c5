#![allow(clippy::unwrap_used, clippy::panic)]
//! Tests of the cache as a whole, with files that exist in the test alone or in a temporary folder.

mod awaited;
mod bids;
mod combine;
mod elements;
mod fake;
mod files;
mod heads;
mod item_columns;
mod lazy;
mod lazy_files;
mod maps;
mod measured;
mod memory;
mod mirrors;
mod pieces;
mod previews;
mod queries;
mod read_counts;
mod recording;
mod retreat;
mod schedules;
mod siblings;
mod threads;
mod top_up;
