//! The pool: its settings, and what is done to it as a whole.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use thermocline_budget::{Account, Budget, Purpose, ReclaimableCache};
use thermocline_hardware::Clock;
use thermocline_placement::broker::{BenefitCurve, step_bytes};
use thermocline_placement::page_cache::model::Shares;
use thermocline_placement::page_cache::{ListKey, PagePolicy};

use crate::arena::Arena;
use crate::device_meter::DeviceMeter;
use crate::residents::Residents;
use crate::source::{PageSource, RegisteredSource, SourceEntry};
use crate::{PoolError, PoolSnapshot, Result};

/// The name of the pool's account and of the pool among the caches of a budget.
const NAME: &str = "buffer pool";

/// The name of the account of pages that the pool has no room for.
const PASSING_NAME: &str = "pages outside of the buffer pool";

/// What a hit is taken to save for each byte until somebody who measured tells: a second for a gibibyte, about what one
/// NVMe disk takes.
const SECONDS_PER_BYTE: f64 = 1.0 / (1_u64 << 30) as f64;

/// What the pool's memory saves queries, by whoever measured that.
#[derive(Debug, Clone)]
pub(crate) struct Worth {
    /// By what quotas can claim.
    pub(crate) curve: BenefitCurve,
    /// Up to so many bytes; of more nothing is known.
    pub(crate) known_bytes: u64,
}

/// Settings of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolOptions {
    /// What is reserved from the budget and given back at once. Huge pages are asked for only if it is a multiple of 2
    /// MiB; in a budget of a few megabytes smaller chunks keep more.
    pub chunk_bytes: u64,
    /// Most bytes of neighbouring pages that are read by one I/O. A page that is larger is read by one too.
    pub read_most_bytes: u64,
    /// Addresses set aside: the most that the pool can ever hold. They cost nothing.
    pub address_bytes: u64,
}

impl Default for PoolOptions {
    /// Chunks and reads of 2 MiB, a huge page each, and addresses for 1 TiB.
    fn default() -> Self {
        Self { chunk_bytes: 2 << 20, read_most_bytes: 2 << 20, address_bytes: 1 << 40 }
    }
}

/// Pages in memory by their numbers; see the [crate].
pub struct BufferPool {
    pub(crate) options: PoolOptions,
    pub(crate) arena: Arc<Arena>,
    pub(crate) residents: Mutex<Residents>,
    /// For pages that there is no room for.
    pub(crate) passing: Account,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) device: Arc<DeviceMeter>,
    /// How many readers there are, which share what can be read ahead.
    pub(crate) reader_count: AtomicUsize,
    budget: Budget,
    next_source: AtomicU32,
    worth: RwLock<Option<Worth>>,
    /// Lists that mean something else by now; see [`take_reused`](BufferPool::take_reused).
    reused: Mutex<BTreeSet<ListKey>>,
}

impl BufferPool {
    /// An empty pool that takes memory from `budget` as it is needed, for caches, and yields it to queries.
    ///
    /// # Errors
    /// [`PoolError::Addresses`].
    pub fn new(
        options: PoolOptions,
        budget: &Budget,
        policy: Box<dyn PagePolicy>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let account = budget.account(NAME, Purpose::Cache);
        let arena = Arena::new(&account, options.chunk_bytes, options.address_bytes, Arc::clone(&clock))
            .map_err(|(address_bytes, source)| PoolError::Addresses { address_bytes, source: Arc::new(source) })?;
        let notes = account.reserve_infallible(0);
        let pool = Arc::new(Self {
            options,
            residents: Mutex::new(Residents::new(Arc::clone(&arena), policy, notes)),
            arena,
            passing: budget.account(PASSING_NAME, Purpose::Query),
            device: DeviceMeter::new(Arc::clone(&clock)),
            clock,
            reader_count: AtomicUsize::new(0),
            budget: budget.clone(),
            next_source: AtomicU32::new(0),
            worth: RwLock::new(None),
            reused: Mutex::default(),
        });
        let weak: Weak<Self> = Arc::downgrade(&pool);
        budget.register_cache(weak);
        Ok(pool)
    }

    /// Makes the pages of a source known, for as long as what is returned lives.
    pub fn register(self: &Arc<Self>, source: Arc<dyn PageSource>) -> RegisteredSource {
        let id = self.next_source.fetch_add(1, Ordering::Relaxed);
        self.residents.lock().add_source(id);
        RegisteredSource::new(Arc::clone(self), Arc::new(SourceEntry { id, source }))
    }

    pub(crate) fn unregister(&self, source: u32) {
        self.residents.lock().remove_source(source);
        self.arena.give_back(u64::MAX);
    }

    /// A list for the pages of one column, or of whatever else is to have a quota of its own.
    pub fn new_list(&self) -> ListKey {
        self.residents.lock().add_list()
    }

    /// Gives a list of [`new_list`](Self::new_list) to something else: what was asked of it so far is not counted any
    /// more, and who tunes the pool forgets it. Pages that it still has, of sources that are going, are.
    pub fn reuse_list(&self, list: ListKey) {
        self.residents.lock().reuse_list(list);
        self.reused.lock().insert(list);
    }

    /// Lists that were given to something else since this was asked last.
    pub(crate) fn take_reused(&self) -> BTreeSet<ListKey> {
        std::mem::take(&mut *self.reused.lock())
    }

    /// Lets another policy decide from now on. It learns of the pages in memory, not of how they were used, and of the
    /// quotas.
    pub fn set_policy(&self, policy: Box<dyn PagePolicy>) {
        self.residents.lock().set_policy(policy);
    }

    /// Tells the policy how many bytes each list may keep. Lists that are not named may keep none.
    pub fn set_quotas(&self, quotas: &[(ListKey, u64)]) {
        self.residents.lock().set_quotas(quotas);
    }

    /// Tells what the pool's memory is worth to queries, from now on. Until then its hits of late are counted.
    pub(crate) fn set_worth(&self, worth: Worth) {
        *self.worth.write() = Some(worth);
    }

    /// Of `worth`, the curve and where on it the pool is by what it holds now: what it gave since was its cheapest part.
    fn place<'a>(&self, worth: &'a Worth) -> (&'a BenefitCurve, u64) {
        let claimable_bytes = self.residents.lock().keepable_bytes(self.arena.reserved_bytes());
        (&worth.curve, worth.known_bytes.min(claimable_bytes))
    }

    fn hits_s_per_byte(&self) -> f64 {
        self.residents.lock().hits_per_byte() * SECONDS_PER_BYTE
    }

    /// What passes between the pool and other caches at a time.
    pub(crate) fn step_bytes(&self) -> u64 {
        step_bytes(self.budget.cache_bound_bytes())
    }

    /// Forgets all pages that nobody has, and gives their memory back.
    pub fn clear(&self) {
        self.residents.lock().clear();
    }

    /// What the pool holds now.
    pub fn snapshot(&self) -> PoolSnapshot {
        let residents = self.residents.lock();
        PoolSnapshot {
            lists: residents.snapshot(),
            page_count: residents.page_count(),
            mapped_bytes: self.arena.backed_bytes(),
            reserved_bytes: self.arena.reserved_bytes() + residents.notes_reserved_bytes(),
        }
    }

    /// The memory that the pool has of the system.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.arena.backed_bytes()
    }

    /// Whether some of the memory should lie on huge pages and does not.
    pub(crate) fn has_small_pages(&self) -> bool {
        self.arena.has_small()
    }

    /// Moves some of that to huge pages.
    pub(crate) fn enlarge_pages(&self) {
        self.arena.enlarge_next();
    }

    /// The memory that the pool has or could get.
    pub fn capacity_bytes(&self) -> u64 {
        self.arena.reserved_bytes().saturating_add(self.budget.cache_room_bytes())
    }

    /// What quotas can claim of [`capacity_bytes`](Self::capacity_bytes).
    pub fn keepable_bytes(&self) -> u64 {
        let capacity_bytes = self.capacity_bytes();
        self.residents.lock().keepable_bytes(capacity_bytes)
    }

    /// Takes room from other caches whose bytes save clearly less; returns how much.
    pub fn make_room(&self) -> u64 {
        self.budget.make_room_for(self)
    }

    /// What is in memory of so many bytes of each list, as shares of them.
    pub fn shares(&self, columns: &[(ListKey, u64)]) -> Shares {
        let held: HashMap<ListKey, u64> =
            self.residents.lock().snapshot().into_iter().map(|list| (list.list, list.held_bytes)).collect();
        let of_list = |(list, bytes): &(ListKey, u64)| {
            (*list, held.get(list).copied().unwrap_or_default() as f64 / (*bytes).max(1) as f64)
        };
        Shares::new(columns.iter().map(of_list))
    }

    /// What one of the readers that there are now should have pinned ahead at most: half of what the pool has or could
    /// get is left to what is in use and kept.
    pub(crate) fn reader_share_bytes(&self) -> u64 {
        let most_bytes = self.arena.backed_bytes().saturating_add(self.budget.cache_room_bytes());
        most_bytes / 2 / self.reader_count.load(Ordering::Relaxed).max(1) as u64
    }
}

impl ReclaimableCache for BufferPool {
    fn name(&self) -> &str {
        NAME
    }

    fn held_bytes(&self) -> u64 {
        self.arena.reserved_bytes()
    }

    fn marginal_benefit(&self, bytes: u64) -> f64 {
        match &*self.worth.read() {
            Some(worth) => {
                let (curve, held_bytes) = self.place(worth);
                curve.lost_s_per_byte(held_bytes, bytes)
            }
            None => self.hits_s_per_byte(),
        }
    }

    fn gain(&self, bytes: u64) -> Option<f64> {
        if self.held_bytes() == 0 {
            return None;
        }
        Some(match &*self.worth.read() {
            Some(worth) => {
                let (curve, held_bytes) = self.place(worth);
                curve.gained_s_per_byte(held_bytes, bytes)
            }
            None => self.hits_s_per_byte(),
        })
    }

    fn release(&self, bytes: u64) -> u64 {
        self.residents.lock().release(bytes)
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("options", &self.options)
            .field("mapped_bytes", &self.arena.backed_bytes())
            .finish_non_exhaustive()
    }
}
