//! `INSERT INTO` a column table: a further segment, in the table once all rows are written; few rows take those of the
//! last small segments with them (`merging`).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::{Stream, StreamExt, stream};
use thermocline_budget::{Account, Purpose};
use thermocline_column_store::{ColumnTable, Entry, EntryName, SegmentInfo, encoding_bytes};

use super::merging::{self, ReservedBatch, Tail};
use super::store::OpenTable;
use super::{ColumnTables, LoadedRows, load};
use crate::database::Database;
use crate::error::Error;
use crate::own_batch::own;

/// Adds rows to a column table, or puts them in the place of those it has: all of them or none.
#[derive(Debug)]
pub(super) struct ColumnSink {
    tables: Arc<ColumnTables>,
    name: EntryName,
    /// Of the table that was named, which another one may replace before the rows are there.
    table_schema: SchemaRef,
    /// The same without NOT NULL: what is NULL there is refused by `load`, whose message names the column.
    schema: SchemaRef,
    account: Account,
    threads: usize,
    overwrite: bool,
    /// The table's segments as the statement reads them, by each of its scans of the table itself.
    read: Vec<Vec<SegmentInfo>>,
}

impl ColumnSink {
    pub(super) fn new(
        database: &Arc<Database>,
        table: &OpenTable,
        overwrite: bool,
        read: Vec<Vec<SegmentInfo>>,
    ) -> Result<Self> {
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
            read,
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
        let outcome = match self.overwrite {
            true => self.add(data).await,
            false => self.gather_and_add(data).await,
        };
        outcome.map_err(Error::into_datafusion)
    }
}

impl ColumnSink {
    /// Adds rows, or puts them in the place of all others. Returns how many they are.
    async fn add(&self, rows: SendableRecordBatchStream) -> Result<u64, Error> {
        let loaded = self.load(rows).await?;
        let added = loaded.infos();
        self.commit(|table| {
            if self.overwrite {
                // Rows that another statement has added since would be lost.
                if self.read.iter().any(|read| *read != table.segments) {
                    return Err(Error::input(format!(
                        "table {} was changed while it was being overwritten: try again",
                        self.name
                    )));
                }
                table.segments.clear();
            }
            table.segments.extend(added);
            Ok(())
        })?;
        Ok(loaded.row_count())
    }

    /// Adds rows; if they are few, together with those of the last segments.
    async fn gather_and_add(&self, mut rows: SendableRecordBatchStream) -> Result<u64, Error> {
        let mut gathered: Vec<ReservedBatch> = Vec::new();
        let mut row_count = 0;
        let last = loop {
            let Some(batch) = rows.next().await.transpose()? else { break None };
            let batch = own(batch).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
            row_count += batch.num_rows() as u64;
            // As much as it takes when it is added.
            let needed_bytes = batch.get_array_memory_size() + encoding_bytes(&batch);
            match self.account.try_reserve(needed_bytes as u64) {
                Ok(reserved) if row_count < merging::FULL_ROWS => gathered.push((batch, reserved)),
                _ => break Some(batch),
            }
        };
        if let Some(last) = last {
            // The rest comes as it came.
            let all = released(gathered).chain(stream::iter([Ok(last)])).chain(rows);
            return self.add(self.stream(all)).await;
        }
        let tail = Tail::to_merge(&self.tables, &self.name, &self.table_schema, &self.account, row_count).await;
        let Tail { segments, rows: tail_rows } = tail;
        if !segments.is_empty() {
            let copies = gathered.iter().map(|(batch, _)| Ok(batch.clone())).collect::<Vec<_>>();
            let all = released(tail_rows).chain(stream::iter(copies));
            // What is wrong with the rows is said when they are added alone; what is wrong with merging is no reason to
            // fail.
            if let Ok(loaded) = self.load(self.stream(all)).await {
                let merged = loaded.infos();
                let tail = Tail { segments, rows: Vec::new() };
                if self.commit(|table| Ok(tail.replace(table, &merged)))? {
                    return Ok(row_count);
                }
                // Another statement has replaced them.
            }
        }
        self.add(self.stream(released(gathered))).await
    }

    fn stream(&self, rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }

    async fn load(&self, rows: SendableRecordBatchStream) -> Result<LoadedRows, Error> {
        load(&self.tables, &self.account, &self.table_schema, vec![rows], self.threads).await
    }

    /// Changes the table, if it is still there.
    fn commit<R>(&self, edit: impl FnOnce(&mut ColumnTable) -> Result<R, Error>) -> Result<R, Error> {
        self.tables.commit(|manifest| match manifest.entries.get_mut(&self.name) {
            Some(Entry::ColumnTable(table)) if table.is_still(&self.table_schema) => edit(table),
            _ => Err(Error::input(format!("table {} was dropped or replaced while rows were inserted", self.name))),
        })
    }
}

/// The batches, each of whose memory is free for who takes it.
fn released(rows: Vec<ReservedBatch>) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    stream::iter(rows).map(|(batch, _reserved)| Ok(batch))
}
