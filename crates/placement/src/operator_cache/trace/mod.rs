//! A cache's requests as they were recorded: what [`super::replay`] and [`super::offline`] start from.
//!
//! Owns the request and its text; the format, one JSON object a line, is specified in `docs/formats/cache-trace.md`.
//! Does not own files: a line is written to and read from a string, by whoever has the file.
//!
//! **Invariant**: a request that is written and read is the same request.

#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use super::{ItemMeasurements, SourceKind};
pub use text::{TraceError, header, parse};

/// How a request was answered when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answered {
    /// From an item of the same predicate.
    Hit,
    /// From an item of a wider predicate.
    Subsumed,
    /// By a scan that ran already for another query.
    Joined,
    /// From an item and a scan of what it lacked: columns, or what its file had grown by.
    Extended,
    /// By a scan of the file.
    Missed,
}

/// A select over one file that the cache was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was answered, nanoseconds since 1970-01-01T00:00:00Z.
    pub wall_ns: u64,
    /// How it was answered.
    pub answered: Answered,
    /// Path or URL of the file.
    pub source: Arc<str>,
    /// The text that the file holds.
    pub kind: SourceKind,
    /// The item that answered, or that the scan would have made. Equal for the same rows of the same content, whatever
    /// the columns.
    pub item: u64,
    /// What was asked for; `item` if that is an item of just these rows, another number if the item is wider.
    pub asked: u64,
    /// `B`: bytes of the item, an estimate if it was refused.
    pub size_bytes: u64,
    /// `t`: scanning the file for the item, without caching.
    pub execute_ns: u64,
    /// `c`: caching the item.
    pub cache_ns: u64,
    /// `s`: answering the request from the item; for an extended one that includes scanning what it lacked.
    pub reuse_scan_ns: u64,
    /// `l`: finding the item.
    pub lookup_ns: u64,
}

impl Request {
    /// Time to answer the request from the item, nanoseconds.
    pub fn reuse_ns(&self) -> u64 {
        self.reuse_scan_ns.saturating_add(self.lookup_ns)
    }

    /// Seconds that are lost if the item is not there: `t + c - s - l`, not less than zero. Nothing for a request that
    /// joined a scan, which costs nothing either way.
    pub fn saving_s(&self) -> f64 {
        if self.answered == Answered::Joined { 0.0 } else { self.measurements(0).saving_s() }
    }

    /// The item as it is when it was just made at logical time `tick`.
    pub fn measurements(&self, tick: u64) -> ItemMeasurements {
        ItemMeasurements {
            id: self.item,
            kind: self.kind,
            use_count: 1,
            execute_ns: self.execute_ns,
            cache_ns: self.cache_ns,
            reuse_scan_ns: self.reuse_scan_ns,
            lookup_ns: self.lookup_ns,
            size_bytes: self.size_bytes,
            baseline: 0.0,
            last_use: tick,
        }
    }
}
