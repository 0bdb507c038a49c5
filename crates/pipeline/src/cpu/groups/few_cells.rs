//! Rows of few groups: sums that need not wait for each other.
//!
//! Where rows of the same group come one after the other, each addition waits until the one before has gone through
//! memory. So every fourth row is added up in a cell of its own, and a mini-block's sums go to the groups' in the end.

use std::ops::Add;

use crate::ordinal;

/// Most cells that are few: their four parts are a few lines of the first-level cache.
const FEW_CELLS: usize = 64;
/// Rows from which on it is worth it to have the parts ready and to add them up.
const ENOUGH_ROWS: usize = 2 * FEW_CELLS;
/// Cells of each group, taken in turn.
const PARTS: usize = 4;

/// Rows and the cells of their groups.
#[derive(Debug, Default)]
pub(super) struct GroupedRows {
    pub(super) cells: Vec<u32>,
    /// How many rows each cell has, if cells are few and rows are enough.
    counts: Vec<u32>,
}

impl GroupedRows {
    /// Counts the rows of each of `cell_count` cells, if that are few, and rows are enough.
    pub(super) fn count(&mut self, cell_count: usize) {
        self.counts.clear();
        match cell_count {
            1 => self.counts.push(self.cells.len() as u32),
            0..=FEW_CELLS if self.cells.len() >= ENOUGH_ROWS => {
                let counts = added_up(&self.cells, 0, |_| 1, u32::wrapping_add);
                self.counts.extend_from_slice(&counts[..cell_count]);
            }
            _ => {}
        }
    }

    /// Whether there are few cells, and enough rows.
    pub(super) fn are_few(&self) -> bool {
        !self.counts.is_empty()
    }

    /// How many rows each cell has, if cells are few and rows are enough.
    pub(super) fn counts(&self) -> Option<&[u32]> {
        self.are_few().then_some(&self.counts)
    }
}

/// Whether no sum of a mini-block's rows can be past 64 bits.
pub(super) fn can_add_up(numbers: &[i64]) -> bool {
    let bits = numbers.iter().fold(0, |bits, number| bits | (number ^ number >> 63));
    (bits as u64).leading_zeros() >= 12
}

/// The sum of each cell's numbers, modulo 2^64; cells are few.
pub(super) fn sums(cells: &[u32], numbers: &[i64]) -> [i64; FEW_CELLS] {
    added_up(cells, 0, |row| numbers[row], i64::wrapping_add)
}

/// The sum of each cell's floats by their ordinals; cells are few.
pub(super) fn sums_of_floats(cells: &[u32], ordinals: &[i64]) -> [f64; FEW_CELLS] {
    added_up(cells, 0.0, |row| ordinal::to_float(ordinals[row]), f64::add)
}

#[inline(always)]
fn added_up<N: Copy>(
    cells: &[u32],
    nothing: N,
    number: impl Fn(usize) -> N,
    add: impl Fn(N, N) -> N,
) -> [N; FEW_CELLS] {
    let mut parts = [[nothing; PARTS]; FEW_CELLS];
    for (row, cell) in cells.iter().enumerate() {
        let part = &mut parts[*cell as usize % FEW_CELLS][row % PARTS];
        *part = add(*part, number(row));
    }
    parts.map(|parts| parts.into_iter().fold(nothing, &add))
}
