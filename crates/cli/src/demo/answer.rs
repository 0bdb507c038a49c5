//! Answers: compared with each other, and read as text.

use thermocline_engine::arrow::array::{Array, ArrayRef, AsArray};
use thermocline_engine::arrow::compute::{cast, concat_batches};
use thermocline_engine::arrow::datatypes::{DataType, Float64Type, SchemaRef};
use thermocline_engine::arrow::record_batch::RecordBatch;
use thermocline_engine::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::failure::Result;

/// Sums of the same doubles differ by the order in which threads add them. Over a million terms the relative error of a
/// sum stays far below this.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// Whether two answers to one question are the same: rows in the same order, doubles up to the order of summation.
pub(super) fn are_equal(schema: &SchemaRef, left: &[RecordBatch], right: &[RecordBatch]) -> Result<bool> {
    let (left, right) = (concat_batches(schema, left)?, concat_batches(schema, right)?);
    Ok(left.num_rows() == right.num_rows()
        && left.columns().iter().zip(right.columns()).all(|(left, right)| columns_are_equal(left, right)))
}

fn columns_are_equal(left: &ArrayRef, right: &ArrayRef) -> bool {
    if left.data_type() != right.data_type() || *left.data_type() != DataType::Float64 {
        return left == right;
    }
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    left.iter().zip(right.iter()).all(|pair| match pair {
        (Some(left), Some(right)) => {
            left == right || (left - right).abs() <= RELATIVE_TOLERANCE * left.abs().max(right.abs())
        }
        (left, right) => left.is_none() && right.is_none(),
    })
}

/// `7 rows, first: AIR · 10,721 · 1.2e9`: what came out, in one line.
pub(super) fn summary(batches: &[RecordBatch]) -> Result<String> {
    let row_count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let Some(first) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok("no rows".to_owned()) };
    let mut cells = Vec::new();
    for column in first.columns() {
        cells.push(match column.data_type() {
            DataType::Float64 if column.is_valid(0) => format!("{:.2}", column.as_primitive::<Float64Type>().value(0)),
            _ => ArrayFormatter::try_new(column, &FormatOptions::new().with_null("NULL"))?.value(0).to_string(),
        });
    }
    let rows = if row_count == 1 { "row" } else { "rows, the first" };
    Ok(format!("{row_count} {rows}: {}", cells.join(" · ")))
}

/// All cells of an answer whose columns are text or can be turned into it; NULL is empty.
pub(super) fn texts(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Utf8))
            .collect::<std::result::Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let text = |column: &ArrayRef| {
                if column.is_null(row) { String::new() } else { column.as_string::<i32>().value(row).to_owned() }
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use thermocline_engine::arrow::array::{Float64Array, Int64Array, StringArray};
    use thermocline_engine::arrow::datatypes::{Field, Schema};

    use super::*;

    fn batch(names: Vec<Option<&str>>, sums: Vec<Option<f64>>) -> RecordBatch {
        let schema =
            Schema::new(vec![Field::new("name", DataType::Utf8, true), Field::new("sum", DataType::Float64, true)]);
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(names)), Arc::new(Float64Array::from(sums))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn sums_may_differ_in_their_last_bits_and_in_nothing_else() {
        let one = batch(vec![Some("a"), None], vec![Some(0.1 + 0.2), None]);
        let other = batch(vec![Some("a"), None], vec![Some(0.3), None]);
        let schema = one.schema();
        let equal = |left: &RecordBatch, right: &RecordBatch| {
            are_equal(&schema, std::slice::from_ref(left), std::slice::from_ref(right)).unwrap()
        };
        assert!(equal(&one, &other));
        assert!(!equal(&one, &batch(vec![Some("a"), None], vec![Some(0.300_001), None])));
        assert!(!equal(&one, &batch(vec![Some("a"), None], vec![None, None])));
        assert!(!equal(&one, &batch(vec![Some("b"), None], vec![Some(0.3), None])));
        assert!(!equal(&one, &batch(vec![Some("a")], vec![Some(0.3)])));
    }

    #[test]
    fn batches_may_be_cut_anywhere() {
        let whole = batch(vec![Some("a"), Some("b")], vec![Some(1.0), Some(2.0)]);
        let parts = [whole.slice(0, 1), whole.slice(1, 1)];
        assert!(are_equal(&whole.schema(), std::slice::from_ref(&whole), &parts).unwrap());
    }

    #[test]
    fn the_summary_shows_the_first_row() {
        assert_eq!(
            summary(&[batch(vec![Some("a"), Some("b")], vec![Some(1.5), None])]).unwrap(),
            "2 rows, the first: a · 1.50"
        );
        assert_eq!(summary(&[batch(vec![None], vec![Some(2.0)])]).unwrap(), "1 row: NULL · 2.00");
        assert_eq!(summary(&[]).unwrap(), "no rows");
    }

    #[test]
    fn cells_are_read_as_text() {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
        let rows = texts(&[RecordBatch::try_new(Arc::new(schema), vec![numbers]).unwrap()]).unwrap();
        assert_eq!(rows, [["7"], [""]]);
    }
}
