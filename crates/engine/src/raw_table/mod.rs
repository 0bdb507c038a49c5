//! Tables over files: NDJSON, CSV and Parquet, by path or declared.
//!
//! A [`RawTable`] holds a definition and a schema, no file: each query lists and opens its files when it is planned,
//! and keeps them open, so that a table, a view or a prepared statement never answers from what a path used to mean.
//! What was inferred is remembered by file version, so that naming a table costs a few system calls.
//!
//! Rules. A declared schema is fixed. An inferred one follows the files: a registered table is renewed for every
//! statement; a plan older than a change of schema (a view, a prepared statement, a provider held by the host) fails
//! with an error that says so.

mod ahead;
mod element_digest;
mod estimates;
pub(crate) mod flattened;
pub(crate) mod infer;
pub(crate) mod listing;
pub(crate) mod options;
pub(crate) mod scan_exec;
mod scan_run;
pub(crate) mod schema_cache;
mod source;

pub(crate) use estimates::value_bytes;

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err, plan_err};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use thermocline_predicate::FieldPath;
use thermocline_raw::LeafBuilder;

use crate::database::Database;
use crate::error::{Error, ErrorKind};
use crate::filters::{self, Fields};
use crate::parquet_table::{ParquetFacts, ParquetTable, RowGroups};
use crate::query::QueryContext;
use crate::settings::ThermoclineConfig;
use flattened::Flattened;
use listing::QueryFile;
use options::{FileFormat, TableOptions};
use scan_exec::RawScanExec;
use schema_cache::Inferred;

/// What a table over files is declared as.
#[derive(Debug, Clone)]
pub(crate) struct TableDefinition {
    /// Paths, globs, folders or URLs.
    pub(crate) locations: Vec<String>,
    /// The format; by suffix when absent.
    pub(crate) format: Option<FileFormat>,
    /// Columns, if the user declared them.
    pub(crate) declared_schema: Option<SchemaRef>,
    /// Options of the table.
    pub(crate) options: TableOptions,
}

/// A table over files.
#[derive(Debug, Clone)]
pub(crate) struct RawTable {
    /// Whose catalog may hold the table.
    database: Weak<Database>,
    definition: Arc<TableDefinition>,
    format: FileFormat,
    schema: SchemaRef,
    /// Rows that the files had when they were listed, by their first ones.
    guessed_rows: u64,
    /// Of Parquet files, what their footers told then.
    facts: Option<Arc<ParquetFacts>>,
    /// For an unnested table: the name of the last column, which holds an element, and the path of its list.
    element: Option<(String, FieldPath)>,
}

/// The files of a query over this table.
pub(crate) struct OpenTable {
    pub(crate) format: FileFormat,
    pub(crate) files: Arc<[Arc<QueryFile>]>,
    pub(crate) inferred: Inferred,
}

impl RawTable {
    /// The table that `definition` describes, with its schema as of now.
    ///
    /// # Errors
    /// What listing and inference report.
    pub(crate) async fn open(
        database: Arc<Database>,
        definition: Arc<TableDefinition>,
        config: &ThermoclineConfig,
    ) -> Result<Self> {
        let context = QueryContext::default();
        let open = open_table(&database, &definition, config, &context).await?;
        let size_bytes: u64 = open.files.iter().map(|file| file.version.size_bytes).sum();
        let guessed_rows = size_bytes / open.inferred.record_bytes.max(1);
        let (format, Inferred { schema, facts, .. }) = (open.format, open.inferred);
        let database = Arc::downgrade(&database);
        Ok(Self { database, definition, format, schema, guessed_rows, facts, element: None })
    }

    /// The same table with its schema as of now.
    ///
    /// # Errors
    /// What listing and inference report.
    pub(crate) async fn renewed(&self, config: &ThermoclineConfig) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(Self::open(self.database()?, Arc::clone(&self.definition), config).await?))
    }

    /// The same table for a catalog, which has it [`renewed`](Self::renewed) for each statement: until then it takes no
    /// memory for what Parquet footers tell.
    pub(crate) fn without_footers(self) -> Self {
        Self { facts: None, ..self }
    }

    /// The table with one row per element of the list at `path`, and the name of the column that holds the element;
    /// `None` if the path is no list or the format cannot unnest while it scans.
    pub(crate) fn unnest(&self, path: &FieldPath) -> Option<(Arc<Self>, String)> {
        if self.format != FileFormat::Ndjson || self.element.is_some() {
            return None;
        }
        let (first, rest) = path.parts().split_first()?;
        let mut data_type = self.schema.field_with_name(first).ok()?.data_type();
        for part in rest {
            let DataType::Struct(fields) = data_type else { return None };
            data_type = fields.iter().find(|field| field.name() == part.as_ref())?.data_type();
        }
        let DataType::List(element) = data_type else { return None };
        let mut name = format!("unnest({path})");
        while self.schema.field_with_name(&name).is_ok() {
            name.push('\'');
        }
        let mut fields: Vec<Arc<Field>> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(&name, element.data_type().clone(), true)));
        let table =
            Self { schema: Arc::new(Schema::new(fields)), element: Some((name.clone(), path.clone())), ..self.clone() };
        Some((Arc::new(table), name))
    }

    /// Whether the files are text.
    pub(crate) fn is_text(&self) -> bool {
        self.format != FileFormat::Parquet
    }

    /// The columns with those of structs among them.
    pub(crate) fn flattened(&self) -> Flattened {
        let fields = self.fields();
        let column = |field: &FieldRef| Some((fields.column(field.name())?.0, Arc::clone(field)));
        Flattened::of(self.schema.fields().iter().filter_map(column))
    }

    /// Rows, as far as the files' first records tell.
    pub(crate) fn guessed_rows(&self) -> u64 {
        self.guessed_rows
    }

    /// What is known of Parquet files without reading more than their footers.
    pub(crate) fn facts(&self) -> Option<&Arc<ParquetFacts>> {
        self.facts.as_ref()
    }

    /// The database, which is there as long as a session is, or a scan.
    ///
    /// # Errors
    /// When it is closed.
    pub(crate) fn database(&self) -> Result<Arc<Database>> {
        self.database.upgrade().ok_or_else(|| internal_datafusion_err!("a table of a database that is closed"))
    }

    /// The row groups of Parquet files with these columns, or why pipelines do not read them.
    ///
    /// # Errors
    /// Those of a scan.
    pub(crate) async fn row_groups(
        &self,
        session: &dyn Session,
        columns: &[usize],
    ) -> Result<std::result::Result<RowGroups, String>> {
        let (open, ..) = self.open_now(session).await?;
        Ok(self.parquet_table(&open).await?.row_groups(session, columns))
    }

    /// The files of a query, which have the columns that it was planned with.
    async fn open_now(&self, session: &dyn Session) -> Result<(OpenTable, ThermoclineConfig, Arc<QueryContext>)> {
        let config = session.config_options().extensions.get::<ThermoclineConfig>();
        let database = self.database()?;
        let config = config.cloned().unwrap_or_else(|| database.default_config());
        let context = session.config().get_extension::<QueryContext>().unwrap_or_default();
        let open = open_table(&database, &self.definition, &config, &context).await?;
        let found = &open.inferred.schema;
        if found.fields() != self.record_schema().fields() {
            return Err(changed_schema(&self.definition, &self.record_schema(), found));
        }
        Ok((open, config, context))
    }

    /// Parquet files as a table.
    async fn parquet_table(&self, open: &OpenTable) -> Result<ParquetTable> {
        let files = open.files.iter().map(|file| file.source.clone().into()).collect();
        let database = self.database()?;
        let footers = Arc::clone(database.footers());
        let table = ParquetTable::try_new(files, Some(Arc::clone(&self.schema)), footers).await?;
        Ok(table.through(database.parquet_pages()))
    }

    /// Reads these columns of text files: each a path in the records, and its field. None if the files are no text any
    /// more.
    ///
    /// # Errors
    /// Those of a scan.
    pub(crate) async fn scan_text(
        &self,
        session: &dyn Session,
        columns: Vec<(FieldPath, FieldRef)>,
        filters: &[Expr],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let opened = self.open_now(session).await?;
        match opened.0.format {
            FileFormat::Parquet => Ok(None),
            _ => self.scan_opened(opened, (columns, filters, None), session).map(Some),
        }
    }

    /// The scan of text files that are open.
    fn scan_opened(
        &self,
        (open, config, context): (OpenTable, ThermoclineConfig, Arc<QueryContext>),
        (columns, filters, limit): (Vec<(FieldPath, FieldRef)>, &[Expr], Option<usize>),
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some((predicate, predicate_types)) = filters::conjunction(&self.fields(), filters) else {
            return internal_err!("a filter was pushed into a scan that did not accept it");
        };
        let scan = scan_run::Scan {
            database: self.database()?,
            config,
            options: self.definition.options.clone(),
            format: open.format,
            table_schema: open.inferred.schema,
            csv: open.inferred.csv,
            record_bytes: open.inferred.record_bytes,
            files: open.files,
            unnest: self.element.as_ref().map(|(_, list)| list.clone()),
            predicate: Arc::new(predicate),
            predicate_types,
            context,
        };
        Ok(Arc::new(RawScanExec::new(Arc::new(scan), columns, limit, session.config().target_partitions())))
    }

    fn fields(&self) -> Fields<'_> {
        Fields { schema: &self.schema, element: self.element.as_ref().map(|(name, list)| (name.as_str(), list)) }
    }

    /// The schema of the records, without the element column of an unnested table.
    fn record_schema(&self) -> Cow<'_, Schema> {
        if self.element.is_none() {
            return Cow::Borrowed(&self.schema);
        }
        let fields = self.schema.fields();
        Cow::Owned(Schema::new(fields[..fields.len() - 1].to_vec()))
    }
}

/// Lists, opens and infers.
async fn open_table(
    database: &Arc<Database>,
    definition: &TableDefinition,
    config: &ThermoclineConfig,
    context: &QueryContext,
) -> Result<OpenTable> {
    let access = config.shared().access();
    let (format, files) =
        listing::open_files(&definition.locations, definition.format, &access, database, context).await?;
    let inferred = infer::schema_of(database, definition, config, format, &files).await?;
    Ok(OpenTable { format, files, inferred })
}

#[async_trait]
impl TableProvider for RawTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        if self.format == FileFormat::Parquet {
            return Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()]);
        }
        let fields = self.fields();
        Ok(filters
            .iter()
            .map(|filter| match filters::condition(&fields, filter) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let opened = self.open_now(session).await?;
        if opened.0.format == FileFormat::Parquet {
            return self.parquet_table(&opened.0).await?.scan(session, projection, filters, limit).await;
        }
        let fields = self.fields();
        let all: Vec<usize>;
        let projection = match projection {
            Some(projection) => projection.as_slice(),
            None => {
                all = (0..self.schema.fields().len()).collect();
                all.as_slice()
            }
        };
        let mut columns = Vec::with_capacity(projection.len());
        for &index in projection {
            let field = self.schema.field(index);
            let Some((path, _)) = fields.column(field.name()) else {
                return internal_err!("column {} is not in the table", field.name());
            };
            columns.push((path, Arc::new(field.clone())));
        }
        self.scan_opened(opened, (columns, filters, limit), session)
    }
}

fn changed_schema(definition: &TableDefinition, planned: &Schema, found: &Schema) -> DataFusionError {
    let column = planned
        .fields()
        .iter()
        .find(|field| !found.field_with_name(field.name()).is_ok_and(|now| now.data_type() == field.data_type()))
        .map(|field| field.name().clone())
        .or_else(|| {
            found
                .fields()
                .iter()
                .find(|field| planned.field_with_name(field.name()).is_err())
                .map(|field| field.name().clone())
        })
        .unwrap_or_default();
    Error::new(
        ErrorKind::Retry,
        format!(
            "{}: the schema changed since the query was planned (column '{column}'): run it again, or make its view or prepared statement anew",
            definition.locations.join(", ")
        ),
    )
    .into_datafusion()
}

/// A declared schema that raw files cannot hold is refused when the table is made.
pub(crate) fn check_declared(schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        if !is_readable(field.data_type()) {
            return plan_err!(
                "column {}: raw files cannot be read as {} (timestamps: without a time zone, or in UTC)",
                field.name(),
                field.data_type()
            );
        }
    }
    Ok(())
}

fn is_readable(data_type: &DataType) -> bool {
    match data_type {
        // What inference gives to a field that has no value.
        DataType::Null => false,
        DataType::List(element) => is_readable(element.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_readable(field.data_type())),
        // As scans will find.
        leaf => LeafBuilder::new(leaf).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn timestamps_of_zones_that_are_not_read_are_refused() {
        let of = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let within = |data_type| DataType::List(Arc::new(Field::new("item", data_type, true)));
        for data_type in [of(None), of(Some("UTC")), within(of(Some("UTC"))), DataType::Utf8, DataType::Int8] {
            assert!(is_readable(&data_type), "{data_type}");
        }
        for data_type in [of(Some("Europe/Berlin")), within(of(Some("+02:00"))), DataType::Null, DataType::Binary] {
            assert!(!is_readable(&data_type), "{data_type}");
        }
    }
}
