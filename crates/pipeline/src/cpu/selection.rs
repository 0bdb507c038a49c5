//! The rows of a mini-block that have survived so far.

use arrow::buffer::BooleanBuffer;
use thermocline_column_store::MINI_BLOCK_VALUES;

use crate::kernels::{MASK_WORDS, Mask, PLACES_AT_ONCE, count, first, intersect, places};

/// The room that so many rows take as places.
pub(super) const fn room_for(row_count: usize) -> usize {
    row_count + PLACES_AT_ONCE
}

/// Room for the places of all rows of a mini-block.
pub(super) type RowPlaces = [u16; room_for(MINI_BLOCK_VALUES)];

/// The places of all rows of a mini-block, or of all rows that wait.
pub(super) static PLACES: [u16; MINI_BLOCK_VALUES] = {
    let mut places = [0; MINI_BLOCK_VALUES];
    let mut at = 0;
    while at < MINI_BLOCK_VALUES {
        places[at] = at as u16;
        at += 1;
    }
    places
};

/// A bit for each row, and how many are set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    mask: Mask,
    count: usize,
}

impl Selection {
    /// The first `row_count` rows.
    pub(super) fn all(row_count: usize) -> Self {
        Self { mask: first(row_count), count: row_count }
    }

    /// Of the `row_count` rows from `start` on, a mini-block's, those that are `selected`, or all.
    pub(super) fn of_block(start: usize, row_count: usize, selected: Option<&BooleanBuffer>) -> Self {
        let Some(selected) = selected else { return Self::all(row_count) };
        let mut mask = [0; MASK_WORDS];
        for (word, bits) in mask.iter_mut().zip(selected.slice(start, row_count).bit_chunks().iter_padded()) {
            *word = bits;
        }
        Self::of(mask)
    }

    pub(super) fn of(mask: Mask) -> Self {
        Self { mask, count: count(&mask) }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Drops the rows that `mask` has not.
    pub(super) fn intersect(&mut self, mask: &Mask) {
        self.count = intersect(&mut self.mask, mask);
    }

    /// Drops rows by what takes bits out of the mask, and tells how many are left. It is given the words in which there
    /// are some.
    pub(super) fn drop_by(&mut self, take_out: impl FnOnce(&mut [u64]) -> usize) {
        let word_count = self.word_count();
        self.count = take_out(&mut self.mask[..word_count]);
    }

    /// In how many words of the mask there are rows, up to the last one.
    pub(super) fn word_count(&self) -> usize {
        MASK_WORDS - self.mask.iter().rev().take_while(|word| **word == 0).count()
    }

    /// Drops all rows.
    pub(super) fn clear(&mut self) {
        *self = Self { mask: [0; MASK_WORDS], count: 0 };
    }

    /// The rows of this selection that `mask` has too.
    pub(super) fn and(&self, mask: &Mask) -> Self {
        Self::of(std::array::from_fn(|word| self.mask[word] & mask[word]))
    }

    /// The rows of this selection that `mask` has not.
    pub(super) fn and_not(&self, mask: &Mask) -> Self {
        Self::of(std::array::from_fn(|word| self.mask[word] & !mask[word]))
    }

    /// The rows of this selection that are not in the other.
    pub(super) fn without(&self, other: &Self) -> Self {
        self.and_not(&other.mask)
    }

    /// A bit for each row.
    pub(super) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The rows of both.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self::of(std::array::from_fn(|word| self.mask[word] | other.mask[word]))
    }

    /// The rows' places in the mini-block, in order, as the first of `rows`, which must have room for them
    /// ([`room_for`]).
    pub(super) fn rows<'a, const N: usize>(&self, rows: &'a mut [u16; N]) -> &'a [u16] {
        debug_assert!(room_for(self.count) <= N, "{} rows in room for {N}", self.count);
        if self.are_first() {
            rows[..self.count].copy_from_slice(&PLACES[..self.count]);
            return &rows[..self.count];
        }
        places(&self.mask, rows);
        &rows[..self.count]
    }

    /// Whether no row that is not selected comes before one that is. One look at where the last one would be is mostly
    /// enough.
    fn are_first(&self) -> bool {
        let Some(last) = self.count.checked_sub(1) else { return true };
        self.mask[last / 64] >> (last % 64) & 1 != 0 && self.mask == first(self.count)
    }

    /// The rows that pass `test`, which is given their place and is called in order.
    #[inline(always)]
    pub(super) fn retained(&self, test: impl FnMut(usize) -> bool) -> Self {
        let mut selection = *self;
        selection.retain(test);
        selection
    }

    /// Drops the rows that do not pass `test`, which is given their place and is called in order.
    #[inline(always)]
    pub(super) fn retain(&mut self, mut test: impl FnMut(usize) -> bool) {
        for (at, word) in self.mask.iter_mut().enumerate() {
            let mut left = *word;
            // Gathered in a register: whether a row passes is not to be predicted.
            let mut kept = 0;
            while left != 0 {
                let place = left.trailing_zeros();
                kept |= u64::from(test(at * 64 + place as usize)) << place;
                left &= left - 1;
            }
            *word = kept;
        }
        self.count = count(&self.mask);
    }
}
