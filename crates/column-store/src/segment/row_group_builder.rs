//! Batches of any size, cut into row groups.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    BinaryType, BinaryViewType, DataType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};

use super::ROW_GROUP_ROWS;

/// Most bytes of texts and binaries in a row group of more than one row, so that a table of long texts takes no more
/// memory than this at once and its pages stay far below what an array can hold (2 GiB).
pub const ROW_GROUP_TEXT_BYTES: usize = 256 << 20;

/// Gathers batches until they make a row group. Cutting copies nothing.
#[derive(Debug, Default)]
pub struct RowGroupBuilder {
    batches: Vec<RecordBatch>,
    row_count: usize,
    text_bytes: usize,
}

impl RowGroupBuilder {
    /// Nothing gathered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the rows of a batch, and returns the row groups that are complete by them, oldest first: batches of
    /// [`ROW_GROUP_ROWS`] rows together, or of fewer where there is more text than [`ROW_GROUP_TEXT_BYTES`].
    pub fn push(&mut self, batch: RecordBatch) -> Vec<Vec<RecordBatch>> {
        let mut complete = Vec::new();
        let mut taken_rows = 0;
        while taken_rows < batch.num_rows() {
            let mut row_count = (ROW_GROUP_ROWS - self.row_count).min(batch.num_rows() - taken_rows);
            let mut piece = batch.slice(taken_rows, row_count);
            let mut text_bytes = batch_text_bytes(&piece);
            while text_bytes > ROW_GROUP_TEXT_BYTES && row_count > 1 {
                row_count /= 2;
                piece = piece.slice(0, row_count);
                text_bytes = batch_text_bytes(&piece);
            }
            if self.row_count > 0 && self.text_bytes + text_bytes > ROW_GROUP_TEXT_BYTES {
                complete.extend(self.take());
                continue;
            }
            self.batches.push(piece);
            self.row_count += row_count;
            self.text_bytes += text_bytes;
            taken_rows += row_count;
            if self.row_count == ROW_GROUP_ROWS {
                complete.extend(self.take());
            }
        }
        complete
    }

    fn take(&mut self) -> Option<Vec<RecordBatch>> {
        let Self { batches, .. } = std::mem::take(self);
        (!batches.is_empty()).then_some(batches)
    }

    /// The rows that make no full row group, if there are any.
    pub fn finish(mut self) -> Option<Vec<RecordBatch>> {
        self.take()
    }
}

fn batch_text_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| text_bytes(column.as_ref())).sum()
}

/// Bytes of an array's texts or binaries; 0 for other types.
pub(super) fn text_bytes(array: &dyn Array) -> usize {
    macro_rules! between_ends {
        ($type:ty) => {{
            let offsets = array.as_bytes::<$type>().value_offsets();
            (offsets[offsets.len() - 1] - offsets[0]) as usize
        }};
    }
    match array.data_type() {
        DataType::Utf8 => between_ends!(Utf8Type),
        DataType::Binary => between_ends!(BinaryType),
        DataType::LargeUtf8 => between_ends!(LargeUtf8Type),
        DataType::LargeBinary => between_ends!(LargeBinaryType),
        // The low half of a view is the text's length.
        DataType::Utf8View => viewed_bytes(array.as_byte_view::<StringViewType>().views()),
        DataType::BinaryView => viewed_bytes(array.as_byte_view::<BinaryViewType>().views()),
        _ => 0,
    }
}

fn viewed_bytes(views: &[u128]) -> usize {
    views.iter().map(|view| *view as u32 as usize).sum()
}
