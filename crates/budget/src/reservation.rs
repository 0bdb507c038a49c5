//! Bytes that are spoken for, given back when dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::account::AccountState;

/// A part of the budget that is held until it is shrunk or dropped. Shared by reference, all operations are safe from
/// any thread; several at once act as if one after the other.
#[must_use = "a reservation that is dropped gives its bytes back"]
pub struct Reservation {
    account: Arc<AccountState>,
    size_bytes: AtomicU64,
}

impl Reservation {
    /// `size_bytes` were added to the account already.
    pub(crate) fn new(account: Arc<AccountState>, size_bytes: u64) -> Self {
        Self { account, size_bytes: AtomicU64::new(size_bytes) }
    }

    /// What it holds.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` more, under the rules of [`Account::try_reserve`](crate::Account::try_reserve).
    ///
    /// # Errors
    /// As there; what it held it still holds.
    pub fn try_grow(&self, bytes: u64) -> Result<()> {
        self.try_grow_leaving(bytes, 0)
    }

    /// Reserves `bytes` more if `left_bytes` are free for others after that, of the same purpose too.
    ///
    /// # Errors
    /// As [`try_grow`](Self::try_grow).
    pub fn try_grow_leaving(&self, bytes: u64, left_bytes: u64) -> Result<()> {
        self.account.try_add_leaving(bytes, left_bytes)?;
        self.size_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes `bytes` more that exist already, under the rules of
    /// [`Account::reserve_infallible`](crate::Account::reserve_infallible).
    pub fn grow_infallible(&self, bytes: u64) {
        self.account.add(bytes);
        self.size_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives `bytes` back, at most all it holds; returns how many.
    pub fn shrink(&self, bytes: u64) -> u64 {
        let taken_bytes = self.take(bytes);
        self.account.give_back(taken_bytes);
        taken_bytes
    }

    /// Grows or shrinks to `size_bytes`.
    ///
    /// # Errors
    /// As [`try_grow`](Self::try_grow); shrinking never fails.
    pub fn resize(&self, size_bytes: u64) -> Result<()> {
        let held_bytes = self.size_bytes();
        if size_bytes > held_bytes {
            self.try_grow(size_bytes - held_bytes)
        } else {
            self.shrink(held_bytes - size_bytes);
            Ok(())
        }
    }

    /// Moves `bytes`, at most all it holds, to a reservation of their own in the same account.
    pub fn split(&self, bytes: u64) -> Self {
        Self::new(Arc::clone(&self.account), self.take(bytes))
    }

    /// Lowers the size by at most `bytes` without giving them back; returns by how much.
    fn take(&self, bytes: u64) -> u64 {
        let lowered = |held_bytes: u64| Some(held_bytes.saturating_sub(bytes));
        let held_bytes = self
            .size_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered)
            .unwrap_or_else(|held_bytes| held_bytes);
        held_bytes.min(bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.give_back(*self.size_bytes.get_mut());
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("account", &self.account.name)
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}
