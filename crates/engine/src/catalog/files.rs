//! Tables from paths: `FROM 'events.ndjson'` and `CREATE EXTERNAL TABLE … LOCATION 'events.ndjson'`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::CreateExternalTable;

use crate::database::Database;
use crate::raw_table::options::{FileFormat, TableOptions};
use crate::raw_table::{RawTable, TableDefinition};
use crate::settings::ThermoclineConfig;

/// Whether a table name can only be meant as a path. A bare word never is, even if a folder of that name exists.
pub(super) fn looks_like_path(name: &str) -> bool {
    name.contains('/')
        || name.contains(['*', '?', '['])
        || name.starts_with('~')
        || FileFormat::from_path(name).is_some()
}

/// The table behind a path, or `None` when `name` is no path.
pub(super) async fn table_for_path(
    database: &Arc<Database>,
    config: &ThermoclineConfig,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    if !looks_like_path(name) {
        return Ok(None);
    }
    let definition = TableDefinition {
        locations: vec![name.to_string()],
        format: None,
        declared_schema: None,
        options: TableOptions::default(),
    };
    let table = RawTable::open(Arc::clone(database), Arc::new(definition), config).await?;
    Ok(Some(Arc::new(table)))
}

/// Makes the tables of `CREATE EXTERNAL TABLE … STORED AS NDJSON | JSON | CSV | PARQUET`.
#[derive(Debug)]
pub(crate) struct TableFactory {
    database: Arc<Database>,
}

impl TableFactory {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// The words after `STORED AS` that this factory answers to.
    pub(crate) const WORDS: [&'static str; 6] = ["NDJSON", "JSONL", "JSON", "CSV", "TSV", "PARQUET"];
}

#[async_trait]
impl TableProviderFactory for TableFactory {
    async fn create(&self, session: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let config = session.config_options().extensions.get::<ThermoclineConfig>().cloned();
        let config = config.unwrap_or_else(|| self.database.default_config());
        Ok(Arc::new(external_table(&self.database, &config, command).await?.without_footers()))
    }
}

/// The table that `CREATE EXTERNAL TABLE` describes, with its schema as of now.
///
/// # Errors
/// What listing and inference report; options that no such table has; constraints.
pub(crate) async fn external_table(
    database: &Arc<Database>,
    config: &ThermoclineConfig,
    command: &CreateExternalTable,
) -> Result<RawTable> {
    let Some(format) = FileFormat::from_word(&command.file_type) else {
        return plan_err!("STORED AS {}: expected one of {}", command.file_type, TableFactory::WORDS.join(", "));
    };
    if !command.table_partition_cols.is_empty() {
        return plan_err!("PARTITIONED BY is not supported for raw tables: name the folder and filter on a column");
    }
    if !command.constraints.is_empty() {
        return plan_err!("constraints on an external table cannot be enforced and are refused");
    }
    if !command.order_exprs.is_empty() {
        return plan_err!("WITH ORDER on an external table cannot be verified and is refused");
    }
    if let Some(name) = never_null(command.schema.as_arrow().fields()) {
        return plan_err!(
            "column {name}: NOT NULL on an external table cannot be enforced and is refused; declare the column without it"
        );
    }
    let declared = readable(command.schema.as_arrow());
    let mut options = TableOptions::parse(&command.options)?;
    if command.file_type.eq_ignore_ascii_case("tsv") && options.delimiter.is_none() {
        options.delimiter = Some(b'\t');
    }
    let definition = TableDefinition {
        locations: command.locations.clone(),
        format: Some(format),
        declared_schema: (!declared.fields().is_empty()).then(|| Arc::new(declared)),
        options,
    };
    RawTable::open(Arc::clone(database), Arc::new(definition), config).await
}

/// The first column, or field within one, that is declared never to be NULL: the optimizer would believe it of files that
/// nobody checked.
fn never_null(fields: &Fields) -> Option<String> {
    fields.iter().find_map(|field| {
        let within = match field.data_type() {
            _ if !field.is_nullable() => return Some(field.name().clone()),
            DataType::Struct(fields) => never_null(fields),
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                never_null(&Fields::from(vec![Arc::clone(element)]))
            }
            _ => None,
        };
        within.map(|name| format!("{}.{name}", field.name()))
    })
}

/// The declared columns with every text type as the one that raw files are read as.
fn readable(declared: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    };
    Schema::new(declared.fields().iter().map(field).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Fields};

    use super::{looks_like_path, never_null};

    #[test]
    fn only_names_that_cannot_be_tables_are_taken_for_paths() {
        for path in ["events.ndjson", "logs/*.csv", "a/b", "x.parquet", "y.csv.gz", "s3://b/k.json"] {
            assert!(looks_like_path(path), "{path}");
        }
        for table in ["orders", "Orders", "orders_2024", "v1.2"] {
            assert!(!looks_like_path(table), "{table}");
        }
    }

    #[test]
    fn what_is_declared_never_to_be_null_is_found_within_columns_too() {
        let number = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
        let fields = |fields: Vec<Field>| Fields::from(fields);
        let of = |field: Field| never_null(&fields(vec![number("a", true), field]));
        assert_eq!(of(number("b", true)), None);
        assert_eq!(of(number("b", false)).as_deref(), Some("b"));
        let pair = DataType::Struct(fields(vec![number("x", true), number("y", false)]));
        assert_eq!(of(Field::new("b", pair.clone(), true)).as_deref(), Some("b.y"));
        assert_eq!(of(Field::new_list("b", Field::new("item", pair, true), true)).as_deref(), Some("b.item.y"));
        assert_eq!(of(Field::new_list("b", number("item", true), true)), None);
    }
}
