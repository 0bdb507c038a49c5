//! The set of values a field may take, NULL included: the set algebra.
//!
//! Intervals are canonical (see the crate's invariants). Beside them a domain keeps its *shape*: the same set as
//! plain numbers, so that the scanners' per-row questions cost two comparisons and never look at a [`Bound`].

mod display;
mod evaluate;
mod registers;
mod shape;
mod span;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use std::hash::{Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crate::cut::{Cut, Range};
use crate::interval::bound_value;
use crate::scalar::total_order_key;
use crate::{Interval, Scalar, ScalarKind};
use shape::Shape;
pub use span::Span;

/// Set of values a field may take: sorted disjoint intervals, and whether NULL is admitted.
///
/// Canonical: sets of the same kind that admit the same values are equal and hash alike. A set that admits every
/// value of its kind is the interval without bounds, whatever the kind. Cloning bumps reference counts.
///
/// All bounds of a set are of one kind, and so are both operands of an operation: a field has one type. Should a
/// plan break that rule, no value is in two kinds: intersections are empty, nothing covers the other, and a union
/// admits everything that isn't NULL.
///
/// ```
/// use std::ops::Bound::{Excluded, Included, Unbounded};
/// use thermocline_predicate::{Domain, Scalar};
/// let asked = Domain::interval(Included(Scalar::Int(3)), Excluded(Scalar::Int(7)));
/// let cached = Domain::interval(Included(Scalar::Int(0)), Unbounded);
/// assert!(cached.covers(&asked));
/// assert!(asked.contains_int(6) && !asked.contains_int(7));
/// assert!(!asked.admits_null());
/// ```
#[derive(Clone, Debug)]
pub struct Domain {
    admits_null: bool,
    intervals: Arc<[Interval]>,
    shape: Shape,
}

impl Domain {
    /// Every value and NULL: no constraint.
    pub fn all() -> Self {
        Self::from_ranges(true, &[(Cut::Min, Cut::Max)])
    }

    /// Every value: `IS NOT NULL`.
    pub fn not_null() -> Self {
        Self::from_ranges(false, &[(Cut::Min, Cut::Max)])
    }

    /// Only NULL: `IS NULL`.
    pub fn null() -> Self {
        Self::from_ranges(true, &[])
    }

    /// Nothing: a contradiction.
    pub fn none() -> Self {
        Self::from_ranges(false, &[])
    }

    /// The values between two bounds of one kind; not NULL. Empty if they cross or differ in kind.
    pub fn interval(low: Bound<Scalar>, high: Bound<Scalar>) -> Self {
        let kinds = bound_value(&low).map(Scalar::kind).zip(bound_value(&high).map(Scalar::kind));
        if kinds.is_some_and(|(low, high)| low != high) {
            return Self::none();
        }
        Self::from_ranges(false, &[(Cut::low(&low), Cut::high(&high))])
    }

    /// One value: `= value`.
    pub fn point(value: Scalar) -> Self {
        Self::points([value])
    }

    /// These values: `IN (…)` with a list without NULL. Any order; repetitions count once.
    pub fn points(values: impl IntoIterator<Item = Scalar>) -> Self {
        let mut values: Vec<Scalar> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        if let (Some(first), Some(last)) = (values.first(), values.last())
            && first.kind() != last.kind()
        {
            return Self::not_null();
        }
        let ranges: Vec<Range<'_>> =
            values.iter().map(|value| (Cut::beside(value, false), Cut::beside(value, true))).collect();
        Self::from_ranges(false, &coalesce(ranges))
    }

    /// The strings that begin with `prefix`: `LIKE 'prefix%'`. Everything but NULL for an empty one.
    ///
    /// ```
    /// use thermocline_predicate::{Domain, Scalar};
    /// let asked = Domain::prefix("ab");
    /// assert!(asked.contains(Some(&Scalar::from("abc"))) && !asked.contains(Some(&Scalar::from("ac"))));
    /// assert!(Domain::prefix("a").covers(&asked));
    /// ```
    pub fn prefix(prefix: &str) -> Self {
        if prefix.is_empty() {
            return Self::not_null();
        }
        // Strings are in the order of their code points. The least one behind all that begin with the prefix is the
        // prefix with its last code point raised, cut short where that is the last there is; `char` steps over the
        // surrogates.
        let raised = prefix
            .char_indices()
            .rev()
            .find_map(|(at, last)| (last..=char::MAX).nth(1).map(|next| format!("{}{next}", &prefix[..at])));
        let high = raised.map_or(Bound::Unbounded, |next| Bound::Excluded(Scalar::from(next.as_str())));
        Self::interval(Bound::Included(Scalar::from(prefix)), high)
    }

    /// The values that are not in this set, without NULL whether or not this set admits it: in SQL, `NOT (x IN S)`
    /// is never true of NULL.
    #[must_use]
    pub fn complement(&self) -> Self {
        Self::from_ranges(false, &gaps(&self.ranges()))
    }

    /// The values in both sets; NULL if both admit it.
    #[must_use]
    pub fn intersect(&self, other: &Domain) -> Domain {
        let admits_null = self.admits_null && other.admits_null;
        if self.differs_in_kind(other) {
            return Self::from_ranges(admits_null, &[]);
        }
        Self::from_ranges(admits_null, &overlap(&self.ranges(), &other.ranges()))
    }

    /// The values in either set; NULL if either admits it.
    #[must_use]
    pub fn union(&self, other: &Domain) -> Domain {
        let admits_null = self.admits_null || other.admits_null;
        if self.differs_in_kind(other) {
            return Self::from_ranges(admits_null, &[(Cut::Min, Cut::Max)]);
        }
        let mut ranges = self.ranges();
        ranges.extend(other.ranges());
        ranges.sort_unstable();
        Self::from_ranges(admits_null, &coalesce(ranges))
    }

    /// What is in this set and not in the other: the part of a query that an item leaves open.
    #[must_use]
    pub fn subtract(&self, other: &Domain) -> Domain {
        let admits_null = self.admits_null && !other.admits_null;
        if self.differs_in_kind(other) {
            return Self::from_ranges(admits_null, &self.ranges());
        }
        Self::from_ranges(admits_null, &overlap(&self.ranges(), &gaps(&other.ranges())))
    }

    /// Whether everything in `narrower` is in this set. Allocates nothing.
    pub fn covers(&self, narrower: &Domain) -> bool {
        if narrower.admits_null && !self.admits_null {
            return false;
        }
        if narrower.intervals.is_empty() {
            return true;
        }
        if self.differs_in_kind(narrower) {
            return false;
        }
        // A contiguous interval lies within one of ours or isn't covered: ours do not touch each other.
        let mut rest = self.intervals.iter().map(Interval::range);
        let mut candidate = rest.next();
        narrower.intervals.iter().map(Interval::range).all(|(low, high)| {
            while candidate.is_some_and(|(_, end)| end <= low) {
                candidate = rest.next();
            }
            candidate.is_some_and(|(start, end)| start <= low && high <= end)
        })
    }

    /// Whether any value, or NULL, is in both sets. Allocates nothing; looks at each interval once at most.
    pub fn overlaps(&self, other: &Domain) -> bool {
        if self.admits_null && other.admits_null {
            return true;
        }
        if self.differs_in_kind(other) {
            return false;
        }
        let mut own = self.intervals.iter().map(Interval::range).peekable();
        let mut others = other.intervals.iter().map(Interval::range).peekable();
        while let (Some(&(low, high)), Some(&(other_low, other_high))) = (own.peek(), others.peek()) {
            if low.max(other_low) < high.min(other_high) {
                return true;
            }
            if high <= other_high {
                own.next();
            } else {
                others.next();
            }
        }
        false
    }

    /// A set that selects the same as this one among values known to lie in `known`, with as few bounds as is
    /// easily found: an outer bound that `known` already ensures is dropped.
    ///
    /// `result.intersect(known) == self.intersect(known)`; never narrower than this set.
    #[must_use]
    pub fn simplify_within(&self, known: &Domain) -> Domain {
        if self.covers(known) {
            return Self::all();
        }
        let (Some((known_low, known_high)), Some((own_low, own_high))) = (known.hull(), self.hull()) else {
            return self.clone();
        };
        if self.differs_in_kind(known) || (own_low > known_low && own_high < known_high) {
            return self.clone();
        }
        let mut ranges = self.ranges();
        if own_low <= known_low
            && let Some(first) = ranges.first_mut()
        {
            first.0 = Cut::Min;
        }
        if own_high >= known_high
            && let Some(last) = ranges.last_mut()
        {
            last.1 = Cut::Max;
        }
        Self::from_ranges(self.admits_null, &ranges)
    }

    /// Whether this is no constraint at all.
    pub fn is_all(&self) -> bool {
        self.admits_null && matches!(self.shape, Shape::Everything)
    }

    /// Whether not even NULL is admitted.
    pub fn is_empty(&self) -> bool {
        !self.admits_null && self.intervals.is_empty()
    }

    /// Whether NULL is in the set.
    pub fn admits_null(&self) -> bool {
        self.admits_null
    }

    /// The values, sorted, disjoint, not adjacent.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// The kind of the bounds; `None` if there is no bound.
    pub fn kind(&self) -> Option<ScalarKind> {
        self.shape.kind()
    }

    /// Whether the value, or NULL for `None`, is in the set. A value of another kind is not, unless every value is.
    pub fn contains(&self, value: Option<&Scalar>) -> bool {
        match value {
            None => self.admits_null,
            Some(Scalar::Boolean(value)) => self.contains_bool(*value),
            Some(Scalar::Int(value)) => self.contains_int(*value),
            Some(Scalar::Float(value)) => self.contains_float(*value),
            Some(Scalar::Utf8(value)) => self.contains_str(value),
        }
    }

    /// Whether this integer (or date, timestamp, unscaled decimal) is in the set. Two comparisons for a range, a
    /// binary search for more; no allocation.
    #[inline]
    pub fn contains_int(&self, value: i128) -> bool {
        match &self.shape {
            Shape::Everything => true,
            Shape::Int(low, high) => *low <= value && value <= *high,
            Shape::Ints(ranges) => shape::search(ranges, value),
            _ => false,
        }
    }

    /// Whether this float is in the set, by totalOrder. Costs as [`Self::contains_int`].
    #[inline]
    pub fn contains_float(&self, value: f64) -> bool {
        match &self.shape {
            Shape::Everything => true,
            Shape::Float(low, high) => {
                let key = total_order_key(value);
                *low <= key && key <= *high
            }
            Shape::Floats(ranges) => shape::search(ranges, total_order_key(value)),
            _ => false,
        }
    }

    /// Whether this string is in the set. Two comparisons for a range, a binary search for more; no allocation.
    #[inline]
    pub fn contains_str(&self, value: &str) -> bool {
        self.contains_text(value.as_bytes())
    }

    /// The same of a string's bytes.
    #[inline]
    pub fn contains_text(&self, value: &[u8]) -> bool {
        match &self.shape {
            Shape::Everything => true,
            Shape::Text => self.intervals.first().is_some_and(|interval| shape::text_within(interval, value)),
            Shape::Texts => {
                let at = self.intervals.partition_point(|interval| shape::text_ends_before(interval, value));
                self.intervals.get(at).is_some_and(|interval| shape::text_within(interval, value))
            }
            _ => false,
        }
    }

    /// Whether this truth value is in the set.
    #[inline]
    pub fn contains_bool(&self, value: bool) -> bool {
        match &self.shape {
            Shape::Everything => true,
            Shape::Boolean(admitted) => *admitted == value,
            _ => false,
        }
    }

    /// The least values of the set, so many intervals of them.
    pub(crate) fn least(&self, interval_count: usize) -> Self {
        let ranges: Vec<Range<'_>> = self.intervals.iter().take(interval_count).map(Interval::range).collect();
        Self::from_ranges(false, &ranges)
    }

    /// Bytes on the heap that this domain refers to.
    pub fn heap_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        let text_bytes = |bound: &Bound<Scalar>| match bound_value(bound) {
            Some(Scalar::Utf8(text)) => COUNTS_BYTES + text.len(),
            _ => 0,
        };
        let texts: usize = self.intervals.iter().map(|i| text_bytes(&i.low) + text_bytes(&i.high)).sum();
        COUNTS_BYTES + size_of_val::<[Interval]>(&self.intervals) + texts + self.shape.heap_bytes()
    }

    fn differs_in_kind(&self, other: &Domain) -> bool {
        self.kind().zip(other.kind()).is_some_and(|(a, b)| a != b)
    }

    pub(crate) fn ranges(&self) -> Vec<Range<'_>> {
        self.intervals.iter().map(Interval::range).collect()
    }

    /// From the least to the greatest value.
    fn hull(&self) -> Option<Range<'_>> {
        self.intervals.first().zip(self.intervals.last()).map(|(first, last)| (first.range().0, last.range().1))
    }

    /// The ranges are sorted and do not touch, except that empty ones are dropped here.
    pub(crate) fn from_ranges(admits_null: bool, ranges: &[Range<'_>]) -> Self {
        let intervals: Arc<[Interval]> =
            ranges.iter().filter(|(low, high)| low < high).map(|&range| Interval::from_range(range)).collect();
        let shape = Shape::of(&intervals);
        Self { admits_null, intervals, shape }
    }
}

/// Merges ranges that overlap or touch. They are sorted and not empty.
pub(crate) fn coalesce(sorted: Vec<Range<'_>>) -> Vec<Range<'_>> {
    let mut merged: Vec<Range<'_>> = Vec::with_capacity(sorted.len());
    for (low, high) in sorted {
        match merged.last_mut() {
            Some(last) if low <= last.1 => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}

/// What lies between sorted ranges and outside them; may hold empty ranges at the ends.
fn gaps<'a>(ranges: &[Range<'a>]) -> Vec<Range<'a>> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut from = Cut::Min;
    for &(low, high) in ranges {
        gaps.push((from, low));
        from = high;
    }
    gaps.push((from, Cut::Max));
    gaps
}

/// Intersection of two sorted lists of ranges; may hold empty ranges.
fn overlap<'a>(mut a: &[Range<'a>], mut b: &[Range<'a>]) -> Vec<Range<'a>> {
    let mut both = Vec::with_capacity(a.len().max(b.len()));
    while let ([(a_low, a_high), a_rest @ ..], [(b_low, b_high), b_rest @ ..]) = (a, b) {
        both.push((*a_low.max(b_low), *a_high.min(b_high)));
        if a_high <= b_high {
            a = a_rest;
        } else {
            b = b_rest;
        }
    }
    both
}

impl PartialEq for Domain {
    fn eq(&self, other: &Self) -> bool {
        self.admits_null == other.admits_null && self.intervals == other.intervals
    }
}

impl Eq for Domain {}

impl Hash for Domain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.admits_null.hash(state);
        self.intervals.hash(state);
    }
}
