//! Phase two of assembly: the values of a leaf at their places.
//!
//! A leaf that has a value for every place is shared as it is. Otherwise numbers, or the offsets of strings (never
//! their bytes) or their codes, are copied in one pass that reads the next value for every place and goes on only where
//! there is one.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, StringArray, StructArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::error::ArrowError;
use thermocline_narrow::with_dictionary;

/// Whether values of this type can be a leaf.
///
/// # Errors
/// They cannot.
pub(super) fn check_scalar(data_type: &DataType) -> Result<(), ArrowError> {
    let is_scalar = matches!(data_type, DataType::Boolean | DataType::Utf8 | DataType::Dictionary(..))
        || matches!(data_type.primitive_width(), Some(1 | 2 | 4 | 8 | 16));
    if is_scalar { Ok(()) } else { Err(refusal(data_type)) }
}

fn refusal(data_type: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("columns of type {data_type} cannot be striped"))
}

/// An array of `length` places, with the next of `values` where `present` says so (None: everywhere). Places without
/// a value are NULL if `nulls` says so, else undefined.
pub(super) fn place(
    values: Option<&ArrayRef>,
    present: Option<&NullBuffer>,
    is_nullable: bool,
    length: usize,
) -> Result<ArrayRef, ArrowError> {
    let nulls = present.filter(|_| is_nullable).cloned();
    let Some(values) = values else {
        return Ok(Arc::new(StructArray::new_empty_fields(length, nulls)));
    };
    let Some(present) = present else { return Ok(Arc::clone(values)) };
    if let Some(coded) = values.as_any_dictionary_opt() {
        let codes = make_array(coded.keys().to_data());
        return with_dictionary(&place(Some(&codes), Some(present), is_nullable, length)?, coded.values());
    }
    let present = present.inner();
    match values.data_type() {
        DataType::Boolean => {
            let placed = place_bits(values.as_boolean().values(), present);
            Ok(Arc::new(BooleanArray::new(placed, nulls)))
        }
        DataType::Utf8 => {
            let strings = values.as_string::<i32>();
            let mut offsets = place_fixed(strings.value_offsets(), present);
            offsets.push(strings.value_offsets()[strings.len()]);
            let offsets = OffsetBuffer::new(offsets.into());
            Ok(Arc::new(StringArray::try_new(offsets, strings.values().clone(), nulls)?))
        }
        data_type => {
            let data = values.to_data();
            let placed = match data_type.primitive_width() {
                Some(1) => place_numbers::<u8>(&data, present),
                Some(2) => place_numbers::<u16>(&data, present),
                Some(4) => place_numbers::<u32>(&data, present),
                Some(8) => place_numbers::<u64>(&data, present),
                Some(16) => place_numbers::<i128>(&data, present),
                _ => return Err(refusal(data_type)),
            };
            let placed = ArrayData::builder(data_type.clone()).len(length).add_buffer(placed).nulls(nulls);
            Ok(make_array(placed.build()?))
        }
    }
}

fn place_numbers<T: ArrowNativeType>(values: &ArrayData, present: &BooleanBuffer) -> Buffer {
    Buffer::from_vec(place_fixed(&values.buffer::<T>(0)[..values.len()], present))
}

/// The next of `values` at each place; where there is none, the one that will be next (the last, after it).
fn place_fixed<T: ArrowNativeType>(values: &[T], present: &BooleanBuffer) -> Vec<T> {
    let length = present.len();
    // One more for the end of the last string.
    let mut placed = Vec::with_capacity(length + 1);
    let Some(last) = values.len().checked_sub(1) else {
        placed.resize(length, T::default());
        return placed;
    };
    let mut next = 0;
    for word in present.bit_chunks().iter_padded() {
        let count = (length - placed.len()).min(64);
        if count == 0 {
            break;
        }
        match word {
            u64::MAX => {
                placed.extend_from_slice(&values[next..next + 64]);
                next += 64;
            }
            0 => placed.resize(placed.len() + count, values[next.min(last)]),
            _ => placed.extend((0..count).map(|at| {
                let value = values[next.min(last)];
                next += (word >> at & 1) as usize;
                value
            })),
        }
    }
    placed
}

fn place_bits(values: &BooleanBuffer, present: &BooleanBuffer) -> BooleanBuffer {
    let mut next = 0;
    BooleanBuffer::collect_bool(present.len(), |at| {
        let is_present = present.value(at);
        let value = is_present && values.value(next);
        next += usize::from(is_present);
        value
    })
}
