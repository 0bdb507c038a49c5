//! Who reserves, by name, and for what.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::broker::BudgetState;
use crate::{Reservation, Result};

/// What a reservation is for; decides who yields to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Kept for later queries; shrinks when a query needs room.
    Cache,
    /// Needed by a running query.
    Query,
}

impl Purpose {
    /// The name shown to users: `cache` or `query`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Query => "query",
        }
    }
}

/// One account's state when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSnapshot {
    /// Name of the account; several may share one.
    pub name: String,
    /// What it reserves for.
    pub purpose: Purpose,
    /// Reserved now.
    pub reserved_bytes: u64,
    /// Most it ever had reserved.
    pub peak_bytes: u64,
}

/// A named part of the budget. Clones are the same account; it ends with its last clone and reservation.
#[derive(Clone)]
pub struct Account {
    state: Arc<AccountState>,
}

pub(crate) struct AccountState {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    pub(crate) reserved_bytes: AtomicU64,
    pub(crate) peak_bytes: AtomicU64,
    pub(crate) budget: Arc<BudgetState>,
}

impl Account {
    pub(crate) fn new(state: Arc<AccountState>) -> Self {
        Self { state }
    }

    /// The name it was opened with.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// What it reserves for.
    pub fn purpose(&self) -> Purpose {
        self.state.purpose
    }

    /// Reserved now.
    pub fn reserved_bytes(&self) -> u64 {
        self.state.reserved_bytes.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`, before they are allocated.
    ///
    /// For a query that finds no room the caches are asked to shrink, the least useful bytes first, on this thread:
    /// hold no lock of a cache here. For a cache only free room under both limits is given; the cache makes room
    /// itself, by its policy, and asks again.
    ///
    /// # Errors
    /// [`BudgetError::QueryMemory`](crate::BudgetError::QueryMemory) and
    /// [`BudgetError::CacheMemory`](crate::BudgetError::CacheMemory), when there is no room.
    pub fn try_reserve(&self, bytes: u64) -> Result<Reservation> {
        self.state.try_add(bytes)?;
        Ok(Reservation::new(Arc::clone(&self.state), bytes))
    }

    /// Reserves `bytes` that exist already, over the limit if need be; for a query, caches are then asked to make up
    /// for what is over.
    pub fn reserve_infallible(&self, bytes: u64) -> Reservation {
        self.state.add(bytes);
        Reservation::new(Arc::clone(&self.state), bytes)
    }

    /// Its state now.
    pub fn snapshot(&self) -> AccountSnapshot {
        self.state.snapshot()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

impl AccountState {
    pub(crate) fn try_add(&self, bytes: u64) -> Result<()> {
        self.try_add_leaving(bytes, 0)
    }

    pub(crate) fn try_add_leaving(&self, bytes: u64, left_bytes: u64) -> Result<()> {
        self.budget.reserve(self, bytes, left_bytes)?;
        self.count(bytes);
        Ok(())
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.budget.ledger.add(self.purpose, bytes);
        self.count(bytes);
        if self.purpose == Purpose::Query {
            self.budget.reclaim_excess();
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.ledger.give_back(self.purpose, bytes);
    }

    pub(crate) fn snapshot(&self) -> AccountSnapshot {
        AccountSnapshot {
            name: self.name.clone(),
            purpose: self.purpose,
            reserved_bytes: self.reserved_bytes.load(Ordering::Relaxed),
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
        }
    }

    fn count(&self, bytes: u64) {
        let now_bytes = self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(now_bytes, Ordering::Relaxed);
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        self.budget.forget_account(self.id);
    }
}
