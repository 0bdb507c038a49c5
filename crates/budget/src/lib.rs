//! One number, the memory budget, and everything that keeps to it.
//!
//! **Owns:** the budget with its limit and the caches' own limit ([`Budget`]); accounts, by name and purpose
//! ([`Account`]); reservations that give back what they hold when dropped ([`Reservation`]); asking the caches to
//! shrink when a query needs room ([`ReclaimableCache`]), and for what they can spare whenever anybody does ([`SpareMark`]);
//! the count of bytes really allocated ([`CountingAllocator`]); sizes as users write them ([`parse_bytes`],
//! [`format_bytes`], [`exact_bytes`]).
//!
//! **Does not own:** which cache shrinks by how much (`placement::broker`, a pure function), which of its items a cache
//! gives up (the cache's policy), where the limit comes from (`hardware`, the user).
//!
//! **Invariants:** through [`Account::try_reserve`] the sum of reservations never passes the limit, and those of caches
//! never pass the caches' limit, under any interleaving. Queries win: caches are pushed out by queries that would fit
//! otherwise, and by other caches only where their bytes save clearly less ([`Budget::make_room_for`]) or are spare. A
//! request that no eviction can satisfy evicts nothing. What is dropped is given back in full.
//!
//! **Concurrency:** counters are atomic; the lists of accounts and caches are behind short locks. Caches are called
//! with no lock of this crate held, on the thread that asks; so a thread must hold none of its cache's locks while it
//! reserves for a query, and none that [`ReclaimableCache::release_spare`] takes whenever it reserves. Giving back is
//! atomic arithmetic and may be done anywhere.

mod account;
mod broker;
mod byte_size;
mod counting_allocator;
mod error;
mod ledger;
mod reservation;
mod scarcity;

pub use account::{Account, AccountSnapshot, Purpose};
pub use broker::{Budget, ReclaimableCache, SpareMark};
pub use byte_size::{exact_bytes, format_bytes, parse_bytes};
pub use counting_allocator::CountingAllocator;
pub use error::{BudgetError, Holder};
pub use reservation::Reservation;

/// The result of every fallible call of this crate.
pub type Result<T, E = BudgetError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests;
