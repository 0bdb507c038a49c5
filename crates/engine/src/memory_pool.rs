//! DataFusion's `MemoryPool` on top of the budget: when a query needs memory, caches shrink.
//!
//! Operators call the pool synchronously on hot paths, so the fast case is a few atomic operations; only when the
//! budget is short does it ask the caches to release. Operators that can spill are refused some of it
//! (`thermocline_placement::spilling`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use thermocline_budget::{Budget, Purpose, Reservation};
use thermocline_placement::spilling::{self, Growth};

/// The pool of all running queries of a database.
#[derive(Debug)]
pub(crate) struct BudgetPool {
    budget: Budget,
    held: Reservation,
    /// What operators have of it that can spill.
    spillable_bytes: AtomicU64,
}

impl BudgetPool {
    pub(crate) fn new(budget: &Budget) -> Self {
        let held = budget.account("queries", Purpose::Query).reserve_infallible(0);
        Self { budget: budget.clone(), held, spillable_bytes: AtomicU64::new(0) }
    }

    /// How much is to be free after `reservation` has grown by `bytes`.
    fn left_bytes(&self, reservation: &MemoryReservation, bytes: u64) -> u64 {
        if !reservation.consumer().can_spill() {
            return 0;
        }
        let held_bytes = self.spillable_bytes.load(Ordering::Relaxed);
        spilling::left_bytes(Growth {
            limit_bytes: self.budget.limit_bytes(),
            others_bytes: self.budget.unreclaimable_bytes().saturating_sub(held_bytes),
            spillable_bytes: held_bytes.saturating_add(bytes),
            own_bytes: (reservation.size() as u64).saturating_add(bytes),
            is_first: reservation.size() == 0,
        })
    }

    /// Notes that `reservation` has grown.
    fn grown(&self, reservation: &MemoryReservation, bytes: u64) {
        if reservation.consumer().can_spill() {
            self.spillable_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl MemoryPool for BudgetPool {
    fn name(&self) -> &str {
        "thermocline"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.held.grow_infallible(additional as u64);
        self.grown(reservation, additional as u64);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.held.shrink(shrink as u64);
        if reservation.consumer().can_spill() {
            self.spillable_bytes.fetch_sub(shrink as u64, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let bytes = additional as u64;
        self.held.try_grow_leaving(bytes, self.left_bytes(reservation, bytes)).map_err(|error| {
            DataFusionError::ResourcesExhausted(format!("{}: {error}", reservation.consumer().name()))
        })?;
        self.grown(reservation, bytes);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.size_bytes() as usize
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.budget.limit_bytes() as usize)
    }
}

impl fmt::Display for BudgetPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(used: {}, limit: {})", self.name(), self.reserved(), self.budget.limit_bytes())
    }
}
