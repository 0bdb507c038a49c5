//! Conjunctions against rows: coverage, residual filters, evaluation.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use arrow::array::{Float64Array, Int32Array, StringArray};
use thermocline_seeded::Random;

use super::*;
use crate::generator::{Universe, random_set};
use crate::{Scalar, ScalarKind};

const NAMES: [&str; 4] = ["flag", "number", "ratio", "word"];

fn universes() -> [Universe; 4] {
    [Universe::booleans(), Universe::ints(), Universe::floats(), Universe::strings()]
}

fn random_conjunction(random: &mut Random) -> Conjunction {
    let mut conjunction = Conjunction::all();
    for (name, universe) in NAMES.iter().zip(universes()) {
        if random.one_in(2) {
            conjunction = conjunction.and(FieldPath::root(name), random_set(random, &universe, 2).0);
        }
    }
    conjunction
}

type Row = [Option<Scalar>; 4];

fn random_table(random: &mut Random) -> Vec<Row> {
    let universes = universes();
    (0..100)
        .map(|_| {
            std::array::from_fn(|field| (!random.one_in(6)).then(|| random.pick(&universes[field].probes).clone()))
        })
        .collect()
}

fn passes(conjunction: &Conjunction, row: &Row) -> bool {
    let index_of = |path: &FieldPath| NAMES.iter().position(|name| *path == FieldPath::root(name)).unwrap();
    conjunction.fields().all(|(path, domain)| domain.contains(row[index_of(path)].as_ref()))
}

fn columns(table: &[Row]) -> [ArrayRef; 4] {
    macro_rules! column {
        ($array:ty, $field:expr, $kind:ident) => {
            Arc::new(<$array>::from_iter(table.iter().map(|row| match &row[$field] {
                Some(Scalar::$kind(value)) => Some(value.clone()),
                _ => None,
            }))) as ArrayRef
        };
    }
    let numbers = table.iter().map(|row| match row[1] {
        Some(Scalar::Int(value)) => Some(value as i32),
        _ => None,
    });
    [
        column!(BooleanArray, 0, Boolean),
        Arc::new(numbers.collect::<Int32Array>()),
        column!(Float64Array, 2, Float),
        column!(StringArray, 3, Utf8),
    ]
}

#[test]
fn the_residual_filter_of_a_covering_item_yields_exactly_the_rows_asked_for() {
    let mut covering_count = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let item = random_conjunction(&mut random);
        let other = random_conjunction(&mut random);
        let table = random_table(&mut random);
        for query in [item.clone().merge(&other), other, item.clone()] {
            if !item.covers(&query) {
                continue;
            }
            covering_count += 1;
            let residual = item.residual(&query);
            for row in &table {
                let through_cache = passes(&item, row) && passes(&residual, row);
                assert_eq!(through_cache, passes(&query, row), "seed {seed}: {item}; {query}; {residual}; {row:?}");
            }
        }
    }
    assert!(covering_count > 5000, "{covering_count}");
}

#[test]
fn coverage_means_that_every_row_of_the_narrower_passes_the_wider() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let a = random_conjunction(&mut random);
        let b = random_conjunction(&mut random);
        let merged = a.clone().merge(&b);
        assert!(a.covers(&merged) && b.covers(&merged), "seed {seed}: {a}; {b}");
        assert!(Conjunction::all().covers(&a) && a.covers(&a), "seed {seed}: {a}");
        // Fields are independent, so coverage is decided field by field unless one of them is empty.
        let field_by_field = NAMES.iter().all(|name| {
            let path = FieldPath::root(name);
            let open = Domain::all();
            a.domain(&path).unwrap_or(&open).covers(b.domain(&path).unwrap_or(&open))
        });
        assert_eq!(a.covers(&b), field_by_field || b.is_unsatisfiable(), "seed {seed}: {a}; {b}");
        for row in random_table(&mut random) {
            let both = passes(&a, &row) && passes(&b, &row);
            assert_eq!(passes(&merged, &row), both, "seed {seed}: {a}; {b}; {row:?}");
            assert!(!passes(&a, &row) || !a.is_unsatisfiable(), "seed {seed}: {a}");
        }
    }
}

#[test]
fn an_exactly_matching_item_leaves_no_residual() {
    for seed in 0..500 {
        let item = random_conjunction(&mut Random::new(seed));
        assert!(item.residual(&item).is_all() || item.is_unsatisfiable(), "seed {seed}: {item}");
    }
}

#[test]
fn evaluation_selects_the_rows_whose_fields_lie_in_their_domains() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let conjunction = random_conjunction(&mut random);
        let table = random_table(&mut random);
        let columns = columns(&table);
        let column = |path: &FieldPath| {
            let index = NAMES.iter().position(|name| *path == FieldPath::root(name))?;
            Some(Arc::clone(&columns[index]))
        };
        let selected = conjunction.evaluate(table.len(), &column).unwrap();
        let expected: Vec<bool> = table.iter().map(|row| passes(&conjunction, row)).collect();
        match selected {
            None => assert!(conjunction.is_all(), "seed {seed}"),
            Some(selected) => {
                let selected: Vec<bool> = selected.values().iter().collect();
                assert_eq!(selected, expected, "seed {seed}: {conjunction}");
            }
        }
    }
}

fn at_least(value: i128) -> Domain {
    Domain::interval(Included(Scalar::Int(value)), Unbounded)
}

#[test]
fn errors_name_the_column_and_both_sides_of_the_disagreement() {
    let conjunction = Conjunction::all().and(FieldPath::new(["a", "b"]), at_least(1));
    let missing = conjunction.evaluate(2, &|_| None).unwrap_err();
    assert_eq!(missing.to_string(), "no column for a.b, which the predicate constrains");
    let short = conjunction.evaluate(2, &|_| Some(Arc::new(Int32Array::from(vec![1])))).unwrap_err();
    assert_eq!(short.to_string(), "column a.b has 1 rows, expected 2");
    let text = conjunction.evaluate(1, &|_| Some(Arc::new(StringArray::from(vec!["1"])))).unwrap_err();
    let expected = "column a.b: a predicate over integer values can't be evaluated on a column of type Utf8";
    assert_eq!(text.to_string(), expected);
    assert!(matches!(text, PredicateError::Field { source, .. }
        if matches!(*source, PredicateError::TypeMismatch { kind: ScalarKind::Int, .. })));
}

#[test]
fn columns_are_not_asked_for_once_no_row_is_left() {
    let conjunction = Conjunction::all().and(FieldPath::root("a"), at_least(10)).and(FieldPath::root("b"), at_least(0));
    let column = |path: &FieldPath| {
        assert_eq!(*path, FieldPath::root("a"));
        Some(Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)
    };
    let selected = conjunction.evaluate(2, &column).unwrap();
    assert_eq!(selected, Some(BooleanArray::from(vec![false, false])));
}

#[test]
fn the_normal_form_holds_no_field_that_admits_everything() {
    let path = || FieldPath::root("a");
    let open = Conjunction::all().and(path(), Domain::all());
    assert!(open.is_all());
    assert_eq!(open, Conjunction::default());
    assert_eq!(open.to_string(), "TRUE");
    let twice = Conjunction::all().and(path(), at_least(3)).and(path(), at_least(5)).and(path(), Domain::all());
    assert_eq!(twice, Conjunction::from_iter([(path(), at_least(5))]));
    assert_eq!(twice.fields().count(), 1);
}

#[test]
fn one_fields_domain_is_replaced_and_the_others_stay() {
    let (a, b) = (FieldPath::root("a"), FieldPath::root("b"));
    let both = Conjunction::all().and(a.clone(), at_least(3)).and(b.clone(), at_least(5));
    let other = Domain::null().union(&at_least(1));
    let replaced = both.replace(&a, other.clone());
    assert_eq!(replaced, Conjunction::all().and(a.clone(), other).and(b.clone(), at_least(5)));
    assert_eq!(both.replace(&a, Domain::all()), Conjunction::all().and(b, at_least(5)));
}

#[test]
fn a_conjunction_is_shown_as_sql() {
    let price = Domain::interval(Included(Scalar::from(1.0)), Excluded(Scalar::from(5.0)));
    let conjunction = Conjunction::all()
        .and(FieldPath::root("o_totalprice"), price)
        .and(FieldPath::new(["customer", "Name"]), Domain::null().union(&Domain::point(Scalar::from("x"))));
    let shown = "(customer.\"Name\" = 'x' OR customer.\"Name\" IS NULL) AND o_totalprice >= 1.0 AND o_totalprice < 5.0";
    assert_eq!(conjunction.to_string(), shown);
    assert!(conjunction.heap_bytes() > 2 * size_of::<(FieldPath, Domain)>());
}
