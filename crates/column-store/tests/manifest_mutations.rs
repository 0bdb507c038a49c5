//! The fuzz target of manifests over seeded mutations of a small corpus. A failure prints its seed and input.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, unreachable_pub)]

#[path = "fuzz_bodies/manifest.rs"]
mod fuzz_body;

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_seeded::Random;

/// What stands below line 1.
const CORPUS: [&str; 3] = [
    "version 1\nnext-file 0\n",
    "version 7\nnext-file 1024\nview \"other\" \"v\" \"SELECT \\\"a\\\"\\n\"\n",
    "version 7\nnext-file 1024\nexternal \"public\" \"e\" \"CREATE\\u{7f}\"\ntable \"public\" \"t\"\n\
     metadata \"origin\" \"a\\nb\"\ncolumn \"key\" \"Decimal128(38, -2)\" not-null\n\
     column \"at\" \"Timestamp(µs, \\\"UTC\\\")\" nullable\nmetadata \"a\" \"\"\nmetadata \"unit\" \"ns\"\n\
     segment \"00000003.segment\" 4096 12 0123456789abcdef\nsegment \"00000004.segment\" 0 0 0000000000000000\n\
     table \"public\" \"u\"\ncolumn \"\" \"Utf8View\" nullable\nview \"public\" \"v\" \"\"\n",
];

/// Pieces that make other sense elsewhere.
const PIECES: [&str; 12] =
    ["\n", " ", "\"", "\\", "0", "\\u{", "}", "table ", "column ", "(", "List(Int8)", "\"a\" \"b\"\n"];

#[test]
fn mutated_manifests_are_manifests_or_errors() {
    for body in CORPUS {
        assert!(fuzz_body::run(body.as_bytes()), "{body}");
    }
    let mut manifest_count = 0;
    for seed in 1..=20_000u64 {
        let mut random = Random::new(seed);
        let mut input = CORPUS[random.below(CORPUS.len())].as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(input.len());
            let length = (1 + random.below(16)).min(input.len() - at);
            match random.below(6) {
                0 => input[at] ^= 1 << random.below(8),
                1 => input[at] = random.below(256) as u8,
                2 => drop(input.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
                3 if length < input.len() => drop(input.drain(at..at + length)),
                4 => {
                    let copied = input[at..at + length].to_vec();
                    let to = random.below(input.len());
                    input.splice(to..to, copied);
                }
                _ => {
                    // Whole lines, so that the parser comes to the end.
                    let mut lines: Vec<&[u8]> = input.split_inclusive(|&byte| byte == b'\n').collect();
                    let (from, to) = (random.below(lines.len()), random.below(lines.len()));
                    lines.swap(from, to);
                    input = lines.concat();
                }
            }
        }
        match catch_unwind(AssertUnwindSafe(|| fuzz_body::run(&input))) {
            Ok(is_manifest) => manifest_count += usize::from(is_manifest),
            Err(_) => panic!("seed {seed}: {:?}", String::from_utf8_lossy(&input)),
        }
    }
    // Enough of them come through the parser, and enough do not.
    assert!((500..15_000).contains(&manifest_count), "{manifest_count}");
}
