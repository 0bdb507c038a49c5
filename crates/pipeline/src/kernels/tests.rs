use thermocline_seeded::Random;

use super::*;

/// Word `at`, whatever its size.
fn word(words: Words<'_>, at: usize) -> u64 {
    match words {
        Words::Zeros => 0,
        Words::U8(words) => words[at].into(),
        Words::U16(words) => words[at].into(),
        Words::U32(words) => words[at].into(),
        Words::U64(words) => words[at],
    }
}

fn seeds() -> std::ops::Range<u64> {
    0..200
}

/// Compares each kernel of each instruction set with a test of one word after another.
fn check(words: Words<'_>, random: &mut Random, seed: u64) {
    let limit = words.limit();
    for _ in 0..8 {
        let within = |random: &mut Random| match random.below(4) {
            0 => word(words, random.below(MINI_BLOCK_VALUES)),
            1 => limit.saturating_sub(random.next_u64() % 3),
            2 => (random.next_u64() % 3) & limit,
            _ => random.next_u64() & limit,
        };
        let (low, span) = (within(random), within(random));
        let expected_range = mask_by(|at| word(words, at).wrapping_sub(low) & limit <= span);
        // Few and many tables of permutes, and more than these take.
        let most_words = *random.pick(&[40, 400]);
        let bits: Vec<u64> = (0..random.below(most_words)).map(|_| random.next_u64() & random.next_u64()).collect();
        let near = word(words, random.below(MINI_BLOCK_VALUES));
        let shift = match random.below(4) {
            0 => random.next_u64() % 5000,
            1 => 0u64.wrapping_sub(near),
            2 => 500u64.wrapping_sub(near),
            _ => random.next_u64(),
        };
        let is_set = |place: u64| place < bits.len() as u64 * 64 && bits[place as usize / 64] >> (place % 64) & 1 != 0;
        let density = random.below(5);
        let selected: Mask = std::array::from_fn(|_| match density {
            0 => 0,
            1 => random.next_u64() & random.next_u64() & random.next_u64() & random.next_u64(),
            2 => random.next_u64() & random.next_u64(),
            3 => random.next_u64(),
            _ => u64::MAX,
        });
        let is_selected = |at: usize| selected[at / 64] >> (at % 64) & 1 != 0;
        let expected_set = mask_by(|at| is_set(shift.wrapping_add(word(words, at))));
        for set in InstructionSet::available() {
            let mut in_range = selected;
            let left = set.retain_in_range(words, low, span, &mut in_range);
            let expected = and(&expected_range, &selected);
            assert_eq!(in_range, expected, "{set:?}, seed {seed}, {low} and {span} on");
            assert_eq!(left, scalar::count(&expected), "{set:?}, seed {seed}, {low} and {span} on");
            assert_eq!(
                set.in_set(words, MASK_WORDS, shift, &bits),
                expected_set,
                "{set:?}, seed {seed}, shift {shift}"
            );
            let word_count = random.below(MASK_WORDS + 1);
            let found = set.in_set(words, word_count, shift, &bits);
            assert_eq!(found[..word_count], expected_set[..word_count], "{set:?}, seed {seed}, shift {shift}");
            let mut first_words = selected;
            let left = set.retain_in_range(words, low, span, &mut first_words[..word_count]);
            assert_eq!(first_words[..word_count], expected[..word_count], "{set:?}, seed {seed}, {low} and {span} on");
            assert_eq!(left, expected[..word_count].iter().map(|word| word.count_ones() as usize).sum::<usize>());
            let found = set.in_set_of(words, &selected, shift, &bits);
            let expected = mask_by(|at| is_selected(at) && is_set(shift.wrapping_add(word(words, at))));
            assert_eq!(and(&found, &selected), expected, "{set:?}, seed {seed}, shift {shift}, of {selected:?}");
        }
    }
}

#[test]
fn every_instruction_set_finds_the_same_rows_of_runs() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mean = *random.pick(&[1, 2, 4, 30, 500, 5000]);
        let starts_run: Vec<bool> = (0..MINI_BLOCK_VALUES).map(|row| row == 0 || random.below(mean) == 0).collect();
        let found: Mask = std::array::from_fn(|_| random.next_u64());
        let (mut run, mut expected) = (0, [0; MASK_WORDS]);
        for row in 0..MINI_BLOCK_VALUES {
            run += usize::from(starts_run[row] && row > 0);
            expected[row / 64] |= (found[run / 64] >> (run % 64) & 1) << (row % 64);
        }
        let starts = RunStarts::new(mask_by(|row| starts_run[row]));
        let runs_of_rows: Vec<u16> = (0..MINI_BLOCK_VALUES)
            .map(|row| starts_run[..=row].iter().filter(|starts| **starts).count() as u16 - 1)
            .collect();
        let rows: Vec<u16> = (0..MINI_BLOCK_VALUES as u16).filter(|_| random.below(3) > 0).collect();
        let expected_runs: Vec<u16> = rows.iter().map(|row| runs_of_rows[usize::from(*row)]).collect();
        for find in [RunStarts::runs_of, RunStarts::each_run_of] {
            let mut runs = vec![7; rows.len() + random.below(20)];
            find(&starts, &rows, &mut runs);
            assert_eq!(runs[..rows.len()], expected_runs, "seed {seed}, runs of {mean}");
            assert!(
                rows.iter().zip(&runs).all(|(row, run)| run_of(usize::from(*row), starts.mask()) == usize::from(*run))
            );
        }
        for set in InstructionSet::available() {
            assert_eq!(set.rows_of_runs(&found, &starts), expected, "{set:?}, seed {seed}, runs of {mean}");
        }
    }
}

fn and(mask: &Mask, other: &Mask) -> Mask {
    std::array::from_fn(|word| mask[word] & other[word])
}

fn mask_by(test: impl Fn(usize) -> bool) -> Mask {
    std::array::from_fn(|word| (0..64).fold(0, |bits, at| bits | u64::from(test(word * 64 + at)) << at))
}

#[test]
fn every_instruction_set_finds_the_same_words_in_a_range_and_in_a_set() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        // Now and then few distinct ones, near the ends, or so that differences overflow.
        let mask = u64::MAX >> random.below(64);
        let base = random.next_u64();
        let words: [u64; MINI_BLOCK_VALUES] = std::array::from_fn(|_| match seed % 3 {
            0 => random.next_u64(),
            1 => random.next_u64() & mask,
            _ => base.wrapping_add(random.next_u64() & mask),
        });
        check(Words::Zeros, &mut random, seed);
        check(Words::U8(&words.map(|word| word as u8)), &mut random, seed);
        check(Words::U16(&words.map(|word| word as u16)), &mut random, seed);
        check(Words::U32(&words.map(|word| word as u32)), &mut random, seed);
        check(Words::U64(&words), &mut random, seed);
    }
}

#[test]
fn masks_count_and_name_their_bits() {
    for count_wanted in [0, 1, 63, 64, 65, 1000, 1024] {
        let mask = first(count_wanted);
        assert_eq!(count(&mask), count_wanted);
        let mut left = mask_by(|at| at % 3 == 0);
        assert_eq!(intersect(&mut left, &mask), count_wanted.div_ceil(3));
        assert_eq!(left, mask_by(|at| at % 3 == 0 && at < count_wanted));
        assert_eq!(mask, mask_by(|at| at < count_wanted));
    }
}

#[test]
fn the_places_of_set_bits_are_told_in_order() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mask: Mask = std::array::from_fn(|_| match random.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => random.next_u64() & random.next_u64() & random.next_u64(),
            _ => random.next_u64(),
        });
        let expected: Vec<u16> =
            (0..1024).filter(|at| mask[*at / 64] >> (at % 64) & 1 != 0).map(|at| at as u16).collect();
        let room = expected.len() + PLACES_AT_ONCE;
        for find in [places, scalar::places] {
            let mut found = vec![0; room];
            let count = find(&mask, &mut found);
            assert_eq!(found[..count], expected, "seed {seed}");
        }
    }
}

#[test]
fn bits_are_spread_to_the_places_of_selected_ones() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let count = random.below(65);
        let mut selected = [0; MASK_WORDS];
        let mut left = count;
        while left > 0 {
            let at = random.below(MINI_BLOCK_VALUES);
            left -= usize::from(selected[at / 64] >> (at % 64) & 1 == 0);
            selected[at / 64] |= 1 << (at % 64);
        }
        let found = random.next_u64();
        let mut places = vec![0; count + PLACES_AT_ONCE];
        scalar::places(&selected, &mut places);
        let expected = mask_by(|at| {
            places[..count].iter().position(|place| usize::from(*place) == at).is_some_and(|nth| found >> nth & 1 != 0)
        });
        for instructions in InstructionSet::available() {
            let mut spread = selected;
            instructions.spread(found, &mut spread);
            assert_eq!(spread, expected, "seed {seed}, {instructions:?}");
        }
    }
}

#[test]
fn values_that_are_close_are_32_bits_from_a_base_and_others_are_told() {
    for seed in seeds() {
        let mut random = Random::new(seed);
        let spread = *random.pick(&[1u64, 1000, 1 << 31, 1 << 32, 1 << 33, u64::MAX]);
        let anywhere = random.next_u64() as i64;
        let start = *random.pick(&[0, i64::MIN, i64::MAX, i64::MAX - (1 << 31), anywhere]);
        let values: Vec<i64> = (0..random.below(MINI_BLOCK_VALUES + 1))
            .map(|_| start.wrapping_add((random.next_u64() % spread) as i64))
            .collect();
        let mut words = [7; MINI_BLOCK_VALUES];
        let base = narrow(&values, &mut words);
        assert_eq!(base, scalar::narrow(&values, &mut words), "seed {seed}");
        match base {
            Some(base) => {
                for (value, word) in values.iter().zip(words) {
                    assert_eq!(base.checked_add(word.into()), Some(*value), "seed {seed}");
                }
            }
            None => {
                let width =
                    values.iter().max().zip(values.iter().min()).map_or(0, |(most, least)| most.abs_diff(*least));
                let reach = i128::from(values.first().copied().unwrap_or(0));
                let ends = [reach - (1 << 31), reach + (1 << 31)];
                let is_out = ends.iter().any(|end| i64::try_from(*end).is_err());
                assert!(values.is_empty() || is_out || width >= 1 << 31, "seed {seed}: {values:?}");
            }
        }
    }
}
