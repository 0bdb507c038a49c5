//! The growing values of a flat column, by Arrow type.
//!
//! **Owns**: which Arrow types raw files can hold, one vector for each, and text to value for each.
//!
//! **Does not own**: NULLs (the builder keeps their positions; a NULL row holds a zero or an empty string here).

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, NullArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use thermocline_predicate::Domain;

use super::Mismatch;
use super::calendar::{parse_date, parse_timestamp};
use super::number::{parse_decimal, parse_f32, parse_f64, parse_i64, parse_u64};
use super::texts::Texts;

/// One vector of values.
#[derive(Debug, Clone)]
pub(super) enum Values {
    Null(usize),
    Boolean(Vec<bool>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Utf8(Texts),
    Date32(Vec<i32>),
    Timestamp(Vec<i64>, TimeUnit),
    Decimal128(Vec<i128>, u8, i8),
}

/// Runs `$body` with `$values` bound to the vector of whichever variant holds one; the two others apart.
macro_rules! with_vector {
    ($self:expr, $values:ident => $body:expr, Null($count:ident) => $null:expr, Utf8($texts:ident) => $utf8:expr) => {
        match $self {
            Values::Null($count) => $null,
            Values::Boolean($values) => $body,
            Values::Int8($values) => $body,
            Values::Int16($values) => $body,
            Values::Int32($values) | Values::Date32($values) => $body,
            Values::Int64($values) | Values::Timestamp($values, _) => $body,
            Values::UInt8($values) => $body,
            Values::UInt16($values) => $body,
            Values::UInt32($values) => $body,
            Values::UInt64($values) => $body,
            Values::Float32($values) => $body,
            Values::Float64($values) => $body,
            Values::Decimal128($values, ..) => $body,
            Values::Utf8($texts) => $utf8,
        }
    };
}

impl Values {
    /// None for types that raw files do not hold.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Null(0),
            DataType::Boolean => Self::Boolean(Vec::new()),
            DataType::Int8 => Self::Int8(Vec::new()),
            DataType::Int16 => Self::Int16(Vec::new()),
            DataType::Int32 => Self::Int32(Vec::new()),
            DataType::Int64 => Self::Int64(Vec::new()),
            DataType::UInt8 => Self::UInt8(Vec::new()),
            DataType::UInt16 => Self::UInt16(Vec::new()),
            DataType::UInt32 => Self::UInt32(Vec::new()),
            DataType::UInt64 => Self::UInt64(Vec::new()),
            DataType::Float32 => Self::Float32(Vec::new()),
            DataType::Float64 => Self::Float64(Vec::new()),
            DataType::Utf8 => Self::Utf8(Texts::default()),
            DataType::Date32 => Self::Date32(Vec::new()),
            DataType::Timestamp(unit, None) => Self::Timestamp(Vec::new(), *unit),
            DataType::Timestamp(unit, Some(zone)) if is_utc(zone) => Self::Timestamp(Vec::new(), *unit),
            DataType::Decimal128(precision, scale) => Self::Decimal128(Vec::new(), *precision, *scale),
            _ => return None,
        })
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        with_vector!(self, values => values.len(), Null(count) => *count, Utf8(texts) => texts.len())
    }

    /// Appends what stands for NULL.
    pub(super) fn append_default(&mut self) {
        with_vector!(self, values => values.push(Default::default()), Null(count) => *count += 1,
            Utf8(texts) => texts.push_empty());
    }

    #[inline]
    pub(super) fn append_text(&mut self, bytes: &[u8]) -> Result<(), Mismatch> {
        /// Signed and narrow integers by way of the widest.
        fn push<T: TryFrom<i64>>(values: &mut Vec<T>, bytes: &[u8]) -> Option<()> {
            values.push(T::try_from(parse_i64(bytes)?).ok()?);
            Some(())
        }
        let appended = match self {
            Self::Int64(values) => parse_i64(bytes).map(|value| values.push(value)),
            Self::Float64(values) => parse_f64(bytes).map(|value| values.push(value)),
            Self::Utf8(texts) => return texts.push(std::str::from_utf8(bytes).map_err(|_| Mismatch::NotUtf8)?),
            Self::Null(_) => None,
            Self::Boolean(values) => parse_boolean(bytes).map(|value| values.push(value)),
            Self::Int8(values) => push(values, bytes),
            Self::Int16(values) => push(values, bytes),
            Self::Int32(values) => push(values, bytes),
            Self::UInt8(values) => push(values, bytes),
            Self::UInt16(values) => push(values, bytes),
            Self::UInt32(values) => push(values, bytes),
            Self::UInt64(values) => parse_u64(bytes).map(|value| values.push(value)),
            Self::Float32(values) => parse_f32(bytes).map(|value| values.push(value)),
            Self::Date32(values) => parse_date(bytes).map(|value| values.push(value)),
            Self::Timestamp(values, unit) => parse_timestamp(bytes, *unit).map(|value| values.push(value)),
            Self::Decimal128(values, precision, scale) => {
                parse_decimal(bytes, *precision, *scale).map(|value| values.push(value))
            }
        };
        appended.ok_or(Mismatch::NotOfType)
    }

    /// A string value; other types than Utf8 parse it.
    #[inline]
    pub(super) fn append_str(&mut self, value: &str) -> Result<(), Mismatch> {
        match self {
            Self::Utf8(texts) => texts.push(value),
            _ => self.append_text(value.as_bytes()),
        }
    }

    /// The text of a number token: days or units since the epoch for dates and timestamps.
    #[inline]
    pub(super) fn append_number(&mut self, token: &[u8]) -> Result<(), Mismatch> {
        let appended = match self {
            Self::Date32(values) => {
                parse_i64(token).and_then(|days| i32::try_from(days).ok()).map(|days| values.push(days))
            }
            Self::Timestamp(values, _) => parse_i64(token).map(|units| values.push(units)),
            _ => return self.append_text(token),
        };
        appended.ok_or(Mismatch::NotOfType)
    }

    pub(super) fn append_boolean(&mut self, value: bool) -> Result<(), Mismatch> {
        match self {
            Self::Boolean(values) => {
                values.push(value);
                Ok(())
            }
            Self::Utf8(texts) => texts.push(if value { "true" } else { "false" }),
            _ => Err(Mismatch::NotOfType),
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        with_vector!(self, values => values.truncate(len), Null(count) => *count = (*count).min(len),
            Utf8(texts) => texts.truncate(len));
    }

    /// Whether the last row, not NULL, lies in `domain`.
    #[inline]
    pub(super) fn test_last(&self, domain: &Domain) -> bool {
        fn last<T: Copy>(values: &[T], test: impl FnOnce(T) -> bool) -> bool {
            values.last().is_some_and(|&value| test(value))
        }
        let int = |value: i128| domain.contains_int(value);
        match self {
            Self::Null(_) => false,
            Self::Boolean(values) => last(values, |value| domain.contains_bool(value)),
            Self::Int8(values) => last(values, |value| int(value.into())),
            Self::Int16(values) => last(values, |value| int(value.into())),
            Self::Int32(values) | Self::Date32(values) => last(values, |value| int(value.into())),
            Self::Int64(values) | Self::Timestamp(values, _) => last(values, |value| int(value.into())),
            Self::UInt8(values) => last(values, |value| int(value.into())),
            Self::UInt16(values) => last(values, |value| int(value.into())),
            Self::UInt32(values) => last(values, |value| int(value.into())),
            Self::UInt64(values) => last(values, |value| int(value.into())),
            Self::Decimal128(values, ..) => last(values, int),
            Self::Float32(values) => last(values, |value| domain.contains_float(value.into())),
            Self::Float64(values) => last(values, |value| domain.contains_float(value)),
            Self::Utf8(texts) => texts.last().is_some_and(|text| domain.contains_text(text)),
        }
    }

    /// The array of all rows, exactly sized; starts anew but keeps the vectors' room for the next rows.
    pub(super) fn finish(&mut self, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        /// Copies out rather than handing the vector over: the next piece of the file then grows into warm,
        /// already mapped memory instead of doubling its way up again, and the array has no spare room.
        fn primitive<T: ArrowPrimitiveType>(
            values: &mut Vec<T::Native>,
            data_type: &DataType,
            nulls: Option<NullBuffer>,
        ) -> Result<ArrayRef, ArrowError> {
            let exact = ScalarBuffer::from(values.as_slice().to_vec());
            values.clear();
            Ok(Arc::new(PrimitiveArray::<T>::try_new(exact, nulls)?.with_data_type(data_type.clone())))
        }
        match self {
            Self::Null(count) => Ok(Arc::new(NullArray::new(std::mem::take(count)))),
            Self::Boolean(values) => {
                let mut bits = vec![0_u8; values.len().div_ceil(8)];
                for (byte, chunk) in bits.iter_mut().zip(values.chunks(8)) {
                    *byte = chunk.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
                }
                let bits = BooleanBuffer::new(Buffer::from_vec(bits), 0, values.len());
                values.clear();
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            Self::Utf8(texts) => texts.finish(nulls),
            Self::Int8(values) => primitive::<Int8Type>(values, data_type, nulls),
            Self::Int16(values) => primitive::<Int16Type>(values, data_type, nulls),
            Self::Int32(values) => primitive::<Int32Type>(values, data_type, nulls),
            Self::Int64(values) => primitive::<Int64Type>(values, data_type, nulls),
            Self::UInt8(values) => primitive::<UInt8Type>(values, data_type, nulls),
            Self::UInt16(values) => primitive::<UInt16Type>(values, data_type, nulls),
            Self::UInt32(values) => primitive::<UInt32Type>(values, data_type, nulls),
            Self::UInt64(values) => primitive::<UInt64Type>(values, data_type, nulls),
            Self::Float32(values) => primitive::<Float32Type>(values, data_type, nulls),
            Self::Float64(values) => primitive::<Float64Type>(values, data_type, nulls),
            Self::Date32(values) => primitive::<Date32Type>(values, data_type, nulls),
            Self::Decimal128(values, ..) => primitive::<Decimal128Type>(values, data_type, nulls),
            Self::Timestamp(values, TimeUnit::Second) => primitive::<TimestampSecondType>(values, data_type, nulls),
            Self::Timestamp(values, TimeUnit::Millisecond) => {
                primitive::<TimestampMillisecondType>(values, data_type, nulls)
            }
            Self::Timestamp(values, TimeUnit::Microsecond) => {
                primitive::<TimestampMicrosecondType>(values, data_type, nulls)
            }
            Self::Timestamp(values, TimeUnit::Nanosecond) => {
                primitive::<TimestampNanosecondType>(values, data_type, nulls)
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        with_vector!(self, values => values.capacity() * values.first().map_or(size_of::<i128>(), size_of_val),
            Null(_count) => 0, Utf8(texts) => texts.heap_bytes())
    }
}

/// Names of UTC; other zones need a time zone database and daylight rules, which raw text cannot be trusted with.
fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "utc" | "Etc/UTC" | "Z" | "+00:00" | "+00" | "+0000")
}

fn parse_boolean(bytes: &[u8]) -> Option<bool> {
    if bytes.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if bytes.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}
