//! Rows that wait for the sink: what it takes of them, from several mini-blocks of one row group.
//!
//! Filters often leave a few rows of each mini-block. To look payload up, compute values and find groups costs the same
//! for one row as for dozens before it costs anything for rows; so rows wait until there are about as many as a
//! mini-block has.
//!
//! **Invariants**: at most [`MINI_BLOCK_VALUES`] rows wait; they keep their order.
//!
//! **Concurrency**: each thread has its own.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::numbers::Numbers;
use crate::ir::Slot;

/// The places of all rows that wait.
pub(super) static PLACES: [u16; MINI_BLOCK_VALUES] = {
    let mut places = [0; MINI_BLOCK_VALUES];
    let mut at = 0;
    while at < MINI_BLOCK_VALUES {
        places[at] = at as u16;
        at += 1;
    }
    places
};

/// Values of scanned columns for rows of several mini-blocks.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Each column's slot, its place in the source, and its values.
    pub(super) columns: Vec<(Slot, usize, Option<Numbers>)>,
    pub(super) row_count: usize,
}

impl Waiting {
    /// Of scanned columns: their slots, and which columns of the source they are.
    pub(super) fn new(columns: Vec<(Slot, usize)>) -> Self {
        Self { columns: columns.into_iter().map(|(slot, column)| (slot, column, None)).collect(), row_count: 0 }
    }

    /// Whether so many rows more can wait.
    pub(super) fn has_room(&self, row_count: usize) -> bool {
        self.row_count + row_count <= MINI_BLOCK_VALUES
    }

    /// The values of all rows, which are `row_count`, in one of its slots.
    pub(super) fn numbers(&self, slot: Slot, row_count: usize) -> Numbers {
        let column = self.columns.iter().find(|(of, ..)| *of == slot);
        let numbers = column.and_then(|(.., numbers)| numbers.clone());
        debug_assert!(numbers.is_some(), "slot {slot:?} does not wait");
        numbers.unwrap_or_else(|| Numbers::repeated(0, row_count))
    }

    /// Lets all rows go.
    pub(super) fn clear(&mut self) {
        self.row_count = 0;
        self.columns.iter_mut().for_each(|(.., numbers)| *numbers = None);
    }
}
