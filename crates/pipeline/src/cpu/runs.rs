//! A scanned column's packed runs: those of the mini-block that is worked on, and single rows of many.
//!
//! **Owns**: when runs are unpacked, in which run a row is. **Does not own**: what values are compared with, or whether
//! that is done for runs or for rows (`stage::members`).
//!
//! **Invariants**: as `column`'s, of runs in the place of rows.
//!
//! **Concurrency**: a reader belongs to one thread.
//!
//! Facts are often written in groups, the lines of an order one behind the other, so that some of their columns have
//! short runs. What is found out of a run holds for all its rows: a filter or probe looks at a value once.

use thermocline_column_store::{MINI_BLOCK_VALUES, PackedRuns, PageError, RunFrame};

use super::column::Block;
use super::form::{Scratch, Unpacked};
use crate::kernels::{RunStarts, Words, run_of};

/// Rows that are asked of memory together where they lie far apart.
const ROWS_TOGETHER: usize = 64;

/// A mini-block's runs: their values as words, in order, and behind them what means nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs<'a> {
    pub(super) block: Block<'a>,
    pub(super) starts: &'a RunStarts,
}

/// The mini-block whose runs are unpacked.
#[derive(Debug)]
struct Current {
    index: usize,
    base: i64,
    unpacked: Unpacked,
    starts: RunStarts,
}

/// The runs of the mini-block that is worked on.
#[derive(Debug, Default)]
pub(super) struct RunReader {
    /// Made when runs are unpacked first.
    scratch: Option<Box<Scratch>>,
    current: Option<Current>,
}

impl RunReader {
    /// Whether a mini-block's runs are unpacked.
    pub(super) fn has(&self, index: usize) -> bool {
        self.current.as_ref().is_some_and(|current| current.index == index)
    }

    /// Unpacks the runs of a mini-block.
    pub(super) fn unpack(&mut self, index: usize, frame: RunFrame<'_>) -> Result<(), PageError> {
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let unpacked = scratch.fill_bits(frame.differences)?;
        let starts = RunStarts::new(frame.starts());
        self.current = Some(Current { index, base: frame.base as i64, unpacked, starts });
        Ok(())
    }

    /// The runs that were unpacked.
    #[inline]
    pub(super) fn runs(&self) -> Option<Runs<'_>> {
        let Current { base, unpacked, starts, .. } = self.current.as_ref()?;
        let words = self.scratch.as_ref().map_or(Words::Zeros, |scratch| scratch.words(*unpacked));
        Some(Runs { block: Block { base: *base, words }, starts })
    }
}

/// Appends the values of some rows of a page, which rise and lie far apart: memory is asked for those of many at once,
/// first for where their runs start, and then for the runs.
pub(super) fn append_rows(runs: &PackedRuns<'_>, bias: i64, rows: &[u32], values: &mut Vec<i64>) {
    for rows in rows.chunks(ROWS_TOGETHER) {
        let mut found = [None; ROWS_TOGETHER];
        for (found, row) in found.iter_mut().zip(rows) {
            let (block, place) = (*row as usize / MINI_BLOCK_VALUES, *row as usize % MINI_BLOCK_VALUES);
            if let Some(frame) = runs.frame(block) {
                frame.prefetch_starts(place);
                *found = Some((frame, place));
            }
        }
        for (frame, place) in found.iter_mut().flatten() {
            *place = run_of(*place, &frame.starts());
            frame.differences.prefetch_value(*place);
        }
        values.extend(found[..rows.len()].iter().map(|found| {
            let value = |(frame, run): &(RunFrame<'_>, usize)| frame.base.wrapping_add(frame.differences.get(*run));
            (found.as_ref().map_or(0, value) as i64).wrapping_add(bias)
        }));
    }
}
