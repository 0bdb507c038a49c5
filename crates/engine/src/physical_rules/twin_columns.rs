//! Filters do not come to another column of the same name.
//!
//! The stock rules that push filters down match a filter's columns with those of the node below by their names. A join
//! may give two columns of one name: of `l RIGHT JOIN r … WHERE l.b IS NULL` the filter came to `r.b`, and rows were lost
//! (DataFusion 55.2, `FilterRemapper`). [`KeepTwinsApart`] stands around these rules and hides what gives two columns of
//! one name from the filters of what is above.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::veil::{Hidden, VeilExec};

/// See the module.
#[derive(Debug)]
pub(super) struct KeepTwinsApart {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl KeepTwinsApart {
    pub(super) fn around(inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Self {
        Self { inner }
    }
}

impl PhysicalOptimizerRule for KeepTwinsApart {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|node| Ok(has_twins(node)))? {
            return self.inner.optimize(plan, config);
        }
        let hidden = plan.transform_up(|node| match has_twins(&node) {
            true => Ok(Transformed::yes(Arc::new(VeilExec::over(node, Hidden::Filters)))),
            false => Ok(Transformed::no(node)),
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

    #[tokio::test]
    async fn filters_of_one_side_do_not_come_to_the_other() {
        let state = SessionStateBuilder::new().with_default_features().build();
        let mut rules = state.physical_optimizers().to_vec();
        super::super::install(&mut rules);
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        let session = SessionContext::new_with_state(state);
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
