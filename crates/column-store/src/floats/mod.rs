//! Decimal floats: floating-point numbers that were decimals, as whole numbers over a power of ten.
//!
//! **Owns**: the choice of the power, scaling and its reverse, exceptions. **Does not own**: the whole numbers
//! (`integers`).
//!
//! **Invariants**: a value is scaled only if the quotient gives back its very bits; zeros with a sign, NaNs, infinities
//! and whatever has too many digits are exceptions. Powers up to 10^22 are exact in 64 bits.
//!
//! **Concurrency**: plain functions and views.
//!
//! Sections 4 and 5 beside the whole numbers: the index of the first exception of each mini-block and the number of
//! exceptions (4 bytes each), then the exceptions' places in their mini-blocks (2 bytes each); the exceptions' bits.
//!
//! **Paper**: Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point Compression" (SIGMOD 2024), §3.1.
//! Deviations: the whole number is divided by the power, not multiplied by an inexact inverse, so that every decimal of
//! up to 15 digits comes back, which needs no second exponent; one power for a page, from a sample; floats that are no
//! decimals are left to the other encodings (no ALP_rd).

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use crate::bit_packing::width_of;
use crate::integers::{Integers, Section, mini_block_count};
use crate::{MINI_BLOCK_VALUES, PageError};

/// The greatest power of ten.
pub(crate) const MAX_EXPONENT: usize = POWERS.len() - 1;
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
/// Adding and subtracting this rounds a float of less than [`EXACT_BELOW`] to a whole number, to the even one of two.
const ROUNDING: f64 = 1.5 * (1u64 << 52) as f64;
/// Whole numbers below this are exact as 64-bit floats, and so is their conversion.
const EXACT_BELOW: f64 = (1u64 << 51) as f64;
/// Values by which the power is chosen.
const SAMPLE_VALUES: usize = 512;
/// Neighbours of which the sample is made.
const SAMPLE_RUN_VALUES: usize = 32;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A float of 32 or 64 bits.
pub trait Float: Copy + Default + sealed::Sealed + 'static {
    /// Bytes of its bits.
    const BYTES: usize;
    #[doc(hidden)]
    fn from_pattern(bits: u64) -> Self;
    #[doc(hidden)]
    fn pattern(self) -> u64;
    #[doc(hidden)]
    fn to_double(self) -> f64;
    #[doc(hidden)]
    fn from_double(value: f64) -> Self;
}

impl Float for f64 {
    const BYTES: usize = 8;
    fn from_pattern(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    fn pattern(self) -> u64 {
        self.to_bits()
    }
    fn to_double(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_double(value: f64) -> Self {
        value
    }
}

impl Float for f32 {
    const BYTES: usize = 4;
    fn from_pattern(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    fn pattern(self) -> u64 {
        u64::from(self.to_bits())
    }
    fn to_double(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_double(value: f64) -> Self {
        value as Self
    }
}

/// The float that a whole number stands for.
#[inline(always)]
fn unscaled<F: Float>(number: i64, power: f64) -> F {
    F::from_double(number as f64 / power)
}

/// The whole number that stands for a float, if there is one.
fn scaled<F: Float>(value: F, power: f64) -> Option<i64> {
    let number = (value.to_double() * power + ROUNDING) - ROUNDING;
    // Also false for NaN.
    if number.abs() < EXACT_BELOW {
        let number = number as i64;
        (unscaled::<F>(number, power).pattern() == value.pattern()).then_some(number)
    } else {
        None
    }
}

/// Floats of a page, scaled.
#[derive(Debug)]
pub(crate) struct ScaledFloats {
    /// The power of ten.
    pub(crate) exponent: u8,
    /// The whole numbers; an exception repeats the one before.
    pub(crate) numbers: Vec<u64>,
    /// Section 4.
    pub(crate) places: Vec<u8>,
    /// Section 5.
    pub(crate) exceptions: Vec<u8>,
}

/// Scales floats given as bits (not empty); `None` if a sample has a greater share of exceptions than
/// `most_exceptions`.
pub(crate) fn scale<F: Float>(patterns: &[u64], most_exceptions: f64) -> Option<ScaledFloats> {
    let exponent = best_exponent::<F>(patterns, most_exceptions)?;
    let power = POWERS[exponent];
    let mut numbers: Vec<u64> = Vec::with_capacity(patterns.len());
    let (mut starts, mut places, mut exceptions) = (Vec::new(), Vec::new(), Vec::new());
    let scaled_at = |pattern: &u64| scaled(F::from_pattern(*pattern), power);
    let mut last = patterns.iter().find_map(scaled_at).unwrap_or(0);
    for block in patterns.chunks(MINI_BLOCK_VALUES) {
        starts.extend_from_slice(&((places.len() / 2) as u32).to_le_bytes());
        for (index, pattern) in block.iter().enumerate() {
            if let Some(number) = scaled_at(pattern) {
                last = number;
            } else {
                places.extend_from_slice(&(index as u16).to_le_bytes());
                exceptions.extend_from_slice(&pattern.to_le_bytes()[..F::BYTES]);
            }
            numbers.push(last as u64);
        }
    }
    starts.extend_from_slice(&((places.len() / 2) as u32).to_le_bytes());
    starts.append(&mut places);
    Some(ScaledFloats { exponent: exponent as u8, numbers, places: starts, exceptions })
}

/// The power of ten by which a sample takes the fewest bits, of those with few enough exceptions.
fn best_exponent<F: Float>(patterns: &[u64], most_exceptions: f64) -> Option<usize> {
    // Every so many runs of neighbours: single values at equal distances would all be multiples of ten in some columns.
    let step = patterns.len().div_ceil(SAMPLE_VALUES);
    let runs = patterns.chunks(SAMPLE_RUN_VALUES).step_by(step);
    let sample: Vec<F> = runs.flatten().map(|pattern| F::from_pattern(*pattern)).collect();
    let bits = |exponent: usize| {
        let (mut least, mut greatest, mut exception_count) = (i64::MAX, i64::MIN, 0);
        for value in &sample {
            match scaled(*value, POWERS[exponent]) {
                Some(number) => {
                    least = least.min(number);
                    greatest = greatest.max(number);
                }
                None => exception_count += 1,
            }
        }
        let exact_count = sample.len() - exception_count;
        let width = if exact_count == 0 { 0 } else { width_of(greatest.abs_diff(least)) as usize };
        let few = exception_count as f64 <= sample.len() as f64 * most_exceptions;
        few.then_some((sample.len() * width + exception_count * (F::BYTES * 8 + 16), exponent))
    };
    (0..=MAX_EXPONENT).filter_map(bits).min().map(|(_, exponent)| exponent)
}

/// Floats as whole numbers over a power of ten, with exceptions.
#[derive(Debug, Clone, Copy)]
pub struct DecimalFloats<'a> {
    numbers: Integers<'a>,
    exponent: usize,
    starts: &'a [[u8; 4]],
    places: &'a [[u8; 2]],
    exceptions: &'a [u8],
}

impl<'a> DecimalFloats<'a> {
    /// `bytes_each` are those of a float.
    pub(crate) fn open(
        numbers: Integers<'a>,
        exponent: usize,
        places: Section<'a>,
        exceptions: Section<'a>,
        value_count: usize,
        bytes_each: usize,
    ) -> Result<Self, PageError> {
        let block_count = mini_block_count(value_count);
        let count = exceptions.bytes.len() / bytes_each;
        exceptions.expect_length("the exceptions", count * bytes_each)?;
        places.expect_length("the places of exceptions", (block_count + 1) * 4 + count * 2)?;
        let (starts, place_bytes) = places.bytes.split_at((block_count + 1) * 4);
        let starts = starts.as_chunks::<4>().0;
        let place_section = Section { offset: places.offset + (starts.len() * 4) as u64, bytes: place_bytes };
        let opened =
            Self { numbers, exponent, starts, places: place_bytes.as_chunks::<2>().0, exceptions: exceptions.bytes };
        let mut last = 0;
        for (index, start) in starts.iter().enumerate() {
            let start = u32::from_le_bytes(*start) as usize;
            let least = if index == block_count { count } else { last };
            let greatest = if index == 0 { 0 } else { count };
            if start < least || start > greatest {
                let expected = format!("{least} to {greatest}");
                return Err(places.field("the first exception of a mini-block", index * 4, start as u64, expected));
            }
            last = start;
        }
        for block in 0..block_count {
            let end = (value_count - block * MINI_BLOCK_VALUES).min(MINI_BLOCK_VALUES);
            for exception in opened.of_block(block) {
                let place = usize::from(u16::from_le_bytes(opened.places[exception]));
                if place >= end {
                    let expected = format!("less than {end}");
                    return Err(place_section.field(
                        "the place of an exception",
                        exception * 2,
                        place as u64,
                        expected,
                    ));
                }
            }
        }
        Ok(opened)
    }

    fn of_block(&self, index: usize) -> std::ops::Range<usize> {
        match self.starts.get(index..=index + 1) {
            Some([start, end]) => u32::from_le_bytes(*start) as usize..u32::from_le_bytes(*end) as usize,
            _ => 0..0,
        }
    }

    /// The whole numbers, signed; of exceptions they mean nothing.
    pub fn numbers(&self) -> &Integers<'a> {
        &self.numbers
    }

    /// What the whole numbers are divided by: a power of ten.
    pub fn divisor(&self) -> f64 {
        POWERS[self.exponent]
    }

    /// The exceptions of mini-block `index`: where each is in it, and its bits. A mini-block that is not there has
    /// none.
    pub fn exceptions(&self, index: usize) -> impl Iterator<Item = (usize, u64)> {
        let bytes_each = self.exceptions.len().checked_div(self.places.len()).unwrap_or(0);
        self.of_block(index).map(move |exception| {
            let mut bits = [0; 8];
            bits[..bytes_each].copy_from_slice(&self.exceptions[exception * bytes_each..][..bytes_each]);
            (usize::from(u16::from_le_bytes(self.places[exception])), u64::from_le_bytes(bits))
        })
    }

    /// Decodes mini-block `index` into `values`, which are of the page's width: as [`Integers::decode`] does.
    pub fn decode<F: Float>(&self, index: usize, values: &mut [F]) {
        if index >= self.starts.len() - 1 {
            return;
        }
        let mut numbers = [0i64; MINI_BLOCK_VALUES];
        self.numbers.decode(index, &mut numbers);
        let power = self.divisor();
        for (value, number) in values.iter_mut().zip(&numbers) {
            *value = unscaled(*number, power);
        }
        for (place, bits) in self.exceptions(index) {
            if let Some(value) = values.get_mut(place) {
                *value = F::from_pattern(bits);
            }
        }
    }
}
