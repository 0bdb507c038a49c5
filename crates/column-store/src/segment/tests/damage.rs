use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thermocline_medium::{Medium, MemoryMedium};
use thermocline_seeded::Random;
use xxhash_rust::xxh3::xxh3_64;

use super::tables::Table;
use crate::segment::footer::{CHECKSUM_AT, TRAILER_BYTES};
use crate::{PAGE_ALIGNMENT_BYTES, Segment, SegmentError, SegmentInfo};

fn bytes_of(medium: &Arc<dyn Medium>, name: &str) -> Vec<u8> {
    let file = medium.open(name).unwrap();
    let mut bytes = vec![0; medium.size_bytes(&file).unwrap() as usize];
    medium.read_at(&file, 0, &mut bytes).unwrap();
    bytes
}

/// A medium with one file.
fn with_file(bytes: &[u8]) -> Arc<dyn Medium> {
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let file = medium.create("s").unwrap();
    medium.write_at(&file, 0, bytes).unwrap();
    medium
}

fn written(table: &Table) -> (Vec<u8>, SegmentInfo) {
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let info = table.write(&medium, "s").unwrap();
    (bytes_of(&medium, "s"), info)
}

#[test]
fn a_flipped_bit_is_an_error_or_lies_between_pages() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let table = Table::random(&mut random);
        let (mut bytes, info) = written(&table);
        let pages: Vec<(usize, usize)> = Segment::open(with_file(&bytes).as_ref(), &info, &table.schema)
            .unwrap()
            .row_groups()
            .iter()
            .flat_map(|group| group.pages().to_vec())
            .map(|page| (page.offset_bytes() as usize, page.size_bytes()))
            .collect();
        let footer_at = table.encoded.iter().map(|group| group.size_bytes()).sum::<u64>() as usize;
        for _ in 0..30 {
            let from = if random.one_in(2) { footer_at } else { 0 };
            let (byte, bit) = (from + random.below(bytes.len() - from), 1 << random.below(8));
            bytes[byte] ^= bit;
            let found = table.compare(&with_file(&bytes), &info);
            bytes[byte] ^= bit;
            let covered = byte >= footer_at || pages.iter().any(|(start, size)| (*start..start + size).contains(&byte));
            match found {
                Ok(same) => assert!(same && !covered, "seed {seed}: bit {bit:#x} of byte {byte}"),
                Err(error) => {
                    assert!(covered, "seed {seed}: bit {bit:#x} of byte {byte}: {error}");
                    assert!(error.to_string().starts_with("s: "), "{error}");
                }
            }
        }
    }
}

#[test]
fn every_bit_of_a_footer_counts() {
    let (mut bytes, info) = written(&Table::small());
    let table = Table::small();
    let footer_at = bytes.len() - PAGE_ALIGNMENT_BYTES;
    for byte in footer_at..bytes.len() {
        bytes[byte] ^= 0x10;
        assert!(Segment::open(with_file(&bytes).as_ref(), &info, &table.schema).is_err(), "byte {byte}");
        bytes[byte] ^= 0x10;
    }
}

#[test]
fn a_file_of_any_other_length_is_an_error() {
    let table = Table::small();
    let (bytes, info) = written(&table);
    let mut random = Random::new(3);
    let mut longer = bytes.clone();
    longer.resize(bytes.len() * 2, 0);
    longer.copy_within(0..bytes.len(), bytes.len());
    let lengths =
        (0..40).map(|_| random.below(longer.len())).chain([0, 63, 64, 4095, 4096, bytes.len() - 1, longer.len()]);
    for length in lengths.filter(|length| *length != bytes.len()) {
        let medium = with_file(&longer[..length]);
        let error = Segment::open(medium.as_ref(), &info, &table.schema).unwrap_err();
        assert!(matches!(error, SegmentError::Length { .. }), "{length}: {error}");
        // Even if the table knew no better.
        let info = SegmentInfo { size_bytes: length as u64, ..info.clone() };
        assert!(Segment::open(medium.as_ref(), &info, &table.schema).is_err(), "{length}");
    }
}

/// Changes a file and makes the footer's checksum right again.
fn forged(bytes: &[u8], info: &SegmentInfo, change: impl FnOnce(&mut [u8])) -> (Vec<u8>, SegmentInfo) {
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    let trailer_at = bytes.len() - TRAILER_BYTES;
    let footer_at = u64::from_le_bytes(std::array::from_fn(|index| bytes[trailer_at + index])) as usize;
    let covered = bytes.get(footer_at..trailer_at + CHECKSUM_AT).unwrap_or_default();
    let checksum = xxh3_64(covered);
    bytes[trailer_at + CHECKSUM_AT..trailer_at + CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
    (bytes, SegmentInfo { footer_checksum: checksum, ..info.clone() })
}

#[test]
fn a_footer_that_lies_under_a_right_checksum_is_an_error_and_never_a_panic() {
    let mut refused = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed + 1000);
        let table = Table::random(&mut random);
        let (bytes, info) = written(&table);
        let footer_at = table.encoded.iter().map(|group| group.size_bytes()).sum::<u64>() as usize;
        for _ in 0..6 {
            let (damaged, info) = forged(&bytes, &info, |bytes| {
                for _ in 0..=random.below(2) {
                    let whole = bytes.len() - footer_at;
                    let at = match random.below(3) {
                        0 => bytes.len() - TRAILER_BYTES + random.below(TRAILER_BYTES),
                        1 => footer_at + random.below(whole.min(200)),
                        _ => footer_at + random.below(whole),
                    };
                    bytes[at] = match random.below(4) {
                        0 => bytes[at] ^ 1 << random.below(8),
                        1 => 0xff,
                        2 => bytes[at].wrapping_add(1),
                        _ => random.next_u64() as u8,
                    };
                }
            });
            let read = || table.compare(&with_file(&damaged), &info);
            let outcome = catch_unwind(AssertUnwindSafe(read));
            match outcome {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => refused += 1,
                Err(_) => panic!("seed {seed}"),
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn pages_in_each_others_places_are_found() {
    let table = Table::small();
    let (bytes, info) = written(&table);
    let pages: Vec<(u64, usize)> = Segment::open(with_file(&bytes).as_ref(), &info, &table.schema)
        .unwrap()
        .row_groups()
        .iter()
        .flat_map(|group| group.pages().to_vec())
        .map(|page| (page.offset_bytes(), page.stored_bytes()))
        .collect();
    for (first, second) in [(0, 1), (0, 2), (1, 3)] {
        let ((from, length), (to, other_length)) = (pages[first], pages[second]);
        assert_eq!(length, other_length, "the test wants pages of equal length");
        let mut swapped = bytes.clone();
        swapped[from as usize..][..length].copy_from_slice(&bytes[to as usize..][..length]);
        swapped[to as usize..][..length].copy_from_slice(&bytes[from as usize..][..length]);
        let medium = with_file(&swapped);
        let segment = Segment::open(medium.as_ref(), &info, &table.schema).unwrap();
        for at in [first, second] {
            let (offset, length) = pages[at];
            let mut bytes = vec![0; length];
            medium.read_at(segment.file(), offset, &mut bytes).unwrap();
            let checked = segment.check_page(at / 2, at % 2, &bytes).unwrap_err();
            assert!(matches!(checked, SegmentError::OtherPage { field: "the checksum", .. }), "{checked}");
            let opened = segment.open_page(at / 2, at % 2, &bytes).unwrap_err();
            assert!(matches!(opened, SegmentError::OtherPage { .. }), "{opened}");
        }
    }
}

#[test]
fn messages_name_the_file_the_place_and_both_values() {
    let table = Table::small();
    let (bytes, info) = written(&table);
    let end = bytes.len();
    let open = |bytes: &[u8], info: &SegmentInfo| {
        Segment::open(with_file(bytes).as_ref(), info, &table.schema).unwrap_err().to_string()
    };
    let change = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        open(&changed, &info)
    };
    let foreign = change(end - 1, b'x');
    assert!(foreign.contains(&format!("offset {}: the file ends with", end - 4)), "{foreign}");
    assert!(foreign.ends_with("it is no segment"), "{foreign}");
    let newer = change(end - 8, 9);
    assert_eq!(
        newer,
        format!("s: offset {}: version 9 of its format, expected 1; read it with a newer program", end - 8)
    );
    let damaged = change(end - 100, 1);
    assert!(damaged.contains("offset 16384: the footer's checksum is"), "{damaged}");
    let cut = open(&bytes[..end - 4096], &info);
    assert_eq!(cut, format!("s: {} bytes long, expected {end}: the file was cut, or is another one", end - 4096));
    let other = open(&bytes, &SegmentInfo { footer_checksum: 1, ..info.clone() });
    assert!(other.contains("expected 0000000000000001: this is another segment"), "{other}");
    let (keyed, keyed_info) = forged(&bytes, &info, |bytes| bytes[end - TRAILER_BYTES + 24] = 7);
    assert!(open(&keyed, &keyed_info).contains("key id and nonce is 7, expected 0"));
    let (huge, huge_info) = forged(&bytes, &info, |bytes| bytes[16384..16388].fill(0xff));
    assert!(
        open(&huge, &huge_info).starts_with("s: offset 16384: the number of columns is 4294967295, expected 1 to ")
    );
}
