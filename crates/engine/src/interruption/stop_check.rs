//! A condition that fails once nobody wants the answer any more, and lets others compute while it is asked for long.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::hand_over::hand_over_if_long;
use super::run::Run;
use crate::error::{Error, ErrorKind};

/// The value of another expression, or an error when the query was cancelled.
#[derive(Debug)]
pub(super) struct StopCheck {
    condition: Arc<dyn PhysicalExpr>,
    run: Arc<Run>,
}

impl StopCheck {
    /// `filter`, checked each time it is evaluated: a join does so once for some thousand pairs of rows.
    pub(super) fn before(filter: &JoinFilter, run: &Arc<Run>) -> JoinFilter {
        let check = Self { condition: Arc::clone(filter.expression()), run: Arc::clone(run) };
        JoinFilter::new(Arc::new(check), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    }
}

impl PhysicalExpr for StopCheck {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.run.is_over() {
            return Err(Error::new(ErrorKind::Cancelled, "the query was cancelled").into_datafusion());
        }
        hand_over_if_long(self.run.clock.as_ref());
        self.condition.evaluate(batch)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input_schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.len()) {
            (Some(condition), 0) => Ok(Arc::new(Self { condition, run: Arc::clone(&self.run) })),
            (_, others) => plan_err!("a stop check has one child, not {}", others + 1),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl fmt::Display for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.condition, f)
    }
}

impl PartialEq for StopCheck {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.run, &other.run) && self.condition.eq(&other.condition)
    }
}

impl Eq for StopCheck {}

impl Hash for StopCheck {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
