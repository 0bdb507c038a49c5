//! The budget itself: opens accounts, and asks caches to shrink when a query needs room.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thermocline_placement::broker::{missing_of_step, shrink_order, step_bytes, yielding};

use crate::account::AccountState;
use crate::ledger::{Ledger, Shortfall};
use crate::{Account, AccountSnapshot, BudgetError, Holder, Purpose, Result};

/// How often the caches are asked for one reservation before it fails. One round is enough alone; each further one
/// means that another query took the room that was made, so it is as many as queries are ever served in that moment.
const RECLAIM_ROUND_COUNT: usize = 64;
/// Holders that an error names; the rest is summed up.
const NAMED_HOLDER_COUNT: usize = 5;

/// A cache that can give memory back.
///
/// Called with no lock of the budget held, on the thread of the query that needs room, from several threads at once.
/// Its reservations must be given back (dropped or shrunk) by the time [`release`](Self::release) returns; doing so
/// under its own lock is fine. It must not reserve for a query in there.
pub trait ReclaimableCache: Send + Sync {
    /// Name shown to users.
    fn name(&self) -> &str;
    /// What it could give back at most, about.
    fn held_bytes(&self) -> u64;
    /// Query time lost per byte, in seconds, if `bytes` were taken away.
    fn marginal_benefit(&self, bytes: u64) -> f64;
    /// Query time saved per byte, in seconds, if it had `bytes` more; `None` if it has nothing yet to tell that by. Who
    /// knows no better takes further bytes to be worth as much as those that it would lose.
    fn gain(&self, bytes: u64) -> Option<f64> {
        let held_bytes = self.held_bytes();
        (held_bytes > 0).then(|| self.marginal_benefit(bytes.min(held_bytes)))
    }
    /// Gives back at least `bytes` if it can, the least useful items first; returns how many, 0 if it has nothing to
    /// give.
    fn release(&self, bytes: u64) -> u64;
    /// Gives back at least `bytes` of what it has [marked as spare](Budget::mark_spare), or all of that; returns how
    /// many, 0 if that is in use. Called whenever anybody reserves what does not fit beside it, this cache too, under
    /// whichever locks they hold: it must take none but those under which nobody reserves.
    fn release_spare(&self, bytes: u64) -> u64 {
        let _ = bytes;
        0
    }
}

/// Bytes that a cache gives back whenever anybody asks for them, as long as this lives. See [`Budget::mark_spare`].
#[derive(Debug)]
pub struct SpareMark {
    bytes: u64,
    budget: Budget,
}

impl SpareMark {
    /// How many.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SpareMark {
    fn drop(&mut self) {
        self.budget.state.ledger.remove_spare(self.bytes);
    }
}

/// The memory budget of one database. Clones are the same budget.
#[derive(Clone)]
pub struct Budget {
    state: Arc<BudgetState>,
}

pub(crate) struct BudgetState {
    pub(crate) ledger: Ledger,
    caches: Mutex<Vec<Weak<dyn ReclaimableCache>>>,
    accounts: Mutex<BTreeMap<u64, Weak<AccountState>>>,
    next_account: AtomicU64,
}

impl Budget {
    /// A budget of `limit_bytes` in all, of which caches may take `cache_limit_bytes`, or all when that is `None`.
    pub fn new(limit_bytes: u64, cache_limit_bytes: Option<u64>) -> Self {
        let state = BudgetState {
            ledger: Ledger::new(limit_bytes, cache_limit_bytes),
            caches: Mutex::new(Vec::new()),
            accounts: Mutex::new(BTreeMap::new()),
            next_account: AtomicU64::new(0),
        };
        Self { state: Arc::new(state) }
    }

    /// The limit of all reservations together.
    pub fn limit_bytes(&self) -> u64 {
        self.state.ledger.limit_bytes()
    }

    /// Sets the limit. When more is reserved than that, caches are asked to shrink now; running queries keep what
    /// they hold and get no more.
    pub fn set_limit(&self, bytes: u64) {
        self.state.ledger.set_limit_bytes(bytes);
        self.state.reclaim_excess();
    }

    /// The limit of the caches alone, if there is one.
    pub fn cache_limit_bytes(&self) -> Option<u64> {
        self.state.ledger.cache_limit_bytes()
    }

    /// Sets or lifts the limit of the caches alone; they are asked to shrink below it now.
    pub fn set_cache_limit(&self, bytes: Option<u64>) {
        self.state.ledger.set_cache_limit_bytes(bytes);
        self.state.reclaim_excess();
    }

    /// Reserved now, by queries and caches together.
    pub fn reserved_bytes(&self) -> u64 {
        self.state.ledger.reserved_bytes()
    }

    /// The part of [`reserved_bytes`](Self::reserved_bytes) that caches hold.
    pub fn cache_reserved_bytes(&self) -> u64 {
        self.state.ledger.cache_reserved_bytes()
    }

    /// What counts against the limit: reservations, or what is really allocated where that is more.
    pub fn used_bytes(&self) -> u64 {
        self.state.ledger.used_bytes()
    }

    /// The part of [`used_bytes`](Self::used_bytes) that would be left if all caches were empty.
    pub fn unreclaimable_bytes(&self) -> u64 {
        self.state.ledger.unreclaimable_bytes()
    }

    /// Declares bytes that a cache has reserved to be of little use: they count as free for caches, and go before
    /// anything else when room is short, for queries and caches alike ([`ReclaimableCache::release_spare`]). To be
    /// dropped before their reservations are.
    pub fn mark_spare(&self, bytes: u64) -> SpareMark {
        self.state.ledger.add_spare(bytes);
        SpareMark { bytes, budget: self.clone() }
    }

    /// What a cache could reserve now, under both limits: what is free, and what is spare.
    pub fn cache_room_bytes(&self) -> u64 {
        self.state.ledger.cache_room_bytes()
    }

    /// Makes `cache` one of those that are asked to shrink, as long as it lives.
    pub fn register_cache(&self, cache: Weak<dyn ReclaimableCache>) {
        self.state.caches.lock().push(cache);
    }

    /// What caches may have together, under both limits.
    pub fn cache_bound_bytes(&self) -> u64 {
        self.cache_limit_bytes().unwrap_or(u64::MAX).min(self.limit_bytes())
    }

    /// Whether so little is free that [`make_room_for`](Self::make_room_for) would ask other caches. Two looks at
    /// counters.
    pub fn lacks_room(&self) -> bool {
        missing_of_step(self.cache_room_bytes(), self.cache_bound_bytes()).is_some()
    }

    /// Lets the cache `asking` have room at the cost of another one whose bytes save clearly less, if hardly any is
    /// free; returns how many bytes were given up. What is free is then whoever's who reserves it first. To be called
    /// with no lock of a cache held, before work that would fill the cache. Nobody bids unless room is short and there
    /// is somebody to yield some.
    pub fn make_room_for(&self, asking: &dyn ReclaimableCache) -> u64 {
        if !self.lacks_room() {
            return 0;
        }
        let (limit_bytes, caches) = (self.cache_bound_bytes(), self.state.live_caches().into_iter());
        let others = caches.filter(|cache| cache.name() != asking.name());
        let others: Vec<_> =
            others.map(|cache| (cache.held_bytes(), cache)).filter(|(held_bytes, _)| *held_bytes > 0).collect();
        if others.is_empty() {
            return 0;
        }
        let step_bytes = step_bytes(limit_bytes);
        let bids: Vec<(u64, f64)> = others
            .iter()
            .map(|(held_bytes, cache)| (*held_bytes, cache.marginal_benefit(step_bytes.min(*held_bytes))))
            .collect();
        match yielding(self.cache_room_bytes(), limit_bytes, asking.gain(step_bytes), &bids) {
            Some((index, bytes)) => others[index].1.release(bytes),
            None => 0,
        }
    }

    /// Opens an account. Names need not be unique.
    pub fn account(&self, name: impl Into<String>, purpose: Purpose) -> Account {
        let id = self.state.next_account.fetch_add(1, Ordering::Relaxed);
        let account = Arc::new(AccountState {
            id,
            name: name.into(),
            purpose,
            reserved_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            budget: Arc::clone(&self.state),
        });
        self.state.accounts.lock().insert(id, Arc::downgrade(&account));
        Account::new(account)
    }

    /// Counts what is really allocated too: `probe` tells that (less whatever allowance its owner grants for what is
    /// never reserved), and is called for each reservation. The first probe that is set stays.
    pub fn observe_allocated(&self, probe: fn() -> u64) {
        self.state.ledger.observe_allocated(probe);
    }

    /// Counts memory that the allocator which [`observe_allocated`](Self::observe_allocated) asks knows nothing of,
    /// such as maps of the process's own. The first probe that is set stays.
    pub fn observe_mapped(&self, probe: fn() -> u64) {
        self.state.ledger.observe_mapped(probe);
    }

    /// Tells `hook` when more than half of the limit is used (`true`), and when that is over. Below a half, an
    /// allocator may keep what is freed for the next batch, since all that was in use lately fits beside what is in use
    /// now; above it, freed memory should go back to the system at once. The first hook that is set stays.
    pub fn observe_scarcity(&self, hook: fn(bool)) {
        self.state.ledger.observe_scarcity(hook);
    }

    /// All accounts that are open, in the order they were opened.
    pub fn accounts(&self) -> Vec<AccountSnapshot> {
        self.state.live_accounts().iter().map(|account| account.snapshot()).collect()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.ledger.fmt(f)
    }
}

impl BudgetState {
    /// Reserves for `account` in the ledger so that `left_bytes` are free after it, making room first if it is for a query.
    pub(crate) fn reserve(&self, account: &AccountState, bytes: u64, left_bytes: u64) -> Result<()> {
        let try_add = || self.ledger.try_add(account.purpose, bytes, left_bytes);
        let needed_bytes = bytes.saturating_add(left_bytes);
        let mut shortfall = match try_add() {
            Ok(()) => return Ok(()),
            Err(shortfall) => shortfall,
        };
        if account.purpose == Purpose::Cache {
            for _ in 0..RECLAIM_ROUND_COUNT {
                let is_enough = shortfall.missing_bytes <= self.ledger.spare_bytes();
                if !is_enough || self.release_spares(shortfall.missing_bytes) == 0 {
                    break;
                }
                match try_add() {
                    Ok(()) => return Ok(()),
                    Err(still) => shortfall = still,
                }
            }
            return Err(BudgetError::CacheMemory {
                account: account.name.clone(),
                asked_bytes: bytes,
                free_bytes: shortfall.free_bytes,
            });
        }
        // With all caches empty it would not fit either: leave them alone.
        let is_hopeless = || self.ledger.unreclaimable_bytes().saturating_add(needed_bytes) > self.ledger.limit_bytes();
        if is_hopeless() {
            return Err(self.refusal(account, bytes, shortfall));
        }
        let _wanted = self.ledger.want(needed_bytes);
        for _ in 0..RECLAIM_ROUND_COUNT {
            let released_bytes = if is_hopeless() { 0 } else { self.reclaim(shortfall.missing_bytes) };
            match try_add() {
                Ok(()) => return Ok(()),
                Err(still) => shortfall = still,
            }
            if released_bytes == 0 {
                break;
            }
        }
        Err(self.refusal(account, bytes, shortfall))
    }

    /// Has what is spare given back, `bytes` of it or all. Returns how much the caches say that was.
    fn release_spares(&self, bytes: u64) -> u64 {
        let mut given_bytes = 0_u64;
        if self.ledger.spare_bytes() > 0 {
            for cache in self.live_caches() {
                let missing_bytes = bytes.saturating_sub(given_bytes);
                if missing_bytes > 0 {
                    given_bytes = given_bytes.saturating_add(cache.release_spare(missing_bytes));
                }
            }
        }
        given_bytes
    }

    /// Asks the caches to give back `bytes` in all, what is spare and then the least missed first, each for what is still
    /// missing: what a cache holds it may not be able to give. Returns what they say they gave.
    fn reclaim(&self, bytes: u64) -> u64 {
        let of_spares = self.release_spares(bytes);
        if of_spares >= bytes {
            return of_spares;
        }
        let bytes = bytes - of_spares;
        let caches = self.live_caches();
        let offers: Vec<(u64, f64)> = caches
            .iter()
            .map(|cache| {
                let held_bytes = cache.held_bytes();
                (held_bytes, cache.marginal_benefit(bytes.min(held_bytes)))
            })
            .collect();
        let mut given_bytes = 0_u64;
        for (index, held_bytes) in shrink_order(u64::MAX, &offers) {
            let missing_bytes = bytes.saturating_sub(given_bytes);
            if missing_bytes == 0 {
                break;
            }
            given_bytes = given_bytes.saturating_add(caches[index].release(held_bytes.min(missing_bytes)));
        }
        given_bytes.saturating_add(of_spares)
    }

    /// Asks the caches to make up for what is over either limit, as far as they can.
    pub(crate) fn reclaim_excess(&self) {
        for _ in 0..RECLAIM_ROUND_COUNT {
            let over_limit = self.ledger.used_bytes().saturating_sub(self.ledger.limit_bytes());
            let cache_limit_bytes = self.ledger.cache_limit_bytes().unwrap_or(u64::MAX);
            let over_cache_limit = self.ledger.cache_reserved_bytes().saturating_sub(cache_limit_bytes);
            let excess_bytes = over_limit.max(over_cache_limit);
            if excess_bytes == 0 || self.reclaim(excess_bytes) == 0 {
                return;
            }
        }
    }

    pub(crate) fn forget_account(&self, id: u64) {
        self.accounts.lock().remove(&id);
    }

    fn live_caches(&self) -> Vec<Arc<dyn ReclaimableCache>> {
        let mut live = Vec::new();
        self.caches.lock().retain(|cache| {
            let cache = cache.upgrade();
            let alive = cache.is_some();
            live.extend(cache);
            alive
        });
        live
    }

    /// The last owner of an account may be this list: it is dropped after the lock is released, for that takes it too.
    fn live_accounts(&self) -> Vec<Arc<AccountState>> {
        let accounts = self.accounts.lock();
        accounts.values().filter_map(Weak::upgrade).collect()
    }

    fn refusal(&self, account: &AccountState, asked_bytes: u64, shortfall: Shortfall) -> BudgetError {
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for other in self.live_accounts() {
            *held.entry(other.name.clone()).or_default() += other.reserved_bytes.load(Ordering::Relaxed);
        }
        let mut holders: Vec<Holder> = held
            .into_iter()
            .filter(|&(_, held_bytes)| held_bytes > 0)
            .map(|(name, held_bytes)| Holder { name, held_bytes })
            .collect();
        let unaccounted_bytes = self.ledger.allocated_bytes().saturating_sub(self.ledger.reserved_bytes());
        if unaccounted_bytes > 0 {
            holders.push(Holder { name: "memory outside of any account".to_owned(), held_bytes: unaccounted_bytes });
        }
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.held_bytes));
        if holders.len() > NAMED_HOLDER_COUNT + 1 {
            let others = holders.split_off(NAMED_HOLDER_COUNT);
            let held_bytes = others.iter().map(|holder| holder.held_bytes).sum();
            holders.push(Holder { name: format!("{} others", others.len()), held_bytes });
        }
        BudgetError::QueryMemory {
            account: account.name.clone(),
            asked_bytes,
            free_bytes: shortfall.free_bytes,
            limit_bytes: self.ledger.limit_bytes(),
            holders,
        }
    }
}
