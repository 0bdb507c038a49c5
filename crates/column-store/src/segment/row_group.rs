//! A row group as the pages of its columns, on the way to a segment.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};

use super::row_group_builder::text_bytes;
use super::{SegmentError, stored_bytes};
use crate::{MAX_PAGE_VALUES, PageSummary, PhysicalType, encode};

/// Whether a column of this type can be stored.
pub fn supports(data_type: &DataType) -> bool {
    PhysicalType::of(data_type).is_some()
}

/// Memory a value that finding its column's encoding takes at most, beyond the room for what is written of it, which is
/// not there yet: of distinct texts 8 bytes for each value's place, half of 32 for each text and up to 20 for the table
/// that finds them, while it grows; or patterns, numbers and exceptions of floats.
const PLANNING_BYTES: usize = 24;

/// Memory that a batch's rows add, at most, to what [`EncodedRowGroup::encode`] takes beside its batches: their part of
/// all pages, and of one column laid together and written.
pub fn encoding_bytes(batch: &RecordBatch) -> usize {
    let column_bytes = |column: &ArrayRef| {
        let data = column.to_data();
        match text_bytes(column.as_ref()) {
            0 => data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size()),
            // An offset as well, be they views or not.
            text_bytes => text_bytes + column.len() * size_of::<i64>(),
        }
    };
    let (all, largest) = batch
        .columns()
        .iter()
        .map(column_bytes)
        .fold((0, 0), |(all, largest), bytes| (all + bytes, bytes.max(largest)));
    all + 2 * largest + batch.num_rows() * PLANNING_BYTES
}

/// The pages of some rows, one for each column. Made without a file, in any thread.
#[derive(Debug)]
pub struct EncodedRowGroup {
    pub(super) schema: SchemaRef,
    pub(super) row_count: usize,
    pub(super) pages: Vec<EncodedPage>,
}

/// A page's bytes, and what the footer says of it.
#[derive(Debug)]
pub(super) struct EncodedPage {
    pub(super) bytes: Vec<u8>,
    pub(super) summary: PageSummary,
}

impl EncodedRowGroup {
    /// Lays the batches' rows together and encodes each column of them. The batches must have the columns of `schema`
    /// in its order, by type; their own names are not looked at. Takes no more memory, beside
    /// the batches, than [`encoding_bytes`] says of them together.
    ///
    /// # Errors
    /// No columns, a type that cannot be stored, batches with other columns, NULLs where `schema` has none; no rows or
    /// more than [`MAX_PAGE_VALUES`]; texts of more than 2 GiB in a column.
    pub fn encode(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self, SegmentError> {
        require_columns(schema)?;
        for batch in batches {
            require_same_types(schema, batch)?;
        }
        let row_count = batches.iter().map(RecordBatch::num_rows).sum();
        if row_count == 0 || row_count > MAX_PAGE_VALUES {
            return Err(SegmentError::RowCount { found: row_count, limit: MAX_PAGE_VALUES });
        }
        let pages = (0..schema.fields().len())
            .map(|index| encode_column(schema, index, batches))
            .collect::<Result<Vec<_>, SegmentError>>()?;
        Ok(Self { schema: SchemaRef::clone(schema), row_count, pages })
    }

    /// Rows of the group.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes that the pages take in a file, padding included; a little more than they take in memory.
    pub fn size_bytes(&self) -> u64 {
        self.pages.iter().map(|page| stored_bytes(page.bytes.len() as u64)).sum()
    }
}

fn encode_column(schema: &SchemaRef, index: usize, batches: &[RecordBatch]) -> Result<EncodedPage, SegmentError> {
    let field = schema.field(index);
    let column = || field.name().clone();
    let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
    let joined: ArrayRef;
    let values = match parts[..] {
        [whole] => whole,
        _ => {
            joined = concat(&parts).map_err(|source| SegmentError::Concatenate { column: column(), source })?;
            joined.as_ref()
        }
    };
    if !field.is_nullable() && values.null_count() > 0 {
        return Err(SegmentError::UnexpectedNull { column: column(), null_count: values.null_count() });
    }
    let mut bytes = Vec::new();
    let summary = encode(values, &mut bytes).map_err(|source| SegmentError::Encode { column: column(), source })?;
    Ok(EncodedPage { bytes, summary })
}

/// There are columns, and pages can hold them.
pub(super) fn require_columns(schema: &SchemaRef) -> Result<(), SegmentError> {
    if schema.fields().is_empty() {
        return Err(SegmentError::NoColumns);
    }
    match schema.fields().iter().find(|field| !supports(field.data_type())) {
        Some(field) => {
            Err(SegmentError::ColumnType { column: field.name().clone(), data_type: field.data_type().clone() })
        }
        None => Ok(()),
    }
}

fn require_same_types(schema: &SchemaRef, batch: &RecordBatch) -> Result<(), SegmentError> {
    let count = schema.fields().len().max(batch.num_columns());
    for index in 0..count {
        let expected = schema.fields().get(index).map(|field| field.data_type());
        let found = batch.columns().get(index).map(|column| column.data_type());
        if found != expected {
            let name = |data_type: Option<&DataType>| match data_type {
                Some(data_type) => format!("of type {data_type}"),
                None => "missing".to_owned(),
            };
            return Err(SegmentError::BatchColumn { index, found: name(found), expected: name(expected) });
        }
    }
    Ok(())
}
