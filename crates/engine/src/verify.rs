//! `SET thermocline.verify = true`: every query runs once with the caches and fused pipelines and once without, and the answers
//! must agree.
//!
//! A tool for those who doubt, and for tests. Rows are compared as multisets; floating point values may differ by the
//! rounding of another order of summation (1e-9 relative). Plans that need not answer the same twice run once.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::error::{Error, ErrorKind, Result};
use crate::session::{QueryResult, Session};
use crate::settings::ThermoclineConfig;

/// Whether running the plan twice is harmless and its answer repeatable.
pub(crate) fn applies_to(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Copy(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
    ) && is_repeatable(plan)
}

/// Whether the plan answers the same when it runs twice: no volatile function, no `LIMIT` over unordered rows.
fn is_repeatable(plan: &LogicalPlan) -> bool {
    let mut repeatable = true;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        let is_loose_limit =
            matches!(node, LogicalPlan::Limit(limit) if !matches!(limit.input.as_ref(), LogicalPlan::Sort(_)));
        if is_loose_limit || node.expressions().iter().any(Expr::is_volatile) {
            repeatable = false;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    repeatable
}

/// Runs `plan` both ways and returns the rows if they agree.
pub(crate) async fn run(session: &Session, plan: &LogicalPlan) -> Result<QueryResult> {
    let (schema, cached) = session.collect_with(plan, |config| config.cache = true).await?;
    let without = |config: &mut ThermoclineConfig| (config.cache, config.fused_pipelines) = (false, false);
    let (_, plain) = session.collect_with(plan, without).await?;
    if let Some(difference) = difference(&cached, &plain)? {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("thermocline.verify: the answer with caches differs from the one without: {difference}"),
        ));
    }
    QueryResult::from_batches(schema, cached)
}

/// A row as the text of its exact columns and the values of its floating point columns.
type ComparableRow = (String, Vec<f64>);

/// The first difference between two answers as multisets of rows.
fn difference(cached: &[RecordBatch], plain: &[RecordBatch]) -> Result<Option<String>> {
    let (cached, plain) = (sorted(cached)?, sorted(plain)?);
    if cached.len() != plain.len() {
        return Ok(Some(format!("{} rows against {}", cached.len(), plain.len())));
    }
    let differing = cached.iter().zip(&plain).find(|(left, right)| !same(left, right));
    Ok(differing.map(|(left, right)| format!("({}, {:?}) against ({}, {:?})", left.0, left.1, right.0, right.1)))
}

fn same(left: &ComparableRow, right: &ComparableRow) -> bool {
    left.0 == right.0 && left.1.iter().zip(&right.1).all(|(left, right)| close(*left, *right))
}

/// Sums in another order differ by rounding.
fn close(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

fn sorted(batches: &[RecordBatch]) -> Result<Vec<ComparableRow>> {
    let mut rows = Vec::new();
    for batch in batches {
        rows.extend(comparable(batch)?);
    }
    rows.sort_by(|left: &ComparableRow, right: &ComparableRow| {
        let floats =
            || left.1.iter().zip(&right.1).map(|(left, right)| left.total_cmp(right)).find(|order| order.is_ne());
        left.0.cmp(&right.0).then_with(|| floats().unwrap_or(std::cmp::Ordering::Equal))
    });
    Ok(rows)
}

fn comparable(batch: &RecordBatch) -> Result<Vec<ComparableRow>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![(String::new(), Vec::new()); batch.num_rows()];
    for column in batch.columns() {
        let floats = (column.data_type() == &DataType::Float64).then(|| column.as_primitive::<Float64Type>());
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
            .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        for (index, row) in rows.iter_mut().enumerate() {
            match floats {
                Some(values) if values.is_valid(index) => row.1.push(values.value(index)),
                _ => row.0.push_str(&formatter.value(index).to_string()),
            }
            row.0.push('|');
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch};

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
        assert_eq!(difference(&[left], &[right]).unwrap(), None);
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
            assert!(difference(std::slice::from_ref(&left), &[right]).unwrap().is_some());
        }
    }
}
