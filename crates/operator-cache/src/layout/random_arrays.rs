//! Random types, random arrays of them, and what an array says value by value: the oracle of the layouts' tests.
//!
//! Arrays have NULLs at every level, also where a NULL struct or list hides what is below, lists that are empty, lists
//! that are NULL but not empty, offsets that leave gaps, and they are slices of larger arrays.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

/// A xorshift generator; tests print its seed when they fail.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn scalar_type(&mut self) -> DataType {
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
        ];
        types[self.below(types.len())].clone()
    }

    /// A type of at most `depth` lists and structs within each other.
    pub(crate) fn nested_type(&mut self, depth: usize) -> DataType {
        if depth == 0 || self.one_in(6) {
            return self.scalar_type();
        }
        if self.one_in(2) {
            let element = self.nested_type(depth - 1);
            return DataType::List(Arc::new(Field::new("item", element, !self.one_in(4))));
        }
        let field_count = if self.one_in(12) { 0 } else { 1 + self.below(3) };
        let field = |index| Field::new(format!("f{index}"), self.nested_type(depth - 1), !self.one_in(4));
        DataType::Struct((0..field_count).map(field).collect::<Fields>())
    }

    /// `length` values, some of them NULL if they may be.
    pub(crate) fn array(&mut self, data_type: &DataType, length: usize, is_nullable: bool) -> ArrayRef {
        let before = self.below(3) * self.below(5);
        let whole_length = before + length + self.below(4);
        let whole = self.whole_array(data_type, whole_length, is_nullable);
        whole.slice(before, length)
    }

    fn nulls(&mut self, length: usize, is_nullable: bool) -> Option<NullBuffer> {
        let chances = [2, 5, 40, 400][self.below(4)];
        let is_nullable = is_nullable && !self.one_in(3);
        is_nullable.then(|| (0..length).map(|_| !self.one_in(chances)).collect())
    }

    fn whole_array(&mut self, data_type: &DataType, length: usize, is_nullable: bool) -> ArrayRef {
        let nulls = self.nulls(length, is_nullable);
        match data_type {
            DataType::Boolean => Arc::new(BooleanArray::new((0..length).map(|_| self.one_in(2)).collect(), nulls)),
            DataType::Utf8 => {
                let strings: Vec<String> = (0..length).map(|_| self.text()).collect();
                let (offsets, values, _) = StringArray::from(strings).into_parts();
                Arc::new(StringArray::new(offsets, values, nulls))
            }
            DataType::List(field) => {
                let longest = if self.one_in(8) { 70 } else { 1 + self.below(5) };
                let lengths = (0..length).map(|_| if self.one_in(3) { 0 } else { self.below(longest + 1) });
                let offsets = OffsetBuffer::<i32>::from_lengths(lengths.collect::<Vec<_>>());
                let skipped = self.below(2) * self.below(6);
                let last = *offsets.last().unwrap() as usize + skipped;
                let offsets = offsets.iter().map(|offset| offset + skipped as i32).collect::<Vec<_>>();
                let element_count = last + self.below(3);
                let elements = self.array(field.data_type(), element_count, field.is_nullable());
                Arc::new(ListArray::new(Arc::clone(field), OffsetBuffer::new(offsets.into()), elements, nulls))
            }
            DataType::Struct(fields) => {
                let children =
                    fields.iter().map(|field| self.array(field.data_type(), length, field.is_nullable())).collect();
                Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, length).unwrap())
            }
            DataType::Decimal128(_, _) => {
                let values: Vec<i128> = (0..length).map(|_| i128::from(self.next()) - (1 << 40)).collect();
                fixed(data_type, length, Buffer::from_vec(values), nulls)
            }
            _ => {
                let bytes = (0..length * data_type.primitive_width().unwrap()).map(|_| self.next() as u8);
                // Aligned for whatever the type is.
                let buffer = Buffer::from_slice_ref(bytes.collect::<Vec<u8>>());
                fixed(data_type, length, buffer, nulls)
            }
        }
    }

    fn text(&mut self) -> String {
        match self.below(12) {
            0..4 => String::new(),
            11 => "höchst unwahrscheinlich lang ".repeat(self.below(30)),
            _ => format!("{:x}", self.next() >> self.below(48)),
        }
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
            DataType::Boolean => Self::Scalar(array.as_boolean().value(at).to_string()),
            data_type => {
                let (data, width) = (array.to_data(), data_type.primitive_width().unwrap());
                let first = (data.offset() + at) * width;
                Self::Scalar(format!("{:x?}", &data.buffers()[0][first..first + width]))
            }
        }
    }
}
