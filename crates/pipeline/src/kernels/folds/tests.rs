use thermocline_column_store::MINI_BLOCK_VALUES;
use thermocline_seeded::Random;

use super::*;
use crate::ordinal;

/// Compares each fold of each instruction set with a loop over the values, which are told one by one.
fn check(words: Words<'_>, word: &[u64; MINI_BLOCK_VALUES], random: &mut Random, seed: u64) {
    for density in 0..5 {
        let selected: Mask = std::array::from_fn(|_| match density {
            0 => 0,
            1 => random.next_u64() & random.next_u64() & random.next_u64() & random.next_u64(),
            2 => random.next_u64(),
            3 if random.one_in(2) => 0,
            _ => u64::MAX,
        });
        let anywhere = random.next_u64() as i64;
        let base = *random.pick(&[0, 1000, -70_000, i64::MIN, i64::MAX - 300, anywhere]);
        let values: Vec<i64> = (0..MINI_BLOCK_VALUES)
            .filter(|at| selected[at / 64] >> (at % 64) & 1 != 0)
            .map(|at| base.wrapping_add(word[at] as i64))
            .collect();
        for set in InstructionSet::available() {
            let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
            assert_eq!(set.sum(words, base, &selected), sum, "{set:?}, seed {seed}, base {base}");
            for (extreme, expected) in [(Extreme::Least, values.iter().min()), (Extreme::Greatest, values.iter().max())]
            {
                let found = set.extreme(extreme, words, base, &selected);
                assert_eq!(found, expected.copied(), "{set:?}, seed {seed}, base {base}, {extreme:?}");
            }
        }
    }
}

#[test]
fn every_instruction_set_folds_the_selected_values() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mask = u64::MAX >> random.below(64);
        let near_the_end = random.one_in(3);
        let words: [u64; MINI_BLOCK_VALUES] = std::array::from_fn(|_| {
            let word = random.next_u64() & mask;
            if near_the_end { !word } else { word }
        });
        let wide = |limit: u64| words.map(|word| word & limit);
        check(Words::Zeros, &[0; MINI_BLOCK_VALUES], &mut random, seed);
        check(Words::U8(&words.map(|word| word as u8)), &wide(u8::MAX.into()), &mut random, seed);
        check(Words::U16(&words.map(|word| word as u16)), &wide(u16::MAX.into()), &mut random, seed);
        check(Words::U32(&words.map(|word| word as u32)), &wide(u32::MAX.into()), &mut random, seed);
        check(Words::U64(&words), &words, &mut random, seed);
    }
}

#[test]
fn every_instruction_set_sums_the_selected_floats_and_no_others() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let selected: Mask = std::array::from_fn(|_| if random.one_in(4) { u64::MAX } else { random.next_u64() });
        let is_selected = |at: usize| selected[at / 64] >> (at % 64) & 1 != 0;
        // Sums of these are exact in any order; what is not selected would be seen.
        let floats: [f64; MINI_BLOCK_VALUES] = std::array::from_fn(|at| match is_selected(at) {
            true if random.one_in(9) => -0.0,
            true => random.below(4000) as f64 / 8.0 - 250.0,
            false if random.one_in(2) => f64::NAN,
            false => f64::INFINITY,
        });
        let expected: f64 = (0..MINI_BLOCK_VALUES).filter(|at| is_selected(*at)).map(|at| floats[at]).sum();
        let base = *random.pick(&[0, 12_345]);
        let words = floats.map(|float| ordinal::of_float(float).wrapping_sub(base) as u64);
        for set in InstructionSet::available() {
            assert_eq!(set.sum_of_floats(Words::U64(&words), base, &selected), expected, "{set:?}, seed {seed}");
        }
    }
}
