//! What footers tell the optimizer.
//!
//! Row counts are exact, so that `count(*)` needs no scan, and joins know their sides. Bounds of columns come from the
//! row groups; they are exact only where the file's type is the table's, and never for floats: Parquet leaves NaN out
//! of them, which SQL's `max` does not.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::parquet::file::metadata::ParquetMetaData;

use super::file::ParquetFile;
use super::schema;

/// Column chunks whose bounds are looked at for one scan. At about a microsecond each, more would cost the planning of
/// every query a tenth of a second; row counts then have to do.
const CHUNKS_MOST: usize = 100_000;

/// The statistics of each file, in terms of the table's columns.
pub(super) fn of_files(
    files: &[(ParquetFile, Arc<ParquetMetaData>)],
    table_schema: &SchemaRef,
) -> Result<Vec<Statistics>> {
    let chunk_count: usize =
        files.iter().map(|(_, footer)| footer.num_row_groups() * table_schema.fields().len()).sum();
    let with_bounds = chunk_count <= CHUNKS_MOST;
    files.iter().map(|(file, footer)| of_file(file, footer, table_schema, with_bounds)).collect()
}

/// The statistics of all files together.
pub(super) fn merged(of_files: &[Statistics], table_schema: &SchemaRef) -> Result<Statistics> {
    Statistics::try_merge_iter(of_files, table_schema)
}

fn of_file(
    file: &ParquetFile,
    footer: &ParquetMetaData,
    table_schema: &SchemaRef,
    with_bounds: bool,
) -> Result<Statistics> {
    if !with_bounds {
        let row_count: i64 = footer.row_groups().iter().map(|row_group| row_group.num_rows()).sum();
        let row_count = usize::try_from(row_count).map_or(Precision::Absent, Precision::Exact);
        return Ok(Statistics::new_unknown(table_schema).with_num_rows(row_count));
    }
    let mut statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, table_schema)?;
    let fields = schema::of_file(file, footer)?;
    for (column, field) in statistics.column_statistics.iter_mut().zip(table_schema.fields()) {
        match fields.find(field.name()) {
            Some((_, stored)) if stored.data_type() != field.data_type() => *column = ColumnStatistics::new_unknown(),
            Some(_) if is_float(field.data_type()) => {
                column.min_value = std::mem::take(&mut column.min_value).to_inexact();
                column.max_value = std::mem::take(&mut column.max_value).to_inexact();
            }
            Some(_) | None => {}
        }
    }
    Ok(statistics)
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}
