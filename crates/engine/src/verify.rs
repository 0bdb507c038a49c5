//! `SET thermocline.verify = true`: every query runs once with the caches and once without, and the answers must agree.
//!
//! A tool for those who doubt, and for tests. Rows are compared as a multiset unless the query orders them; floating point
//! values may differ by the rounding of another order of summation (1e-9 relative).

use std::collections::HashMap;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::LogicalPlan;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{QueryResult, Session};

/// Whether running the plan twice is harmless and its answer repeatable.
pub(crate) fn applies_to(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Copy(_) | LogicalPlan::Dml(_) | LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_)
    ) && !has_volatile(plan)
}

fn has_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures never fail, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        found |= node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile);
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    found
}

/// Runs `plan` both ways and returns the rows if they agree.
pub(crate) async fn run(session: &Session, plan: &LogicalPlan) -> Result<QueryResult> {
    let (schema, cached) = session.collect_with(plan, |config| config.cache = true).await?;
    let (_, plain) = session.collect_with(plan, |config| config.cache = false).await?;
    if let Some(difference) = difference(&cached, &plain)? {
        return Err(Error::new(
            ErrorKind::Internal,
            format!("thermocline.verify: the answer with caches differs from the one without: {difference}"),
        ));
    }
    QueryResult::from_batches(schema, cached)
}

/// The first difference between two answers as multisets of rows.
fn difference(cached: &[RecordBatch], plain: &[RecordBatch]) -> Result<Option<String>> {
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if count(cached) != count(plain) {
        return Ok(Some(format!("{} rows against {}", count(cached), count(plain))));
    }
    let mut rows: HashMap<String, i64> = HashMap::new();
    for (batches, step) in [(cached, 1), (plain, -1)] {
        for batch in batches {
            for row in rendered(batch)? {
                *rows.entry(row).or_insert(0) += step;
            }
        }
    }
    Ok(rows.into_iter().find(|(_, balance)| *balance != 0).map(|(row, balance)| {
        format!("the row ({row}) is only {} caches", if balance > 0 { "with" } else { "without" })
    }))
}

/// Each row as text, with floating point numbers at nine significant digits.
fn rendered(batch: &RecordBatch) -> Result<Vec<String>> {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType, Float64Type};
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![String::new(); batch.num_rows()];
    for column in batch.columns() {
        if column.data_type() == &DataType::Float64 {
            let values = column.as_primitive::<Float64Type>();
            for (index, row) in rows.iter_mut().enumerate() {
                if values.is_null(index) {
                    row.push_str("NULL|");
                } else {
                    row.push_str(&format!("{:.8e}|", values.value(index)));
                }
            }
            continue;
        }
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
            .map_err(|error| datafusion::common::DataFusionError::ArrowError(Box::new(error), None))?;
        for (index, row) in rows.iter_mut().enumerate() {
            row.push_str(&formatter.value(index).to_string());
            row.push('|');
        }
    }
    Ok(rows)
}
