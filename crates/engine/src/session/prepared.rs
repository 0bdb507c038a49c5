//! `PREPARE`, `EXECUTE` and `DEALLOCATE`: DataFusion's, but that a statement is planned whenever it is executed.
//!
//! A plan holds what its tables were when it was made: one that was kept from `PREPARE` on would answer from then.

use std::collections::HashMap;

use datafusion::logical_expr::{Deallocate, LogicalPlan, Statement as PlanStatement};
use datafusion::sql::parser::Statement;
use tokio::sync::Mutex;

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
        let anew = match &plan {
            PlanStatement::Execute(execute) => {
                let written = self.by_name.lock().await.get(&execute.name).cloned();
                match written {
                    Some(written) => Some(session.plan(&written).await?),
                    None => None,
                }
            }
            _ => None,
        };
        // Held from taking the old plan away until the new one has been used.
        let mut by_name = self.by_name.lock().await;
        let context = session.context();
        let run = async |plan| context.execute_logical_plan(LogicalPlan::Statement(plan)).await;
        match plan {
            PlanStatement::Prepare(prepare) => {
                let name = prepare.name.clone();
                run(PlanStatement::Prepare(prepare)).await?;
                by_name.insert(name, statement.clone());
                Ok(None)
            }
            PlanStatement::Execute(execute) => {
                // Another session may have taken it away meanwhile.
                if let Some(anew) = anew.filter(|_| by_name.contains_key(&execute.name)) {
                    // It is not there if it could not be planned the last time.
                    let _ = run(PlanStatement::Deallocate(Deallocate { name: execute.name.clone() })).await;
                    context.execute_logical_plan(anew).await?;
                }
                let (_, plan) = run(PlanStatement::Execute(execute)).await?.into_parts();
                Ok(Some(plan))
            }
            PlanStatement::Deallocate(deallocate) => {
                let was_there = by_name.remove(&deallocate.name).is_some();
                match run(PlanStatement::Deallocate(deallocate)).await {
                    // It could not be planned the last time.
                    Err(_) if was_there => Ok(None),
                    done => done.map(|_| None).map_err(Error::from),
                }
            }
            other => Err(Error::input(format!("{} is not supported", other.name()))),
        }
    }
}
