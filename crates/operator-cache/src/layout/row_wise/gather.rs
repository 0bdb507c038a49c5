//! From rows to columns: one tight loop over the rows for each width, with or without a selection.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BooleanArray, StringArray, StructArray, UInt32Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::error::ArrowError;
use thermocline_narrow::with_dictionary;

use super::{Field, Place, RowBlock};

/// The rows of one answer.
pub(super) struct Gather<'a> {
    block: &'a RowBlock,
    /// Rows of the block, all of them less than its count; None: all.
    selected: Option<&'a [u32]>,
}

impl<'a> Gather<'a> {
    pub(super) fn new(block: &'a RowBlock, selected: Option<&'a [u32]>) -> Self {
        Self { block, selected }
    }

    fn row_count(&self) -> usize {
        self.selected.map_or(self.block.row_count, <[u32]>::len)
    }

    pub(super) fn field(&self, field: &Field) -> Result<ArrayRef, ArrowError> {
        let nulls =
            field.validity_bit.map(|bit| NullBuffer::new(self.bits(bit))).filter(|nulls| nulls.null_count() > 0);
        match &field.place {
            Place::Value { offset_bytes } => match field.data_type {
                DataType::Utf8 => self.strings(*offset_bytes, nulls),
                _ => self.numbers(&field.data_type, *offset_bytes, nulls),
            },
            Place::Code { offset_bytes, key, dictionary } => {
                with_dictionary(&self.numbers(key, *offset_bytes, nulls)?, dictionary)
            }
            Place::Bit(bit) => Ok(Arc::new(BooleanArray::new(self.bits(*bit), nulls))),
            Place::Fields { fields, children } => {
                let children = children.iter().map(|child| self.field(child)).collect::<Result<Vec<_>, _>>()?;
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, self.row_count())?))
            }
            Place::Beside(lists) => match self.selected {
                Some(selected) => compute::take(lists, &UInt32Array::from(selected.to_vec()), None),
                None => Ok(Arc::clone(lists)),
            },
        }
    }

    fn numbers(
        &self,
        data_type: &DataType,
        offset_bytes: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let buffer = match data_type.primitive_width() {
            Some(1) => self.values(offset_bytes, u8::from_ne_bytes),
            Some(2) => self.values(offset_bytes, u16::from_ne_bytes),
            Some(4) => self.values(offset_bytes, u32::from_ne_bytes),
            Some(8) => self.values(offset_bytes, u64::from_ne_bytes),
            _ => self.values(offset_bytes, i128::from_ne_bytes),
        };
        let data = ArrayData::builder(data_type.clone()).len(self.row_count()).add_buffer(buffer).nulls(nulls);
        Ok(make_array(data.build()?))
    }

    fn values<T: ArrowNativeType, const W: usize>(&self, offset_bytes: usize, read: impl Fn([u8; W]) -> T) -> Buffer {
        Buffer::from_vec(self.map(offset_bytes, read))
    }

    /// What `read` makes of the `W` bytes at `offset_bytes` of each row.
    #[inline]
    fn map<T, const W: usize>(&self, offset_bytes: usize, mut read: impl FnMut([u8; W]) -> T) -> Vec<T> {
        let stride_bytes = self.block.stride_bytes;
        // From the field's place in the first row on, it is at the start of every stride.
        let rows = self.block.rows.as_slice().get(offset_bytes..).unwrap_or_default();
        let mut at = |row: &[u8]| read(*row.first_chunk().expect("a row holds all of its fields"));
        match self.selected {
            None => rows.chunks(stride_bytes).map(at).collect(),
            Some(selected) => selected.iter().map(|&row| at(&rows[row as usize * stride_bytes..])).collect(),
        }
    }

    fn bits(&self, bit: usize) -> BooleanBuffer {
        let (stride_bytes, shift) = (self.block.stride_bytes, bit % 8);
        let rows = self.block.rows.as_slice().get(bit / 8..).unwrap_or_default();
        let is_set = |at: usize| rows[at * stride_bytes] >> shift & 1 == 1;
        match self.selected {
            None => BooleanBuffer::collect_bool(self.block.row_count, is_set),
            Some(selected) => BooleanBuffer::collect_bool(selected.len(), |at| is_set(selected[at] as usize)),
        }
    }

    fn strings(&self, offset_bytes: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let mut total_bytes = 0;
        let mut offsets = Vec::with_capacity(self.row_count() + 1);
        offsets.push(0);
        let places = self.map(offset_bytes, |place: [u8; 8]| {
            // The start in the low half, the length in the high one.
            let place = u64::from_le_bytes(place);
            let (start, length) = (place as u32 as usize, (place >> 32) as usize);
            total_bytes += length;
            offsets.push(total_bytes as i32);
            (start, length)
        });
        if i32::try_from(total_bytes).is_err() {
            return Err(ArrowError::OffsetOverflowError(total_bytes));
        }
        let mut bytes = Vec::with_capacity(total_bytes);
        for (start, length) in places {
            bytes.extend_from_slice(&self.block.heap[start..start + length]);
        }
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
    }
}
