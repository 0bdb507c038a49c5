//! The shared scan: one miss, computed once for all queries that want it.
//!
//! **Owns**: the queue of morsels of one file, their results while the scan runs, who has seen which.
//! **Does not own**: decoding (the source), the decision to keep (the cache asks `placement`), finished items.
//!
//! Every participant (one query's scan of one file, read by any number of its streams) receives the rows of every
//! morsel exactly once. Whoever polls takes a result it has not seen, else claims the next morsel and decodes it itself
//! (publishing the rows if the scan keeps them), else drives a fetch that is under way, else waits to be woken.
//!
//! **Nobody waits for another query's consumer**: between claim and decode a morsel belongs to nobody (a pending
//! fetch is driven by whoever polls), decoding is synchronous, and publishing never blocks. So a leader that was
//! cancelled, or that stopped reading, changes nothing for the others.
//!
//! **Giving up keeping**: when memory is refused or taken back, all kept results are dropped at once. The participant
//! that has seen most goes on with the source, alone; the others, and that one for what it had not yet taken, read the
//! file anew through the source factory, leaving out what they have seen. Memory is bounded, no answer changes.
//!
//! Who asked for less than the scan reads goes on with just that (`retreat`).
//!
//! **Keeping a head**, the results of the first morsels, is the same for the results of all others (`keeping`).
//!
//! **Going lazy** is the same, but the scan that goes on keeps the positions of its records to the end (`gathering`).
//!
//! **After the end** results stay for those who have not yet seen them; an item counts as read until all have. Who has
//! had everything holds nothing of the scan.
//!
//! **What can't be decoded** ends the scan; those who did not ask for all that it reads go on alone (`retreat`).
//!
//! **Locks**: the cache's catalog, then a scan's state, then a participant's post. Under a scan's state nothing is
//! decoded, reserved, freed or woken.

mod awaited;
mod claiming;
mod compaction;
mod gathering;
mod keeping;
mod mapping;
mod meters;
mod morsel_set;
mod participant;
mod retreat;
mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use parking_lot::Mutex;

pub use awaited::Awaited;
pub(crate) use awaited::AwaitedColumns;
use awaited::Unlisting;
pub(crate) use gathering::Noted;
pub(crate) use mapping::Mapping;
use meters::ScanMeters;
pub(crate) use meters::{MorselWork, SoFar};
pub use participant::{Participant, RowStream};
pub(crate) use retreat::Asked;
pub use retreat::{Delivered, DeliveredCut};

use crate::cache::OperatorCache;
use crate::error::{CacheError, SourceError};
use crate::file_record::PinnedSource;
use crate::heads::Border;
use crate::item::{Chunk, Item};
use crate::matching::is_worth_it;
use crate::request::{ColumnSpec, SelectRequest};
use crate::rows::Rows;
use crate::source::{MorselSource, ScanSpec, SourceEnd, SourceFactory, SourceKey};
use crate::top_up::{Differs, KeptRows, TopUp, missing_columns};
use gathering::Gathering;
use morsel_set::MorselSet;
use state::{Obtained, Phase, Place, Post, Sharing, Slot, State, Step};

/// Scans that end before they have read this part of their file do not count as scans.
const PREVIEW_PART: u64 = 4;

/// Why nothing is kept of a scan that nobody reads any more.
const LEFT_REASON: &str = "every query that took part ended before the scan did";

/// Why nothing is kept of one that failed.
const FAILED_REASON: &str = "the scan failed";

/// How often room is made for the positions of one morsel.
const NOTE_ATTEMPTS: usize = 3;

/// See the module.
pub(crate) struct SharedScan {
    pub(crate) id: u64,
    pub(crate) cache: Arc<OperatorCache>,
    pub(crate) source: SourceKey,
    pub(crate) pinned: PinnedSource,
    pub(crate) spec: ScanSpec,
    /// Whether it is of just what its only reader asked for, after one of more had failed.
    is_own: bool,
    /// Of its work the part that what was asked for would have been alone; 0 if that can't be told.
    own_share: f64,
    /// The item that this scan extends by what its file grew.
    pub(crate) base: Option<Arc<Item>>,
    /// How this scan completes an item's columns, or is laid beside them.
    top_up: Option<TopUp>,
    /// The rows that it is laid beside.
    completed_rows: Option<Arc<KeptRows>>,
    /// Whether its rows are read beside kept ones of the same content, so that it fails where the content is another.
    pub(crate) compares_content: bool,
    /// The lazy item whose records this scan reads.
    pub(crate) promoted: Option<Arc<Item>>,
    /// The map that it goes by; held, so that it is not evicted.
    pub(crate) mapped: Option<Arc<Item>>,
    /// Whether positions may take the place of its rows.
    pub(crate) may_turn_lazy: bool,
    /// Whether the rows of the file's first part are of use without the others.
    pub(crate) may_keep_head: bool,
    factory: SourceFactory,
    /// Who takes part, if that is recorded: fingerprints of what was asked for, with the time to find the scan.
    pub(crate) askers: Mutex<Vec<(u64, u64)>>,
    announced: Mutex<Announced>,
    /// Morsels that this scan's only reader has seen elsewhere.
    skip: MorselSet,
    opened: Mutex<Option<Arc<dyn MorselSource>>>,
    state: Mutex<State>,
    /// Positions of the records found so far, while they are wanted.
    gathered: Mutex<Option<Gathering>>,
    /// The map that it makes.
    mapping: Mutex<Option<Mapping>>,
    pub(crate) meters: ScanMeters,
    /// The scan that keeps a head, whose only reader reads the rest here: what it keeps becomes an item once this ends.
    heading: Mutex<Option<Arc<SharedScan>>>,
    /// For those who wait until it can't be joined any more: its item is there then, or will never be.
    unlisting: Unlisting,
}

/// What was noted of a scan when it began, which is true of one that is read to its end alone: a preview needs hardly
/// any of what it asks for.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// Among the scans of its file.
    pub(crate) is_counted: bool,
    /// As one that keeps more than is asked for.
    pub(crate) is_bet: bool,
    /// The columns that were noted as needed, and when.
    pub(crate) demand: Option<(Arc<[ColumnSpec]>, u64)>,
}

impl std::fmt::Debug for SharedScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedScan").field("id", &self.id).field("path", &self.source.path).finish_non_exhaustive()
    }
}

/// What a scan begins with, beside the file.
pub(crate) struct ScanStart {
    /// The item that the scan extends by what its file grew.
    pub(crate) base: Option<Arc<Item>>,
    /// How the scan completes an item's columns, or is laid beside them.
    pub(crate) top_up: Option<TopUp>,
    /// Whether the scan's rows are read beside kept ones.
    pub(crate) compares_content: bool,
    /// The lazy item whose records the scan reads.
    pub(crate) promoted: Option<Arc<Item>>,
    /// The map that the scan goes by.
    pub(crate) mapped: Option<Arc<Item>>,
    /// Whether positions may take the place of its rows.
    pub(crate) may_turn_lazy: bool,
    /// Whether the rows of the file's first part are of use without the others.
    pub(crate) may_keep_head: bool,
    /// Of its work the part that what is asked for would be alone; 0 if that can't be told.
    pub(crate) own_share: f64,
    pub(crate) announced: Announced,
    pub(crate) factory: SourceFactory,
}

impl ScanStart {
    /// A scan of the file alone.
    pub(crate) fn anew(factory: SourceFactory) -> Self {
        Self {
            base: None,
            top_up: None,
            compares_content: false,
            promoted: None,
            mapped: None,
            may_turn_lazy: false,
            may_keep_head: false,
            own_share: 0.0,
            announced: Announced::default(),
            factory,
        }
    }
}

/// A scan's results once it ended well, in file order.
pub(crate) struct Harvest {
    pub(crate) chunks: Vec<Arc<Chunk>>,
    /// Entries up to the end of each morsel.
    pub(crate) morsel_ends: Arc<[u64]>,
    /// Where the chunks can be parted, ascending.
    pub(crate) borders: Arc<[Border]>,
    pub(crate) record_count: u64,
    pub(crate) skipped_count: u64,
    pub(crate) execute_ns: u64,
    pub(crate) cache_ns: u64,
}

impl SharedScan {
    /// A scan whose results are kept for all (`keeps`), or one that a single query reads alone.
    pub(crate) fn new(
        cache: &Arc<OperatorCache>,
        source: &SourceKey,
        pinned: &PinnedSource,
        spec: ScanSpec,
        start: ScanStart,
        keeps: bool,
    ) -> Arc<Self> {
        let ScanStart { base, top_up, compares_content, promoted, mapped, .. } = start;
        let ScanStart { may_turn_lazy, may_keep_head, own_share, announced, factory, .. } = start;
        let gathered = if keeps && spec.notes_positions { cache.reserve_if_free(0).map(Gathering::new) } else { None };
        let mapping = cache.begin_mapping(&spec);
        Arc::new(Self {
            id: cache.next_number(),
            cache: Arc::clone(cache),
            source: source.clone(),
            pinned: pinned.clone(),
            spec,
            is_own: false,
            own_share,
            base,
            completed_rows: top_up.as_ref().map(|top_up| Arc::new(top_up.kept_rows())),
            top_up,
            compares_content,
            promoted,
            mapped,
            may_turn_lazy,
            may_keep_head,
            factory,
            askers: Mutex::default(),
            announced: Mutex::new(announced),
            skip: MorselSet::default(),
            opened: Mutex::new(None),
            state: Mutex::new(State::new(if keeps { Sharing::Kept } else { Sharing::Solo })),
            gathered: Mutex::new(gathered),
            mapping: Mutex::new(mapping),
            meters: ScanMeters::default(),
            heading: Mutex::default(),
            unlisting: Unlisting::default(),
        })
    }

    /// The item that this scan's item will make superfluous.
    pub(crate) fn replaced(&self) -> Option<&Arc<Item>> {
        let promoted = self.promoted.as_ref().filter(|lazy| lazy.predicate == self.spec.predicate);
        self.base.as_ref().or(self.completed()).or(promoted)
    }

    /// What it completes, and with which columns.
    pub(crate) fn top_up(&self) -> Option<&TopUp> {
        self.top_up.as_ref().filter(|top_up| top_up.completes())
    }

    /// The item whose columns it completes.
    pub(crate) fn completed(&self) -> Option<&Arc<Item>> {
        self.top_up().map(|top_up| &top_up.base)
    }

    /// Whether others may hold columns of its item too.
    pub(crate) fn may_share(&self) -> bool {
        let is_beside = self.top_up.as_ref().is_some_and(|top_up| !top_up.completes());
        is_beside || self.replaced().is_some_and(|item| item.may_share.load(Ordering::Relaxed))
    }

    /// What it passed over, and what it took for what was asked for alone. None if that can't be told.
    pub(crate) fn own_work(&self) -> Option<(u64, u64)> {
        let SoFar { progress, execute_ns, .. } = self.meters.so_far(MorselWork::default());
        Some(progress.scanned_bytes).filter(|bytes| *bytes > 0).zip(self.own_part_ns(execute_ns))
    }

    /// Of so much of its work, what was asked for would have taken so long alone. None if that can't be told.
    pub(crate) fn own_part_ns(&self, execute_ns: u64) -> Option<u64> {
        (self.own_share > 0.0).then_some((execute_ns as f64 * self.own_share) as u64)
    }

    /// Whether results are kept, and others may join.
    pub(crate) fn is_keeping(&self) -> bool {
        let state = self.state.lock();
        state.sharing == Sharing::Kept && !matches!(state.phase, Phase::Failed(_))
    }

    /// Notes that the scan was taken off the list of those that can be joined, and which item its results became, if they
    /// became one; and tells those who wait. Not to be called under a lock.
    pub(crate) fn note_unlisted(&self, item: Option<Arc<Item>>) {
        let _seen = self.state.lock().unlist(item);
        self.unlisting.note();
    }

    /// Whether the columns that its item will lack of `request` could be laid beside those that it has; how many.
    pub(crate) fn lacking_count(&self, request: &SelectRequest) -> Option<usize> {
        // Morsels of positions and maps are not those of other scans, but where its records lie will be known.
        let can_align = match (&self.base, &self.spec.positions, &self.spec.map) {
            (Some(_), ..) => false,
            (None, None, None) => true,
            (None, Some(_), _) => request.can_seek,
            (None, None, Some(_)) => request.can_seek && self.spec.predicate.is_all(),
        };
        let has_rows = self.spec.predicate.is_all() || self.spec.predicate == request.predicate;
        let missing_count = missing_columns(&self.spec.columns, &self.spec.predicate, request)?.len();
        // Nobody waits for columns of which none is asked for.
        let has_some = missing_count < request.columns.len();
        (can_align && has_rows && has_some && is_worth_it(&self.spec.predicate, missing_count, request))
            .then_some(missing_count)
    }

    /// Whether it may keep no more than a part of the file's rows.
    pub(crate) fn has_quota(&self) -> bool {
        self.meters.head_bytes.load(Ordering::Relaxed) > 0
    }

    /// Whether positions are kept instead.
    pub(crate) fn is_noting(&self) -> bool {
        self.state.lock().sharing == Sharing::Noted
    }

    /// Takes a seat; false when the scan no longer shares.
    pub(crate) fn join(&self, participant_id: u64, post: &Post, asked: &Arc<Asked>) -> bool {
        let mut state = self.state.lock();
        if !state.can_be_joined() {
            return false;
        }
        state.seat(participant_id, post, asked);
        true
    }

    /// Takes the first seat of a new scan.
    pub(crate) fn seat(&self, participant_id: u64, post: &Post, asked: &Arc<Asked>) {
        self.state.lock().seat(participant_id, post, asked);
    }

    /// Gives a seat up. When it was the last of an unfinished scan, results and reservations go, and what was noted of
    /// one that would be finished. Without a seat nothing is locked but the state.
    pub(crate) fn leave(&self, participant_id: u64) {
        let (_seat, dropped, was_alone) = {
            let mut state = self.state.lock();
            let Some(seat) = state.seats.remove(&participant_id) else { return };
            if !state.seats.is_empty() || !matches!(state.phase, Phase::Running) {
                let seen = state.take_seen();
                drop(state);
                return drop((seat, seen));
            }
            // Nobody may join what nobody drives.
            let was_alone = std::mem::replace(&mut state.sharing, Sharing::Solo) == Sharing::Solo;
            (seat, std::mem::take(&mut state.slots), was_alone)
        };
        drop(dropped);
        if self.was_preview() {
            self.take_back_announced();
        }
        self.give_up_heading(LEFT_REASON);
        if was_alone {
            return;
        }
        self.forget_positions();
        self.cache.forget_scan(self, LEFT_REASON);
    }

    /// Whether hardly any of the file was read: what cost most of a scan was one.
    fn was_preview(&self) -> bool {
        let (scanned, total) = (&self.meters.scanned_bytes, &self.meters.total_bytes);
        scanned.load(Ordering::Relaxed) <= total.load(Ordering::Relaxed) / PREVIEW_PART
    }

    fn take_back_announced(&self) {
        let Announced { is_counted, is_bet, demand } = std::mem::take(&mut *self.announced.lock());
        self.pinned.take_back(self.source.unnest.as_ref(), is_counted, is_bet);
        if let Some((columns, tick)) = demand {
            self.cache.catalog().take_back_demand(&self.source, &columns, tick);
        }
    }

    /// What a stream of participant `me` should do next.
    fn step(self: &Arc<Self>, me: u64, is_fetching: bool, context: &Context<'_>) -> Step {
        let (step, wakers, _left) = {
            let mut state = self.state.lock();
            match state.step(me, is_fetching, context) {
                Step::Rescan => {
                    if let Some(seat) = state.seats.remove(&me) {
                        self.send_away(me, seat, false);
                    }
                    (Step::Moved, state.take_wakers(), None)
                }
                Step::Retreat => {
                    if let Some(seat) = state.seats.remove(&me) {
                        self.retreat(me, seat, state.sharing == Sharing::Headed);
                    }
                    (Step::Moved, state.take_wakers(), None)
                }
                Step::End => {
                    let seat = state.seats.remove(&me);
                    if let Some(post) = seat.as_ref().and_then(|seat| seat.post.upgrade()) {
                        // The caller holds the scan too.
                        *post.lock() = Place::Ended { morsel_count: state.slots.len() };
                    }
                    (Step::End, Vec::new(), Some((seat, state.take_seen())))
                }
                step => (step, Vec::new(), None),
            }
        };
        wake(wakers);
        if matches!(step, Step::Gap) {
            self.fail(self.broken_numbering());
        }
        step
    }

    /// Ends the scan for everybody.
    fn fail(&self, error: CacheError) {
        let (dropped, wakers) = {
            let mut state = self.state.lock();
            if !matches!(state.phase, Phase::Failed(_)) {
                state.phase = Phase::Failed(error);
            }
            state.fetching.clear();
            (std::mem::take(&mut state.slots), state.take_wakers())
        };
        drop(dropped);
        self.forget_positions();
        wake(wakers);
        self.give_up_heading(FAILED_REASON);
        self.cache.forget_scan(self, FAILED_REASON);
    }

    fn open(&self) -> Result<Arc<dyn MorselSource>, SourceError> {
        let mut opened = self.opened.lock();
        if let Some(source) = &*opened {
            return Ok(Arc::clone(source));
        }
        let source = match self.top_up.as_ref().zip(self.completed_rows.as_ref()) {
            Some((top_up, kept)) => top_up.open(&self.spec, kept, &self.factory, self.cache.clock())?,
            None => (self.factory)(&self.spec)?,
        };
        self.meters.total_bytes.store(source.total_bytes(), Ordering::Relaxed);
        *opened = Some(Arc::clone(&source));
        Ok(source)
    }

    /// Decodes a morsel and makes its rows known. Rows and errors are for the stream that called; an error ends the
    /// scan.
    fn decode(self: &Arc<Self>, me: u64, index: usize, obtained: Obtained) -> Result<Arc<Rows>, Undecoded> {
        let guard = FailOnUnwind(self);
        let Obtained { morsel, obtaining_ns } = obtained;
        let clock = self.cache.clock();
        let range = morsel.start_bytes..morsel.end_bytes;
        let head_end_bytes = morsel.head_end_bytes;
        let source_bytes = morsel.end_bytes.saturating_sub(morsel.start_bytes);
        let began_ns = clock.monotonic_ns();
        let decoded = self.open().and_then(|source| source.decode(morsel));
        let decoded_ns = clock.monotonic_ns();
        let execute_ns = obtaining_ns.saturating_add(decoded_ns.saturating_sub(began_ns));
        let work = MorselWork { source_bytes, execute_ns };
        let mut rows = match decoded {
            Ok(rows) if rows.columns.len() == self.spec.columns.len() => rows,
            Ok(rows) => {
                let what = format!("a morsel has {} columns, expected {}", rows.columns.len(), self.spec.columns.len());
                let error = CacheError::Contract { path: Arc::clone(&self.source.path), what };
                // The caller may sit elsewhere by now, where this morsel counts as seen: it gets the error directly.
                self.fail(error.clone());
                guard.disarm();
                return Err(Undecoded::ForAll(error));
            }
            Err(error) if error.is::<Differs>() => {
                let error = self.failure(error);
                self.fail(error.clone());
                guard.disarm();
                return Err(Undecoded::ForAll(error));
            }
            Err(error) => {
                let error = CacheError::source(error);
                self.fail_decoding(me, index, error.clone());
                guard.disarm();
                return Err(Undecoded::ForWhoAskedForIt(error));
            }
        };
        self.note_map(index, rows.map_piece.take(), work);
        if let Some(positions) = rows.positions.take() {
            self.note_positions(index, positions, rows.record_count, work);
        } else if self.spec.notes_positions {
            // Without these, others are of no use.
            self.give_up_positions("a part of the file gave no positions");
        }
        let keeps = self.is_keeping();
        let (rows, chunk) = if keeps { self.keep(rows, index, &range, work) } else { (Arc::new(rows), None) };
        let kept_ns = if keeps { clock.monotonic_ns() } else { decoded_ns };
        self.meters.add(work, kept_ns.saturating_sub(decoded_ns));
        self.publish(me, (index, head_end_bytes), &rows, chunk);
        if keeps {
            self.compact_around(index);
            self.meters.cache_ns.fetch_add(clock.monotonic_ns().saturating_sub(kept_ns), Ordering::Relaxed);
            self.cache.choose_eagerness(self);
        }
        guard.disarm();
        Ok(rows)
    }

    fn publish(&self, me: u64, (index, head_end_bytes): (usize, u64), rows: &Arc<Rows>, chunk: Option<Arc<Chunk>>) {
        let (_unkept, wakers) = {
            let mut state = self.state.lock();
            let state = &mut *state;
            state.decoding_count -= 1;
            if let Some(seat) = state.seats.get_mut(&me) {
                seat.decoding.retain(|&other| other != index);
                seat.consumed.insert(index);
            }
            let mut unkept = None;
            if index < state.slots.len() {
                match chunk {
                    Some(chunk) if state.sharing == Sharing::Kept => {
                        state.note_kept(index, rows.entry_count(), head_end_bytes);
                        self.meters.kept_bytes.fetch_add(chunk.own_bytes(), Ordering::Relaxed);
                        let lent_bytes = chunk.size_bytes().saturating_sub(chunk.own_bytes());
                        self.meters.lent_bytes.fetch_add(lent_bytes, Ordering::Relaxed);
                        state.slots[index] = Slot::Kept { chunk, through: index };
                        for (_, seat) in state.seats.iter_mut().filter(|(id, _)| **id != me) {
                            seat.ready.push_back(index);
                        }
                    }
                    chunk => {
                        unkept = chunk;
                        state.slots[index] = Slot::Gone;
                        // The heir of a scan that stopped keeping while others were decoding is given what they found.
                        for (_, seat) in state.seats.iter_mut().filter(|(id, _)| **id != me) {
                            seat.consumed.insert(index);
                            seat.handed.push_back((index, Arc::clone(rows)));
                        }
                    }
                }
            }
            (unkept, state.take_wakers())
        };
        wake(wakers);
    }

    /// After the last morsel: the file must still be the one that was opened. Then the results may become an item.
    fn finish(self: &Arc<Self>) {
        let guard = FailOnUnwind(self);
        let finished = self.open().and_then(|source| source.finish()).and_then(|end| self.check_completed(end));
        match finished {
            Err(error) => self.fail(self.failure(error)),
            Ok(end) => {
                let (sharing, wakers) = {
                    let mut state = self.state.lock();
                    state.phase = Phase::Verified;
                    (state.sharing, state.take_wakers())
                };
                wake(wakers);
                self.cache.note_own_scan(self);
                match self.take_heading() {
                    Some((heading, sharing)) => heading.settle(sharing, end),
                    None => self.settle(sharing, end),
                }
            }
        }
        guard.disarm();
    }

    /// Columns that were laid beside kept ones must be of the same content, and so must rows that are read with kept
    /// ones. The file may have been rewritten after it was pinned and before it was read, which its source takes for
    /// one consistent content; so it is, but not the item's. (A source that hands out no hashes, having not read all of
    /// it, has seen the file unchanged since it was pinned.)
    fn check_completed(&self, end: SourceEnd) -> Result<SourceEnd, SourceError> {
        let is_other = self.compares_content
            && matches!((&self.pinned.hashes, &end.hashes), (Some(kept), Some(read)) if kept.as_ref() != read);
        if is_other { Err(Box::new(Differs { path: Arc::clone(&self.source.path) })) } else { Ok(end) }
    }

    /// The error of a source; what is kept of the file goes if it was found to be of other content.
    fn failure(&self, error: SourceError) -> CacheError {
        if error.is::<Differs>() {
            let reason = "a scan of the same version read other content";
            let generation = self.pinned.generation;
            self.cache.drop_stale(&self.source.path, reason, |of, _| of <= generation);
        }
        CacheError::source(error)
    }

    fn settle(self: &Arc<Self>, sharing: Sharing, mut end: SourceEnd) {
        let learned = self.cache.learn(self, &mut end);
        match (sharing, learned) {
            (Sharing::Solo, _) => {}
            (_, Err(reason)) => self.cache.forget_scan(self, reason),
            (Sharing::Kept | Sharing::Headed, Ok(())) => self.admit(sharing == Sharing::Headed, &end),
            (Sharing::Noted, Ok(())) => self.cache.admit_lazy(self, &end),
        }
        self.forget_positions();
        if learned.is_ok() {
            self.cache.settle_map(self);
            self.cache.record_askers(self);
        }
    }

    /// Makes an item of what is kept; of fewer rows if the item finds no room beside all of them.
    fn admit(self: &Arc<Self>, is_head: bool, end: &SourceEnd) {
        let is_admitted =
            self.cache.admit(self, end, is_head) || !is_head && self.keep_head() && self.cache.admit(self, end, true);
        if !is_admitted {
            self.cache.forget_scan(self, "no room for the item's structure");
        }
    }

    /// How many chunks are kept, and how many morsels there are.
    pub(crate) fn kept_counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.slots.iter().filter(|slot| matches!(slot, Slot::Kept { .. })).count(), state.slots.len())
    }

    /// The kept results, with small neighbours merged.
    pub(crate) fn harvest(&self) -> Harvest {
        let began_ns = self.cache.clock().monotonic_ns();
        // The slots stay as they are: until there is an item, others may join and take them.
        let (chunks, morsel_ends, borders) = {
            let state = self.state.lock();
            let kept = state.slots.iter().filter_map(|slot| match slot {
                Slot::Kept { chunk, .. } => Some(Arc::clone(chunk)),
                _ => None,
            });
            (kept.collect::<Vec<_>>(), state.morsel_ends(), state.borders())
        };
        let record_count = chunks.iter().map(|chunk| chunk.scanned().record_count).sum();
        let skipped_count = chunks.iter().map(|chunk| chunk.scanned().skipped_count).sum();
        let chunks = self.merge_small(chunks);
        let cache_ns = self.cache.clock().monotonic_ns().saturating_sub(began_ns);
        Harvest {
            chunks,
            morsel_ends,
            borders: borders.into(),
            record_count,
            skipped_count,
            execute_ns: self.meters.execute_ns.load(Ordering::Relaxed),
            cache_ns: self.meters.cache_ns.load(Ordering::Relaxed).saturating_add(cache_ns),
        }
    }
}

/// Why a morsel could not be decoded.
enum Undecoded {
    /// There is nothing to be trusted in it.
    ForAll(CacheError),
    /// Something in it is bad, which may be nothing that the participant asked for.
    ForWhoAskedForIt(CacheError),
}

/// A source that panics must not leave the others waiting.
struct FailOnUnwind<'a>(&'a Arc<SharedScan>);

impl FailOnUnwind<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for FailOnUnwind<'_> {
    fn drop(&mut self) {
        let what = "a source panicked".to_owned();
        self.0.fail(CacheError::Contract { path: Arc::clone(&self.0.source.path), what });
    }
}

fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
