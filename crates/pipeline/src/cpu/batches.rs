//! Rows that are given out while a run goes on, so that they need not all be in memory.
//!
//! **Owns**: when there are enough, and who takes them. **Does not own**: the rows (`rows`).
//!
//! **Concurrency**: each thread gives out its own rows, and so the consumer is called from all of them at once.

use std::error::Error;

use thermocline_budget::Reservation;
use thermocline_column_store::MINI_BLOCK_VALUES;

use super::rows::Rows;
use super::worker::Shared;
use crate::{PipelineError, Result, Rowset};

/// Whoever takes the rows of a run, and what holds their memory, to be kept as long as they are.
pub type BatchConsumer<'a> = dyn Fn(Rowset, Reservation) -> Result<(), Box<dyn Error + Send + Sync>> + Sync + 'a;

/// How large a batch is at most, with one mini-block's rows more: whichever bound it comes to first.
#[derive(Debug, Clone, Copy)]
pub struct BatchSize {
    /// Of its rows as they are kept, texts as often as they come.
    pub bytes: usize,
    /// Which no batch has more of, unless that is fewer than two mini-blocks have.
    pub rows: usize,
}

/// How a run gives out rows.
#[derive(Clone, Copy)]
pub(super) struct Batches<'a> {
    pub(super) size: BatchSize,
    pub(super) consumer: &'a BatchConsumer<'a>,
}

impl Batches<'_> {
    /// Whether a thread's rows are enough for a batch.
    pub(super) fn is_full(&self, rows: &Rows<'_>) -> bool {
        // The next mini-block may have all its rows to add.
        let most_rows = self.size.rows.max(2 * MINI_BLOCK_VALUES) - MINI_BLOCK_VALUES;
        rows.size_bytes() >= self.size.bytes || rows.row_count() > most_rows
    }

    /// Gives out a thread's rows, if it has any.
    pub(super) fn give(&self, rows: &mut Rows<'_>, shared: &Shared<'_>) -> Result<()> {
        if rows.row_count() == 0 {
            return Ok(());
        }
        let (rowset, memory) = rows.finish(shared.context, &shared.interners.texts(), shared.options.account)?;
        let reservation = memory.into_reservation();
        reservation.resize(rowset.unshared_bytes())?;
        self.consume(rowset, reservation)
    }

    pub(super) fn consume(&self, rowset: Rowset, reservation: Reservation) -> Result<()> {
        (self.consumer)(rowset, reservation).map_err(PipelineError::Consumer)
    }
}
