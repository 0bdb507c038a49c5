//! A column table as DataFusion sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_err, not_impl_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::insert::ColumnSink;
use super::scan_exec::ColumnScanExec;
use super::scan_run::ColumnScan;
use super::store::OpenTable;
use crate::database::Database;
use crate::error::Error;
use crate::filters::{self, Fields};
use crate::query::QueryContext;
use crate::settings::ThermoclineConfig;

/// One version of a column table.
#[derive(Debug)]
pub(crate) struct ColumnTable {
    database: Arc<Database>,
    open: Arc<OpenTable>,
    /// Why it is not read by a fused pipeline, if that was tried.
    unfused: Option<Arc<str>>,
}

impl ColumnTable {
    pub(crate) fn new(database: Arc<Database>, open: Arc<OpenTable>) -> Self {
        Self { database, open, unfused: None }
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    pub(crate) fn open(&self) -> &Arc<OpenTable> {
        &self.open
    }

    /// The same table, which knows why it is not read by a fused pipeline; `None` if it knew already.
    pub(crate) fn unfused(&self, reason: &str) -> Option<Self> {
        let is_new = self.unfused.as_deref() != Some(reason);
        is_new.then(|| Self {
            database: Arc::clone(&self.database),
            open: Arc::clone(&self.open),
            unfused: Some(reason.into()),
        })
    }

    fn fields(&self) -> Fields<'_> {
        Fields { schema: &self.open.schema, element: None }
    }
}

#[async_trait]
impl TableProvider for ColumnTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.open.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters stay above the scan, which only leaves out row groups that have no row for them.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let fields = self.fields();
        let answer = |filter: &&Expr| match filters::condition(&fields, filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = session.config_options().extensions.get::<ThermoclineConfig>().cloned();
        let Some((predicate, _)) = filters::conjunction(&self.fields(), filters) else {
            return internal_err!("a filter was pushed into a scan that did not accept it");
        };
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.open.schema.fields().len()).collect(),
        };
        let context = session.config().get_extension::<QueryContext>().unwrap_or_default();
        context.read().note_segments(&self.open);
        let uses_pool = config.is_none_or(|config| config.cache);
        let (database, table) = (Arc::clone(&self.database), Arc::clone(&self.open));
        let mut scan =
            ColumnScan::new(database, table, predicate, (context.plan_signature(), context.progress()), uses_pool);
        scan.unfused.clone_from(&self.unfused);
        let partition_count = session.config().target_partitions();
        Ok(Arc::new(ColumnScanExec::new(Arc::new(scan), columns, limit, partition_count)?))
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if op == InsertOp::Replace {
            return not_impl_err!("REPLACE INTO needs a primary key, which column tables do not have");
        }
        self.database.check_changeable(&self.open.name).map_err(Error::into_datafusion)?;
        // Whoever has planned without a context may have read the table, as it is here.
        let as_opened = || vec![self.open.segment_infos().cloned().collect()];
        let context = session.config().get_extension::<QueryContext>();
        let read = context.map_or_else(as_opened, |context| context.read().segments(&self.open.name));
        let sink = ColumnSink::new(&self.database, &self.open, op == InsertOp::Overwrite, read)?;
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}
