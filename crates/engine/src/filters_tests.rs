//! A translated filter must pass exactly the rows that DataFusion's own evaluation passes.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::functions::unicode::expr_fn::{left, substring};
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::prelude::SessionContext;

use super::{Fields, condition, conjunction};

fn batch() -> RecordBatch {
    let i = Int64Array::from(vec![Some(-2), Some(-1), Some(0), Some(1), Some(2), Some(3), None]);
    let f = Float64Array::from(vec![Some(-1.5), Some(-0.0), Some(0.0), Some(f64::NAN), Some(2.5), None, Some(7.0)]);
    let s = StringArray::from(vec![Some(""), Some("a"), Some("ab"), Some("b"), None, Some("é"), Some("z")]);
    let b = BooleanArray::from(vec![Some(true), Some(false), None, Some(true), Some(false), None, Some(true)]);
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(i), Arc::new(f), Arc::new(s), Arc::new(b)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn passes(batch: &RecordBatch, filter: &Expr) -> Vec<bool> {
    let schema = DFSchema::try_from(batch.schema().as_ref().clone()).unwrap();
    let expr = SessionContext::new().create_physical_expr(filter.clone(), &schema).unwrap();
    let values = expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
    let values = values.as_boolean();
    (0..values.len()).map(|row| values.is_valid(row) && values.value(row)).collect()
}

fn leaves() -> Vec<Expr> {
    let mut leaves = vec![
        col("b"),
        col("b").eq(lit(true)),
        col("b").is_true(),
        col("b").is_false(),
        col("i").is_null(),
        col("f").is_not_null(),
        col("s").in_list(vec![lit("a"), lit("z")], false),
        col("s").in_list(vec![lit("a"), lit("z")], true),
        col("i").between(lit(-1_i64), lit(2_i64)),
        col("i").not_between(lit(-1_i64), lit(2_i64)),
    ];
    for value in [-1_i64, 0, 2] {
        leaves.extend([
            col("i").gt(lit(value)),
            col("i").lt_eq(lit(value)),
            col("i").not_eq(lit(value)),
            lit(value).lt(col("i")),
        ]);
    }
    for value in [-0.0, 0.0, 2.5, f64::NAN] {
        leaves.extend([
            col("f").gt(lit(value)),
            col("f").lt(lit(value)),
            col("f").eq(lit(value)),
            col("f").gt_eq(lit(value)),
        ]);
    }
    for value in ["", "ab", "c"] {
        leaves.extend([col("s").gt(lit(value)), col("s").lt_eq(lit(value)), col("s").eq(lit(value))]);
    }
    leaves
}

fn check(batch: &RecordBatch, filter: &Expr) -> bool {
    let schema = batch.schema();
    let fields = Fields { schema: schema.as_ref(), element: None };
    if condition(&fields, filter).is_none() {
        return false;
    }
    let (predicate, _) = conjunction(&fields, std::slice::from_ref(filter)).unwrap();
    let mask = predicate.evaluate(batch.num_rows(), &|path| batch.column_by_name(&path.parts()[0]).cloned()).unwrap();
    let ours: Vec<bool> = match mask {
        Some(mask) => mask.values().iter().collect(),
        None => vec![true; batch.num_rows()],
    };
    assert_eq!(ours, passes(batch, filter), "{filter}");
    true
}

#[test]
fn every_translated_filter_passes_the_rows_that_datafusion_passes() {
    let batch = batch();
    let leaves = leaves();
    let mut translated = 0;
    for left in &leaves {
        translated += usize::from(check(&batch, left));
        translated += usize::from(check(&batch, &Expr::Not(Box::new(left.clone()))));
        for right in &leaves {
            translated += usize::from(check(&batch, &left.clone().and(right.clone())));
            translated += usize::from(check(&batch, &left.clone().or(right.clone())));
            translated += usize::from(check(&batch, &Expr::Not(Box::new(left.clone().or(right.clone())))));
        }
    }
    assert!(translated > leaves.len() * 2, "{translated} filters were translated");
}

#[test]
fn patterns_that_end_in_a_wildcard_pass_the_rows_that_datafusion_passes() {
    let words =
        ["", "a", "ab", "abc", "b", "é", "éa", "a%", "a%b", "a_", "a_b", "a\\", "a\\b", "A", "a\n", "\u{10ffff}b"];
    let values = words.iter().copied().map(Some).chain([None]).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(values)) as ArrayRef]).unwrap();
    let mut pieces: Vec<String> = words.iter().map(ToString::to_string).collect();
    pieces.extend(["a\\%", "a\\_", "a\\\\", "\\a", "a\\%b"].map(String::from));
    let mut translated = 0;
    for piece in &pieces {
        for pattern in [piece.clone(), format!("{piece}%"), format!("{piece}%%")] {
            for filter in [col("s").like(lit(&pattern)), col("s").not_like(lit(&pattern))] {
                translated += usize::from(check(&batch, &filter));
                translated += usize::from(check(&batch, &Expr::Not(Box::new(filter))));
            }
        }
    }
    assert!(translated > pieces.len() * 8, "{translated} filters were translated");
}

#[test]
fn beginnings_of_texts_pass_the_rows_that_datafusion_passes() {
    let words = ["", "a", "ab", "abc", "b", "é", "éa", "éab", "A", "aé", "\u{10ffff}b"];
    let values = words.iter().copied().map(Some).chain([None]).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(values)) as ArrayRef]).unwrap();
    for count in [0_i64, 1, 2, 3] {
        for beginning in [substring(col("s"), lit(1_i64), lit(count)), left(col("s"), lit(count))] {
            let same = words.iter().map(|text| beginning.clone().eq(lit(*text)));
            let others = words.iter().map(|text| beginning.clone().not_eq(lit(*text)));
            let among =
                (1..4).map(|many| words.iter().skip(many).step_by(many).map(|text| lit(*text)).collect::<Vec<_>>());
            let among = among.flat_map(|texts| [true, false].map(|not| beginning.clone().in_list(texts.clone(), not)));
            for filter in same.chain(others).chain(among) {
                assert!(check(&batch, &filter), "{filter}");
                assert!(check(&batch, &Expr::Not(Box::new(filter.clone()))), "{filter}");
                assert!(check(&batch, &filter.is_true()));
            }
        }
    }
    let schema = batch.schema();
    let fields = Fields { schema: schema.as_ref(), element: None };
    for kept in [substring(col("s"), lit(2_i64), lit(1_i64)), left(col("s"), lit(-1_i64)), left(col("s"), col("s"))] {
        assert!(condition(&fields, &kept.eq(lit("a"))).is_none());
    }
}

#[test]
fn what_is_no_condition_on_one_field_stays_above_the_scan() {
    let batch = batch();
    let schema = batch.schema();
    let fields = Fields { schema: schema.as_ref(), element: None };
    let kept = [
        col("s").like(lit("%a")),
        col("s").like(lit("a%b")),
        col("s").like(lit("a_")),
        col("s").like(lit("a_%")),
        col("s").ilike(lit("a%")),
        col("i").gt(col("f")),
        (col("i") + lit(1_i64)).gt(lit(2_i64)),
        col("i").gt(lit(1_i64)).or(col("f").gt(lit(1.0))),
        col("i").in_list(vec![lit(1_i64), lit(datafusion::common::ScalarValue::Int64(None))], true),
    ];
    for filter in kept {
        assert!(condition(&fields, &filter).is_none(), "{filter}");
    }
}
