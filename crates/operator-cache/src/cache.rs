//! The cache as a whole: what it consists of, which files it knows, what it records.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use thermocline_budget::{Account, Budget, Purpose, ReclaimableCache};
use thermocline_hardware::{Clock, IdleProcessors};
use thermocline_medium::FileVersion;
use thermocline_placement::operator_cache::admission_rule::AdmissionRule;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_placement::operator_cache::recache::ReCache;
use thermocline_placement::operator_cache::{EvictionPolicy, PolicyState};
use thermocline_predicate::Conjunction;

use crate::candidates::Terms;
use crate::catalog::Catalog;
use crate::decisions::{Decision, DecisionKind, DecisionRing, Entry, NotedPredicate};
use crate::error::CacheError;
use crate::file_record::{AppendPolicy, FileRecord, Moments, OpenedFile, PinnedSource, Stale};
use crate::item::{Item, ItemId};
use crate::map_store::MapStore;
use crate::mirrors::Mirrors;
use crate::recording::Recorder;
use crate::scan::SharedScan;

/// File records beyond which those without items are dropped.
pub(crate) const RECORD_COUNT: usize = 65_536;

/// The records of files, by path.
#[derive(Debug)]
struct FileRecords {
    by_path: HashMap<Arc<str>, Arc<FileRecord>>,
    /// How many there are when those that nobody needs are looked for again: a walk over all, which may find none while
    /// queries hold them.
    swept_at: usize,
    #[cfg(test)]
    sweep_count: usize,
}

impl FileRecords {
    fn new() -> Self {
        Self {
            by_path: HashMap::new(),
            swept_at: RECORD_COUNT,
            #[cfg(test)]
            sweep_count: 0,
        }
    }

    /// Those that no query holds, if it is time to look for them.
    fn unused(&mut self) -> Option<Vec<Arc<str>>> {
        if self.by_path.len() < self.swept_at {
            return None;
        }
        #[cfg(test)]
        {
            self.sweep_count += 1;
        }
        let is_unused = |record: &Arc<FileRecord>| Arc::strong_count(record) == 1;
        let unused = self.by_path.iter().filter(|(_, record)| is_unused(record)).map(|(path, _)| Arc::clone(path));
        let unused = unused.collect();
        // Nor do others look meanwhile.
        self.wait_for_more();
        Some(unused)
    }

    /// Drops those that still nobody holds.
    fn drop_unused(&mut self, unused: impl Iterator<Item = Arc<str>>) {
        for path in unused {
            if self.by_path.get(&path).is_some_and(|record| Arc::strong_count(record) == 1) {
                self.by_path.remove(&path);
            }
        }
        self.wait_for_more();
    }

    /// Until a quarter more have come, so that each costs a few steps of a walk however many are held.
    fn wait_for_more(&mut self) {
        self.swept_at = (self.by_path.len() + self.by_path.len() / 4).max(RECORD_COUNT);
    }
}

/// How a cache is made.
#[derive(Debug)]
pub struct CacheOptions {
    /// Decides what goes when room is needed.
    pub policy: &'static dyn EvictionPolicy,
    /// Decisions remembered.
    pub decision_count: usize,
    /// Is told what the cache is asked for.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Nanoseconds that the system takes to bring in a byte of fresh memory: what is kept is not used again for the
    /// next rows.
    pub fresh_ns_per_byte: f64,
    /// Processors that queries and conversions share.
    pub processor_count: usize,
    /// Keeps positional maps for later processes.
    pub map_store: Option<Arc<dyn MapStore>>,
}

impl Default for CacheOptions {
    /// ReCache's policy, 4096 decisions, nobody who records, fresh memory for nothing, one processor, maps that go with
    /// the process.
    fn default() -> Self {
        Self {
            policy: &ReCache,
            decision_count: 4096,
            recorder: None,
            fresh_ns_per_byte: 0.0,
            processor_count: 1,
            map_store: None,
        }
    }
}

/// The results of select operators over single raw files, in memory. See the crate's documentation.
pub struct OperatorCache {
    policy: &'static dyn EvictionPolicy,
    recorder: Option<Arc<dyn Recorder>>,
    pub(crate) fresh_ns_per_byte: f64,
    /// Threads that work on a scan, about.
    pub(crate) processor_count: usize,
    map_store: Option<Arc<dyn MapStore>>,
    budget: Budget,
    account: Account,
    clock: Arc<dyn Clock>,
    pub(crate) idle_processors: IdleProcessors,
    pub(crate) layout_rule: Mutex<LayoutRule>,
    pub(crate) admission_rule: Mutex<AdmissionRule>,
    files: Mutex<FileRecords>,
    catalog: Mutex<Catalog>,
    mirrors: Mirrors,
    decisions: DecisionRing,
    moments: Moments,
    numbers: AtomicU64,
    ticks: AtomicU64,
}

impl OperatorCache {
    /// An empty cache that reserves from `budget` and gives back to it.
    pub fn new(options: CacheOptions, budget: &Budget, clock: Arc<dyn Clock>) -> Arc<Self> {
        let cache = Arc::new(Self {
            policy: options.policy,
            recorder: options.recorder,
            fresh_ns_per_byte: options.fresh_ns_per_byte,
            processor_count: options.processor_count.max(1),
            map_store: options.map_store,
            budget: budget.clone(),
            account: budget.account("operator cache", Purpose::Cache),
            clock,
            idle_processors: IdleProcessors::new(options.processor_count),
            layout_rule: Mutex::default(),
            admission_rule: Mutex::default(),
            files: Mutex::new(FileRecords::new()),
            catalog: Mutex::new(Catalog::default()),
            mirrors: Mirrors::default(),
            decisions: DecisionRing::new(options.decision_count),
            moments: Moments::default(),
            numbers: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        });
        let reclaimable: Arc<dyn ReclaimableCache> = Arc::clone(&cache) as Arc<dyn ReclaimableCache>;
        budget.register_cache(Arc::downgrade(&reclaimable));
        cache
    }

    /// Finds out which generation of its path an opened file belongs to, and drops what is no longer true. Do this
    /// once per query and file.
    ///
    /// Cheap as a rule; reads the file's old prefix (blocking, in parallel) when metadata can't decide. Ask on a thread
    /// that may block.
    ///
    /// # Errors
    /// When the file can't be read to check it.
    pub fn pin(&self, opened: OpenedFile<'_>, append: AppendPolicy) -> Result<PinnedSource, CacheError> {
        let version = opened.version();
        let is_young = version.is_young(self.clock.wall_ns());
        let record = self.record_for(version);
        let Some(record) = record else {
            // No room even to remember the file: this query has it alone.
            let generation = self.moments.next_generation();
            return Ok(PinnedSource { version: version.clone(), generation, hashes: None, is_young, record: None });
        };
        let pinned = record.pin(opened, append, &self.moments, self.clock.wall_ns())?;
        let generation = pinned.generation;
        let record = Some(record).filter(|_| !pinned.is_outdated);
        match pinned.stale {
            Some(Stale::Generation(reason)) => self.drop_stale(&version.path, reason, |of, _| of != generation),
            Some(Stale::Beyond(checked_bytes)) => {
                let reason = "the file changed, and its content was only checked up to an earlier end";
                self.drop_stale(&version.path, reason, |of, end_bytes| of == generation && end_bytes > checked_bytes);
            }
            None => {}
        }
        let (version, hashes) = (version.clone(), pinned.hashes);
        Ok(PinnedSource { version, generation, hashes, is_young, record })
    }

    /// What caches may hold in all.
    pub fn limit_bytes(&self) -> u64 {
        self.budget.cache_bound_bytes()
    }

    /// What decides about items.
    pub(crate) fn terms(&self) -> Terms<'_> {
        Terms { policy: self.policy(), limit_bytes: self.limit_bytes() }
    }

    /// Drops every item, and what running scans keep. Queries go on.
    pub fn clear(&self) {
        let (items, scans, mapping): (_, _, Vec<_>) = {
            let mut catalog = self.catalog.lock();
            let (items, scans) = catalog.clear();
            (items, scans, catalog.mapping_scans().collect())
        };
        // Who reads an item holds it, but not what it is not read from.
        items.iter().for_each(|item| item.mirror.clear());
        for scan in &scans {
            scan.stop_keeping();
            scan.note_unlisted(None);
        }
        for scan in &mapping {
            scan.forget_map();
        }
        let size_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let numbers = vec![("item_count", items.len() as f64), ("size_bytes", size_bytes as f64)];
        self.record(DecisionKind::Clear, None, &Arc::from(""), &Arc::default(), numbers, "asked for");
    }

    /// The latest decisions, oldest first, for the table `thermocline.decisions`.
    pub fn decisions(&self) -> Vec<Decision> {
        self.decisions.snapshot()
    }

    /// Bytes reserved for items, running scans, file records and hashes.
    pub fn reserved_bytes(&self) -> u64 {
        self.account.reserved_bytes()
    }

    /// The record of a file, made if there is room for it.
    fn record_for(&self, version: &FileVersion) -> Option<Arc<FileRecord>> {
        let mut files = self.files.lock();
        if let Some(record) = files.by_path.get(&version.path) {
            return Some(Arc::clone(record));
        }
        if let Some(mut unused) = files.unused() {
            // The catalog's lock comes before this one.
            drop(files);
            {
                let catalog = self.catalog.lock();
                unused.retain(|path| !catalog.has_path(path));
            }
            files = self.files.lock();
            files.drop_unused(unused.into_iter());
        }
        let reservation = self.account.try_reserve(FileRecord::size_bytes(version)).ok()?;
        let new = || Arc::new(FileRecord::new(reservation));
        let record = files.by_path.entry(Arc::clone(&version.path)).or_insert_with(new);
        Some(Arc::clone(record))
    }

    /// Files that are remembered, and how often those that are not needed were looked for.
    #[cfg(test)]
    pub(crate) fn file_counts(&self) -> (usize, usize) {
        let files = self.files.lock();
        (files.by_path.len(), files.sweep_count)
    }

    /// Drops the items and scans of a path that are stale by generation and end.
    pub(crate) fn drop_stale(&self, path: &Arc<str>, reason: &'static str, is_stale: impl Fn(u64, u64) -> bool) {
        let (items, scans) = self.catalog.lock().remove_stale(path, is_stale);
        items.iter().for_each(|item| item.mirror.clear());
        for scan in &scans {
            scan.stop_keeping();
            scan.note_unlisted(None);
            self.record_scan(DecisionKind::Invalidate, scan, Vec::new(), reason);
        }
        for item in &items {
            let numbers = vec![("size_bytes", item.size_bytes as f64), ("end_bytes", item.end_bytes as f64)];
            self.record_item(DecisionKind::Invalidate, item, numbers, reason);
        }
    }

    pub(crate) fn record_item(
        &self,
        kind: DecisionKind,
        item: &Item,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        self.record(kind, Some(item.id), &item.source.path, &item.predicate, numbers, reason);
    }

    pub(crate) fn record_scan(
        &self,
        kind: DecisionKind,
        scan: &SharedScan,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        self.record(kind, None, &scan.source.path, &scan.spec.predicate, numbers, reason);
    }

    pub(crate) fn record(
        &self,
        kind: DecisionKind,
        item_id: Option<ItemId>,
        path: &Arc<str>,
        predicate: &Arc<Conjunction>,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        let (path, predicate) = (Arc::clone(path), Some(NotedPredicate::of(predicate)));
        self.decisions.record(self.clock.wall_ns(), Entry { kind, item_id, path, predicate, numbers, reason });
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock()
    }

    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn policy(&self) -> &dyn EvictionPolicy {
        self.policy
    }

    pub(crate) fn recorder(&self) -> Option<&dyn Recorder> {
        self.recorder.as_deref()
    }

    pub(crate) fn map_store(&self) -> Option<&dyn MapStore> {
        self.map_store.as_deref()
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn moments(&self) -> &Moments {
        &self.moments
    }

    /// A number that no item, scan or participant of this cache has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What the policy remembers, at the present time.
    pub(crate) fn policy_state(&self, catalog: &Catalog) -> PolicyState {
        PolicyState { now: self.tick(), ..catalog.policy_state }
    }

    /// The logical time: requests so far, about.
    pub(crate) fn tick(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Logical time of a use or another request, which is now.
    pub(crate) fn next_tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Debug for OperatorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorCache")
            .field("policy", &self.policy)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
