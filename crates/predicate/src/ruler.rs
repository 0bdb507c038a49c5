//! The ends of several domains of one field in order, and the domains as spans between them.
//!
//! **Owns**: the exact way from sets of values to whole numbers and back, for algorithms that only need to know how
//! ends lie to each other. **Does not own**: any choice between the domains. No end is ever rounded: a span's number is
//! its rank.
//!
//! NULL has a span of its own, right behind the greatest value.

use std::ops::Range;

use crate::cut::{Cut, Range as ValueRange};
use crate::domain::coalesce;
use crate::{Domain, ScalarKind};

/// Where some domains begin and end. Between two neighbouring marks none of them does, so that each has all of the
/// values there or none.
///
/// ```
/// use std::ops::Bound::{Excluded, Included};
/// use thermocline_predicate::{Domain, Ruler, Scalar};
/// let range = |low, high| Domain::interval(Included(Scalar::Int(low)), Excluded(Scalar::Int(high)));
/// let (one, other) = (range(0, 10), range(5, 20).union(&Domain::null()));
/// let ruler = Ruler::of([&one, &other]).unwrap();
/// // Marks at 0, 5, 10 and 20.
/// assert_eq!(ruler.spans(&one), [0..2]);
/// assert_eq!(ruler.spans(&other), [1..4]);
/// assert_eq!(ruler.domain([2..3]), range(10, 20));
/// assert_eq!(ruler.domain([3..4]), Domain::null());
/// ```
#[derive(Debug)]
pub struct Ruler<'a> {
    /// Ascending, each once.
    marks: Vec<Cut<'a>>,
}

impl<'a> Ruler<'a> {
    /// The ends of `domains`. `None` if they are of different kinds.
    pub fn of(domains: impl IntoIterator<Item = &'a Domain>) -> Option<Self> {
        let mut kind: Option<ScalarKind> = None;
        let mut marks = Vec::new();
        for domain in domains {
            if kind.zip(domain.kind()).is_some_and(|(one, other)| one != other) {
                return None;
            }
            kind = kind.or(domain.kind());
            marks.extend(domain.ranges().into_iter().flat_map(|(low, high)| [low, high]));
        }
        marks.sort_unstable();
        marks.dedup();
        Some(Self { marks })
    }

    /// The number of NULL's span; those before are of values.
    pub fn null_span(&self) -> usize {
        self.marks.len().saturating_sub(1)
    }

    /// The spans of one of the domains that the ruler is of, in ascending order; spans of values and of NULL that touch
    /// are not joined.
    pub fn spans(&self, domain: &Domain) -> Vec<Range<usize>> {
        let place = |cut: Cut<'_>| self.marks.partition_point(|mark| *mark < cut);
        let mut spans: Vec<Range<usize>> =
            domain.ranges().into_iter().map(|(low, high)| place(low)..place(high)).collect();
        if domain.admits_null() {
            let null = self.null_span();
            match spans.last_mut() {
                Some(last) if last.end == null => last.end = null + 1,
                _ => spans.push(null..null + 1),
            }
        }
        spans
    }

    /// The values in these spans, in any order; numbers behind NULL's mean nothing.
    pub fn domain(&self, spans: impl IntoIterator<Item = Range<usize>>) -> Domain {
        let null = self.null_span();
        let mut admits_null = false;
        let mut ranges: Vec<ValueRange<'_>> = Vec::new();
        for span in spans {
            admits_null |= span.contains(&null);
            let end = span.end.min(null);
            if span.start < end {
                ranges.push((self.marks[span.start], self.marks[end]));
            }
        }
        ranges.sort_unstable();
        Domain::from_ranges(admits_null, &coalesce(ranges))
    }

    /// Where the marks lie, and last the end of NULL's span: **estimates**, for guessing what share of the values is in
    /// a span. Numbers lie where they are, about; an open end as far out as all other marks lie apart; NULL is as wide
    /// as a span of values is on average. Where marks are no finite numbers all spans are equally wide. Ascending; one
    /// more than there are spans.
    pub fn positions(&self) -> Vec<f64> {
        let is_end = |mark: &Cut<'_>| matches!(mark, Cut::Min | Cut::Max);
        let inner = self.marks.iter().filter(|mark| !is_end(mark));
        let inner: Option<Vec<f64>> =
            inner.map(|mark| mark.position().filter(|position| position.is_finite())).collect();
        let mut positions = match inner.as_deref() {
            Some([first, .., last]) if last - first > 0.0 && (last - first).is_finite() => {
                let width = last - first;
                let (low, high) = (self.marks.first() == Some(&Cut::Min), self.marks.last() == Some(&Cut::Max));
                let before = low.then_some(first - width);
                let behind = high.then_some(last + width);
                before.into_iter().chain(inner.iter().flatten().copied()).chain(behind).collect()
            }
            _ => (0..self.marks.len().max(1)).map(|rank| rank as f64).collect::<Vec<f64>>(),
        };
        let (first, last) = (positions.first().copied().unwrap_or(0.0), positions.last().copied().unwrap_or(0.0));
        let mean = if self.null_span() == 0 { 1.0 } else { (last - first) / self.null_span() as f64 };
        positions.push(last + mean);
        positions
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::single_range_in_vec_init)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;
    use crate::Scalar;
    use crate::generator::{Universe, random_set};

    #[test]
    fn spans_say_of_every_value_whether_it_is_in_the_domain_and_lead_back_to_it() {
        for universe in Universe::every() {
            for seed in 0..300 {
                let mut random = Random::new(seed);
                let count = 1 + random.below(5);
                let domains: Vec<Domain> = (0..count).map(|_| random_set(&mut random, &universe, 2).0).collect();
                let ruler = Ruler::of(&domains).unwrap();
                let positions = ruler.positions();
                assert_eq!(positions.len(), ruler.null_span() + 2, "seed {seed}");
                assert!(positions.is_sorted(), "seed {seed}: {positions:?}");
                for domain in &domains {
                    let spans = ruler.spans(domain);
                    assert_eq!(&ruler.domain(spans.iter().rev().cloned()), domain, "seed {seed}: {domain:?}");
                    // Each span alone is in the domain or has nothing of it, as its number says.
                    for span in 0..=ruler.null_span() {
                        let alone = ruler.domain([span..span + 1]);
                        let is_in = spans.iter().any(|spans| spans.contains(&span));
                        assert!(!alone.is_empty(), "seed {seed}");
                        assert_eq!(domain.covers(&alone), is_in, "seed {seed}: span {span} of {domain:?}");
                        assert_eq!(domain.intersect(&alone).is_empty(), !is_in, "seed {seed}: span {span}");
                    }
                }
            }
        }
    }

    #[test]
    fn domains_of_different_kinds_have_no_common_order() {
        let one = Domain::point(Scalar::Int(1));
        assert!(Ruler::of([&one, &Domain::point(Scalar::Float(1.0))]).is_none());
        assert!(Ruler::of([&Domain::all(), &one, &Domain::null()]).is_some());
        assert_eq!(Ruler::of([&Domain::null()]).unwrap().spans(&Domain::null()), [Range { start: 0, end: 1 }]);
        assert!(Ruler::of([]).unwrap().spans(&Domain::none()).is_empty());
    }

    #[test]
    fn positions_of_numbers_tell_how_wide_spans_are() {
        let at = |value: i128| std::ops::Bound::Included(Scalar::Int(value));
        let (low, high) = (Domain::interval(at(0), at(9)), Domain::interval(at(100), std::ops::Bound::Unbounded));
        assert_eq!(Ruler::of([&low, &high]).unwrap().positions(), [0.0, 10.0, 100.0, 200.0, 200.0 + 200.0 / 3.0]);
        let text = |text: &str| Domain::point(Scalar::Utf8(text.into()));
        assert_eq!(Ruler::of([&text("a"), &text("z")]).unwrap().positions(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        let far = Domain::interval(std::ops::Bound::Unbounded, std::ops::Bound::Included(Scalar::Float(f64::INFINITY)));
        assert_eq!(Ruler::of([&far]).unwrap().positions(), [0.0, 1.0, 2.0]);
        assert_eq!(Ruler::of([&Domain::null()]).unwrap().positions(), [0.0, 1.0]);
    }
}
