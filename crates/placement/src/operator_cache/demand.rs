//! How often all rows of some columns will be used: by what queries asked for lately, not by how often an item of theirs
//! was.
//!
//! An item of all rows answers whatever range is asked for, of its columns. So its uses to come are the queries of its
//! source, as often as they come now. Counted by item that is found out late and forgotten late: an item that was there
//! long ago keeps the uses of then, one that comes anew has none, and two items of one file with other columns each both
//! count what only one of them can answer.
//!
//! A part of the columns is credited with its part of their bytes, not with the queries that it answers already. A query
//! needs several columns at once, so few of them answer next to nothing, but whoever has all once had few. All bytes of
//! one source are worth the same then, and sources compete by the time that a byte of theirs saves, as in the fractional
//! knapsack (see [`heads`](super::heads)). Where all of them could not be held, a part stays one, and is credited with
//! what it answers: else a few columns of a large file would keep out all of smaller ones, whose every query they could
//! have answered.
//!
//! What a use saves is a scan of what its query asked for. That which made the item is no measure of it: to parse all
//! columns of all rows can take several times as long as the two or three that a query needs, of the few rows that pass.
//! So scans that read just what was asked for are what is measured, and of others the part that they would have been.
//!
//! Owns these estimates; not for how long queries are remembered. Pure.
//!
//! Paper: beyond ReCache, whose `n` counts the uses of an item, and whose `t` is the time of the operator that made it,
//! since there an item is what a query asked for.

use super::item_parts::{ColumnBits, bit};

/// Queries ahead for which uses are estimated. Items of ranges count their uses so far, the first one among them although
/// most ranges are never asked for again. With a horizon that is too short those would crowd out all rows; with one that
/// is too long nothing else would ever be kept. Measured: 64 and 1024 are both worse by about a fifth and more.
pub(super) const HORIZON_QUERIES: f64 = 256.0;

/// Queries of all sources that a rate is measured over at least: the first query of a file does not make it a busy one.
const FEWEST_QUERIES: u64 = 64;

/// Of what is known of earlier scans, the part that counts beside the next: about eight are seen.
const REMEMBERED_SHARE: f64 = 7.0 / 8.0;

/// Of the queries of all sources, the share that are of one, of which the latest `query_count` are spread over so many.
pub fn rate(query_count: usize, spread_over: u64) -> f64 {
    query_count as f64 / spread_over.max(FEWEST_QUERIES) as f64
}

/// Uses to come of all rows of columns that take `kept_share` of what all that are asked for take.
pub fn expected_uses(rate: f64, kept_share: f64) -> u64 {
    (HORIZON_QUERIES * rate * kept_share).round() as u64
}

/// Whether caches that may hold `limit_bytes` could hold all rows of all columns that are asked for, if those of columns
/// that are `kept_share` of these take `bytes`.
pub fn may_hold_all(bytes: u64, kept_share: f64, limit_bytes: u64) -> bool {
    bytes as f64 <= kept_share * limit_bytes as f64
}

/// The part of all that is asked for that some columns are credited with: of bytes, or where caches could not hold all, of
/// queries that are answered.
pub fn credited_share(kept_share: f64, answered_share: f64, may_hold_all: bool) -> f64 {
    if may_hold_all { kept_share } else { answered_share }
}

/// Of the bytes of the columns `asked`, the share that are of those `kept`. `widths_bytes` are those of a value by
/// column, 0 where that is not known: such a column is taken to be as wide as the others. 0 if nothing was asked for.
pub fn kept_share(asked: ColumnBits, kept: ColumnBits, widths_bytes: &[f32]) -> f64 {
    let known = || widths_bytes.iter().copied().filter(|width| *width > 0.0);
    let mean = if known().next().is_some() { known().sum::<f32>() / known().count() as f32 } else { 1.0 };
    let sum = |columns: ColumnBits| -> f64 {
        let numbered = widths_bytes.iter().zip(0..).filter(|(_, number)| columns & bit(*number) != 0);
        numbered.map(|(width, _)| f64::from(if *width > 0.0 { *width } else { mean })).sum()
    };
    let whole = sum(asked);
    if whole > 0.0 { sum(asked & kept) / whole } else { 0.0 }
}

/// What scans of one source took that read just what a query asked for, per byte of the file; the latest count most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OwnScans {
    ns: f64,
    bytes: f64,
}

impl OwnScans {
    /// A scan passed over `bytes`, of which what was asked for took so long, over all threads.
    pub fn note(&mut self, bytes: u64, ns: u64) {
        self.bytes = self.bytes * REMEMBERED_SHARE + bytes as f64;
        self.ns = self.ns * REMEMBERED_SHARE + ns as f64;
    }

    /// What one takes that passes over `bytes`; None if none was noted.
    pub fn ns_of(&self, bytes: u64) -> Option<u64> {
        (self.bytes > 0.0).then(|| (self.ns / self.bytes * bytes as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_follow_the_rate_and_the_bytes() {
        assert_eq!(expected_uses(rate(64, 256), 1.0), 64);
        assert_eq!(expected_uses(rate(64, 256), 0.5), 32);
        assert_eq!(rate(1, 1), 1.0 / 64.0, "one query is not all there will be");
        assert_eq!(rate(64, 64), 1.0);
        assert!(rate(64, 10_000) < 0.01, "nobody asks it any more");
    }

    #[test]
    fn what_a_scan_takes_is_told_by_the_latest_by_their_bytes() {
        let mut scans = OwnScans::default();
        assert_eq!(scans.ns_of(100), None);
        scans.note(100, 300);
        assert_eq!((scans.ns_of(100), scans.ns_of(50)), (Some(300), Some(150)));
        // A little that was slow says little.
        scans.note(1, 100);
        assert!(scans.ns_of(100).is_some_and(|ns| (300..450).contains(&ns)));
        for _ in 0..50 {
            scans.note(100, 700);
        }
        assert!(scans.ns_of(100).is_some_and(|ns| (699..=700).contains(&ns)), "{scans:?}");
    }

    #[test]
    fn all_that_is_asked_for_is_as_much_larger_as_the_kept_share_is_small() {
        assert!(may_hold_all(50, 0.5, 100) && !may_hold_all(51, 0.5, 100));
        assert!(may_hold_all(100, 1.0, 100) && !may_hold_all(1, 0.0, 100));
        assert_eq!((credited_share(0.5, 0.2, true), credited_share(0.5, 0.2, false)), (0.5, 0.2));
    }

    #[test]
    fn columns_count_by_their_width_and_those_of_unknown_width_as_the_others() {
        assert_eq!(kept_share(0b111, 0b001, &[2.0, 4.0, 2.0]), 0.25);
        assert_eq!(kept_share(0b111, 0b110, &[2.0, 4.0, 0.0]), 7.0 / 9.0);
        assert_eq!(kept_share(0b11, 0b10, &[0.0, 0.0]), 0.5);
        assert_eq!(kept_share(0b001, 0b110, &[2.0, 4.0, 2.0]), 0.0, "what nobody asks for");
        assert_eq!(kept_share(0, 0b1, &[2.0]), 0.0);
    }
}
