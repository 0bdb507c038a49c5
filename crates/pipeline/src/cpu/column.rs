//! A scanned column's page, open: mini-blocks of it as words, and single values.
//!
//! **Owns**: which form a page's values have for kernels, unpacking into the smallest words that hold them, texts that are not
//! in a dictionary made to be. **Does not own**: which values are looked at, what they are compared with.
//!
//! **Invariants**: value `i` of a block is its base plus word `i`, modulo 2^64, whatever the page's encoding; of texts it is the
//! code in a sorted dictionary. A mini-block is unpacked at most once while it is worked on.
//!
//! **Concurrency**: a reader belongs to one thread.

use std::collections::BTreeMap;

use thermocline_column_store::{
    Body, Dictionary, Frame, FramesOfReference, Integers, MINI_BLOCK_VALUES, Page, PageError, PhysicalType, Validity,
};

use super::place::PagePlace;
use crate::PipelineError;
use crate::ir::ValueType;
use crate::kernels::{MASK_WORDS, Mask, Words};

/// Rows of a mini-block up to which single values are taken out of packed bits instead of all.
const SPARSE_ROWS: usize = 48;

/// A mini-block's values as words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) base: i64,
    pub(super) words: Words<'a>,
}

/// How values lie in the page.
#[derive(Debug)]
enum Form<'p> {
    AllNull,
    Constant(i128),
    Frames(FramesOfReference<'p>),
    /// Decoded to 64-bit patterns.
    Integers(Integers<'p>),
    /// Little-endian, of this many bytes, with a sign or not.
    Plain {
        bytes: &'p [u8],
        width: usize,
        signed: bool,
    },
    /// Decimals that 64 bits do not hold.
    Wide(&'p [[u8; 16]]),
    /// Codes of texts.
    Codes(Vec<u32>),
}

/// The texts of a page, sorted.
#[derive(Debug)]
pub(super) enum PageTexts<'p> {
    Dictionary(Dictionary<'p>),
    /// Of a page without a dictionary.
    Made(Vec<Vec<u8>>),
}

impl PageTexts<'_> {
    pub(super) fn entry_count(&self) -> usize {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry_count(),
            Self::Made(texts) => texts.len(),
        }
    }

    pub(super) fn entry(&self, code: usize) -> Option<&[u8]> {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry(code),
            Self::Made(texts) => texts.get(code).map(Vec::as_slice),
        }
    }

    /// The code of a text, or else that of the first text behind it.
    pub(super) fn code_of(&self, text: &[u8]) -> Result<usize, usize> {
        match self {
            Self::Dictionary(dictionary) => dictionary.code_of(text),
            Self::Made(texts) => texts.binary_search_by(|entry| entry.as_slice().cmp(text)),
        }
    }
}

/// The words of the mini-block that is worked on.
#[derive(Debug)]
struct Scratch {
    bytes: [u8; MINI_BLOCK_VALUES],
    halves: [u16; MINI_BLOCK_VALUES],
    words: [u32; MINI_BLOCK_VALUES],
    longs: [u64; MINI_BLOCK_VALUES],
}

/// What of [`Scratch`] holds a mini-block.
#[derive(Debug, Clone, Copy)]
enum Unpacked {
    Zeros,
    U8,
    U16,
    U32,
    U64,
}

/// A page and the mini-block of it that is worked on.
#[derive(Debug)]
pub(super) struct ColumnReader<'p> {
    place: PagePlace,
    form: Form<'p>,
    validity: Validity<'p>,
    texts: Option<PageTexts<'p>>,
    scratch: Box<Scratch>,
    /// The mini-block that `scratch` holds, its base and where.
    current: Option<(usize, i64, Unpacked)>,
}

impl<'p> ColumnReader<'p> {
    /// Opens a page whose checksum was found right.
    pub(super) fn open(
        bytes: &'p [u8],
        value_type: ValueType,
        row_count: usize,
        place: PagePlace,
    ) -> Result<Self, PipelineError> {
        let page = Page::open_verified(bytes).map_err(|source| place.page_error(source))?;
        let expected = value_type.physical_type();
        if page.physical_type() != expected {
            return Err(place.mismatch(page.physical_type().name().to_owned(), expected.name().to_owned()));
        }
        if page.value_count() != row_count {
            return Err(place.mismatch(format!("{} values", page.value_count()), row_count.to_string()));
        }
        let (form, texts) = form_of(&page).map_err(|source| place.page_error(source))?;
        let Some(form) = form else {
            return Err(place.mismatch(format!("{:?} values", page.encoding()), "whole numbers or texts".to_owned()));
        };
        let scratch = Box::new(Scratch {
            bytes: [0; MINI_BLOCK_VALUES],
            halves: [0; MINI_BLOCK_VALUES],
            words: [0; MINI_BLOCK_VALUES],
            longs: [0; MINI_BLOCK_VALUES],
        });
        Ok(Self { place, form, validity: page.validity(), texts, scratch, current: None })
    }

    /// The page's texts, if it has texts that are not all NULL.
    pub(super) fn texts(&self) -> Option<&PageTexts<'p>> {
        self.texts.as_ref()
    }

    pub(super) fn place(&self) -> &PagePlace {
        &self.place
    }

    /// Whether values need more than 64 bits.
    pub(super) fn is_wide(&self) -> bool {
        match &self.form {
            Form::Wide(_) => true,
            Form::Constant(value) => i64::try_from(*value).is_err(),
            _ => false,
        }
    }

    /// Which values of a mini-block are not NULL; `None` if all of the page.
    pub(super) fn valid(&self, index: usize) -> Option<Mask> {
        match self.validity {
            Validity::NoneNull => None,
            Validity::AllNull => Some([0; MASK_WORDS]),
            Validity::Bitmap(bytes) => {
                let mut mask = [0; MASK_WORDS];
                let block = bytes.get(index * MINI_BLOCK_VALUES / 8..).unwrap_or_default();
                for (word, bytes) in mask.iter_mut().zip(block.chunks(8)) {
                    let mut filled = [0; 8];
                    filled[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(filled);
                }
                Some(mask)
            }
        }
    }

    /// Between which numbers the values of a mini-block are, where that is known without unpacking it.
    pub(super) fn bounds(&self, index: usize) -> Option<(i64, i64)> {
        match &self.form {
            Form::Constant(value) => i64::try_from(*value).ok().map(|value| (value, value)),
            Form::Frames(frames) => {
                let frame = frames.frame(index)?;
                let base = frame.base as i64;
                let limit = u64::MAX.checked_shr(64 - frame.differences.width()).unwrap_or(0);
                Some((base, base.checked_add_unsigned(limit)?))
            }
            _ => None,
        }
    }

    /// The values of a mini-block, which are not wide.
    pub(super) fn block(&mut self, index: usize) -> Result<Block<'_>, PipelineError> {
        let (base, unpacked) = match self.current {
            Some((current, base, unpacked)) if current == index => (base, unpacked),
            _ => {
                let (base, unpacked) =
                    self.scratch.fill(&self.form, index).map_err(|source| self.place.page_error(source))?;
                self.current = Some((index, base, unpacked));
                (base, unpacked)
            }
        };
        let words = match unpacked {
            Unpacked::Zeros => Words::Zeros,
            Unpacked::U8 => Words::U8(&self.scratch.bytes),
            Unpacked::U16 => Words::U16(&self.scratch.halves),
            Unpacked::U32 => Words::U32(&self.scratch.words),
            Unpacked::U64 => Words::U64(&self.scratch.longs),
        };
        Ok(Block { base, words })
    }

    /// The packed bits of a mini-block, if they are worth looking into one by one for so many rows.
    pub(super) fn packed(&self, index: usize, row_count: usize) -> Option<Frame<'p>> {
        let is_unpacked = self.current.is_some_and(|(current, ..)| current == index);
        match &self.form {
            Form::Frames(frames) if !is_unpacked && row_count <= SPARSE_ROWS => frames.frame(index),
            _ => None,
        }
    }

    /// Appends the values of some rows of a mini-block, which are not wide.
    pub(super) fn gather(&mut self, index: usize, rows: &[u16], values: &mut Vec<i64>) -> Result<(), PipelineError> {
        if let Some(Frame { base, differences }) = self.packed(index, rows.len()) {
            values.extend(rows.iter().map(|row| base.wrapping_add(differences.get((*row).into())) as i64));
            return Ok(());
        }
        let Block { base, words } = self.block(index)?;
        macro_rules! extend {
            ($words:expr) => {
                values.extend(
                    rows.iter().map(|row| base.wrapping_add($words[usize::from(*row) % MINI_BLOCK_VALUES] as i64)),
                )
            };
        }
        match words {
            Words::Zeros => values.extend(rows.iter().map(|_| base)),
            Words::U8(words) => extend!(words),
            Words::U16(words) => extend!(words),
            Words::U32(words) => extend!(words),
            Words::U64(words) => extend!(words),
        }
        Ok(())
    }

    /// Appends the values of some rows of a mini-block, wide or not.
    pub(super) fn gather_wide(
        &mut self,
        index: usize,
        rows: &[u16],
        values: &mut Vec<i128>,
    ) -> Result<(), PipelineError> {
        match &self.form {
            Form::Wide(plain) => {
                let block = plain.get(index * MINI_BLOCK_VALUES..).unwrap_or_default();
                let value = |row: &u16| block.get(usize::from(*row)).map_or(0, |bytes| i128::from_le_bytes(*bytes));
                values.extend(rows.iter().map(value));
            }
            Form::Constant(value) => values.extend(rows.iter().map(|_| *value)),
            _ => {
                let mut narrow = Vec::with_capacity(rows.len());
                self.gather(index, rows, &mut narrow)?;
                values.extend(narrow.into_iter().map(i128::from));
            }
        }
        Ok(())
    }
}

/// The form of a page's values, `None` if it is none of these, and its texts.
fn form_of<'p>(page: &Page<'p>) -> Result<(Option<Form<'p>>, Option<PageTexts<'p>>), PageError> {
    let physical_type = page.physical_type();
    let integers = |integers: &Integers<'p>| match integers {
        Integers::FrameOfReference(frames) => Form::Frames(*frames),
        other => Form::Integers(*other),
    };
    let signed = !matches!(physical_type, PhysicalType::UInt8 | PhysicalType::UInt16 | PhysicalType::UInt32);
    Ok(match page.body() {
        Body::AllNull => (Some(Form::AllNull), None),
        Body::Constant(text) if physical_type == PhysicalType::Text => {
            (Some(Form::Constant(0)), Some(PageTexts::Made(vec![text.to_vec()])))
        }
        Body::Constant(bytes) => (Some(Form::Constant(number(bytes, signed))), None),
        Body::Plain(bytes) if physical_type == PhysicalType::Decimal128 => {
            (Some(Form::Wide(bytes.as_chunks::<16>().0)), None)
        }
        Body::Plain(bytes) => {
            let width = physical_type.width_bytes().unwrap_or(1);
            (Some(Form::Plain { bytes, width, signed }), None)
        }
        Body::Integers(numbers) => (Some(integers(numbers)), None),
        Body::Dictionary { dictionary, codes } => (Some(integers(codes)), Some(PageTexts::Dictionary(*dictionary))),
        Body::Texts(texts) => {
            let mut coding = TextCoding::default();
            for index in 0..page.mini_block_count() {
                texts.for_each(index, |text| {
                    coding.push(text);
                    Ok(())
                })?;
            }
            coding.finish()
        }
        Body::Symbols(symbols) => {
            let mut coding = TextCoding::default();
            let mut decoded = Vec::new();
            for index in 0..page.mini_block_count() {
                symbols.encoded().for_each(index, |encoded| {
                    decoded.clear();
                    symbols.decode_text(encoded, &mut decoded)?;
                    coding.push(&decoded);
                    Ok(())
                })?;
            }
            coding.finish()
        }
        _ => (None, None),
    })
}

/// Texts on the way to codes.
#[derive(Default)]
struct TextCoding {
    /// The number of each text, in the order of their first occurrence.
    numbers: BTreeMap<Vec<u8>, u32>,
    codes: Vec<u32>,
}

impl TextCoding {
    fn push(&mut self, text: &[u8]) {
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(text) {
            Some(number) => *number,
            None => *self.numbers.entry(text.to_vec()).or_insert(next),
        };
        self.codes.push(number);
    }

    fn finish<'p>(mut self) -> (Option<Form<'p>>, Option<PageTexts<'p>>) {
        let mut sorted = vec![0; self.numbers.len()];
        for (place, number) in self.numbers.values().enumerate() {
            sorted[*number as usize] = place as u32;
        }
        for code in &mut self.codes {
            *code = sorted[*code as usize];
        }
        (Some(Form::Codes(self.codes)), Some(PageTexts::Made(self.numbers.into_keys().collect())))
    }
}

/// The whole number that little-endian bytes are.
fn number(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut filled = [if negative { 0xff } else { 0 }; 16];
    filled[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(filled)
}

impl Scratch {
    /// Unpacks a mini-block; its base, and where its words are.
    fn fill(&mut self, form: &Form<'_>, index: usize) -> Result<(i64, Unpacked), PageError> {
        let start = index * MINI_BLOCK_VALUES;
        Ok(match form {
            Form::AllNull => (0, Unpacked::Zeros),
            Form::Constant(value) => (*value as i64, Unpacked::Zeros),
            Form::Frames(frames) => {
                let Some(frame) = frames.frame(index) else { return Ok((0, Unpacked::Zeros)) };
                let bits = frame.differences;
                let unpacked = match bits.width() {
                    0 => Unpacked::Zeros,
                    1..=8 => bits.unpack(&mut self.bytes).map(|()| Unpacked::U8)?,
                    9..=16 => bits.unpack(&mut self.halves).map(|()| Unpacked::U16)?,
                    17..=32 => bits.unpack(&mut self.words).map(|()| Unpacked::U32)?,
                    _ => bits.unpack(&mut self.longs).map(|()| Unpacked::U64)?,
                };
                (frame.base as i64, unpacked)
            }
            Form::Integers(integers) => {
                integers.decode(index, &mut self.longs);
                (0, Unpacked::U64)
            }
            Form::Plain { bytes, width, signed } => {
                let block = bytes.get(start * width..).unwrap_or_default();
                for (word, bytes) in self.longs.iter_mut().zip(block.chunks_exact(*width)) {
                    *word = number(bytes, *signed) as u64;
                }
                (0, Unpacked::U64)
            }
            // Wide values are gathered alone; who asks for their words sees zeros.
            Form::Wide(_) => (0, Unpacked::Zeros),
            Form::Codes(codes) => {
                let block = codes.get(start..).unwrap_or_default();
                let count = block.len().min(MINI_BLOCK_VALUES);
                self.words[..count].copy_from_slice(&block[..count]);
                (0, Unpacked::U32)
            }
        })
    }
}
