//! The arithmetic of the budget: two totals under two limits, without locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Purpose;
use crate::scarcity::Scarcity;

/// What is reserved, and how much may be. The totals move by compare-and-swap, so a limit is never passed even for a
/// moment; all orderings are relaxed because no other memory is published through these numbers.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit_bytes: AtomicU64,
    /// `u64::MAX` means none beyond the limit itself.
    cache_limit_bytes: AtomicU64,
    /// Of queries and caches together.
    reserved_bytes: AtomicU64,
    /// Of caches; part of `reserved_bytes`. Raised before and lowered after that, so it may be ahead of it for a
    /// moment.
    cache_reserved_bytes: AtomicU64,
    /// Of `cache_reserved_bytes`, what caches give back whenever anybody asks for it.
    spare_bytes: AtomicU64,
    /// What queries that are short of room ask for just now: not free for caches, or they would take what was released.
    wanted_bytes: AtomicU64,
    allocated: OnceLock<fn() -> u64>,
    /// Memory that the allocator behind `allocated` knows nothing of.
    mapped: OnceLock<fn() -> u64>,
    scarcity: Scarcity,
}

/// Why a reservation does not fit, in numbers of that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortfall {
    /// What would have to be given back first.
    pub(crate) missing_bytes: u64,
    pub(crate) free_bytes: u64,
}

impl Ledger {
    pub(crate) fn new(limit_bytes: u64, cache_limit_bytes: Option<u64>) -> Self {
        Self {
            limit_bytes: AtomicU64::new(limit_bytes),
            cache_limit_bytes: AtomicU64::new(cache_limit_bytes.unwrap_or(u64::MAX)),
            reserved_bytes: AtomicU64::new(0),
            cache_reserved_bytes: AtomicU64::new(0),
            spare_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicU64::new(0),
            allocated: OnceLock::new(),
            mapped: OnceLock::new(),
            scarcity: Scarcity::default(),
        }
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
        self.note_level();
    }

    pub(crate) fn cache_limit_bytes(&self) -> Option<u64> {
        Some(self.cache_limit_bytes.load(Ordering::Relaxed)).filter(|&bytes| bytes != u64::MAX)
    }

    pub(crate) fn set_cache_limit_bytes(&self, bytes: Option<u64>) {
        self.cache_limit_bytes.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn cache_reserved_bytes(&self) -> u64 {
        self.cache_reserved_bytes.load(Ordering::Relaxed)
    }

    /// What would be used with all caches empty.
    ///
    /// The totals move while they are read: the caches' is read before and after, and the greater taken, so that the
    /// answer errs only towards asking the caches in vain.
    pub(crate) fn unreclaimable_bytes(&self) -> u64 {
        let before_bytes = self.cache_reserved_bytes();
        let used_bytes = self.used_bytes();
        used_bytes.saturating_sub(before_bytes.max(self.cache_reserved_bytes()))
    }

    /// Keeps `bytes` from caches until the guard is dropped.
    pub(crate) fn want(&self, bytes: u64) -> Wanted<'_> {
        // Saturating: a query may ask for anything.
        let bytes = bytes.min(self.limit_bytes());
        self.wanted_bytes.fetch_add(bytes, Ordering::Relaxed);
        Wanted { ledger: self, bytes }
    }

    /// The limit as caches see it.
    fn limit_for_caches_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.wanted_bytes.load(Ordering::Relaxed))
    }

    /// The first probe that is set stays.
    pub(crate) fn observe_allocated(&self, probe: fn() -> u64) {
        let _ = self.allocated.set(probe);
    }

    pub(crate) fn observe_mapped(&self, probe: fn() -> u64) {
        let _ = self.mapped.set(probe);
    }

    /// The first hook that is set stays.
    pub(crate) fn observe_scarcity(&self, hook: fn(bool)) {
        self.scarcity.observe(hook);
        self.note_level();
    }

    /// Tells the hook when more than half of the limit is used, and when less than two fifths are again: the distance
    /// keeps it from being told all the time.
    pub(crate) fn note_level(&self) {
        self.scarcity.note(|was_scarce| {
            let (used_bytes, limit_bytes) = (self.used_bytes(), self.limit_bytes());
            if was_scarce { used_bytes >= limit_bytes / 5 * 2 } else { used_bytes > limit_bytes / 2 }
        });
    }

    /// What the probe tells, 0 without one.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let Some(allocated) = self.allocated.get() else { return 0 };
        allocated() + self.mapped.get().map_or(0, |mapped| mapped())
    }

    /// Reservations, or what is really allocated where that is more.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.reserved_bytes().max(self.allocated_bytes())
    }

    /// What is free for caches now, spare bytes among it.
    pub(crate) fn cache_room_bytes(&self) -> u64 {
        let spare_bytes = self.spare_bytes();
        let held_bytes = self.cache_reserved_bytes().saturating_sub(spare_bytes);
        let under_cache_limit = self.cache_limit_bytes.load(Ordering::Relaxed).saturating_sub(held_bytes);
        let used_bytes = self.used_bytes().saturating_sub(spare_bytes);
        under_cache_limit.min(self.limit_for_caches_bytes().saturating_sub(used_bytes))
    }

    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare_bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes that a cache has reserved as spare.
    pub(crate) fn add_spare(&self, bytes: u64) {
        self.spare_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes that back.
    pub(crate) fn remove_spare(&self, bytes: u64) {
        self.spare_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds a reservation if it fits and `left_bytes` are free after it; tells what is missing if not, and then changes
    /// nothing.
    pub(crate) fn try_add(&self, purpose: Purpose, bytes: u64, left_bytes: u64) -> Result<(), Shortfall> {
        if purpose == Purpose::Cache {
            let limit_bytes = self.cache_limit_bytes.load(Ordering::Relaxed);
            add_below(&self.cache_reserved_bytes, bytes, limit_bytes, 0)?;
        }
        let limit_bytes = match purpose {
            Purpose::Cache => self.limit_for_caches_bytes(),
            Purpose::Query => self.limit_bytes(),
        };
        let limit_bytes = limit_bytes.saturating_sub(left_bytes);
        let added = add_below(&self.reserved_bytes, bytes, limit_bytes, self.allocated_bytes());
        if added.is_err() && purpose == Purpose::Cache {
            self.cache_reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.note_level();
        added
    }

    /// Adds what exists already, over the limit too.
    pub(crate) fn add(&self, purpose: Purpose, bytes: u64) {
        if purpose == Purpose::Cache {
            self.cache_reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.note_level();
    }

    pub(crate) fn give_back(&self, purpose: Purpose, bytes: u64) {
        self.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if purpose == Purpose::Cache {
            self.cache_reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.note_level();
    }
}

/// Bytes kept from caches while it lives.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    ledger: &'a Ledger,
    bytes: u64,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.ledger.wanted_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Raises `total` by `bytes` if the greater of it and `floor_bytes` stays within `limit_bytes` after that.
fn add_below(total: &AtomicU64, bytes: u64, limit_bytes: u64, floor_bytes: u64) -> Result<(), Shortfall> {
    let mut seen_bytes = total.load(Ordering::Relaxed);
    loop {
        let used_bytes = seen_bytes.max(floor_bytes);
        let free_bytes = limit_bytes.saturating_sub(used_bytes);
        if bytes > free_bytes {
            let missing_bytes = used_bytes.saturating_add(bytes).saturating_sub(limit_bytes);
            return Err(Shortfall { missing_bytes, free_bytes });
        }
        match total.compare_exchange_weak(seen_bytes, seen_bytes + bytes, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(now_bytes) => seen_bytes = now_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spare_is_free_as_far_as_it_makes_up_for_what_is_over_the_limit() {
        let ledger = Ledger::new(100, None);
        ledger.add(Purpose::Cache, 80);
        ledger.add(Purpose::Query, 60);
        ledger.add_spare(30);
        assert_eq!(ledger.cache_room_bytes(), 0, "110 bytes are left without it");
        ledger.give_back(Purpose::Query, 50);
        assert_eq!(ledger.cache_room_bytes(), 40);
        ledger.remove_spare(30);
        assert_eq!(ledger.cache_room_bytes(), 10);
    }

    #[test]
    fn what_does_not_fit_changes_nothing_and_tells_what_is_missing() {
        let ledger = Ledger::new(100, Some(40));
        assert_eq!(ledger.try_add(Purpose::Query, 70, 0), Ok(()));
        assert_eq!(ledger.try_add(Purpose::Query, 40, 0), Err(Shortfall { missing_bytes: 10, free_bytes: 30 }));
        assert_eq!(ledger.try_add(Purpose::Cache, 41, 0), Err(Shortfall { missing_bytes: 1, free_bytes: 40 }));
        assert_eq!(ledger.try_add(Purpose::Cache, 31, 0), Err(Shortfall { missing_bytes: 1, free_bytes: 30 }));
        assert_eq!((ledger.reserved_bytes(), ledger.cache_reserved_bytes()), (70, 0));
        assert_eq!(ledger.try_add(Purpose::Cache, 30, 0), Ok(()));
        assert_eq!((ledger.unreclaimable_bytes(), ledger.cache_room_bytes()), (70, 0));
        ledger.give_back(Purpose::Cache, 30);
        ledger.give_back(Purpose::Query, 70);
        assert_eq!((ledger.reserved_bytes(), ledger.cache_reserved_bytes()), (0, 0));
    }

    #[test]
    fn what_is_to_stay_free_is_not_given_to_who_leaves_it() {
        let ledger = Ledger::new(100, None);
        assert_eq!(ledger.try_add(Purpose::Query, 60, 40), Ok(()));
        let shortfall = Shortfall { missing_bytes: 1, free_bytes: 0 };
        assert_eq!(ledger.try_add(Purpose::Query, 1, 40), Err(shortfall));
        assert_eq!(ledger.try_add(Purpose::Query, 0, 200), Ok(()));
        assert_eq!((ledger.reserved_bytes(), ledger.try_add(Purpose::Query, 40, 0)), (60, Ok(())));
    }

    #[test]
    fn nothing_overflows_at_the_largest_numbers() {
        let ledger = Ledger::new(u64::MAX, None);
        assert_eq!(ledger.try_add(Purpose::Query, u64::MAX, 0), Ok(()));
        assert_eq!(ledger.try_add(Purpose::Query, 1, 0), Err(Shortfall { missing_bytes: 0, free_bytes: 0 }));
        assert_eq!(ledger.try_add(Purpose::Query, 0, 0), Ok(()));
    }

    #[test]
    fn what_is_mapped_counts_beside_what_is_allocated() {
        let ledger = Ledger::new(100, None);
        ledger.observe_mapped(|| 30);
        assert_eq!(ledger.allocated_bytes(), 0, "without the allocator's figure it says nothing");
        ledger.observe_allocated(|| 60);
        assert_eq!(ledger.allocated_bytes(), 90);
    }

    #[test]
    fn what_is_allocated_counts_where_it_is_more_than_what_is_reserved() {
        let ledger = Ledger::new(100, None);
        ledger.observe_allocated(|| 60);
        assert_eq!(ledger.try_add(Purpose::Query, 41, 0), Err(Shortfall { missing_bytes: 1, free_bytes: 40 }));
        assert_eq!(ledger.try_add(Purpose::Cache, 40, 0), Ok(()));
        assert_eq!((ledger.used_bytes(), ledger.cache_room_bytes()), (60, 40));
    }

    #[test]
    fn what_a_query_waits_for_is_not_free_for_caches() {
        let ledger = Ledger::new(100, None);
        let wanted = ledger.want(70);
        assert_eq!(ledger.cache_room_bytes(), 30);
        assert_eq!(ledger.try_add(Purpose::Cache, 31, 0), Err(Shortfall { missing_bytes: 1, free_bytes: 30 }));
        assert_eq!(ledger.try_add(Purpose::Query, 31, 0), Ok(()));
        drop(wanted);
        assert_eq!(ledger.try_add(Purpose::Cache, 69, 0), Ok(()));
        drop(ledger.want(u64::MAX));
        assert_eq!((ledger.cache_room_bytes(), ledger.unreclaimable_bytes()), (0, 31));
    }

    #[test]
    fn scarcity_is_told_above_a_half_and_its_end_below_two_fifths() {
        static TOLD: std::sync::Mutex<Vec<bool>> = std::sync::Mutex::new(Vec::new());
        let told = || TOLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let ledger = Ledger::new(100, None);
        ledger.observe_scarcity(|is_scarce| {
            TOLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(is_scarce);
        });
        assert_eq!(ledger.try_add(Purpose::Query, 50, 0), Ok(()));
        assert_eq!(told(), []);
        ledger.add(Purpose::Cache, 1);
        assert_eq!(told(), [true]);
        ledger.give_back(Purpose::Query, 11);
        assert_eq!(told(), [true], "40 of 100 is between");
        ledger.give_back(Purpose::Query, 1);
        assert_eq!(told(), [true, false]);
        assert_eq!(ledger.try_add(Purpose::Query, 20, 0), Ok(()));
        assert_eq!(told(), [true, false, true]);
        ledger.set_limit_bytes(1000);
        assert_eq!(told(), [true, false, true, false]);
    }

    #[test]
    fn memory_that_nobody_reserved_cannot_be_reclaimed() {
        let ledger = Ledger::new(100, None);
        ledger.observe_allocated(|| 60);
        ledger.add(Purpose::Cache, 20);
        assert_eq!(ledger.unreclaimable_bytes(), 40);
    }
}
