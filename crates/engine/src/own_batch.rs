//! Batches that are held for long, each with its own memory.
//!
//! Operators give out slices of one large batch. Who holds such a slice holds all of it, and who counts the bytes that
//! its arrays point to counts all of it for each slice.

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;

/// What a batch may hold beyond twice its rows' bytes without being copied.
const SMALL_BYTES: usize = 64 << 10;

/// The batch, copied if it is a small part of what it holds.
///
/// # Errors
/// Arrow cannot copy it.
pub(crate) fn own(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let used_bytes = used_bytes(&batch)?;
    let row_count = batch.num_rows() as u32;
    if batch.get_array_memory_size() <= 2 * used_bytes + SMALL_BYTES || batch.num_columns() == 0 {
        return Ok(batch);
    }
    take_record_batch(&batch, &UInt32Array::from_iter_values(0..row_count))
}

/// Bytes of the batch's rows alone. Views of texts are taken to use all of what they point into.
///
/// # Errors
/// Arrow knows no such type.
pub fn used_bytes(batch: &RecordBatch) -> Result<usize, ArrowError> {
    let used_bytes = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View | DataType::BinaryView => Ok(column.get_array_memory_size()),
        _ => column.to_data().get_slice_memory_size(),
    };
    batch.columns().iter().map(used_bytes).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn slices_are_copied_and_whole_batches_are_not() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|number| number.to_string())));
        let whole = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        assert!(Arc::ptr_eq(own(whole.clone()).unwrap().column(0), whole.column(0)));
        let slice = whole.slice(50_000, 1000);
        let owned = own(slice.clone()).unwrap();
        assert_eq!(owned, slice);
        assert!(owned.get_array_memory_size() < 40_000, "{}", owned.get_array_memory_size());
    }
}
