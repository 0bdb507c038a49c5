//! Footers that queries hold, counted in the budget for as long as they do.
//!
//! What [`FooterCache`](super::FooterCache) keeps is small beside what a query over thousands of wide files holds from
//! planning until its end. Each footer in use is counted in full, also while the cache has it: it may be dropped there at
//! any time, which then frees nothing.
//!
//! Invariants: of a version that was not young when its footer was read there is one footer, which all who want it
//! share and which is counted once, unless two read it at the same time past the cache; then the first one stays.
//!
//! Concurrency: one lock, for look-ups. Nothing is reserved under it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use datafusion::parquet::file::metadata::ParquetMetaData;
use parking_lot::Mutex;
use thermocline_budget::{Account, Budget, BudgetError, Purpose, Reservation, format_bytes};
use thermocline_medium::FileVersion;

use super::leaves::Leaves;

type ByVersion = HashMap<FileVersion, Weak<HeldFooter>>;

/// The footers that somebody holds.
pub(super) struct FootersInUse {
    account: Account,
    by_version: Arc<Mutex<ByVersion>>,
}

/// A footer and the memory that is reserved for it.
pub(super) struct HeldFooter {
    metadata: Arc<ParquetMetaData>,
    leaves: Leaves,
    reservation: Reservation,
    version: FileVersion,
    /// Where others find it.
    by_version: Weak<Mutex<ByVersion>>,
}

impl FootersInUse {
    pub(super) fn new(budget: &Budget) -> Self {
        Self { account: budget.account("Parquet footers in use", Purpose::Query), by_version: Arc::default() }
    }

    /// The footer of this version, if somebody holds one that others may have.
    pub(super) fn find(&self, version: &FileVersion) -> Option<Arc<HeldFooter>> {
        self.by_version.lock().get(version).and_then(Weak::upgrade)
    }

    /// Counts a footer, of which so many bytes are known or else asked for. Others find it if it is `shared`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn hold(
        &self,
        version: &FileVersion,
        metadata: Arc<ParquetMetaData>,
        known_bytes: Option<u64>,
        shared: bool,
    ) -> Result<Arc<HeldFooter>, BudgetError> {
        let bytes = known_bytes.unwrap_or_else(|| (metadata.memory_size() + version.heap_bytes()) as u64);
        let leaves = Leaves::of(&metadata);
        let own_bytes = size_of::<HeldFooter>() + leaves.heap_bytes();
        let reservation = self.account.try_reserve(bytes + own_bytes as u64)?;
        let by_version = if shared { Arc::downgrade(&self.by_version) } else { Weak::new() };
        let held = Arc::new(HeldFooter { metadata, leaves, reservation, version: version.clone(), by_version });
        if shared {
            let mut by_version = self.by_version.lock();
            if let Some(other) = by_version.get(version).and_then(Weak::upgrade) {
                // Before what was held in vain goes, which takes the lock.
                drop(by_version);
                return Ok(other);
            }
            by_version.insert(version.clone(), Arc::downgrade(&held));
        }
        Ok(held)
    }
}

impl HeldFooter {
    /// The footer for DataFusion, which lives no longer than the plan that holds this.
    pub(super) fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// The number of a column that is not nested, among the file's leaves.
    pub(super) fn leaf(&self, name: &str) -> Option<usize> {
        self.leaves.find(&self.metadata, name)
    }

    /// What is reserved for it.
    pub(super) fn size_bytes(&self) -> u64 {
        self.reservation.size_bytes()
    }
}

impl Deref for HeldFooter {
    type Target = ParquetMetaData;

    fn deref(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

impl Drop for HeldFooter {
    fn drop(&mut self) {
        let Some(by_version) = self.by_version.upgrade() else { return };
        let mut by_version = by_version.lock();
        // Another one may have its place by now.
        if by_version.get(&self.version).is_some_and(|held| held.strong_count() == 0) {
            by_version.remove(&self.version);
        }
    }
}

impl fmt::Debug for HeldFooter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldFooter").field("path", &self.version.path).finish_non_exhaustive()
    }
}

/// The footers of a table's files do not fit into memory together.
#[derive(Debug, thiserror::Error)]
#[error(
    "{first_path}: the footers of the table's Parquet files, {file_count} in all, need about {}: {source}",
    format_bytes(*.needed_bytes)
)]
pub(super) struct NoRoomForFooters {
    pub(super) first_path: Arc<str>,
    pub(super) file_count: usize,
    /// By those that were read.
    pub(super) needed_bytes: u64,
    pub(super) source: BudgetError,
}
