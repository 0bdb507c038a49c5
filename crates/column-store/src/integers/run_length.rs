//! Run-length: each run of equal values once, with its end. Runs end with their mini-block.
//!
//! Sections: the page's least value (8 bytes), then the index of the first run of each mini-block and the number of all
//! runs (4 bytes each); the runs' ends, counted from the start of their mini-block (2 bytes each); the runs' values
//! less the page's least, in 1, 2, 4 or 8 bytes each, whichever holds all.

use std::ops::Range;

use super::{INTEGER_SECTIONS, Native, Section, frame_of_reference, mini_block_count};
use crate::{MINI_BLOCK_VALUES, PageError};

/// Bytes of a run's value if the values' range is this.
pub(super) fn value_bytes(range: u64) -> usize {
    match range {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

pub(super) fn write(values: &[u64], signed: bool, sections: &mut [Vec<u8>; INTEGER_SECTIONS]) {
    let [directory, ends, run_values] = sections;
    let (base, range) = frame_of_reference::frame(values, signed);
    let width = value_bytes(range);
    directory.extend_from_slice(&base.to_le_bytes());
    for block in values.chunks(MINI_BLOCK_VALUES) {
        directory.extend_from_slice(&((ends.len() / 2) as u32).to_le_bytes());
        let mut end = 0;
        for run in block.chunk_by(|left, right| left == right) {
            end += run.len();
            ends.extend_from_slice(&(end as u16).to_le_bytes());
            run_values.extend_from_slice(&run[0].wrapping_sub(base).to_le_bytes()[..width]);
        }
    }
    directory.extend_from_slice(&((ends.len() / 2) as u32).to_le_bytes());
}

/// Whole numbers as runs.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a> {
    base: u64,
    starts: &'a [[u8; 4]],
    ends: &'a [[u8; 2]],
    values: &'a [u8],
    value_bytes: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn open(sections: [Section<'a>; INTEGER_SECTIONS], value_count: usize) -> Result<Self, PageError> {
        let [directory, ends, values] = sections;
        let block_count = mini_block_count(value_count);
        directory.expect_length("the directory of runs", 8 + (block_count + 1) * 4)?;
        let run_count = ends.bytes.len() / 2;
        ends.expect_length("the ends of runs", run_count * 2)?;
        let widths = [1, 2, 4, 8];
        let Some(value_bytes) = widths.into_iter().find(|width| run_count * width == values.bytes.len()) else {
            let expected = format!("{run_count} times 1, 2, 4 or 8");
            return Err(values.field("the length of the runs' values", 0, values.bytes.len() as u64, expected));
        };
        let (base, starts) = directory.bytes.split_at(8);
        let base = u64::from_le_bytes(std::array::from_fn(|index| base[index]));
        let runs = Self {
            base,
            starts: starts.as_chunks::<4>().0,
            ends: ends.bytes.as_chunks::<2>().0,
            values: values.bytes,
            value_bytes,
        };
        let mut last_start = 0;
        for (index, start) in runs.starts.iter().enumerate() {
            let start = u32::from_le_bytes(*start) as usize;
            let right = match index {
                0 => start == 0,
                _ if index == block_count => start == run_count,
                _ => start <= run_count,
            };
            if !right || start < last_start {
                let expected = format!("{last_start} to {run_count}, from 0 to all of them");
                return Err(directory.field("the first run of a mini-block", 8 + index * 4, start as u64, expected));
            }
            last_start = start;
        }
        for block in 0..block_count {
            let expected_end = (value_count - block * MINI_BLOCK_VALUES).min(MINI_BLOCK_VALUES);
            let mut last_end = 0;
            for run in runs.of_block(block) {
                let end = usize::from(u16::from_le_bytes(runs.ends[run]));
                if end <= last_end || end > expected_end {
                    let expected = format!("{} to {expected_end}", last_end + 1);
                    return Err(ends.field("the end of a run", run * 2, end as u64, expected));
                }
                last_end = end;
            }
            if last_end != expected_end {
                let at = runs.of_block(block).end * 2;
                return Err(ends.field("the end of the last run", at, last_end as u64, expected_end.to_string()));
            }
        }
        Ok(runs)
    }

    /// Indexes of the runs of a mini-block; none if it is not there.
    fn of_block(&self, index: usize) -> Range<usize> {
        match self.starts.get(index..=index + 1) {
            Some([start, end]) => u32::from_le_bytes(*start) as usize..u32::from_le_bytes(*end) as usize,
            _ => 0..0,
        }
    }

    /// How many runs there are.
    pub fn run_count(&self) -> usize {
        self.ends.len()
    }

    /// The runs of mini-block `index`: where each ends, counted from the mini-block's start, and its value as a 64-bit
    /// pattern. A mini-block that is not there has none.
    pub fn runs(&self, index: usize) -> impl Iterator<Item = (usize, u64)> {
        self.of_block(index).map(|run| {
            let end = usize::from(u16::from_le_bytes(self.ends[run]));
            let mut value = [0; 8];
            value[..self.value_bytes].copy_from_slice(&self.values[run * self.value_bytes..][..self.value_bytes]);
            (end, self.base.wrapping_add(u64::from_le_bytes(value)))
        })
    }

    pub(super) fn decode<N: Native>(&self, index: usize, values: &mut [N]) {
        let mut start = 0;
        for (end, value) in self.runs(index) {
            let Some(run) = values.get_mut(start..end) else {
                return values[start..].fill(N::from_pattern(value));
            };
            run.fill(N::from_pattern(value));
            start = end;
        }
    }
}
