//! Rows of few groups: sums that need not wait for each other.
//!
//! Where rows of the same group come one after the other, each addition waits until the one before has gone through
//! memory. So every fourth row is added up in a cell of its own, and a mini-block's sums go to the groups' in the end.

/// Most cells that are few: their four parts are a few lines of the first-level cache.
const FEW_CELLS: usize = 64;
/// Cells of each group, taken in turn.
const PARTS: usize = 4;

/// Rows and the cells of their groups.
#[derive(Debug, Default)]
pub(super) struct GroupedRows {
    pub(super) cells: Vec<u32>,
    /// How many rows each cell has, if cells are few.
    counts: Vec<u32>,
}

impl GroupedRows {
    /// Counts the rows of each of `cell_count` cells, if that are few.
    pub(super) fn count(&mut self, cell_count: usize) {
        self.counts.clear();
        match cell_count {
            1 => self.counts.push(self.cells.len() as u32),
            0..=FEW_CELLS => {
                self.counts.resize(cell_count, 0);
                let counts = parts_of(&self.cells, |_| 1);
                self.counts.iter_mut().zip(counts).for_each(|(count, part)| *count = part as u32);
            }
            _ => {}
        }
    }

    /// Whether there are few cells.
    pub(super) fn are_few(&self) -> bool {
        !self.counts.is_empty()
    }

    /// How many rows each cell has, if cells are few.
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
pub(super) fn sums(cells: &[u32], numbers: &[i64]) -> impl Iterator<Item = i64> {
    parts_of(cells, |row| numbers[row])
}

#[inline(always)]
fn parts_of(cells: &[u32], number: impl Fn(usize) -> i64) -> impl Iterator<Item = i64> {
    let mut parts = [[0i64; PARTS]; FEW_CELLS];
    for (row, cell) in cells.iter().enumerate() {
        let part = &mut parts[*cell as usize % FEW_CELLS][row % PARTS];
        *part = part.wrapping_add(number(row));
    }
    parts.into_iter().map(|parts| parts.into_iter().fold(0, i64::wrapping_add))
}
