//! The same set as the intervals, in the form the per-row questions want.

use std::ops::Bound;
use std::sync::Arc;

use crate::{Interval, Scalar, ScalarKind};

/// A domain's values as plain numbers: inclusive ranges of integers, or of floats' totalOrder keys. Strings stay
/// with the intervals.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// No value.
    Nothing,
    /// Every value of any kind.
    Everything,
    /// One truth value.
    Boolean(bool),
    /// One inclusive range.
    Int(i128, i128),
    /// Several, sorted and disjoint.
    Ints(Arc<[(i128, i128)]>),
    /// One inclusive range of totalOrder keys.
    Float(i64, i64),
    /// Several, sorted and disjoint.
    Floats(Arc<[(i64, i64)]>),
    /// The only interval is of strings.
    Text,
    /// Several intervals of strings.
    Texts,
}

impl Shape {
    pub(super) fn of(intervals: &[Interval]) -> Self {
        let Some(first) = intervals.first() else {
            return Self::Nothing;
        };
        // Of several disjoint intervals each has a bound.
        let Some(kind) = first.kind() else {
            return Self::Everything;
        };
        let keys = || intervals.iter().filter_map(Interval::numeric_key);
        match kind {
            ScalarKind::Boolean => Self::Boolean(first.as_point() == Some(&Scalar::Boolean(true))),
            ScalarKind::Int => match (intervals.len(), first.numeric_key()) {
                (1, Some((low, high))) => Self::Int(low, high),
                _ => Self::Ints(keys().collect()),
            },
            ScalarKind::Float => match (intervals.len(), first.numeric_key()) {
                (1, Some((low, high))) => Self::Float(saturate(low), saturate(high)),
                _ => Self::Floats(keys().map(|(low, high)| (saturate(low), saturate(high))).collect()),
            },
            ScalarKind::Utf8 if intervals.len() == 1 => Self::Text,
            ScalarKind::Utf8 => Self::Texts,
        }
    }

    pub(super) fn kind(&self) -> Option<ScalarKind> {
        match self {
            Self::Nothing | Self::Everything => None,
            Self::Boolean(_) => Some(ScalarKind::Boolean),
            Self::Int(..) | Self::Ints(_) => Some(ScalarKind::Int),
            Self::Float(..) | Self::Floats(_) => Some(ScalarKind::Float),
            Self::Text | Self::Texts => Some(ScalarKind::Utf8),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        match self {
            Self::Ints(ranges) => COUNTS_BYTES + size_of_val::<[(i128, i128)]>(ranges),
            Self::Floats(ranges) => COUNTS_BYTES + size_of_val::<[(i64, i64)]>(ranges),
            _ => 0,
        }
    }
}

/// Unbounded ends have keys beyond those of any float.
fn saturate(key: i128) -> i64 {
    key.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Whether `value` lies in one of the sorted disjoint inclusive ranges.
#[inline]
pub(super) fn search<T: Copy + Ord>(ranges: &[(T, T)], value: T) -> bool {
    let at = ranges.partition_point(|&(_, high)| high < value);
    ranges.get(at).is_some_and(|&(low, _)| low <= value)
}

/// Whether every string in the interval is less than the one of these bytes; strings are in the order of their bytes.
#[inline]
pub(super) fn text_ends_before(interval: &Interval, value: &[u8]) -> bool {
    match &interval.high {
        Bound::Included(Scalar::Utf8(high)) => high.as_bytes() < value,
        Bound::Excluded(Scalar::Utf8(high)) => high.as_bytes() <= value,
        _ => false,
    }
}

/// Whether `value` lies in an interval of strings.
#[inline]
pub(super) fn text_within(interval: &Interval, value: &[u8]) -> bool {
    let after_low = match &interval.low {
        Bound::Included(Scalar::Utf8(low)) => low.as_bytes() <= value,
        Bound::Excluded(Scalar::Utf8(low)) => low.as_bytes() < value,
        _ => true,
    };
    after_low && !text_ends_before(interval, value)
}
