use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_seeded::Random;

use super::arrays::{Nulls, SHAPES, array, types};
use super::round_trip::ENCODINGS;
use crate::page::header::write_checksum;
use crate::{HEADER_BYTES, Page, PageError, encode, encode_as};

/// One page of every type and encoding.
fn pages(random: &mut Random) -> Vec<(String, arrow::datatypes::DataType, Vec<u8>)> {
    let mut pages = Vec::new();
    for data_type in types() {
        for shape in SHAPES {
            let nulls = *random.pick(&[Nulls::None, Nulls::Some, Nulls::Some, Nulls::All]);
            let count = *random.pick(&[3, 1100, 2500]);
            let values = array(random, &data_type, shape, nulls, count);
            for encoding in ENCODINGS {
                let mut page = Vec::new();
                if encode_as(&values, encoding, &mut page).is_ok() {
                    pages.push((format!("{data_type}, {shape:?}, {encoding:?}"), data_type.clone(), page));
                }
            }
        }
    }
    pages
}

#[test]
fn any_flipped_bit_and_any_other_length_is_an_error() {
    for seed in 0..2 {
        let mut random = Random::new(seed);
        for (name, _, mut page) in pages(&mut random) {
            let tries = 20 + HEADER_BYTES / 16;
            for index in 0..tries {
                // The header's fields first, then anywhere.
                let byte = if index < 20 { random.below(page.len()) } else { random.below(HEADER_BYTES) };
                let bit = 1 << random.below(8);
                page[byte] ^= bit;
                assert!(Page::open(&page).is_err(), "seed {seed}, {name}: bit {bit:#x} of byte {byte}");
                page[byte] ^= bit;
            }
            for _ in 0..5 {
                let length = random.below(page.len());
                assert!(Page::open(&page[..length]).is_err(), "seed {seed}, {name}: the first {length} bytes");
            }
            assert!(Page::open(&page).is_ok(), "seed {seed}, {name}");
            page.extend_from_slice(&[0; 64]);
            assert!(Page::open(&page).is_err(), "seed {seed}, {name}: 64 bytes more");
        }
    }
}

#[test]
fn damage_that_the_checksum_covers_is_never_a_panic() {
    for seed in 0..6 {
        let mut random = Random::new(seed + 100);
        for (name, data_type, page) in pages(&mut random) {
            for _ in 0..12 {
                let mut damaged = page.clone();
                for _ in 0..=random.below(3) {
                    let byte = if random.one_in(2) { random.below(page.len()) } else { 16 + random.below(240) };
                    if let Some(byte) = damaged.get_mut(byte) {
                        *byte = match random.below(4) {
                            0 => *byte ^ 1 << random.below(8),
                            1 => 0xff,
                            2 => byte.wrapping_add(1),
                            _ => random.next_u64() as u8,
                        };
                    }
                }
                write_checksum(&mut damaged);
                let what = || format!("seed {seed}, {name}: {:?}", differences(&page, &damaged));
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    let page = Page::open(&damaged)?;
                    let whole = page.decode(&data_type)?;
                    assert_eq!(whole.len(), page.value_count(), "{}", what());
                    page.decode_range(0..page.mini_block_count() / 2, &data_type)?;
                    Ok::<_, PageError>(())
                }));
                assert!(outcome.is_ok(), "{}", what());
            }
        }
    }
}

/// Where two pages differ, and how.
fn differences(page: &[u8], damaged: &[u8]) -> Vec<(usize, u8, u8)> {
    let pairs = page.iter().zip(damaged).enumerate();
    pairs
        .filter(|(at, (old, new))| old != new && !(8..16).contains(at))
        .map(|(at, (old, new))| (at, *old, *new))
        .collect()
}

#[test]
fn a_page_verified_before_is_checked_for_all_but_its_checksum() {
    let values = arrow::array::Int64Array::from_iter_values(0..2000);
    let mut page = Vec::new();
    encode(&values, &mut page).unwrap();
    page[8] ^= 1;
    assert!(matches!(Page::open(&page), Err(PageError::Checksum { .. })));
    assert_eq!(Page::open_verified(&page).unwrap().decode(&arrow::datatypes::DataType::Int64).unwrap().len(), 2000);
    page[21] = 0xff;
    assert!(Page::open_verified(&page).is_err(), "the sections do not fit that many values");
}

#[test]
fn messages_say_what_was_found_and_what_was_expected() {
    let values = arrow::array::Int64Array::from_iter_values((0..2000).map(|index| index * index % 777));
    let mut page = Vec::new();
    encode(&values, &mut page).unwrap();
    let message = |change: &dyn Fn(&mut Vec<u8>), checksum: bool| {
        let mut damaged = page.clone();
        change(&mut damaged);
        if checksum {
            write_checksum(&mut damaged);
        }
        Page::open(&damaged).unwrap_err().to_string()
    };
    let short = message(&|page| page.truncate(100), false);
    assert_eq!(short, "the page's header: 100 bytes, expected 128");
    let longer = message(&|page| page.extend([0; 64]), false);
    assert_eq!(longer, format!("the page: {} bytes, expected {}", page.len() + 64, page.len()));
    assert!(message(&|page| page[0] = 0, false).contains("no column page"));
    assert!(message(&|page| page[4] = 9, false).contains("version 9 of its format, expected 1"));
    assert!(message(&|page| page[200] ^= 1, false).contains("the page is damaged"));
    let key = message(&|page| page[33] = 1, true);
    assert_eq!(key, "offset 33: key id and nonce is 1, expected 0: encrypted pages need a newer program");
    let count = message(&|page| page[20..24].fill(0), true);
    assert_eq!(count, "offset 20: the number of values is 0, expected 1 to 1048576");
}
