//! The rows of a mini-block that have survived so far.

use crate::kernels::{MASK_WORDS, Mask, count, first, for_each_bit};

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

    pub(super) fn of(mask: Mask) -> Self {
        Self { mask, count: count(&mask) }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Drops the rows that `mask` has not.
    pub(super) fn intersect(&mut self, mask: &Mask) {
        self.mask.iter_mut().zip(mask).for_each(|(word, other)| *word &= other);
        self.count = count(&self.mask);
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

    /// The rows' places in the mini-block, in order, as the first of `rows`, which must be as many at least.
    pub(super) fn rows<'a, const N: usize>(&self, rows: &'a mut [u16; N]) -> &'a [u16] {
        let mut count = 0;
        for_each_bit(&self.mask, |at| {
            rows[count % N] = at as u16;
            count += 1;
        });
        &rows[..count]
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
