//! `SET thermocline.verify = true`: every query runs once with the caches and fused pipelines and once without, and the
//! answers must agree.
//!
//! A tool for those who doubt, and for tests. Rows are compared as multisets; floating point values may differ by the
//! rounding of another order of summation (1e-9 relative). Queries of which nothing is determined run once.

mod determined;

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{QueryResult, Session};
use crate::settings::ThermoclineConfig;
use determined::Determined;

/// What two runs of `plan` must agree on; `Nothing` for a statement that must not run twice.
fn determined(plan: &LogicalPlan) -> Determined {
    match plan {
        LogicalPlan::Copy(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::DescribeTable(_) => Determined::Nothing,
        plan => Determined::of(plan),
    }
}

/// Whether running the plan twice is harmless and its answer repeatable.
pub(crate) fn applies_to(plan: &LogicalPlan) -> bool {
    determined(plan) != Determined::Nothing
}

/// Runs `plan` both ways and returns the rows if they agree.
pub(crate) async fn run(session: &Session, plan: &LogicalPlan) -> Result<QueryResult> {
    let (schema, cached) = session.collect_with(plan, |config| config.cache = true).await?;
    let without = |config: &mut ThermoclineConfig| (config.cache, config.fused_pipelines) = (false, false);
    let (_, plain) = session.collect_with(plan, without).await?;
    if let Some(difference) = difference(&determined(plan), &cached, &plain)? {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("thermocline.verify: the answer with caches differs from the one without: {difference}"),
        ));
    }
    QueryResult::from_batches(schema, cached)
}

/// A row as the text of its exact columns and the values of its floating point columns.
type ComparableRow = (String, Vec<f64>);

/// The first difference between two answers as multisets of rows, or of what is determined of them.
fn difference(determined: &Determined, cached: &[RecordBatch], plain: &[RecordBatch]) -> Result<Option<String>> {
    let (cached_rows, plain_rows) = (comparable(cached)?, comparable(plain)?);
    let Determined::SortedBy(columns) = determined else {
        return Ok(first_differing(cached_rows, plain_rows));
    };
    let keys = |batches: &[RecordBatch]| {
        let projected = batches.iter().map(|batch| batch.project(columns)).collect::<Result<Vec<_>, _>>();
        comparable(&projected.map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?)
    };
    let (cached_keys, plain_keys) = (keys(cached)?, keys(plain)?);
    let cached_rows = between_the_ends(cached_rows, &cached_keys);
    let plain_rows = between_the_ends(plain_rows, &plain_keys);
    Ok(first_differing(cached_keys, plain_keys).or_else(|| first_differing(cached_rows, plain_rows)))
}

/// The rows whose keys tie neither with those of the first row nor with those of the last one.
fn between_the_ends(rows: Vec<ComparableRow>, keys: &[ComparableRow]) -> Vec<ComparableRow> {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return rows };
    rows.into_iter().zip(keys).filter(|(_, key)| !same(key, first) && !same(key, last)).map(|(row, _)| row).collect()
}

fn first_differing(mut cached: Vec<ComparableRow>, mut plain: Vec<ComparableRow>) -> Option<String> {
    if cached.len() != plain.len() {
        return Some(format!("{} rows against {}", cached.len(), plain.len()));
    }
    cached.sort_by(order);
    plain.sort_by(order);
    let differing = cached.iter().zip(&plain).find(|(left, right)| !same(left, right));
    differing.map(|(left, right)| format!("({}, {:?}) against ({}, {:?})", left.0, left.1, right.0, right.1))
}

fn same(left: &ComparableRow, right: &ComparableRow) -> bool {
    left.0 == right.0 && left.1.iter().zip(&right.1).all(|(left, right)| close(*left, *right))
}

/// Sums in another order differ by rounding.
fn close(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

fn order(left: &ComparableRow, right: &ComparableRow) -> Ordering {
    let floats = || left.1.iter().zip(&right.1).map(|(left, right)| left.total_cmp(right)).find(|order| order.is_ne());
    left.0.cmp(&right.0).then_with(|| floats().unwrap_or(Ordering::Equal))
}

fn comparable(batches: &[RecordBatch]) -> Result<Vec<ComparableRow>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.resize(first + batch.num_rows(), ComparableRow::default());
        for column in batch.columns() {
            let floats = (column.data_type() == &DataType::Float64).then(|| column.as_primitive::<Float64Type>());
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
                .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
            for (index, row) in rows[first..].iter_mut().enumerate() {
                match floats {
                    Some(values) if values.is_valid(index) => row.1.push(values.value(index)),
                    _ => row.0.push_str(&formatter.value(index).to_string()),
                }
                row.0.push('|');
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch};

    use super::determined::Determined;
    use super::difference;

    fn batch(ids: Vec<i64>, sums: Vec<Option<f64>>) -> RecordBatch {
        RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(ids)) as _),
            ("sum", Arc::new(Float64Array::from(sums)) as _),
        ])
        .unwrap()
    }

    #[test]
    fn order_and_rounding_do_not_count_as_a_difference() {
        let left = batch(vec![1, 2], vec![Some(0.1 + 0.2), None]);
        let right = batch(vec![2, 1], vec![None, Some(0.3)]);
        assert_eq!(difference(&Determined::Rows, &[left], &[right]).unwrap(), None);
    }

    #[test]
    fn another_value_count_or_null_is_a_difference() {
        let left = batch(vec![1, 2], vec![Some(0.3), None]);
        for right in [
            batch(vec![1, 3], vec![Some(0.3), None]),
            batch(vec![1, 2], vec![Some(0.3001), None]),
            batch(vec![1, 2], vec![Some(0.3), Some(0.0)]),
            batch(vec![1], vec![Some(0.3)]),
        ] {
            assert!(difference(&Determined::Rows, std::slice::from_ref(&left), &[right]).unwrap().is_some());
        }
    }
    #[test]
    fn rows_that_tie_with_the_last_may_be_others_where_only_the_keys_are_determined() {
        let sorted_by_sum = Determined::SortedBy(vec![1]);
        let left = batch(vec![1, 2, 3], vec![Some(0.1), Some(0.2), Some(0.3)]);
        let others = |ids, sums| difference(&sorted_by_sum, std::slice::from_ref(&left), &[batch(ids, sums)]).unwrap();
        assert_eq!(others(vec![1, 2, 4], vec![Some(0.1), Some(0.2), Some(0.1 + 0.2)]), None);
        assert!(others(vec![1, 4, 3], vec![Some(0.1), Some(0.2), Some(0.3)]).is_some());
        assert!(others(vec![1, 2, 3], vec![Some(0.1), Some(0.2), Some(0.4)]).is_some());
    }
}
