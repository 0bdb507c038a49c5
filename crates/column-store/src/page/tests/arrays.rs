//! Random arrays of every type and several shapes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Float32Array, Float64Array, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray, make_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use thermocline_seeded::Random;

use crate::PhysicalType;

pub(crate) fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(38, 4),
        Date32,
        Date64,
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Constant,
    Runs,
    Sorted,
    Narrow,
    Any,
    Extremes,
}

pub(crate) const SHAPES: [Shape; 6] =
    [Shape::Constant, Shape::Runs, Shape::Sorted, Shape::Narrow, Shape::Any, Shape::Extremes];

/// Which values are not NULL: all, none, or some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    None,
    Some,
    All,
}

/// Ordinals that become values of each type.
fn numbers(random: &mut Random, shape: Shape, count: usize) -> Vec<u64> {
    let mut last = random.next_u64();
    let start = random.next_u64() >> random.below(64);
    (0..count)
        .map(|index| {
            match shape {
                Shape::Constant => {}
                Shape::Runs => {
                    if random.one_in(50) {
                        last = random.next_u64() >> 40;
                    }
                }
                Shape::Sorted if index == 0 => last = start >> 8,
                Shape::Sorted => last = last.wrapping_add(random.below(5) as u64),
                Shape::Narrow => last = start.wrapping_add(random.below(40) as u64),
                Shape::Any => last = random.next_u64(),
                Shape::Extremes => {
                    last = *random.pick(&[0, 1, u64::MAX, i64::MIN as u64, i64::MAX as u64, i32::MIN as u64, 127, 128]);
                }
            }
            last
        })
        .collect()
}

fn text(random: &mut Random, shape: Shape, number: u64) -> String {
    const PIECES: [&str; 6] = ["", "a", "https://example.org/", "zwölf Boxkämpfer", "🦀", "\0"];
    match shape {
        Shape::Sorted => format!("key {number:020}"),
        Shape::Any => (0..random.below(12)).map(|_| *random.pick(&PIECES)).collect(),
        Shape::Extremes if random.one_in(30) => "long".repeat(random.below(500)),
        Shape::Extremes => (*random.pick(&PIECES)).to_owned(),
        _ => format!("{}{number}", PIECES[number as usize % PIECES.len()]),
    }
}

fn double(random: &mut Random, shape: Shape, number: u64) -> f64 {
    match shape {
        Shape::Constant | Shape::Any => f64::from_bits(number),
        Shape::Extremes => *random.pick(&[
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::from_bits(0x7ff8_0000_0000_1234),
            f64::from_bits(0xfff8_0000_0000_0001),
            f64::MAX,
            5e-324,
            1e300,
        ]),
        Shape::Narrow if random.one_in(100) => std::f64::consts::PI,
        _ => (number % 1_000_000_000) as f64 / 100.0,
    }
}

fn primitive<T: ArrowPrimitiveType>(values: impl Iterator<Item = Option<T::Native>>) -> ArrayRef {
    Arc::new(values.collect::<PrimitiveArray<T>>())
}

/// An array of `count` values; it may be a slice out of a longer one.
pub(crate) fn array(random: &mut Random, data_type: &DataType, shape: Shape, nulls: Nulls, count: usize) -> ArrayRef {
    let skipped = if random.one_in(2) { random.below(20) } else { 0 };
    let left_over = if random.one_in(2) { random.below(20) } else { 0 };
    let numbers = numbers(random, shape, count + skipped + left_over);
    let numbers: Vec<Option<u64>> = numbers
        .into_iter()
        .map(|number| match nulls {
            Nulls::None => Some(number),
            Nulls::Some => (!random.one_in(4)).then_some(number),
            Nulls::All => None,
        })
        .collect();
    let texts = |random: &mut Random| -> Vec<Option<String>> {
        numbers.iter().map(|number| number.map(|number| text(random, shape, number))).collect()
    };
    let doubles = |random: &mut Random| -> Vec<Option<f64>> {
        numbers.iter().map(|number| number.map(|number| double(random, shape, number))).collect()
    };
    let each = numbers.iter().copied();
    let whole: ArrayRef = match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(texts(random))),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(texts(random))),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(texts(random))),
        DataType::Binary => Arc::new(BinaryArray::from_iter(texts(random))),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter(texts(random))),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(texts(random))),
        DataType::Float64 => Arc::new(Float64Array::from(doubles(random))),
        DataType::Float32 => {
            Arc::new(doubles(random).into_iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>())
        }
        _ => {
            let stored = match PhysicalType::of(data_type).unwrap() {
                PhysicalType::Boolean => Arc::new(
                    each.map(|number| number.map(|number| number % 2 == 1 && shape != Shape::Runs))
                        .collect::<BooleanArray>(),
                ),
                PhysicalType::Int8 => primitive::<Int8Type>(each.map(|number| number.map(|number| number as i8))),
                PhysicalType::Int16 => primitive::<Int16Type>(each.map(|number| number.map(|number| number as i16))),
                PhysicalType::Int32 => primitive::<Int32Type>(each.map(|number| number.map(|number| number as i32))),
                PhysicalType::UInt8 => primitive::<UInt8Type>(each.map(|number| number.map(|number| number as u8))),
                PhysicalType::UInt16 => primitive::<UInt16Type>(each.map(|number| number.map(|number| number as u16))),
                PhysicalType::UInt32 => primitive::<UInt32Type>(each.map(|number| number.map(|number| number as u32))),
                PhysicalType::UInt64 => primitive::<UInt64Type>(each),
                PhysicalType::Decimal128 => {
                    let wide = shape == Shape::Any;
                    let factor = if wide { 1_000_000_007 } else { 1 };
                    primitive::<Decimal128Type>(
                        each.map(|number| number.map(|number| i128::from(number as i64) * factor)),
                    )
                }
                _ => primitive::<Int64Type>(each.map(|number| number.map(|number| number as i64))),
            };
            make_array(stored.to_data().into_builder().data_type(data_type.clone()).build().unwrap())
        }
    };
    whole.slice(skipped, count)
}
