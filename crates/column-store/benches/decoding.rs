//! What decoding a value takes: unpacking for each width, and pages of each encoding to Arrow arrays.
//!
//! `cargo bench -p thermocline-column-store --bench decoding`. A page of 65,536 values in the second-level cache, one
//! thread, each line the best of several rounds. `placement`'s `column_encoding` takes its unit costs from here.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray};
use thermocline_column_store::{
    Body, Encoding, IntegerEncoding, Integers, MINI_BLOCK_VALUES, Page, Word, encode, encode_as,
};

const VALUES: usize = 65_536;
const ROUNDS: usize = 25;

/// Nanoseconds a value.
fn best_ns(value_count: usize, mut round: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    best / value_count as f64
}

fn scrambled(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

fn unpack<W: Word>(page: &Page<'_>) -> f64 {
    let Body::Integers(Integers::FrameOfReference(frames)) = page.body() else { return f64::NAN };
    let mut values = [W::default(); MINI_BLOCK_VALUES];
    best_ns(VALUES, || {
        for index in 0..frames.mini_block_count() {
            frames.frame(index).unwrap().differences.unpack(&mut values).unwrap();
            black_box(&values);
        }
    })
}

fn main() {
    println!("width  G values/s into the smallest word, into 64 bits; decoded to Int64");
    for width in [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 24, 31, 32, 33, 48, 63] {
        let mask = u64::MAX >> (64 - width);
        let values: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..VALUES).map(|at| (scrambled(at) & mask) as i64)));
        let mut bytes = Vec::new();
        encode_as(&values, Encoding::Integers(IntegerEncoding::FrameOfReference), &mut bytes).unwrap();
        let page = Page::open(&bytes).unwrap();
        let smallest = match width {
            1..=8 => unpack::<u8>(&page),
            9..=16 => unpack::<u16>(&page),
            17..=32 => unpack::<u32>(&page),
            _ => unpack::<u64>(&page),
        };
        let decoded = best_ns(VALUES, || drop(black_box(page.decode(values.data_type()).unwrap())));
        println!("{width:>5} {:>8.1} {:>8.1} {:>8.2}", 1.0 / smallest, 1.0 / unpack::<u64>(&page), 1.0 / decoded);
    }

    let columns: [(&str, ArrayRef); 10] = [
        ("integers, narrow", Arc::new(Int64Array::from_iter_values((0..VALUES).map(|at| (scrambled(at) % 50) as i64)))),
        (
            "integers, rising",
            Arc::new(Int64Array::from_iter_values(
                (0..VALUES).map(|at| at as i64 * 1000 + (scrambled(at) % 99) as i64),
            )),
        ),
        (
            "integers, runs of 20",
            Arc::new(Int64Array::from_iter_values((0..VALUES).map(|at| scrambled(at / 20) as i64))),
        ),
        (
            "prices",
            Arc::new(Float64Array::from_iter_values((0..VALUES).map(|at| (scrambled(at) % 1_000_000) as f64 / 100.0))),
        ),
        (
            "any floats",
            Arc::new(Float64Array::from_iter_values((0..VALUES).map(|at| f64::from_bits(scrambled(at) >> 2)))),
        ),
        (
            "25 nations",
            Arc::new(StringArray::from_iter_values((0..VALUES).map(|at| format!("NATION {}", scrambled(at) % 25)))),
        ),
        (
            "25 nations, views",
            Arc::new(StringViewArray::from_iter_values((0..VALUES).map(|at| format!("NATION {}", scrambled(at) % 25)))),
        ),
        (
            "addresses",
            Arc::new(StringArray::from_iter_values((0..VALUES).map(|at| {
                format!(
                    "https://example.org/shop/{}?user={}&session={:08x}",
                    scrambled(at) % 97,
                    at % 7001,
                    scrambled(at) >> 32
                )
            }))),
        ),
        (
            "keys in short runs",
            Arc::new(Int32Array::from_iter_values((0..VALUES).map(|at| (scrambled(at / 4) % 300_000) as i32))),
        ),
        ("random texts", Arc::new(StringArray::from_iter_values((0..VALUES).map(|at| format!("{:x}", scrambled(at)))))),
    ];
    println!("\nB a value, ns a value to encode and to decode, ns to open; * is what is chosen");
    for (name, values) in columns {
        let chosen = encode(&values, &mut Vec::new()).unwrap().encoding;
        let mut encodings = vec![Encoding::Plain, Encoding::Symbols];
        encodings.extend(IntegerEncoding::ALL.map(Encoding::Integers));
        encodings.extend(IntegerEncoding::ALL.map(Encoding::DecimalFloats));
        encodings.extend(IntegerEncoding::ALL.map(Encoding::Dictionary));
        for encoding in encodings {
            let mut bytes = Vec::new();
            if encode_as(&values, encoding, &mut bytes).is_err() {
                continue;
            }
            let mut again = Vec::with_capacity(bytes.len());
            let encoded = best_ns(VALUES, || {
                again.clear();
                encode_as(&values, encoding, &mut again).unwrap();
            });
            let page = Page::open(&bytes).unwrap();
            let opened = best_ns(1, || drop(black_box(Page::open(&bytes).unwrap())));
            let decoded = best_ns(VALUES, || drop(black_box(page.decode(values.data_type()).unwrap())));
            let mark = if encoding == chosen { "*" } else { " " };
            let size = bytes.len() as f64 / VALUES as f64;
            println!("{mark} {name:<22}{size:>7.2} {encoded:>7.2} {decoded:>7.2} {opened:>8.0}  {encoding:?}");
        }
        let mut again = Vec::new();
        let encoded = best_ns(VALUES, || {
            again.clear();
            encode(&values, &mut again).unwrap();
        });
        println!("  {name:<22}        {encoded:>7.2}  chosen and encoded");
    }
}
