//! Rows and the runs that they are in: where runs start, and which one a row belongs to.
//!
//! **Does not own**: which runs are found, spread over their rows (`rows_of_runs` of each instruction set).
//!
//! **Concurrency**: plain values.

use thermocline_column_store::MINI_BLOCK_VALUES;

#[cfg(target_arch = "x86_64")]
use super::population::{Population, VectorPopulation};
use super::{MASK_WORDS, Mask};

/// The run that a row is in, by a bit for each row that starts one, as the first row does.
pub(crate) fn run_of(row: usize, starts: &Mask) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = Population::detect() {
        return proof.run_of(row, starts);
    }
    counted_run_of(row, starts)
}

/// The same for every processor; compiled a second time with the instruction that counts bits.
#[inline(always)]
pub(super) fn counted_run_of(row: usize, starts: &Mask) -> usize {
    let at = row / 64 % MASK_WORDS;
    let before: u32 = starts[..at].iter().map(|word| word.count_ones()).sum();
    let started = before + (starts[at] << (63 - row % 64)).count_ones();
    (started as usize).wrapping_sub(1) % MINI_BLOCK_VALUES
}

/// Where the runs of a mini-block start, the first at its first row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunStarts {
    /// A bit for each row.
    mask: Mask,
    /// How many runs start before each word of the mask.
    before: [u16; MASK_WORDS],
    count: usize,
}

impl RunStarts {
    /// By a bit for each row, of which the first is set.
    pub(crate) fn new(mask: Mask) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(proof) = Population::detect() {
            return proof.run_starts(mask);
        }
        Self::counted(mask)
    }

    #[inline(always)]
    pub(super) fn counted(mask: Mask) -> Self {
        let (mut before, mut started) = ([0; MASK_WORDS], 0);
        for (before, word) in before.iter_mut().zip(mask) {
            *before = started;
            started += word.count_ones() as u16;
        }
        Self { mask, before, count: started.into() }
    }

    /// How many runs there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A bit for each row, set where a run starts.
    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// How many runs start before each word of the mask.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn before(&self) -> &[u16; MASK_WORDS] {
        &self.before
    }

    /// The run that a row is in, which is below 1,024.
    #[inline(always)]
    pub(crate) fn run_of(&self, row: usize) -> usize {
        let at = row / 64 % MASK_WORDS;
        // Of those that have started up to and with this row it is the last.
        let started = usize::from(self.before[at]) + (self.mask[at] << (63 - row % 64)).count_ones() as usize;
        started.wrapping_sub(1) % MINI_BLOCK_VALUES
    }

    /// Writes the run that each row is in. There must be room for all.
    pub(crate) fn runs_of(&self, rows: &[u16], runs: &mut [u16]) {
        debug_assert!(rows.len() <= runs.len(), "{} rows in room for {}", rows.len(), runs.len());
        #[cfg(target_arch = "x86_64")]
        if let Some(proof) = VectorPopulation::detect() {
            return proof.runs_of(self, rows, runs);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(proof) = Population::detect() {
            return proof.runs_of(self, rows, runs);
        }
        self.each_run_of(rows, runs);
    }

    #[inline(always)]
    pub(super) fn each_run_of(&self, rows: &[u16], runs: &mut [u16]) {
        runs.iter_mut().zip(rows).for_each(|(run, row)| *run = self.run_of(usize::from(*row)) as u16);
    }
}
