//! `Domain::evaluate` on every array type against `Domain::contains`, and against arrow-rs' comparison kernels.

use std::sync::Arc;

use arrow::array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMillisecondType,
    DurationNanosecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32SecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int64Array, LargeStringArray, NullArray,
    PrimitiveArray, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;

use super::*;
use crate::PredicateError;

/// Random rows, some NULL, beside the values they hold.
fn random_rows<T: Clone>(random: &mut Random, from: &[T]) -> Vec<Option<T>> {
    let row_count = random.below(200);
    let nulls = random.one_in(3);
    (0..row_count).map(|_| if nulls && random.one_in(4) { None } else { Some(random.pick(from).clone()) }).collect()
}

/// Evaluates on the whole array and on a random slice of it.
fn check(domain: &Domain, array: &ArrayRef, expected: &[bool], random: &mut Random, context: &str) {
    let compare = |array: &dyn Array, expected: &[bool]| {
        let seen = domain.evaluate(array).unwrap();
        assert_eq!(seen.null_count(), 0, "{context}");
        let seen: Vec<bool> = seen.values().iter().collect();
        assert_eq!(seen, expected, "{} on {array:?}, {context}", domain.display(&"x"));
    };
    compare(array, expected);
    let offset = random.below(array.len() + 1);
    let len = random.below(array.len() - offset + 1);
    compare(&array.slice(offset, len), &expected[offset..offset + len]);
}

/// The least interval around some values, with NULL if it is one.
fn hull(values: impl Iterator<Item = Option<Scalar>> + Clone) -> Domain {
    let present = || values.clone().flatten();
    let ends = present().min().zip(present().max());
    let around = ends.map_or(Domain::none(), |(low, high)| Domain::interval(Included(low), Included(high)));
    if values.clone().any(|value| value.is_none()) { around.union(&Domain::null()) } else { around }
}

/// A span rules out what the hull of its values does; of texts, which it knows the first bytes of, perhaps less.
fn check_span(domain: &Domain, kind: ScalarKind, array: &dyn Array, known: &Domain) {
    let Some(span) = Span::of(array, kind) else {
        assert_eq!(kind, ScalarKind::Boolean, "{}", array.data_type());
        return;
    };
    let (may_hold, overlaps) = (span.may_hold(domain), known.overlaps(domain));
    let context = || format!("{} and {span:?} of {array:?}", domain.display(&"x"));
    assert!(may_hold || !overlaps, "{}", context());
    assert!(overlaps || !may_hold || kind == ScalarKind::Utf8, "{}", context());
}

fn check_type<V: Clone>(
    universe: &Universe,
    values: &[V],
    to_scalar: impl Fn(&V) -> Scalar,
    to_array: impl Fn(Vec<Option<V>>) -> ArrayRef,
) {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let (domain, _) = random_set(&mut random, universe, 3);
        let rows = random_rows(&mut random, values);
        let expected: Vec<bool> =
            rows.iter().map(|row| domain.contains(row.as_ref().map(&to_scalar).as_ref())).collect();
        let known = hull(rows.iter().map(|row| row.as_ref().map(&to_scalar)));
        let array = to_array(rows);
        check_span(&domain, universe.kind, &array, &known);
        check(&domain, &array, &expected, &mut random, &format!("seed {seed}"));
    }
}

fn check_ints<T: ArrowPrimitiveType>()
where
    T::Native: TryFrom<i128> + Into<i128>,
{
    for universe in [Universe::ints(), Universe::extreme_ints()] {
        let as_int = |value: &Scalar| if let Scalar::Int(value) = value { *value } else { 0 };
        let fitting: Vec<T::Native> =
            universe.probes.iter().filter_map(|value| T::Native::try_from(as_int(value)).ok()).collect();
        check_type(
            &universe,
            &fitting,
            |&value| Scalar::Int(value.into()),
            |rows| Arc::new(rows.into_iter().collect::<PrimitiveArray<T>>()),
        );
    }
}

#[test]
fn integer_columns_of_every_width_agree_with_membership() {
    check_ints::<Int8Type>();
    check_ints::<Int16Type>();
    check_ints::<Int32Type>();
    check_ints::<Int64Type>();
    check_ints::<UInt8Type>();
    check_ints::<UInt16Type>();
    check_ints::<UInt32Type>();
    check_ints::<UInt64Type>();
}

#[test]
fn dates_times_and_decimals_agree_with_membership_of_their_integers() {
    check_ints::<Date32Type>();
    check_ints::<Date64Type>();
    check_ints::<Time32SecondType>();
    check_ints::<Time64NanosecondType>();
    check_ints::<TimestampSecondType>();
    check_ints::<TimestampMillisecondType>();
    check_ints::<TimestampMicrosecondType>();
    check_ints::<TimestampNanosecondType>();
    check_ints::<DurationMillisecondType>();
    check_ints::<DurationNanosecondType>();
    check_ints::<Decimal32Type>();
    check_ints::<Decimal64Type>();
    check_ints::<Decimal128Type>();
}

#[test]
fn a_time_zone_does_not_change_what_a_timestamp_is_compared_by() {
    let array = TimestampMicrosecondArray::from(vec![1, 5, 9]).with_timezone("+02:00");
    let domain = Domain::interval(Included(Scalar::Int(5)), Unbounded);
    assert_eq!(domain.evaluate(&array).unwrap(), BooleanArray::from(vec![false, true, true]));
}

#[test]
fn float_columns_of_every_width_agree_with_membership() {
    let universe = Universe::floats();
    let floats: Vec<f64> =
        universe.probes.iter().map(|value| if let Scalar::Float(value) = value { *value } else { 0.0 }).collect();
    check_type(
        &universe,
        &floats,
        |&value| Scalar::Float(value),
        |rows| Arc::new(rows.into_iter().collect::<PrimitiveArray<Float64Type>>()),
    );
    let singles: Vec<f32> = floats.iter().map(|&value| value as f32).collect();
    check_type(
        &universe,
        &singles,
        |&value| Scalar::Float(value.into()),
        |rows| Arc::new(rows.into_iter().collect::<PrimitiveArray<Float32Type>>()),
    );
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    let halves: Vec<Half> = floats.iter().map(|&value| Half::from_f64(value)).collect();
    check_type(
        &universe,
        &halves,
        |&value| Scalar::Float(value.to_f64()),
        |rows| Arc::new(rows.into_iter().collect::<PrimitiveArray<Float16Type>>()),
    );
}

#[test]
fn floats_in_every_narrow_form_agree_with_membership() {
    // Numbers that are bounds, and a step of the last digit beside them.
    for digits in [0, 1, 2, 8] {
        let power = 10f64.powi(digits);
        let wholes: [i32; 12] = [0, 1, -1, 5, -5, 99, 100, -101, 127, -128, 30_000, -999_999_999];
        let decimals: Vec<f64> = wholes.iter().map(|whole| f64::from(*whole) / power).collect();
        let beside = decimals.iter().flat_map(|value| [*value, value.next_up(), value.next_down(), value * 1.001]);
        let more = [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300];
        let universe = Universe {
            kind: ScalarKind::Float,
            bounds: beside.chain(more).map(Scalar::Float).collect(),
            probes: decimals.iter().copied().map(Scalar::Float).collect(),
        };
        for greatest in [127, 30_000, 999_999_999] {
            let fitting = decimals.iter().zip(&wholes).filter(|(_, whole)| (-greatest - 1..=greatest).contains(*whole));
            let fitting: Vec<f64> = fitting.map(|(value, _)| *value).collect();
            check_type(
                &universe,
                &fitting,
                |&value| Scalar::Float(value),
                |rows| {
                    let array = rows.into_iter().collect::<PrimitiveArray<Float64Type>>();
                    let form = thermocline_narrow::narrow(&array);
                    assert!(form.is_some() || array.is_empty());
                    form.unwrap_or_else(|| Arc::new(array))
                },
            );
        }
    }
}

#[test]
fn texts_are_bounded_by_their_first_bytes() {
    let times = ["2026-11-02T10:00:00", "2026-11-02T23:59:59", "2026-11-03T00:00:00"];
    let span = Span::of(&StringArray::from(times.to_vec()), ScalarKind::Utf8).unwrap();
    let point = |text: &str| Domain::point(Scalar::from(text));
    for within in times.map(point).into_iter().chain([Domain::prefix("2026-11-02"), Domain::prefix("2026")]) {
        assert!(span.may_hold(&within), "{}", within.display(&"x"));
    }
    let behind = Domain::interval(Excluded(Scalar::from("2026-11-04")), Unbounded);
    for elsewhere in [point("2026-11-02T09"), point("2026-11-03T01:00:00"), Domain::prefix("2026-12"), behind] {
        assert!(!span.may_hold(&elsewhere), "{}", elsewhere.display(&"x"));
    }
    assert!(!span.may_hold(&point("2026-11-01").union(&point("2026-11-05"))));
    // Beyond the fifteenth byte nothing is told apart.
    assert!(span.may_hold(&point("2026-11-02T10:0")) && span.may_hold(&point("2026-11-03T00:00:09")));
    let long = Span::of(&StringArray::from(vec!["the same beginning, b"]), ScalarKind::Utf8).unwrap();
    assert!(long.may_hold(&point("the same beginning, a")) && long.may_hold(&point("the same beginning, c")));
}

#[test]
fn string_columns_of_every_layout_agree_with_membership() {
    let universe = Universe::strings();
    let texts: Vec<String> = universe
        .probes
        .iter()
        .map(|value| if let Scalar::Utf8(value) = value { value.to_string() } else { String::new() })
        .collect();
    let to_scalar = |value: &String| Scalar::from(value.as_str());
    check_type(&universe, &texts, to_scalar, |rows| Arc::new(StringArray::from(rows)));
    check_type(&universe, &texts, to_scalar, |rows| Arc::new(LargeStringArray::from(rows)));
    check_type(&universe, &texts, to_scalar, |rows| Arc::new(rows.into_iter().collect::<StringViewArray>()));
    check_type(&universe, &texts, to_scalar, |rows| {
        Arc::new(rows.iter().map(Option::as_deref).collect::<DictionaryArray<Int16Type>>())
    });
}

#[test]
fn boolean_columns_agree_with_membership() {
    check_type(
        &Universe::booleans(),
        &[false, true],
        |&value| Scalar::Boolean(value),
        |rows| Arc::new(BooleanArray::from(rows)),
    );
}

#[test]
fn a_null_among_the_values_of_a_dictionary_is_null() {
    let values = StringArray::from(vec![Some("a"), None]);
    let keys = PrimitiveArray::<Int8Type>::from(vec![Some(0), Some(1), None]);
    let array = DictionaryArray::new(keys, Arc::new(values));
    let wanted = Domain::point(Scalar::from("a"));
    assert_eq!(wanted.evaluate(&array).unwrap(), BooleanArray::from(vec![true, false, false]));
    let missing = Domain::null();
    assert_eq!(missing.evaluate(&array).unwrap(), BooleanArray::from(vec![false, true, true]));
    let empty: DictionaryArray<Int8Type> = vec![None::<&str>, None].into_iter().collect();
    assert_eq!(wanted.evaluate(&empty).unwrap(), BooleanArray::from(vec![false, false]));
}

#[test]
fn sets_of_many_intervals_agree_with_membership() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(120);
        let domain = (0..count).fold(Domain::none(), |domain, _| {
            let low = random.below(1000) as i128 - 500;
            let high = low + random.below(4) as i128;
            domain.union(&Domain::interval(Included(Scalar::Int(low)), Included(Scalar::Int(high))))
        });
        let values: Vec<Option<i64>> = (-520..520).map(Some).collect();
        let expected: Vec<bool> =
            values.iter().map(|value| domain.contains_int(value.unwrap_or_default().into())).collect();
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        check(&domain, &array, &expected, &mut random, &format!("seed {seed}"));
        let brute = |value: i128| {
            domain
                .intervals()
                .iter()
                .any(|interval| interval.numeric_key().is_some_and(|(low, high)| low <= value && value <= high))
        };
        assert!((-520..520).all(|value| brute(value) == domain.contains_int(value)), "seed {seed}");
    }
}

#[test]
fn comparisons_select_what_the_kernels_of_arrow_select() {
    let universe = Universe::floats();
    let floats: Vec<f64> =
        universe.probes.iter().map(|value| if let Scalar::Float(value) = value { *value } else { 0.0 }).collect();
    let array = Float64Array::from(floats.clone());
    for bound in floats {
        let value = Scalar::Float(bound);
        let scalar = Float64Array::new_scalar(bound);
        let selected = |low, high| Domain::interval(low, high).evaluate(&array).unwrap();
        assert_eq!(selected(Unbounded, Excluded(value.clone())), cmp::lt(&array, &scalar).unwrap(), "< {bound}");
        assert_eq!(selected(Unbounded, Included(value.clone())), cmp::lt_eq(&array, &scalar).unwrap(), "<= {bound}");
        assert_eq!(selected(Excluded(value.clone()), Unbounded), cmp::gt(&array, &scalar).unwrap(), "> {bound}");
        assert_eq!(selected(Included(value.clone()), Unbounded), cmp::gt_eq(&array, &scalar).unwrap(), ">= {bound}");
        let point = Domain::point(value);
        assert_eq!(point.evaluate(&array).unwrap(), cmp::eq(&array, &scalar).unwrap(), "= {bound}");
        assert_eq!(point.complement().evaluate(&array).unwrap(), cmp::neq(&array, &scalar).unwrap(), "<> {bound}");
    }
}

#[test]
fn a_set_without_bounds_goes_with_every_type_and_another_does_not() {
    let binary = BinaryArray::from(vec![Some(b"a".as_slice()), None]);
    assert_eq!(Domain::not_null().evaluate(&binary).unwrap(), BooleanArray::from(vec![true, false]));
    assert_eq!(Domain::null().evaluate(&binary).unwrap(), BooleanArray::from(vec![false, true]));
    assert_eq!(Domain::all().evaluate(&binary).unwrap(), BooleanArray::from(vec![true, true]));
    let five = Domain::point(Scalar::Int(5));
    assert_eq!(five.evaluate(&NullArray::new(2)).unwrap(), BooleanArray::from(vec![false, false]));
    match five.evaluate(&Float64Array::from(vec![5.0])) {
        Err(PredicateError::TypeMismatch { kind: ScalarKind::Int, data_type: DataType::Float64 }) => {}
        other => panic!("expected a type mismatch, got {other:?}"),
    }
}
