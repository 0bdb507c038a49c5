//! The parts, and what one costs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringBuilder};
use arrow::datatypes::{DataType, Field};

use crate::draws::Draws;
use crate::place::push_formatted;
use crate::words::{COLORS, CONTAINER_WORDS, TYPE_WORDS};

pub(crate) fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    vec![
        Field::new("p_partkey", DataType::Int32, false),
        text("p_name"),
        text("p_mfgr"),
        text("p_category"),
        text("p_brand1"),
        text("p_color"),
        text("p_type"),
        Field::new("p_size", DataType::Int32, false),
        text("p_container"),
    ]
}

/// The retail price of a part in hundredths, as in TPC-H: it follows from the key, so that lines need no look-up.
pub(crate) fn price_cents(part_key: i32) -> i32 {
    90_000 + (part_key / 10) % 20_001 + 100 * (part_key % 1_000)
}

/// Rows `rows`, counted from 0; their keys from 1. `draws_key` is this table's.
pub(crate) fn columns(draws_key: u64, rows: std::ops::Range<u64>) -> Vec<ArrayRef> {
    let row_count = (rows.end - rows.start) as usize;
    let text = |width_bytes: usize| StringBuilder::with_capacity(row_count, row_count * width_bytes);
    let (mut names, mut makers, mut categories, mut brands) = (text(13), text(6), text(7), text(9));
    let (mut colors, mut types, mut containers) = (text(6), text(21), text(9));
    let mut sizes = Vec::with_capacity(row_count);
    for index in rows.clone() {
        let mut draws = Draws::of_row(draws_key, index);
        // The first of three different colors is the part's, the others are its name.
        let color = draws.below(92);
        let first = (color + 1 + draws.below(91)) % 92;
        let mut second = draws.below(90);
        for taken in [color.min(first), color.max(first)] {
            second += u64::from(second >= taken);
        }
        colors.append_value(COLORS[color as usize]);
        push_formatted(&mut names, format_args!("{} {}", COLORS[first as usize], COLORS[second as usize]));

        let (maker, category, brand) = (draws.between(1, 5), draws.between(1, 5), draws.between(1, 40));
        push_formatted(&mut makers, format_args!("MFGR#{maker}"));
        push_formatted(&mut categories, format_args!("MFGR#{maker}{category}"));
        push_formatted(&mut brands, format_args!("MFGR#{maker}{category}{brand}"));

        let (size_word, finish, metal) =
            (draws.pick(&TYPE_WORDS.0), draws.pick(&TYPE_WORDS.1), draws.pick(&TYPE_WORDS.2));
        push_formatted(&mut types, format_args!("{size_word} {finish} {metal}"));
        sizes.push(draws.between(1, 50));
        let (size_word, kind) = (draws.pick(&CONTAINER_WORDS.0), draws.pick(&CONTAINER_WORDS.1));
        push_formatted(&mut containers, format_args!("{size_word} {kind}"));
    }
    vec![
        Arc::new(Int32Array::from_iter_values(rows.map(|index| index as i32 + 1))),
        Arc::new(names.finish()),
        Arc::new(makers.finish()),
        Arc::new(categories.finish()),
        Arc::new(brands.finish()),
        Arc::new(colors.finish()),
        Arc::new(types.finish()),
        Arc::new(Int32Array::from(sizes)),
        Arc::new(containers.finish()),
    ]
}
