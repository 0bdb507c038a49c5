//! Runs of equal values and runs of packed ones, one after the other: how pages store levels and dictionary codes.
//!
//! **Concurrency**: a reader belongs to one thread.
//!
//! **Format**: Apache Parquet, *Encodings*, "Run Length Encoding / Bit-Packing Hybrid".

use std::ops::BitOr;

use arrow::datatypes::ArrowNativeType;
use bytes::Bytes;

use crate::ChunkError;

/// What codes are read as.
pub(crate) trait Code: ArrowNativeType + BitOr<Output = Self> {
    const BITS: u32;

    /// The lowest bits of a word.
    fn of(word: u64) -> Self;

    /// By how much it is greater than the last one; 0 if it is not.
    fn beyond(self, last: Self) -> Self;
}

macro_rules! code {
    ($native:ty) => {
        impl Code for $native {
            const BITS: u32 = <$native>::BITS;

            #[inline(always)]
            fn of(word: u64) -> Self {
                word as Self
            }

            #[inline(always)]
            fn beyond(self, last: Self) -> Self {
                self.saturating_sub(last)
            }
        }
    };
}

code!(u16);
code!(u32);

/// What is left of such a sequence.
#[derive(Debug, Clone)]
pub(crate) struct Hybrid {
    bytes: Bytes,
    /// Bits of a value.
    width: u32,
    /// Of the next run's beginning.
    next_run: usize,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Equal {
        value: u64,
        left: usize,
    },
    /// From this bit of all bytes on.
    Packed {
        bit: usize,
        left: usize,
    },
}

impl Hybrid {
    /// The sequence of values of `width` bits in `bytes`.
    pub(crate) fn new(bytes: Bytes, width: u32) -> Result<Self, ChunkError> {
        if width > 32 {
            return Err(ChunkError::damaged(format!("values of {width} bits, expected 32 at most")));
        }
        Ok(Self { bytes, width, next_run: 0, run: Run::Equal { value: 0, left: 0 } })
    }

    /// Appends the next `count` values.
    ///
    /// # Errors
    /// Damaged bytes; a value that is none of `C`.
    pub(crate) fn read<C: Code>(&mut self, count: usize, to: &mut Vec<C>) -> Result<(), ChunkError> {
        if self.width > C::BITS {
            return self.read_wide(count, to);
        }
        let mut missing = count;
        while missing > 0 {
            let taken = self.take(missing)?;
            match taken {
                Run::Equal { value, left } => to.resize(to.len() + left, C::of(value)),
                Run::Packed { bit, left } => unpack(&self.bytes, bit, self.width, left, to),
            }
            missing -= taken.len();
        }
        Ok(())
    }

    /// The same of values that may be wider than `C`, which hardly any writer makes: the bits that it lacks would be
    /// those that tell a code that there is not from one that there is.
    fn read_wide<C: Code>(&mut self, count: usize, to: &mut Vec<C>) -> Result<(), ChunkError> {
        let mut wide: Vec<u32> = Vec::with_capacity(count);
        self.read(count, &mut wide)?;
        to.reserve(count);
        for code in wide {
            let narrow = C::from_usize(code as usize);
            to.push(narrow.ok_or_else(|| {
                ChunkError::damaged(format!("the code {code} of a dictionary of at most {} values", 1u64 << C::BITS))
            })?);
        }
        Ok(())
    }

    /// Leaves out the next `count` values.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), ChunkError> {
        let mut missing = count;
        while missing > 0 {
            missing -= self.take(missing)?.len();
        }
        Ok(())
    }

    /// The next values of one run, `most` at most and one at least.
    fn take(&mut self, most: usize) -> Result<Run, ChunkError> {
        while self.run.len() == 0 {
            self.run = self.begin_run()?;
        }
        let width = self.width as usize;
        let count = self.run.len().min(most);
        Ok(match &mut self.run {
            Run::Equal { value, left } => {
                *left -= count;
                Run::Equal { value: *value, left: count }
            }
            Run::Packed { bit, left } => {
                let begin = *bit;
                *bit += count * width;
                *left -= count;
                Run::Packed { bit: begin, left: count }
            }
        })
    }

    fn begin_run(&mut self) -> Result<Run, ChunkError> {
        let header = self.header()?;
        let rest = self.bytes.len() - self.next_run;
        if header & 1 == 0 {
            let width_bytes = self.width.div_ceil(8) as usize;
            let Some(stored) = self.bytes.get(self.next_run..self.next_run + width_bytes) else {
                return Err(ends_in_a_run());
            };
            let mut word = [0; 8];
            word[..width_bytes].copy_from_slice(stored);
            self.next_run += width_bytes;
            let left = usize::try_from(header >> 1).map_err(|_| ends_in_a_run())?;
            return Ok(Run::Equal { value: u64::from_le_bytes(word), left });
        }
        let groups = usize::try_from(header >> 1).map_err(|_| ends_in_a_run())?;
        let bit = self.next_run * 8;
        if self.width == 0 {
            return Ok(Run::Equal { value: 0, left: groups.saturating_mul(8) });
        }
        // The last run may lack the bytes that nobody reads.
        let size_bytes = groups.saturating_mul(self.width as usize).min(rest);
        self.next_run += size_bytes;
        let there = size_bytes * 8 / self.width as usize;
        Ok(Run::Packed { bit, left: groups.saturating_mul(8).min(there) })
    }

    /// A number of seven bits a byte, the lowest first.
    fn header(&mut self) -> Result<u64, ChunkError> {
        let mut header = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.bytes.get(self.next_run).ok_or_else(ends_in_a_run)?;
            self.next_run += 1;
            header |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(header);
            }
        }
        Err(ChunkError::damaged("the length of a run has more than 63 bits"))
    }
}

impl Run {
    fn len(self) -> usize {
        match self {
            Self::Equal { left, .. } | Self::Packed { left, .. } => left,
        }
    }
}

fn ends_in_a_run() -> ChunkError {
    ChunkError::damaged("a page ends before its values do")
}

/// Appends `count` values of `width` bits, 1 to 32, which begin at a bit of `bytes` and end within them.
fn unpack<C: Code>(bytes: &[u8], bit: usize, width: u32, count: usize, to: &mut Vec<C>) {
    to.reserve(count);
    let (mut bit, mut count) = (bit, count);
    if bit.is_multiple_of(8) {
        let groups = count / GROUP_VALUES;
        let done = unpack_groups(&bytes[bit / 8..], width, groups, to) * GROUP_VALUES;
        bit += done * width as usize;
        count -= done;
    }
    let width = width as usize;
    let mask = (1u64 << width) - 1;
    // Words of eight bytes hold any value that begins in their first one; the last few need zeros behind them.
    let whole = bytes.len().saturating_sub(8) * 8;
    let fast = count.min(whole.saturating_sub(bit).div_ceil(width));
    to.extend((0..fast).map(|at| {
        let first = bit + at * width;
        let word = bytes[first / 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        C::of(word >> (first % 8) & mask)
    }));
    to.extend((fast..count).map(|at| {
        let first = bit + at * width;
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes.get(first / 8..).unwrap_or_default()) {
            *to = *from;
        }
        C::of(u64::from_le_bytes(word) >> (first % 8) & mask)
    }));
}

/// Values that begin and end with a byte whatever their width.
const GROUP_VALUES: usize = 8;

/// Appends the values of up to so many groups, the first of which `bytes` begins with; how many groups. The last one may
/// be left, as words are read over its end.
fn unpack_groups<C: Code>(bytes: &[u8], width: u32, groups: usize, to: &mut Vec<C>) -> usize {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_groups_of::<C, $width>(bytes, groups, to),)*
                _ => 0,
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

/// The same of one width: places and shifts are constants.
fn unpack_groups_of<C: Code, const WIDTH: usize>(bytes: &[u8], groups: usize, to: &mut Vec<C>) -> usize {
    let mask = (1u64 << WIDTH) - 1;
    // Each with the bytes of the last value's word.
    let whole = groups.min(bytes.len().saturating_sub(8) / WIDTH);
    for group in 0..whole {
        let bytes = &bytes[group * WIDTH..][..WIDTH + 8];
        let values: [C; GROUP_VALUES] = std::array::from_fn(|at| {
            let first = at * WIDTH;
            let word = bytes[first / 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            C::of(word >> (first % 8) & mask)
        });
        to.extend_from_slice(&values);
    }
    whole
}

impl Hybrid {
    /// The next `count` values of one bit, as bits; `None` if all are 1.
    pub(crate) fn read_bits(&mut self, count: usize) -> Result<Option<arrow::buffer::BooleanBuffer>, ChunkError> {
        let mut bits = arrow::array::BooleanBufferBuilder::new(count);
        let mut all_set = true;
        while bits.len() < count {
            match self.take(count - bits.len())? {
                Run::Equal { value, left } => {
                    all_set &= value == 1;
                    bits.append_n(left, value == 1);
                }
                Run::Packed { bit, left } => {
                    all_set = false;
                    bits.append_packed_range(bit..bit + left, &self.bytes);
                }
            }
        }
        Ok((!all_set).then(|| bits.finish()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_is_longer_than_what_it_is_read_as_is_an_error() {
        for width in 17..=32 {
            // One run of three equal values.
            let run = |code: u32| {
                let mut bytes = vec![3 << 1];
                bytes.extend_from_slice(&code.to_le_bytes()[..width as usize / 8 + usize::from(width % 8 > 0)]);
                let mut read = Vec::<u16>::new();
                Hybrid::new(bytes.into(), width).unwrap().read(3, &mut read).map(|()| read)
            };
            // Eight packed values, of which the first is not 0.
            let packed = |code: u32| {
                let mut bytes = vec![1 << 1 | 1];
                bytes.extend_from_slice(&u64::from(code).to_le_bytes());
                bytes.resize(1 + width as usize, 0);
                let mut read = Vec::<u16>::new();
                Hybrid::new(bytes.into(), width).unwrap().read(1, &mut read).map(|()| read)
            };
            assert_eq!(run(65_535).unwrap(), [65_535; 3], "{width} bits");
            assert_eq!(packed(65_535).unwrap(), [65_535], "{width} bits");
            for error in [run(65_536 + 7).unwrap_err(), packed(65_536 + 7).unwrap_err()] {
                let expected = "the code 65543 of a dictionary of at most 65536 values";
                assert_eq!(error.to_string(), expected, "{width} bits");
            }
        }
    }
}
