//! Footers by file version.
//!
//! A footer is parsed once per version of its file, in I/O and decoding worth milliseconds for a wide file, and is
//! small. So all are kept, least recently used ones dropped, within [`CAPACITY_BYTES`] and what the budget's caches may
//! have; when a query needs memory the budget asks for it back like from any cache.
//!
//! **Concurrency**: a version is read by one future at a time, which all who want its footer share and poll: none waits
//! for another to be polled. No lock is held while it waits.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::parquet::file::metadata::ParquetMetaData;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use thermocline_budget::{Account, Budget, BudgetError, Purpose, ReclaimableCache, Reservation};
use thermocline_hardware::Clock;
use thermocline_medium::FileVersion;

use super::file::ParquetFile;
use super::footer;
use super::footers_in_use::{FootersInUse, HeldFooter};

/// What footers may take at most. A footer has about 1 KiB per column of a row group, so this is room for a thousand
/// files of 64 columns; beyond that, what is gained per byte falls below that of cached rows.
const CAPACITY_BYTES: u64 = 64 << 20;

const NAME: &str = "parquet_footers";

/// The footers of Parquet files, kept across queries.
pub(crate) struct FooterCache {
    account: Account,
    in_use: FootersInUse,
    /// For what scans of the files read.
    scans: Account,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// What is being read, for as long as somebody waits for it. Locked before `state`.
    loads: Mutex<HashMap<FileVersion, WeakShared<Load>>>,
}

/// A footer that is being read. A failure is told to those who wait for it, and not remembered.
type Load = BoxFuture<'static, Result<Arc<ParquetMetaData>, Arc<DataFusionError>>>;

/// Where a footer is to be had.
enum Found {
    Kept(Arc<ParquetMetaData>),
    /// Somebody reads it.
    Joined(Shared<Load>),
    /// Nobody did yet.
    Begun(Shared<Load>),
}

#[derive(Default)]
struct State {
    entries: HashMap<FileVersion, Entry>,
    held_bytes: u64,
    /// Counts uses.
    now: u64,
}

struct Entry {
    footer: Arc<ParquetMetaData>,
    reservation: Reservation,
    load_ns: u64,
    last_use: u64,
}

impl FooterCache {
    /// An empty cache that reserves from `budget`, and gives back to it.
    pub(crate) fn new(budget: &Budget, clock: Arc<dyn Clock>) -> Arc<Self> {
        let cache = Arc::new(Self {
            account: budget.account(NAME, Purpose::Cache),
            in_use: FootersInUse::new(budget),
            scans: budget.account("Parquet scans", Purpose::Query),
            clock,
            state: Mutex::default(),
            loads: Mutex::default(),
        });
        let weak: Weak<Self> = Arc::downgrade(&cache);
        budget.register_cache(weak);
        cache
    }

    /// What scans of the files reserve from.
    pub(super) fn scans(&self) -> &Account {
        &self.scans
    }

    /// The footer of `file`: the one kept for its version, or else read from it.
    ///
    /// # Errors
    /// What reading the footer reports.
    pub(super) async fn get(self: &Arc<Self>, file: &ParquetFile) -> Result<Arc<ParquetMetaData>> {
        match self.find_or_begin(file) {
            Found::Kept(footer) => Ok(footer),
            Found::Begun(load) => {
                load.await.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(DataFusionError::Shared))
            }
            Found::Joined(load) => match load.await {
                Ok(footer) => Ok(footer),
                // It may be the other's: access that has run out, a runtime that has ended.
                Err(_) => self.read(file).await,
            },
        }
    }

    fn find_or_begin(self: &Arc<Self>, file: &ParquetFile) -> Found {
        let version = file.version();
        if let Some(footer) = self.state.lock().find(version) {
            return Found::Kept(footer);
        }
        let begin = || {
            let (cache, file) = (Arc::clone(self), file.clone());
            async move { cache.read(&file).await.map_err(Arc::new) }.boxed().shared()
        };
        // What another reads may be older than a write that the version does not show.
        if version.is_young(self.clock.wall_ns()) {
            return Found::Begun(begin());
        }
        let mut loads = self.loads.lock();
        if let Some(load) = loads.get(version).and_then(WeakShared::upgrade) {
            return Found::Joined(load);
        }
        // One that was read just now is kept before its load is gone.
        if let Some(footer) = self.state.lock().find(version) {
            return Found::Kept(footer);
        }
        loads.retain(|_, load| load.upgrade().is_some());
        let load = begin();
        // It is not over, since nobody has polled it.
        if let Some(weak) = load.downgrade() {
            loads.insert(version.clone(), weak);
        }
        Found::Begun(load)
    }

    /// Reads the footer, and keeps it if its version is to be trusted.
    async fn read(&self, file: &ParquetFile) -> Result<Arc<ParquetMetaData>> {
        let version = file.version();
        // Asked before reading: a write that the version does not show could only come after a young version was taken.
        let is_trusted = !version.is_young(self.clock.wall_ns());
        let start_ns = self.clock.monotonic_ns();
        let footer = Arc::new(footer::read(file).await?);
        if is_trusted {
            let load_ns = self.clock.monotonic_ns().saturating_sub(start_ns);
            self.keep(version, Arc::clone(&footer), load_ns);
        }
        Ok(footer)
    }

    fn keep(&self, version: &FileVersion, footer: Arc<ParquetMetaData>, load_ns: u64) {
        let bytes = (footer.memory_size() + version.heap_bytes() + size_of::<(FileVersion, Entry)>()) as u64;
        if bytes > CAPACITY_BYTES {
            return;
        }
        let missing_bytes = (self.held_bytes() + bytes).saturating_sub(CAPACITY_BYTES);
        if missing_bytes > 0 {
            self.release(missing_bytes);
        }
        // The caches together may be short of room: footers give way to footers, then to the rest.
        let mut reservation = self.account.try_reserve(bytes);
        while reservation.is_err() && self.release(bytes) > 0 {
            reservation = self.account.try_reserve(bytes);
        }
        let Ok(reservation) = reservation else {
            return;
        };
        let mut state = self.state.lock();
        state.now += 1;
        let entry = Entry { footer, reservation, load_ns, last_use: state.now };
        state.held_bytes += bytes;
        if let Some(replaced) = state.entries.insert(version.clone(), entry) {
            state.held_bytes -= replaced.reservation.size_bytes();
        }
    }

    /// The footer of `file` as [`get`](Self::get) has it, counted until nobody holds it; or that there is no memory for
    /// it.
    ///
    /// # Errors
    /// What reading the footer reports.
    pub(super) async fn hold(
        self: &Arc<Self>,
        file: &ParquetFile,
    ) -> Result<std::result::Result<Arc<HeldFooter>, BudgetError>> {
        let version = file.version();
        if let Some(held) = self.in_use.find(version) {
            // Used, and not the first to be dropped.
            self.state.lock().find(version);
            return Ok(Ok(held));
        }
        // What was read of a young version is for who has read it.
        let shared = !version.is_young(self.clock.wall_ns());
        let footer = self.get(file).await?;
        let known_bytes = self.state.lock().entries.get(version).map(|entry| entry.reservation.size_bytes());
        Ok(self.in_use.hold(version, footer, known_bytes, shared))
    }
}

impl State {
    fn find(&mut self, version: &FileVersion) -> Option<Arc<ParquetMetaData>> {
        self.now += 1;
        let entry = self.entries.get_mut(version)?;
        entry.last_use = self.now;
        Some(Arc::clone(&entry.footer))
    }

    /// The versions whose footers were not used for the longest time and hold `bytes` together, or all.
    fn oldest(&self, bytes: u64) -> Vec<FileVersion> {
        let mut by_age: Vec<(&FileVersion, &Entry)> = self.entries.iter().collect();
        by_age.sort_unstable_by_key(|(_, entry)| entry.last_use);
        let mut found_bytes = 0;
        by_age
            .into_iter()
            .take_while(|(_, entry)| {
                let is_needed = found_bytes < bytes;
                found_bytes += entry.reservation.size_bytes();
                is_needed
            })
            .map(|(version, _)| version.clone())
            .collect()
    }
}

impl ReclaimableCache for FooterCache {
    fn name(&self) -> &str {
        NAME
    }

    fn held_bytes(&self) -> u64 {
        self.state.lock().held_bytes
    }

    fn marginal_benefit(&self, bytes: u64) -> f64 {
        let state = self.state.lock();
        let (mut load_ns, mut held_bytes) = (0, 0);
        for entry in state.oldest(bytes).iter().filter_map(|version| state.entries.get(version)) {
            load_ns += entry.load_ns;
            held_bytes += entry.reservation.size_bytes();
        }
        if held_bytes == 0 { 0.0 } else { load_ns as f64 / 1e9 / held_bytes as f64 }
    }

    fn release(&self, bytes: u64) -> u64 {
        let mut state = self.state.lock();
        let mut released_bytes = 0;
        for version in state.oldest(bytes) {
            if let Some(entry) = state.entries.remove(&version) {
                released_bytes += entry.reservation.size_bytes();
            }
        }
        state.held_bytes -= released_bytes;
        released_bytes
    }
}

impl fmt::Debug for FooterCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FooterCache").field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}
