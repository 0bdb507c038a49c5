//! Filters do not come where they would drop rows that are wanted.
//!
//! [`CarefulPushdown`] stands around the stock rules that push filters down, and hides from the filters of what is above
//!
//! - what gives two columns of one name. The rules match a filter's columns with those of the node below by their names:
//!   of `l RIGHT JOIN r … WHERE l.b IS NULL` the filter came to `r.b`, and rows were lost (DataFusion 55.2,
//!   `FilterRemapper`);
//! - columns of the side of a semi join that gives no rows, if they have the name of a key of the other and are not what it
//!   is compared with. A filter of a key comes to both sides, and of `l … WHERE EXISTS (… r WHERE r.b = l.a AND r.a < l.c)`
//!   that of `l.a` came to `r.a` (`HashJoinExec::gather_filters_for_pushdown`);
//! - the floats that a hash join probes with. While it runs the join gives it the range of the keys that it has built on,
//!   which ends at a zero of one sign: a scan drops the rows of the other zero, which the join holds to be equal. Where a
//!   filter of a key comes to both sides of a semi join, so are those of the other.
//!
//! The last two hide columns, and filters that name none of these come through; the first hides all.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, JoinOn, JoinOnRef};

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
        let is_harmless =
            |node: &Arc<dyn ExecutionPlan>| !has_twins(node) && hidden_columns(node).iter().all(BTreeSet::is_empty);
        if !plan.exists(|node| Ok(!is_harmless(node)))? {
            return self.inner.optimize(plan, config);
        }
        let hidden = plan.transform_up(|node| {
            let node = with_hidden_columns(node)?;
            Ok(match has_twins(&node.data) {
                true => Transformed::yes(Arc::new(VeilExec::over(node.data, Hidden::Filters)) as _),
                false => node,
            })
        })?;
        let optimized = self.inner.optimize(hidden.data, config)?;
        let is_veil = |node: &Arc<dyn ExecutionPlan>| {
            let veil = node.downcast_ref::<VeilExec>().filter(|veil| veil.is_of_filters());
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

/// Of either side of a hash join the columns that filters of others, or of its own, must not come to.
fn hidden_columns(node: &Arc<dyn ExecutionPlan>) -> [BTreeSet<usize>; 2] {
    let [mut of_left, mut of_right] = [BTreeSet::new(), BTreeSet::new()];
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return [of_left, of_right] };
    let (left, right) = (join.left().schema(), join.right().schema());
    let columns_of = |key| collect_columns(key).into_iter().map(|column| column.index());
    for (left_key, right_key) in join.on() {
        if !left_key.data_type(&left).is_ok_and(|data_type| data_type.is_floating()) {
            continue;
        }
        of_right.extend(columns_of(right_key));
        if *join.join_type() == JoinType::RightSemi {
            of_left.extend(columns_of(left_key));
        }
    }
    match join.join_type() {
        JoinType::LeftSemi => of_right.extend(namesakes(join.on(), &left, &right)),
        JoinType::RightSemi => {
            let keys: JoinOn = join.on().iter().map(|(left, right)| (Arc::clone(right), Arc::clone(left))).collect();
            of_left.extend(namesakes(&keys, &right, &left));
        }
        // Their filters come to the side that has their columns, or to none.
        _ => {}
    }
    [of_left, of_right]
}

/// The columns of the partners' side that have the name of a key and are not its partner.
fn namesakes(keys: JoinOnRef<'_>, of_keys: &Schema, of_partners: &Schema) -> BTreeSet<usize> {
    let column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
    let namesake = |at: usize| {
        let namesake = of_partners.index_of(of_keys.field(at).name()).ok()?;
        let is_partner = keys.iter().any(|(key, partner)| column(key) == Some(at) && column(partner) == Some(namesake));
        (!is_partner).then_some(namesake)
    };
    keys.iter().filter_map(|(key, _)| column(key)).filter_map(namesake).collect()
}

/// The node, with veils over those sides of it that have something to hide.
fn with_hidden_columns(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let hidden = hidden_columns(&node);
    if hidden.iter().all(BTreeSet::is_empty) {
        return Ok(Transformed::no(node));
    }
    let sides = node.children().into_iter().cloned().zip(hidden).map(|(side, columns)| match columns.is_empty() {
        true => side,
        false => Arc::new(VeilExec::over(side, Hidden::FiltersOf(columns))) as _,
    });
    let sides = sides.collect();
    Ok(Transformed::yes(replace_children_if_necessary(node, sides)?))
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
    use datafusion::physical_plan::displayable;
    use datafusion::prelude::SessionContext;

    fn session() -> SessionContext {
        let state = SessionStateBuilder::new().with_default_features().build();
        let mut rules = state.physical_optimizers().to_vec();
        super::super::install(&mut rules, &state.runtime_env().memory_pool);
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
        SessionContext::new_with_state(state)
    }

    /// A session with Parquet files of these queries as tables, and the folder that they lie in.
    async fn with_files(files: &[(&str, &str)]) -> (SessionContext, tempfile::TempDir) {
        let session = session();
        let folder = tempfile::tempdir().unwrap();
        for (name, query) in files {
            let path = folder.path().join(format!("{name}.parquet"));
            for sql in [
                format!("COPY ({query}) TO '{}'", path.display()),
                format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'", path.display()),
            ] {
                session.sql(&sql).await.unwrap().collect().await.unwrap();
            }
        }
        (session, folder)
    }

    #[tokio::test]
    async fn joins_by_floats_find_both_zeros_in_files() {
        let floats = |floats: &str| format!("SELECT column1 AS x FROM (VALUES {floats})");
        let (a, b, c) = (floats("(0.0), (-0.0), (1.5)"), floats("(-0.0), (2.5)"), floats("(0.0), (-2.5)"));
        let (session, _folder) = with_files(&[("a", &a), ("b", &b), ("c", &c)]).await;
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
    async fn joins_by_floats_leave_the_filters_of_others_alone() {
        let (session, _folder) = with_files(&[
            ("a", "SELECT 1.5 AS x"),
            ("b", "SELECT column1 AS x, column2 AS i FROM (VALUES (1.5, 1), (1.5, 2), (2.5, 3), (3.5, 4))"),
            ("c", "SELECT 2 AS i"),
        ])
        .await;
        let sql = "SELECT s.i FROM c JOIN (SELECT b.i FROM a JOIN b ON a.x = b.x) AS s ON c.i = s.i";
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let shown = displayable(plan.as_ref()).indent(true).to_string();
        let of_b: Vec<&str> = shown.lines().filter(|line| line.contains("b.parquet")).collect();
        assert!(of_b.len() == 1 && of_b[0].contains("DynamicFilter"), "{shown}");
        let rows = session.sql(sql).await.unwrap().collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1, "{shown}");
    }

    #[tokio::test]
    async fn filters_of_a_semi_joins_key_do_not_come_to_a_namesake() {
        let (session, _folder) = with_files(&[
            ("x", "SELECT 5 AS k"),
            ("l", "SELECT 5 AS a, 10 AS c UNION ALL SELECT 6, 10"),
            ("few", "SELECT 5 AS b, 1 AS a"),
            ("many", "SELECT value AS b, 1 AS a FROM generate_series(5, 50)"),
        ])
        .await;
        for r in ["few", "many"] {
            let sql = format!(
                "SELECT x.k FROM x JOIN (SELECT l.a FROM l WHERE EXISTS (SELECT 1 FROM {r} AS r WHERE r.b = l.a AND r.a < l.c)) \
                 AS s ON x.k = s.a"
            );
            let rows = session.sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1, "{sql}");
        }
    }

    #[tokio::test]
    async fn filters_of_one_side_do_not_come_to_the_other() {
        let r =
            "SELECT column1 AS id, column2 AS k, column3 AS b FROM (VALUES (1, 5, true), (2, 6, false), (3, 1, true))";
        let (session, _folder) = with_files(&[("r", r)]).await;
        let l = "CREATE TABLE l AS SELECT column1 AS i, column2 AS b FROM (VALUES (1, true), (2, false))";
        session.sql(l).await.unwrap().collect().await.unwrap();
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
