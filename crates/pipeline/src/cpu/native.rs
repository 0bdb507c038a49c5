//! Arrow arrays as columns: values that lie one behind the other, as programs have them in memory.
//!
//! **Owns**: single values and mini-blocks of them as ordinals, of arrays of a type and of its narrow forms
//! (`thermocline_narrow`). **Does not own**: NULLs.
//!
//! **Concurrency**: views.

use arrow::array::{Array, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use thermocline_column_store::MINI_BLOCK_VALUES;
use thermocline_narrow::DecimalFloats;

use super::form::{Scratch, Unpacked};
use crate::ir::ValueType;
use crate::{kernels, ordinal};

/// The values of an array.
#[derive(Debug, Clone, Copy)]
pub(super) enum Native<'a> {
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    /// Whole floats.
    Whole8(&'a [i8]),
    /// The same.
    Whole16(&'a [i16]),
    /// Floats of a few places.
    Decimal32(&'a [i32], DecimalFloats),
    Decimal(&'a [i128]),
    Bits(&'a BooleanBuffer),
}

impl<'a> Native<'a> {
    /// The values of an array that has this type, or is a narrow form of it; `None` if it has another one, and for texts.
    pub(super) fn of(array: &'a dyn Array, value_type: ValueType) -> Option<Self> {
        use ValueType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        Some(match (value_type, array.data_type()) {
            (Int8 | Int16 | Int32 | Int64, DataType::Int8) => Self::Int8(array.as_primitive::<Int8Type>().values()),
            (Int16 | Int32 | Int64, DataType::Int16) => Self::Int16(array.as_primitive::<Int16Type>().values()),
            (Int32 | Int64, DataType::Int32) => Self::Int32(array.as_primitive::<Int32Type>().values()),
            (Int64, DataType::Int64) => Self::Int64(array.as_primitive::<Int64Type>().values()),
            (UInt8 | UInt16 | UInt32, DataType::UInt8) => Self::UInt8(array.as_primitive::<UInt8Type>().values()),
            (UInt16 | UInt32, DataType::UInt16) => Self::UInt16(array.as_primitive::<UInt16Type>().values()),
            (UInt32, DataType::UInt32) => Self::UInt32(array.as_primitive::<UInt32Type>().values()),
            (UInt64, DataType::UInt64) => Self::UInt64(array.as_primitive::<UInt64Type>().values()),
            (ValueType::Date, DataType::Date32) => Self::Int32(array.as_primitive::<Date32Type>().values()),
            (ValueType::Timestamp, DataType::Timestamp(unit, _)) => Self::Int64(match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
            }),
            (ValueType::Float32, DataType::Float32) => Self::Float32(array.as_primitive::<Float32Type>().values()),
            (ValueType::Float64, DataType::Float64) => Self::Float64(array.as_primitive::<Float64Type>().values()),
            (ValueType::Float64, DataType::Int8) => Self::Whole8(array.as_primitive::<Int8Type>().values()),
            (ValueType::Float64, DataType::Int16) => Self::Whole16(array.as_primitive::<Int16Type>().values()),
            (ValueType::Float64, form @ DataType::Decimal32(..)) => {
                Self::Decimal32(array.as_primitive::<Decimal32Type>().values(), DecimalFloats::of(form)?)
            }
            (ValueType::Decimal { scale, .. }, DataType::Decimal128(_, of)) if i8::try_from(scale) == Ok(*of) => {
                Self::Decimal(array.as_primitive::<Decimal128Type>().values())
            }
            (ValueType::Decimal { scale, .. }, DataType::Decimal64(_, of)) if i8::try_from(scale) == Ok(*of) => {
                Self::Int64(array.as_primitive::<Decimal64Type>().values())
            }
            (ValueType::Decimal { scale, .. }, DataType::Decimal32(_, of)) if i8::try_from(scale) == Ok(*of) => {
                Self::Int32(array.as_primitive::<Decimal32Type>().values())
            }
            (ValueType::Boolean, DataType::Boolean) => Self::Bits(array.as_boolean().values()),
            _ => return None,
        })
    }

    /// Of floats that are kept as whole numbers these, and what they stand for: greater ones for greater floats.
    pub(super) fn whole_numbers(self) -> Option<(Self, DecimalFloats)> {
        Some(match self {
            Self::Whole8(values) => (Self::Int8(values), DecimalFloats::whole()),
            Self::Whole16(values) => (Self::Int16(values), DecimalFloats::whole()),
            Self::Decimal32(values, floats) => (Self::Int32(values), floats),
            _ => return None,
        })
    }

    /// Whether values need more than 64 bits.
    pub(super) fn is_wide(self) -> bool {
        matches!(self, Self::Decimal(_))
    }

    /// Appends the ordinals of values at some places of a mini-block, which are not wide.
    pub(super) fn gather(self, index: usize, places: &[u16], ordinals: &mut Vec<i64>) {
        let start = index * MINI_BLOCK_VALUES;
        macro_rules! extend {
            ($values:expr, $ordinal:expr) => {{
                let block = $values.get(start..).unwrap_or_default();
                let ordinal = $ordinal;
                ordinals.extend(places.iter().map(|place| ordinal(block[usize::from(*place)])))
            }};
        }
        match self {
            Self::Int8(values) => extend!(values, i64::from),
            Self::Int16(values) => extend!(values, i64::from),
            Self::Int32(values) => extend!(values, i64::from),
            Self::Int64(values) => extend!(values, |value: i64| value),
            Self::UInt8(values) => extend!(values, i64::from),
            Self::UInt16(values) => extend!(values, i64::from),
            Self::UInt32(values) => extend!(values, i64::from),
            Self::UInt64(values) => extend!(values, ordinal::of_unsigned),
            Self::Float32(values) => extend!(values, |value: f32| ordinal::of_float(value.into())),
            Self::Float64(values) => extend!(values, ordinal::of_float),
            Self::Whole8(values) => extend!(values, |value: i8| ordinal::of_float(value.into())),
            Self::Whole16(values) => extend!(values, |value: i16| ordinal::of_float(value.into())),
            Self::Decimal32(values, floats) => extend!(values, |value: i32| ordinal::of_float(floats.float(value))),
            Self::Decimal(values) => extend!(values, |value: i128| value as i64),
            Self::Bits(bits) => {
                ordinals.extend(places.iter().map(|place| i64::from(bits.value(start + usize::from(*place)))));
            }
        }
    }

    /// Appends wide values at some places of a mini-block.
    pub(super) fn gather_wide(self, index: usize, places: &[u16], numbers: &mut Vec<i128>) {
        let Self::Decimal(values) = self else { return };
        let block = values.get(index * MINI_BLOCK_VALUES..).unwrap_or_default();
        numbers.extend(places.iter().map(|place| block[usize::from(*place)]));
    }

    /// Writes the ordinals of a mini-block, which are not wide, less a base: the base, and where they are.
    pub(super) fn fill(self, index: usize, scratch: &mut Scratch) -> (i64, Unpacked) {
        let start = index * MINI_BLOCK_VALUES;
        macro_rules! fill {
            ($values:expr, $words:ident, $unpacked:ident, $base:expr, $word:expr) => {{
                let word = $word;
                let block = $values.get(start..).unwrap_or_default();
                for (to, value) in scratch.$words.iter_mut().zip(block) {
                    *to = word(*value);
                }
                ($base, Unpacked::$unpacked)
            }};
        }
        match self {
            // Turning the highest bit around makes of a signed number how far it is from the least one.
            Self::Int8(values) => fill!(values, bytes, U8, i8::MIN.into(), |value: i8| value as u8 ^ 1 << 7),
            Self::Int16(values) => fill!(values, halves, U16, i16::MIN.into(), |value: i16| value as u16 ^ 1 << 15),
            Self::Int32(values) => fill!(values, words, U32, i32::MIN.into(), |value: i32| value as u32 ^ 1 << 31),
            Self::UInt8(values) => fill!(values, bytes, U8, 0, |value: u8| value),
            Self::UInt16(values) => fill!(values, halves, U16, 0, |value: u16| value),
            Self::UInt32(values) => fill!(values, words, U32, 0, |value: u32| value),
            Self::UInt64(values) => fill!(values, longs, U64, i64::MIN, |value: u64| value),
            Self::Float32(values) => {
                fill!(values, longs, U64, 0, |value: f32| ordinal::of_float(value.into()) as u64)
            }
            Self::Float64(values) => fill!(values, longs, U64, 0, |value: f64| ordinal::of_float(value) as u64),
            Self::Whole8(values) => fill!(values, longs, U64, 0, |value: i8| ordinal::of_float(value.into()) as u64),
            Self::Whole16(values) => fill!(values, longs, U64, 0, |value: i16| ordinal::of_float(value.into()) as u64),
            Self::Decimal32(values, floats) => {
                fill!(values, longs, U64, 0, |value: i32| ordinal::of_float(floats.float(value)) as u64)
            }
            Self::Int64(values) => {
                let block = values.get(start..).unwrap_or_default();
                let block = &block[..block.len().min(MINI_BLOCK_VALUES)];
                // Most are close together, and half as wide they are tested twice as fast, and looked up by gathers.
                if let Some(base) = kernels::narrow(block, &mut scratch.words) {
                    return (base, Unpacked::U32);
                }
                fill!(values, longs, U64, 0, |value: i64| value as u64)
            }
            // Wide values are gathered alone; who asks for their words sees zeros.
            Self::Decimal(_) => (0, Unpacked::Zeros),
            Self::Bits(bits) => {
                let count = bits.len().saturating_sub(start).min(MINI_BLOCK_VALUES);
                for (at, byte) in scratch.bytes[..count].iter_mut().enumerate() {
                    *byte = bits.value(start + at).into();
                }
                (0, Unpacked::U8)
            }
        }
    }
}
