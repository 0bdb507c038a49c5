//! Subqueries of one value that depend on nothing around them: pipelines are made with parameters in their place, and bound
//! to their values before they run.
//!
//! **Owns**: which parameter stands for which subquery while a part of a plan is fused; the values. **Does not own**: how
//! subqueries are planned and answered, in pipelines or not (the session's planner).
//!
//! **Invariants**: a subquery is answered once for each run, wherever in the part it is mentioned; one without rows is
//! NULL, one of several rows an error.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use thermocline_pipeline::{Expression, ValueType};

use super::expressions::{literal, value_type};

/// What is shared by all that is planned of one part of a plan.
#[derive(Debug, Clone)]
pub(super) struct Planning {
    /// The session's, which functions go by.
    pub(super) options: Arc<ConfigOptions>,
    /// The subqueries that parameters stand for, by their numbers.
    subqueries: Rc<RefCell<Vec<Arc<LogicalPlan>>>>,
}

impl Planning {
    pub(super) fn new(options: &Arc<ConfigOptions>) -> Self {
        Self { options: Arc::clone(options), subqueries: Rc::default() }
    }

    /// The expression with placeholders for its subqueries, as far as parameters can be of their type.
    pub(super) fn without_subqueries(&self, expr: &Expr) -> Result<Expr> {
        let replaced = expr.clone().transform_up(|nested| {
            let Expr::ScalarSubquery(subquery) = &nested else { return Ok(Transformed::no(nested)) };
            let field = Arc::clone(subquery.subquery.schema().field(0));
            let is_number = value_type(field.data_type()).is_some_and(|made| made != ValueType::Text);
            if !is_number || !subquery.outer_ref_columns.is_empty() {
                return Ok(Transformed::no(nested));
            }
            let id = shown(self.number(&subquery.subquery));
            Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))))
        });
        replaced.map(|replaced| replaced.data)
    }

    /// The parameter that stands for a subquery.
    fn number(&self, subquery: &Arc<LogicalPlan>) -> usize {
        let mut subqueries = self.subqueries.borrow_mut();
        if let Some(known) = subqueries.iter().position(|known| known == subquery) {
            return known;
        }
        subqueries.push(Arc::clone(subquery));
        subqueries.len() - 1
    }

    /// The parameter that a placeholder is, if it stands for a subquery.
    pub(super) fn parameter(&self, placeholder: &Placeholder) -> Option<Expression> {
        let number = (0..self.subqueries.borrow().len()).find(|number| shown(*number) == placeholder.id)?;
        let value_type = value_type(placeholder.field.as_ref()?.data_type())?;
        Some(Expression::Parameter { number, value_type })
    }

    /// All subqueries so far.
    pub(super) fn subqueries(&self) -> Vec<Arc<LogicalPlan>> {
        self.subqueries.borrow().clone()
    }
}

/// How people see a subquery in expressions. Placeholders of queries begin with a dollar.
fn shown(number: usize) -> String {
    format!("(subquery {number})")
}

/// The value of a subquery.
///
/// # Errors
/// Several rows; whatever the subquery meets.
pub(super) async fn value(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Expression> {
    let mut batches = execute_stream(Arc::clone(plan), Arc::clone(context))?;
    let mut value = None;
    while let Some(batch) = batches.try_next().await? {
        if batch.num_rows() > 1 || batch.num_rows() == 1 && value.is_some() {
            return exec_err!("Scalar subquery returned more than one row");
        }
        if batch.num_rows() == 1 {
            value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
        }
    }
    let schema = plan.schema();
    let data_type = schema.field(0).data_type();
    let Some(value_type) = value_type(data_type) else {
        return internal_err!("a subquery of type {data_type} as a parameter");
    };
    match value.filter(|value| !value.is_null()) {
        None => Ok(Expression::Null { value_type }),
        Some(value) => match literal(&value) {
            Some(value) => Ok(value),
            None => internal_err!("{value} as the value of a subquery"),
        },
    }
}
