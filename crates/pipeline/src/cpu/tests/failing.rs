//! Conditions that are errors of some rows, behind others that drop these.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use thermocline_predicate::{Domain, Scalar};

use super::{equals, longs, pages, rows_of, run_with, scan_longs, table_of};
use crate::ir::{
    Aggregate, Comparison, Condition, Expression, Operator, PipelineBuilder, ProbeKind, Slot, TextTest, ValueType,
};
use crate::{InstructionSet, MemoryPages, Pipeline, PipelineError, Value};

/// Sums up the first column of the rows that are left, on several numbers of threads.
fn is_sum(pipeline: &Pipeline, source: &MemoryPages, expected: i64) {
    for thread_count in 1..4 {
        let (outcome, _) = run_with(pipeline, source, &[], thread_count, InstructionSet::detect()).unwrap();
        assert_eq!(rows_of(outcome), [[Value::Integer(expected.into())]], "{thread_count} threads\n{pipeline}");
    }
}

/// Whether one slot's value divided by another's is greater than 2.
fn divided(slots: &[Slot]) -> Condition {
    let quotient = Expression::binary(Operator::Divide, Expression::Slot(slots[0]), Expression::Slot(slots[1]));
    Condition::compare(Comparison::Greater, quotient, Expression::Literal { value: 2, value_type: ValueType::Int64 })
}

fn not_zero() -> Domain {
    let zero = || Bound::Excluded(Scalar::Int(0));
    Domain::interval(Bound::Unbounded, zero()).union(&Domain::interval(zero(), Bound::Unbounded))
}

#[test]
fn rows_that_other_conditions_drop_divide_by_zero_without_an_error() {
    // Few divisors are zero, or most: the other condition drops little or much.
    for zero in [|at: i64| at % 50 == 7, |at: i64| at % 50 != 7] {
        let divisor = |at: i64| if zero(at) { 0 } else { 1 + at % 9 };
        let row_group = |start: i64| {
            let rows = start..start + 5000;
            vec![longs(rows.clone()), longs(rows.map(divisor))]
        };
        let source = pages((0..40).map(|number| row_group(number * 5000)).collect());
        let kept = (0..200_000).filter(|at| !zero(*at) && at / divisor(*at) > 2);
        let expected: i64 = kept.sum();
        for is_first in [false, true] {
            let mut builder = PipelineBuilder::new();
            let slots = scan_longs(&mut builder, 2);
            if is_first {
                builder.condition(divided(&slots)).unwrap();
            }
            builder.filter(slots[1], not_zero()).unwrap();
            if !is_first {
                builder.condition(divided(&slots)).unwrap();
            }
            let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(slots[0])]).unwrap();
            is_sum(&pipeline, &source, expected);
        }
    }
}

#[test]
fn a_computed_key_that_may_fail_is_looked_up_behind_other_conditions() {
    let keys = pages(vec![vec![longs(0..100)]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    let table = builder.build("keys", slots[0], vec![]).unwrap();
    let table = table_of(run_with(&table, &keys, &[], 1, InstructionSet::detect()).unwrap().0);
    let source = pages(vec![vec![longs(0..50_000), longs((0..50_000).map(|at| at % 100))]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 2);
    let quotient = Expression::binary(Operator::Divide, Expression::Slot(slots[0]), Expression::Slot(slots[1]));
    let key = builder.compute("quotient", quotient).unwrap();
    builder.probe(table.shape(), key, ProbeKind::Semi, &[]).unwrap();
    builder.filter(slots[1], not_zero()).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::CountRows]).unwrap();
    let expected = (0..50_000i128).filter(|at| at % 100 != 0 && at / (at % 100) < 100).count() as i128;
    let tables = [table];
    for thread_count in 1..4 {
        let (outcome, _) = run_with(&pipeline, &source, &tables, thread_count, InstructionSet::detect()).unwrap();
        assert_eq!(rows_of(outcome), [[Value::Integer(expected)]]);
    }
}

#[test]
fn texts_of_pages_whose_rows_other_conditions_drop_are_not_tested() {
    // Those of every second row group cannot be tested.
    let text = |at: i64| if at / 5000 % 2 == 0 { format!("t{}", at % 10) } else { "wrong".to_owned() };
    let row_group = |start: i64| -> Vec<ArrayRef> {
        let rows = start..start + 5000;
        let number = Int64Array::from_iter_values(rows.clone().map(|at| at / 5000 % 2));
        vec![Arc::new(number), Arc::new(StringArray::from_iter_values(rows.map(text)))]
    };
    let answers = |texts: &ArrayRef, test: fn(&str) -> Option<bool>| {
        let answer = |text: Option<&str>| text.map_or(Ok(None), |text| test(text).map(Some).ok_or("no number"));
        let answers: Result<BooleanArray, &str> = texts.as_string::<i32>().iter().map(answer).collect();
        Ok(answers?)
    };
    let is_short = TextTest::new("is short", None, move |texts| answers(texts, |text| Some(text.len() < 3)));
    let is_odd = TextTest::new("is odd", None, move |texts| {
        answers(texts, |text| text.strip_prefix('t')?.parse::<u32>().ok().map(|number| number % 2 == 1))
    });
    let is_short = is_short.never_failing();
    let source = pages((0..40).map(|number| row_group(number * 5000)).collect());
    let mut builder = PipelineBuilder::new();
    let number = builder.scan("c0", 0, ValueType::Int64, false).unwrap();
    let text = builder.scan("c1", 1, ValueType::Text, false).unwrap();
    builder.condition(Condition::Text { slot: text, test: is_odd.clone() }).unwrap();
    builder.condition(Condition::Text { slot: text, test: is_short }).unwrap();
    let guarded = builder.clone().aggregate(vec![], vec![Aggregate::CountRows]).unwrap();
    is_sum(&guarded, &source, 50_000);
    builder.filter(number, equals(0)).unwrap();
    is_sum(&builder.aggregate(vec![], vec![Aggregate::CountRows]).unwrap(), &source, 50_000);
    // Without another condition it is an error.
    let mut builder = PipelineBuilder::new();
    let text = builder.scan("c1", 1, ValueType::Text, false).unwrap();
    builder.condition(Condition::Text { slot: text, test: is_odd }).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::CountRows]).unwrap();
    let error = run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap_err();
    assert!(matches!(error, PipelineError::TextTest { .. }), "{error}");
}
