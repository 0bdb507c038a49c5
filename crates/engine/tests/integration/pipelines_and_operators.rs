//! The same query answered by pipelines and by operators, and how many of many queries pipelines answered.

use thermocline_engine::Session;

use crate::harness::{rows, sorted_rows};

pub(crate) async fn physical_plan(session: &Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).await.join("\n")
}

/// The plan as it ran, with what was counted.
pub(crate) async fn analyzed(session: &Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n")
}

/// Whether pipelines answer a query.
pub(crate) async fn is_fused(session: &Session, sql: &str) -> bool {
    physical_plan(session, sql).await.contains("PipelineExec")
}

/// What operators answer.
pub(crate) async fn stock(session: &Session, sql: &str) -> Vec<String> {
    rows(session, "SET thermocline.fused_pipelines = 'off'").await;
    let stock = sorted_rows(session, sql).await;
    rows(session, "SET thermocline.fused_pipelines = 'on'").await;
    stock
}

/// What pipelines answer, and what operators do.
pub(crate) async fn both(session: &Session, sql: &str) -> (Vec<String>, Vec<String>) {
    (sorted_rows(session, sql).await, stock(session, sql).await)
}

/// How many of the queries that were compared pipelines answered.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) queries: usize,
    /// Queries that were planned as pipelines.
    pub(crate) fused: usize,
    /// Of these, queries that operators answered after all, so that nothing was compared but operators with themselves.
    taken_over: usize,
}

impl Tally {
    /// Counts a query; its plan.
    pub(crate) async fn count(&mut self, session: &Session, sql: &str) -> String {
        let plan = physical_plan(session, sql).await;
        self.queries += 1;
        if plan.contains("PipelineExec") {
            self.fused += 1;
            let analyzed = analyzed(session, sql).await;
            let fallbacks: Vec<&str> = analyzed.split("fallbacks=").skip(1).collect();
            assert!(!fallbacks.is_empty(), "{sql}\n{analyzed}");
            self.taken_over += usize::from(fallbacks.iter().any(|rest| !rest.starts_with('0')));
        }
        plan
    }

    /// That pipelines were planned for one query of so many at least, and hardly any was given up: a defect that always
    /// ends in operators would be found by no answer.
    pub(crate) fn assert_fused(&self, one_of: usize) {
        assert!(self.fused * one_of > self.queries && self.taken_over * 100 <= self.fused, "{self:?}");
    }
}
