//! `PREPARE`, `EXECUTE` and `DEALLOCATE`: DataFusion's, but that a statement is planned whenever it is executed.
//!
//! A plan holds its tables, as they were when it was made: one that was kept from `PREPARE` on would answer from then, and
//! keep the memory of tables that are dropped. DataFusion has one only while it makes it ready to run.

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
        // Held while DataFusion has the plan.
        let mut by_name = self.by_name.lock().await;
        let context = session.context();
        let run = async |plan| context.execute_logical_plan(LogicalPlan::Statement(plan)).await;
        let forget = async |name: &str| {
            // It is there: whoever asks holds the lock.
            let _ = run(PlanStatement::Deallocate(Deallocate { name: name.to_owned() })).await;
        };
        match plan {
            PlanStatement::Prepare(prepare) => {
                let name = prepare.name.clone();
                if by_name.contains_key(&name) {
                    return Err(Error::input(format!("Prepared statement '{name}' already exists")));
                }
                run(PlanStatement::Prepare(prepare)).await?;
                forget(&name).await;
                by_name.insert(name, statement.clone());
                Ok(None)
            }
            PlanStatement::Execute(execute) => {
                let name = execute.name.clone();
                // Another session may have taken it away meanwhile.
                let anew = anew.filter(|_| by_name.contains_key(&name));
                let is_ours = anew.is_some();
                if let Some(anew) = anew {
                    context.execute_logical_plan(anew).await?;
                }
                let executed = run(PlanStatement::Execute(execute)).await;
                if is_ours {
                    forget(&name).await;
                }
                Ok(Some(executed?.into_parts().1))
            }
            PlanStatement::Deallocate(deallocate) => {
                if by_name.remove(&deallocate.name).is_none() {
                    run(PlanStatement::Deallocate(deallocate)).await?;
                }
                Ok(None)
            }
            other => Err(Error::input(format!("{} is not supported", other.name()))),
        }
    }
}
