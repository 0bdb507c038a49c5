//! A mention of a table in a plan, and what is known of it at planning.
//!
//! **Does not own**: how its rows are read (`table`, `run`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::{Aggregate, Expr, TableScan};

use thermocline_pipeline::ValueType;

use super::Refusal;
use super::expressions::value_type;
use super::star::FusedPlan;
use crate::column_table::{ColumnTable, OpenTable};
use crate::database::Database;
use crate::parquet_table::ParquetFacts;
use crate::raw_table::RawTable;
use crate::raw_table::flattened::Flattened;
use crate::session::{MemoryTable, Version};

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
    Batches { database: Arc<Database>, table: Arc<RawTable>, columns: Arc<Flattened>, filters: Vec<Expr> },
    /// Column chunks of Parquet files.
    Chunks { database: Arc<Database>, table: Arc<RawTable>, facts: Arc<ParquetFacts> },
    /// Arrays in memory, as they were when the query was planned.
    Arrays { database: Arc<Database>, batches: Arc<[RecordBatch]>, version: Version },
    /// Groups of an aggregate, which pipelines before make.
    Groups { database: Arc<Database>, plan: Arc<FusedPlan>, aggregate: Arc<Aggregate> },
}

impl Relation {
    /// Of a scan of a column table, whose filters are left to the pipeline.
    pub(super) fn of_column_table(table: &ColumnTable) -> Self {
        let open = table.open();
        let rows = Rows::Pages { database: Arc::clone(table.database()), table: Arc::clone(open) };
        Self { name: open.name.name.clone(), schema: Arc::clone(&open.schema), rows }
    }

    /// Of a scan of files.
    pub(super) fn of_raw_table(scan: &TableScan, table: &RawTable) -> Result<Self, Refusal> {
        let name = scan.table_name.table().to_owned();
        let database = table.database().map_err(|_| closed(&name))?;
        let read = Arc::new(table.clone());
        match table.facts() {
            Some(facts) => {
                let rows = Rows::Chunks { database, table: read, facts: Arc::clone(facts) };
                Ok(Self { name, schema: scan.source.schema(), rows })
            }
            None if table.is_text() => {
                let columns = Arc::new(table.flattened());
                let schema = Arc::clone(columns.schema());
                Ok(Self {
                    name,
                    schema,
                    rows: Rows::Batches { database, table: read, columns, filters: scan.filters.clone() },
                })
            }
            None => Err(Refusal::new(format!("of the files of {name} nothing is known"))),
        }
    }

    /// The column that is a field of another one, which is a struct.
    pub(super) fn child(&self, column: usize, name: &str) -> Option<usize> {
        match &self.rows {
            Rows::Batches { columns, .. } => columns.child(column, name),
            _ => None,
        }
    }

    /// Of a scan of a table in memory.
    pub(super) fn of_memory_table(scan: &TableScan, table: &MemoryTable) -> Result<Self, Refusal> {
        let name = scan.table_name.table().to_owned();
        let database = table.database().ok_or_else(|| closed(&name))?;
        let (batches, version) = table.batches();
        let rows = Rows::Arrays { database, batches: batches.into(), version };
        Ok(Self { name, schema: scan.source.schema(), rows })
    }

    /// Of an aggregate, whose columns have the names of `schema`.
    pub(super) fn of_groups(
        plan: Arc<FusedPlan>,
        aggregate: Arc<Aggregate>,
        schema: SchemaRef,
    ) -> Result<Self, Refusal> {
        let Some(last) = plan.stages.last() else { return Err(Refusal::new("an aggregate of nothing")) };
        let (name, database) = (format!("groups of {}", last.relation.name), Arc::clone(last.relation.database()));
        Ok(Self { name, schema, rows: Rows::Groups { database, plan, aggregate } })
    }

    pub(super) fn database(&self) -> &Arc<Database> {
        match &self.rows {
            Rows::Pages { database, .. }
            | Rows::Batches { database, .. }
            | Rows::Chunks { database, .. }
            | Rows::Arrays { database, .. }
            | Rows::Groups { database, .. } => database,
        }
    }

    /// Why a column's values are none that pipelines read, if they are not; texts of raw files they only compare with each
    /// other.
    pub(super) fn refusal(&self, column: usize, is_only_compared: bool) -> Option<String> {
        let is_text = || value_type(self.schema.field(column).data_type()) == Some(ValueType::Text);
        match &self.rows {
            Rows::Pages { .. } | Rows::Arrays { .. } | Rows::Groups { .. } => None,
            Rows::Batches { .. } if is_only_compared => None,
            Rows::Batches { .. } => is_text().then(|| "it is a text of raw files".to_owned()),
            Rows::Chunks { facts, .. } => facts.refusal(column),
        }
    }

    /// Whether its rows come as batches of a scan of text files.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.rows, Rows::Batches { .. })
    }

    /// Whether its scan rejects rows by other columns than this one.
    pub(super) fn is_filtered_beyond(&self, column: usize) -> bool {
        let is_other =
            |filter: &Expr| filter.column_refs().iter().any(|of| of.name != *self.schema.field(column).name());
        match &self.rows {
            Rows::Batches { filters, .. } => filters.iter().any(is_other),
            Rows::Pages { .. } | Rows::Chunks { .. } | Rows::Arrays { .. } | Rows::Groups { .. } => false,
        }
    }

    /// Rows, of text files a guess, of groups the most that there can be.
    pub(super) fn row_count(&self) -> u64 {
        match &self.rows {
            Rows::Pages { table, .. } => table.row_count(),
            Rows::Batches { table, .. } => table.guessed_rows(),
            Rows::Chunks { facts, .. } => facts.row_count(),
            Rows::Arrays { batches, .. } => batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            Rows::Groups { plan, .. } => plan.expected_rows.0,
        }
    }

    /// How many different values a column has at most; of text files and arrays nothing is known.
    pub(super) fn most_values(&self, column: usize) -> u64 {
        match &self.rows {
            Rows::Pages { table, .. } => table.most_values(column),
            Rows::Chunks { facts, .. } => facts.most_values(column),
            Rows::Batches { .. } | Rows::Arrays { .. } | Rows::Groups { .. } => self.row_count(),
        }
    }

    /// Whether [`most_values`](Self::most_values) tells more than the number of rows.
    pub(super) fn knows_values(&self, column: usize) -> bool {
        match &self.rows {
            Rows::Pages { .. } | Rows::Chunks { .. } => {
                value_type(self.schema.field(column).data_type()) != Some(ValueType::Text)
            }
            Rows::Batches { .. } | Rows::Arrays { .. } | Rows::Groups { .. } => false,
        }
    }

    /// Bytes that a column's values take where they are stored.
    pub(super) fn column_bytes(&self, column: usize) -> Option<u64> {
        match &self.rows {
            Rows::Pages { table, .. } => Some(table.column_bytes(column)),
            Rows::Chunks { facts, .. } => Some(facts.column_bytes(column)),
            Rows::Arrays { batches, .. } => {
                let bytes = |batch: &RecordBatch| batch.column(column).get_buffer_memory_size() as u64;
                Some(batches.iter().map(bytes).sum())
            }
            Rows::Batches { .. } | Rows::Groups { .. } => None,
        }
    }
}

fn closed(table: &str) -> Refusal {
    Refusal::new(format!("the database of {table} is closed"))
}
