//! Where a customer or supplier is: address, city, nation, region, telephone.

use arrow::array::{ArrayRef, StringBuilder};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::draws::Draws;
use crate::words::NATIONS;

/// Letters of an address: 64, so that six random bits choose one.
const ADDRESS_LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";

/// Shortest and longest address: 0.4 and 1.6 times 15 letters.
const ADDRESS_LENGTHS: (i32, i32) = (6, 24);

/// Columns of places, row by row.
pub(crate) struct PlaceColumns {
    address: StringBuilder,
    city: StringBuilder,
    nation: StringBuilder,
    region: StringBuilder,
    phone: StringBuilder,
}

impl PlaceColumns {
    pub(crate) fn with_capacity(row_count: usize) -> Self {
        let column = |width_bytes: usize| StringBuilder::with_capacity(row_count, row_count * width_bytes);
        Self { address: column(16), city: column(10), nation: column(8), region: column(7), phone: column(15) }
    }

    /// Draws one more place.
    pub(crate) fn push(&mut self, draws: &mut Draws) {
        self.push_address(draws);
        let nation_number = draws.below(NATIONS.len() as u64);
        let (nation, region) = NATIONS[nation_number as usize];
        push_formatted(&mut self.city, format_args!("{nation:<9.9}{}", draws.below(10)));
        self.nation.append_value(nation);
        self.region.append_value(region);
        let (area, exchange, line) = (draws.between(100, 999), draws.between(100, 999), draws.between(1000, 9999));
        push_formatted(&mut self.phone, format_args!("{}-{area}-{exchange}-{line}", 10 + nation_number));
    }

    fn push_address(&mut self, draws: &mut Draws) {
        let mut bits = 0;
        let mut letters = [0; ADDRESS_LENGTHS.1 as usize];
        let letters = &mut letters[..draws.between(ADDRESS_LENGTHS.0, ADDRESS_LENGTHS.1) as usize];
        for (index, letter) in letters.iter_mut().enumerate() {
            if index % 10 == 0 {
                bits = draws.below(1 << 60);
            }
            *letter = ADDRESS_LETTERS[(bits & 63) as usize];
            bits >>= 6;
        }
        self.address.append_value(str::from_utf8(letters).expect("the letters of an address are ASCII"));
    }

    /// Address, city, nation, region and phone.
    pub(crate) fn finish(mut self) -> [ArrayRef; 5] {
        [&mut self.address, &mut self.city, &mut self.nation, &mut self.region, &mut self.phone]
            .map(|column| Arc::new(column.finish()) as ArrayRef)
    }
}

/// Appends one value without making a string of it first.
pub(crate) fn push_formatted(column: &mut StringBuilder, text: std::fmt::Arguments<'_>) {
    column.write_fmt(text).expect("a builder takes all text");
    column.append_value("");
}
