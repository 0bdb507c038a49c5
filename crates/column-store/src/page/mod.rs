//! A page: its header, its NULLs and its values, as a view of its bytes.
//!
//! **Owns**: opening (checksum, header, structure), decoding to Arrow arrays, encoding of arrays.
//!
//! **Does not own**: the parts of each encoding (`integers`, `floats`, `texts`).
//!
//! **Invariants**: a page that could be opened has well-formed sections: what is left to fail when it is decoded are
//! codes outside its dictionary, texts whose starts fall, unknown symbols, and text that is not UTF-8; these are errors
//! too.
//!
//! **Concurrency**: a [`Page`] is `Copy`-cheap, immutable and shared freely.

mod decode;
mod encode;
mod fixed_width;
mod header;
mod physical_type;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub(crate) mod tests;
mod text_values;
mod validity;

pub use encode::{PageSummary, encode, encode_as};
pub use header::HEADER_BYTES;
pub(crate) use header::{encoding_codes, encoding_of};
pub use physical_type::PhysicalType;
pub use validity::Validity;

use std::ops::Range;

use thermocline_placement::column_encoding::Encoding;

use crate::floats::{self, DecimalFloats};
use crate::integers::{self, Integers, Section};
use crate::texts::{Dictionary, SymbolTexts, Texts};
use crate::zone_map::ZoneKind;
use crate::{MINI_BLOCK_VALUES, PageError, ZoneMap};
use header::{Header, SECTION_COUNT};

/// The section of the validity bitmap; those of whole numbers follow.
pub(crate) const VALIDITY_SECTION: usize = 0;
/// The first of the three sections of whole numbers.
pub(crate) const INTEGERS_SECTION: usize = 1;
/// The first of the two sections of everything else.
pub(crate) const VALUES_SECTION: usize = 4;

/// The values of a page, as they are written. NULLs have values too, which mean nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Body<'a> {
    /// All values are NULL.
    AllNull,
    /// Every value is this one: little-endian in its type's width, one byte (0 or 1) for booleans, or the text.
    Constant(&'a [u8]),
    /// Booleans, lowest bits first.
    Bits(&'a [u8]),
    /// Values of the type's width, little-endian.
    Plain(&'a [u8]),
    /// Whole numbers; of floating-point types the bits.
    Integers(Integers<'a>),
    /// Floats as whole numbers over a power of ten.
    DecimalFloats(DecimalFloats<'a>),
    /// Texts or binaries, one after another.
    Texts(Texts<'a>),
    /// Texts or binaries in symbols.
    Symbols(SymbolTexts<'a>),
    /// Texts or binaries as codes of a sorted dictionary.
    Dictionary {
        /// What the codes stand for.
        dictionary: Dictionary<'a>,
        /// One code for each value.
        codes: Integers<'a>,
    },
}

/// A view of a page's bytes.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    header: Header,
    size_bytes: usize,
    validity: Validity<'a>,
    body: Body<'a>,
}

impl<'a> Page<'a> {
    /// Opens the page that `bytes` are, all of it and nothing more. They are best aligned to 64 bytes, but need not be.
    ///
    /// # Errors
    /// The checksum is wrong, or the bytes are no page that this program knows.
    pub fn open(bytes: &'a [u8]) -> Result<Self, PageError> {
        Self::open_checked(bytes, true)
    }

    /// Like [`Page::open`] for bytes whose checksum was found right before, by [`Page::open`], and which cannot have
    /// changed since: it is not computed again. Everything else is checked as ever.
    ///
    /// # Errors
    /// As [`Page::open`].
    pub fn open_verified(bytes: &'a [u8]) -> Result<Self, PageError> {
        Self::open_checked(bytes, false)
    }

    fn open_checked(bytes: &'a [u8], verify: bool) -> Result<Self, PageError> {
        let (header, places) = Header::read(bytes, verify)?;
        let sections: [Section<'a>; SECTION_COUNT] =
            places.map(|place| Section { offset: place.start as u64, bytes: &bytes[place] });
        let validity = Validity::open(&header, sections[VALIDITY_SECTION])?;
        let body = open_body(&header, &sections)?;
        Ok(Self { header, size_bytes: bytes.len(), validity, body })
    }

    /// Bytes of the page, with header and padding.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Values, NULLs included.
    pub fn value_count(&self) -> usize {
        self.header.value_count
    }

    /// NULLs among the values.
    pub fn null_count(&self) -> usize {
        self.header.null_count
    }

    /// How the values are stored.
    pub fn physical_type(&self) -> PhysicalType {
        self.header.physical_type
    }

    /// How the page is written.
    pub fn encoding(&self) -> Encoding {
        self.header.encoding
    }

    /// The checksum in the header: of everything behind it.
    pub fn checksum(&self) -> u64 {
        self.header.checksum
    }

    /// The least and greatest value.
    pub fn zone_map(&self) -> &ZoneMap {
        &self.header.zone_map
    }

    /// Which values are NULL.
    pub fn validity(&self) -> Validity<'a> {
        self.validity
    }

    /// The values as they are written, for who works on them without decoding.
    pub fn body(&self) -> &Body<'a> {
        &self.body
    }

    /// Mini-blocks of the page.
    pub fn mini_block_count(&self) -> usize {
        integers::mini_block_count(self.header.value_count)
    }

    /// The values that are in these mini-blocks.
    fn rows(&self, mini_blocks: &Range<usize>) -> Result<Range<usize>, PageError> {
        let mini_block_count = self.mini_block_count();
        if mini_blocks.start > mini_blocks.end || mini_blocks.end > mini_block_count {
            return Err(PageError::Range { asked: mini_blocks.clone(), mini_block_count });
        }
        if mini_blocks.is_empty() {
            return Ok(0..0);
        }
        let end = (mini_blocks.end * MINI_BLOCK_VALUES).min(self.header.value_count);
        Ok(mini_blocks.start * MINI_BLOCK_VALUES..end)
    }
}

fn expect_empty(sections: &[Section<'_>], what: &'static str) -> Result<(), PageError> {
    sections.iter().try_for_each(|section| section.expect_length(what, 0))
}

fn open_body<'a>(header: &Header, sections: &[Section<'a>; SECTION_COUNT]) -> Result<Body<'a>, PageError> {
    let value_count = header.value_count;
    let physical_type = header.physical_type;
    let integer_sections = [sections[1], sections[2], sections[3]];
    let [values, more] = [sections[VALUES_SECTION], sections[VALUES_SECTION + 1]];
    let is_text = matches!(physical_type, PhysicalType::Text | PhysicalType::Binary);
    let mismatch = || PageError::Field {
        field: "the encoding",
        offset: header::ENCODING_AT as u64,
        found: u64::from(encoding_codes(header.encoding).0),
        expected: format!("one of {} values", physical_type.name()),
    };
    let max_exponent = if matches!(header.encoding, Encoding::DecimalFloats(_)) { floats::MAX_EXPONENT } else { 0 };
    if usize::from(header.exponent) > max_exponent {
        return Err(PageError::Field {
            field: "the power of ten",
            offset: header::EXPONENT_AT as u64,
            found: u64::from(header.exponent),
            expected: format!("at most {max_exponent} in this encoding"),
        });
    }
    if header.null_count == value_count {
        if header.encoding != Encoding::Constant {
            return Err(mismatch());
        }
        expect_empty(&sections[1..], "a section of a page of NULLs")?;
        return Ok(Body::AllNull);
    }
    match header.encoding {
        Encoding::Constant => {
            expect_empty(&integer_sections, "a section of whole numbers beside a constant")?;
            expect_empty(&[more], "the last section beside a constant")?;
            if physical_type == PhysicalType::Boolean {
                values.expect_length("the constant", 1)?;
                if values.bytes[0] > 1 {
                    return Err(values.field("the constant", 0, u64::from(values.bytes[0]), "0 or 1".to_owned()));
                }
            }
            if let Some(width) = physical_type.width_bytes() {
                values.expect_length("the constant", width)?;
            }
            Ok(Body::Constant(values.bytes))
        }
        Encoding::Plain if is_text => {
            expect_empty(&[more], "the last section beside plain texts")?;
            Texts::open(integer_sections, values, value_count).map(Body::Texts)
        }
        Encoding::Plain => {
            expect_empty(&integer_sections, "a section of whole numbers beside plain values")?;
            expect_empty(&[more], "the last section beside plain values")?;
            match physical_type.width_bytes() {
                Some(width) => {
                    values.expect_length("the plain values", value_count * width)?;
                    Ok(Body::Plain(values.bytes))
                }
                None => {
                    values.expect_length("the bits", value_count.div_ceil(8))?;
                    validity::expect_zero_tail(&values, value_count)?;
                    Ok(Body::Bits(values.bytes))
                }
            }
        }
        Encoding::Integers(encoding) if physical_type.width_bytes().is_some() => {
            expect_empty(&[values, more], "a section of values beside whole numbers")?;
            Integers::open(encoding, integer_sections, value_count).map(Body::Integers)
        }
        Encoding::DecimalFloats(encoding) if physical_type.zone_kind() == ZoneKind::Float => {
            let numbers = Integers::open(encoding, integer_sections, value_count)?;
            let exponent = usize::from(header.exponent);
            let width = physical_type.width_bytes().unwrap_or_default();
            DecimalFloats::open(numbers, exponent, values, more, value_count, width).map(Body::DecimalFloats)
        }
        Encoding::Symbols if is_text => {
            let texts = Texts::open(integer_sections, values, value_count)?;
            SymbolTexts::open(texts, more).map(Body::Symbols)
        }
        Encoding::Dictionary(encoding) if is_text => Ok(Body::Dictionary {
            dictionary: Dictionary::open(values, more)?,
            codes: Integers::open(encoding, integer_sections, value_count)?,
        }),
        _ => Err(mismatch()),
    }
}
