//! What of a footer is to be believed.
//!
//! Where chunks lie and how many rows there are is checked once, so that nobody behind it meets a chunk before the
//! file's beginning or a row group of more rows than there are. Bounds and counts of NULLs that do not say what queries
//! take them to say are taken out, since DataFusion prunes row groups and pages by whatever it finds: bounds of floats
//! leave NaN out, which SQL has above all numbers (or below, by its sign); old writers ordered texts and unsigned
//! numbers by signed bytes; INT96 has no order; and a count of NULLs that is missing is taken for none, which only some
//! writers mean by it. So are Bloom filters of floats, which know values by their bits: SQL holds both zeros to be equal,
//! and all NaNs; and the place of a dictionary at the file's first byte, which chunks do not have that old writers say
//! it of.

use datafusion::parquet::basic::{LogicalType, SortOrder, Type};
use datafusion::parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use datafusion::parquet::file::statistics::Statistics;

/// The footer of a file of `size_bytes` bytes without the statistics that mislead.
///
/// # Errors
/// Chunks that do not lie in the file, row counts that contradict each other.
pub(super) fn trusted(footer: ParquetMetaData, size_bytes: u64) -> Result<ParquetMetaData> {
    for (number, row_group) in footer.row_groups().iter().enumerate() {
        check_row_group(row_group, size_bytes)
            .map_err(|reason| ParquetError::General(format!("row group {number}: {reason}")))?;
    }
    let counts_zero = !leaves_zero_out(footer.file_metadata().created_by().unwrap_or_default());
    let misleads = |row_group: &RowGroupMetaData| {
        row_group.columns().iter().any(|chunk| {
            belief(chunk, counts_zero) != Belief::All || has_no_dictionary(chunk) || has_misleading_filter(chunk)
        })
    };
    if !footer.row_groups().iter().any(misleads) {
        return Ok(footer);
    }
    with_chunks(footer, |chunk| believed(chunk, counts_zero))
}

/// The footer of a file whose page index is not read.
pub(super) fn without_page_index(footer: ParquetMetaData) -> Result<ParquetMetaData> {
    with_chunks(footer, |chunk| {
        let chunk = chunk.into_builder().set_column_index_offset(None).set_column_index_length(None);
        chunk.set_offset_index_offset(None).set_offset_index_length(None).build()
    })
}

/// The footer with each chunk changed.
fn with_chunks(
    footer: ParquetMetaData,
    changed: impl Fn(ColumnChunkMetaData) -> Result<ColumnChunkMetaData>,
) -> Result<ParquetMetaData> {
    let mut footer = footer.into_builder();
    let row_groups = footer.take_row_groups().into_iter().map(|row_group| {
        let mut row_group = row_group.into_builder();
        let chunks = row_group.take_columns().into_iter().map(&changed).collect::<Result<Vec<_>>>()?;
        row_group.set_column_metadata(chunks).build()
    });
    let row_groups = row_groups.collect::<Result<Vec<_>>>()?;
    Ok(footer.set_row_groups(row_groups).build())
}

fn check_row_group(row_group: &RowGroupMetaData, size_bytes: u64) -> std::result::Result<(), String> {
    let row_count = row_group.num_rows();
    if row_count < 0 {
        return Err(format!("it claims {row_count} rows"));
    }
    for chunk in row_group.columns() {
        let column = chunk.column_path();
        let dictionary = chunk.dictionary_page_offset().filter(|_| !has_no_dictionary(chunk));
        let start = dictionary.unwrap_or_else(|| chunk.data_page_offset());
        let length = chunk.compressed_size();
        let end = start.checked_add(length).and_then(|end| u64::try_from(end).ok());
        if start < 0 || length < 0 || end.is_none_or(|end| end > size_bytes) || chunk.data_page_offset() < 0 {
            let start = start.min(chunk.data_page_offset());
            return Err(format!(
                "column {column} claims {length} bytes from byte {start} on, the file has {size_bytes} bytes"
            ));
        }
        // A value or a NULL for each row, if nothing is repeated.
        if chunk.column_descr().max_rep_level() == 0 && chunk.num_values() != row_count {
            return Err(format!("column {column} claims {} values of {row_count} rows", chunk.num_values()));
        }
    }
    Ok(())
}

/// Whether the offset of its dictionary is where a file's magic bytes are, by which old writers mean that there is none.
fn has_no_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset() == Some(0)
}

/// Whether it has a Bloom filter by the bits of floats.
fn has_misleading_filter(chunk: &ColumnChunkMetaData) -> bool {
    is_float(chunk) && (chunk.bloom_filter_offset().is_some() || chunk.bloom_filter_length().is_some())
}

fn is_float(chunk: &ColumnChunkMetaData) -> bool {
    let column = chunk.column_descr();
    matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE)
        || column.logical_type_ref() == Some(&LogicalType::Float16)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belief {
    All,
    /// The counts and not the bounds.
    Counts,
    Nothing,
}

/// Whether this writer, in older versions, wrote no count of NULLs where there were none.
fn leaves_zero_out(created_by: &str) -> bool {
    created_by.starts_with("parquet-rs") || created_by.contains("parquet-go")
}

fn belief(chunk: &ColumnChunkMetaData, counts_zero: bool) -> Belief {
    let column = chunk.column_descr();
    let has_order = column.physical_type() != Type::INT96 && !is_float(chunk);
    let may_have_null = column.max_def_level() > 0;
    // Signed numbers have always been ordered as they are.
    let is_number = matches!(column.physical_type(), Type::BOOLEAN | Type::INT32 | Type::INT64)
        && column.sort_order() == SortOrder::SIGNED;
    match chunk.statistics() {
        Some(statistics) if may_have_null && counts_zero && statistics.null_count_opt().is_none() => Belief::Nothing,
        Some(statistics) if !has_order || statistics.is_min_max_deprecated() && !is_number => Belief::Counts,
        // Pages have bounds of their own.
        None if !has_order && chunk.column_index_offset().is_some() => Belief::Counts,
        _ => Belief::All,
    }
}

fn believed(chunk: ColumnChunkMetaData, counts_zero: bool) -> Result<ColumnChunkMetaData> {
    let chunk = match has_no_dictionary(&chunk) {
        true => chunk.into_builder().set_dictionary_page_offset(None).build()?,
        false => chunk,
    };
    let chunk = match has_misleading_filter(&chunk) {
        true => chunk.into_builder().set_bloom_filter_offset(None).set_bloom_filter_length(None).build()?,
        false => chunk,
    };
    let belief = belief(&chunk, counts_zero);
    if belief == Belief::All {
        return Ok(chunk);
    }
    let counts = match belief {
        Belief::Nothing => None,
        _ => chunk.statistics().map(without_bounds),
    };
    let chunk = chunk.into_builder().clear_statistics().set_column_index_offset(None).set_column_index_length(None);
    match counts {
        Some(counts) => chunk.set_statistics(counts),
        None => chunk,
    }
    .build()
}

fn without_bounds(statistics: &Statistics) -> Statistics {
    let (distinct, nulls) = (statistics.distinct_count_opt(), statistics.null_count_opt());
    match statistics.physical_type() {
        Type::BOOLEAN => Statistics::new::<bool>(None, None, distinct, nulls, false),
        Type::INT32 => Statistics::new::<i32>(None, None, distinct, nulls, false),
        Type::INT64 => Statistics::new::<i64>(None, None, distinct, nulls, false),
        Type::INT96 => Statistics::new::<Int96>(None, None, distinct, nulls, false),
        Type::FLOAT => Statistics::new::<f32>(None, None, distinct, nulls, false),
        Type::DOUBLE => Statistics::new::<f64>(None, None, distinct, nulls, false),
        Type::BYTE_ARRAY => Statistics::new::<ByteArray>(None, None, distinct, nulls, false),
        Type::FIXED_LEN_BYTE_ARRAY => Statistics::new::<FixedLenByteArray>(None, None, distinct, nulls, false),
    }
}
