//! Loops that count bits, with the instruction for it: without, a word's bits take a dozen others.
//!
//! Owns: the instruction set's version of the loops in `scalar`, which are compiled a second time here; tests compare
//! the two.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

use super::runs::counted_run_of;
use super::{Mask, RunStarts, scalar};

/// Proof that the processor counts bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Population(());

impl Population {
    /// `None` when the processor lacks it.
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("popcnt").then_some(Self(()))
    }

    pub(super) fn count(self, mask: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: &Mask) -> usize {
            scalar::count(mask)
        }
        // SAFETY: `self` exists only when the processor has this instruction.
        unsafe { kernel(mask) }
    }

    pub(super) fn intersect(self, mask: &mut [u64], other: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: &mut [u64], other: &Mask) -> usize {
            scalar::intersect(mask, other)
        }
        // SAFETY: as above.
        unsafe { kernel(mask, other) }
    }

    pub(super) fn run_starts(self, mask: Mask) -> RunStarts {
        #[target_feature(enable = "popcnt")]
        fn kernel(mask: Mask) -> RunStarts {
            RunStarts::counted(mask)
        }
        // SAFETY: as above.
        unsafe { kernel(mask) }
    }

    pub(super) fn run_of(self, row: usize, starts: &Mask) -> usize {
        #[target_feature(enable = "popcnt")]
        fn kernel(row: usize, starts: &Mask) -> usize {
            counted_run_of(row, starts)
        }
        // SAFETY: as above.
        unsafe { kernel(row, starts) }
    }

    pub(super) fn runs_of(self, starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
        #[target_feature(enable = "popcnt")]
        fn kernel(starts: &RunStarts, rows: &[u16], runs: &mut [u16]) {
            starts.each_run_of(rows, runs);
        }
        // SAFETY: as above.
        unsafe { kernel(starts, rows, runs) }
    }

    pub(super) fn ranks(self, places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
        #[target_feature(enable = "popcnt")]
        fn kernel(places: &[u64], bits: &[u64], before: &[u32], ranks: &mut Vec<u32>) {
            scalar::ranks(places, bits, before, ranks);
        }
        // SAFETY: as above.
        unsafe { kernel(places, bits, before, ranks) }
    }
}
