//! The schema `thermocline`: what the engine knows of itself, as tables.
//!
//! Each table is a snapshot taken when a statement names it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Builder, Int64Builder, RecordBatch, StringBuilder, TimestampNanosecondBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::TableType;

use super::page_tables;
use crate::database::Database;

/// The schema's name.
pub(crate) const SYSTEM_SCHEMA: &str = "thermocline";

const TABLES: [&str; 8] =
    ["cache_items", "columns", "decisions", "hardware", "memory", "memory_needs", "pipelines", "tables"];

/// The system tables of a database.
#[derive(Debug)]
pub(super) struct SystemSchema {
    database: Arc<Database>,
    /// Whether their columns alone are wanted: then no column table is opened, which can fail.
    is_listing: bool,
}

impl SystemSchema {
    pub(super) fn new(database: Arc<Database>, is_listing: bool) -> Self {
        Self { database, is_listing }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(ToString::to_string).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let batch = match name {
            "cache_items" => cache_items(&self.database)?,
            "columns" if self.is_listing => page_tables::columns_of(&self.database, &[], &[])?,
            "columns" => page_tables::columns(&self.database).await?,
            "decisions" => decisions(&self.database)?,
            "hardware" => hardware(&self.database)?,
            "memory" => memory(&self.database)?,
            "memory_needs" if self.is_listing => page_tables::memory_needs_of(&[])?,
            "memory_needs" => page_tables::memory_needs(&self.database)?,
            "pipelines" => page_tables::pipelines(&self.database)?,
            "tables" => page_tables::tables(&self.database)?,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.contains(&name)
    }
}

/// Columns under construction: a name and a typed builder each.
pub(super) struct Rows {
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self { fields: Vec::new(), columns: Vec::new() }
    }

    fn add(&mut self, name: &str, data_type: DataType, column: ArrayRef) {
        self.fields.push(Field::new(name, data_type, true));
        self.columns.push(column);
    }

    pub(super) fn text<S: AsRef<str>>(mut self, name: &str, values: impl Iterator<Item = Option<S>>) -> Self {
        let mut builder = StringBuilder::new();
        values.for_each(|value| builder.append_option(value));
        self.add(name, DataType::Utf8, Arc::new(builder.finish()));
        self
    }

    pub(super) fn integer(mut self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        let mut builder = Int64Builder::new();
        values.for_each(|value| builder.append_value(i64::try_from(value).unwrap_or(i64::MAX)));
        self.add(name, DataType::Int64, Arc::new(builder.finish()));
        self
    }

    pub(super) fn boolean(mut self, name: &str, values: impl Iterator<Item = bool>) -> Self {
        let column: BooleanArray = values.map(Some).collect();
        self.add(name, DataType::Boolean, Arc::new(column));
        self
    }

    pub(super) fn number(mut self, name: &str, values: impl Iterator<Item = Option<f64>>) -> Self {
        let mut builder = Float64Builder::new();
        values.for_each(|value| builder.append_option(value));
        self.add(name, DataType::Float64, Arc::new(builder.finish()));
        self
    }

    pub(super) fn time(mut self, name: &str, values: impl Iterator<Item = i64>) -> Self {
        let mut builder = TimestampNanosecondBuilder::new();
        values.for_each(|value| builder.append_value(value));
        self.add(name, DataType::Timestamp(TimeUnit::Nanosecond, None), Arc::new(builder.finish()));
        self
    }

    pub(super) fn finish(self) -> Result<RecordBatch> {
        let schema: SchemaRef = Arc::new(Schema::new(self.fields));
        RecordBatch::try_new(schema, self.columns).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))
    }
}

fn cache_items(database: &Database) -> Result<RecordBatch> {
    let items = database.cache().items();
    Rows::new()
        .integer("id", items.iter().map(|item| item.id.0))
        .text("path", items.iter().map(|item| Some(item.source.path.as_ref())))
        .text("unnest", items.iter().map(|item| item.source.unnest.as_ref().map(ToString::to_string)))
        .text("predicate", items.iter().map(|item| Some(item.predicate.to_string())))
        .text(
            "columns",
            items.iter().map(|item| {
                Some(item.columns.iter().map(|column| column.path.to_string()).collect::<Vec<_>>().join(", "))
            }),
        )
        .boolean("lazy", items.iter().map(|item| item.is_lazy))
        .text(
            "layout",
            items.iter().map(|item| match item.is_map {
                true => Some("map"),
                false => (!item.is_lazy).then(|| item.layout.name()),
            }),
        )
        .text("mirror_layout", items.iter().map(|item| item.mirror_layout.map(|layout| layout.name())))
        .integer("mirror_bytes", items.iter().map(|item| item.mirror_bytes))
        .integer("row_count", items.iter().map(|item| item.row_count))
        .integer("size_bytes", items.iter().map(|item| item.size_bytes))
        .integer("end_bytes", items.iter().map(|item| item.end_bytes))
        .integer("use_count", items.iter().map(|item| item.use_count))
        .integer("execute_ns", items.iter().map(|item| item.execute_ns))
        .integer("cache_ns", items.iter().map(|item| item.cache_ns))
        .integer("reuse_scan_ns", items.iter().map(|item| item.reuse_scan_ns))
        .integer("lookup_ns", items.iter().map(|item| item.lookup_ns))
        .number("worth_s", items.iter().map(|item| Some(item.worth_s)))
        .number("score", items.iter().map(|item| Some(item.score)))
        .finish()
}

fn decisions(database: &Database) -> Result<RecordBatch> {
    let decisions = database.cache().decisions();
    Rows::new()
        .integer("tick", decisions.iter().map(|decision| decision.tick))
        .time("time", decisions.iter().map(|decision| decision.wall_ns))
        .text("decision", decisions.iter().map(|decision| Some(decision.kind.as_str())))
        .text("item", decisions.iter().map(|decision| decision.item_id.map(|id| id.0.to_string())))
        .text("path", decisions.iter().map(|decision| Some(decision.path.as_ref())))
        .text("predicate", decisions.iter().map(|decision| decision.predicate.as_ref().map(ToString::to_string)))
        .text("reason", decisions.iter().map(|decision| Some(decision.reason)))
        .text(
            "numbers",
            decisions.iter().map(|decision| {
                Some(
                    decision
                        .numbers
                        .iter()
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect::<Vec<_>>()
                        .join(" "),
                )
            }),
        )
        .finish()
}

fn hardware(database: &Database) -> Result<RecordBatch> {
    let machine = database.machine();
    let mut facts: Vec<(String, String, &str)> = vec![
        ("processor".into(), machine.cpu_model.clone(), ""),
        ("logical_cores".into(), machine.logical_cores.to_string(), ""),
        ("ram".into(), machine.ram_bytes.to_string(), "bytes"),
        (
            "control_group_limit".into(),
            machine.control_group_limit_bytes.map_or("none".into(), |bytes| bytes.to_string()),
            "bytes",
        ),
        ("page".into(), machine.page_bytes.to_string(), "bytes"),
        ("vector_instructions".into(), machine.simd.join(" "), ""),
    ];
    for cache in &machine.caches {
        facts.push((format!("cache_l{}_{}", cache.level, cache.kind.as_str()), cache.size_bytes.to_string(), "bytes"));
    }
    Rows::new()
        .text("name", facts.iter().map(|fact| Some(&fact.0)))
        .text("value", facts.iter().map(|fact| Some(&fact.1)))
        .text("unit", facts.iter().map(|fact| Some(fact.2)))
        .finish()
}

fn memory(database: &Database) -> Result<RecordBatch> {
    let budget = database.budget();
    let accounts = budget.accounts();
    let mut rows: Vec<(String, String, u64)> = accounts
        .into_iter()
        .map(|account| (account.name.to_string(), account.purpose.as_str().to_string(), account.reserved_bytes))
        .collect();
    rows.push(("limit".into(), "budget".into(), budget.limit_bytes()));
    rows.push(("reserved".into(), "budget".into(), budget.reserved_bytes()));
    Rows::new()
        .text("name", rows.iter().map(|row| Some(&row.0)))
        .text("purpose", rows.iter().map(|row| Some(&row.1)))
        .integer("bytes", rows.iter().map(|row| row.2))
        .finish()
}
