//! The operators that a fused part of a plan stands for, for when its pipelines cannot go on.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};

use crate::settings::ThermoclineConfig;

/// The session's state.
///
/// # Errors
/// A session that is not DataFusion's.
pub(super) fn state(session: &dyn Session) -> Result<&SessionState> {
    match session.as_any().downcast_ref() {
        Some(state) => Ok(state),
        None => internal_err!("pipelines need DataFusion's own SessionState"),
    }
}

/// What is needed to plan them, which is done only when they are asked for.
#[derive(Debug)]
pub(super) struct Fallback {
    plan: Arc<LogicalPlan>,
    state: SessionState,
}

impl Fallback {
    /// For an optimised plan, in the session that plans it.
    ///
    /// # Errors
    /// A session that is not DataFusion's.
    pub(super) fn new(plan: &Arc<LogicalPlan>, session: &dyn Session) -> Result<Self> {
        let mut state = state(session)?.clone();
        // Or it would be planned as the same pipelines again.
        if let Some(config) = state.config_mut().options_mut().extensions.get_mut::<ThermoclineConfig>() {
            config.fused_pipelines = false;
        }
        Ok(Self { plan: Arc::clone(plan), state })
    }

    /// The operators.
    pub(super) async fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        self.state.query_planner().create_physical_plan(&self.plan, &self.state).await
    }

    /// The rows, with the plan's columns.
    pub(super) async fn stream(&self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        execute_stream(self.plan().await?, context)
    }
}
