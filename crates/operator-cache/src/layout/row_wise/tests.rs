#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{Array, BooleanArray, Int8Array, Int64Array, StringArray};
use thermocline_seeded::Random;

use super::*;
use crate::layout::random_arrays::{Value, random_array, random_scalar_type, random_type};

#[test]
fn every_column_comes_back_whole_and_in_parts() {
    for seed in 0..800 {
        let mut random = Random::new(seed);
        let row_count = [0, 1, 9, 64, 500][random.below(5)];
        let columns: Vec<ArrayRef> = (0..random.below(7))
            .map(|_| {
                let data_type =
                    if random.one_in(3) { random_type(&mut random, 4) } else { random_scalar_type(&mut random) };
                random_array(&mut random, &data_type, row_count, true)
            })
            .collect();
        let block = RowBlock::from_columns(&columns, row_count).unwrap();
        assert_eq!(block.row_count(), row_count);
        let chances = 1 + random.below(5);
        let selected: Vec<u32> = (0..row_count as u32).filter(|_| random.one_in(chances)).collect();
        for (index, column) in columns.iter().enumerate() {
            let values = Value::all_of(column);
            let whole = block.column(index, None).unwrap();
            whole.to_data().validate_full().unwrap();
            assert_eq!(whole.data_type(), column.data_type(), "seed {seed}");
            assert_eq!(Value::all_of(&whole), values, "seed {seed}, column {index}: {}", column.data_type());
            let part = block.column(index, Some(&selected)).unwrap();
            part.to_data().validate_full().unwrap();
            let expected: Vec<Value> = selected.iter().map(|&row| values[row as usize].clone()).collect();
            assert_eq!(Value::all_of(&part), expected, "seed {seed}, column {index}: {}", column.data_type());
        }
    }
}

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2, 3]))
}

#[test]
fn fields_are_packed_by_width_and_only_fields_with_nulls_take_a_bit() {
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1, 2, 3]));
    let stride_bytes = |columns: &[ArrayRef]| RowBlock::from_columns(columns, 3).unwrap().stride_bytes;
    assert_eq!(stride_bytes(&[Arc::clone(&bytes)]), 1);
    assert_eq!(stride_bytes(&[Arc::new(Int8Array::from(vec![Some(1), None, None]))]), 2);
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    assert_eq!(stride_bytes(&vec![flags; 9]), 2);
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    assert_eq!(stride_bytes(&[bytes, numbers(), strings]), 24);
    assert_eq!(stride_bytes(&[]), 0);
}

#[test]
fn strings_of_a_row_lie_side_by_side_and_null_ones_take_no_room() {
    let first = Arc::new(StringArray::from(vec![Some("ab"), None, Some("c")]));
    let second = Arc::new(StringArray::from(vec!["D", "E", "FG"]));
    let block = RowBlock::from_columns(&[first, second], 3).unwrap();
    assert_eq!(block.heap, b"abDEcFG");
    assert_eq!(block.heap.capacity(), block.heap.len());
}

#[test]
fn what_is_not_there_or_does_not_fit_is_refused() {
    let block = RowBlock::from_columns(&[numbers()], 3).unwrap();
    assert!(block.column(1, None).unwrap_err().to_string().contains("no column 1 among 1"));
    assert!(block.column(0, Some(&[0, 3])).unwrap_err().to_string().contains("no row 3 among 3"));
    assert!(RowBlock::from_columns(&[numbers()], 4).unwrap_err().to_string().contains("3 values, 4 rows"));
    let other = arrow::array::new_null_array(&DataType::LargeUtf8, 3);
    assert!(RowBlock::from_columns(&[other], 3).unwrap_err().to_string().contains("LargeUtf8"));
}
