//! Builders against Arrow's own arrays.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{
    Array, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array, NullArray, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::TimeUnit;
use thermocline_predicate::Scalar;

use super::*;

fn filled(data_type: &DataType, texts: &[Option<&str>]) -> LeafBuilder {
    let mut builder = LeafBuilder::new(data_type).unwrap();
    for text in texts {
        match text {
            Some(text) => builder.append_text(text.as_bytes()).unwrap(),
            None => builder.append_null(),
        }
    }
    builder
}

#[test]
fn text_becomes_exactly_sized_arrays_of_every_type() {
    let finish = |data_type: DataType, texts: &[Option<&str>]| filled(&data_type, texts).finish().unwrap();
    let ints = finish(DataType::Int64, &[Some("1"), None, Some("-3")]);
    assert_eq!(ints.as_ref(), &Int64Array::from(vec![Some(1), None, Some(-3)]) as &dyn Array);
    assert_eq!(ints.to_data().buffers()[0].capacity(), 24);
    let strings = finish(DataType::Utf8, &[Some("a"), None, Some(""), Some("höß")]);
    assert_eq!(strings.as_ref(), &StringArray::from(vec![Some("a"), None, Some(""), Some("höß")]) as &dyn Array);
    assert_eq!(strings.to_data().buffers()[1].capacity(), 6);
    let booleans: Vec<Option<bool>> = (0..19).map(|at| (at % 5 != 0).then_some(at % 3 == 0)).collect();
    let texts: Vec<Option<&str>> = booleans.iter().map(|b| b.map(|b| if b { "true" } else { "FALSE" })).collect();
    assert_eq!(finish(DataType::Boolean, &texts).as_ref(), &BooleanArray::from(booleans) as &dyn Array);
    assert_eq!(finish(DataType::Int8, &[Some("-128")]).as_ref(), &Int8Array::from(vec![-128]) as &dyn Array);
    let floats = finish(DataType::Float64, &[Some("1.5"), None]);
    assert_eq!(floats.as_ref(), &Float64Array::from(vec![Some(1.5), None]) as &dyn Array);
    let dates = finish(DataType::Date32, &[Some("1970-01-02")]);
    assert_eq!(dates.as_ref(), &Date32Array::from(vec![1]) as &dyn Array);
    assert_eq!(
        finish(DataType::Decimal128(10, 2), &[Some("1.5")]).as_ref(),
        &Decimal128Array::from(vec![150]).with_data_type(DataType::Decimal128(10, 2)) as &dyn Array
    );
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")));
    assert_eq!(
        finish(utc, &[Some("1970-01-01T00:00:01Z")]).as_ref(),
        &TimestampMicrosecondArray::from(vec![1_000_000]).with_timezone("UTC") as &dyn Array
    );
    assert_eq!(finish(DataType::Null, &[None, None]).as_ref(), &NullArray::new(2) as &dyn Array);
}

#[test]
fn what_a_type_cannot_hold_is_refused_and_leaves_no_trace() {
    for (data_type, text) in [
        (DataType::Int64, "1.5"),
        (DataType::Int64, "1.0"),
        (DataType::Int64, "9223372036854775808"),
        (DataType::Int8, "128"),
        (DataType::UInt8, "-1"),
        (DataType::UInt64, "18446744073709551616"),
        (DataType::Float64, "1e400"),
        (DataType::Float32, "1e39"),
        (DataType::Boolean, "1"),
        (DataType::Date32, "2023-02-30"),
        (DataType::Decimal128(5, 2), "1.234"),
        (DataType::Decimal128(3, 2), "10.00"),
        (DataType::Null, "x"),
        (DataType::Int64, ""),
    ] {
        let mut builder = LeafBuilder::new(&data_type).unwrap();
        builder.append_null();
        assert_eq!(builder.append_text(text.as_bytes()), Err(Mismatch::NotOfType), "{data_type} {text}");
        assert_eq!(builder.len(), 1, "{data_type} {text}");
    }
    let mut strings = LeafBuilder::new(&DataType::Utf8).unwrap();
    assert_eq!(strings.append_text(b"a\xff"), Err(Mismatch::NotUtf8));
    assert!(strings.is_empty());
    assert!(LeafBuilder::new(&DataType::Binary).is_none());
    assert!(LeafBuilder::new(&DataType::Timestamp(TimeUnit::Second, Some(Arc::from("Europe/Berlin")))).is_none());
}

#[test]
fn numbers_count_days_and_units_but_their_text_does_not() {
    let mut dates = LeafBuilder::new(&DataType::Date32).unwrap();
    assert_eq!(dates.append_text(b"19000"), Err(Mismatch::NotOfType));
    assert_eq!(dates.append_number(b"19000"), Ok(()));
    let mut times = LeafBuilder::new(&DataType::Timestamp(TimeUnit::Second, None)).unwrap();
    assert_eq!(times.append_number(b"12"), Ok(()));
    assert_eq!(times.append_number(b"12.5"), Err(Mismatch::NotOfType));
}

#[test]
fn truncation_repetition_and_copies_agree_with_a_vector_of_options() {
    for seed in 1..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut strings = LeafBuilder::new(&DataType::Utf8).unwrap();
        let mut ints = LeafBuilder::new(&DataType::Int64).unwrap();
        let mut expected: Vec<Option<i64>> = Vec::new();
        for _ in 0..60 {
            match next(4) {
                0 => {
                    strings.append_null();
                    ints.append_null();
                    expected.push(None);
                }
                1 => {
                    let len = next(expected.len() as u64 + 1) as usize;
                    strings.truncate(len);
                    ints.truncate(len);
                    expected.truncate(len);
                }
                _ => {
                    let value = next(100_000) as i64 - 50_000;
                    strings.append_str(&value.to_string()).unwrap();
                    ints.append_text(value.to_string().as_bytes()).unwrap();
                    expected.push(Some(value));
                }
            }
            assert_eq!(ints.is_last_null(), matches!(expected.last(), Some(None)), "seed {seed}");
            let domain = Domain::interval(Bound::Included(Scalar::Int(0)), Bound::Unbounded);
            assert_eq!(ints.test(&domain), matches!(expected.last(), Some(Some(0..))), "seed {seed}");
            assert_eq!(ints.test(&Domain::null()), matches!(expected.last(), Some(None)), "seed {seed}");
        }
        assert_eq!(ints.finish().unwrap().as_ref(), &Int64Array::from(expected.clone()) as &dyn Array, "seed {seed}");
        let texts: StringArray = expected.iter().map(|value| value.map(|value| value.to_string())).collect();
        assert_eq!(strings.finish().unwrap().as_ref(), &texts as &dyn Array, "seed {seed}");
        assert!(ints.is_empty() && strings.is_empty());
    }
}
