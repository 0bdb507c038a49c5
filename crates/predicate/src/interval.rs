//! A contiguous range of values of one kind.

use std::hash::{Hash, Hasher};
use std::ops::Bound;

use crate::cut::{Cut, Range};
use crate::{Scalar, ScalarKind};

/// A contiguous range of non-NULL values. Both ends unbounded means every value of whatever kind the field has.
///
/// Equal when the same values lie in it: `(5, 9)` equals `[6, 8]` for integers.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The lower end.
    pub low: Bound<Scalar>,
    /// The upper end.
    pub high: Bound<Scalar>,
}

impl Interval {
    /// Order-preserving keys of the least and the greatest value inside, openness folded in, for spatial indexes:
    /// interval `a` covers `b`, both of the same kind, exactly if `a`'s low key is at most `b`'s and its high key
    /// at least `b`'s. An unbounded end has the extreme key. Exact: integers are never rounded through a float.
    ///
    /// `None` for booleans and strings, and if nothing lies inside. Costs a few instructions.
    ///
    /// ```
    /// use std::ops::Bound::{Excluded, Included, Unbounded};
    /// use thermocline_predicate::{Interval, Scalar};
    /// let interval = Interval { low: Excluded(Scalar::Int(5)), high: Included(Scalar::Int(9)) };
    /// assert_eq!(interval.numeric_key(), Some((6, 9)));
    /// let half = Interval { low: Unbounded, high: Included(Scalar::Int(9)) };
    /// assert_eq!(half.numeric_key(), Some((i128::MIN, 9)));
    /// ```
    pub fn numeric_key(&self) -> Option<(i128, i128)> {
        let (low, high) = self.range();
        if low >= high {
            return None;
        }
        let high_key = if high == Cut::Max { i128::MAX } else { high.numeric_key()? - 1 };
        Some((low.numeric_key()?, high_key))
    }

    /// The kind of the bounds; `None` if both ends are unbounded.
    pub fn kind(&self) -> Option<ScalarKind> {
        bound_value(&self.low).or(bound_value(&self.high)).map(Scalar::kind)
    }

    /// The value, if there is exactly one inside.
    ///
    /// Only intervals written as `[v, v]` are recognised, which is how a [`crate::Domain`] keeps points.
    pub fn as_point(&self) -> Option<&Scalar> {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => Some(low),
            _ => None,
        }
    }

    pub(crate) fn range(&self) -> Range<'_> {
        (Cut::low(&self.low), Cut::high(&self.high))
    }

    pub(crate) fn from_range((low, high): Range<'_>) -> Self {
        match (low, high) {
            // Booleans are kept as points, so that neither end of {false} is unbounded.
            (Cut::Min, Cut::BeforeTrue) => Self::point(Scalar::Boolean(false)),
            (Cut::BeforeTrue, Cut::Max) => Self::point(Scalar::Boolean(true)),
            _ => Self { low: low.to_low(), high: high.to_high() },
        }
    }

    fn point(value: Scalar) -> Self {
        Self { low: Bound::Included(value.clone()), high: Bound::Included(value) }
    }
}

/// The value of a bound, unless it is unbounded.
pub(crate) fn bound_value(bound: &Bound<Scalar>) -> Option<&Scalar> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.range() == other.range()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.range().hash(state);
    }
}
