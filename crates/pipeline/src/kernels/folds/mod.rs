//! Sums and extremes of the selected values of a mini-block, as its words lie there: no value is copied first.
//!
//! **Owns**: which kernel folds which words; the choice of the instruction set. **Does not own**: which values are
//! selected, NULLs (they are not), what a sum means in its type.
//!
//! **Invariants**: the value of a word is what a base plus the word is modulo 2^64, as a signed number. Sums of whole
//! numbers are exact. Where the base plus the greatest word could go over the end, values are folded one by one in 64
//! bits.
//!
//! **Concurrency**: plain functions.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

#[cfg(target_arch = "x86_64")]
use super::Choice;
use super::{InstructionSet, Mask, Words, count};

/// Which end of the order is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extreme {
    Least,
    Greatest,
}

/// Whether the base plus a word may be past the end of 64 bits with a sign.
fn may_wrap(words: Words<'_>, base: i64) -> bool {
    base.checked_add_unsigned(words.limit()).is_none()
}

impl InstructionSet {
    /// The sum of the selected values, exact.
    pub(crate) fn sum(self, words: Words<'_>, base: i64, selected: &Mask) -> i128 {
        macro_rules! of_words {
            ($words:expr, $name:ident) => {
                match self.0 {
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx512(proof) if !may_wrap(words, base) => proof.$name($words, selected),
                    _ if !may_wrap(words, base) => scalar::sum_of_words($words, selected),
                    _ => return scalar::sum($words, base, selected),
                }
            };
        }
        let of_words = match words {
            Words::Zeros => 0,
            Words::U8(words) => of_words!(words, sum_u8),
            Words::U16(words) => of_words!(words, sum_u16),
            Words::U32(words) => of_words!(words, sum_u32),
            Words::U64(words) => {
                return match self.0 {
                    #[cfg(target_arch = "x86_64")]
                    Choice::Avx512(proof) => proof.sum_u64(words, base, selected),
                    _ => scalar::sum(words, base, selected),
                };
            }
        };
        i128::from(base) * count(selected) as i128 + i128::from(of_words)
    }

    /// The sum of the selected values, which are the ordinals of floats.
    pub(crate) fn sum_of_floats(self, words: Words<'_>, base: i64, selected: &Mask) -> f64 {
        macro_rules! one_by_one {
            ($words:expr) => {
                scalar::sum_of_floats($words, base, selected)
            };
        }
        match words {
            Words::Zeros => one_by_one!(&[0u8; super::MINI_BLOCK_VALUES]),
            Words::U8(words) => one_by_one!(words),
            Words::U16(words) => one_by_one!(words),
            Words::U32(words) => one_by_one!(words),
            Words::U64(words) => match self.0 {
                #[cfg(target_arch = "x86_64")]
                Choice::Avx512(proof) => proof.sum_of_floats(words, base, selected),
                _ => one_by_one!(words),
            },
        }
    }

    /// The least or the greatest of the selected values; `None` if none is selected.
    pub(crate) fn extreme(self, extreme: Extreme, words: Words<'_>, base: i64, selected: &Mask) -> Option<i64> {
        if count(selected) == 0 {
            return None;
        }
        macro_rules! of_words {
            ($words:expr, $least:ident, $greatest:ident) => {
                match (self.0, extreme) {
                    #[cfg(target_arch = "x86_64")]
                    (Choice::Avx512(proof), Extreme::Least) if !may_wrap(words, base) => {
                        base.wrapping_add_unsigned(proof.$least($words, selected).into())
                    }
                    #[cfg(target_arch = "x86_64")]
                    (Choice::Avx512(proof), Extreme::Greatest) if !may_wrap(words, base) => {
                        base.wrapping_add_unsigned(proof.$greatest($words, selected).into())
                    }
                    _ => scalar::extreme(extreme, $words, base, selected),
                }
            };
        }
        Some(match words {
            Words::Zeros => base,
            Words::U8(words) => of_words!(words, least_u8, greatest_u8),
            Words::U16(words) => of_words!(words, least_u16, greatest_u16),
            Words::U32(words) => of_words!(words, least_u32, greatest_u32),
            Words::U64(words) => match (self.0, extreme) {
                #[cfg(target_arch = "x86_64")]
                (Choice::Avx512(proof), Extreme::Least) => proof.least_u64(words, base, selected),
                #[cfg(target_arch = "x86_64")]
                (Choice::Avx512(proof), Extreme::Greatest) => proof.greatest_u64(words, base, selected),
                _ => scalar::extreme(extreme, words, base, selected),
            },
        })
    }
}
