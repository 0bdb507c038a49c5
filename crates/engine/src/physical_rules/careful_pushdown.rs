//! Filters do not come where they would drop rows that are wanted.
//!
//! [`CarefulPushdown`] stands around the stock rules that push filters down, and hides from the filters of what is above
//!
//! - what gives two columns of one name. The rules match a filter's columns with those of the node below by their names:
//!   of `l RIGHT JOIN r … WHERE l.b IS NULL` the filter came to `r.b`, and rows were lost (DataFusion 55.2,
//!   `FilterRemapper`);
//! - what a hash join by floats probes with. While it runs the join gives it the range of the keys that it has built on,
//!   which ends at a zero of one sign: a scan drops the rows of the other zero, which the join holds to be equal.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;

use super::veil::{Hidden, VeilExec};

/// See the module.
#[derive(Debug)]
pub(super) struct CarefulPushdown {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl CarefulPushdown {
    pub(super) fn around(inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { inner }
    }
}

impl PhysicalOptimizerRule for CarefulPushdown {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(has_twins(node) || joins_by_floats(node)))? {
            return self.inner.optimize(plan, config);
        }
        let hidden = plan.transform_up(|node| {
            let node = match joins_by_floats(&node) {
                true => with_hidden_probe(node)?,
                false => Transformed::no(node),
            };
            Ok(match has_twins(&node.data) {
                true => Transformed::yes(hide(node.data)),
                false => node,
            })
        })?;
        let optimized = self.inner.optimize(hidden.data, config)?;
        let is_veil = |node: &Arc<dyn ExecutionPlan>| {
            let veil = node.downcast_ref::<VeilExec>().filter(|veil| veil.hidden() == Hidden::Filters);
            veil.map(|veil| Arc::clone(veil.input()))
        };
        optimized
            .transform_up(|node| match is_veil(&node) {
                Some(input) => Ok(Transformed::yes(input)),
                None => Ok(Transformed::no(node)),
            })
            .data()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

fn hide(node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(VeilExec::over(node, Hidden::Filters))
}

/// Whether the node is a hash join one of whose keys is a float.
fn joins_by_floats(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<HashJoinExec>().is_some_and(|join| {
        let schema = join.left().schema();
        join.on().iter().any(|(key, _)| key.data_type(&schema).is_ok_and(|data_type| data_type.is_floating()))
    })
}

/// The join, whose right side is the one that it probes with.
fn with_hidden_probe(join: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut sides: Vec<_> = join.children().into_iter().map(Arc::clone).collect();
    if let Some(probe) = sides.pop() {
        sides.push(hide(probe));
    }
    Ok(Transformed::yes(replace_children_if_necessary(join, sides)?))
}

/// Whether two columns of the node have one name.
fn has_twins(node: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = node.schema();
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    fn session() -> SessionContext {
        let state = SessionStateBuilder::new().with_default_features().build();
        let mut rules = state.physical_optimizers().to_vec();
        super::super::install(&mut rules);
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        SessionContext::new_with_state(state)
    }

    #[tokio::test]
    async fn joins_by_floats_find_both_zeros_in_files() {
        let session = session();
        let folder = tempfile::tempdir().unwrap();
        for (name, floats) in [("a", "(0.0), (-0.0), (1.5)"), ("b", "(-0.0), (2.5)"), ("c", "(0.0), (-2.5)")] {
            let path = folder.path().join(format!("{name}.parquet"));
            for sql in [
                format!("COPY (SELECT column1 AS x FROM (VALUES {floats})) TO '{}'", path.display()),
                format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", path.display()),
            ] {
                session.sql(&sql).await.unwrap().collect().await.unwrap();
            }
        }
        for sql in [
            "SELECT a.x FROM a JOIN b ON a.x = b.x",
            "SELECT a.x FROM b JOIN a ON a.x = b.x",
            "SELECT a.x FROM c JOIN a ON a.x = c.x",
            "SELECT x FROM a WHERE x IN (SELECT x FROM b)",
            "SELECT x FROM a WHERE x IN (SELECT x FROM c)",
        ] {
            let rows = session.sql(sql).await.unwrap().collect().await.unwrap();
            assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2, "{sql}");
        }
    }

    #[tokio::test]
    async fn filters_of_one_side_do_not_come_to_the_other() {
        let session = session();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        for sql in [
            format!(
                "COPY (SELECT column1 AS id, column2 AS k, column3 AS b FROM (VALUES (1, 5, true), (2, 6, false), (3, 1, true))) TO '{}'",
                path.display()
            ),
            format!("CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{}'", path.display()),
            "CREATE TABLE l AS SELECT column1 AS i, column2 AS b FROM (VALUES (1, true), (2, false))".to_owned(),
        ] {
            session.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        for (sql, expected) in [
            ("SELECT count(*), max(r.id) FROM l RIGHT JOIN r ON l.i = r.k WHERE l.b IS NULL", ["2", "2"]),
            ("SELECT count(r.b), max(r.id) FROM l RIGHT JOIN r ON l.i = r.k WHERE l.b IS NULL", ["2", "2"]),
            ("SELECT count(r.b), max(r.id) FROM l FULL JOIN r ON l.i = r.k WHERE l.b IS NULL AND r.id < 9", ["2", "2"]),
        ] {
            let rows = session.sql(sql).await.unwrap().collect().await.unwrap();
            let shown = pretty_format_batches(&rows).unwrap().to_string();
            assert!(expected.iter().all(|value| shown.contains(value)), "{sql}\n{shown}");
        }
        let sql = "SELECT r.b, r.id FROM l RIGHT JOIN r ON l.i = r.k WHERE l.b IS NULL";
        let rows = session.sql(sql).await.unwrap().collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    }
}
