//! Random domains beside the explicit sets they stand for, for the property tests.
//!
//! The oracle knows nothing of intervals: a set is the list of which *probes* are in it. Probes are chosen so that two
//! sets built from a universe's bounds differ if and only if they differ on some probe: every bound, and the value
//! right behind it, and the least value of all.

use std::ops::Bound;

use thermocline_seeded::Random;

use crate::{Domain, Scalar, ScalarKind};

/// Values of one kind.
#[derive(Debug)]
pub(crate) struct Universe {
    pub(crate) kind: ScalarKind,
    /// What bounds are made of.
    pub(crate) bounds: Vec<Scalar>,
    /// What membership is checked on.
    pub(crate) probes: Vec<Scalar>,
}

impl Universe {
    pub(crate) fn every() -> Vec<Self> {
        vec![Self::booleans(), Self::ints(), Self::extreme_ints(), Self::floats(), Self::strings()]
    }

    pub(crate) fn booleans() -> Self {
        let both = vec![Scalar::Boolean(false), Scalar::Boolean(true)];
        Self { kind: ScalarKind::Boolean, bounds: both.clone(), probes: both }
    }

    pub(crate) fn ints() -> Self {
        Self {
            kind: ScalarKind::Int,
            bounds: (-8..=8).map(Scalar::Int).collect(),
            probes: (-10..=10).map(Scalar::Int).collect(),
        }
    }

    pub(crate) fn extreme_ints() -> Self {
        let mut edges = vec![i128::MIN, i128::MAX, 0];
        for bits in [7, 8, 15, 16, 31, 32, 63, 64] {
            edges.extend([-(1 << bits), 1 << bits]);
        }
        let mut values: Vec<i128> = edges.iter().flat_map(|e| [e.saturating_sub(1), *e, e.saturating_add(1)]).collect();
        values.sort_unstable();
        values.dedup();
        let mut probes: Vec<i128> =
            values.iter().flat_map(|v| [v.saturating_sub(1), *v, v.saturating_add(1)]).collect();
        probes.sort_unstable();
        probes.dedup();
        Self {
            kind: ScalarKind::Int,
            bounds: values.into_iter().map(Scalar::Int).collect(),
            probes: probes.into_iter().map(Scalar::Int).collect(),
        }
    }

    pub(crate) fn floats() -> Self {
        let positive = [0.0, 5e-324, 0.1, 1.0, 1.0_f64.next_up(), 1.5, f64::MAX, f64::INFINITY, f64::NAN];
        let ends = [f64::from_bits(u64::MAX), f64::from_bits(u64::MAX >> 1)];
        let bounds: Vec<f64> = positive.iter().flat_map(|&v| [v, -v]).chain(ends).collect();
        let mut probes: Vec<f64> = bounds.iter().flat_map(|&v| [v, next_in_total_order(v), v / 2.0 + 0.3]).collect();
        probes.sort_by(f64::total_cmp);
        probes.dedup_by_key(|v| v.to_bits());
        Self {
            kind: ScalarKind::Float,
            bounds: bounds.into_iter().map(Scalar::Float).collect(),
            probes: probes.into_iter().map(Scalar::Float).collect(),
        }
    }

    pub(crate) fn strings() -> Self {
        let words = |longest: usize| {
            let mut words = vec![String::new()];
            let mut from = 0;
            for _ in 0..longest {
                let to = words.len();
                for index in from..to {
                    for letter in ['\0', 'a', 'é'] {
                        words.push(format!("{}{letter}", words[index]));
                    }
                }
                from = to;
            }
            words
        };
        let long = ["aaaaaaaa", "aaaaaaab", "aaaa\0", "aaaaé, longer than a view holds", "aaa\0", "aaa"];
        let mut bounds = words(2);
        bounds.extend(long.map(String::from));
        let mut probes = words(3);
        probes.extend(bounds.iter().flat_map(|word| [word.clone(), format!("{word}\0"), format!("{word}b")]));
        probes.sort_unstable();
        probes.dedup();
        Self {
            kind: ScalarKind::Utf8,
            bounds: bounds.iter().map(|word| Scalar::from(word.as_str())).collect(),
            probes: probes.iter().map(|word| Scalar::from(word.as_str())).collect(),
        }
    }
}

/// Written from the definition of totalOrder, unlike the library's key.
fn next_in_total_order(value: f64) -> f64 {
    let bits = value.to_bits();
    match (value.is_sign_negative(), bits) {
        (true, bits) if bits == (-0.0_f64).to_bits() => 0.0,
        (true, bits) => f64::from_bits(bits - 1),
        (false, bits) if bits == u64::MAX >> 1 => value,
        (false, bits) => f64::from_bits(bits + 1),
    }
}

/// Which probes are in a set, and whether NULL is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExplicitSet {
    pub(crate) values: Vec<bool>,
    pub(crate) null: bool,
}

impl ExplicitSet {
    fn build(universe: &Universe, null: bool, member: impl Fn(&Scalar) -> bool) -> Self {
        Self { values: universe.probes.iter().map(member).collect(), null }
    }

    pub(crate) fn zip(&self, other: &Self, both: impl Fn(bool, bool) -> bool) -> Self {
        let values = self.values.iter().zip(&other.values).map(|(&a, &b)| both(a, b)).collect();
        Self { values, null: both(self.null, other.null) }
    }

    pub(crate) fn complement(&self) -> Self {
        Self { values: self.values.iter().map(|value| !value).collect(), null: false }
    }

    pub(crate) fn covers(&self, narrower: &Self) -> bool {
        (self.null || !narrower.null) && self.values.iter().zip(&narrower.values).all(|(&a, &b)| a || !b)
    }
}

fn random_bound(random: &mut Random, universe: &Universe) -> Bound<Scalar> {
    let value = random.pick(&universe.bounds).clone();
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(value),
        _ => Bound::Excluded(value),
    }
}

/// A random set, twice: as a domain and spelt out.
pub(crate) fn random_set(random: &mut Random, universe: &Universe, depth: usize) -> (Domain, ExplicitSet) {
    if depth > 0 && random.below(4) > 0 {
        let (a, explicit_a) = random_set(random, universe, depth - 1);
        let (b, explicit_b) = random_set(random, universe, depth - 1);
        return match random.below(4) {
            0 => (a.intersect(&b), explicit_a.zip(&explicit_b, |a, b| a && b)),
            1 => (a.union(&b), explicit_a.zip(&explicit_b, |a, b| a || b)),
            2 => (a.subtract(&b), explicit_a.zip(&explicit_b, |a, b| a && !b)),
            _ => (a.complement(), explicit_a.complement()),
        };
    }
    let constant = |domain, null, value| (domain, ExplicitSet::build(universe, null, |_| value));
    match random.below(16) {
        0 => constant(Domain::all(), true, true),
        1 => constant(Domain::not_null(), false, true),
        2 => constant(Domain::null(), true, false),
        3 => constant(Domain::none(), false, false),
        4..=6 => {
            let count = random.below(5);
            let points: Vec<Scalar> = (0..count).map(|_| random.pick(&universe.bounds).clone()).collect();
            let explicit = ExplicitSet::build(universe, false, |value| points.contains(value));
            (Domain::points(points), explicit)
        }
        _ => {
            let (low, high) = (random_bound(random, universe), random_bound(random, universe));
            let explicit = ExplicitSet::build(universe, false, |value| {
                let above = match &low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => value >= low,
                    Bound::Excluded(low) => value > low,
                };
                let below = match &high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => value <= high,
                    Bound::Excluded(high) => value < high,
                };
                above && below
            });
            (Domain::interval(low, high), explicit)
        }
    }
}
