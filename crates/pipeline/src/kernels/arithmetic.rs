//! Arithmetic on all 1,024 values of a mini-block, in 64 bits and modulo 2^64.
//!
//! **Owns**: the loops, compiled for wider registers too; the choice, made at run time. **Does not own**: whether a
//! result fits 64 bits.
//!
//! **Concurrency**: plain functions.
#![allow(unsafe_code)]

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::Words;

/// A mini-block's values, numbers with a sign by their bits.
pub(crate) type Values = [u64; MINI_BLOCK_VALUES];

mod plain {
    use super::{Values, Words};

    #[inline(always)]
    pub(super) fn widen(words: Words<'_>, base: u64, values: &mut Values) {
        macro_rules! each {
            ($words:expr) => {
                values.iter_mut().zip($words).for_each(|(value, word)| *value = base.wrapping_add(u64::from(*word)))
            };
        }
        match words {
            Words::Zeros => values.fill(base),
            Words::U8(words) => each!(words),
            Words::U16(words) => each!(words),
            Words::U32(words) => each!(words),
            Words::U64(words) => each!(words),
        }
    }

    #[inline(always)]
    pub(super) fn add(left: &mut Values, right: &Values) {
        left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_add(*right));
    }

    #[inline(always)]
    pub(super) fn subtract(left: &mut Values, right: &Values) {
        left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_sub(*right));
    }

    #[inline(always)]
    pub(super) fn multiply(left: &mut Values, right: &Values) {
        left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_mul(*right));
    }

    #[inline(always)]
    pub(super) fn scale(values: &mut Values, factor: u64) {
        values.iter_mut().for_each(|value| *value = value.wrapping_mul(factor));
    }
}

/// The loop of the same name, for the registers that there are.
macro_rules! for_registers {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
                fn avx512($($argument: $type),*) {
                    plain::$name($($argument),*);
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) {
                    plain::$name($($argument),*);
                }
                let has_vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
                if has_vectors && is_x86_feature_detected!("avx512dq") {
                    // SAFETY: the processor has these instructions.
                    return unsafe { avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain::$name($($argument),*);
        }
    };
}

for_registers! {
    /// What `base` plus each word is.
    widen(words: Words<'_>, base: u64, values: &mut Values)
}
for_registers! {
    /// Adds the values at the same places.
    add(left: &mut Values, right: &Values)
}
for_registers! {
    /// Subtracts the values at the same places.
    subtract(left: &mut Values, right: &Values)
}
for_registers! {
    /// Multiplies by the values at the same places.
    multiply(left: &mut Values, right: &Values)
}
for_registers! {
    /// Multiplies all by the same.
    scale(values: &mut Values, factor: u64)
}

#[cfg(test)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn whatever_the_registers_results_are_those_of_single_values() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mask = u64::MAX >> random.below(64);
            let mut numbers = || -> Values { std::array::from_fn(|_| random.next_u64() & mask) };
            let (left, right, base) = (numbers(), numbers(), numbers()[0]);
            let applied = |apply: fn(&mut Values, &Values)| {
                let mut values = left;
                apply(&mut values, &right);
                values
            };
            let expected = |of: fn(u64, u64) -> u64| -> Values { std::array::from_fn(|at| of(left[at], right[at])) };
            assert_eq!(applied(add), expected(u64::wrapping_add), "seed {seed}");
            assert_eq!(applied(subtract), expected(u64::wrapping_sub), "seed {seed}");
            assert_eq!(applied(multiply), expected(u64::wrapping_mul), "seed {seed}");
            assert_eq!(applied(|values, right| scale(values, right[7])), left.map(|left| left.wrapping_mul(right[7])));
            let widened = |words: Words<'_>| {
                let mut values = [1; MINI_BLOCK_VALUES];
                widen(words, base, &mut values);
                values
            };
            assert_eq!(widened(Words::Zeros), [base; MINI_BLOCK_VALUES]);
            macro_rules! check {
                ($word:ty, $of:expr) => {
                    let words = left.map(|value| value as $word);
                    assert_eq!(widened($of(&words)), words.map(|word| base.wrapping_add(word.into())), "seed {seed}");
                };
            }
            check!(u8, Words::U8);
            check!(u16, Words::U16);
            check!(u32, Words::U32);
            check!(u64, Words::U64);
        }
    }
}
