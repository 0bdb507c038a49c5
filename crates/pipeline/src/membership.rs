//! Sets of whole numbers or codes, compiled from domains into what kernels can test.
//!
//! **Owns**: the choice between a range, several ranges and a bitmap; the translation from texts to the codes of a
//! sorted dictionary. **Does not own**: NULLs (whoever asks looks at validity first).
//!
//! **Invariants**: ranges are sorted, do not touch and have both ends inside.
//!
//! **Concurrency**: plain values.

use std::ops::Bound;

use thermocline_predicate::{Domain, Scalar};

/// Longest bitmap that is made for a set, in bits: it has to stay in the first-level cache beside a mini-block.
const MAX_SET_BITS: i128 = 1 << 16;
/// Ranges that are tested one after another; of more a bitmap is made where it is not too long.
const FEW_RANGES: usize = 2;

/// A set of 64-bit numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Membership {
    Never,
    /// From the first to the second.
    Range(i64, i64),
    /// Several of these.
    Ranges(Vec<(i64, i64)>),
    /// `base` plus the place of each set bit.
    Set {
        base: i64,
        bits: Vec<u64>,
    },
}

impl Membership {
    /// The ordinals of a domain's numbers that are less than them by `bias`, as far as 64 bits hold them.
    pub(crate) fn of_numbers(domain: &Domain, bias: i128) -> Self {
        let clip = |(low, high): (i128, i128)| {
            let (low, high) = (low.saturating_sub(bias), high.saturating_sub(bias));
            let (low, high) = (low.max(i64::MIN.into()), high.min(i64::MAX.into()));
            (low <= high).then_some((low as i64, high as i64))
        };
        Self::of_ranges(domain.intervals().iter().filter_map(|interval| clip(interval.numeric_key()?)).collect())
    }

    /// 0 and 1, as a domain has false and true.
    pub(crate) fn of_booleans(domain: &Domain) -> Self {
        match [false, true].map(|value| domain.contains_bool(value)) {
            [false, false] => Self::Never,
            [no, yes] => Self::Range(i64::from(!no), i64::from(yes)),
        }
    }

    /// The codes of a sorted dictionary of `entry_count` texts that are in a domain. `code_of` finds a text's code, or
    /// else the code of the first text behind it.
    pub(crate) fn of_codes(
        domain: &Domain,
        entry_count: usize,
        code_of: impl Fn(&[u8]) -> Result<usize, usize>,
    ) -> Self {
        let place = |text: &Scalar, behind: bool| match text {
            Scalar::Utf8(text) => match code_of(text.as_bytes()) {
                Ok(code) => code + usize::from(behind),
                Err(next) => next,
            },
            _ => entry_count,
        };
        let ranges = domain.intervals().iter().filter_map(|interval| {
            let start = match &interval.low {
                Bound::Unbounded => 0,
                Bound::Included(text) => place(text, false),
                Bound::Excluded(text) => place(text, true),
            };
            let end = match &interval.high {
                Bound::Unbounded => entry_count,
                Bound::Included(text) => place(text, true),
                Bound::Excluded(text) => place(text, false),
            };
            (start < end).then(|| (start as i64, end as i64 - 1))
        });
        Self::of_ranges(ranges.collect())
    }

    /// The places below `count` that a test finds.
    pub(crate) fn of_places(count: usize, test: impl Fn(usize) -> bool) -> Self {
        // Without a branch for each: which places it finds is hardly ever to be guessed.
        let word = |start: usize| {
            (start..count.min(start + 64)).fold(0, |bits, place| bits | u64::from(test(place)) << (place % 64))
        };
        let bits: Vec<u64> = (0..count).step_by(64).map(word).collect();
        if bits.iter().all(|word| *word == 0) { Self::Never } else { Self::Set { base: 0, bits } }
    }

    /// Sorted ranges that do not overlap.
    fn of_ranges(ranges: Vec<(i64, i64)>) -> Self {
        let (Some((least, _)), Some((_, greatest))) = (ranges.first().copied(), ranges.last().copied()) else {
            return Self::Never;
        };
        if let [(low, high)] = ranges[..] {
            return Self::Range(low, high);
        }
        let span = i128::from(greatest) - i128::from(least) + 1;
        if ranges.len() <= FEW_RANGES || span > MAX_SET_BITS {
            return Self::Ranges(ranges);
        }
        let mut bits = vec![0u64; (span as usize).div_ceil(64)];
        for (low, high) in ranges {
            for place in (low - least) as usize..=(high - least) as usize {
                bits[place / 64] |= 1 << (place % 64);
            }
        }
        Self::Set { base: least, bits }
    }

    /// Whether a number is in the set.
    #[inline]
    pub(crate) fn contains(&self, value: i64) -> bool {
        match self {
            Self::Never => false,
            Self::Range(low, high) => *low <= value && value <= *high,
            Self::Ranges(ranges) => {
                let at = ranges.partition_point(|(_, high)| *high < value);
                ranges.get(at).is_some_and(|(low, _)| *low <= value)
            }
            Self::Set { base, bits } => {
                let place = value.wrapping_sub(*base) as u64;
                bits.get((place >> 6) as usize).is_some_and(|word| word >> (place & 63) & 1 != 0)
            }
        }
    }

    /// Whether a number from `low` to `high` may be in the set; false only if none is.
    pub(crate) fn may_meet(&self, low: i64, high: i64) -> bool {
        match self {
            Self::Never => false,
            Self::Range(from, to) => *from <= high && low <= *to,
            Self::Ranges(ranges) => ranges.iter().any(|(from, to)| *from <= high && low <= *to),
            Self::Set { base, bits } => *base <= high && i128::from(low) < i128::from(*base) + bits.len() as i128 * 64,
        }
    }

    /// Whether all numbers from `low` to `high` are in one range of the set.
    pub(crate) fn covers(&self, low: i64, high: i64) -> bool {
        match self {
            Self::Range(from, to) => *from <= low && high <= *to,
            Self::Ranges(ranges) => ranges.iter().any(|(from, to)| *from <= low && high <= *to),
            Self::Never | Self::Set { .. } => false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn ints(values: &[i128]) -> Domain {
        Domain::points(values.iter().map(|value| Scalar::Int(*value)))
    }

    #[test]
    fn a_set_contains_what_its_domain_does_however_it_is_kept() {
        let far = [i64::MIN.into(), -5, 70_000, i64::MAX.into(), i128::MAX];
        for domain in [Domain::none(), Domain::not_null(), ints(&[3]), ints(&[1, 5, 9, 100]), ints(&far)] {
            let set = Membership::of_numbers(&domain, 0);
            for value in [i64::MIN, -6, -5, 0, 1, 2, 3, 5, 9, 63, 99, 100, 101, 70_000, i64::MAX] {
                assert_eq!(set.contains(value), domain.contains_int(value.into()), "{value} in {set:?}");
                assert!(set.may_meet(value, value) || !set.contains(value), "{value} in {set:?}");
                assert!(!set.covers(value, value) || set.contains(value), "{value} in {set:?}");
            }
        }
        assert!(matches!(Membership::of_numbers(&ints(&[1, 5, 9]), 0), Membership::Set { .. }));
        assert!(matches!(Membership::of_numbers(&ints(&far), 0), Membership::Ranges(_)));
    }

    #[test]
    fn texts_become_the_codes_of_a_sorted_dictionary() {
        let entries = ["", "ASIA", "EUROPE", "EUROPEAN"];
        let code_of = |text: &[u8]| entries.binary_search_by(|entry| entry.as_bytes().cmp(text));
        let text = |text: &str| Scalar::from(text);
        let domains = [
            Domain::not_null(),
            Domain::point(text("ASIA")),
            Domain::point(text("AFRICA")),
            Domain::points([text(""), text("EUROPE")]),
            Domain::prefix("EUR"),
            Domain::interval(Bound::Excluded(text("ASIA")), Bound::Excluded(text("EUROPEAN"))),
            Domain::points([text("ASIA")]).complement(),
        ];
        for domain in domains {
            let set = Membership::of_codes(&domain, entries.len(), code_of);
            for (code, entry) in entries.iter().enumerate() {
                assert_eq!(set.contains(code as i64), domain.contains_str(entry), "{entry:?} in {set:?}");
            }
        }
    }
}
