//! The buffer pool of a database, and what divides it: one for pages of column tables and of Parquet files alike.
//!
//! Every database has one, with a folder or without. It costs addresses until pages come.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use thermocline_budget::Budget;
use thermocline_buffer_pool::{BufferPool, PoolOptions, Tuner, mapped_bytes};
use thermocline_hardware::Clock;
use thermocline_placement::page_cache::PagePolicyName;

use crate::error::Result;
use crate::raw_table::listing::external;

/// What the pool takes from the budget at once, at least: a page of a large column or two.
const LEAST_CHUNK_BYTES: u64 = 256 << 10;

/// Pages in memory, who decides which of them stay, and the policy by which they go.
pub(crate) struct PagePool {
    pool: Arc<BufferPool>,
    tuner: Arc<Tuner>,
    policy: RwLock<PagePolicyName>,
}

impl PagePool {
    /// An empty pool within `budget`.
    ///
    /// # Errors
    /// The system has no addresses for it.
    pub(crate) fn open(budget: &Budget, clock: &Arc<dyn Clock>) -> Result<Arc<Self>> {
        budget.observe_mapped(mapped_bytes);
        let policy = PagePolicyName::default();
        let pool =
            BufferPool::new(pool_options(budget), budget, policy.build(), Arc::clone(clock)).map_err(external)?;
        let tuner = Tuner::new(Arc::clone(&pool), Arc::clone(clock));
        Ok(Arc::new(Self { pool, tuner, policy: RwLock::new(policy) }))
    }

    /// What holds pages in memory.
    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// What divides that memory among columns.
    pub(crate) fn tuner(&self) -> &Arc<Tuner> {
        &self.tuner
    }

    /// By what pages go now.
    pub(crate) fn policy(&self) -> PagePolicyName {
        *self.policy.read()
    }

    /// Has pages go by another policy from now on; what is in memory and not in use is forgotten.
    pub(crate) fn set_policy(&self, policy: PagePolicyName) {
        let mut current = self.policy.write();
        self.pool.clear();
        self.pool.set_policy(policy.build());
        *current = policy;
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool").field("pool", &self.pool).field("policy", &self.policy()).finish_non_exhaustive()
    }
}

/// A pool that takes its memory in pieces which are small beside all there is.
fn pool_options(budget: &Budget) -> PoolOptions {
    let most_bytes = budget.cache_limit_bytes().unwrap_or(u64::MAX).min(budget.limit_bytes());
    let usual = PoolOptions::default();
    let piece_bytes = (most_bytes / 64).next_power_of_two().clamp(LEAST_CHUNK_BYTES, usual.chunk_bytes);
    PoolOptions { chunk_bytes: piece_bytes, ..usual }
}
