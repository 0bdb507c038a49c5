//! What the plan becomes, and that answers stay. Cancelled joins: `tests/integration/interrupts.rs`.
#![allow(clippy::unwrap_used)]

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use thermocline_hardware::SystemClock;

use super::*;

fn changed(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    interruptible(Arc::clone(plan), &clock).unwrap()
}

async fn context() -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3).with_batch_size(7));
    for statement in [
        "CREATE TABLE a AS SELECT value AS x, value % 5 AS k FROM range(0, 40)",
        "CREATE TABLE b AS SELECT value AS y, value % 3 AS k FROM range(0, 30)",
    ] {
        context.sql(statement).await.unwrap().collect().await.unwrap();
    }
    context
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

#[tokio::test]
async fn plans_without_joins_stay_as_they_are() {
    let context = context().await;
    let plan = plan(&context, "SELECT k, count(*) FROM a WHERE x > 3 GROUP BY k ORDER BY k").await;
    assert_eq!(shown(&changed(&plan)), shown(&plan));
}

#[tokio::test]
async fn only_conditions_on_pairs_of_rows_need_to_know_of_the_reader() {
    let context = context().await;
    for (sql, is_checked) in [
        ("SELECT a.x, b.y FROM a CROSS JOIN b", false),
        ("SELECT a.x, b.y FROM a JOIN b ON a.k = b.k", false),
        ("SELECT a.x, b.y FROM a JOIN b ON a.k = b.k AND a.x < b.y", true),
        ("SELECT a.x, b.y FROM a JOIN b ON a.x < b.y", true),
        ("SELECT a.x FROM a WHERE a.k IN (SELECT k FROM b)", true),
    ] {
        let changed = shown(&changed(&plan(&context, sql).await));
        assert_eq!(changed.starts_with("RunExec"), is_checked, "{changed}");
        assert!(changed.contains("ReturningExec"), "{changed}");
    }
}

#[tokio::test]
async fn sinks_are_dropped_with_the_stream_and_not_in_a_task() {
    let context = context().await;
    let insert = "INSERT INTO a SELECT a.x, b.k FROM a JOIN b ON a.x < b.y";
    for (sql, first, reader_count) in [
        (insert.to_owned(), "DataSinkExec", 1),
        (format!("{insert} WHERE a.x > (SELECT min(y) FROM b)"), "ScalarSubqueryExec", 2),
    ] {
        let changed = shown(&changed(&plan(&context, &sql).await));
        assert!(changed.starts_with(first), "{changed}");
        assert_eq!(changed.matches("RunExec").count(), reader_count, "{changed}");
        let sink = changed.find("DataSinkExec").unwrap();
        assert!(changed[sink..].contains("RunExec") && !changed[..sink].contains("RunExec"), "{changed}");
    }
}

#[tokio::test]
async fn answers_stay() {
    let context = context().await;
    for sql in [
        "SELECT a.x, b.y FROM a CROSS JOIN b",
        "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k",
        "SELECT a.x, b.y FROM a FULL JOIN b ON a.k = b.k AND a.x > b.y + 20",
        "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x < b.y",
        "SELECT a.x, b.y FROM a RIGHT JOIN b ON a.x < b.y - 5",
        "SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM b)",
        "SELECT a.x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y > 100)",
        "SELECT a.x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y > a.x + 3)",
        "SELECT a.x FROM a WHERE a.x NOT IN (SELECT y FROM b)",
        "SELECT a.x FROM a WHERE a.k IN (SELECT k FROM b)",
        "SELECT a.x FROM a WHERE a.k NOT IN (SELECT nullif(k, 2) FROM b)",
        "SELECT a.x FROM a WHERE nullif(a.k, 1) NOT IN (SELECT k FROM b)",
        "SELECT a.x FROM a WHERE a.k IN (SELECT k FROM b) OR a.x = 9",
        "SELECT b.y FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.k = b.k + 2 AND a.x > b.y)",
        "SELECT a.k, sum(b.y) FROM a JOIN b ON a.x <> b.y JOIN a c ON b.k = c.k AND c.x <> a.x GROUP BY a.k",
        "SELECT x, (SELECT max(y) FROM b WHERE b.k = a.k) FROM a",
    ] {
        let sql =
            format!("{sql} ORDER BY 1, {}", if sql.contains("b.y") && !sql.contains("EXISTS") { "2" } else { "1" });
        let plan = plan(&context, &sql).await;
        let changed = changed(&plan);
        // Joins keep what they have built, and the changed plan has the same ones.
        let plan = reset_plan_states(plan).unwrap();
        let expected = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
        // Twice: a plan may be executed again after its streams are gone.
        for _ in 0..2 {
            let changed = reset_plan_states(Arc::clone(&changed)).unwrap();
            let found = datafusion::physical_plan::collect(changed, context.task_ctx()).await.unwrap();
            assert_eq!(
                pretty_format_batches(&found).unwrap().to_string(),
                pretty_format_batches(&expected).unwrap().to_string(),
                "{sql}"
            );
        }
    }
}

#[tokio::test]
async fn a_condition_fails_once_all_streams_are_gone() {
    let context = context().await;
    let plan = changed(&plan(&context, "SELECT a.x, b.y FROM a JOIN b ON a.x < b.y").await);
    let mut conditions = vec![];
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            conditions.extend(join.filter().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    let [condition] = conditions.as_slice() else { unreachable!("one join, not {}", conditions.len()) };
    let pairs = RecordBatch::new_empty(Arc::clone(condition.schema()));
    assert!(condition.expression().evaluate(&pairs).is_ok());
    let mut stream = plan.execute(0, context.task_ctx()).unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(condition.expression().evaluate(&pairs).is_ok());
    drop(stream);
    let error = crate::error::Error::from(condition.expression().evaluate(&pairs).unwrap_err());
    assert_eq!(error.kind(), crate::error::ErrorKind::Cancelled);
    let _again = plan.execute(0, context.task_ctx()).unwrap();
    assert!(condition.expression().evaluate(&pairs).is_ok());
}

#[tokio::test]
async fn filters_that_joins_and_sorts_update_while_they_run_stay_connected() {
    let context = context().await;
    let mut filter_count = 0;
    for sql in [
        "SELECT a.x, b.y FROM a JOIN b ON a.k = b.k ORDER BY a.x, b.y LIMIT 3",
        "SELECT a.x, b.y FROM a JOIN (SELECT * FROM b ORDER BY y LIMIT 4) b ON a.k = b.k",
        "SELECT max(a.x) FROM a JOIN b ON a.k = b.k",
    ] {
        let plan = plan(&context, sql).await;
        let changed = changed(&plan);
        assert_eq!(produced_filters(&changed), produced_filters(&plan), "{sql}");
        filter_count += produced_filters(&plan).len();
    }
    assert!(filter_count >= 2, "{filter_count}");
}

/// The addresses of the expressions that nodes of `plan` change while they run.
fn produced_filters(plan: &Arc<dyn ExecutionPlan>) -> Vec<*const ()> {
    let mut filters = vec![];
    plan.apply(|node| {
        filters.extend(node.dynamic_expressions_produced().iter().map(|filter| Arc::as_ptr(filter).cast::<()>()));
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    filters
}
