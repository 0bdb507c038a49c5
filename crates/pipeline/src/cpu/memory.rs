//! The memory of one thread of a run.

use thermocline_budget::{Account, Reservation};

use crate::PipelineError;

/// Least growth of a reservation, so that growing is rare.
const STEP_BYTES: u64 = 256 << 10;

/// What a thread has reserved; grows ahead of what it keeps, given back when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    reservation: Reservation,
}

impl Memory {
    pub(super) fn new(account: &Account, size_bytes: usize) -> Result<Self, PipelineError> {
        Ok(Self { reservation: account.try_reserve(size_bytes as u64)? })
    }

    /// Reserves until `size_bytes` in all are reserved, called before they are allocated.
    pub(super) fn ensure(&self, size_bytes: usize) -> Result<(), PipelineError> {
        let missing = (size_bytes as u64).saturating_sub(self.reservation.size_bytes());
        if missing > 0 {
            self.reservation.try_grow(missing.max(STEP_BYTES))?;
        }
        Ok(())
    }

    /// Reserves so much more, for what is made of the rest and beside it.
    pub(super) fn grow(&self, more_bytes: usize) -> Result<(), PipelineError> {
        Ok(self.reservation.try_grow(more_bytes as u64)?)
    }

    /// Gives back what is beyond `size_bytes`.
    pub(super) fn shrink_to(&self, size_bytes: usize) {
        self.reservation.shrink(self.reservation.size_bytes().saturating_sub(size_bytes as u64));
    }

    /// Takes over what another thread has reserved, whose values are this one's now.
    pub(super) fn absorb(&self, other: Self) {
        let size_bytes = other.reservation.size_bytes();
        drop(other);
        self.reservation.grow_infallible(size_bytes);
    }

    /// The reservation, for who goes on holding what it is for.
    pub(super) fn into_reservation(self) -> Reservation {
        self.reservation
    }
}
