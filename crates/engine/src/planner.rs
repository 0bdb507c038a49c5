//! Gives each query its [`QueryContext`] before it is planned physically, and sees to it that its joins can be stopped,
//! that it compares floats as SQL does, and that what it copies to files is there as a whole or not at all.
//!
//! DataFusion's `TaskContext` carries no identity of a query, and `TableProvider::scan` is called once per mention of a
//! table. A query planner is called exactly once per query, by our own session and by a bare `SessionContext` alike, so
//! this is where the context is made.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use thermocline_hardware::Clock;

use crate::interruption::interruptible;
use crate::query::QueryContext;
use crate::settings::SharedSettings;
use crate::staged_copy::{check_options, staged};
use crate::stand_ins::with_stand_ins;

/// Wraps another planner; plans with a fresh [`QueryContext`] unless the session already has one.
#[derive(Debug)]
pub(crate) struct CachingQueryPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    clock: Arc<dyn Clock>,
    settings: Arc<SharedSettings>,
}

impl CachingQueryPlanner {
    /// Plans through `inner`.
    pub(crate) fn new(
        inner: Arc<dyn QueryPlanner + Send + Sync>,
        clock: Arc<dyn Clock>,
        settings: Arc<SharedSettings>,
    ) -> Self {
        Self { inner, clock, settings }
    }

    /// The physical plan of `statement` with what is ours about it.
    async fn planned(&self, statement: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        check_options(statement, session)?;
        let replaced = with_stand_ins(statement)?;
        let plan = self.inner.create_physical_plan(replaced.as_ref().unwrap_or(statement), session).await?;
        interruptible(staged(statement, plan, &self.settings)?, &self.clock)
    }
}

#[async_trait]
impl QueryPlanner for CachingQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(context) = session.config().get_extension::<QueryContext>() {
            context.note_plan(plan);
            return self.planned(plan, session).await;
        }
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a caching query planner needs DataFusion's own SessionState");
        };
        let mut state = state.clone();
        let context = QueryContext::default();
        context.note_plan(plan);
        state.config_mut().set_extension(Arc::new(context));
        self.planned(plan, &state).await
    }
}
