//! How the values of a page lie in it, and a mini-block of them as words.
//!
//! **Owns**: unpacking into the smallest words that hold the values, bringing values whose order is not that of their
//! bits to ordinals. **Does not own**: which mini-blocks are looked at.
//!
//! **Invariants**: what is unpacked are the ordinals of the values, less a base.
//!
//! **Concurrency**: plain values and views.

use std::ops::Range;

use thermocline_column_store::{
    Body, DecimalFloats, Frame, FramesOfReference, Integers, MINI_BLOCK_VALUES, PackedBits, PackedRuns, Page,
    PageError, PhysicalType, RunFrame,
};

use super::coded::Coded;
use super::native::Native;
use super::page_texts::{PageTexts, TextCoding};
use crate::kernels::Words;
use crate::ordinal;

/// How values lie in the page.
#[derive(Debug)]
pub(super) enum Form<'p> {
    AllNull,
    Constant(i128),
    /// Numbers whose ordinals are greater by `bias`, modulo 2^64.
    Frames {
        frames: FramesOfReference<'p>,
        bias: i64,
    },
    /// Runs of such numbers, likewise.
    Runs {
        runs: PackedRuns<'p>,
        bias: i64,
    },
    /// Decoded to 64-bit patterns, likewise.
    Integers {
        integers: Integers<'p>,
        bias: i64,
    },
    /// Little-endian, of this many bytes, with a sign or not, likewise.
    Plain {
        bytes: &'p [u8],
        width: usize,
        signed: bool,
        bias: i64,
    },
    /// Decimals that 64 bits do not hold.
    Wide(&'p [[u8; 16]]),
    /// Codes of texts, of the rows from some mini-block on.
    Codes {
        codes: Vec<u32>,
        first_block: usize,
    },
    /// Booleans, lowest bits first.
    Bits(&'p [u8]),
    Floats {
        floats: Floats<'p>,
        width: FloatWidth,
    },
    /// An array's.
    Native(Native<'p>),
    /// Those of an array with a dictionary.
    Coded(Coded<'p>),
}

/// How floats lie in the page.
#[derive(Debug)]
pub(super) enum Floats<'p> {
    /// Little-endian.
    Plain(&'p [u8]),
    /// Their bits.
    Bits(Integers<'p>),
    Decimal(DecimalFloats<'p>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloatWidth {
    Single,
    Double,
}

impl FloatWidth {
    fn of(physical_type: PhysicalType) -> Option<Self> {
        match physical_type {
            PhysicalType::Float32 => Some(Self::Single),
            PhysicalType::Float64 => Some(Self::Double),
            _ => None,
        }
    }

    /// The ordinal of a float by its bits.
    #[inline(always)]
    fn ordinal(self, bits: u64) -> i64 {
        match self {
            Self::Single => ordinal::of_float(f32::from_bits(bits as u32).into()),
            Self::Double => ordinal::of_float(f64::from_bits(bits)),
        }
    }
}

/// The words of the mini-block that is worked on.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) bytes: [u8; MINI_BLOCK_VALUES],
    pub(super) halves: [u16; MINI_BLOCK_VALUES],
    pub(super) words: [u32; MINI_BLOCK_VALUES],
    pub(super) longs: [u64; MINI_BLOCK_VALUES],
}

/// What of [`Scratch`] holds a mini-block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unpacked {
    Zeros,
    U8,
    U16,
    U32,
    U64,
}

impl<'p> Form<'p> {
    /// Each row's number as the code of its text, of so many rows from a mini-block on.
    pub(super) fn row_numbers(row_count: usize, first_block: usize) -> Self {
        Self::Codes { codes: (0..row_count as u32).collect(), first_block }
    }

    /// The form of a page's values, `None` if it is none of these, and its texts, as far as some mini-blocks need them.
    pub(super) fn of(
        page: &Page<'p>,
        mini_blocks: Range<usize>,
    ) -> Result<(Option<Self>, Option<PageTexts<'p>>), PageError> {
        let first_block = mini_blocks.start;
        let physical_type = page.physical_type();
        let float = FloatWidth::of(physical_type);
        let bias = if physical_type == PhysicalType::UInt64 { i64::MIN } else { 0 };
        let integers = |integers: &Integers<'p>| match integers {
            Integers::FrameOfReference(frames) => Self::Frames { frames: *frames, bias },
            Integers::PackedRuns(runs) => Self::Runs { runs: *runs, bias },
            other => Self::Integers { integers: *other, bias },
        };
        let coded = |coding: TextCoding| {
            let (codes, texts) = coding.finish();
            (Some(Self::Codes { codes, first_block }), Some(texts))
        };
        let form = match (page.body(), float) {
            (Body::AllNull, _) => Self::AllNull,
            (Body::Constant(text), _) if physical_type == PhysicalType::Text => {
                return Ok((Some(Self::Constant(0)), Some(PageTexts::Made(vec![text.to_vec()]))));
            }
            (Body::Constant(bytes), Some(width)) => Self::Constant(width.ordinal(number(bytes, false) as u64).into()),
            (Body::Constant(bytes), None) => Self::Constant(number(bytes, is_signed(physical_type)) + i128::from(bias)),
            (Body::Plain(bytes), Some(width)) => Self::Floats { floats: Floats::Plain(bytes), width },
            (Body::Plain(bytes), None) if physical_type == PhysicalType::Decimal128 => {
                Self::Wide(bytes.as_chunks::<16>().0)
            }
            (Body::Plain(bytes), None) => {
                let width = physical_type.width_bytes().unwrap_or(1);
                Self::Plain { bytes, width, signed: is_signed(physical_type), bias }
            }
            (Body::Integers(numbers), Some(width)) => Self::Floats { floats: Floats::Bits(*numbers), width },
            (Body::Integers(numbers), None) => integers(numbers),
            (Body::DecimalFloats(floats), Some(width)) => Self::Floats { floats: Floats::Decimal(*floats), width },
            (Body::Bits(bits), _) => Self::Bits(bits),
            (Body::Dictionary { dictionary, codes }, _) => {
                return Ok((Some(integers(codes)), Some(PageTexts::Dictionary(*dictionary))));
            }
            (Body::Texts(texts), _) => {
                let mut coding = TextCoding::default();
                for index in mini_blocks {
                    texts.for_each(index, |text| {
                        coding.push(text);
                        Ok(())
                    })?;
                }
                return Ok(coded(coding));
            }
            (Body::Symbols(symbols), _) => {
                let mut coding = TextCoding::default();
                let mut decoded = Vec::new();
                for index in mini_blocks {
                    symbols.encoded().for_each(index, |encoded| {
                        decoded.clear();
                        symbols.decode_text(encoded, &mut decoded)?;
                        coding.push(&decoded);
                        Ok(())
                    })?;
                }
                return Ok(coded(coding));
            }
            _ => return Ok((None, None)),
        };
        Ok((Some(form), None))
    }

    /// A mini-block's packed values, if they are packed.
    #[inline(always)]
    pub(super) fn frame(&self, index: usize) -> Option<Frame<'p>> {
        let Self::Frames { frames, bias } = self else { return None };
        let Frame { base, differences } = frames.frame(index)?;
        Some(Frame { base: base.wrapping_add(*bias as u64), differences })
    }

    /// A mini-block's packed runs, if it has them.
    #[inline(always)]
    pub(super) fn run_frame(&self, index: usize) -> Option<RunFrame<'p>> {
        let Self::Runs { runs, bias } = self else { return None };
        let mut frame = runs.frame(index)?;
        frame.base = frame.base.wrapping_add(*bias as u64);
        Some(frame)
    }

    /// A mini-block's packed bits, of values or of runs, and what is added to each.
    #[inline(always)]
    pub(super) fn packed(&self, index: usize) -> Option<(u64, PackedBits<'p>)> {
        match self {
            Self::Frames { .. } => self.frame(index).map(|frame| (frame.base, frame.differences)),
            Self::Runs { .. } => self.run_frame(index).map(|frame| (frame.base, frame.differences)),
            _ => None,
        }
    }
}

fn is_signed(physical_type: PhysicalType) -> bool {
    use PhysicalType::{Boolean, UInt8, UInt16, UInt32, UInt64};
    !matches!(physical_type, Boolean | UInt8 | UInt16 | UInt32 | UInt64)
}

/// The whole number that little-endian bytes are.
fn number(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut filled = [if negative { 0xff } else { 0 }; 16];
    filled[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(filled)
}

impl Scratch {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            bytes: [0; MINI_BLOCK_VALUES],
            halves: [0; MINI_BLOCK_VALUES],
            words: [0; MINI_BLOCK_VALUES],
            longs: [0; MINI_BLOCK_VALUES],
        })
    }

    /// Unpacks a mini-block; its base, and where its words are.
    pub(super) fn fill(&mut self, form: &Form<'_>, index: usize) -> Result<(i64, Unpacked), PageError> {
        let start = index * MINI_BLOCK_VALUES;
        Ok(match form {
            Form::AllNull => (0, Unpacked::Zeros),
            Form::Constant(value) => (*value as i64, Unpacked::Zeros),
            Form::Frames { .. } => {
                let Some(frame) = form.frame(index) else { return Ok((0, Unpacked::Zeros)) };
                (frame.base as i64, self.fill_bits(frame.differences)?)
            }
            Form::Runs { .. } => {
                let Some(frame) = form.run_frame(index) else { return Ok((0, Unpacked::Zeros)) };
                let unpacked = match frame.differences.width() {
                    0 => Unpacked::Zeros,
                    1..=8 => frame.unpack(&mut self.bytes).map(|()| Unpacked::U8)?,
                    9..=16 => frame.unpack(&mut self.halves).map(|()| Unpacked::U16)?,
                    17..=32 => frame.unpack(&mut self.words).map(|()| Unpacked::U32)?,
                    _ => frame.unpack(&mut self.longs).map(|()| Unpacked::U64)?,
                };
                (frame.base as i64, unpacked)
            }
            Form::Integers { integers, bias } => {
                integers.decode(index, &mut self.longs);
                (*bias, Unpacked::U64)
            }
            Form::Plain { bytes, width, signed, bias } => {
                let block = bytes.get(start * width..).unwrap_or_default();
                for (word, bytes) in self.longs.iter_mut().zip(block.chunks_exact(*width)) {
                    *word = number(bytes, *signed) as u64;
                }
                (*bias, Unpacked::U64)
            }
            Form::Bits(bits) => {
                let block = bits.get(start / 8..).unwrap_or_default();
                for (bytes, bits) in self.bytes.chunks_mut(8).zip(block) {
                    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = bits >> at & 1);
                }
                (0, Unpacked::U8)
            }
            Form::Floats { floats, width } => {
                self.fill_floats(floats, *width, index);
                (0, Unpacked::U64)
            }
            Form::Native(native) => native.fill(index, self),
            Form::Coded(coded) => coded.fill(index, self),
            // Wide values are gathered alone; who asks for their words sees zeros.
            Form::Wide(_) => (0, Unpacked::Zeros),
            Form::Codes { codes, first_block } => {
                let block = codes.get(start.wrapping_sub(first_block * MINI_BLOCK_VALUES)..).unwrap_or_default();
                let count = block.len().min(MINI_BLOCK_VALUES);
                self.words[..count].copy_from_slice(&block[..count]);
                (0, Unpacked::U32)
            }
        })
    }

    /// Unpacks bits into the smallest words that hold them; which.
    pub(super) fn fill_bits(&mut self, bits: PackedBits<'_>) -> Result<Unpacked, PageError> {
        Ok(match bits.width() {
            0 => Unpacked::Zeros,
            1..=8 => bits.unpack(&mut self.bytes).map(|()| Unpacked::U8)?,
            9..=16 => bits.unpack(&mut self.halves).map(|()| Unpacked::U16)?,
            17..=32 => bits.unpack(&mut self.words).map(|()| Unpacked::U32)?,
            _ => bits.unpack(&mut self.longs).map(|()| Unpacked::U64)?,
        })
    }

    /// What was unpacked.
    pub(super) fn words(&self, unpacked: Unpacked) -> Words<'_> {
        match unpacked {
            Unpacked::Zeros => Words::Zeros,
            Unpacked::U8 => Words::U8(&self.bytes),
            Unpacked::U16 => Words::U16(&self.halves),
            Unpacked::U32 => Words::U32(&self.words),
            Unpacked::U64 => Words::U64(&self.longs),
        }
    }

    /// Floats as ordinals.
    #[inline(never)]
    fn fill_floats(&mut self, floats: &Floats<'_>, width: FloatWidth, index: usize) {
        match (floats, width) {
            (Floats::Plain(bytes), _) => {
                let bytes_each = if width == FloatWidth::Single { 4 } else { 8 };
                let block = bytes.get(index * MINI_BLOCK_VALUES * bytes_each..).unwrap_or_default();
                for (word, bytes) in self.longs.iter_mut().zip(block.chunks_exact(bytes_each)) {
                    *word = width.ordinal(number(bytes, false) as u64) as u64;
                }
            }
            (Floats::Bits(bits), _) => {
                bits.decode(index, &mut self.longs);
                self.longs.iter_mut().for_each(|word| *word = width.ordinal(*word) as u64);
            }
            (Floats::Decimal(decimals), FloatWidth::Single) => {
                let mut values = [0f32; MINI_BLOCK_VALUES];
                decimals.decode(index, &mut values);
                for (word, value) in self.longs.iter_mut().zip(values) {
                    *word = ordinal::of_float(value.into()) as u64;
                }
            }
            (Floats::Decimal(decimals), FloatWidth::Double) => {
                let mut values = [0f64; MINI_BLOCK_VALUES];
                decimals.decode(index, &mut values);
                for (word, value) in self.longs.iter_mut().zip(values) {
                    *word = ordinal::of_float(value) as u64;
                }
            }
        }
    }
}
