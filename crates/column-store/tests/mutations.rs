//! The fuzz targets' bodies over seeded mutations of small corpora. A failure prints its seed, and a page its bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, unreachable_pub)]

mod fuzz_bodies;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_seeded::Random;

/// Changes a byte of `region`, or copies some bytes there.
fn mutate(input: &mut [u8], region: Range<usize>, random: &mut Random) {
    let at = region.start + random.below(region.len());
    match random.below(5) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        2 => input[at] = input[at].wrapping_add(1),
        3 => input[at] = random.below(256) as u8,
        _ => {
            let from = random.below(input.len());
            let length = (1 + random.below(16)).min(input.len() - at.max(from));
            input.copy_within(from..from + length, at);
        }
    }
}

#[test]
fn mutated_pages_are_pages_or_errors() {
    let corpus = fuzz_bodies::page::corpus();
    for page in &corpus {
        fuzz_bodies::page::run(page);
    }
    for seed in 1..=20_000u64 {
        let mut random = Random::new(seed);
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..1 + random.below(3) {
            // The header, what follows it, or anywhere.
            let region = [128, 400, input.len()][random.below(3)].min(input.len());
            mutate(&mut input, 0..region, &mut random);
        }
        if catch_unwind(AssertUnwindSafe(|| fuzz_bodies::page::run(&input))).is_err() {
            panic!("seed {seed}: {input:02x?}");
        }
    }
}

#[test]
fn mutated_segments_are_consistent_or_errors() {
    let corpus = fuzz_bodies::segment::corpus();
    for (file, _) in &corpus {
        fuzz_bodies::segment::run(file);
    }
    for seed in 1..=6000u64 {
        let mut random = Random::new(seed);
        let (file, footer_at) = &corpus[random.below(corpus.len())];
        let mut input = file.clone();
        for _ in 0..1 + random.below(3) {
            let end = input.len();
            // The columns, the directory and the trailer, mostly.
            let regions = [*footer_at..footer_at + 120, *footer_at..footer_at + 900, end - 64..end, 0..end];
            mutate(&mut input, regions[random.below(4)].clone(), &mut random);
        }
        if catch_unwind(AssertUnwindSafe(|| fuzz_bodies::segment::run(&input))).is_err() {
            panic!("seed {seed}");
        }
    }
}
