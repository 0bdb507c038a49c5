//! Random types, random arrays of them, and what an array says value by value: the oracle of the layouts' tests.
//!
//! Arrays have NULLs at every level, also where a NULL struct or list hides what is below, lists that are empty, lists
//! that are NULL but not empty, offsets that leave gaps, and they are slices of larger arrays.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray, UInt8Array, UInt16Array,
    make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use thermocline_narrow::with_dictionary;
use thermocline_seeded::Random;

/// A type without others in it.
pub(crate) fn random_scalar_type(random: &mut Random) -> DataType {
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Decimal128(20, 3),
        DataType::Decimal64(18, 2),
        DataType::Decimal32(9, 2),
        DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8)),
        DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
    ];
    types[random.below(types.len())].clone()
}

/// A type of at most `depth` lists and structs within each other.
pub(crate) fn random_type(random: &mut Random, depth: usize) -> DataType {
    if depth == 0 || random.one_in(6) {
        return random_scalar_type(random);
    }
    if random.one_in(2) {
        let element = random_type(random, depth - 1);
        return DataType::List(Arc::new(Field::new("item", element, !random.one_in(4))));
    }
    let field_count = if random.one_in(12) { 0 } else { 1 + random.below(3) };
    let field = |index| Field::new(format!("f{index}"), random_type(random, depth - 1), !random.one_in(4));
    DataType::Struct((0..field_count).map(field).collect::<Fields>())
}

/// `length` values, some of them NULL if they may be.
pub(crate) fn random_array(random: &mut Random, data_type: &DataType, length: usize, is_nullable: bool) -> ArrayRef {
    let before = random.below(3) * random.below(5);
    let whole_length = before + length + random.below(4);
    let whole = random_whole_array(random, data_type, whole_length, is_nullable);
    whole.slice(before, length)
}

fn random_nulls(random: &mut Random, length: usize, is_nullable: bool) -> Option<NullBuffer> {
    let chances = [2, 5, 40, 400][random.below(4)];
    let is_nullable = is_nullable && !random.one_in(3);
    is_nullable.then(|| (0..length).map(|_| !random.one_in(chances)).collect())
}

fn random_whole_array(random: &mut Random, data_type: &DataType, length: usize, is_nullable: bool) -> ArrayRef {
    let nulls = random_nulls(random, length, is_nullable);
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new((0..length).map(|_| random.one_in(2)).collect(), nulls)),
        DataType::Utf8 => {
            let strings: Vec<String> = (0..length).map(|_| random_text(random)).collect();
            let (offsets, values, _) = StringArray::from(strings).into_parts();
            Arc::new(StringArray::new(offsets, values, nulls))
        }
        DataType::Dictionary(key, _) => {
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..9).map(|_| random_text(random))));
            let keys = (0..length).map(|_| random.below(9));
            let keys: ArrayRef = match **key {
                DataType::UInt8 => Arc::new(UInt8Array::new(keys.map(|key| key as u8).collect(), nulls)),
                _ => Arc::new(UInt16Array::new(keys.map(|key| key as u16).collect(), nulls)),
            };
            with_dictionary(&keys, &texts).unwrap()
        }
        DataType::List(field) => {
            let longest = if random.one_in(8) { 70 } else { 1 + random.below(5) };
            let lengths = (0..length).map(|_| if random.one_in(3) { 0 } else { random.below(longest + 1) });
            let offsets = OffsetBuffer::<i32>::from_lengths(lengths.collect::<Vec<_>>());
            let skipped = random.below(2) * random.below(6);
            let last = *offsets.last().unwrap() as usize + skipped;
            let offsets = offsets.iter().map(|offset| offset + skipped as i32).collect::<Vec<_>>();
            let element_count = last + random.below(3);
            let elements = random_array(random, field.data_type(), element_count, field.is_nullable());
            Arc::new(ListArray::new(Arc::clone(field), OffsetBuffer::new(offsets.into()), elements, nulls))
        }
        DataType::Struct(fields) => {
            let children = fields
                .iter()
                .map(|field| random_array(random, field.data_type(), length, field.is_nullable()))
                .collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, length).unwrap())
        }
        DataType::Decimal128(_, _) => {
            let values: Vec<i128> = (0..length).map(|_| i128::from(random.next_u64() >> 16) - (1 << 40)).collect();
            fixed(data_type, length, Buffer::from_vec(values), nulls)
        }
        _ => {
            let bytes = (0..length * data_type.primitive_width().unwrap()).map(|_| random.below(256) as u8);
            // Aligned for whatever the type is.
            let buffer = Buffer::from_slice_ref(bytes.collect::<Vec<u8>>());
            fixed(data_type, length, buffer, nulls)
        }
    }
}

fn random_text(random: &mut Random) -> String {
    match random.below(12) {
        0..4 => String::new(),
        11 => "höchst unwahrscheinlich lang ".repeat(random.below(30)),
        _ => format!("{:x}", (random.next_u64() >> 16) >> random.below(48)),
    }
}

fn fixed(data_type: &DataType, length: usize, buffer: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    make_array(ArrayData::builder(data_type.clone()).len(length).add_buffer(buffer).nulls(nulls).build().unwrap())
}

/// One value as a reader sees it: nothing that is hidden under a NULL.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Scalar(String),
    List(Vec<Value>),
    Struct(Vec<Value>),
}

impl Value {
    pub(crate) fn all_of(array: &ArrayRef) -> Vec<Self> {
        (0..array.len()).map(|at| Self::of(array, at)).collect()
    }

    pub(crate) fn of(array: &ArrayRef, at: usize) -> Self {
        if array.is_null(at) {
            return Self::Null;
        }
        match array.data_type() {
            DataType::List(_) => Self::List(Self::all_of(&array.as_list::<i32>().value(at))),
            DataType::Struct(_) => {
                Self::Struct(array.as_struct().columns().iter().map(|child| Self::of(child, at)).collect())
            }
            DataType::Utf8 => Self::Scalar(array.as_string::<i32>().value(at).to_owned()),
            DataType::Dictionary(..) => {
                let coded = array.as_any_dictionary();
                Self::of(coded.values(), coded.normalized_keys()[at])
            }
            DataType::Boolean => Self::Scalar(array.as_boolean().value(at).to_string()),
            data_type => {
                let (data, width) = (array.to_data(), data_type.primitive_width().unwrap());
                let first = (data.offset() + at) * width;
                Self::Scalar(format!("{:x?}", &data.buffers()[0][first..first + width]))
            }
        }
    }
}
