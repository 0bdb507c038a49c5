//! Pages byte by byte, as `docs/formats/column-pages.md` has them: they must never change unnoticed.

use arrow::array::{Array, Int16Array, StringArray};
use thermocline_placement::column_encoding::{Encoding, IntegerEncoding};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Page, encode_as};

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*page[at..].first_chunk().unwrap())
}

/// A page with these fields set in an empty header, and these sections.
fn page(fields: &[(usize, &[u8])], sections: [&[u8]; 6]) -> Vec<u8> {
    let mut page = vec![0; 128];
    page[..8].copy_from_slice(b"TcPg\x01\0\x80\0");
    for (at, bytes) in fields {
        page[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    for (index, section) in sections.into_iter().enumerate() {
        page[56 + 4 * index] = section.len() as u8;
        page.extend_from_slice(section);
        page.resize(page.len().next_multiple_of(64), 0);
    }
    page[16] = page.len() as u8;
    page[17] = (page.len() >> 8) as u8;
    let checksum = xxh3_64(&page[16..]);
    page[8..16].copy_from_slice(&checksum.to_le_bytes());
    page
}

fn written(array: &dyn Array, encoding: Encoding) -> Vec<u8> {
    let mut page = Vec::new();
    encode_as(array, encoding, &mut page).unwrap();
    assert_eq!(Page::open(&page).unwrap().decode(array.data_type()).unwrap().to_data(), array.to_data());
    page
}

#[test]
fn plain_integers_with_a_null() {
    let array = Int16Array::from(vec![Some(-2), None, Some(300)]);
    let expected = page(
        &[
            (20, &[3]),           // values
            (24, &[1]),           // NULLs
            (28, &[3, 2, 0, 2]),  // 16 bits, plain, no whole numbers, a bitmap
            (48, &[1]),           // there are bounds
            (80, &[0xfe]),        // -2 …
            (81, &[0xff; 15]),    // … in 16 bytes
            (104, &[0x2c, 0x01]), // 300
        ],
        [&[0b101], &[], &[], &[], &[0xfe, 0xff, 0xfe, 0xff, 0x2c, 0x01], &[]],
    );
    assert_eq!(written(&array, Encoding::Plain), expected);
}

#[test]
fn codes_of_a_dictionary_in_runs() {
    let array = StringArray::from(vec!["b", "b", "ä", "", "b"]);
    let expected = page(
        &[
            (20, &[5]),
            (28, &[13, 4, 3, 0]), // text, dictionary, run-length, no NULLs
            (48, &[1]),
            (80, &[0]),              // the empty text
            (104, &[2, 0xc3, 0xa4]), // two bytes: ä
        ],
        [
            &[],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0], // base 0; the mini-block's runs are 0 to 4
            &[2, 0, 3, 0, 4, 0, 5, 0],
            &[1, 2, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0],
            b"b\xc3\xa4",
        ],
    );
    assert_eq!(written(&array, Encoding::Dictionary(IntegerEncoding::RunLength)), expected);
}

#[test]
fn packed_runs_are_the_first_values_of_a_mini_block_of_their_own() {
    let array = Int16Array::from(vec![5, 5, 9, 9, 9, 5]);
    let (mut starts, mut packed) = ([0; 128], [0; 128]);
    starts[0] = 0b10_0101;
    // 3 bits: one row of 128 lanes takes one word of each, and there are two more in a whole mini-block.
    packed[..3].copy_from_slice(&[0, 4, 0]);
    let expected = page(
        &[
            (20, &[6]),
            (28, &[3, 3, 4, 0]), // 16 bits, integers, packed runs, no NULLs
            (48, &[1]),
            (80, &[5]),
            (104, &[9]),
        ],
        [
            &[],
            &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3], // base 5; ends 0 and 1; 3 bits
            &starts,
            &packed,
            &[],
            &[],
        ],
    );
    assert_eq!(written(&array, Encoding::Integers(IntegerEncoding::PackedRuns)), expected);
}

#[test]
fn packed_integers_lie_in_lanes() {
    // 3 bits from a base of 10: words of 8 bits, 128 lanes of 8 rows.
    let array = Int16Array::from_iter_values((0..1024).map(|index| 10 + (index * 5 % 8) as i16));
    let page = written(&array, Encoding::Integers(IntegerEncoding::FrameOfReference));
    assert_eq!([u32_at(&page, 60), u32_at(&page, 64)], [8 + 2 * 4, 3 * 128]);
    assert_eq!(page[128..144], [10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0], "base and packed offsets");
    let packed = &page[192..];
    // Rows 128 apart are equal here: lane 1 has 5 in each of its 8 rows, lowest bits first.
    let lane = u32::from(packed[1]) | u32::from(packed[129]) << 8 | u32::from(packed[257]) << 16;
    assert_eq!(lane, 0b101_101_101_101_101_101_101_101);
}
