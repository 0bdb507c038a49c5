//! A place between two neighbouring values: what the set algebra computes with.
//!
//! A range of values is a pair of cuts, so that open and closed ends need no case analysis: `x > 5` starts at the
//! cut behind 5, which for integers *is* the cut before 6. Every kind is treated as the discrete set it is, which
//! makes equality, adjacency and coverage exact:
//! - integers and booleans have successors;
//! - a float's successor in totalOrder is the next bit pattern;
//! - a string's successor in byte order is the string with a zero byte appended.
//!
//! Floats and strings remember the value they were given, so that `x < 5.0` is not shown as
//! `x <= 4.999999999999999`. Cuts borrow strings and are never stored.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crate::Scalar;
use crate::scalar::total_order_key;

/// A place in the order of one kind's values. All cuts that are compared are of one kind, or an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut<'a> {
    /// Before every value.
    Min,
    /// Between false and true.
    BeforeTrue,
    /// Before this integer, which is not the least `i128`.
    BeforeInt(i128),
    /// Beside this float.
    Float { value: f64, after: bool },
    /// Beside this string.
    Text { text: &'a Arc<str>, after: bool },
    /// Behind every value.
    Max,
}

/// A range of values: from the first cut to the second. Empty unless the first lies before the second.
pub(crate) type Range<'a> = (Cut<'a>, Cut<'a>);

impl<'a> Cut<'a> {
    /// The cut on the near side of `value` (`after == false`) or on its far side.
    pub(crate) fn beside(value: &'a Scalar, after: bool) -> Self {
        match value {
            Scalar::Boolean(value) => match u8::from(*value) + u8::from(after) {
                0 => Self::Min,
                1 => Self::BeforeTrue,
                _ => Self::Max,
            },
            Scalar::Int(value) if after => value.checked_add(1).map_or(Self::Max, Self::BeforeInt),
            Scalar::Int(i128::MIN) => Self::Min,
            Scalar::Int(value) => Self::BeforeInt(*value),
            Scalar::Float(value) => match (total_order_key(*value), after) {
                (i64::MIN, false) => Self::Min,
                (i64::MAX, true) => Self::Max,
                _ => Self::Float { value: *value, after },
            },
            Scalar::Utf8(text) if text.is_empty() && !after => Self::Min,
            Scalar::Utf8(text) => Self::Text { text, after },
        }
    }

    /// Where a range with this lower bound starts.
    pub(crate) fn low(bound: &'a Bound<Scalar>) -> Self {
        match bound {
            Bound::Unbounded => Self::Min,
            Bound::Included(value) => Self::beside(value, false),
            Bound::Excluded(value) => Self::beside(value, true),
        }
    }

    /// Where a range with this upper bound ends.
    pub(crate) fn high(bound: &'a Bound<Scalar>) -> Self {
        match bound {
            Bound::Unbounded => Self::Max,
            Bound::Included(value) => Self::beside(value, true),
            Bound::Excluded(value) => Self::beside(value, false),
        }
    }

    /// The lower bound of a range that starts here.
    pub(crate) fn to_low(self) -> Bound<Scalar> {
        match self {
            Self::Min => Bound::Unbounded,
            Self::BeforeTrue => Bound::Included(Scalar::Boolean(true)),
            Self::BeforeInt(value) => Bound::Included(Scalar::Int(value)),
            Self::Float { value, after: false } => Bound::Included(Scalar::Float(value)),
            Self::Float { value, after: true } => Bound::Excluded(Scalar::Float(value)),
            Self::Text { text, after: false } => Bound::Included(Scalar::Utf8(Arc::clone(text))),
            Self::Text { text, after: true } => Bound::Excluded(Scalar::Utf8(Arc::clone(text))),
            // No range of a domain starts behind every value; a bound that no value passes stands for it.
            Self::Max => Bound::Excluded(Scalar::Int(i128::MAX)),
        }
    }

    /// The upper bound of a range that ends here.
    pub(crate) fn to_high(self) -> Bound<Scalar> {
        match self {
            Self::Max => Bound::Unbounded,
            Self::BeforeTrue => Bound::Included(Scalar::Boolean(false)),
            Self::BeforeInt(value) => Bound::Included(Scalar::Int(value - 1)),
            Self::Float { value, after: true } => Bound::Included(Scalar::Float(value)),
            Self::Float { value, after: false } => Bound::Excluded(Scalar::Float(value)),
            Self::Text { text, after: true } => Bound::Included(Scalar::Utf8(Arc::clone(text))),
            Self::Text { text, after: false } => Bound::Excluded(Scalar::Utf8(Arc::clone(text))),
            // As above: no range of a domain ends before every value.
            Self::Min => Bound::Excluded(Scalar::Int(i128::MIN)),
        }
    }

    /// For numbers, how many values of the kind lie before this cut, up to a constant: the key of the value
    /// right behind it. `None` for strings and booleans; the ends have the extreme keys.
    pub(crate) fn numeric_key(self) -> Option<i128> {
        match self {
            Self::Min => Some(i128::MIN),
            Self::Max => Some(i128::MAX),
            Self::BeforeInt(value) => Some(value),
            Self::Float { value, after } => Some(i128::from(total_order_key(value)) + i128::from(after)),
            Self::BeforeTrue | Self::Text { .. } => None,
        }
    }

    /// About where this cut lies among numbers; `None` for an end, strings and booleans.
    pub(crate) fn position(self) -> Option<f64> {
        match self {
            Self::BeforeInt(value) => Some(value as f64),
            Self::Float { value, .. } => Some(value),
            Self::Min | Self::Max | Self::BeforeTrue | Self::Text { .. } => None,
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Min => 0,
            Self::BeforeTrue => 1,
            Self::BeforeInt(_) => 2,
            Self::Float { .. } => 3,
            Self::Text { .. } => 4,
            Self::Max => 5,
        }
    }
}

/// Compares `a` followed by a zero byte with `b`.
fn compare_successor(a: &str, b: &str) -> Ordering {
    match b.as_bytes().strip_prefix(a.as_bytes()) {
        None => a.cmp(b),
        Some(rest) => [0].as_slice().cmp(rest),
    }
}

impl Ord for Cut<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::BeforeInt(a), Self::BeforeInt(b)) => a.cmp(&b),
            (Self::Float { .. }, Self::Float { .. }) => self.numeric_key().cmp(&other.numeric_key()),
            (Self::Text { text: a, after: x }, Self::Text { text: b, after: y }) => match (x, y) {
                (false, false) | (true, true) => a.cmp(b),
                (true, false) => compare_successor(a, b),
                (false, true) => compare_successor(b, a).reverse(),
            },
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Cut<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cut<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cut<'_> {}

impl Hash for Cut<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.rank());
        match *self {
            Self::Text { text, after } => {
                // Equal cuts may be written as `text\0` or as behind `text`: hash the bytes both stand for.
                state.write(text.as_bytes());
                if after {
                    state.write(&[0]);
                }
                state.write_u8(0xff);
            }
            _ => self.numeric_key().hash(state),
        }
    }
}
