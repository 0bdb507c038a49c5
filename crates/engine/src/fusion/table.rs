//! A fused part of a plan as a table: the rows that an aggregate over other tables has.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use super::exec::{PipelineExec, StageInput};
use super::fallback::{Fallback, state};
use super::relation::Rows;
use super::star::FusedPlan;
use crate::column_table::ColumnScan;
use crate::query::{self, QueryContext};
use crate::settings::ThermoclineConfig;

/// See the module.
#[derive(Debug)]
pub(super) struct FusedTable {
    plan: Arc<FusedPlan>,
    /// What it stands for.
    replaced: Arc<LogicalPlan>,
    schema: SchemaRef,
}

impl FusedTable {
    /// `schema` has the columns of `replaced` under names of its own.
    pub(super) fn new(plan: FusedPlan, replaced: LogicalPlan, schema: SchemaRef) -> Self {
        Self { plan: Arc::new(plan), replaced: Arc::new(replaced), schema }
    }

    /// The plan that it stands for.
    pub(super) fn replaced(&self) -> &LogicalPlan {
        &self.replaced
    }

    /// The subqueries that its pipelines have parameters for.
    pub(super) fn subqueries(&self) -> &[Arc<LogicalPlan>] {
        &self.plan.subqueries
    }

    /// The plan without pipelines.
    async fn by_operators(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Fallback::new(&self.replaced, session)?.plan().await?;
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let column = |column: &usize| {
            let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(plan.schema().field(*column).name(), *column));
            (expr, self.schema.field(*column).name().clone())
        };
        let columns: Vec<_> = projection.unwrap_or(&all).iter().map(column).collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(&plan))?))
    }
}

#[async_trait]
impl TableProvider for FusedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = session.config_options().extensions.get::<ThermoclineConfig>();
        let uses_pool = config.is_none_or(|config| config.cache);
        let context = session.config().get_extension::<QueryContext>().unwrap_or_default();
        let query = (query::signature(&self.replaced.display_indent().to_string()), context.progress());
        let mut inputs = Vec::with_capacity(self.plan.stages.len());
        for stage in &self.plan.stages {
            inputs.push(match &stage.relation.rows {
                Rows::Pages { database, table } => {
                    context.read().note_segments(table);
                    let (database, table) = (Arc::clone(database), Arc::clone(table));
                    let scan = ColumnScan::new(database, table, stage.predicate.clone(), query, uses_pool);
                    StageInput::Pages(Arc::new(scan))
                }
                Rows::Batches { table, columns, filters, .. } => {
                    let columns = stage.columns.iter().map(|column| columns.column(*column)).collect();
                    match table.scan_text(session, columns, filters).await? {
                        Some(scan) => StageInput::Batches(scan),
                        // The files are others than those that were planned with.
                        None => return self.by_operators(session, projection).await,
                    }
                }
                Rows::Chunks { table, .. } => match table.row_groups(session, &stage.columns).await? {
                    Ok(row_groups) => StageInput::Chunks(Arc::new(row_groups)),
                    // The files are others than those that were planned with.
                    Err(_) => return self.by_operators(session, projection).await,
                },
                Rows::Arrays { batches, version, .. } => {
                    context.read().note_version(version.clone());
                    StageInput::Arrays(Arc::clone(batches))
                }
                Rows::Groups { .. } => StageInput::Groups,
            });
        }
        let mut subqueries = Vec::with_capacity(self.plan.subqueries.len());
        for subquery in &self.plan.subqueries {
            subqueries.push(state(session)?.query_planner().create_physical_plan(subquery, session).await?);
        }
        let exec = PipelineExec::new(
            Arc::clone(&self.plan),
            (inputs, subqueries),
            Fallback::new(&self.replaced, session)?,
            &self.schema,
            projection,
            session.config().target_partitions(),
        )?;
        Ok(Arc::new(exec.with_enough(limit)))
    }
}
