//! DataFusion's `MemoryPool` on top of the budget: when a query needs memory, caches shrink.
//!
//! Operators call the pool synchronously on hot paths, so the fast case is a few atomic operations; only when the
//! budget is short does it ask the caches to release.

use std::fmt;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use thermocline_budget::{Budget, Purpose, Reservation};

/// The pool of all running queries of a database.
#[derive(Debug)]
pub(crate) struct BudgetPool {
    budget: Budget,
    held: Reservation,
}

impl BudgetPool {
    pub(crate) fn new(budget: &Budget) -> Self {
        let held = budget.account("queries", Purpose::Query).reserve_infallible(0);
        Self { budget: budget.clone(), held }
    }
}

impl MemoryPool for BudgetPool {
    fn name(&self) -> &str {
        "thermocline"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.held.grow_infallible(additional as u64);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.held.shrink(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.held
            .try_grow(additional as u64)
            .map_err(|error| DataFusionError::ResourcesExhausted(format!("{}: {error}", reservation.consumer().name())))
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
