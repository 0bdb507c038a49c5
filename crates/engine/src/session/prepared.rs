//! `PREPARE`, `EXECUTE` and `DEALLOCATE` of a session: a statement is planned whenever it is executed.
//!
//! A plan holds its tables, as they were when it was made: one that was kept from `PREPARE` on would answer from then, and
//! keep the memory of tables that are dropped. And DataFusion optimizes what it keeps before it was analyzed (55.2): rules
//! of the analyzer found subqueries joined already that they would have put right.
//!
//! What a host has prepared in its own context is DataFusion's.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, exec_err, not_impl_err, plan_err};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Prepare, Statement as PlanStatement};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use parking_lot::Mutex;

use super::Session;
use crate::error::{Error, Result};

/// The statements that `PREPARE` has named, as they were written.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    by_name: Mutex<HashMap<String, Statement>>,
}

impl Prepared {
    /// Runs one of the three statements. Of `EXECUTE` the plan with its parameters in place.
    pub(super) async fn run(
        &self,
        session: &Session,
        statement: &Statement,
        plan: PlanStatement,
    ) -> Result<Option<LogicalPlan>> {
        let context = session.context();
        let run = async |plan| context.execute_logical_plan(LogicalPlan::Statement(plan)).await;
        match plan {
            PlanStatement::Prepare(prepare) => {
                check_parameters(&prepare)?;
                let mut by_name = self.by_name.lock();
                if by_name.contains_key(&prepare.name) {
                    return Err(Error::input(format!("Prepared statement '{}' already exists", prepare.name)));
                }
                by_name.insert(prepare.name, statement.clone());
                Ok(None)
            }
            PlanStatement::Execute(execute) => {
                let written = self.by_name.lock().get(&execute.name).cloned();
                let Some(written) = written else {
                    return Ok(Some(run(PlanStatement::Execute(execute)).await?.into_parts().1));
                };
                match session.plan(&written).await? {
                    LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
                        check_parameters(&prepare)?;
                        Ok(Some(with_parameters(prepare, execute.parameters, context)?))
                    }
                    other => Err(Error::input(format!("{} was prepared", other.display()))),
                }
            }
            PlanStatement::Deallocate(deallocate) => {
                let is_ours = self.by_name.lock().remove(&deallocate.name).is_some();
                if !is_ours {
                    run(PlanStatement::Deallocate(deallocate)).await?;
                }
                Ok(None)
            }
            other => Err(Error::input(format!("{} is not supported", other.name()))),
        }
    }
}

/// That there is a type for each parameter, if there are any.
fn check_parameters(prepare: &Prepare) -> PlanResult<()> {
    let (given, used) = (prepare.fields.len(), prepare.input.get_parameter_names()?.len());
    if given > 0 && given != used {
        return plan_err!("Prepare specifies {given} data types but query has {used} parameters");
    }
    Ok(())
}

/// The statement with values for its parameters.
fn with_parameters(prepare: Prepare, given: Vec<Expr>, context: &SessionContext) -> PlanResult<LogicalPlan> {
    let Prepare { name, fields, input } = prepare;
    let state = context.state();
    let simplifier = ExprSimplifier::new(
        SimplifyContext::builder()
            .with_schema(Arc::clone(input.schema()))
            .with_config_options(Arc::clone(state.config_options()))
            .with_query_execution_start_time(state.execution_props().query_execution_start_time)
            .build(),
    );
    let values = given.into_iter().map(|expr| match simplifier.simplify(expr)? {
        Expr::Literal(value, metadata) => Ok(ScalarAndMetadata::new(value, metadata)),
        other => not_impl_err!("Unsupported parameter type: {other}"),
    });
    let mut values = values.collect::<PlanResult<Vec<_>>>()?;
    if !fields.is_empty() {
        if values.len() != fields.len() {
            return exec_err!(
                "Prepared statement '{name}' expects {} parameters, but {} provided",
                fields.len(),
                values.len()
            );
        }
        let cast = values.into_iter().zip(&fields).map(|(value, field)| value.cast_storage_to(field.data_type()));
        values = cast.collect::<PlanResult<_>>()?;
    }
    Arc::unwrap_or_clone(input).replace_params_with_values(&ParamValues::List(values))
}
