//! A domain against a column: which rows lie in the set.
//!
//! One loop a type, over the values as they lie in the array, nulls included (whatever a null slot holds); the
//! validity bitmap is merged 64 rows at a time afterwards. A loop compares 64 values into 64 bytes, which the
//! compiler turns into vector comparisons, then packs the bytes into one word: no branch depends on a value.

use arrow::array::cast::AsArray;
use arrow::array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow::array::{Array, BooleanArray, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::DataType;
use thermocline_narrow::DecimalFloats;

use super::Domain;
use super::registers::with_widest_registers;
use super::shape::{Shape, search, text_ends_before, text_within};
use crate::interval::bound_value;
use crate::scalar::total_order_key;
use crate::{Interval, PredicateError, Scalar};

impl Domain {
    /// Which rows of the column lie in the set; a NULL does if the set admits NULL. The result has no nulls.
    ///
    /// Integers, dates, times, durations, timestamps and decimals (to 128 bits) are compared as integers in the
    /// column's own unit and scale; half and single floats are widened, and may be in a narrow form
    /// ([`DecimalFloats`]); strings may be `Utf8`, `LargeUtf8` or `Utf8View`; dictionaries are evaluated on their values.
    /// A set without bounds goes with every type.
    ///
    /// Cost: one comparison or two a row for a range; for up to 16 ranges as many; a binary search beyond.
    ///
    /// # Errors
    /// If the column's type isn't of the kind of the bounds.
    pub fn evaluate(&self, array: &dyn Array) -> Result<BooleanArray, PredicateError> {
        let values = self.evaluate_values(array)?;
        let rows = match array.logical_nulls() {
            None => values,
            Some(nulls) if self.admits_null => &values | &!nulls.inner(),
            Some(nulls) => &values & nulls.inner(),
        };
        Ok(BooleanArray::new(rows, None))
    }

    /// Which values lie in the set; anything where the column is NULL.
    fn evaluate_values(&self, array: &dyn Array) -> Result<BooleanBuffer, PredicateError> {
        let data_type = array.data_type();
        let values = match (&self.shape, data_type) {
            (Shape::Nothing, _) => Some(BooleanBuffer::new_unset(array.len())),
            (Shape::Everything, _) | (_, DataType::Null) => Some(BooleanBuffer::new_set(array.len())),
            (_, DataType::Dictionary(..)) => return self.evaluate_dictionary(array),
            (Shape::Boolean(true), DataType::Boolean) => Some(array.as_boolean().values().clone()),
            (Shape::Boolean(false), DataType::Boolean) => Some(!array.as_boolean().values()),
            (Shape::Int(low, high), _) => evaluate_integers(array, &[(*low, *high)]),
            (Shape::Ints(ranges), _) => evaluate_integers(array, ranges),
            (Shape::Float(low, high), _) => evaluate_floats(array, &[(*low, *high)]),
            (Shape::Floats(ranges), _) => evaluate_floats(array, ranges),
            (Shape::Text | Shape::Texts, _) => self.evaluate_strings(array),
            (Shape::Boolean(_), _) => None,
        };
        match (values, self.kind()) {
            (Some(values), _) => Ok(values),
            (None, Some(kind)) => Err(PredicateError::TypeMismatch { kind, data_type: data_type.clone() }),
            // Sets without bounds are answered above for every type.
            (None, None) => Ok(BooleanBuffer::new_set(array.len())),
        }
    }

    fn evaluate_dictionary(&self, array: &dyn Array) -> Result<BooleanBuffer, PredicateError> {
        let dictionary = array.as_any_dictionary();
        let admitted = self.evaluate_values(dictionary.values())?;
        if admitted.is_empty() {
            // Every key is null.
            return Ok(BooleanBuffer::new_unset(array.len()));
        }
        let keys = dictionary.normalized_keys();
        Ok(BooleanBuffer::collect_bool(keys.len(), |row| admitted.value(keys[row])))
    }

    fn evaluate_strings(&self, array: &dyn Array) -> Option<BooleanBuffer> {
        match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Some(self.strings(array.len(), |row| array.value(row)))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Some(self.strings(array.len(), |row| array.value(row)))
            }
            DataType::Utf8View => {
                let array = array.as_string_view();
                match &*self.intervals {
                    [interval] => Some(view_range(array, interval)),
                    _ => Some(self.strings(array.len(), |row| array.value(row))),
                }
            }
            _ => None,
        }
    }

    fn strings<'a>(&self, row_count: usize, value: impl Fn(usize) -> &'a str) -> BooleanBuffer {
        match &*self.intervals {
            [interval] => match interval.as_point() {
                // Equality looks at the length first, an order can't.
                Some(Scalar::Utf8(point)) => BooleanBuffer::collect_bool(row_count, |row| value(row) == &**point),
                _ => BooleanBuffer::collect_bool(row_count, |row| text_within(interval, value(row).as_bytes())),
            },
            _ => BooleanBuffer::collect_bool(row_count, |row| self.contains_str(value(row))),
        }
    }
}

/// One interval of strings against views: most rows are decided by the four bytes that lie in the view itself.
fn view_range(array: &StringViewArray, interval: &Interval) -> BooleanBuffer {
    let prefix_of = |bound| match bound_value(bound) {
        Some(Scalar::Utf8(text)) => {
            let mut bytes = [0; 4];
            bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
            Some(u32::from_be_bytes(bytes))
        }
        _ => None,
    };
    let low_prefix = prefix_of(&interval.low);
    let high_prefix = prefix_of(&interval.high);
    let views = array.views();
    BooleanBuffer::collect_bool(array.len(), |row| {
        // Bytes 4 to 8 of a view are the first of the string, padded with zeros. If they differ from those of a
        // bound they order the strings: the greater one has a byte where the other has a smaller one, or none.
        let prefix = ((views[row] >> 32) as u32).swap_bytes();
        if low_prefix.is_some_and(|low| prefix < low) || high_prefix.is_some_and(|high| prefix > high) {
            return false;
        }
        let above_low = low_prefix.is_none_or(|low| prefix > low);
        let below_high = high_prefix.is_none_or(|high| prefix < high);
        match (above_low, below_high) {
            (true, true) => true,
            (true, false) => !text_ends_before(interval, array.value(row).as_bytes()),
            _ => text_within(interval, array.value(row).as_bytes()),
        }
    })
}

/// A type of the integers that arrays hold.
pub(super) trait Integer: Copy + Ord {
    const LEAST: Self;
    const GREATEST: Self;
    fn widen(self) -> i128;
    /// The nearest value of this type.
    fn clamp_from(key: i128) -> Self;
}

macro_rules! impl_integer {
    ($($native:ty),*) => {$(
        impl Integer for $native {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            #[inline]
            fn widen(self) -> i128 {
                self as i128
            }
            #[inline]
            fn clamp_from(key: i128) -> Self {
                key.clamp(Self::MIN as i128, Self::MAX as i128) as Self
            }
        }
    )*};
}
impl_integer!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// Calls a function that is generic over Arrow's types with that of the values, if these are integers.
macro_rules! for_integers {
    ($data_type:expr, $call:ident($($argument:expr),+)) => {{
        use arrow::array::types as of;
        use arrow::datatypes::DataType;
        use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        match $data_type {
            DataType::Int8 => Some($call::<of::Int8Type>($($argument),+)),
            DataType::Int16 => Some($call::<of::Int16Type>($($argument),+)),
            DataType::Int32 => Some($call::<of::Int32Type>($($argument),+)),
            DataType::Int64 => Some($call::<of::Int64Type>($($argument),+)),
            DataType::UInt8 => Some($call::<of::UInt8Type>($($argument),+)),
            DataType::UInt16 => Some($call::<of::UInt16Type>($($argument),+)),
            DataType::UInt32 => Some($call::<of::UInt32Type>($($argument),+)),
            DataType::UInt64 => Some($call::<of::UInt64Type>($($argument),+)),
            DataType::Date32 => Some($call::<of::Date32Type>($($argument),+)),
            DataType::Date64 => Some($call::<of::Date64Type>($($argument),+)),
            DataType::Time32(Second) => Some($call::<of::Time32SecondType>($($argument),+)),
            DataType::Time32(Millisecond) => Some($call::<of::Time32MillisecondType>($($argument),+)),
            DataType::Time64(Microsecond) => Some($call::<of::Time64MicrosecondType>($($argument),+)),
            DataType::Time64(Nanosecond) => Some($call::<of::Time64NanosecondType>($($argument),+)),
            DataType::Timestamp(Second, _) => Some($call::<of::TimestampSecondType>($($argument),+)),
            DataType::Timestamp(Millisecond, _) => Some($call::<of::TimestampMillisecondType>($($argument),+)),
            DataType::Timestamp(Microsecond, _) => Some($call::<of::TimestampMicrosecondType>($($argument),+)),
            DataType::Timestamp(Nanosecond, _) => Some($call::<of::TimestampNanosecondType>($($argument),+)),
            DataType::Duration(Second) => Some($call::<of::DurationSecondType>($($argument),+)),
            DataType::Duration(Millisecond) => Some($call::<of::DurationMillisecondType>($($argument),+)),
            DataType::Duration(Microsecond) => Some($call::<of::DurationMicrosecondType>($($argument),+)),
            DataType::Duration(Nanosecond) => Some($call::<of::DurationNanosecondType>($($argument),+)),
            DataType::Decimal32(..) => Some($call::<of::Decimal32Type>($($argument),+)),
            DataType::Decimal64(..) => Some($call::<of::Decimal64Type>($($argument),+)),
            DataType::Decimal128(..) => Some($call::<of::Decimal128Type>($($argument),+)),
            _ => None,
        }
    }};
}
pub(super) use for_integers;

/// `None` if the array isn't of an integer-like type.
fn evaluate_integers(array: &dyn Array, ranges: &[(i128, i128)]) -> Option<BooleanBuffer> {
    fn rows<T: ArrowPrimitiveType<Native: Integer>>(array: &dyn Array, ranges: &[(i128, i128)]) -> BooleanBuffer {
        let (least, greatest) = (T::Native::LEAST.widen(), T::Native::GREATEST.widen());
        let ranges: Vec<(T::Native, T::Native)> = ranges
            .iter()
            .filter(|(low, high)| *low <= greatest && *high >= least)
            .map(|(low, high)| (T::Native::clamp_from(*low), T::Native::clamp_from(*high)))
            .collect();
        with_widest_registers(array.as_primitive::<T>().values(), |value| value, &ranges)
    }
    for_integers!(array.data_type(), rows(array, ranges))
}

/// Of floats in a narrow form (`thermocline_narrow`), the whole numbers that stand for those in each of some ranges:
/// greater numbers stand for greater floats.
fn whole_number_ranges(meaning: DecimalFloats, ranges: &[(i64, i64)]) -> Vec<(i128, i128)> {
    // The first number whose float's key is not less, or not even equal; one too great if there is none.
    let first = |is_before: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (i64::from(i32::MIN), i64::from(i32::MAX) + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(total_order_key(meaning.float(middle as i32))) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        i128::from(low)
    };
    let number_range = |(low, high): &(i64, i64)| (first(&|key| key < *low), first(&|key| key <= *high) - 1);
    ranges.iter().map(number_range).filter(|(low, high)| low <= high).collect()
}

/// `None` if the array is neither of a float type nor a narrow form of one.
fn evaluate_floats(array: &dyn Array, ranges: &[(i64, i64)]) -> Option<BooleanBuffer> {
    fn rows<V: Copy>(values: &[V], widen: impl Fn(V) -> f64, ranges: &[(i64, i64)]) -> BooleanBuffer {
        match ranges.first() {
            // The keys of floats from +0 on are their bits; those of all others are negative, and so are their bits.
            Some((low, _)) if *low >= 0 => with_widest_registers(values, |value| widen(value).to_bits() as i64, ranges),
            _ => with_widest_registers(values, |value| total_order_key(widen(value)), ranges),
        }
    }
    // Widening a half or single float keeps totalOrder, signalling NaNs apart, which become quiet ones.
    match array.data_type() {
        DataType::Float16 => Some(rows(array.as_primitive::<Float16Type>().values(), |value| value.to_f64(), ranges)),
        DataType::Float32 => Some(rows(array.as_primitive::<Float32Type>().values(), f64::from, ranges)),
        DataType::Float64 => Some(rows(array.as_primitive::<Float64Type>().values(), |value| value, ranges)),
        form => evaluate_integers(array, &whole_number_ranges(DecimalFloats::of(form)?, ranges)),
    }
}

/// Which values have a key in one of the sorted disjoint inclusive ranges: compiled several times
/// ([`with_widest_registers`]).
#[inline(always)]
pub(super) fn within_in_any_registers<V: Copy, K: Copy + Ord>(
    values: &[V],
    key: impl Fn(V) -> K,
    ranges: &[(K, K)],
) -> BooleanBuffer {
    /// Up to here testing every range is cheaper than a search, whose branches the processor can't predict: four
    /// mispredictions of some 15 cycles against 16 ranges at one vector comparison or two for several rows.
    const TESTED_EACH: usize = 16;
    match ranges {
        [] => BooleanBuffer::new_unset(values.len()),
        [(low, high)] => pack(values, |value| {
            let key = key(value);
            (*low <= key) & (key <= *high)
        }),
        few if few.len() <= TESTED_EACH => pack(values, |value| {
            let key = key(value);
            few.iter().fold(false, |any, (low, high)| any | ((*low <= key) & (key <= *high)))
        }),
        many => pack(values, |value| search(many, key(value))),
    }
}

/// One bit a value.
#[inline(always)]
fn pack<V: Copy>(values: &[V], test: impl Fn(V) -> bool) -> BooleanBuffer {
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(64));
    for chunk in values.chunks(64) {
        let mut bytes = [0; 64];
        bytes.iter_mut().zip(chunk).for_each(|(byte, &value)| *byte = u8::from(test(value)));
        words.push(pack_word(&bytes));
    }
    // Bitmaps are little-endian bytes, whatever the machine.
    words.iter_mut().for_each(|word| *word = word.to_le());
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

/// Bit `i` of the result is byte `i`, each of which is 0 or 1.
#[inline(always)]
fn pack_word(bytes: &[u8; 64]) -> u64 {
    // A product gathers eight bytes in its top byte: byte i moves up by 56 - 7 i bits, from bit 8 i to bit 56 + i.
    // All partial products land on different bits, so nothing carries.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights
        .iter()
        .enumerate()
        .fold(0, |word, (index, eight)| word | (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * index))
}
