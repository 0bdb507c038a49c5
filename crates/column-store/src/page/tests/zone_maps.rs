use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use thermocline_seeded::Random;

use super::arrays::{Nulls, SHAPES, array};
use crate::{ZoneMap, ZoneValue, encode};

fn values(array: &ArrayRef) -> Vec<ZoneValue> {
    let valid = (0..array.len()).filter(|index| array.is_valid(*index));
    match array.data_type() {
        DataType::Boolean => valid.map(|index| ZoneValue::Integer(array.as_boolean().value(index).into())).collect(),
        DataType::Int64 => {
            valid.map(|index| ZoneValue::Integer(array.as_primitive::<Int64Type>().value(index).into())).collect()
        }
        DataType::UInt64 => {
            valid.map(|index| ZoneValue::Integer(array.as_primitive::<UInt64Type>().value(index).into())).collect()
        }
        DataType::Decimal128(_, _) => {
            valid.map(|index| ZoneValue::Integer(array.as_primitive::<Decimal128Type>().value(index))).collect()
        }
        DataType::Float64 => {
            valid.map(|index| ZoneValue::Float(array.as_primitive::<Float64Type>().value(index))).collect()
        }
        _ => valid.map(|index| ZoneValue::Bytes(array.as_string::<i32>().value(index).into())).collect(),
    }
}

/// By IEEE 754's ordinary comparisons, and by its total order: the map must hold under both.
fn is_in(value: &ZoneValue, lower: Bound<&ZoneValue>, upper: Bound<&ZoneValue>) -> bool {
    use std::cmp::Ordering;
    type Compare<'a> = &'a dyn Fn(&ZoneValue, &ZoneValue) -> Option<Ordering>;
    let orders: [Compare<'_>; 2] = [
        &|left, right| match (left, right) {
            (ZoneValue::Float(left), ZoneValue::Float(right)) => left.partial_cmp(right),
            (ZoneValue::Integer(left), ZoneValue::Integer(right)) => left.partial_cmp(right),
            (ZoneValue::Bytes(left), ZoneValue::Bytes(right)) => left.partial_cmp(right),
            _ => None,
        },
        &|left, right| match (left, right) {
            (ZoneValue::Float(left), ZoneValue::Float(right)) => Some(left.total_cmp(right)),
            _ => None,
        },
    ];
    orders.iter().any(|compare| {
        let above = match lower {
            Bound::Included(lower) => compare(value, lower).is_some_and(Ordering::is_ge),
            Bound::Excluded(lower) => compare(value, lower).is_some_and(Ordering::is_gt),
            Bound::Unbounded => true,
        };
        let below = match upper {
            Bound::Included(upper) => compare(value, upper).is_some_and(Ordering::is_le),
            Bound::Excluded(upper) => compare(value, upper).is_some_and(Ordering::is_lt),
            Bound::Unbounded => true,
        };
        above && below
    })
}

fn bound<'a>(random: &mut Random, values: &'a [ZoneValue]) -> Bound<&'a ZoneValue> {
    match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(random.pick(values)),
        _ => Bound::Excluded(random.pick(values)),
    }
}

#[test]
fn a_range_that_a_value_is_in_is_never_ruled_out() {
    let types = [
        DataType::Boolean,
        DataType::Int64,
        DataType::UInt64,
        DataType::Decimal128(38, 2),
        DataType::Float64,
        DataType::Utf8,
    ];
    for seed in 0..10 {
        let mut random = Random::new(seed);
        for data_type in &types {
            for shape in SHAPES {
                let nulls = *random.pick(&[Nulls::None, Nulls::Some, Nulls::All]);
                let count = 1 + random.below(5);
                let page = array(&mut random, data_type, shape, nulls, count);
                let others = array(&mut random, data_type, shape, Nulls::None, 20);
                let map = encode(&page, &mut Vec::new()).unwrap().zone_map;
                let inside = values(&page);
                let mut bounds = values(&others);
                bounds.extend(inside.iter().cloned());
                for _ in 0..50 {
                    let (lower, upper) = (bound(&mut random, &bounds), bound(&mut random, &bounds));
                    let truth = inside.iter().any(|value| is_in(value, lower, upper));
                    assert!(
                        !truth || map.may_contain(lower, upper),
                        "seed {seed}, {data_type}, {shape:?}: {lower:?} to {upper:?} of {inside:?} with {map:?}"
                    );
                }
            }
        }
    }
}

fn map_of(array: ArrayRef) -> ZoneMap {
    encode(&array, &mut Vec::new()).unwrap().zone_map
}

#[test]
fn ranges_beside_the_values_are_ruled_out() {
    let integer = ZoneValue::Integer;
    let map = ZoneMap::integers(10, 20);
    let (ten, twenty) = (integer(10), integer(20));
    assert!(!map.may_contain(Bound::Excluded(&twenty), Bound::Unbounded));
    assert!(!map.may_contain(Bound::Unbounded, Bound::Excluded(&ten)));
    assert!(map.may_contain(Bound::Included(&twenty), Bound::Unbounded));
    assert!(map.may_contain(Bound::Unbounded, Bound::Included(&ten)));

    let floats = map_of(Arc::new(Float64Array::from(vec![1.0, f64::NAN, 2.0])));
    let (three, four) = (ZoneValue::Float(3.0), ZoneValue::Float(4.0));
    assert!(!floats.may_contain(Bound::Included(&three), Bound::Included(&four)), "a NaN is in no range with two ends");
    assert!(floats.may_contain(Bound::Included(&three), Bound::Unbounded), "in the total order a NaN is greater");

    let long = "the same beginning of more than 23 bytes";
    let texts = map_of(Arc::new(StringArray::from(vec!["m", long])));
    let bytes = |text: &str| ZoneValue::Bytes(text.into());
    let (same, after, before) = (bytes(&format!("{long}!")), bytes("thf"), bytes("lz"));
    assert!(texts.may_contain(Bound::Included(&same), Bound::Unbounded), "what was cut off is not known");
    assert!(!texts.may_contain(Bound::Included(&after), Bound::Unbounded));
    assert!(!texts.may_contain(Bound::Unbounded, Bound::Included(&before)));

    let nothing = ZoneMap::default();
    assert!(!nothing.may_contain(Bound::Unbounded, Bound::Unbounded), "NULLs are in no range");
}
