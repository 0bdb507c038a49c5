//! What a run of whole numbers would take in each encoding, counted in one pass.

use thermocline_placement::column_encoding::IntegerEncoding;

use super::{delta, frame_of_reference, mini_block_count, packed_runs, run_length, sign_flip};
use crate::bit_packing::{first_values_bytes, width_of};
use crate::{BYTES_PER_WIDTH, MINI_BLOCK_VALUES};

/// Exact figures of a run of whole numbers that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IntegerStatistics {
    value_count: usize,
    /// The least value, as a 64-bit pattern.
    pub(crate) least: u64,
    /// The greatest value, as a 64-bit pattern.
    pub(crate) greatest: u64,
    packed_bytes: usize,
    delta_packed_bytes: usize,
    packed_run_bytes: usize,
    /// Runs of equal values within mini-blocks.
    pub(crate) run_count: usize,
}

impl IntegerStatistics {
    pub(crate) fn of(values: &[u64], signed: bool) -> Self {
        let flip = sign_flip(signed);
        let (mut least, mut greatest) = (u64::MAX, 0);
        let mut statistics = Self {
            value_count: values.len(),
            least: 0,
            greatest: 0,
            packed_bytes: 0,
            delta_packed_bytes: 0,
            packed_run_bytes: 0,
            run_count: 0,
        };
        let mut scratch = [0; MINI_BLOCK_VALUES];
        for block in values.chunks(MINI_BLOCK_VALUES) {
            let (base, range) = frame_of_reference::frame(block, signed);
            least = least.min(base ^ flip);
            greatest = greatest.max((base ^ flip).wrapping_add(range));
            let (steps, _, spread) = delta::steps(block, &mut scratch);
            statistics.packed_bytes += width_of(range) as usize * BYTES_PER_WIDTH;
            statistics.delta_packed_bytes += width_of(spread) as usize * BYTES_PER_WIDTH;
            let run_count = 1 + steps.iter().filter(|step| **step != 0).count();
            statistics.run_count += run_count;
            statistics.packed_run_bytes += first_values_bytes(width_of(range), run_count);
        }
        Self { least: least ^ flip, greatest: greatest ^ flip, ..statistics }
    }

    /// Whether all values are the same.
    pub(crate) fn is_constant(&self) -> bool {
        self.least == self.greatest
    }

    /// Bytes of the sections in this encoding.
    pub(crate) fn size_bytes(&self, encoding: IntegerEncoding) -> usize {
        let block_count = mini_block_count(self.value_count);
        match encoding {
            IntegerEncoding::FrameOfReference => block_count * 12 + 4 + self.packed_bytes,
            IntegerEncoding::Delta => block_count * 20 + 4 + self.delta_packed_bytes,
            IntegerEncoding::RunLength => {
                let value_bytes = run_length::value_bytes(self.greatest.wrapping_sub(self.least));
                block_count * 4 + 12 + self.run_count * (2 + value_bytes)
            }
            IntegerEncoding::PackedRuns => packed_runs::size_bytes(block_count, self.packed_run_bytes),
        }
    }
}
