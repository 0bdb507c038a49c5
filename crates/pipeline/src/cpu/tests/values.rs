//! What pipelines compute of a few values that random ones seldom are: overflow, division, NULLs that leave conditions
//! open; texts that tables carry in no order.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray, UInt64Array};
use thermocline_predicate::{Domain, Scalar};

use super::{equals, longs, pages, rows_of, run_with, scan_longs, table_of};
use crate::ir::{Aggregate, Comparison, Condition, Expression, Operator, PipelineBuilder, ProbeKind, Slot, ValueType};
use crate::reference::interpret;
use crate::{InstructionSet, PipelineError, Value};

/// The sum of products of two decimal columns.
fn decimal_products(left: [i128; 2], right: [i128; 2]) -> Result<Vec<Vec<Value>>, PipelineError> {
    let column = |values: [i128; 2]| -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 0).unwrap())
    };
    let source = pages(vec![vec![column(left), column(right)]]);
    let mut builder = PipelineBuilder::new();
    let of = ValueType::Decimal { precision: 38, scale: 0 };
    let slots = [0, 1].map(|number| builder.scan(format!("d{number}"), number, of, false).unwrap());
    let product = Expression::binary(Operator::Multiply, Expression::Slot(slots[0]), Expression::Slot(slots[1]));
    let product = builder.compute("product", product).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(product)]).unwrap();
    run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).map(|(outcome, _)| rows_of(outcome))
}

#[test]
fn decimals_go_on_in_128_bits_and_overflow_only_there() {
    let long = i128::from(i64::MAX);
    assert_eq!(decimal_products([long, 2], [long, 3]).unwrap(), [[Value::Integer(long * long + 6)]]);
    let error = decimal_products([long * long, 2], [4, 3]).unwrap_err().to_string();
    assert!(error.contains("overflow: 85070591730234615847396907784232501249 * 4"), "{error}");
}

/// What an expression over two columns of a type makes of a row.
fn computed(
    of: ValueType,
    columns: Vec<ArrayRef>,
    expression: impl Fn(Expression, Expression) -> Expression,
) -> Result<Value, PipelineError> {
    let mut builder = PipelineBuilder::new();
    let slots = [0, 1].map(|number| builder.scan(format!("c{number}"), number, of, true).unwrap());
    let slot = builder.compute("x", expression(Expression::Slot(slots[0]), Expression::Slot(slots[1]))).unwrap();
    let pipeline = builder.materialise(vec![slot]).unwrap();
    let rows = run_with(&pipeline, &pages(vec![columns]), &[], 1, InstructionSet::detect())?;
    Ok(rows_of(rows.0).remove(0).remove(0))
}

#[test]
fn a_null_leaves_conditions_open_unless_the_rest_decides_them() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let source = pages(vec![vec![column, longs([7, 8, 9])]]);
    let kept = |condition: &dyn Fn(Slot, Slot) -> Condition| {
        let mut builder = PipelineBuilder::new();
        let slots = [0, 1].map(|number| builder.scan(format!("c{number}"), number, ValueType::Int64, true).unwrap());
        builder.condition(condition(slots[0], slots[1])).unwrap();
        let pipeline = builder.materialise(vec![slots[1]]).unwrap();
        rows_of(run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap().0).concat()
    };
    let rows = |rows: &[i128]| rows.iter().map(|row| Value::Integer(*row)).collect::<Vec<_>>();
    let is = |slot: Slot, value: i128| Condition::In { slot, domain: equals(value) };
    let not = |condition: Condition| Condition::Not(Box::new(condition));
    let less =
        |left: Slot, right: Slot| Condition::compare(Comparison::Less, Expression::Slot(left), Expression::Slot(right));
    assert_eq!(kept(&|x, _| not(is(x, 1))), rows(&[9]));
    assert_eq!(kept(&|x, _| Condition::Any(vec![is(x, 1), not(is(x, 1))])), rows(&[7, 9]));
    assert_eq!(kept(&|x, y| not(Condition::All(vec![is(x, 1), is(y, 7)]))), rows(&[8, 9]));
    assert_eq!(kept(&|x, y| not(Condition::Any(vec![less(y, x), is(y, 7)]))), rows(&[9]));
    assert_eq!(kept(&|x, y| Condition::Any(vec![less(x, y), Condition::IsNull(x)])), rows(&[7, 8, 9]));
    assert_eq!(kept(&|x, _| not(Condition::IsNull(x))), rows(&[7, 9]));
}

#[test]
fn integers_are_divided_towards_zero_and_by_zero_with_an_error() {
    let divided = |operator, left: Option<i64>, right: i64| {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![left])), longs([right])];
        computed(ValueType::Int64, columns, |left, right| Expression::binary(operator, left, right))
    };
    let number = Value::Integer;
    assert_eq!(divided(Operator::Divide, Some(-7), 2).unwrap(), number(-3));
    assert_eq!(divided(Operator::Remainder, Some(-7), 2).unwrap(), number(-1));
    assert_eq!(divided(Operator::Remainder, Some(i64::MIN), -1).unwrap(), number(0));
    assert_eq!(divided(Operator::Divide, None, 0).unwrap(), Value::Null);
    let error = |operator, left| divided(operator, Some(left), 0).unwrap_err().to_string();
    assert_eq!(error(Operator::Divide, 3), "division by zero: 3 / 0");
    assert_eq!(error(Operator::Remainder, -3), "division by zero: -3 % 0");
    let overflow = divided(Operator::Divide, Some(i64::MIN), -1).unwrap_err().to_string();
    assert!(overflow.contains("overflow: -9223372036854775808 / -1"), "{overflow}");
}

#[test]
fn floats_are_computed_in_their_own_width_and_divided_without_errors() {
    let doubles = |left: f64, right: f64, operator| {
        let column = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
        computed(ValueType::Float64, vec![column(left), column(right)], |left, right| {
            Expression::binary(operator, left, right)
        })
        .unwrap()
    };
    assert_eq!(doubles(0.1, 0.2, Operator::Add), Value::Float(0.1 + 0.2));
    assert_eq!(doubles(-1.0, 0.0, Operator::Divide), Value::Float(f64::NEG_INFINITY));
    let column = |value: f32| -> ArrayRef { Arc::new(Float32Array::from(vec![value])) };
    let single = computed(ValueType::Float32, vec![column(0.1), column(0.2)], |left, right| {
        Expression::binary(Operator::Add, left, right)
    });
    assert_eq!(single.unwrap(), Value::Float((0.1f32 + 0.2f32).into()));
    let widened =
        computed(ValueType::Int64, vec![longs([i64::MAX]), longs([0])], |left, _| left.cast(ValueType::Float64));
    assert_eq!(widened.unwrap(), Value::Float(i64::MAX as f64));
    let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    let widened = computed(ValueType::UInt64, vec![Arc::clone(&unsigned), unsigned], |left, _| {
        left.cast(ValueType::Decimal { precision: 20, scale: 0 })
    });
    assert_eq!(widened.unwrap(), Value::Integer(u64::MAX.into()));
}

#[test]
fn floats_become_decimals_as_they_are_rounded_and_what_is_none_is_an_error() {
    let of = ValueType::Decimal { precision: 5, scale: 2 };
    let cast = |value: Option<f64>| {
        let column = || -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
        computed(ValueType::Float64, vec![column(), column()], |left, _| left.cast(of))
    };
    for (value, expected) in [(1.005, 100), (-1.995, -200), (0.004, 0), (999.99, 99_999), (-999.994, -99_999)] {
        assert_eq!(cast(Some(value)).unwrap(), Value::Integer(expected), "{value}");
    }
    assert_eq!(cast(None).unwrap(), Value::Null);
    for value in [999.995, -1e300, f64::INFINITY, f64::NAN] {
        let error = cast(Some(value)).unwrap_err().to_string();
        assert_eq!(error, format!("{value} does not fit decimal(5, 2)"));
    }
    let decimal =
        || -> ArrayRef { Arc::new(Decimal128Array::from(vec![-12_345]).with_precision_and_scale(5, 2).unwrap()) };
    let float = computed(of, vec![decimal(), decimal()], |left, _| left.cast(ValueType::Float64));
    assert_eq!(float.unwrap(), Value::Float(-123.45));
    let longer = ValueType::Decimal { precision: 30, scale: 10 };
    let longer = computed(of, vec![decimal(), decimal()], |left, _| left.cast(longer));
    assert_eq!(longer.unwrap(), Value::Integer(-12_345 * 10i128.pow(8)));
}

#[test]
fn integers_and_their_sums_wrap_around_as_the_engine_does() {
    let source = pages(vec![vec![longs([i64::MAX, i64::MAX])]]);
    let mut builder = PipelineBuilder::new();
    let slot = scan_longs(&mut builder, 1)[0];
    let twice = Expression::binary(Operator::Add, Expression::Slot(slot), Expression::Slot(slot));
    let twice = builder.compute("twice", twice).unwrap();
    let aggregates = vec![Aggregate::Sum(slot), Aggregate::WideSum(slot), Aggregate::Minimum(twice)];
    let pipeline = builder.aggregate(vec![], aggregates).unwrap();
    let (outcome, _) = run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap();
    let wide = i128::from(i64::MAX) * 2;
    assert_eq!(rows_of(outcome), [[-2, wide, -2].map(Value::Integer)]);
}

#[test]
fn texts_that_a_table_has_too_many_of_to_sort_are_compared_as_texts() {
    // In an order that is neither that of the texts nor of the keys.
    let text = |key: i64, factor: i64| format!("text {}", key * factor % 101);
    let texts =
        |factor: i64| -> ArrayRef { Arc::new(StringArray::from_iter_values((0..100).map(|key| text(key, factor)))) };
    let source = pages(vec![vec![longs(0..100), texts(37), texts(59)]]);
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
    let carried = [1, 2].map(|column| builder.scan(format!("t{column}"), column, ValueType::Text, false).unwrap());
    let built = builder.build("texts", key, carried.to_vec()).unwrap();
    let (outcome, _) = run_with(&built, &source, &[], 2, InstructionSet::detect()).unwrap();
    let table = table_of(outcome);
    let table_rows = interpret(&built, &source, &[]).unwrap();

    let probing = pages(vec![vec![longs((0..3000).map(|row| row * 7 % 120)), longs((0..3000).map(|row| row % 5))]]);
    let filters = [Domain::prefix("text 4"), Domain::prefix("text"), Domain::point(Scalar::from("text 77"))];
    for (domain, comparison) in filters.into_iter().flat_map(|domain| {
        [Comparison::Less, Comparison::GreaterOrEqual, Comparison::NotEqual].map(|how| (domain.clone(), how))
    }) {
        let mut builder = PipelineBuilder::new();
        let slots = scan_longs(&mut builder, 2);
        let found = builder.probe(table.shape(), slots[0], ProbeKind::Inner, &[0, 1]).unwrap();
        builder.filter(found[0], domain).unwrap();
        builder
            .condition(Condition::compare(comparison, Expression::Slot(found[0]), Expression::Slot(found[1])))
            .unwrap();
        let aggregates = vec![Aggregate::CountRows, Aggregate::Minimum(found[1]), Aggregate::Maximum(found[0])];
        let pipeline = builder.aggregate(vec![slots[1]], aggregates).unwrap();
        let mut expected = interpret(&pipeline, &probing, std::slice::from_ref(&table_rows)).unwrap();
        expected.sort_unstable();
        let tables = [Arc::clone(&table)];
        let (outcome, _) = run_with(&pipeline, &probing, &tables, 1, InstructionSet::detect()).unwrap();
        assert_eq!(rows_of(outcome), expected, "{pipeline}");
    }
}
