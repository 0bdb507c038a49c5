//! A predicate in short: per field the hull of its domain and a digest of its points.
//!
//! Comparing two predicates follows a dozen pointers; comparing their bounds reads one small array. Bounds reject
//! almost every candidate that does not fit, and where all of them are single intervals of numbers they decide.

use std::hash::{DefaultHasher, Hash, Hasher};

use thermocline_predicate::Domain;

use super::hull::hull;

/// Digest of a set that is not only points: it may hold any.
const ANY_POINTS: u64 = u64::MAX;

/// The set of values of one domain, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    /// What a set must accept to cover this one: a bit per point, by hash.
    points: u64,
    /// What this one accepts.
    accepted: u64,
}

impl Digest {
    pub(crate) fn of(domain: &Domain) -> Self {
        let bits = domain.intervals().iter().map(|interval| {
            let mut hasher = DefaultHasher::new();
            interval.as_point()?.hash(&mut hasher);
            Some(1 << (hasher.finish() % 64))
        });
        let points = bits.into_iter().try_fold(0, |digest, bit: Option<u64>| Some(digest | bit?)).unwrap_or(ANY_POINTS);
        // The hull of a single interval of numbers tells more than a digest.
        Self { points, accepted: if is_exact(domain) { ANY_POINTS } else { points } }
    }

    /// Whether the set may cover the other.
    pub(crate) fn may_cover(&self, narrower: &Self) -> bool {
        narrower.points & !self.accepted == 0
    }
}

/// One field's part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    low: i128,
    high: i128,
    digest: Digest,
    /// Number of the field.
    pub(crate) field: u32,
    admits_null: bool,
    /// Whether the bounds tell everything: at most one interval, of numbers.
    is_exact: bool,
}

impl Bounds {
    pub(crate) fn of(field: u32, domain: &Domain) -> Self {
        // An empty hull lies within any other.
        let (low, high) = hull(domain).unwrap_or((i128::MAX, i128::MIN));
        let digest = Digest::of(domain);
        Self { low, high, digest, field, admits_null: domain.admits_null(), is_exact: is_exact(domain) }
    }

    /// Whether this may cover `narrower`; whether it does, if [`Self::is_exact`].
    pub(crate) fn may_cover(&self, narrower: &Self) -> bool {
        self.low <= narrower.low
            && self.high >= narrower.high
            && (self.admits_null || !narrower.admits_null)
            && self.digest.may_cover(&narrower.digest)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }
}

fn is_exact(domain: &Domain) -> bool {
    match domain.intervals() {
        [] => true,
        [interval] => interval.numeric_key().is_some(),
        _ => false,
    }
}
