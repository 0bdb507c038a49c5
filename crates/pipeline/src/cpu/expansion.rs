//! Rows that have multiplied: what a probe makes of a row whose key several rows of a table have.
//!
//! **Owns**: which row of the mini-block, and which rows of tables, each multiplied row is; cutting them into pieces.
//!
//! **Does not own**: what happens to them.
//!
//! **Invariants**: a piece has no more rows than a mini-block, so that all that works on a mini-block's rows works on
//! it, with places in the piece for places in the mini-block.
//!
//! **Concurrency**: plain values.

use std::ops::Range;

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::selection::{Selection, room_for};

/// The row of a table that an outer probe has not found.
const NOT_FOUND: u32 = u32::MAX;

/// Rows that have multiplied, by their places.
#[derive(Debug, Clone, Default)]
pub(super) struct Multiplied {
    /// The row of the mini-block.
    rows: Vec<u16>,
    /// The row of the table, by the probe's step.
    found: Vec<(usize, Vec<u32>)>,
}

impl Multiplied {
    /// A mini-block's rows, once each.
    pub(super) fn of(rows: &[u16]) -> Self {
        Self { rows: rows.to_vec(), found: Vec::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The rows of the mini-block at some places.
    pub(super) fn rows_of(&self, places: &[u16]) -> Vec<u16> {
        places.iter().map(|place| self.rows[usize::from(*place)]).collect()
    }

    /// The rows of a probe's table at some places, `None` for those that found none; all `None` if it does not
    /// multiply.
    pub(super) fn found(&self, step: usize, places: &[u16]) -> Option<impl Iterator<Item = Option<u32>>> {
        let (_, found) = self.found.iter().find(|(of, _)| *of == step)?;
        Some(places.iter().map(|place| Some(found[usize::from(*place)]).filter(|row| *row != NOT_FOUND)))
    }

    /// The rows at the selected places alone.
    pub(super) fn retain(&mut self, selection: &Selection) {
        let mut places = [0; room_for(MINI_BLOCK_VALUES)];
        let places = selection.rows(&mut places);
        self.rows = self.rows_of(places);
        for (_, found) in &mut self.found {
            *found = places.iter().map(|place| found[usize::from(*place)]).collect();
        }
    }

    /// Goes on multiplying: each row once for each of the table's rows that it finds, in pieces that `take` is given.
    pub(super) fn multiply<E>(
        &self,
        step: usize,
        is_outer: bool,
        finds: impl Fn(usize) -> Range<u32>,
        mut take: impl FnMut(Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let empty = || {
            let found = self.found.iter().map(|(of, _)| *of).chain([step]).map(|of| (of, Vec::new())).collect();
            Self { rows: Vec::new(), found }
        };
        let mut piece = empty();
        for place in 0..self.count() {
            let finds = finds(place);
            let keeps_unmatched = finds.is_empty() && is_outer;
            let (mut next, mut left) = if keeps_unmatched { (NOT_FOUND, 1) } else { (finds.start, finds.len()) };
            while left > 0 {
                let count = left.min(MINI_BLOCK_VALUES - piece.count());
                piece.rows.extend(std::iter::repeat_n(self.rows[place], count));
                for ((_, to), (_, from)) in piece.found.iter_mut().zip(&self.found) {
                    to.extend(std::iter::repeat_n(from[place], count));
                }
                if let Some((_, to)) = piece.found.last_mut() {
                    to.extend((0..count as u32).map(|at| next.wrapping_add(at)));
                }
                next = next.wrapping_add(count as u32);
                left -= count;
                if piece.count() == MINI_BLOCK_VALUES {
                    take(std::mem::replace(&mut piece, empty()))?;
                }
            }
        }
        if piece.count() > 0 { take(piece) } else { Ok(()) }
    }
}
