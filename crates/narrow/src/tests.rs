#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    StringArray, UInt16Array, UInt32Array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use thermocline_seeded::Random;

use super::*;

/// Whether two arrays are of one type, with the same NULLs and else the same bits.
fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    if one.data_type() != &DataType::Float64 || other.data_type() != &DataType::Float64 {
        return one == other;
    }
    let bits = |array: &ArrayRef| -> Vec<Option<u64>> {
        array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
    };
    bits(one) == bits(other)
}

/// Numbers of up to so many bits, with a sign.
fn number(random: &mut Random, bits: usize) -> i64 {
    let digits = random.next_u64() >> (64 - bits.clamp(1, 63));
    if random.one_in(2) { digits as i64 } else { -(digits as i64) - 1 }
}

/// An array of one of the types that have forms, and of some lengths.
fn random_array(random: &mut Random, kind: usize, count: usize) -> ArrayRef {
    let nulls = random.one_in(3).then(|| (0..count).map(|_| !random.one_in(4)).collect::<NullBuffer>());
    let bits = 1 + random.below(63);
    let values = |random: &mut Random| -> Vec<i64> { (0..count).map(|_| number(random, bits)).collect() };
    macro_rules! integers {
        ($array:ty, $native:ty) => {{
            let values: ScalarBuffer<$native> = values(random).into_iter().map(|value| value as $native).collect();
            Arc::new(<$array>::new(values, nulls))
        }};
    }
    match kind {
        0 => integers!(Int16Array, i16),
        1 => integers!(Int32Array, i32),
        2 => integers!(Int64Array, i64),
        3 => integers!(UInt16Array, u16),
        4 => integers!(UInt32Array, u32),
        5 => {
            let bits = 1 + random.below(36);
            let places = random.below(10);
            let odd = [-0.0, f64::NAN, f64::INFINITY, 0.1 + 0.2, 1e300, 5e-324];
            let odd_in = [2, 40, 1_000_000][random.below(3)];
            let value = |random: &mut Random| match random.below(odd_in) == 1 {
                true => *random.pick(&odd),
                // The parser rounds correctly: the oracle.
                false => format!("{}e-{places}", number(random, bits)).parse().unwrap(),
            };
            let values: ScalarBuffer<f64> = (0..count).map(|_| value(random)).collect();
            Arc::new(Float64Array::new(values, nulls))
        }
        _ => {
            let scale = random.below(24) as i8;
            let factor = if random.one_in(3) { 1_000_000_007 } else { 1 };
            let values: ScalarBuffer<i128> =
                values(random).into_iter().map(|value| i128::from(value >> random.below(60)) * factor).collect();
            let array = Decimal128Array::new(values, nulls);
            Arc::new(array.with_precision_and_scale(38, scale).unwrap())
        }
    }
}

#[test]
fn every_value_comes_back() {
    for seed in 0..4000 {
        let mut random = Random::new(seed);
        let count = [0, 1, 7, 300, 5000][random.below(5)];
        let array = random_array(&mut random, seed as usize % 7, count);
        let first = random.below(count + 1);
        let array = array.slice(first, random.below(count - first + 1));
        let Some(form) = narrow(&array) else { continue };
        let width = |array: &ArrayRef| array.data_type().primitive_width().unwrap();
        assert!(width(&form) < width(&array), "seed {seed}: {} is no narrower", form.data_type());
        assert!(form.get_buffer_memory_size() <= array.len() * width(&form) + 64 + array.len() / 8 + 5000 / 8);
        let back = widen(&form, array.data_type()).unwrap();
        assert!(is_same(&back, &array), "seed {seed}: {:?} came back as {back:?}", array);
    }
}

#[test]
fn arrays_of_several_forms_are_joined() {
    let mut joined_forms = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let kind = seed as usize % 7;
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let count = random.below(60);
            arrays.push(random_array(&mut random, kind, count));
        }
        if kind == 6 {
            // Decimals of one type have one scale.
            let data_type = arrays[0].data_type().clone();
            for array in &mut arrays {
                *array = Arc::new(array.as_primitive::<Decimal128Type>().clone().with_data_type(data_type.clone()));
            }
        }
        let wide: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        let expected = compute::concat(&wide).unwrap();
        let mut form = |array: &ArrayRef| if random.one_in(4) { None } else { narrow(array) };
        let forms: Vec<ArrayRef> =
            arrays.iter().map(|array| form(array).unwrap_or_else(|| Arc::clone(array))).collect();
        joined_forms += usize::from(forms.iter().any(|form| form.data_type() != forms[0].data_type()));
        let joined = concat(&forms.iter().collect::<Vec<_>>()).unwrap();
        let back = widen(&joined, expected.data_type()).unwrap();
        assert!(is_same(&back, &expected), "seed {seed}: {forms:?} were joined to {joined:?}");
    }
    assert!(joined_forms > 300, "{joined_forms} of several forms");
}

fn form_of(array: impl Array) -> Option<DataType> {
    narrow(&array).map(|form| form.data_type().clone())
}

#[test]
fn the_narrowest_form_is_chosen() {
    assert_eq!(form_of(Int64Array::from(vec![-128, 127])), Some(DataType::Int8));
    assert_eq!(form_of(Int64Array::from(vec![-129, 0])), Some(DataType::Int16));
    assert_eq!(form_of(Int64Array::from(vec![0, 1 << 31])), None);
    assert_eq!(form_of(Int64Array::from(vec![-1 << 31, 0])), Some(DataType::Int32));
    assert_eq!(form_of(Int32Array::from(vec![40_000])), None);
    assert_eq!(form_of(UInt32Array::from(vec![255])), Some(DataType::UInt8));
    assert_eq!(form_of(UInt32Array::from(vec![256])), Some(DataType::UInt16));
    assert_eq!(form_of(UInt32Array::from(vec![1 << 16])), None);
    assert_eq!(form_of(Int8Array::from(vec![1])), None);
    assert_eq!(form_of(Float64Array::from(vec![1.0, -128.0])), Some(DataType::Int8));
    assert_eq!(form_of(Float64Array::from(vec![1.0, 128.0])), Some(DataType::Int16));
    assert_eq!(form_of(Float64Array::from(vec![1.0, 40_000.0])), Some(DataType::Decimal32(9, 0)));
    assert_eq!(form_of(Float64Array::from(vec![0.04, 1_234_567.89])), Some(DataType::Decimal32(9, 2)));
    let decimals =
        |values: Vec<i128>, scale| Decimal128Array::from(values).with_precision_and_scale(20, scale).unwrap();
    assert_eq!(form_of(decimals(vec![999_999_999], 2)), Some(DataType::Decimal32(9, 2)));
    assert_eq!(form_of(decimals(vec![-1_000_000_000], 2)), Some(DataType::Decimal64(18, 2)));
    assert_eq!(form_of(decimals(vec![1], 20)), None, "forms of fewer digits than places there are none");
}

#[test]
fn floats_that_would_change_stay() {
    for odd in [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 1e300, 0.1 + 0.2, 1e9, 1e-9] {
        let mut values = vec![1.25; 3000];
        assert_eq!(form_of(Float64Array::from(values.clone())), Some(DataType::Decimal32(9, 2)));
        values[2777] = odd;
        assert_eq!(form_of(Float64Array::from(values)), None, "{odd}");
    }
}

#[test]
fn a_sample_that_misses_places_does_no_harm() {
    let mut values = vec![3.5; 3000];
    values[1] = 3.125;
    assert_eq!(form_of(Float64Array::from(values)), Some(DataType::Decimal32(9, 3)));
}

#[test]
fn what_is_no_form_of_a_type_is_an_error() {
    let numbers: ArrayRef = Arc::new(Int16Array::from(vec![1]));
    for data_type in [DataType::Int8, DataType::UInt32, DataType::Utf8, DataType::Decimal128(9, 2)] {
        let error = widen(&numbers, &data_type).unwrap_err().to_string();
        assert!(error.contains("Int16 is no narrow form of"), "{error}");
    }
    assert!(concat(&[]).is_err());
}

/// Texts of a random vocabulary, which may be as large as they are many, and of all lengths about those that have a form.
fn random_texts(random: &mut Random, count: usize) -> ArrayRef {
    let vocabulary_size = [1, 3, 200, 300, 70_000][random.below(5)];
    let length = [0, 1, 9, 30, MOST_TEXT_BYTES, MOST_TEXT_BYTES + 1][random.below(6)];
    let nulls_in = [1, 2, 5, 1 << 30][random.below(4)];
    let text = |random: &mut Random| {
        let number = random.below(vocabulary_size);
        let end = [length, length / 2][number % 2];
        format!("{number}{}", "ö".repeat(end)).chars().take(end).collect::<String>()
    };
    let texts = (0..count).map(|_| (!random.one_in(nulls_in)).then(|| text(random)));
    Arc::new(texts.collect::<StringArray>())
}

#[test]
fn texts_come_back_from_their_codes_and_take_less() {
    let mut widths = [0; 3];
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let count = [0, 1, 70, 3000, 9000][random.below(5)];
        let array = random_texts(&mut random, count);
        let first = random.below(count + 1);
        let array = array.slice(first, random.below(count - first + 1));
        let Some(form) = narrow(&array) else { continue };
        let width = form.as_any_dictionary().keys().data_type().primitive_width().unwrap();
        widths[width / 2] += 1;
        let needed_bytes = array.to_data().get_slice_memory_size().unwrap();
        let form_bytes = form.get_array_memory_size();
        assert!(
            form_bytes <= needed_bytes / 4 * 3 + 300 + count / 8,
            "seed {seed}: {form_bytes} instead of {needed_bytes}"
        );
        let back = widen(&form, &DataType::Utf8).unwrap();
        assert!(*back == *array, "seed {seed}: {array:?} came back as {back:?}");
    }
    assert!(widths[0] > 50 && widths[1] > 5, "{widths:?}");
}

#[test]
fn texts_are_coded_where_that_spares_memory() {
    let texts = |vocabulary: usize, count: usize, length: usize| {
        form_of(StringArray::from_iter_values((0..count).map(|row| format!("{:0length$}", row * 7 % vocabulary))))
    };
    let coded = |key| Some(DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8)));
    assert_eq!(texts(3, 1000, 1), coded(DataType::UInt8));
    assert_eq!(texts(256, 9000, 5), coded(DataType::UInt8));
    assert_eq!(texts(257, 9000, 5), coded(DataType::UInt16));
    let in_runs = StringArray::from_iter_values((0..400_000).map(|row| format!("{:020}", row / 6)));
    assert_eq!(form_of(in_runs), coded(DataType::UInt32));
    assert_eq!(texts(100_000, 100_000, 9), None, "all are different");
    assert_eq!(texts(3, 50, 1), None, "few");
    assert_eq!(texts(3, 1000, MOST_TEXT_BYTES + 1), None, "long");
    assert_eq!(form_of(StringArray::from(vec![None::<&str>; 1000])), None);
}

#[test]
fn texts_in_several_forms_are_joined() {
    let mut joined_forms = [0; 3];
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let count = random.below(900);
            arrays.push(random_texts(&mut random, count));
        }
        let spelt: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        let expected = compute::concat(&spelt).unwrap();
        let mut form = |array: &ArrayRef| {
            let form = if random.one_in(4) { None } else { narrow(array) };
            let form = form.unwrap_or_else(|| Arc::clone(array));
            // Of a part most of the dictionary is the others'.
            let first = random.below(form.len() + 1);
            [form.slice(0, first), form.slice(first, form.len() - first)]
        };
        let forms: Vec<ArrayRef> = arrays.iter().flat_map(&mut form).collect();
        let joined = concat(&forms.iter().collect::<Vec<_>>()).unwrap();
        let is_coded = |array: &ArrayRef| array.as_any_dictionary_opt().is_some();
        joined_forms[usize::from(is_coded(&joined)) + usize::from(forms.iter().any(is_coded))] += 1;
        let back = widen(&joined, &DataType::Utf8).unwrap();
        assert!(*back == *expected, "seed {seed}: {forms:?} were joined to {joined:?}");
    }
    assert!(joined_forms.iter().all(|count| *count > 20), "of plain texts, of codes, as codes: {joined_forms:?}");
}

#[test]
fn joined_codes_have_the_texts_that_are_there() {
    let all: ArrayRef = Arc::new(StringArray::from_iter_values((0..2000).map(|row| format!("text {}", row % 200))));
    let coded = narrow(&all).unwrap();
    let few = coded.slice(0, 10);
    let joined = concat(&[&few, &few]).unwrap();
    assert_eq!(joined.data_type(), &DataType::Utf8, "a dictionary would take more");
    let many = concat(&[&few; 40]).unwrap();
    assert_eq!(many.as_any_dictionary().values().len(), 10);
    let long = |length| -> ArrayRef { Arc::new(StringArray::from_iter_values(vec!["x".repeat(length); 400])) };
    let beside = |length| concat(&[&coded, &long(length)]).unwrap().data_type().clone();
    assert_eq!(beside(MOST_TEXT_BYTES), *coded.data_type());
    assert_eq!(beside(MOST_TEXT_BYTES + 1), DataType::Utf8, "spelling codes out takes no more than is bounded");
    let numbers: ArrayRef = Arc::new(Int8Array::from(vec![1]));
    assert!(concat(&[&coded, &numbers]).unwrap_err().to_string().contains("Int8 among texts"));
    assert!(with_dictionary(&numbers, &all).is_err());
}
