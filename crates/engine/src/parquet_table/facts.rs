//! What footers tell of columns that pipelines may read: their kinds, how many rows, values and bytes there are.
//!
//! Owns: which columns pipelines read of Parquet files, and bounds of their chunks. Does not own: reading them
//! (`row_groups`), which of it is wanted (`fusion`). Pure; nothing is read.
//!
//! Bounds are taken of whole numbers with a sign alone, and of dates, timestamps and decimals. Of unsigned ones old
//! writers compare as if they had a sign, of floats they leave NaN out, of texts only the beginning is kept.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use datafusion::parquet::file::statistics::Statistics;
use thermocline_column_store::{ZoneMap, ZoneValue};
use thermocline_parquet_columns::Kind;

use super::footers_in_use::HeldFooter;

/// Of texts in a row group: so many fit into one array however they lie in it, so that a run does not find out late that
/// they don't.
const MOST_TEXT_BYTES: i64 = i32::MAX as i64;

/// What the footers of a table's files tell.
#[derive(Debug, Clone)]
pub(crate) struct ParquetFacts {
    schema: SchemaRef,
    footers: Vec<Arc<HeldFooter>>,
}

impl ParquetFacts {
    /// Of the files with these footers, as a table with these columns.
    pub(super) fn new(schema: SchemaRef, footers: Vec<Arc<HeldFooter>>) -> Self {
        Self { schema, footers }
    }

    /// Rows of all files.
    pub(crate) fn row_count(&self) -> u64 {
        let rows = |footer: &Arc<HeldFooter>| u64::try_from(footer.file_metadata().num_rows()).unwrap_or_default();
        self.footers.iter().map(rows).sum()
    }

    /// How many different values a column has at most, NULL counted.
    pub(crate) fn most_values(&self, column: usize) -> u64 {
        let row_count = self.row_count();
        let field = self.schema.field(column);
        let mut bounds: Option<(i128, i128)> = None;
        for chunk in self.chunks(field) {
            match chunk.and_then(|chunk| whole_bounds(chunk, field.data_type())) {
                Some((least, greatest)) => {
                    bounds = Some(bounds.map_or((least, greatest), |(low, high)| (low.min(least), high.max(greatest))));
                }
                None => return row_count,
            }
        }
        let span = bounds.map_or(0, |(least, greatest)| greatest - least);
        u64::try_from(span).map_or(row_count, |span| row_count.min(span.saturating_add(2)))
    }

    /// Bytes that a column takes in the files, before they are compressed.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        let chunks = self.chunks(self.schema.field(column)).flatten();
        chunks.map(|chunk| u64::try_from(chunk.uncompressed_size()).unwrap_or_default()).sum()
    }

    /// Why pipelines do not read a column, if they do not.
    pub(crate) fn refusal(&self, column: usize) -> Option<String> {
        let field = self.schema.field(column);
        self.footers.iter().find_map(|footer| chunk_kinds(footer, footer.leaf(field.name()), field).err())
    }

    /// The chunks of a column in all row groups; `None` of a file that lacks it.
    fn chunks<'a>(&'a self, field: &'a Field) -> impl Iterator<Item = Option<&'a ColumnChunkMetaData>> {
        self.footers.iter().flat_map(move |footer| {
            let leaf = footer.leaf(field.name());
            footer.row_groups().iter().map(move |row_group| leaf.map(|leaf| row_group.column(leaf)))
        })
    }
}

/// The number of a column among a file's leaves, which is `leaf` if it has one, and the kind of its chunk in each row
/// group.
///
/// # Errors
/// Why pipelines do not read it.
pub(super) fn chunk_kinds(
    footer: &ParquetMetaData,
    leaf: Option<usize>,
    field: &Field,
) -> Result<(usize, Vec<Kind>), String> {
    let Some(leaf) = leaf else {
        return Err("it is nested, or not in all files".to_owned());
    };
    let column = footer.file_metadata().schema_descr().column(leaf);
    if column.max_def_level() > 0 && !field.is_nullable() {
        return Err("it may be NULL in a file, and not in the table".to_owned());
    }
    let kind = |row_group: usize| {
        let chunk = footer.row_group(row_group).column(leaf);
        let kind = Kind::of(&column, chunk, field.data_type())?;
        match kind.is_text() && chunk.uncompressed_size() > MOST_TEXT_BYTES {
            true => Err("its texts take more than 2 GiB in a row group".to_owned()),
            false => Ok(kind),
        }
    };
    Ok((leaf, (0..footer.num_row_groups()).map(kind).collect::<Result<_, _>>()?))
}

/// The least and greatest value of a chunk and how many of its values are NULL, as far as its footer knows.
pub(super) fn zone(chunk: &ColumnChunkMetaData, data_type: &DataType) -> Option<(ZoneMap, usize)> {
    let null_count = match chunk.column_descr().max_def_level() {
        0 => 0,
        _ => usize::try_from(chunk.statistics()?.null_count_opt()?).ok()?,
    };
    let integer = |value: i128| Some(ZoneValue::Integer(value));
    let bounds = whole_bounds(chunk, data_type);
    if bounds.is_none() && usize::try_from(chunk.num_values()) != Ok(null_count) {
        return None;
    }
    let (least, greatest) = bounds.map_or((None, None), |(least, greatest)| (integer(least), integer(greatest)));
    Some((ZoneMap { least, greatest, ..ZoneMap::default() }, null_count))
}

fn whole_bounds(chunk: &ColumnChunkMetaData, data_type: &DataType) -> Option<(i128, i128)> {
    let is_signed = matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(_, _)
            | DataType::Decimal128(_, _)
    );
    let (least, greatest) = match chunk.statistics().filter(|_| is_signed)? {
        Statistics::Int32(bounds) => (i128::from(*bounds.min_opt()?), i128::from(*bounds.max_opt()?)),
        Statistics::Int64(bounds) => (i128::from(*bounds.min_opt()?), i128::from(*bounds.max_opt()?)),
        _ => return None,
    };
    (least <= greatest).then_some((least, greatest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::parquet::file::metadata::{FileMetaData, RowGroupMetaData};
    use datafusion::parquet::schema::parser::parse_message_type;
    use datafusion::parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn texts_that_may_not_fit_into_an_array_are_not_for_pipelines() {
        let schema = parse_message_type("message m { optional binary s (UTF8); }").unwrap();
        let columns = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
        let kinds = |uncompressed_bytes: i64| {
            let chunk = ColumnChunkMetaData::builder(columns.column(0)).set_total_uncompressed_size(uncompressed_bytes);
            let group = RowGroupMetaData::builder(Arc::clone(&columns)).set_num_rows(1);
            let group = group.add_column_metadata(chunk.build().unwrap()).build().unwrap();
            let file = FileMetaData::new(1, 1, None, None, Arc::clone(&columns), None);
            chunk_kinds(&ParquetMetaData::new(file, vec![group]), Some(0), &Field::new("s", DataType::Utf8, true))
        };
        assert!(kinds(i64::from(i32::MAX)).is_ok_and(|(_, kinds)| kinds[0].is_text()));
        assert!(kinds(i64::from(i32::MAX) + 1).is_err_and(|reason| reason.contains("more than 2 GiB")));
    }
}
