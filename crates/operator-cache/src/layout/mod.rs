//! The layouts that cached rows can lie in.
//!
//! **Owns**: rows as scans deliver them (Arrow's arrays, each record once), the flat layout ([`flat`]), the striped
//! layout ([`striped`], nested records as leaf columns with levels) and the row layout ([`row_wise`], rows of a fixed
//! stride); the ways between them ([`content`]).
//! **Does not own**: which layout an item gets (`placement` decides, from measured cost) and the memory they take.
//!
//! **Invariants**: a layout gives back the values it was made of; NULLs, NULL structs, NULL lists and empty lists
//! included. What lies under a NULL struct or list is not kept.
//!
//! **Concurrency**: layouts never change once built and are shared between threads.
//!
//! **Paper**: ReCache (PVLDB 2017), §4.

mod content;
mod flat;
#[cfg(test)]
mod random_arrays;
mod row_wise;
mod striped;

use thermocline_placement::operator_cache::layout::ReadCounts;

pub(crate) use content::{Content, PIECE_ROWS, RowWiseRows, piece_entries};
pub(crate) use flat::{FlatPiece, FlatRecords};

/// What reading an item took and did, added up over the pieces it is passed to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What it took.
    pub times: ReadTimes,
    /// What it did with rows.
    pub counts: ReadCounts,
    /// Pieces that were not looked at, since their values lie elsewhere. Nothing else counts them.
    pub passed_over_count: u64,
}

impl Reading {
    /// Adds another part of the same reading, such as another thread's.
    pub fn add(&mut self, other: &Self) {
        self.times.data_ns += other.times.data_ns;
        self.times.compute_ns += other.times.compute_ns;
        self.counts.add(&other.counts);
        self.passed_over_count += other.passed_over_count;
    }
}

/// What reading rows took: the paper's D and C (§4.2), added up over the reads it is passed to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReadTimes {
    /// Nanoseconds of moving values to their places: the data access cost D.
    pub data_ns: u64,
    /// Nanoseconds of finding where the places are, from levels: the computational cost C.
    pub compute_ns: u64,
}
