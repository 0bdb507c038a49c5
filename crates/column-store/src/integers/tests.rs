use thermocline_seeded::Random;

use super::*;

fn shapes(random: &mut Random, count: usize) -> Vec<(&'static str, bool, Vec<u64>)> {
    let mut value = random.next_u64() as i64;
    let any: Vec<u64> = (0..count).map(|_| random.next_u64()).collect();
    let narrow = (0..count).map(|_| (random.below(100) as i64 - 50) as u64).collect();
    let rising = (0..count)
        .map(|_| {
            value = value.wrapping_add(random.below(10) as i64);
            value as u64
        })
        .collect();
    let extremes = (0..count).map(|_| *random.pick(&[i64::MIN as u64, i64::MAX as u64, 0, u64::MAX])).collect();
    let runs = any.iter().flat_map(|value| std::iter::repeat_n(*value, 300)).take(count).collect();
    let short_runs = any.iter().flat_map(|value| std::iter::repeat_n(*value >> 45, 1 + (*value % 7) as usize));
    let short_runs = short_runs.take(count).collect();
    let line = (0..count as u64).map(|index| index.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
    vec![
        ("any, signed", true, any.clone()),
        ("any, unsigned", false, any),
        ("narrow", true, narrow),
        ("rising", true, rising),
        ("extremes, signed", true, extremes),
        ("runs", false, runs),
        ("short runs", false, short_runs),
        ("line", false, line),
        ("constant", true, vec![random.next_u64(); count]),
    ]
}

fn opened<'a>(encoding: IntegerEncoding, sections: &'a [Vec<u8>; 3], value_count: usize) -> Integers<'a> {
    let sections = std::array::from_fn(|index| Section { offset: 0, bytes: &sections[index] });
    Integers::open(encoding, sections, value_count).unwrap()
}

#[test]
fn every_mini_block_decodes_alone_to_its_values_and_sizes_are_foretold() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let count = *random.pick(&[1, 2, 1023, 1024, 1025, 2048, 5000]);
        for (shape, signed, values) in shapes(&mut random, count) {
            let statistics = IntegerStatistics::of(&values, signed);
            for encoding in IntegerEncoding::ALL {
                let name = format!("seed {seed}, {shape}, {encoding:?}, {count} values");
                let mut sections = [const { Vec::new() }; 3];
                write(encoding, &values, signed, &mut sections);
                let size_bytes: usize = sections.iter().map(Vec::len).sum();
                assert_eq!(size_bytes, statistics.size_bytes(encoding), "{name}");
                let integers = opened(encoding, &sections, count);
                for (index, block) in values.chunks(MINI_BLOCK_VALUES).enumerate() {
                    let mut decoded = vec![0u64; block.len()];
                    integers.decode(index, &mut decoded);
                    assert_eq!(decoded, block, "{name}, mini-block {index}");
                    let mut some = vec![0u64; block.len() / 3];
                    integers.decode(index, &mut some);
                    assert_eq!(some, block[..block.len() / 3], "{name}, a part of mini-block {index}");
                    let mut room = [0u64; MINI_BLOCK_VALUES];
                    integers.decode(index, &mut room);
                    assert_eq!(room[..block.len()], *block, "{name}, mini-block {index} with room behind");
                    let mut narrow = vec![0u16; block.len()];
                    integers.decode(index, &mut narrow);
                    assert!(narrow.iter().zip(block).all(|(narrow, value)| *narrow == *value as u16), "{name}");
                }
                let mut untouched = [7u64; 3];
                integers.decode(values.len().div_ceil(MINI_BLOCK_VALUES), &mut untouched);
                assert_eq!(untouched, [7; 3], "{name}, a mini-block that is not there");
            }
        }
    }
}

#[test]
fn least_and_greatest_follow_the_order_of_the_type() {
    let values = [u64::MAX, 5, 0];
    let signed = IntegerStatistics::of(&values, true);
    assert_eq!((signed.least, signed.greatest), (u64::MAX, 5));
    let unsigned = IntegerStatistics::of(&values, false);
    assert_eq!((unsigned.least, unsigned.greatest), (0, u64::MAX));
    assert!(!unsigned.is_constant());
    assert!(IntegerStatistics::of(&[3; 2000], true).is_constant());
}

#[test]
fn an_arithmetic_sequence_takes_no_bits_and_an_equal_one_none_either() {
    let line: Vec<u64> = (0..10_000).map(|index| 1_000_000 - 7 * index).collect();
    assert_eq!(IntegerStatistics::of(&line, true).size_bytes(IntegerEncoding::Delta), 10 * 20 + 4);
    assert_eq!(IntegerStatistics::of(&[9; 10_000], true).size_bytes(IntegerEncoding::FrameOfReference), 10 * 12 + 4);
}

#[test]
fn packed_runs_that_do_not_fit_together_are_refused_by_name() {
    let values: Vec<u64> = (0..1500).map(|index| index / 5 * 1000).collect();
    type Change = fn(&mut [Vec<u8>; 3]);
    let refused = |change: Change| {
        let mut sections = [const { Vec::new() }; 3];
        write(IntegerEncoding::PackedRuns, &values, false, &mut sections);
        change(&mut sections);
        let sections = std::array::from_fn(|index| Section { offset: 0, bytes: &sections[index] });
        Integers::open(IntegerEncoding::PackedRuns, sections, values.len()).unwrap_err().to_string()
    };
    // Two bases of 8 bytes, three ends of 4, two widths; the last mini-block has 476 values.
    let cases: [(Change, &str); 7] = [
        (|sections| sections[0].push(0), "the directory of packed runs"),
        (|sections| sections[1].truncate(200), "where runs start"),
        (|sections| sections[0][16] = 1, "offset 16: the end of packed runs is 1, expected 0"),
        (|sections| sections[0][28] = 65, "offset 28: the bits of a run's value is 65, expected at most 64"),
        (|sections| sections[1][128] = 0, "offset 128: where runs start is 0"),
        (|sections| sections[1][128 + 476 / 8] |= 0x80, "none from bit 476 on"),
        (|sections| sections[2].truncate(128), "the packed runs"),
    ];
    for (change, expected) in cases {
        let message = refused(change);
        assert!(message.contains(expected), "{message}, expected {expected}");
    }
    // Starts that are too few or too many for the runs' values.
    let message = refused(|sections| sections[1][1..128].fill(0));
    assert!(message.contains("offset 20: the end of packed runs"), "{message}");
    let message = refused(|sections| sections[1][..128].fill(0xff));
    assert!(message.contains("offset 20: the end of packed runs"), "{message}");
}
