//! Packed runs: each run of equal values once, packed as in a frame of reference, and for each value a bit that says
//! whether a run starts there. Runs end with their mini-block.
//!
//! Sections: the least value of each mini-block (8 bytes each), then the ends of what is packed (4 bytes each, one more
//! than there are mini-blocks, in units of 128 bytes), then the bits of a run's value (1 byte for each mini-block); the
//! bits that say where runs start, 128 bytes for each mini-block, lowest bits first, zeros past the end; of each
//! mini-block its runs' values less the least one, packed as the first values of a mini-block of their own.
//!
//! Made for the short runs that facts have which were written in groups: the lines of an order, the readings of a
//! device. A run takes a few bits more than its value, and values are looked up by how many runs have started
//! before them: there is no loop over runs whose length a processor would have to guess.

use super::{INTEGER_SECTIONS, Native, Section, frame_of_reference, mini_block_count};
use crate::bit_packing::{WithUnpacked, count_ones, first_values_bytes, pack_first, prefetch, width_of};
use crate::{BYTES_PER_WIDTH, MINI_BLOCK_VALUES, PackedBits, PageError, Word};

/// Bytes of a bit for each value of a mini-block.
const START_BYTES: usize = MINI_BLOCK_VALUES / 8;
/// 64-bit words of the same.
const START_WORDS: usize = START_BYTES / 8;
/// Mini-blocks whose runs are counted together when a page is opened.
const COUNTED_TOGETHER: usize = 64;

/// Bytes of the sections if the runs' values take so many.
pub(super) fn size_bytes(block_count: usize, packed_bytes: usize) -> usize {
    block_count * (8 + 4 + 1 + START_BYTES) + 4 + packed_bytes
}

pub(super) fn write(values: &[u64], signed: bool, sections: &mut [Vec<u8>; INTEGER_SECTIONS]) {
    let [directory, starts, packed] = sections;
    let (mut ends, mut widths) = (vec![0; 4], Vec::new());
    for block in values.chunks(MINI_BLOCK_VALUES) {
        let (base, range) = frame_of_reference::frame(block, signed);
        let width = width_of(range);
        let mut run_starts = [0u64; START_WORDS];
        let mut run_values = [0; MINI_BLOCK_VALUES];
        let (mut at, mut run_count) = (0, 0);
        for run in block.chunk_by(|left, right| left == right) {
            run_starts[at / 64] |= 1 << (at % 64);
            run_values[run_count] = run[0].wrapping_sub(base);
            at += run.len();
            run_count += 1;
        }
        starts.extend(run_starts.into_iter().flat_map(u64::to_le_bytes));
        pack_first(&run_values, run_count, width, packed);
        directory.extend_from_slice(&base.to_le_bytes());
        ends.extend_from_slice(&((packed.len() / BYTES_PER_WIDTH) as u32).to_le_bytes());
        widths.push(width as u8);
    }
    directory.extend_from_slice(&ends);
    directory.extend_from_slice(&widths);
}

/// Whole numbers as packed runs.
#[derive(Debug, Clone, Copy)]
pub struct PackedRuns<'a> {
    bases: &'a [[u8; 8]],
    ends: &'a [[u8; 4]],
    widths: &'a [u8],
    starts: &'a [[u8; START_BYTES]],
    packed: &'a [u8],
}

/// A mini-block of runs: each value is the base plus the packed difference of the run that it is in, modulo 2^64.
#[derive(Debug, Clone, Copy)]
pub struct RunFrame<'a> {
    /// The least value, as a 64-bit pattern.
    pub base: u64,
    /// The runs' differences to it, as many as runs start.
    pub differences: PackedBits<'a>,
    starts: &'a [u8; START_BYTES],
}

impl<'a> PackedRuns<'a> {
    pub(super) fn open(sections: [Section<'a>; INTEGER_SECTIONS], value_count: usize) -> Result<Self, PageError> {
        let [directory, starts, packed] = sections;
        let block_count = mini_block_count(value_count);
        directory.expect_length("the directory of packed runs", block_count * 13 + 4)?;
        starts.expect_length("where runs start", block_count * START_BYTES)?;
        let (bases, rest) = directory.bytes.split_at(block_count * 8);
        let (ends, widths) = rest.split_at(block_count * 4 + 4);
        let runs = Self {
            bases: bases.as_chunks::<8>().0,
            ends: ends.as_chunks::<4>().0,
            widths,
            starts: starts.bytes.as_chunks::<START_BYTES>().0,
            packed: packed.bytes,
        };
        runs.check(&sections, value_count)?;
        Ok(runs)
    }

    /// Whether each mini-block's first value starts a run, and there are as many runs' values as starts.
    fn check(
        &self,
        [directory, starts, packed]: &[Section<'a>; INTEGER_SECTIONS],
        value_count: usize,
    ) -> Result<(), PageError> {
        let (ends_at, widths_at) = (self.bases.len() * 8, self.bases.len() * 12 + 4);
        let end_at = |index: usize| u32::from_le_bytes(self.ends[index]);
        let field = |index: usize, expected: u32| {
            directory.field("the end of packed runs", ends_at + index * 4, end_at(index).into(), expected.to_string())
        };
        let mut end = 0;
        if end_at(0) != end {
            return Err(field(0, end));
        }
        let mut run_counts = [0; COUNTED_TOGETHER];
        for (index, (width, bits)) in self.widths.iter().zip(self.starts).enumerate() {
            if index % COUNTED_TOGETHER == 0 {
                count_ones(&self.starts[index..], &mut run_counts);
            }
            let run_count = usize::from(run_counts[index % COUNTED_TOGETHER]);
            if *width > 64 {
                let expected = "at most 64".to_owned();
                return Err(directory.field(
                    "the bits of a run's value",
                    widths_at + index,
                    u64::from(*width),
                    expected,
                ));
            }
            let past_end = (value_count - index * MINI_BLOCK_VALUES).min(MINI_BLOCK_VALUES);
            let has_tail = (past_end..MINI_BLOCK_VALUES).any(|at| bits[at / 8] >> (at % 8) & 1 != 0);
            if bits[0] & 1 == 0 || has_tail {
                let expected = format!("the lowest bit of all, and none from bit {past_end} on");
                return Err(starts.field("where runs start", index * START_BYTES, u64::from(bits[0]), expected));
            }
            end += (first_values_bytes((*width).into(), run_count) / BYTES_PER_WIDTH) as u32;
            if end_at(index + 1) != end {
                return Err(field(index + 1, end));
            }
        }
        packed.expect_length("the packed runs", end as usize * BYTES_PER_WIDTH)
    }

    /// Mini-block `index`; `None` if there is none.
    #[inline(always)]
    pub fn frame(&self, index: usize) -> Option<RunFrame<'a>> {
        let base = u64::from_le_bytes(*self.bases.get(index)?);
        let at = |index: usize| u32::from_le_bytes(self.ends[index]) as usize * BYTES_PER_WIDTH;
        let differences = PackedBits::of_first(self.widths[index].into(), &self.packed[at(index)..at(index + 1)]);
        Some(RunFrame { base, differences, starts: &self.starts[index] })
    }

    pub(super) fn decode<N: Native>(&self, index: usize, values: &mut [N]) {
        if let Some(frame) = self.frame(index) {
            frame.differences.with_unpacked(AddBase { frame, values });
        }
    }
}

/// The bits of a mini-block, 64 at a time.
#[inline(always)]
fn words(starts: &[u8; START_BYTES]) -> impl Iterator<Item = u64> {
    starts.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

impl RunFrame<'_> {
    /// A bit for each value, lowest first: whether a run starts there.
    #[inline]
    pub fn starts(&self) -> [u64; START_WORDS] {
        let (words, _) = self.starts.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_le_bytes(words[at]))
    }

    /// Has where the runs start up to value `index`, which is below 1,024, brought near while something else is done.
    #[inline]
    pub fn prefetch_starts(&self, index: usize) {
        prefetch(&self.starts[..=index / 8]);
    }

    /// Takes out the differences of all 1,024 values to the base; those past the page's end are the last run's. Cheapest
    /// where `W` is the smallest word that holds the width.
    ///
    /// # Errors
    /// [`PageError::TooWide`] if the differences do not fit `W`.
    pub fn unpack<W: Word>(&self, values: &mut [W; MINI_BLOCK_VALUES]) -> Result<(), PageError> {
        let mut of_runs = [W::default(); MINI_BLOCK_VALUES];
        self.differences.unpack(&mut of_runs)?;
        self.spread(&of_runs, values, |difference| difference);
        Ok(())
    }

    /// What each value has of its run.
    #[inline(always)]
    fn spread<R: Copy, V>(&self, of_runs: &[R; MINI_BLOCK_VALUES], values: &mut [V], to_value: impl Fn(R) -> V) {
        // One less than have started; the first value starts one.
        let mut run = usize::MAX;
        for (starts, values) in words(self.starts).zip(values.chunks_mut(64)) {
            for (at, value) in values.iter_mut().enumerate() {
                run = run.wrapping_add((starts >> at & 1) as usize);
                *value = to_value(of_runs[run % MINI_BLOCK_VALUES]);
            }
        }
    }
}

struct AddBase<'f, 'a, N> {
    frame: RunFrame<'f>,
    values: &'a mut [N],
}

impl<N: Native> WithUnpacked<()> for AddBase<'_, '_, N> {
    #[inline(always)]
    fn call<W: Word>(self, differences: &[W; MINI_BLOCK_VALUES]) {
        let Self { frame, values } = self;
        frame.spread(differences, values, |difference| N::from_pattern(frame.base.wrapping_add(difference.into())));
    }
}
