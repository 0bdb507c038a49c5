//! Values one behind the other, as they are, and arrays of them.
//!
//! **Concurrency**: one thread at a time.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal32Array, Decimal64Array, Decimal128Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, PrimitiveArray, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use bytes::Bytes;

use crate::ChunkError;
use crate::kind::{Kind, Stored};

/// The values of a page that were not read yet.
#[derive(Debug)]
pub(crate) struct Plain {
    stored: Stored,
    bytes: Bytes,
    /// Of the next value: in bytes, of truth values in bits.
    next: usize,
}

/// Values that were read.
#[derive(Debug)]
pub(crate) enum Values {
    Bits(BooleanBufferBuilder),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Int128(Vec<i128>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Texts { ends: Vec<i32>, bytes: Vec<u8> },
}

impl Plain {
    pub(crate) fn new(stored: Stored, bytes: Bytes) -> Self {
        Self { stored, bytes, next: 0 }
    }

    /// Leaves out the next values.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), ChunkError> {
        match self.stored {
            Stored::Texts => (0..count).try_for_each(|_| self.text().map(|_| ())),
            _ => self.fixed(count).map(|_| ()),
        }
    }

    /// The next values' bytes, which have one width.
    fn fixed(&mut self, count: usize) -> Result<std::ops::Range<usize>, ChunkError> {
        let (width, limit) = match self.stored {
            Stored::Bits => (1, self.bytes.len().saturating_mul(8)),
            Stored::Int32 | Stored::Float => (4, self.bytes.len()),
            Stored::Int64 | Stored::Double => (8, self.bytes.len()),
            Stored::Fixed(width) => (width, self.bytes.len()),
            Stored::Texts => (1, self.bytes.len()),
        };
        let begin = self.next;
        match count.checked_mul(width).and_then(|size| begin.checked_add(size)).filter(|end| *end <= limit) {
            Some(end) => {
                self.next = end;
                Ok(begin..end)
            }
            None => Err(ends_early()),
        }
    }

    fn text(&mut self) -> Result<&[u8], ChunkError> {
        let length = self.bytes.get(self.next..).and_then(|rest| rest.first_chunk()).ok_or_else(ends_early)?;
        let begin = self.next + 4;
        let end = begin + u32::from_le_bytes(*length) as usize;
        self.next = end;
        self.bytes.get(begin..end).ok_or_else(ends_early)
    }

    /// Appends the next `rows`, of which those are NULL that `valid` says.
    pub(crate) fn read(
        &mut self,
        rows: usize,
        count: usize,
        valid: Option<&BooleanBuffer>,
        to: &mut Values,
    ) -> Result<(), ChunkError> {
        if let Values::Texts { ends, bytes } = to {
            for row in 0..rows {
                if valid.is_none_or(|valid| valid.value(row)) {
                    bytes.extend_from_slice(self.text()?);
                }
                ends.push(i32::try_from(bytes.len()).map_err(|_| ChunkError::TooLong)?);
            }
            return Ok(());
        }
        let range = self.fixed(count)?;
        if let Values::Bits(bits) = to {
            match valid {
                None => bits.append_packed_range(range, &self.bytes),
                Some(valid) => {
                    let mut next = range;
                    let set = |bit: usize| self.bytes[bit / 8] >> (bit % 8) & 1 == 1;
                    valid.iter().for_each(|valid| bits.append(valid && next.next().is_some_and(set)));
                }
            }
            return Ok(());
        }
        let stored = &self.bytes[range];
        macro_rules! extend {
            ($numbers:expr, $number:ty) => {{
                let begin = $numbers.len();
                let (words, _) = stored.as_chunks::<{ size_of::<$number>() }>();
                $numbers.extend(words.iter().map(|word| <$number>::from_le_bytes(*word)));
                spread($numbers, begin, rows, valid);
            }};
        }
        match (to, self.stored) {
            (Values::Int32(numbers), _) => extend!(numbers, i32),
            (Values::Int64(numbers), Stored::Fixed(width)) => {
                let begin = numbers.len();
                for bytes in stored.chunks_exact(width) {
                    let number = big_endian(bytes);
                    numbers.push(i64::try_from(number).map_err(|_| {
                        ChunkError::damaged(format!("the number {number} in a column of at most 18 digits"))
                    })?);
                }
                spread(numbers, begin, rows, valid);
            }
            (Values::Int64(numbers), _) => extend!(numbers, i64),
            (Values::Int128(numbers), Stored::Fixed(width)) => {
                let begin = numbers.len();
                numbers.extend(stored.chunks_exact(width).map(big_endian));
                spread(numbers, begin, rows, valid);
            }
            (Values::Float32(numbers), _) => extend!(numbers, f32),
            (Values::Float64(numbers), _) => extend!(numbers, f64),
            (Values::Bits(_) | Values::Texts { .. } | Values::Int128(_), _) => {}
        }
        Ok(())
    }
}

fn ends_early() -> ChunkError {
    ChunkError::damaged("a page ends before its values do")
}

/// A number of at most sixteen bytes, the highest first.
fn big_endian(bytes: &[u8]) -> i128 {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte))
}

/// Moves the values from `begin` on, which are those of the valid ones of `rows` rows, to their rows' places.
pub(crate) fn spread<T: Copy + Default>(values: &mut Vec<T>, begin: usize, rows: usize, valid: Option<&BooleanBuffer>) {
    let Some(valid) = valid else { return };
    let mut from = values.len();
    values.resize(begin + rows, T::default());
    for row in (0..rows).rev() {
        values[begin + row] = match valid.value(row) {
            true => {
                from -= 1;
                values[from]
            }
            false => T::default(),
        };
    }
}

impl Values {
    /// None yet, with room for some.
    pub(crate) fn new(kind: &Kind, room: usize) -> Self {
        match (kind.stored, &kind.data_type) {
            (Stored::Bits, _) => Self::Bits(BooleanBufferBuilder::new(room)),
            (Stored::Int32, _) => Self::Int32(Vec::with_capacity(room)),
            (Stored::Fixed(_), DataType::Decimal128(precision, _)) if *precision > 18 => {
                Self::Int128(Vec::with_capacity(room))
            }
            (Stored::Int64 | Stored::Fixed(_), _) => Self::Int64(Vec::with_capacity(room)),
            (Stored::Float, _) => Self::Float32(Vec::with_capacity(room)),
            (Stored::Double, _) => Self::Float64(Vec::with_capacity(room)),
            (Stored::Texts, _) => Self::Texts { ends: Vec::with_capacity(room), bytes: Vec::new() },
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bits(bits) => bits.len(),
            Self::Int32(numbers) => numbers.len(),
            Self::Int64(numbers) => numbers.len(),
            Self::Int128(numbers) => numbers.len(),
            Self::Float32(numbers) => numbers.len(),
            Self::Float64(numbers) => numbers.len(),
            Self::Texts { ends, .. } => ends.len(),
        }
    }

    /// The array of them.
    pub(crate) fn into_array(self, kind: &Kind, nulls: Option<NullBuffer>) -> Result<ArrayRef, ChunkError> {
        Ok(match (self, &kind.data_type) {
            (Self::Bits(mut bits), _) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            (Self::Float32(numbers), _) => Arc::new(Float32Array::new(numbers.into(), nulls)),
            (Self::Float64(numbers), _) => Arc::new(Float64Array::new(numbers.into(), nulls)),
            (Self::Int128(numbers), DataType::Decimal128(precision, scale)) => {
                Arc::new(Decimal128Array::new(numbers.into(), nulls).with_precision_and_scale(*precision, *scale)?)
            }
            (Self::Int64(numbers), DataType::Decimal128(precision, scale)) => Arc::new(
                Decimal64Array::new(numbers.into(), nulls).with_precision_and_scale((*precision).min(18), *scale)?,
            ),
            (Self::Int32(numbers), DataType::Decimal128(precision, scale)) => Arc::new(
                Decimal32Array::new(numbers.into(), nulls).with_precision_and_scale((*precision).min(9), *scale)?,
            ),
            (Self::Int64(numbers), DataType::Timestamp(unit, zone)) => {
                let zone = zone.clone();
                match unit {
                    TimeUnit::Second => stamps::<TimestampSecondType>(numbers, nulls, zone),
                    TimeUnit::Millisecond => stamps::<TimestampMillisecondType>(numbers, nulls, zone),
                    TimeUnit::Microsecond => stamps::<TimestampMicrosecondType>(numbers, nulls, zone),
                    TimeUnit::Nanosecond => stamps::<TimestampNanosecondType>(numbers, nulls, zone),
                }
            }
            (Self::Int64(numbers), DataType::UInt64) => {
                Arc::new(UInt64Array::new(ScalarBuffer::from(Buffer::from_vec(numbers)), nulls))
            }
            (Self::Int64(numbers), _) => Arc::new(Int64Array::new(numbers.into(), nulls)),
            (Self::Int32(numbers), DataType::Date32) => Arc::new(Date32Array::new(numbers.into(), nulls)),
            (Self::Int32(numbers), DataType::UInt32) => {
                Arc::new(UInt32Array::new(ScalarBuffer::from(Buffer::from_vec(numbers)), nulls))
            }
            (Self::Int32(numbers), DataType::Int8) => Arc::new(Int8Array::new(shorter(&numbers)?.into(), nulls)),
            (Self::Int32(numbers), DataType::Int16) => Arc::new(Int16Array::new(shorter(&numbers)?.into(), nulls)),
            (Self::Int32(numbers), DataType::UInt8) => Arc::new(UInt8Array::new(shorter(&numbers)?.into(), nulls)),
            (Self::Int32(numbers), DataType::UInt16) => Arc::new(UInt16Array::new(shorter(&numbers)?.into(), nulls)),
            (Self::Int32(numbers), _) => Arc::new(Int32Array::new(numbers.into(), nulls)),
            (Self::Texts { ends, bytes }, _) => {
                let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?)
            }
            (Self::Int128(_), other) => {
                return Err(ChunkError::damaged(format!("numbers of sixteen bytes for a {other}")));
            }
        })
    }
}

fn stamps<T: ArrowPrimitiveType<Native = i64>>(
    numbers: Vec<i64>,
    nulls: Option<NullBuffer>,
    zone: Option<Arc<str>>,
) -> ArrayRef
where
    PrimitiveArray<T>: WithZone,
{
    Arc::new(PrimitiveArray::<T>::new(numbers.into(), nulls).with_zone(zone))
}

/// Timestamps, whose zone is part of the type.
trait WithZone {
    fn with_zone(self, zone: Option<Arc<str>>) -> Self;
}

impl<T: arrow::datatypes::ArrowTimestampType> WithZone for PrimitiveArray<T> {
    fn with_zone(self, zone: Option<Arc<str>>) -> Self {
        self.with_timezone_opt(zone)
    }
}

fn shorter<T: TryFrom<i32>>(numbers: &[i32]) -> Result<Vec<T>, ChunkError> {
    let shorter = |number: &i32| {
        T::try_from(*number).map_err(|_| {
            let bits = size_of::<T>() * 8;
            ChunkError::damaged(format!("the number {number} in a column of integers of {bits} bits"))
        })
    };
    numbers.iter().map(shorter).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_more_bytes_than_their_column_needs_are_whole_or_damage() {
        let read = |numbers: &[i128]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            let mut values = Values::Int64(Vec::new());
            Plain::new(Stored::Fixed(16), bytes.into()).read(numbers.len(), numbers.len(), None, &mut values)?;
            let kind = Kind { data_type: DataType::Decimal128(18, 0), stored: Stored::Fixed(16), has_levels: false };
            values.into_array(&kind, None)
        };
        let array = read(&[-7, 0, i128::from(i64::MAX)]).unwrap();
        let expected = Decimal64Array::from(vec![-7, 0, i64::MAX]).with_precision_and_scale(18, 0).unwrap();
        assert_eq!(&array, &(Arc::new(expected) as ArrayRef));
        for number in [1 << 64, i128::from(i64::MIN) - 1] {
            let error = read(&[5, number]).unwrap_err().to_string();
            assert!(error.contains(&format!("the number {number} in a column of at most 18 digits")), "{error}");
        }
    }
}
