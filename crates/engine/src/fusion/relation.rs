//! A mention of a table in a plan, and what is known of it at planning.
//!
//! **Does not own**: how its rows are read (`table`, `run`).

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Expr, TableScan};

use super::Refusal;
use crate::column_table::{ColumnTable, OpenTable};
use crate::database::Database;
use crate::raw_table::RawTable;

/// A mention of a table in a plan.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) name: String,
    pub(super) schema: SchemaRef,
    pub(super) rows: Rows,
}

/// Where a relation's rows come from.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    /// Pages of a column table.
    Pages { database: Arc<Database>, table: Arc<OpenTable> },
    /// Batches of a scan of raw files, or of what is kept of them, whose filters the scan evaluates.
    Batches { table: Arc<RawTable>, filters: Vec<Expr> },
}

impl Relation {
    /// Of a scan of a column table, whose filters are left to the pipeline.
    pub(super) fn of_column_table(table: &ColumnTable) -> Self {
        let open = table.open();
        let rows = Rows::Pages { database: Arc::clone(table.database()), table: Arc::clone(open) };
        Self { name: open.name.name.clone(), schema: Arc::clone(&open.schema), rows }
    }

    /// Of a scan of raw files.
    pub(super) fn of_raw_table(scan: &TableScan, table: &RawTable) -> Result<Self, Refusal> {
        let name = scan.table_name.table().to_owned();
        if !table.is_text() {
            return Err(Refusal::new(format!("{name} is no column table, and not of text files")));
        }
        let rows = Rows::Batches { table: Arc::new(table.clone()), filters: scan.filters.clone() };
        Ok(Self { name, schema: scan.source.schema(), rows })
    }

    pub(super) fn database(&self) -> &Arc<Database> {
        match &self.rows {
            Rows::Pages { database, .. } => database,
            Rows::Batches { table, .. } => table.database(),
        }
    }

    /// Whether its rows come as batches.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.rows, Rows::Batches { .. })
    }

    /// Whether its scan rejects rows by other columns than this one.
    pub(super) fn is_filtered_beyond(&self, column: usize) -> bool {
        let is_other =
            |filter: &Expr| filter.column_refs().iter().any(|of| of.name != *self.schema.field(column).name());
        match &self.rows {
            Rows::Pages { .. } => false,
            Rows::Batches { filters, .. } => filters.iter().any(is_other),
        }
    }

    /// Rows, of raw files a guess.
    pub(super) fn row_count(&self) -> u64 {
        match &self.rows {
            Rows::Pages { table, .. } => table.row_count(),
            Rows::Batches { table, .. } => table.guessed_rows(),
        }
    }

    /// How many different values a column has at most; of raw files nothing is known.
    pub(super) fn most_values(&self, column: usize) -> u64 {
        match &self.rows {
            Rows::Pages { table, .. } => table.most_values(column),
            Rows::Batches { .. } => self.row_count(),
        }
    }

    /// Bytes that a column's pages take.
    pub(super) fn column_bytes(&self, column: usize) -> Option<u64> {
        match &self.rows {
            Rows::Pages { table, .. } => Some(table.column_bytes(column)),
            Rows::Batches { .. } => None,
        }
    }
}
