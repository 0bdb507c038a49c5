//! The 128 bytes that every page starts with.
//!
//! **Owns**: the places of the fields, the checksum, the lengths and places of the sections.
//!
//! **Does not own**: what the sections hold (each encoding checks its own).
//!
//! **Invariants**: a header that was read describes sections that lie within the page's bytes, one behind the other.
//! Every byte of a page is compared with what it must be (magic, version, header length) or is under the checksum.
//!
//! **Concurrency**: plain values.

use std::ops::Range;

use thermocline_placement::column_encoding::{Encoding, IntegerEncoding};
use xxhash_rust::xxh3::xxh3_64;

use super::physical_type::PhysicalType;
use crate::zone_map::{BOUND_BYTES, ZoneMap};
use crate::{MAX_PAGE_VALUES, PageError};

/// Bytes of a page's header, and where its first section starts.
pub const HEADER_BYTES: usize = 128;
/// What a page starts with.
const MAGIC: [u8; 4] = *b"TcPg";
const VERSION: u16 = 1;
/// Sections start at multiples of this: a line of the processor's cache, and the widest vector register.
const ALIGNMENT_BYTES: usize = 64;
/// Sections of a page; those that an encoding has no use for are empty.
pub(crate) const SECTION_COUNT: usize = 6;

const CHECKSUM_AT: usize = 8;
/// What the checksum covers starts here.
const COVERED_AT: usize = 16;
const LENGTH_AT: usize = 16;
const VALUE_COUNT_AT: usize = 20;
const NULL_COUNT_AT: usize = 24;
const TYPE_AT: usize = 28;
pub(crate) const ENCODING_AT: usize = 29;
const INTEGER_ENCODING_AT: usize = 30;
const VALIDITY_AT: usize = 31;
/// Key id (4 bytes) and nonce (12 bytes) of an encrypted page; zeros, as there are none yet.
const RESERVED_AT: usize = 32;
const ZONE_FLAGS_AT: usize = 48;
pub(crate) const EXPONENT_AT: usize = 49;
const SECTION_LENGTHS_AT: usize = 56;
const LEAST_AT: usize = 80;
const GREATEST_AT: usize = 104;

/// Which values are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValidityKind {
    NoneNull = 0,
    AllNull = 1,
    Bitmap = 2,
}

/// A page's header, checked as far as it can be without its sections.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    /// Where the page was read or written; before that 0.
    pub(crate) checksum: u64,
    pub(crate) value_count: usize,
    pub(crate) null_count: usize,
    pub(crate) physical_type: PhysicalType,
    pub(crate) encoding: Encoding,
    pub(crate) validity: ValidityKind,
    /// Of decimal floats, the power of ten; else 0.
    pub(crate) exponent: u8,
    pub(crate) zone_map: ZoneMap,
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn bound_at(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; BOUND_BYTES] {
    std::array::from_fn(|index| bytes[at + index])
}

fn field(field: &'static str, offset: usize, found: impl Into<u64>, expected: impl Into<String>) -> PageError {
    PageError::Field { field, offset: offset as u64, found: found.into(), expected: expected.into() }
}

pub(crate) fn encoding_codes(encoding: Encoding) -> (u8, u8) {
    let integers = |encoding| match encoding {
        IntegerEncoding::FrameOfReference => 1,
        IntegerEncoding::Delta => 2,
        IntegerEncoding::RunLength => 3,
        IntegerEncoding::PackedRuns => 4,
    };
    match encoding {
        Encoding::Constant => (1, 0),
        Encoding::Plain => (2, 0),
        Encoding::Integers(encoding) => (3, integers(encoding)),
        Encoding::Dictionary(encoding) => (4, integers(encoding)),
        Encoding::DecimalFloats(encoding) => (5, integers(encoding)),
        Encoding::Symbols => (6, 0),
    }
}

pub(crate) fn encoding_of(code: u8, integer_code: u8) -> Result<Encoding, PageError> {
    let integers = match integer_code {
        0 => None,
        1 => Some(IntegerEncoding::FrameOfReference),
        2 => Some(IntegerEncoding::Delta),
        3 => Some(IntegerEncoding::RunLength),
        4 => Some(IntegerEncoding::PackedRuns),
        other => return Err(field("integer encoding", INTEGER_ENCODING_AT, other, "0 to 4")),
    };
    match (code, integers) {
        (1, None) => Ok(Encoding::Constant),
        (2, None) => Ok(Encoding::Plain),
        (3, Some(encoding)) => Ok(Encoding::Integers(encoding)),
        (4, Some(encoding)) => Ok(Encoding::Dictionary(encoding)),
        (5, Some(encoding)) => Ok(Encoding::DecimalFloats(encoding)),
        (6, None) => Ok(Encoding::Symbols),
        (1 | 2 | 6, Some(_)) => {
            Err(field("integer encoding", INTEGER_ENCODING_AT, integer_code, format!("0 beside encoding {code}")))
        }
        (3..=5, None) => {
            Err(field("integer encoding", INTEGER_ENCODING_AT, integer_code, format!("1 to 4 beside encoding {code}")))
        }
        _ => Err(field("encoding", ENCODING_AT, code, "1 to 6")),
    }
}

/// Appends a page of these sections to `page`, padding and checksum included, and returns the checksum.
///
/// # Errors
/// [`PageError::TooLong`] if the page would not fit its 32-bit lengths; `page` is as it was.
pub(crate) fn write_page(
    header: &Header,
    sections: &[Vec<u8>; SECTION_COUNT],
    page: &mut Vec<u8>,
) -> Result<u64, PageError> {
    let length: usize =
        HEADER_BYTES + sections.iter().map(|section| section.len().next_multiple_of(ALIGNMENT_BYTES)).sum::<usize>();
    if u32::try_from(length).is_err() {
        let limit_bytes = u64::from(u32::MAX);
        return Err(PageError::TooLong { what: "the page", size_bytes: length as u64, limit_bytes });
    }
    let (encoding, integer_encoding) = encoding_codes(header.encoding);
    let (zone_flags, least, greatest) = header.zone_map.to_header();
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[6..8].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    let mut put = |at: usize, value: usize| bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    put(LENGTH_AT, length);
    put(VALUE_COUNT_AT, header.value_count);
    put(NULL_COUNT_AT, header.null_count);
    for (index, section) in sections.iter().enumerate() {
        put(SECTION_LENGTHS_AT + 4 * index, section.len());
    }
    bytes[TYPE_AT] = header.physical_type.code();
    bytes[ENCODING_AT] = encoding;
    bytes[INTEGER_ENCODING_AT] = integer_encoding;
    bytes[VALIDITY_AT] = header.validity as u8;
    bytes[ZONE_FLAGS_AT] = zone_flags;
    bytes[EXPONENT_AT] = header.exponent;
    bytes[LEAST_AT..LEAST_AT + BOUND_BYTES].copy_from_slice(&least);
    bytes[GREATEST_AT..GREATEST_AT + BOUND_BYTES].copy_from_slice(&greatest);

    let start = page.len();
    page.reserve(length);
    page.extend_from_slice(&bytes);
    for section in sections {
        page.extend_from_slice(section);
        page.resize(start + (page.len() - start).next_multiple_of(ALIGNMENT_BYTES), 0);
    }
    let checksum = xxh3_64(&page[start + COVERED_AT..]);
    page[start + CHECKSUM_AT..start + COVERED_AT].copy_from_slice(&checksum.to_le_bytes());
    Ok(checksum)
}

/// Puts the checksum of a page's present bytes into its header.
#[cfg(test)]
pub(crate) fn write_checksum(page: &mut [u8]) {
    let checksum = xxh3_64(&page[COVERED_AT..]);
    page[CHECKSUM_AT..COVERED_AT].copy_from_slice(&checksum.to_le_bytes());
}

impl Header {
    /// Reads the header of the page that `page` is all of, and finds the sections in it.
    ///
    /// # Errors
    /// What is wrong, except in the sections' contents.
    pub(crate) fn read(page: &[u8], verify: bool) -> Result<(Self, [Range<usize>; SECTION_COUNT]), PageError> {
        let Some(bytes) = page.first_chunk::<HEADER_BYTES>() else {
            return Err(PageError::Length {
                what: "the page's header",
                found_bytes: page.len() as u64,
                expected_bytes: HEADER_BYTES as u64,
            });
        };
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(PageError::Magic { found: magic, expected: MAGIC });
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(PageError::Version { found: version, expected: VERSION });
        }
        let header_bytes = u16::from_le_bytes([bytes[6], bytes[7]]);
        if usize::from(header_bytes) != HEADER_BYTES {
            return Err(field("the header's length", 6, header_bytes, HEADER_BYTES.to_string()));
        }
        let length = u32_at(bytes, LENGTH_AT);
        if length as usize != page.len() {
            return Err(PageError::Length {
                what: "the page",
                found_bytes: page.len() as u64,
                expected_bytes: u64::from(length),
            });
        }
        let expected = u64::from_le_bytes(std::array::from_fn(|index| bytes[CHECKSUM_AT + index]));
        if verify {
            let found = xxh3_64(&page[COVERED_AT..]);
            if found != expected {
                return Err(PageError::Checksum { found, expected });
            }
        }
        let (header, sections) = Self::read_fields(bytes, page.len())?;
        Ok((Self { checksum: expected, ..header }, sections))
    }

    fn read_fields(
        bytes: &[u8; HEADER_BYTES],
        page_bytes: usize,
    ) -> Result<(Self, [Range<usize>; SECTION_COUNT]), PageError> {
        let value_count = u32_at(bytes, VALUE_COUNT_AT) as usize;
        if value_count == 0 || value_count > MAX_PAGE_VALUES {
            let expected = format!("1 to {MAX_PAGE_VALUES}");
            return Err(field("the number of values", VALUE_COUNT_AT, value_count as u64, expected));
        }
        let null_count = u32_at(bytes, NULL_COUNT_AT) as usize;
        let (validity, nulls) = match bytes[VALIDITY_AT] {
            0 => (ValidityKind::NoneNull, 0..=0),
            1 => (ValidityKind::AllNull, value_count..=value_count),
            2 => (ValidityKind::Bitmap, 1..=value_count - 1),
            other => return Err(field("the kind of validity", VALIDITY_AT, other, "0 to 2")),
        };
        if !nulls.contains(&null_count) {
            let expected = format!("{} to {} of {value_count} values", nulls.start(), nulls.end());
            return Err(field("the number of NULLs", NULL_COUNT_AT, null_count as u64, expected));
        }
        let physical_type = PhysicalType::from_code(bytes[TYPE_AT])
            .ok_or_else(|| field("the type of values", TYPE_AT, bytes[TYPE_AT], PhysicalType::expected_codes()))?;
        let encoding = encoding_of(bytes[ENCODING_AT], bytes[INTEGER_ENCODING_AT])?;
        if let Some(at) = (RESERVED_AT..ZONE_FLAGS_AT).find(|at| bytes[*at] != 0) {
            return Err(field("key id and nonce", at, bytes[at], "0: encrypted pages need a newer program"));
        }
        if let Some(at) = (EXPONENT_AT + 1..SECTION_LENGTHS_AT).find(|at| bytes[*at] != 0) {
            return Err(field("a reserved byte", at, bytes[at], "0"));
        }
        let zone_map = ZoneMap::from_header(
            physical_type.zone_kind(),
            bytes[ZONE_FLAGS_AT],
            &bound_at(bytes, LEAST_AT),
            &bound_at(bytes, GREATEST_AT),
        )
        .ok_or_else(|| {
            let expected = format!("flags and bounds of {} values", physical_type.name());
            field("the zone map", ZONE_FLAGS_AT, bytes[ZONE_FLAGS_AT], expected)
        })?;

        let mut end = HEADER_BYTES;
        let mut sections = [const { 0..0 }; SECTION_COUNT];
        for (index, section) in sections.iter_mut().enumerate() {
            let at = SECTION_LENGTHS_AT + 4 * index;
            let length = u32_at(bytes, at) as usize;
            if length > page_bytes.saturating_sub(end) {
                let expected = format!("at most {} in a page of {page_bytes} bytes", page_bytes.saturating_sub(end));
                return Err(field("the length of a section", at, length as u64, expected));
            }
            *section = end..end + length;
            end = (end + length).next_multiple_of(ALIGNMENT_BYTES);
        }
        if end != page_bytes {
            return Err(PageError::Length {
                what: "the page",
                found_bytes: page_bytes as u64,
                expected_bytes: end as u64,
            });
        }
        let exponent = bytes[EXPONENT_AT];
        Ok((
            Self { checksum: 0, value_count, null_count, physical_type, encoding, validity, exponent, zone_map },
            sections,
        ))
    }
}
