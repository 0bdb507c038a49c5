//! A fused part of a plan as a table: the rows that an aggregate over other tables has.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{PipelineExec, StageInput};
use super::fallback::Fallback;
use super::relation::Rows;
use super::star::FusedPlan;
use crate::column_table::ColumnScan;
use crate::query;
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
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = session.config_options().extensions.get::<ThermoclineConfig>();
        let uses_pool = config.is_none_or(|config| config.cache);
        let signature = query::signature(&self.replaced.display_indent().to_string());
        let mut inputs = Vec::with_capacity(self.plan.stages.len());
        for stage in &self.plan.stages {
            inputs.push(match &stage.relation.rows {
                Rows::Pages { database, table } => {
                    let (database, table) = (Arc::clone(database), Arc::clone(table));
                    let scan = ColumnScan::new(database, table, stage.predicate.clone(), signature, uses_pool);
                    StageInput::Pages(Arc::new(scan))
                }
                Rows::Batches { table, filters } => {
                    StageInput::Batches(table.scan(session, Some(&stage.columns), filters, None).await?)
                }
            });
        }
        let exec = PipelineExec::new(
            Arc::clone(&self.plan),
            inputs,
            Fallback::new(&self.replaced, session)?,
            &self.schema,
            projection,
            session.config().target_partitions(),
        )?;
        Ok(Arc::new(exec))
    }
}
