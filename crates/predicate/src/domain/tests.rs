//! Set algebra against explicit sets, evaluation against membership and against arrow-rs.

mod evaluation;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use thermocline_seeded::Random;

use super::*;
use crate::generator::{ExplicitSet, Universe, random_set};

fn members(domain: &Domain, universe: &Universe) -> ExplicitSet {
    let values = universe.probes.iter().map(|value| domain.contains(Some(value))).collect();
    ExplicitSet { values, null: domain.contains(None) }
}

fn hash_of(domain: &Domain) -> u64 {
    let mut hasher = DefaultHasher::new();
    domain.hash(&mut hasher);
    hasher.finish()
}

/// Runs `check` on many pairs of random sets of every kind.
fn for_random_pairs(check: impl Fn(&Universe, (&Domain, &ExplicitSet), (&Domain, &ExplicitSet), &str)) {
    for universe in Universe::every() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let (a, explicit_a) = random_set(&mut random, &universe, 3);
            let (b, explicit_b) = random_set(&mut random, &universe, 3);
            let context = format!("{} seed {seed}: {} with {}", universe.kind, a.display(&"a"), b.display(&"b"));
            check(&universe, (&a, &explicit_a), (&b, &explicit_b), &context);
        }
    }
}

#[test]
fn the_set_algebra_agrees_with_explicit_sets() {
    for_random_pairs(|universe, (a, explicit_a), (b, explicit_b), context| {
        assert_eq!(members(a, universe), *explicit_a, "{context}");
        let both = explicit_a.zip(explicit_b, |a, b| a && b);
        assert_eq!(members(&a.intersect(b), universe), both, "intersect, {context}");
        let either = explicit_a.zip(explicit_b, |a, b| a || b);
        assert_eq!(members(&a.union(b), universe), either, "union, {context}");
        let rest = explicit_a.zip(explicit_b, |a, b| a && !b);
        assert_eq!(members(&a.subtract(b), universe), rest, "subtract, {context}");
        assert_eq!(members(&a.complement(), universe), explicit_a.complement(), "complement, {context}");
    });
}

#[test]
fn coverage_and_equality_agree_with_explicit_sets() {
    for_random_pairs(|universe, (a, explicit_a), (b, explicit_b), context| {
        assert_eq!(a.covers(b), explicit_a.covers(explicit_b), "{context}");
        // Random pairs seldom cover each other: a union always does.
        assert!(a.union(b).covers(a) && a.covers(&a.intersect(b)), "{context}");
        assert_eq!(a == b, explicit_a == explicit_b, "{context}");
        if a == b {
            assert_eq!(hash_of(a), hash_of(b), "{context}");
        }
        let no_value = !explicit_a.values.contains(&true);
        assert_eq!(a.is_empty(), no_value && !explicit_a.null, "{context}");
        let every_value = !explicit_a.values.contains(&false);
        assert_eq!(a.is_all(), every_value && explicit_a.null, "{context}");
        assert!(a.kind().is_none_or(|kind| kind == universe.kind), "{context}");
    });
}

#[test]
fn however_it_is_built_a_set_has_one_representation() {
    for_random_pairs(|_, (a, _), (b, _), context| {
        let around = a.subtract(b).union(&a.intersect(b));
        assert_eq!(&around, a, "{context}");
        assert_eq!(hash_of(&around), hash_of(a), "{context}");
        assert_eq!(around.intervals().len(), a.intervals().len(), "{context}");
        let values = a.intersect(&Domain::not_null());
        assert_eq!(a.complement().complement(), values, "{context}");
    });
}

#[test]
fn sets_overlap_that_have_a_value_or_null_in_common() {
    for_random_pairs(|_, (a, _), (b, _), context| {
        assert_eq!(a.overlaps(b), !a.intersect(b).is_empty(), "{context}");
        assert_eq!(b.overlaps(a), a.overlaps(b), "{context}");
    });
    assert!(!Domain::point(Scalar::Int(1)).overlaps(&Domain::point(Scalar::from("1"))));
    assert!(Domain::point(Scalar::Int(1)).overlaps(&Domain::not_null()));
}

#[test]
fn simplified_within_a_known_set_the_same_values_are_selected() {
    for_random_pairs(|_, (a, _), (known, _), context| {
        for asked in [a.clone(), a.intersect(known)] {
            let simple = asked.simplify_within(known);
            assert_eq!(simple.intersect(known), asked.intersect(known), "{context}");
            assert!(simple.covers(&asked), "{context}");
        }
    });
}

#[test]
fn numeric_keys_tell_coverage_of_single_intervals() {
    for universe in [Universe::ints(), Universe::extreme_ints(), Universe::floats()] {
        for_bounds(&universe, |low, high, random| {
            let other = (random.pick(&universe.bounds).clone(), random.pick(&universe.bounds).clone());
            let a = Interval { low, high };
            let b = Interval { low: Included(other.0), high: Excluded(other.1) };
            let of = |interval: &Interval| Domain::interval(interval.low.clone(), interval.high.clone());
            assert_eq!(of(&a).is_empty(), a.numeric_key().is_none(), "{a:?}");
            if let (Some((a_low, a_high)), Some((b_low, b_high))) = (a.numeric_key(), b.numeric_key()) {
                assert_eq!(of(&a).covers(&of(&b)), a_low <= b_low && b_high <= a_high, "{a:?} {b:?}");
            }
        });
    }
    let text = Interval { low: Included(Scalar::from("a")), high: Unbounded };
    assert_eq!(text.numeric_key(), None);
}

fn for_bounds(universe: &Universe, mut check: impl FnMut(Bound<Scalar>, Bound<Scalar>, &mut Random)) {
    let mut random = Random::new(7);
    for low in &universe.bounds {
        for high in &universe.bounds {
            for open in 0..4 {
                let low = if open & 1 == 0 { Included(low.clone()) } else { Excluded(low.clone()) };
                let high = if open & 2 == 0 { Included(high.clone()) } else { Excluded(high.clone()) };
                check(low.clone(), high.clone(), &mut random);
            }
            check(Unbounded, Excluded(high.clone()), &mut random);
            check(Included(low.clone()), Unbounded, &mut random);
        }
    }
}

#[test]
fn the_typed_questions_agree_with_the_general_one() {
    for_random_pairs(|universe, (a, explicit_a), _, context| {
        for (value, &expected) in universe.probes.iter().zip(&explicit_a.values) {
            let seen = match value {
                Scalar::Boolean(value) => a.contains_bool(*value),
                Scalar::Int(value) => a.contains_int(*value),
                Scalar::Float(value) => a.contains_float(*value),
                Scalar::Utf8(value) => a.contains_str(value),
            };
            assert_eq!(seen, expected, "{value} in {context}");
        }
    });
}

#[test]
fn open_and_closed_float_bounds_are_kept_as_given() {
    let below_five = Domain::interval(Included(Scalar::from(1.0)), Excluded(Scalar::from(5.0)));
    assert_eq!(below_five.display(&"x").to_string(), "x >= 1.0 AND x < 5.0");
    let same = Domain::interval(Included(Scalar::from(1.0)), Included(Scalar::from(5.0_f64.next_down())));
    assert_eq!(below_five, same);
    assert_eq!(hash_of(&below_five), hash_of(&same));
}

#[test]
fn integer_bounds_become_closed_and_neighbours_merge() {
    let open = Domain::interval(Excluded(Scalar::Int(1)), Excluded(Scalar::Int(5)));
    assert_eq!(open.display(&"x").to_string(), "x >= 2 AND x <= 4");
    assert_eq!(open, Domain::points([4, 2, 3, 3].map(Scalar::Int)));
    assert_eq!(open.intervals().len(), 1);
}

#[test]
fn a_prefix_is_the_set_of_the_strings_that_begin_with_it() {
    let letters = ['\0', 'a', 'b', 'é', '\u{D7FF}', '\u{E000}', '\u{10FFFE}', char::MAX];
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let mut word = || (0..random.below(4)).map(|_| *random.pick(&letters)).collect::<String>();
        let (prefix, other, narrower) = (word(), word(), word());
        let domain = Domain::prefix(&prefix);
        for value in [other.clone(), format!("{prefix}{other}")] {
            let inside = domain.contains(Some(&Scalar::from(value.as_str())));
            assert_eq!(inside, value.starts_with(&prefix), "seed {seed}: {value:?} in {prefix:?}");
            let outside = domain.complement().contains(Some(&Scalar::from(value.as_str())));
            assert_eq!(outside, !inside, "seed {seed}: {value:?} not in {prefix:?}");
        }
        assert!(!domain.contains(None));
        assert!(domain.covers(&Domain::prefix(&format!("{prefix}{narrower}"))), "seed {seed}: {prefix:?} {narrower:?}");
        assert_eq!(
            Domain::prefix(&other).covers(&domain),
            prefix.starts_with(&other),
            "seed {seed}: {other:?} {prefix:?}"
        );
    }
}

#[test]
fn a_set_is_shown_as_the_sql_that_asks_for_it() {
    let shown = |domain: &Domain| domain.display(&"x").to_string();
    let ints = |values: &[i128]| Domain::points(values.iter().map(|&value| Scalar::Int(value)));
    assert_eq!(shown(&Domain::all()), "TRUE");
    assert_eq!(shown(&Domain::none()), "FALSE");
    assert_eq!(shown(&Domain::null()), "x IS NULL");
    assert_eq!(shown(&Domain::not_null()), "x IS NOT NULL");
    assert_eq!(shown(&ints(&[3])), "x = 3");
    assert_eq!(shown(&ints(&[3, 7])), "x IN (3, 7)");
    assert_eq!(shown(&ints(&[3]).complement()), "x <> 3");
    assert_eq!(shown(&ints(&[3, 7]).complement()), "x NOT IN (3, 7)");
    assert_eq!(shown(&ints(&[3]).complement().union(&Domain::null())), "(x <> 3 OR x IS NULL)");
    assert_eq!(shown(&Domain::interval(Unbounded, Excluded(Scalar::from("it's")))), "x < 'it''s'");
    assert_eq!(shown(&Domain::point(Scalar::from(false))), "x = false");
    assert_eq!(shown(&ints(&[3, 4, 5, 9])), "(x >= 3 AND x <= 5 OR x = 9)");
}

#[test]
fn sets_of_different_kinds_have_no_value_in_common() {
    let ints = Domain::interval(Included(Scalar::Int(1)), Unbounded);
    let texts = Domain::interval(Unbounded, Included(Scalar::from("m")));
    assert!(ints.intersect(&texts).is_empty());
    assert!(!ints.covers(&texts) && !texts.covers(&ints));
    assert_eq!(ints.subtract(&texts), ints);
    assert_eq!(ints.union(&texts), Domain::not_null());
    assert!(Domain::interval(Included(Scalar::Int(1)), Included(Scalar::from("m"))).is_empty());
    assert!(!ints.contains_str("m") && !ints.contains_float(5.0) && !ints.contains_bool(true));
}

#[test]
fn the_heap_of_a_domain_grows_with_its_strings_and_intervals() {
    let point = |text: &str| Domain::point(Scalar::from(text));
    assert!(point(&"a".repeat(1000)).heap_bytes() >= point("a").heap_bytes() + 999);
    let many = Domain::points((0..100).map(|value| Scalar::Int(2 * value)));
    assert!(many.heap_bytes() >= 100 * size_of::<Interval>());
}
