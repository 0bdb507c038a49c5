//! Rows that are given out while a run goes on, so that they need not all be in memory.
//!
//! **Owns**: when there are enough, and who takes them. **Does not own**: the rows (`rows`).
//!
//! **Concurrency**: each thread gives out its own rows, and so the consumer is called from all of them at once.

use std::error::Error;

use thermocline_budget::Reservation;

use super::rows::Rows;
use super::worker::Shared;
use crate::{PipelineError, Result, Rowset};

/// Whoever takes the rows of a run, and what holds their memory, to be kept as long as they are.
pub type BatchConsumer<'a> = dyn Fn(Rowset, Reservation) -> Result<(), Box<dyn Error + Send + Sync>> + Sync + 'a;

/// How a run gives out rows.
#[derive(Clone, Copy)]
pub(super) struct Batches<'a> {
    pub(super) limit_bytes: usize,
    pub(super) consumer: &'a BatchConsumer<'a>,
}

impl Batches<'_> {
    /// Whether a thread's rows are enough for a batch.
    pub(super) fn is_full(&self, rows: &Rows<'_>) -> bool {
        rows.size_bytes() >= self.limit_bytes
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
