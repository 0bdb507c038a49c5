//! The hull of a domain as a pair of keys: what goes into an R-tree.
//!
//! If domain `a` covers `b`, both of the same kind, then `a`'s hull keys enclose `b`'s. For single numeric intervals
//! the reverse holds too; for sets with gaps and for strings (keyed by their first 15 bytes) it does not, so a hit in
//! the tree is a candidate that must still be compared exactly. Beyond the paper, which indexes ranges of numbers
//! alone, this finds IN-lists and string ranges through the same tree.

use std::ops::Bound;

use thermocline_predicate::{Domain, Interval, Scalar};

/// Bytes of a string that fit above the sign of a key.
const PREFIX_BYTES: usize = 15;

/// (low key, high key) of the least interval around the domain's non-null part; None when that part is empty.
pub(crate) fn hull(domain: &Domain) -> Option<(i128, i128)> {
    let intervals = domain.intervals();
    let (first, last) = (intervals.first()?, intervals.last()?);
    Some((ends(first).0, ends(last).1))
}

/// Whether the domain is one interval of numbers, for which the tree alone is exact.
pub(crate) fn is_numeric_interval(domain: &Domain) -> bool {
    matches!(domain.intervals(), [interval] if interval.numeric_key().is_some()) && !domain.admits_null()
}

fn ends(interval: &Interval) -> (i128, i128) {
    interval.numeric_key().unwrap_or_else(|| {
        (bound_key(&interval.low).unwrap_or(i128::MIN), bound_key(&interval.high).unwrap_or(i128::MAX))
    })
}

/// Monotone in the value, openness ignored: enough for a candidate.
fn bound_key(bound: &Bound<Scalar>) -> Option<i128> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(value) | Bound::Excluded(value) => match value {
            Scalar::Boolean(value) => Some(i128::from(*value)),
            Scalar::Utf8(text) => Some(prefix_key(text)),
            // Numbers have exact keys; one in an interval without has no order that could be used.
            Scalar::Int(_) | Scalar::Float(_) => None,
        },
    }
}

fn prefix_key(text: &str) -> i128 {
    let mut key = [0; 16];
    let prefix = text.as_bytes();
    let length = prefix.len().min(PREFIX_BYTES);
    key[1..=length].copy_from_slice(&prefix[..length]);
    i128::from_be_bytes(key)
}
