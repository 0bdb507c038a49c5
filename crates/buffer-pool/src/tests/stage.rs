//! A medium that tests hold back, pages whose bytes say which they are, and a pool to read them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use thermocline_budget::Budget;
use thermocline_hardware::ManualClock;
use thermocline_medium::{Destination, Medium, MediumError, MediumFile, MemoryMedium, ReadAt, Result as MediumResult};
use thermocline_placement::page_cache::{HeldBytes, ListKey, PageKey, PagePolicy, PagePolicyName};

use crate::arena::charge_bytes;
use crate::{
    BufferPool, PagePlace, PageReader, PageSource, PinnedPage, PoolOptions, ReadOptions, RegisteredSource, Result,
};

/// Files in memory, read when the test says so.
#[derive(Debug, Default)]
pub(super) struct Stage {
    inner: MemoryMedium,
    /// Reads wait for [`Stage::complete`].
    pub(super) is_holding: AtomicBool,
    held: Mutex<Held>,
    /// Reads that touch one of these bytes fail.
    pub(super) bad_bytes: Mutex<BTreeSet<u64>>,
    /// Reads are dropped rather than done.
    pub(super) drops_reads: AtomicBool,
    /// Reads are over without a byte having been touched, so that a pool of any size takes no memory.
    pub(super) is_blank: AtomicBool,
    /// Every read finds that its file has changed.
    pub(super) has_changed: AtomicBool,
}

#[derive(Default)]
struct Held {
    reads: Vec<ReadAt>,
    /// Of every read: name, offset, length.
    log: Vec<(String, u64, u64)>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} reads", self.reads.len())
    }
}

impl Stage {
    /// How many reads wait.
    pub(super) fn held_count(&self) -> usize {
        self.held.lock().reads.len()
    }

    /// Names, offsets and lengths of the reads that wait.
    pub(super) fn held(&self) -> Vec<(String, u64, u64)> {
        let mut held = self.held.lock();
        let reads = held.reads.iter_mut();
        reads
            .map(|at| (at.file.name().to_owned(), at.offset_bytes, at.read.destination().length_bytes() as u64))
            .collect()
    }

    /// All reads there ever were: offset and length.
    pub(super) fn log(&self) -> Vec<(u64, u64)> {
        self.held.lock().log.iter().map(|&(_, offset, length)| (offset, length)).collect()
    }

    /// Does one of the reads that wait.
    pub(super) fn complete(&self, index: usize) {
        let read = self.held.lock().reads.swap_remove(index);
        self.carry_out(read);
    }

    pub(super) fn complete_all(&self) {
        while self.held_count() > 0 {
            self.complete(0);
        }
    }

    fn carry_out(&self, ReadAt { file, offset_bytes, mut read }: ReadAt) {
        if self.is_blank.load(Ordering::Relaxed) {
            return read.completed(Ok(()));
        }
        let part = offset_bytes..offset_bytes + read.destination().length_bytes() as u64;
        if self.drops_reads.load(Ordering::Relaxed) {
            return;
        }
        if self.has_changed.load(Ordering::Relaxed) {
            let (path, difference) = (file.name().to_owned(), "other bytes".to_owned());
            return read.completed(Err(MediumError::Changed { path, difference }));
        }
        let outcome = match self.bad_bytes.lock().range(part).next() {
            Some(&byte) => {
                let (path, action) = (format!("byte {byte}"), "read it".to_owned());
                Err(MediumError::Io { path, action, source: io::Error::other("is bad") })
            }
            None => match read.destination() {
                Destination::One(buffer) => self.inner.read_at(&file, offset_bytes, buffer),
                Destination::Several(mut parts) => self.inner.read_vectored_at(&file, offset_bytes, &mut parts),
            },
        };
        if outcome.is_err() {
            match read.destination() {
                Destination::One(buffer) => buffer.fill(0xEE),
                Destination::Several(mut parts) => parts.iter_mut().for_each(|part| part.fill(0xEE)),
            }
        }
        read.completed(outcome);
    }
}

impl Medium for Stage {
    fn describe(&self) -> String {
        "a stage".to_owned()
    }
    fn create(&self, name: &str) -> MediumResult<MediumFile> {
        self.inner.create(name)
    }
    fn open(&self, name: &str) -> MediumResult<MediumFile> {
        self.inner.open(name)
    }
    fn open_writable(&self, name: &str) -> MediumResult<MediumFile> {
        self.inner.open_writable(name)
    }
    fn remove(&self, name: &str) -> MediumResult<()> {
        self.inner.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> MediumResult<()> {
        self.inner.rename(from, to)
    }
    fn list(&self) -> MediumResult<Vec<String>> {
        self.inner.list()
    }
    fn size_bytes(&self, file: &MediumFile) -> MediumResult<u64> {
        self.inner.size_bytes(file)
    }
    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> MediumResult<()> {
        self.inner.read_at(file, offset_bytes, buffer)
    }
    fn submit(&self, reads: Vec<ReadAt>) {
        for mut read in reads {
            let length = read.read.destination().length_bytes() as u64;
            let mut held = self.held.lock();
            held.log.push((read.file.name().to_owned(), read.offset_bytes, length));
            if self.is_holding.load(Ordering::Relaxed) {
                held.reads.push(read);
            } else {
                drop(held);
                self.carry_out(read);
            }
        }
    }
    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> MediumResult<()> {
        self.inner.write_at(file, offset_bytes, bytes)
    }
    fn sync_data(&self, file: &MediumFile) -> MediumResult<()> {
        self.inner.sync_data(file)
    }
    fn sync_namespace(&self) -> MediumResult<()> {
        self.inner.sync_namespace()
    }
}

/// A file of pages of given sizes, one after the other at multiples of 4096. Each byte tells its page and place.
pub(super) struct Pages {
    medium: Arc<dyn Medium>,
    file: MediumFile,
    pub(super) places: Vec<PagePlace>,
    /// Written into every page.
    salt: u32,
    /// By page, how often it was checked.
    pub(super) checks: Mutex<BTreeMap<u32, u64>>,
    /// Pages that do not pass.
    pub(super) damaged: Mutex<BTreeSet<u32>>,
    /// Pages whose check panics.
    pub(super) panicking: Mutex<BTreeSet<u32>>,
    /// What happens during the next check.
    pub(super) meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

fn byte_of(salt: u32, page: u32, index: usize) -> u8 {
    (salt.wrapping_mul(97) ^ page.wrapping_mul(31) ^ (index as u32 >> 3).wrapping_mul(7)) as u8
}

impl Pages {
    /// Pages of the lists given, cyclically.
    pub(super) fn new(medium: Arc<dyn Medium>, salt: u32, sizes_bytes: &[u32], lists: &[ListKey]) -> Arc<Self> {
        let file = medium.create(&format!("pages {salt}")).unwrap();
        let mut places = Vec::new();
        let mut offset_bytes = 0;
        for (page, &size_bytes) in (0..).zip(sizes_bytes) {
            let read_bytes = size_bytes.next_multiple_of(4096);
            let mut bytes: Vec<u8> = (0..size_bytes as usize).map(|index| byte_of(salt, page, index)).collect();
            bytes.resize(read_bytes as usize, 0xAA);
            medium.write_at(&file, offset_bytes, &bytes).unwrap();
            let list = lists[page as usize % lists.len()];
            places.push(PagePlace { file: file.clone(), offset_bytes, read_bytes, size_bytes, list, rows: page });
            offset_bytes += u64::from(read_bytes);
        }
        let (checks, damaged, panicking) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { medium, file, places, salt, checks, damaged, panicking, meanwhile: Mutex::default() })
    }

    pub(super) fn assert_is(&self, page: u32, bytes: &[u8], context: &str) {
        assert_eq!(bytes.len(), self.places[page as usize].size_bytes as usize, "{context}: length of page {page}");
        // All bytes of a page change together or not at all where a frame is given to another page: every 61st will do.
        for (index, &byte) in bytes.iter().enumerate().step_by(61) {
            assert_eq!(byte, byte_of(self.salt, page, index), "{context}: byte {index} of page {page}");
        }
        assert_eq!(bytes.as_ptr().addr() % 4096, 0, "{context}: page {page}");
    }

    pub(super) fn check_count(&self) -> u64 {
        self.checks.lock().values().sum()
    }
}

impl PageSource for Pages {
    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    fn place(&self, page: u32) -> PagePlace {
        self.places[page as usize].clone()
    }

    fn check(&self, page: u32, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        *self.checks.lock().entry(page).or_default() += 1;
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        assert!(!self.panicking.lock().contains(&page), "told to");
        if self.damaged.lock().contains(&page) {
            return Err(format!("a wrong checksum in {}", self.file.name()).into());
        }
        self.assert_is(page, bytes, "check");
        Ok(())
    }

    fn describe(&self, page: u32) -> String {
        format!("page {page} of column c")
    }
}

/// A policy of which one call panics.
#[derive(Debug)]
pub(crate) struct FragilePolicy {
    inner: Box<dyn PagePolicy>,
    /// Of pages and quotas, until it has panicked.
    calls_left: Arc<AtomicU32>,
}

impl FragilePolicy {
    /// Panics at the call of that number, counted from one; also tells how many are left until then.
    pub(crate) fn new(policy: PagePolicyName, panicking_call: u32) -> (Box<Self>, Arc<AtomicU32>) {
        let calls_left = Arc::new(AtomicU32::new(panicking_call));
        (Box::new(Self { inner: policy.build(), calls_left: Arc::clone(&calls_left) }), calls_left)
    }

    fn count(&self) {
        let count = |left: u32| left.checked_sub(1);
        assert_ne!(self.calls_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count), Ok(1), "told to");
    }
}

impl PagePolicy for FragilePolicy {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, rows: u32) {
        self.count();
        self.inner.admit(page, list, size_bytes, rows);
    }
    fn touch(&mut self, page: PageKey) {
        self.inner.touch(page);
    }
    fn remove(&mut self, page: PageKey) {
        self.inner.remove(page);
    }
    fn victim(&mut self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.inner.victim(incoming, can_go)
    }
    fn set_quotas(&mut self, quotas: &[(ListKey, u64)]) {
        self.count();
        self.inner.set_quotas(quotas);
    }
    fn held(&self) -> Vec<HeldBytes> {
        self.inner.held()
    }
}

/// A pool over a stage, with one source.
pub(super) struct Play {
    pub(super) stage: Arc<Stage>,
    pub(super) budget: Budget,
    pub(super) clock: Arc<ManualClock>,
    pub(super) pool: Arc<BufferPool>,
    pub(super) pages: Arc<Pages>,
    pub(super) source: RegisteredSource,
}

/// Chunks of 16 units, so that a test sees many of them come and go.
pub(super) const CHUNK_BYTES: u64 = 64 << 10;

/// What a chunk is charged, with notes about its pages.
pub(super) const CHARGE_BYTES: u64 = charge_bytes(CHUNK_BYTES);

pub(super) fn small_options() -> PoolOptions {
    PoolOptions { chunk_bytes: CHUNK_BYTES, read_most_bytes: CHUNK_BYTES, address_bytes: 1 << 30 }
}

impl Play {
    /// A pool of least recently used pages with these sizes, in a budget of `limit_bytes` of which caches may have
    /// `cache_limit_bytes`.
    pub(super) fn new(limit_bytes: u64, cache_limit_bytes: Option<u64>, sizes_bytes: &[u32]) -> Self {
        Self::with(small_options(), limit_bytes, cache_limit_bytes, sizes_bytes)
    }

    pub(super) fn with(options: PoolOptions, limit: u64, cache_limit: Option<u64>, sizes_bytes: &[u32]) -> Self {
        let (stage, budget) = (Arc::new(Stage::default()), Budget::new(limit, cache_limit));
        let clock = Arc::new(ManualClock::default());
        let policy = PagePolicyName::LeastRecentlyUsed.build();
        let pool = BufferPool::new(options, &budget, policy, Arc::clone(&clock) as _).unwrap();
        let pages = Pages::new(Arc::clone(&stage) as _, 1, sizes_bytes, &[pool.new_list()]);
        let source = pool.register(Arc::clone(&pages) as _);
        Self { stage, budget, clock, pool, pages, source }
    }

    /// Pins a page that is there or whose read completes at once, and looks at it.
    pub(super) fn pinned(&self, page: u32) -> PinnedPage {
        let pinned = pin(&self.source, page).unwrap();
        self.pages.assert_is(page, &pinned, "pin");
        pinned
    }

    /// Whether the page is in memory. It is used if so, and nothing changes if not.
    pub(super) fn is_there(&self, page: u32) -> bool {
        let key = PageKey { source: self.source.id(), page };
        self.pool.residents.lock().find(key).is_some()
    }

    pub(super) fn hold(&self, is_holding: bool) {
        self.stage.is_holding.store(is_holding, Ordering::Relaxed);
    }
}

/// One page alone, waited for.
pub(super) fn pin(source: &RegisteredSource, page: u32) -> Result<PinnedPage> {
    source.reader([page], ReadOptions::default()).wait_next().expect("a page was asked for")
}

/// Tells whether it was woken.
#[derive(Default)]
pub(super) struct Flag(AtomicU64);

impl Flag {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once; also tells how often the waker was and will be woken.
pub(super) fn poll_once(reader: &mut PageReader) -> (Poll<Option<Result<PinnedPage>>>, Arc<Flag>) {
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    (reader.poll_next(&mut Context::from_waker(&waker)), flag)
}

/// The page of a poll that has one.
pub(super) fn ready(poll: Poll<Option<Result<PinnedPage>>>) -> PinnedPage {
    match poll {
        Poll::Ready(Some(page)) => page.unwrap(),
        other => panic!("no page but {other:?}"),
    }
}
