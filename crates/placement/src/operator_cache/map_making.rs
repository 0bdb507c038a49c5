//! Whether the scan of a whole file makes a positional map of it, so that later scans need not look for records and
//! fields.
//!
//! Owns that choice; not whether the map is worth its memory (see [`super::admission`]), nor whether a file can have
//! one. Pure.
//!
//! The rule, derived: making a map adds a share `m` to the scan, and each later scan by the map is spared a share `g`
//! of its time. How many scans are to come is unknown; as [admission](super::admission) takes a file that was scanned
//! `n` times to be scanned `n` times more, so does this rule: it makes a map when `n · g ≥ m`. A map that outlives the
//! process serves at least one scan more, that of the next process, for which nobody need have asked before: then the
//! first scan makes one. Whoever keeps all rows of whole columns leaves few scans to come, so only a map that outlives
//! the process is made beside them.
//!
//! A map that was not to be had after all (it found no memory, or no room for the fields) is a bet lost, and one that
//! was made has not spared the scan that now comes, be it that it was evicted or lacks fields: either halves the scans
//! that are expected to go by the next. So who asks for other fields each time makes as many maps as the logarithm of
//! his scans.
//!
//! Paper: ReCache (PVLDB 2017) §3.1 has the first query on a file make the map. Deviation: who asks once need not pay
//! for it.

use super::SourceKind;
use super::widening::ScanCosts;

/// What making a map adds to a scan: NDJSON and CSV of nested orders in the page cache took 1.10 to 1.15 times as long
/// (`raw/benches/positional_map.rs`).
const MAKING_SHARE: f64 = 0.15;

/// What a scan by a map is spared of an ordinary scan: it took 1 / 1.2 to 1 / 1.4 of the time (the same bench, and
/// `DESIGN.md`).
const SAVED_SHARE: f64 = 0.23;

/// Of what caches may hold, the most that one map may take: what it saves is a share of a scan, where rows spare a
/// whole one.
const LARGEST_SHARE: f64 = 0.25;

/// The most bytes that one map may take where caches may hold `limit_bytes`.
pub fn largest_bytes(limit_bytes: u64) -> u64 {
    (limit_bytes as f64 * LARGEST_SHARE) as u64
}

/// What is known when a scan of a whole file begins that no map serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapInputs {
    /// Earlier scans of the whole file with the same options that no map served.
    pub scan_count: u32,
    /// Maps of it that were begun in vain.
    pub lost_count: u32,
    /// Maps of it that were made, none of which serves this scan.
    pub made_count: u32,
    /// Whether a map is kept for the processes to come.
    pub outlives_process: bool,
    /// Whether this scan is to keep all rows of its columns.
    pub keeps_whole_columns: bool,
}

/// Of what caches may hold, what maps may take together and be spared. A policy that compares items by what they save
/// each, and sizes by their logarithm alone, as ReCache's does, lets maps go first, since they save but a share of a
/// scan; for each of their bytes, of which there are few, they save more than rows do.
const SPARED_SHARE: f64 = 0.125;

/// Of the latest queries of its file, the share that a map must serve to be spared: one that knows four of nine columns
/// served one query in fourteen, and took the memory of a twelfth of the rows.
const SPARED_SERVED_SHARE: f64 = 0.5;

/// Whether a map that serves `served_share` of its file's queries gives way to no newcomer, where all maps take so many
/// bytes together and caches may hold `limit_bytes`. Queries that need the memory have it all the same.
pub fn is_spared(maps_bytes: u64, limit_bytes: u64, served_share: f64) -> bool {
    maps_bytes as f64 <= limit_bytes as f64 * SPARED_SHARE && served_share >= SPARED_SERVED_SHARE
}

impl MapInputs {
    /// Whether the scan makes a map.
    pub fn is_worth_making(&self) -> bool {
        let foreseen = self.scan_count.max(u32::from(self.outlives_process)) as f64;
        let unavailing_count = self.lost_count.saturating_add(self.made_count);
        let expected = foreseen * 0.5_f64.powi(i32::try_from(unavailing_count).unwrap_or(i32::MAX));
        let is_scanned_again = self.outlives_process || !self.keeps_whole_columns;
        is_scanned_again && expected * SAVED_SHARE >= MAKING_SHARE
    }
}

/// What a scan by a map is foretold to take, nanoseconds, where an ordinary one takes `scan_ns`.
pub fn scan_by_map_ns(scan_ns: u64) -> u64 {
    (scan_ns as f64 * (1.0 - SAVED_SHARE)) as u64
}

/// What an ordinary scan of so many bytes takes, nanoseconds of one core, where none was measured: of a map that
/// another process made.
pub fn typical_scan_ns(kind: SourceKind, text_bytes: u64) -> u64 {
    let costs = match kind {
        SourceKind::Json => ScanCosts::NDJSON,
        SourceKind::Csv => ScanCosts::CSV,
    };
    (text_bytes as f64 * (costs.pass_ns_per_byte + costs.walk_ns_per_byte)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_scan_in_vain_makes_a_map_and_the_first_one_where_maps_last() {
        let first = MapInputs::default();
        assert!(!first.is_worth_making());
        assert!(MapInputs { scan_count: 1, ..first }.is_worth_making());
        assert!(MapInputs { outlives_process: true, ..first }.is_worth_making());
    }

    #[test]
    fn who_keeps_whole_columns_makes_only_a_map_that_lasts() {
        let whole = MapInputs { scan_count: 5, keeps_whole_columns: true, ..MapInputs::default() };
        assert!(!whole.is_worth_making());
        assert!(MapInputs { outlives_process: true, ..whole }.is_worth_making());
    }

    #[test]
    fn each_map_that_did_not_serve_takes_twice_as_many_scans_to_the_next() {
        for count in 0..20 {
            for lost_count in [0, count / 2, count] {
                let made_count = count - lost_count;
                let inputs = |scan_count| MapInputs { scan_count, lost_count, made_count, ..MapInputs::default() };
                let needed = (0..).find(|&scan_count| inputs(scan_count).is_worth_making());
                assert_eq!(needed, Some((f64::from(1_u32 << count) * MAKING_SHARE / SAVED_SHARE).ceil() as u32));
            }
        }
        assert!(!MapInputs { lost_count: u32::MAX, scan_count: u32::MAX, ..MapInputs::default() }.is_worth_making());
    }

    #[test]
    fn maps_are_spared_while_they_are_few_and_serve_many() {
        assert!(is_spared(0, 0, 1.0) && is_spared(125, 1000, 0.5) && !is_spared(126, 1000, 1.0));
        assert!(!is_spared(u64::MAX, 1000, 1.0) && !is_spared(1, 1000, 0.49));
    }

    #[test]
    fn a_scan_by_a_map_is_foretold_to_be_the_shorter_one() {
        assert!(scan_by_map_ns(1000) < 1000);
        assert!(typical_scan_ns(SourceKind::Csv, 1 << 30) > typical_scan_ns(SourceKind::Json, 1 << 30));
    }
}
