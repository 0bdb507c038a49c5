//! Rows that wait for the last stages and the sink, from several mini-blocks of one row group.
//!
//! Filters often leave a few rows of each mini-block. To test these, look payload up, compute values and find groups
//! costs the same for one row as for dozens before it costs anything for rows; so rows wait until there are about as
//! many as a mini-block has.
//!
//! Values of columns that are unpacked already are taken at once. Others are *late*: they are looked up when somebody
//! asks for them, of the rows that are left then, so that the memory they lie in is asked for all at once.
//!
//! **Invariants**: at most [`MINI_BLOCK_VALUES`] rows wait; they keep their order.
//!
//! **Concurrency**: each thread has its own.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::numbers::Numbers;
use super::selection::{Selection, room_for};
use crate::ir::Slot;

/// Rows of several mini-blocks of one row group.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Which rows of the row group.
    rows: Vec<u32>,
    pub(super) columns: Vec<WaitingColumn>,
    /// How many of a mini-block there usually are, if that was measured.
    pub(super) usual_rows: Option<usize>,
}

/// A scanned column's values for the rows that wait.
#[derive(Debug)]
pub(super) struct WaitingColumn {
    pub(super) slot: Slot,
    /// Which column of the source it is.
    pub(super) column: usize,
    /// `None` before the first row, and if they are looked up when they are asked for.
    pub(super) numbers: Option<Numbers>,
    /// Whether they are looked up when they are asked for.
    pub(super) is_late: bool,
}

impl Waiting {
    /// Of scanned columns: their slots, and which columns of the source they are.
    pub(super) fn new(columns: Vec<(Slot, usize)>) -> Self {
        let column = |(slot, column)| WaitingColumn { slot, column, numbers: None, is_late: false };
        let columns = columns.into_iter().map(column).collect();
        Self { rows: Vec::with_capacity(MINI_BLOCK_VALUES), columns, usual_rows: None }
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Which rows of the row group.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Whether so many rows more can wait.
    pub(super) fn has_room(&self, row_count: usize) -> bool {
        self.rows.len() + row_count <= MINI_BLOCK_VALUES
    }

    /// Appends rows of a mini-block; their values are the caller's affair.
    pub(super) fn push(&mut self, block: usize, rows: &[u16]) {
        let first = (block * MINI_BLOCK_VALUES) as u32;
        self.rows.extend(rows.iter().map(|row| first + u32::from(*row)));
    }

    /// Drops the rows that are not selected, by their places among those that wait.
    pub(super) fn retain(&mut self, selection: &Selection) {
        if selection.count() == self.rows.len() {
            return;
        }
        let mut places = [0; room_for(MINI_BLOCK_VALUES)];
        let places = selection.rows(&mut places);
        self.rows = places.iter().map(|place| self.rows[usize::from(*place)]).collect();
        for numbers in self.columns.iter_mut().filter_map(|column| column.numbers.as_mut()) {
            *numbers = numbers.at(places);
        }
    }

    /// Lets all rows go.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.columns.iter_mut().for_each(|column| (column.numbers, column.is_late) = (None, false));
    }
}
