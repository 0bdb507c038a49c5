//! The reference: plain loops, for every processor. Words of which all 64 are selected are folded without a look at
//! the mask, in loops that compilers make vectors of.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::Extreme;
use crate::kernels::Mask;
use crate::ordinal;

/// Gives `take` the selected words, in order.
#[inline(always)]
fn each<W: Copy>(words: &[W; MINI_BLOCK_VALUES], selected: &Mask, mut take: impl FnMut(W)) {
    let (groups, _) = words.as_chunks::<64>();
    for (group, selected) in groups.iter().zip(selected) {
        if *selected == u64::MAX {
            group.iter().for_each(|word| take(*word));
            continue;
        }
        let mut left = *selected;
        while left != 0 {
            take(group[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
    }
}

#[inline(always)]
fn value<W: Into<u64>>(base: i64, word: W) -> i64 {
    base.wrapping_add(word.into() as i64)
}

/// The sum of words of at most 32 bits.
pub(super) fn sum_of_words<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], selected: &Mask) -> u64 {
    let mut sum = 0;
    each(words, selected, |word| sum += word.into());
    sum
}

pub(super) fn sum<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> i128 {
    let mut sum = 0;
    each(words, selected, |word| sum += i128::from(value(base, word)));
    sum
}

pub(super) fn sum_of_floats<W: Copy + Into<u64>>(words: &[W; MINI_BLOCK_VALUES], base: i64, selected: &Mask) -> f64 {
    let mut sum = 0.0;
    each(words, selected, |word| sum += ordinal::to_float(value(base, word)));
    sum
}

/// The end of the order if none is selected.
pub(super) fn extreme<W: Copy + Into<u64>>(
    extreme: Extreme,
    words: &[W; MINI_BLOCK_VALUES],
    base: i64,
    selected: &Mask,
) -> i64 {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    match extreme {
        Extreme::Least => {
            each(words, selected, |word| least = least.min(value(base, word)));
            least
        }
        Extreme::Greatest => {
            each(words, selected, |word| greatest = greatest.max(value(base, word)));
            greatest
        }
    }
}
