//! Loops over the 1,024 values of a mini-block, as they are packed or unpacked, in several instruction sets.
//!
//! **Owns**: which values lie in a range or a set, as a [`Mask`]; sums and extremes (`folds`); arithmetic on whole
//! mini-blocks ([`arithmetic`]); the choice of the instruction set, made at run time.
//!
//! **Does not own**: what ranges and sets mean, unpacking (`column-store`).
//!
//! **Invariants**: whatever the instruction set, the answer is that of `scalar`, the reference beside it, bit by bit, but
//! for sums of floats, which are added in another order and so rounded otherwise; tests compare them on random values of
//! each width, floats on those that are added exactly. Values are unsigned words here, as they are packed: less the base
//! of their mini-block.
//!
//! **Concurrency**: plain functions.

pub(crate) mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod folds;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod permutation;
#[cfg(target_arch = "x86_64")]
mod places;
#[cfg(target_arch = "x86_64")]
mod population;
mod prefetch;
mod runs;
mod scalar;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod windows;

pub(crate) use arithmetic::Values;
pub(crate) use folds::Extreme;
pub(crate) use prefetch::prefetch_value;
pub(crate) use runs::{RunStarts, run_of};
use thermocline_column_store::MINI_BLOCK_VALUES;
pub(crate) use windows::{WINDOW, first_equal};

/// 64-bit words of a mask.
pub(crate) const MASK_WORDS: usize = MINI_BLOCK_VALUES / 64;

/// A bit for each value of a mini-block, the first lowest.
pub(crate) type Mask = [u64; MASK_WORDS];

/// A mask with the lowest `count` bits.
#[inline]
pub(crate) fn first(count: usize) -> Mask {
    if count >= MINI_BLOCK_VALUES {
        return [u64::MAX; MASK_WORDS];
    }
    std::array::from_fn(|word| match count.saturating_sub(word * 64) {
        0 => 0,
        left @ 1..=63 => (1 << left) - 1,
        _ => u64::MAX,
    })
}

/// How many bits are set.
pub(crate) fn count(mask: &Mask) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = population::Population::detect() {
        return proof.count(mask);
    }
    scalar::count(mask)
}

/// Drops the bits that `other` has not, of a mask or its first words; how many are left.
pub(crate) fn intersect(mask: &mut [u64], other: &Mask) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = population::Population::detect() {
        return proof.intersect(mask, other);
    }
    scalar::intersect(mask, other)
}

/// Places that are written at once, wanted or not.
pub(crate) const PLACES_AT_ONCE: usize = 16;

/// Writes the places of the set bits, in order; how many. There must be room for [`PLACES_AT_ONCE`] more.
pub(crate) fn places(mask: &Mask, places: &mut [u16]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = places::Compression::detect() {
        return proof.places(mask, places);
    }
    scalar::places(mask, places)
}

/// What a place has for a rank whose bit is not set.
pub(crate) const NO_RANK: u32 = u32::MAX;

/// Appends for each place how many bits are set before it, if the bit at it is, else [`NO_RANK`]. `before` has for each
/// word of `bits` how many are set in the words before it.
pub(crate) fn ranks(places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = population::Population::detect() {
        return proof.ranks(places, bits, before, ranks);
    }
    scalar::ranks(places, bits, before, ranks);
}

/// Writes how far values, at most a mini-block's, are from a base that it gives back, in 32 bits each; `None` if they are
/// too far apart.
pub(crate) fn narrow(values: &[i64], words: &mut [u32; MINI_BLOCK_VALUES]) -> Option<i64> {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = avx2::Avx2::detect() {
        return proof.narrow(values, words);
    }
    scalar::narrow(values, words)
}

/// Most words of a set that are looked into by gathers, whose signed 32-bit indices reach no further.
const MAX_GATHERED_WORDS: usize = (1 << 24) - 1;

/// The 32-bit words whose places, `shift` added modulo 2^64, are within `bits`: the least, and how many are above it.
#[cfg(target_arch = "x86_64")]
fn reach(shift: u64, bits: &[u64]) -> Option<(u32, u32)> {
    // A shift that 64 bits hold is a signed one.
    let shift = i128::from(shift as i64);
    let low = (-shift).max(0);
    let high = (bits.len() as i128 * 64 - 1 - shift).min(u32::MAX.into());
    (low <= high).then_some((low as u32, (high - low) as u32))
}

/// The words of a mini-block, in the smallest size that holds them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Words<'a> {
    /// All are 0.
    Zeros,
    U8(&'a [u8; MINI_BLOCK_VALUES]),
    U16(&'a [u16; MINI_BLOCK_VALUES]),
    U32(&'a [u32; MINI_BLOCK_VALUES]),
    U64(&'a [u64; MINI_BLOCK_VALUES]),
}

impl Words<'_> {
    /// Appends the words at some places, each with `base` added.
    pub(crate) fn append_to(self, values: &mut Vec<i64>, base: i64, places: &[u16]) {
        macro_rules! extend {
            ($words:expr) => {
                values.extend(
                    places.iter().map(|at| base.wrapping_add($words[usize::from(*at) % MINI_BLOCK_VALUES] as i64)),
                )
            };
        }
        match self {
            Self::Zeros => values.extend(places.iter().map(|_| base)),
            Self::U8(words) => extend!(words),
            Self::U16(words) => extend!(words),
            Self::U32(words) => extend!(words),
            Self::U64(words) => extend!(words),
        }
    }

    /// The greatest that a word can be.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Self::Zeros => 0,
            Self::U8(_) => u8::MAX.into(),
            Self::U16(_) => u16::MAX.into(),
            Self::U32(_) => u32::MAX.into(),
            Self::U64(_) => u64::MAX,
        }
    }
}

/// An instruction set that this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSet(Choice);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl InstructionSet {
    /// The widest one.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::scalar())
    }

    /// No vector instructions but those that the compiler uses by itself: the reference.
    pub fn scalar() -> Self {
        Self(Choice::Scalar)
    }

    /// All of this processor, widest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_mut))]
        let mut available = vec![Self::scalar()];
        #[cfg(target_arch = "x86_64")]
        {
            available.extend(avx2::Avx2::detect().map(|proof| Self(Choice::Avx2(proof))));
            available.extend(avx512::Avx512::detect().map(|proof| Self(Choice::Avx512(proof))));
        }
        #[cfg(target_arch = "aarch64")]
        available.extend(neon::Neon::detect().map(|proof| Self(Choice::Neon(proof))));
        available
    }

    /// Up to so many rows of a mini-block it takes no longer to look one after the other into a set than all values.
    pub(crate) fn sparse_set_rows(self) -> usize {
        match self.0 {
            Choice::Scalar => MINI_BLOCK_VALUES / 2,
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2(_) => 400,
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512(_) => 64,
            #[cfg(target_arch = "aarch64")]
            Choice::Neon(_) => MINI_BLOCK_VALUES / 2,
        }
    }

    /// Puts the bits of `found`, lowest first, in the place of the selected ones, which are at most 64.
    pub(crate) fn spread(self, found: u64, selected: &mut [u64]) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512(proof) => proof.spread(found, selected),
            _ => scalar::spread(found, selected),
        }
    }

    /// A bit for each row of a mini-block: whether its run is found, of which `found` has a bit for each, lowest first.
    pub(crate) fn rows_of_runs(self, found: &Mask, starts: &RunStarts) -> Mask {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512(proof) => proof.rows_of_runs(found, starts),
            _ => scalar::rows_of_runs(found, starts.mask()),
        }
    }

    /// Drops the bits of `mask` whose words are not `low` to `low + span`; how many are left. Both ends must be at most the
    /// words' limit; `low + span` may wrap around in 64 bits, and then the range goes over the end. Of a mask's first
    /// words alone where there are no others.
    // Masks are changed where they lie: to read as vectors what was just written word by word takes as long as the rest.
    pub(crate) fn retain_in_range(self, words: Words<'_>, low: u64, span: u64, mask: &mut [u64]) -> usize {
        macro_rules! dispatch {
            ($words:expr, $word:ty, $name:ident, $retain:ident) => {{
                let (low, span) = (low as $word, span as $word);
                match self.0 {
                    Choice::Scalar => intersect(mask, &scalar::in_range($words, low, span)),
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx2(proof) => intersect(mask, &proof.$name($words, low, span)),
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx512(proof) => proof.$retain($words, low, span, mask),
                    #[cfg(target_arch = "aarch64")]
                    Choice::Neon(proof) => intersect(mask, &proof.$name($words, low, span)),
                }
            }};
        }
        match words {
            Words::Zeros if 0u64.wrapping_sub(low) <= span => intersect(mask, &[u64::MAX; MASK_WORDS]),
            Words::Zeros => {
                mask.fill(0);
                0
            }
            Words::U8(words) => dispatch!(words, u8, in_range_u8, retain_in_range_u8),
            Words::U16(words) => dispatch!(words, u16, in_range_u16, retain_in_range_u16),
            Words::U32(words) => dispatch!(words, u32, in_range_u32, retain_in_range_u32),
            Words::U64(words) => dispatch!(words, u64, in_range_u64, retain_in_range_u64),
        }
    }

    /// As [`InstructionSet::in_set`], of the selected words; what it says of others means nothing. Cheaper where fewer
    /// are selected, if the instruction set has something for it.
    pub(crate) fn in_set_of(self, words: Words<'_>, selected: &Mask, shift: u64, bits: &[u64]) -> Mask {
        #[cfg(target_arch = "x86_64")]
        if let (Choice::Avx512(proof), true) = (self.0, bits.len() <= MAX_GATHERED_WORDS) {
            if let Some(found) = proof.permuted(words, Some(selected), MASK_WORDS, shift, bits) {
                return found;
            }
            match words {
                Words::U8(words) => return proof.in_set_of_u8(words, selected, shift, bits),
                Words::U16(words) => return proof.in_set_of_u16(words, selected, shift, bits),
                Words::U32(words) => return proof.in_set_of_u32(words, selected, shift, bits),
                Words::Zeros | Words::U64(_) => {}
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = selected;
        self.in_set(words, MASK_WORDS, shift, bits)
    }

    /// Which words, `shift` added modulo 2^64, are the places of set bits. Bits past the end of `bits` are not set. What is
    /// said beyond the mask's first `word_count` words means nothing.
    pub(crate) fn in_set(self, words: Words<'_>, word_count: usize, shift: u64, bits: &[u64]) -> Mask {
        let choice = if bits.len() <= MAX_GATHERED_WORDS { self.0 } else { Choice::Scalar };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = word_count;
        #[cfg(target_arch = "x86_64")]
        if let Choice::Avx512(proof) = choice
            && let Some(found) = proof.permuted(words, None, word_count, shift, bits)
        {
            return found;
        }
        macro_rules! dispatch {
            ($words:expr, $narrow_or_wide:ident, $name:ident) => {
                match choice {
                    Choice::Scalar => scalar::in_set($words, shift, bits),
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx2(proof) => proof.$narrow_or_wide($words, shift, bits),
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx512(proof) => proof.$name($words, word_count, shift, bits),
                    #[cfg(target_arch = "aarch64")]
                    Choice::Neon(_) => scalar::in_set($words, shift, bits),
                }
            };
        }
        match words {
            Words::Zeros if scalar::is_set(bits, shift) => [u64::MAX; MASK_WORDS],
            Words::Zeros => [0; MASK_WORDS],
            Words::U8(words) => dispatch!(words, in_set_narrow, in_set_u8),
            Words::U16(words) => dispatch!(words, in_set_narrow, in_set_u16),
            Words::U32(words) => dispatch!(words, in_set_u32, in_set_u32),
            Words::U64(words) => scalar::in_set(words, shift, bits),
        }
    }
}
