//! `CREATE TABLE` and `CREATE TABLE … AS`: a column table where the database has a folder, a table in memory elsewhere.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{CreateMemoryTable, LogicalPlan};
use datafusion::physical_plan::ExecutionPlanProperties;
use thermocline_budget::Purpose;
use thermocline_column_store::{ColumnTable, Entry, EntryName, Manifest, PhysicalType};

use super::replacing::{self, IfTaken, Kind};
use super::stored::{self, Place};
use super::{MemoryTable, Session, memory_table};
use crate::catalog::Found;
use crate::column_table::{LoadedRows, load};
use crate::error::{Error, Result};
use crate::query::Progress;

/// Runs the statement.
/// `before` is what the database's folder named before the statement was planned.
pub(super) async fn create(
    session: &Session,
    command: CreateMemoryTable,
    before: Option<Arc<Manifest>>,
    progress: &Arc<Progress>,
) -> Result<()> {
    let CreateMemoryTable { name, constraints, input, if_not_exists, or_replace, column_defaults, temporary } = command;
    if temporary {
        return Err(Error::input("temporary tables are not supported: a table lives as long as its database"));
    }
    if !constraints.is_empty() {
        return Err(Error::input(format!("table {name}: PRIMARY KEY and UNIQUE are not enforced and are refused")));
    }
    if !column_defaults.is_empty() {
        return Err(Error::input(format!("table {name}: DEFAULT is not supported")));
    }
    let if_taken = IfTaken::of(if_not_exists, or_replace)?;
    if !if_taken.allows(&name, replacing::found(session, &name).await?, Kind::Rows)? {
        return Ok(());
    }
    if let Some(place) = stored::place(session, &name)? {
        return create_stored(session, place, (&input, progress), (if_taken, before)).await;
    }
    let read = read_tables(session, &input, &name);
    let table = memory_table::filled(session, &name, (&input, progress)).await?;
    let schema = session.context().state_ref().read().schema_for_ref(name.clone())?;
    if_taken.put(&name, schema.as_ref(), table, |found| match found {
        // Rows that another statement has added since this one read the table would be lost.
        Some(found) if !read.iter().all(|read| read.is_still(found)) => Err(changed(name.table())),
        _ => Ok(()),
    })?;
    Ok(())
}

/// A table in memory that a statement reads.
struct ReadTable {
    table: Arc<dyn TableProvider>,
    version: u64,
}

impl ReadTable {
    /// Whether `found` is that table with the rows that it had.
    fn is_still(&self, found: Found<'_>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.table), found.table) && found.version == Some(self.version)
    }
}

/// Of a table in memory.
fn version(table: &dyn TableProvider) -> Option<u64> {
    (table as &dyn Any).downcast_ref::<MemoryTable>().map(MemoryTable::version)
}

/// The tables in memory of that name that a plan reads, as they are now.
fn read_tables(session: &Session, plan: &LogicalPlan, name: &TableReference) -> Vec<ReadTable> {
    let name = stored::resolved(session, name);
    let mut read = Vec::new();
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && stored::resolved(session, &scan.table_name) == name
            && let Ok(table) = source_as_provider(&scan.source)
            && let Some(version) = version(table.as_ref())
        {
            read.push(ReadTable { table, version });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    read
}

fn changed(name: impl Display) -> Error {
    Error::input(format!("table '{name}' was changed while it was being replaced: try again"))
}

async fn create_stored(
    session: &Session,
    place: Place,
    (input, progress): (&LogicalPlan, &Arc<Progress>),
    (if_taken, before): (IfTaken, Option<Arc<Manifest>>),
) -> Result<()> {
    let Place { tables, name } = &place;
    let read = before.filter(|_| reads(input, name));
    session.database().check_changeable(name)?;
    let (schema, loaded) = if let LogicalPlan::EmptyRelation(declared) = input {
        (table_schema(declared.schema.as_arrow(), true)?, LoadedRows::default())
    } else {
        // What the columns are is known for certain only when the query is planned to its end.
        let (state, physical) = session.physical(input, progress).await?;
        let schema = table_schema(&physical.schema(), false)?;
        let account = session.database().budget().account(format!("create table {name}"), Purpose::Query);
        let context = state.task_ctx();
        let partitions = 0..physical.output_partitioning().partition_count();
        let streams = partitions.map(|partition| physical.execute(partition, Arc::clone(&context)));
        let streams = streams.collect::<datafusion::common::Result<_>>()?;
        let threads = session.database().threads();
        let loaded = load(tables, &account, &schema, streams, threads).await?;
        (schema, loaded)
    };
    let entry = Entry::ColumnTable(ColumnTable::with_segments(schema, loaded.infos()));
    let put = place.put(session, entry, if_taken, &|manifest| {
        // Rows that another statement has added since this one read the table would be lost.
        match &read {
            Some(before) if before.entries.get(name) != manifest.entries.get(name) => Err(changed(name)),
            _ => Ok(()),
        }
    });
    // What is in the table by now stays.
    drop(loaded);
    put
}

/// Whether a plan reads that column table.
fn reads(plan: &LogicalPlan, name: &EntryName) -> bool {
    let mut is_read = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<crate::column_table::ColumnTable>()
        {
            is_read |= table.open().name == *name;
        }
        Ok(if is_read { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    is_read
}

/// The columns as they are kept: names once each, types that pages can hold. What a query computes may be NULL,
/// whatever it knows of the rows it has now.
fn table_schema(schema: &Schema, is_declared: bool) -> Result<SchemaRef> {
    if schema.fields().is_empty() {
        return Err(Error::input("a table needs at least one column"));
    }
    let mut fields: Vec<Field> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let (name, data_type) = (field.name(), field.data_type());
        if fields.iter().any(|known| known.name() == name) {
            return Err(Error::input(format!("column '{name}' is there twice: name one of them anew with AS")));
        }
        if PhysicalType::of(data_type).is_none() {
            return Err(Error::input(format!("column '{name}' has type {data_type}, which {}", advice(data_type))));
        }
        fields.push(Field::new(name, data_type.clone(), !is_declared || field.is_nullable()));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn advice(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "no table can hold: say which type is meant, as in CAST(NULL AS BIGINT)",
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            "column tables cannot hold: UNNEST it, or leave it out"
        }
        DataType::Struct(_) => "column tables cannot hold: name its fields one by one, as in s['x'] AS x",
        DataType::Dictionary(_, _) => "column tables cannot hold: cast it to the type of its values",
        _ => "column tables cannot hold: cast it to another type",
    }
}
