//! The reference: plain loops, for every processor.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::{MASK_WORDS, Mask, NO_RANK};

/// A word that values are compared in.
pub(super) trait Unsigned: Copy + Ord + Into<u64> {
    fn less(self, other: Self) -> Self;
}

macro_rules! unsigned {
    ($($word:ty),*) => {
        $(impl Unsigned for $word {
            #[inline(always)]
            fn less(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        })*
    };
}

unsigned!(u8, u16, u32, u64);

/// A bit for each word by `test`.
#[inline(always)]
fn mask_of<W: Copy>(words: &[W; MINI_BLOCK_VALUES], test: impl Fn(W) -> bool) -> Mask {
    let mut mask = [0; MASK_WORDS];
    let (groups, _) = words.as_chunks::<64>();
    for (bits, group) in mask.iter_mut().zip(groups) {
        for (at, word) in group.iter().enumerate() {
            *bits |= u64::from(test(*word)) << at;
        }
    }
    mask
}

/// How many bits are set.
#[inline(always)]
pub(super) fn count(mask: &Mask) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// Places that are written at once.
const PLACES_AT_ONCE: usize = 4;

/// Writes the places of the set bits, in order; how many.
#[inline(always)]
pub(super) fn places(mask: &Mask, places: &mut [u16]) -> usize {
    let mut end = 0;
    for (at, word) in mask.iter().enumerate() {
        let (mut left, mut next) = (*word, end);
        end += word.count_ones() as usize;
        // Several at once, wanted or not, even of no bit at all: so the number of turns is mostly one, and foreseen.
        loop {
            for place in &mut places[next..next + PLACES_AT_ONCE] {
                *place = (at * 64) as u16 + left.trailing_zeros() as u16;
                left &= left.wrapping_sub(1);
            }
            next += PLACES_AT_ONCE;
            if next >= end {
                break;
            }
        }
    }
    end
}

/// Drops the bits that `other` has not; how many are left.
#[inline(always)]
pub(super) fn intersect(mask: &mut [u64], other: &Mask) -> usize {
    let mut count = 0;
    for (word, other) in mask.iter_mut().zip(other) {
        *word &= other;
        count += word.count_ones() as usize;
    }
    count
}

/// Puts the bits of `found`, lowest first, in the place of the selected ones.
pub(super) fn spread(mut found: u64, selected: &mut [u64]) {
    for word in selected {
        let mut left = std::mem::take(word);
        while left != 0 {
            *word |= (found & 1) << left.trailing_zeros();
            found >>= 1;
            left &= left - 1;
        }
    }
}

/// A bit for each row whose run is found.
pub(super) fn rows_of_runs(found: &Mask, starts: &Mask) -> Mask {
    let (mut run, mut is_found) = (0, 0);
    let mut rows = [0; MASK_WORDS];
    for (word, starts) in rows.iter_mut().zip(starts) {
        for at in 0..64 {
            if starts >> at & 1 != 0 {
                is_found = found[run / 64] >> (run % 64) & 1;
                run += 1;
            }
            *word |= is_found << at;
        }
    }
    rows
}

/// For each place how many bits are set before it, if the bit at it is, else [`NO_RANK`]; `before` has for each word of
/// `bits` how many are set in the words before it.
#[inline(always)]
pub(super) fn ranks(places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
    ranks.extend(places.iter().map(|place| {
        let (at, place) = ((place >> 6) as usize, place & 63);
        let (Some(word), Some(before)) = (bits.get(at), before.get(at)) else { return NO_RANK };
        let rank = before + (word & ((1 << place) - 1)).count_ones();
        if word >> place & 1 != 0 { rank } else { NO_RANK }
    }));
}

/// Writes how far values are from a base, in 32 bits each; `None` if they are too far apart. Further words mean nothing.
#[inline(always)]
pub(super) fn narrow(values: &[i64], words: &mut [u32; MINI_BLOCK_VALUES]) -> Option<i64> {
    // The first value in the middle of what 32 bits reach, none of which may be past the end of 64.
    let base = values.first()?.checked_sub(1 << 31)?;
    base.checked_add(u32::MAX.into())?;
    let mut far = 0;
    for (word, value) in words.iter_mut().zip(values) {
        let distance = value.wrapping_sub(base) as u64;
        far |= distance;
        *word = distance as u32;
    }
    (far >> 32 == 0).then_some(base)
}

/// Which words are `low` to `low + span`, modulo the word.
pub(super) fn in_range<W: Unsigned>(words: &[W; MINI_BLOCK_VALUES], low: W, span: W) -> Mask {
    mask_of(words, |word| word.less(low) <= span)
}

/// Whether a bit is there and set.
#[inline(always)]
pub(super) fn is_set(bits: &[u64], place: u64) -> bool {
    bits.get((place >> 6) as usize).is_some_and(|word| word >> (place & 63) & 1 != 0)
}

/// Which words, shifted, are places of set bits.
pub(super) fn in_set<W: Unsigned>(words: &[W; MINI_BLOCK_VALUES], shift: u64, bits: &[u64]) -> Mask {
    mask_of(words, |word| is_set(bits, shift.wrapping_add(word.into())))
}
