//! What footers tell the optimizer.
//!
//! Row counts are exact, so that `count(*)` needs no scan, and joins know their sides. Bounds of columns come from the
//! row groups, where the file's type is the table's; what of them misleads the footer has lost already.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::parquet::file::metadata::ParquetMetaData;

use super::file::ParquetFile;
use super::footers_in_use::HeldFooter;
use super::schema;

/// Column chunks whose bounds are looked at for one scan. At about a microsecond each, more would cost the planning of
/// every query a tenth of a second; row counts then have to do.
const CHUNKS_MOST: usize = 100_000;

/// The statistics of each file, in terms of the table's columns.
pub(super) fn of_files(files: &[(ParquetFile, Arc<HeldFooter>)], table_schema: &SchemaRef) -> Result<Vec<Statistics>> {
    let chunk_count: usize =
        files.iter().map(|(_, footer)| footer.num_row_groups() * table_schema.fields().len()).sum();
    let with_bounds = chunk_count <= CHUNKS_MOST;
    files.iter().map(|(file, footer)| of_file(file, footer, table_schema, with_bounds)).collect()
}

/// The statistics of all files together.
pub(super) fn merged(of_files: &[Statistics], table_schema: &SchemaRef) -> Result<Statistics> {
    Statistics::try_merge_iter(of_files, table_schema)
}

fn of_file(file: &ParquetFile, footer: &HeldFooter, table_schema: &SchemaRef, with_bounds: bool) -> Result<Statistics> {
    if !with_bounds {
        let row_count: i64 = footer.row_groups().iter().map(|row_group| row_group.num_rows()).sum();
        let row_count = usize::try_from(row_count).map_or(Precision::Absent, Precision::Exact);
        return Ok(Statistics::new_unknown(table_schema).with_num_rows(row_count));
    }
    let mut statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, table_schema)?;
    let fields = schema::of_file(file, footer)?;
    let stored = schema::by_name(&fields);
    for (column, field) in statistics.column_statistics.iter_mut().zip(table_schema.fields()) {
        match stored.get(field.name().as_str()) {
            Some(stored) if stored.data_type() != field.data_type() => *column = ColumnStatistics::new_unknown(),
            Some(_) => {
                let known = Known::of(footer, footer.leaf(field.name()));
                if !known.bounds {
                    (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
                }
                if !known.null_counts {
                    column.null_count = Precision::Absent;
                }
            }
            None => {}
        }
    }
    Ok(statistics)
}

/// What the footer says of every chunk of a column. DataFusion takes what it says of some for what is true of all, and
/// a count of NULLs that is missing for none.
struct Known {
    bounds: bool,
    null_counts: bool,
}

impl Known {
    fn of(footer: &ParquetMetaData, leaf: Option<usize>) -> Self {
        // Of what is nested DataFusion takes no statistics.
        let Some(leaf) = leaf else {
            return Self { bounds: true, null_counts: true };
        };
        let is_required = footer.file_metadata().schema_descr().column(leaf).max_def_level() == 0;
        let mut known = Self { bounds: true, null_counts: true };
        for row_group in footer.row_groups() {
            let statistics = row_group.column(leaf).statistics();
            let null_count = statistics.and_then(|statistics| statistics.null_count_opt());
            let has_bounds = statistics
                .is_some_and(|statistics| statistics.min_bytes_opt().is_some() && statistics.max_bytes_opt().is_some());
            let has_values = null_count.and_then(|count| i64::try_from(count).ok()) != Some(row_group.num_rows());
            known.bounds &= has_bounds || !has_values;
            known.null_counts &= is_required || null_count.is_some();
        }
        known
    }
}
