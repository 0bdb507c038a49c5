//! `INSERT INTO` a column table: a further segment, in the table once all rows are written.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use thermocline_budget::{Account, Purpose};
use thermocline_column_store::{Entry, EntryName};

use super::store::OpenTable;
use super::{ColumnTables, load};
use crate::database::Database;
use crate::error::Error;

/// Adds rows to a column table, or puts them in the place of those it has: all of them or none.
#[derive(Debug)]
pub(super) struct ColumnSink {
    tables: Arc<ColumnTables>,
    name: EntryName,
    table_schema: SchemaRef,
    /// The same without NOT NULL: what is NULL there is refused by `load`, whose message names the column.
    schema: SchemaRef,
    account: Account,
    threads: usize,
    overwrite: bool,
}

impl ColumnSink {
    pub(super) fn new(database: &Arc<Database>, table: &OpenTable, overwrite: bool) -> Result<Self> {
        let Some(tables) = database.column_tables() else {
            return internal_err!("a column table of a database without a folder");
        };
        let fields = table.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        Ok(Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            tables: Arc::clone(tables),
            name: table.name.clone(),
            table_schema: Arc::clone(&table.schema),
            account: database.budget().account(format!("insert into {}", table.name), Purpose::Query),
            threads: database.threads(),
            overwrite,
        })
    }
}

impl DisplayAs for ColumnSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnSink: table={}", self.name)
    }
}

#[async_trait]
impl DataSink for ColumnSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, data: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        let loaded = load(&self.tables, &self.account, &self.table_schema, vec![data], self.threads)
            .await
            .map_err(Error::into_datafusion)?;
        let row_count = loaded.row_count();
        let added = loaded.infos();
        let committed = self.tables.commit(|manifest| match manifest.entries.get_mut(&self.name) {
            Some(Entry::ColumnTable(table)) if table.columns == self.table_schema => {
                if self.overwrite {
                    table.segments.clear();
                }
                table.segments.extend(added);
                Ok(())
            }
            _ => Err(Error::input(format!("table {} was dropped or replaced while rows were inserted", self.name))),
        });
        drop(loaded);
        committed.map_err(Error::into_datafusion)?;
        Ok(row_count)
    }
}
