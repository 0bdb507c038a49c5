//! What is known of a file across queries: its version, its generation, the hashes of its content.
//!
//! **Generation**: a number that two pins of a path share only if what was derived under the one holds under the
//! other. Bytes `[0, n)` read under a generation are the file's first `n` bytes for every later pin of that generation
//! that sees at least `n`. A file that only grew keeps its generation.
//!
//! **When metadata is enough**: the version is the recorded one, and it was not *young* when the content was last
//! read or checked, so that any later write bears another stamp. Otherwise the content decides, through the hashes of
//! an earlier scan; without hashes there is nothing to decide with, and a new generation begins. When in doubt, what
//! is cached is not used. A query that opened a file which has been replaced since, or written to, and asks after others
//! that opened the newer one, has its content alone: what is known of the newer one stays.
//!
//! **Concurrency**: one check of a path runs at a time; a pin that waited uses its result if that check began after
//! the pin did (so a burst of pins costs two checks at most, and none is answered from a look before its time).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_medium::{BlockHashes, FileVersion, PinnedFile, Stamp};
use thermocline_placement::operator_cache::widening::Earlier;
use thermocline_predicate::FieldPath;

use crate::error::CacheError;
use crate::map_history::{MapHistories, MapHistory};

/// How far the user vouches for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppendPolicy {
    /// That an old prefix is unchanged is checked by its hashes.
    #[default]
    Verify,
    /// The file is only ever appended to: the same file, at least as long, keeps its content unchecked.
    Trust,
}

/// The file as a query opened it.
#[derive(Debug, Clone, Copy)]
pub enum OpenedFile<'a> {
    /// A local file; its content can be read again to check it.
    Local(&'a PinnedFile),
    /// An object; its version is all there is to go by.
    Remote(&'a FileVersion),
}

impl<'a> OpenedFile<'a> {
    pub(crate) fn version(self) -> &'a FileVersion {
        match self {
            Self::Local(file) => file.version(),
            Self::Remote(version) => version,
        }
    }
}

/// Lists of one file that are counted apart.
const COUNTED_LISTS: usize = 8;

/// Heap bytes of a path of a name or two.
const TYPICAL_PATH_BYTES: usize = 64;

/// One file as one query sees it: made by [`OperatorCache::pin`](crate::OperatorCache::pin), once per query and file.
#[derive(Debug, Clone)]
pub struct PinnedSource {
    pub(crate) version: FileVersion,
    pub(crate) generation: u64,
    pub(crate) hashes: Option<Arc<BlockHashes>>,
    /// Whether a later write could bear the same version, as of before the query read anything.
    pub(crate) is_young: bool,
    /// None when there was no room for a record: then nothing is kept of the file.
    pub(crate) record: Option<Arc<FileRecord>>,
}

impl PinnedSource {
    /// The version that the query opened.
    pub fn version(&self) -> &FileVersion {
        &self.version
    }

    /// Whether a later write could bear the same version, as of before the query read anything: what is read under it is
    /// known by its content alone, however old the version is by now.
    pub fn is_young(&self) -> bool {
        self.is_young
    }

    /// See the module.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes of the file that the query may see.
    pub fn end_bytes(&self) -> u64 {
        self.version.size_bytes
    }

    /// Whether what is derived from it now may serve later queries.
    pub(crate) fn is_current(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.is_current(self.generation))
    }

    /// Whether a scan of it can tell that it reads the very content that an item was made of: by the hashes of all of
    /// it, or because each read of an object is of one version.
    pub(crate) fn can_compare_content(&self) -> bool {
        match self.version.stamp {
            Stamp::Object { .. } => true,
            Stamp::Local { .. } => self.hashes.as_ref().is_some_and(|hashes| hashes.size_bytes() == self.end_bytes()),
        }
    }

    /// How this file was asked so far, its list `unnest` flattened. Each list is asked for in its own way, so each has
    /// its own counts.
    pub fn earlier(&self, unnest: Option<&FieldPath>) -> Earlier {
        self.record.as_ref().map_or(Earlier::default(), |record| record.with_earlier(unnest, |earlier| *earlier))
    }

    /// A query could not be answered without a scan.
    pub(crate) fn note_scan(&self, unnest: Option<&FieldPath>) {
        if let Some(record) = &self.record {
            record.with_earlier(unnest, |earlier| {
                earlier.scan_count = earlier.scan_count.saturating_add(1);
                earlier.scans_since_bet = earlier.scans_since_bet.saturating_add(1);
            });
        }
    }

    /// A scan keeps more than was asked for.
    pub(crate) fn note_bet(&self, unnest: Option<&FieldPath>) {
        if let Some(record) = &self.record {
            record.with_earlier(unnest, |earlier| {
                earlier.lost_bets = earlier.lost_bets.saturating_add(1);
                earlier.scans_since_bet = 0;
            });
        }
    }

    /// A query was answered from more than it asked for.
    pub(crate) fn note_bet_won(&self, unnest: Option<&FieldPath>) {
        if let Some(record) = &self.record {
            record.with_earlier(unnest, |earlier| earlier.lost_bets = 0);
        }
    }

    /// A scan that was noted, as a bet perhaps, ended before it had read all.
    pub(crate) fn take_back(&self, unnest: Option<&FieldPath>, is_counted: bool, is_bet: bool) {
        if let Some(record) = &self.record {
            record.with_earlier(unnest, |earlier| {
                earlier.scan_count = earlier.scan_count.saturating_sub(u32::from(is_counted));
                earlier.scans_since_bet = earlier.scans_since_bet.saturating_sub(u32::from(is_counted && !is_bet));
                earlier.lost_bets = earlier.lost_bets.saturating_sub(u32::from(is_bet));
            });
        }
    }

    /// A scan found what it could not read.
    pub(crate) fn note_unreadable(&self) {
        if let Some(record) = &self.record {
            record.unreadable_generation.store(self.generation, Ordering::Relaxed);
        }
    }

    /// Whether something in the file can't be read: whoever reads more of it than is asked for may read in vain.
    pub(crate) fn has_unreadable(&self) -> bool {
        let found = |record: &FileRecord| record.unreadable_generation.load(Ordering::Relaxed) == self.generation;
        self.record.as_deref().is_some_and(found)
    }

    /// How the file was scanned whole with these options, and what became of its maps; as changed.
    pub(crate) fn with_map_history<T>(&self, options: &str, change: impl FnOnce(&mut MapHistory) -> T) -> Option<T> {
        self.record.as_ref().map(|record| record.map_histories.lock().of(options, change))
    }

    /// Hashes of the content of an earlier scan of this generation.
    pub fn hashes(&self) -> Option<&Arc<BlockHashes>> {
        self.hashes.as_ref()
    }
}

/// What is known of one path.
#[derive(Debug)]
pub(crate) struct FileRecord {
    /// Held while the content is checked.
    checking: Mutex<()>,
    known: Mutex<Option<Known>>,
    /// By the list that is flattened; the last entry is shared by all beyond [`COUNTED_LISTS`].
    earlier: Mutex<Vec<(Option<FieldPath>, Earlier)>>,
    map_histories: Mutex<MapHistories>,
    /// In which something can't be read; 0 as long as none is known.
    unreadable_generation: AtomicU64,
    _reservation: Reservation,
}

#[derive(Debug)]
struct Known {
    version: FileVersion,
    generation: u64,
    hashes: Option<Arc<BlockHashes>>,
    /// Whether the version was young when its content was last read from the start or checked.
    young: bool,
    /// Whether it was taken to be a longer state of the one before, unchecked.
    trusted: bool,
    /// Moment of the latest check, by [`Moments`].
    checked_at: u64,
    hashes_reservation: Option<Reservation>,
}

/// Source of numbers for the records of one cache.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    moment: AtomicU64,
    generation: AtomicU64,
}

impl Moments {
    fn next(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// What a pin found.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) generation: u64,
    pub(crate) hashes: Option<Arc<BlockHashes>>,
    /// What must be dropped because of it.
    pub(crate) stale: Option<Stale>,
    /// Whether the query has the file alone: a newer version of it is known.
    pub(crate) is_outdated: bool,
}

/// What a finished scan's hashes tell of what earlier ones read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The scan read the same content, as far as both did.
    Holds,
    /// Other content: it changed between the two without a trace in the version. A new generation has begun.
    Contradicted,
    /// Another scan has recorded hashes since this one began, which these cannot be compared with.
    Unknown,
}

/// What of a path is no longer true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stale {
    /// Everything of earlier generations.
    Generation(&'static str),
    /// What reaches beyond the checked bytes.
    Beyond(u64),
}

impl FileRecord {
    /// A record of a file that was not seen yet.
    pub(crate) fn new(reservation: Reservation) -> Self {
        Self {
            checking: Mutex::new(()),
            known: Mutex::new(None),
            earlier: Mutex::default(),
            unreadable_generation: AtomicU64::new(0),
            map_histories: Mutex::default(),
            _reservation: reservation,
        }
    }

    /// Bytes that a record of a file with this version takes, its place in the table included.
    pub(crate) fn size_bytes(version: &FileVersion) -> u64 {
        let earlier_bytes = COUNTED_LISTS * (size_of::<(Option<FieldPath>, Earlier)>() + TYPICAL_PATH_BYTES);
        (2 * size_of::<Self>() + 2 * version.heap_bytes() + earlier_bytes + MapHistories::HEAP_BYTES) as u64
    }

    fn with_earlier<T>(&self, unnest: Option<&FieldPath>, change: impl FnOnce(&mut Earlier) -> T) -> T {
        let mut counts = self.earlier.lock();
        let known = counts.iter().position(|(of, _)| of.as_ref() == unnest);
        let at = known.unwrap_or_else(|| {
            if counts.len() < COUNTED_LISTS {
                counts.push((unnest.cloned(), Earlier::default()));
            }
            counts.len() - 1
        });
        change(&mut counts[at].1)
    }

    /// Finds the generation of the file as it was opened. May read the file's old prefix.
    pub(crate) fn pin(
        &self,
        opened: OpenedFile<'_>,
        append: AppendPolicy,
        moments: &Moments,
        wall_now_ns: i64,
    ) -> Result<Pinned, CacheError> {
        let arrived_at = moments.next();
        let version = opened.version();
        let young = version.is_young(wall_now_ns);
        {
            let mut known = self.known.lock();
            match &mut *known {
                None => {
                    let generation = moments.next_generation();
                    *known = Some(Known {
                        version: version.clone(),
                        generation,
                        hashes: None,
                        young,
                        trusted: false,
                        checked_at: arrived_at,
                        hashes_reservation: None,
                    });
                    return Ok(Pinned { generation, hashes: None, stale: None, is_outdated: false });
                }
                Some(known) if known.holds_for(version, young, append, arrived_at) => return Ok(known.pinned(None)),
                Some(_) => {}
            }
        }
        let _checking = self.checking.lock();
        let (old, generation, hashes) = {
            let known = self.known.lock();
            let Some(known) = known.as_ref() else {
                return Err(CacheError::Contract {
                    path: Arc::clone(&version.path),
                    what: "its record was emptied".into(),
                });
            };
            if known.holds_for(version, young, append, arrived_at) {
                return Ok(known.pinned(None));
            }
            (known.version.clone(), known.generation, known.hashes.clone())
        };
        let began_at = moments.next();
        let verdict = judge(opened, &old, hashes.as_deref(), append)?;
        if matches!(verdict, Verdict::Changed(_)) && is_outdated(opened, &old) {
            let generation = moments.next_generation();
            return Ok(Pinned { generation, hashes: None, stale: None, is_outdated: true });
        }
        let mut known = self.known.lock();
        let Some(known) = known.as_mut() else {
            return Err(CacheError::Contract {
                path: Arc::clone(&version.path),
                what: "its record was emptied".into(),
            });
        };
        // A scan that ended meanwhile may have found the hashes to be wrong; then the verdict rests on nothing.
        let verdict =
            if known.generation == generation { verdict } else { Verdict::Changed("another scan found other content") };
        known.version = version.clone();
        known.young = young;
        known.trusted = verdict == Verdict::Trusted;
        known.checked_at = began_at;
        let stale = match verdict {
            Verdict::Trusted => None,
            Verdict::SameUpTo(bytes) => Some(Stale::Beyond(bytes)),
            Verdict::Changed(reason) => {
                known.end_generation(moments);
                Some(Stale::Generation(reason))
            }
        };
        Ok(known.pinned(stale))
    }

    /// Takes the hashes that a finished scan recorded, which began with those of `checked` as far as these reach.
    ///
    /// `reserve` gets memory for them; without it they are not kept, and the next doubt ends the generation.
    pub(crate) fn learn(
        &self,
        generation: u64,
        hashes: BlockHashes,
        checked: Option<&Arc<BlockHashes>>,
        moments: &Moments,
        reserve: impl FnOnce(u64) -> Option<Reservation>,
    ) -> Learned {
        let mut known = self.known.lock();
        let Some(known) = known.as_mut().filter(|known| known.generation == generation) else {
            return Learned::Holds;
        };
        match &known.hashes {
            Some(old) if old.size_bytes() == hashes.size_bytes() && **old != hashes => {
                known.end_generation(moments);
                return Learned::Contradicted;
            }
            Some(old) if old.size_bytes() >= hashes.size_bytes() => return Learned::Holds,
            // Of two that end within one block none tells whether the longer one begins with the shorter.
            Some(old) if !checked.is_some_and(|checked| Arc::ptr_eq(checked, old)) => return Learned::Unknown,
            _ => {}
        }
        known.forget_hashes();
        known.hashes_reservation = reserve(hashes.heap_bytes() as u64);
        if known.hashes_reservation.is_some() {
            known.hashes = Some(Arc::new(hashes));
        }
        Learned::Holds
    }

    /// Nothing that was derived under `generation` holds any more.
    pub(crate) fn end_generation(&self, generation: u64, moments: &Moments) {
        if let Some(known) = self.known.lock().as_mut().filter(|known| known.generation == generation) {
            known.end_generation(moments);
        }
    }

    /// Whether `generation` is the present one.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.known.lock().as_ref().is_some_and(|known| known.generation == generation)
    }
}

impl Known {
    /// Whether what is known is true of a version. What one user vouches for is not known to another.
    fn holds_for(&self, version: &FileVersion, young: bool, append: AppendPolicy, arrived_at: u64) -> bool {
        self.version == *version
            && ((!self.young && !young) || self.checked_at > arrived_at)
            && (!self.trusted || append == AppendPolicy::Trust)
    }

    fn end_generation(&mut self, moments: &Moments) {
        self.generation = moments.next_generation();
        self.forget_hashes();
    }

    fn forget_hashes(&mut self) {
        self.hashes = None;
        self.hashes_reservation = None;
    }

    fn pinned(&self, stale: Option<Stale>) -> Pinned {
        Pinned { generation: self.generation, hashes: self.hashes.clone(), stale, is_outdated: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    /// The same, as the user says.
    Trusted,
    SameUpTo(u64),
    Changed(&'static str),
}

fn judge(
    opened: OpenedFile<'_>,
    old: &FileVersion,
    hashes: Option<&BlockHashes>,
    append: AppendPolicy,
) -> Result<Verdict, CacheError> {
    let OpenedFile::Local(file) = opened else { return Ok(Verdict::Changed("the object has another version")) };
    let version = file.version();
    if append == AppendPolicy::Trust && version.size_bytes >= old.size_bytes && is_same_file(old, version) {
        return Ok(Verdict::Trusted);
    }
    let Some(hashes) = hashes else {
        return Ok(Verdict::Changed(
            "the file's version changed or is too young to trust, and no scan recorded its content",
        ));
    };
    let checked_bytes = hashes.size_bytes();
    if version.size_bytes < checked_bytes {
        return Ok(Verdict::Changed("the file was truncated or replaced by a shorter one"));
    }
    let matches = hashes
        .prefix_matches(file, checked_bytes)
        .map_err(|source| CacheError::ContentCheck { path: Arc::clone(&version.path), source: Arc::new(source) })?;
    Ok(if matches.is_same() {
        Verdict::SameUpTo(checked_bytes)
    } else {
        Verdict::Changed("the file's content changed")
    })
}

/// Whether a local file is no longer as it was opened, and `known` is a newer state of its path. Times alone do not tell:
/// what is moved here with its folder keeps those it had.
fn is_outdated(opened: OpenedFile<'_>, known: &FileVersion) -> bool {
    let OpenedFile::Local(file) = opened else { return false };
    let Ok(now) = PinnedFile::open(Path::new(file.path().as_ref())) else { return false };
    let changed_ns = |version: &FileVersion| match version.stamp {
        Stamp::Local { ctime_ns, .. } => ctime_ns,
        Stamp::Object { .. } => 0,
    };
    let is_later = || is_same_file(known, file.version()) && changed_ns(file.version()) <= changed_ns(known);
    now.version() != file.version() && (now.version() == known || is_later())
}

fn is_same_file(old: &FileVersion, new: &FileVersion) -> bool {
    match (&old.stamp, &new.stamp) {
        (Stamp::Local { device: old_device, inode: old_inode, .. }, Stamp::Local { device, inode, .. }) => {
            (old_device, old_inode) == (device, inode)
        }
        _ => false,
    }
}
