//! Tables in memory: those of a database without a folder, and Arrow data registered by the host.
//!
//! Until a table is dropped its bytes are held from the budget. Rows are kept batch by batch, each reserved before it
//! is kept, so that a table that does not fit fails with a clear error instead of pushing the process over its budget;
//! a failed statement leaves the table as it was. DataFusion's own `MemTable` is not counted, and its `DELETE` and
//! `UPDATE` are unsafe.
//!
//! **Concurrency**: a change is made under the lock of the rows. A statement whose table was dropped or replaced before its
//! rows are there fails, and so does one that would overwrite others than it has read.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session as DataFusionSession, TableProvider};
use datafusion::common::{DataFusionError, Result as DataFusionResult, TableReference, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use thermocline_budget::{Account, Purpose, Reservation};

use super::Session;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::own_batch::own;
use crate::query::{Progress, QueryContext};

/// Batches and the bytes reserved for them.
#[derive(Debug)]
struct Held {
    batches: Vec<RecordBatch>,
    reservations: Vec<Reservation>,
    /// How often they have changed.
    version: u64,
    /// Under how many names catalogs have the table: rows that are added to one without any would be lost.
    name_count: usize,
}

impl Held {
    fn empty() -> Self {
        Self { batches: Vec::new(), reservations: Vec::new(), version: 0, name_count: 0 }
    }

    /// Reserves, then keeps.
    fn push(&mut self, account: &Account, batch: RecordBatch) -> DataFusionResult<()> {
        let batch = own(batch)?;
        let bytes = batch.get_array_memory_size() as u64;
        let reservation = account.try_reserve(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?;
        self.batches.push(batch);
        self.reservations.push(reservation);
        Ok(())
    }
}

/// A table of batches in memory, counted in the budget.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    /// Whose catalog holds the table.
    database: Weak<Database>,
    schema: SchemaRef,
    account: Account,
    held: Arc<Mutex<Held>>,
}

impl MemoryTable {
    /// The database, which is there as long as a session is.
    pub(crate) fn database(&self) -> Option<Arc<Database>> {
        self.database.upgrade()
    }

    /// The table as it is, which waits for nobody but whoever changes rows at that moment; `None` for other tables.
    pub(crate) fn unchanging(table: &dyn TableProvider) -> Option<Unchanging<'_>> {
        table.downcast_ref::<Self>().map(|table| Unchanging(table.held.lock()))
    }

    /// Another number after each change of its rows.
    pub(crate) fn version(&self) -> u64 {
        self.held.lock().version
    }

    /// Its rows as of now, and which ones these are.
    pub(crate) fn batches(&self) -> (Vec<RecordBatch>, Version) {
        let held = self.held.lock();
        (held.batches.clone(), Version { table: Arc::downgrade(&self.held), number: held.version })
    }
}

/// A table in memory whose rows stay as they are while this is held.
pub(crate) struct Unchanging<'t>(MutexGuard<'t, Held>);

impl Unchanging<'_> {
    /// As [`MemoryTable::version`].
    pub(crate) fn version(&self) -> u64 {
        self.0.version
    }

    /// A catalog has the table under one more name.
    pub(crate) fn note_named(&mut self) {
        self.0.name_count += 1;
    }

    /// A catalog has the table under one name less.
    pub(crate) fn note_unnamed(&mut self) {
        self.0.name_count = self.0.name_count.saturating_sub(1);
    }
}

/// Which rows of which table in memory were read. Holds none of them.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    table: Weak<Mutex<Held>>,
    number: u64,
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn DataFusionSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let threads = self.database().map_or(1, |database| database.threads().max(1));
        let mut partitions = vec![Vec::new(); threads];
        let (batches, version) = self.batches();
        if let Some(context) = session.config().get_extension::<QueryContext>() {
            context.read().note_version(version);
        }
        for (index, batch) in batches.into_iter().enumerate() {
            partitions[index % threads].push(batch);
        }
        Ok(MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&self.schema), projection.cloned())?)
    }

    async fn insert_into(
        &self,
        session: &dyn DataFusionSession,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if op == InsertOp::Replace {
            return not_impl_err!("REPLACE INTO needs a primary key, which tables in memory do not have");
        }
        let oldest_read = || {
            let context = session.config().get_extension::<QueryContext>();
            let read = context.map_or_else(Vec::new, |context| context.read().versions());
            let of_this = read.iter().filter(|version| version.table.ptr_eq(&Arc::downgrade(&self.held)));
            of_this.map(|version| version.number).chain([self.version()]).min()
        };
        let sink = MemorySink {
            schema: Arc::clone(&self.schema),
            account: self.account.clone(),
            held: Arc::clone(&self.held),
            replaced: if op == InsertOp::Overwrite { oldest_read() } else { None },
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Adds rows to a [`MemoryTable`], all or none.
#[derive(Debug)]
struct MemorySink {
    schema: SchemaRef,
    account: Account,
    held: Arc<Mutex<Held>>,
    /// The version whose rows are not wanted any more, the oldest that the statement reads; None if those that there are
    /// stay.
    replaced: Option<u64>,
}

impl DisplayAs for MemorySink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemorySink")
    }
}

#[async_trait]
impl DataSink for MemorySink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> DataFusionResult<u64> {
        let mut added = Held::empty();
        let mut row_count = 0;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            row_count += batch.num_rows() as u64;
            added.push(&self.account, batch)?;
        }
        let mut held = self.held.lock();
        if held.name_count == 0 {
            let gone = Error::input("the table was dropped or replaced while rows were inserted");
            return Err(gone.into_datafusion());
        }
        // The new rows may be made of the table's: those that another statement has added since would be lost.
        if self.replaced.is_some_and(|replaced| replaced != held.version) {
            let changed = Error::input("the table was changed while it was being overwritten: try again");
            return Err(changed.into_datafusion());
        }
        held.version += 1;
        if self.replaced.is_some() {
            (held.batches, held.reservations) = (added.batches, added.reservations);
        } else {
            held.batches.append(&mut added.batches);
            held.reservations.append(&mut added.reservations);
        }
        Ok(row_count)
    }
}

/// A table over batches that the host made.
pub(super) fn from_batches(
    database: &Arc<Database>,
    name: &str,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<Arc<dyn TableProvider>> {
    let account = database.budget().account(name, Purpose::Query);
    let mut held = Held::empty();
    for batch in batches {
        if batch.schema_ref().fields() != schema.fields() {
            return Err(Error::input(format!(
                "table {name}: a batch has the columns {:?}, expected {:?}",
                batch.schema_ref().fields(),
                schema.fields()
            )));
        }
        held.push(&account, batch)?;
    }
    Ok(table(database, schema, account, held))
}

fn table(database: &Arc<Database>, schema: SchemaRef, account: Account, held: Held) -> Arc<dyn TableProvider> {
    Arc::new(MemoryTable { database: Arc::downgrade(database), schema, account, held: Arc::new(Mutex::new(held)) })
}

/// Runs the input of `CREATE TABLE`, and keeps its rows in a table in memory.
pub(super) async fn filled(
    session: &Session,
    name: &TableReference,
    (input, progress): (&LogicalPlan, &Arc<Progress>),
) -> Result<Arc<dyn TableProvider>> {
    let account = session.database().budget().account(name.to_string(), Purpose::Query);
    let mut held = Held::empty();
    let mut rows = session.query(input.clone(), progress).await?;
    let schema = match input {
        LogicalPlan::EmptyRelation(_) => rows.schema(),
        _ => nullable(&rows.schema()),
    };
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        // Inputs of a UNION may give its columns names of their own.
        let named = RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options);
        held.push(&account, named.map_err(DataFusionError::from)?)?;
    }
    Ok(table(session.database(), schema, account, held))
}

/// The columns as the table has them. What a query computes may be NULL, whatever it knows of the rows it has now.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
