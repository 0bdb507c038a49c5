//! The suppliers.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringBuilder};
use arrow::datatypes::{DataType, Field};

use crate::draws::Draws;
use crate::place::{PlaceColumns, push_formatted};

pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    vec![
        Field::new("s_suppkey", DataType::Int32, false),
        text("s_name"),
        text("s_address"),
        text("s_city"),
        text("s_nation"),
        text("s_region"),
        text("s_phone"),
    ]
}

/// Rows `rows`, counted from 0; their keys from 1. `draws_key` is this table's.
pub(crate) fn columns(draws_key: u64, rows: std::ops::Range<u64>) -> Vec<ArrayRef> {
    let row_count = (rows.end - rows.start) as usize;
    let mut names = StringBuilder::with_capacity(row_count, row_count * 18);
    let mut places = PlaceColumns::with_capacity(row_count);
    for index in rows.clone() {
        push_formatted(&mut names, format_args!("Supplier#{:09}", index + 1));
        places.push(&mut Draws::of_row(draws_key, index));
    }
    let [address, city, nation, region, phone] = places.finish();
    vec![
        Arc::new(Int32Array::from_iter_values(rows.map(|index| index as i32 + 1))),
        Arc::new(names.finish()),
        address,
        city,
        nation,
        region,
        phone,
    ]
}
