//! From a page, or some of its mini-blocks, to an Arrow array of the column's type.

use std::ops::Range;

use arrow::array::{
    ArrayData, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, GenericBinaryArray, GenericStringArray,
    StringArray, StringViewArray, UInt32Array, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType};
use std::sync::Arc;

use super::validity::bits;
use super::{Body, Page, PhysicalType};
use crate::floats::Float;
use crate::integers::{Integers, Native};
use crate::texts::DecodedTexts;
use crate::{MINI_BLOCK_VALUES, PageError};

impl Page<'_> {
    /// All values as an array of `data_type`, which must be stored as this page's values are: the column's type.
    ///
    /// # Errors
    /// As [`Page::decode_range`].
    pub fn decode(&self, data_type: &DataType) -> Result<ArrayRef, PageError> {
        self.decode_range(0..self.mini_block_count(), data_type)
    }

    /// The values of some mini-blocks as an array of `data_type`. It owns its buffers.
    ///
    /// # Errors
    /// Mini-blocks that are not there, a type that is stored otherwise, texts of more than 2 GiB together, or damage
    /// that the checksum cannot have seen (codes outside the dictionary, text that is not UTF-8).
    pub fn decode_range(&self, mini_blocks: Range<usize>, data_type: &DataType) -> Result<ArrayRef, PageError> {
        if PhysicalType::of(data_type) != Some(self.physical_type()) {
            let page = self.physical_type().name();
            return Err(PageError::TypeMismatch { page, asked: data_type.clone() });
        }
        let rows = self.rows(&mini_blocks)?;
        let nulls = self.validity.nulls(&rows);
        if let Body::AllNull = self.body {
            return Ok(new_null_array(data_type, rows.len()));
        }
        let blocks = Blocks { rows, mini_blocks };
        let values = match self.physical_type() {
            PhysicalType::Boolean => return Ok(Arc::new(BooleanArray::new(self.booleans(&blocks.rows), nulls))),
            PhysicalType::Text | PhysicalType::Binary => return self.texts(&blocks, data_type, nulls),
            PhysicalType::Int8 => self.fixed::<i8>(&blocks),
            PhysicalType::Int16 => self.fixed::<i16>(&blocks),
            PhysicalType::Int32 => self.fixed::<i32>(&blocks),
            PhysicalType::Int64 => self.fixed::<i64>(&blocks),
            PhysicalType::UInt8 => self.fixed::<u8>(&blocks),
            PhysicalType::UInt16 => self.fixed::<u16>(&blocks),
            PhysicalType::UInt32 => self.fixed::<u32>(&blocks),
            PhysicalType::UInt64 => self.fixed::<u64>(&blocks),
            PhysicalType::Float32 => self.floats::<f32, u32>(&blocks),
            PhysicalType::Float64 => self.floats::<f64, u64>(&blocks),
            PhysicalType::Decimal128 => self.fixed::<i128>(&blocks),
        };
        let data = ArrayData::builder(data_type.clone())
            .len(blocks.rows.len())
            .add_buffer(values)
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0))
            .build()?;
        Ok(make_array(data))
    }

    fn booleans(&self, rows: &Range<usize>) -> BooleanBuffer {
        match &self.body {
            Body::Bits(bytes) => bits(bytes, rows),
            Body::Constant([1]) => BooleanBuffer::new_set(rows.len()),
            // `open` lets booleans have no other body.
            _ => BooleanBuffer::new_unset(rows.len()),
        }
    }

    fn fixed<N: Native + ArrowNativeType>(&self, blocks: &Blocks) -> Buffer {
        match &self.body {
            Body::Plain(bytes) => {
                let width = size_of::<N>();
                Buffer::from(&bytes[blocks.rows.start * width..blocks.rows.end * width])
            }
            Body::Constant(bytes) => Buffer::from_vec(vec![N::from_bytes(bytes); blocks.rows.len()]),
            Body::Integers(integers) => blocks.decode::<N>(integers).into(),
            // `open` lets values of fixed width have no other body.
            _ => Buffer::from_vec(vec![N::default(); blocks.rows.len()]),
        }
    }

    /// `N` has the bits of `F`.
    fn floats<F: Float + ArrowNativeType, N: Native + ArrowNativeType>(&self, blocks: &Blocks) -> Buffer {
        let Body::DecimalFloats(floats) = &self.body else { return self.fixed::<N>(blocks) };
        let mut values = vec![<F as Default>::default(); blocks.rows.len()];
        for (index, values) in blocks.mini_blocks.clone().zip(values.chunks_mut(MINI_BLOCK_VALUES)) {
            floats.decode(index, values);
        }
        values.into()
    }

    fn texts(&self, blocks: &Blocks, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, PageError> {
        let count = blocks.rows.len();
        let decoded = match &self.body {
            Body::Texts(texts) => texts.decode(blocks.mini_blocks.clone(), count)?,
            Body::Symbols(texts) => texts.decode(blocks.mini_blocks.clone(), count)?,
            Body::Dictionary { dictionary, codes } => {
                let codes = blocks.decode::<u32>(codes);
                dictionary.check(&codes)?;
                // Views of the same text share its bytes; but not if that means more texts than there are codes.
                let is_view = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
                if is_view && dictionary.entry_count() <= count {
                    let entries = texts_array(dictionary.entries()?, data_type, None)?;
                    return Ok(take(&entries, &UInt32Array::new(codes.into(), nulls), None)?);
                }
                dictionary.decode(&codes, nulls.as_ref())?
            }
            Body::Constant(text) => DecodedTexts::repeated(text, count, nulls.as_ref())?,
            // `open` lets texts have no other body.
            _ => DecodedTexts::repeated(&[], count, None)?,
        };
        texts_array(decoded, data_type, nulls)
    }
}

/// Mini-blocks and their values.
struct Blocks {
    rows: Range<usize>,
    mini_blocks: Range<usize>,
}

impl Blocks {
    fn decode<N: Native>(&self, integers: &Integers<'_>) -> Vec<N> {
        let mut values = vec![N::default(); self.rows.len()];
        for (index, values) in self.mini_blocks.clone().zip(values.chunks_mut(MINI_BLOCK_VALUES)) {
            integers.decode(index, values);
        }
        values
    }
}

/// An array of any of the types of texts and binaries.
fn texts_array(texts: DecodedTexts, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, PageError> {
    let large = |offsets: &[i32]| -> OffsetBuffer<i64> {
        OffsetBuffer::new(offsets.iter().map(|offset| i64::from(*offset)).collect())
    };
    let bytes = Buffer::from_vec(texts.bytes);
    let offsets = || OffsetBuffer::new(ScalarBuffer::from(texts.offsets.clone()));
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(offsets(), bytes, nulls)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&StringArray::try_new(offsets(), bytes, nulls)?)),
        DataType::LargeUtf8 => Arc::new(GenericStringArray::<i64>::try_new(large(&texts.offsets), bytes, nulls)?),
        DataType::LargeBinary => Arc::new(GenericBinaryArray::<i64>::try_new(large(&texts.offsets), bytes, nulls)?),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(&BinaryArray::try_new(offsets(), bytes, nulls)?)),
        _ => Arc::new(BinaryArray::try_new(offsets(), bytes, nulls)?),
    })
}
