//! One schema for several files.
//!
//! Columns are those of all files, in the order in which they are first met; a column that a file lacks is NULL there.
//! Types of one column have to agree, with these allowances: strings (and binaries) of all layouts are read as views,
//! the fastest for DataFusion; a dictionary agrees with its values; a column of nothing but NULLs with any; structs
//! field by field. Metadata of fields is dropped: it differs between writers and means nothing to a query. INT96 is
//! read as microseconds, as others read it too: nanoseconds would turn years before 1677 and after 2262 into others.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;
use datafusion::datasource::physical_plan::parquet::Int96Coercer;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::ParquetMetaData;

use super::file::ParquetFile;
use super::footers_in_use::HeldFooter;
use crate::error::Error;

/// The columns of a file as they are read.
pub(super) fn of_file(file: &ParquetFile, footer: &ParquetMetaData) -> Result<Fields> {
    let metadata = footer.file_metadata();
    let schema = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata())
        .map_err(|error| file.error(format_args!("the schema of the Parquet file is not understood: {error}")))?;
    let coerced = Int96Coercer::new(metadata.schema_descr(), &schema, &TimeUnit::Microsecond).coerce();
    Ok(coerced.unwrap_or(schema).fields().iter().map(|field| as_read(field)).collect())
}

/// The first field of each name.
pub(super) fn by_name(fields: &Fields) -> HashMap<&str, &FieldRef> {
    // The last that is put in stays.
    fields.iter().rev().map(|field| (field.name().as_str(), field)).collect()
}

/// As [`of_file`] has it, to the reader.
pub(super) const INT96_UNIT: &str = "us";

/// The columns of all files.
///
/// # Errors
/// A column of types that do not agree; the message names both files.
pub(super) fn merged(files: &[(ParquetFile, Arc<HeldFooter>)]) -> Result<SchemaRef> {
    // Each column with the first file that has it, and the number of files that do.
    let mut columns: Vec<(FieldRef, &ParquetFile, usize)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (file, footer) in files {
        for field in &of_file(file, footer)? {
            let Some(place) = places.get(field.name()).copied() else {
                places.insert(field.name().clone(), columns.len());
                columns.push((Arc::clone(field), file, 1));
                continue;
            };
            let (known, first_file, file_count) = &mut columns[place];
            let Some(both) = agreed(known, field) else {
                return Err(Error::input(format!(
                    "column '{}' is {} in {} but {} in {}: read the files as separate tables, or declare a type that both \
                     can be cast to",
                    field.name(),
                    known.data_type(),
                    first_file.path(),
                    field.data_type(),
                    file.path(),
                ))
                .into_datafusion());
            };
            *known = both;
            *file_count += 1;
        }
    }
    let fields: Fields = columns
        .into_iter()
        .map(|(field, _, file_count)| if file_count == files.len() { field } else { nullable(&field) })
        .collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Refuses columns that cannot be cast to their declared types.
///
/// # Errors
/// The message names the file, the column and both types.
pub(super) fn check_declared(files: &[(ParquetFile, Arc<HeldFooter>)], declared: &Schema) -> Result<()> {
    let declared = by_name(declared.fields());
    for (file, footer) in files {
        for field in &of_file(file, footer)? {
            let Some(wanted) = declared.get(field.name().as_str()) else { continue };
            let (found, wanted) = (field.data_type(), wanted.data_type());
            // Nested types are cast field by field, by DataFusion.
            if found != wanted && !(found.is_nested() && wanted.is_nested()) && !can_cast_types(found, wanted) {
                let column = field.name();
                return Err(file.error(format_args!(
                    "column '{column}' is {found}, which cannot be read as the declared {wanted}"
                )));
            }
        }
    }
    Ok(())
}

fn as_read(field: &Field) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => without_metadata(other),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

fn without_metadata(data_type: &DataType) -> DataType {
    let plain =
        |field: &FieldRef| Arc::new(Field::new(field.name(), without_metadata(field.data_type()), field.is_nullable()));
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::List(element) => DataType::List(plain(element)),
        DataType::LargeList(element) => DataType::LargeList(plain(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(plain(element), *length),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        other => other.clone(),
    }
}

fn nullable(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_nullable(true))
}

/// The field that values of both can be read as.
fn agreed(left: &FieldRef, right: &FieldRef) -> Option<FieldRef> {
    let data_type = agreed_type(left.data_type(), right.data_type())?;
    Some(Arc::new(Field::new(left.name(), data_type, left.is_nullable() || right.is_nullable())))
}

fn agreed_type(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        _ if left == right => Some(left.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (DataType::Dictionary(_, values), other) | (other, DataType::Dictionary(_, values)) => {
            match (plain_string(values), plain_string(other)) {
                (values, other) if values == other => Some(values),
                _ => None,
            }
        }
        (DataType::Struct(left), DataType::Struct(right)) => {
            let mut fields: Vec<FieldRef> = Vec::with_capacity(left.len().max(right.len()));
            for field in left {
                fields.push(match right.find(field.name()) {
                    Some((_, other)) => agreed(field, other)?,
                    None => nullable(field),
                });
            }
            fields.extend(right.iter().filter(|field| left.find(field.name()).is_none()).map(|field| nullable(field)));
            Some(DataType::Struct(fields.into()))
        }
        (DataType::List(left), DataType::List(right)) => agreed(left, right).map(DataType::List),
        (DataType::LargeList(left), DataType::LargeList(right)) => agreed(left, right).map(DataType::LargeList),
        _ => None,
    }
}

/// Strings and binaries as the views they are read as at the top level; inside dictionaries they have their own layout.
fn plain_string(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => plain_string(values),
        other => other.clone(),
    }
}
