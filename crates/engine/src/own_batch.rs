//! Batches that are held for long, each with its own memory.
//!
//! Operators give out slices of one large batch. Who holds such a slice holds all of it, and who counts the bytes that
//! its arrays point to counts all of it for each slice.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;

/// What a batch may hold beyond twice its rows' bytes without being copied.
const SMALL_BYTES: usize = 64 << 10;

/// A view's own length, beside the texts that it points to.
const VIEW_BYTES: usize = size_of::<u128>();

/// Texts no longer than this lie in their views.
const INLINE_BYTES: usize = 12;

/// The batch, copied if it is a small part of what it holds.
///
/// # Errors
/// Arrow cannot copy it.
pub(crate) fn own(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let used_bytes = used_bytes(&batch)?;
    if batch.get_array_memory_size() <= 2 * used_bytes + SMALL_BYTES || batch.num_columns() == 0 {
        return Ok(batch);
    }
    let rows = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
    let copied = |column: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        Ok(match column.data_type() {
            // Taken rows would point into the same texts.
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => take(column.as_ref(), &rows, None)?,
        })
    };
    let columns = batch.columns().iter().map(copied).collect::<Result<_, _>>()?;
    RecordBatch::try_new(batch.schema(), columns)
}

/// Bytes of the batch's rows alone. Views of texts inside lists and structs are taken to use all that they point into.
///
/// # Errors
/// Arrow knows no such type.
pub fn used_bytes(batch: &RecordBatch) -> Result<usize, ArrowError> {
    let used_bytes = |column: &ArrayRef| match column.data_type() {
        // Many views may point to one text.
        DataType::Utf8View => Ok(viewed_bytes(column.as_string_view().views()).min(column.get_array_memory_size())),
        DataType::BinaryView => Ok(viewed_bytes(column.as_binary_view().views()).min(column.get_array_memory_size())),
        _ => column.to_data().get_slice_memory_size(),
    };
    batch.columns().iter().map(used_bytes).sum()
}

fn viewed_bytes(views: &[u128]) -> usize {
    // The low half of a view is the text's length.
    let long_bytes = |view: &u128| Some(*view as u32 as usize).filter(|length| *length > INLINE_BYTES).unwrap_or(0);
    views.iter().map(|view| VIEW_BYTES + long_bytes(view)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{Int64Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn slices_are_copied_and_whole_batches_are_not() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|number| number.to_string())));
        let views = (0..100_000).map(|number| format!("a text that lies apart, {number}"));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(views));
        let whole = RecordBatch::try_from_iter([("n", numbers), ("t", texts), ("v", views)]).unwrap();
        assert!(Arc::ptr_eq(own(whole.clone()).unwrap().column(0), whole.column(0)));
        let slice = whole.slice(50_000, 1000);
        let owned = own(slice.clone()).unwrap();
        assert_eq!(owned, slice);
        assert!(owned.get_array_memory_size() < 100_000, "{}", owned.get_array_memory_size());
    }
}
