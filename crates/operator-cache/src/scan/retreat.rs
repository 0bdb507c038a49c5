//! Scans of more than was asked for whose readers go on with scans of their own, of just what they asked for: where it
//! turns out that nothing more will be kept, and where something can't be read that nobody may have asked for.
//!
//! **Nothing more is kept.** What more is read is then read in vain. Not so where columns are laid beside kept ones, which
//! spare it more, nor where a map is made on the way. A scan that keeps the file's head stays until its reader has read the
//! rest elsewhere: only then is it known to be of one content.
//!
//! **What can't be read.**
//! A scan keeps columns that others may want, of rows that a query's predicate rejects and of records without elements,
//! and extends or completes items with all that these have. A value there that is not of its column's type is no error
//! of a query that doesn't look at it. So whoever asked for less than such a scan reads goes on with a scan of its own, of
//! just its columns and rows, from the morsel on that could not be decoded; what is bad for that one too is its error.
//! Nothing of the file is read beyond what is asked for from then on
//! ([`PinnedSource::has_unreadable`](crate::PinnedSource)).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thermocline_placement::operator_cache::widening::is_worth_reading_less;
use thermocline_predicate::Conjunction;

use super::gathering::Gathering;
use super::morsel_set::MorselSet;
use super::state::{Phase, Place, Post, Seat, Sharing, State};
use super::{MorselWork, ScanMeters, SharedScan, Unlisting, wake};
use crate::cut::{Cut, CutPieces};
use crate::error::CacheError;
use crate::request::ColumnSpec;
use crate::rows::Rows;
use crate::source::ScanSpec;

/// What a participant asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) columns: Arc<[ColumnSpec]>,
    pub(crate) predicate: Arc<Conjunction>,
}

impl Asked {
    /// Whether a scan of `spec` reads more than this: of records without elements nothing is asked for.
    pub(super) fn is_less_than(&self, spec: &ScanSpec) -> bool {
        spec.keeps_empty || self.columns != spec.columns || self.predicate != spec.predicate
    }
}

/// Rows that a scan delivers to one who takes part in it.
#[derive(Debug, Clone)]
pub struct Delivered {
    pub(crate) rows: Arc<Rows>,
    /// Whether they are of a scan of its own: just the rows and columns that it asked for.
    pub(crate) is_own: bool,
}

impl Delivered {
    /// Whether they are of a scan that nothing is kept of.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// As they were scanned, for their counts.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }
}

/// How what a participant wants is cut out of the rows that are delivered to it.
#[derive(Debug)]
pub struct DeliveredCut {
    pub(super) of_shared: Cut,
    pub(super) of_own: Cut,
}

impl DeliveredCut {
    /// See [`Cut::as_kept`].
    pub fn as_kept(self) -> Self {
        Self { of_shared: self.of_shared.as_kept(), of_own: self.of_own.as_kept() }
    }

    /// Cuts.
    ///
    /// # Errors
    /// As [`Cut::apply`].
    pub fn apply(&self, delivered: &Delivered) -> Result<CutPieces, arrow::error::ArrowError> {
        let cut = if delivered.is_own { &self.of_own } else { &self.of_shared };
        cut.apply(&delivered.rows)
    }
}

impl SharedScan {
    /// Ends the scan because morsel `index`, which a stream of `me` has, can't be decoded. It fails those who asked for
    /// all that it reads; the others are sent to scans of their own.
    pub(super) fn fail_decoding(&self, me: u64, index: usize, error: CacheError) {
        self.pinned.note_unreadable();
        let (dropped, wakers) = {
            let mut state = self.state.lock();
            if !matches!(state.phase, Phase::Failed(_)) {
                state.phase = Phase::Failed(error);
            }
            state.fetching.clear();
            if let Some(seat) = state.seats.get_mut(&me) {
                seat.decoding.retain(|&other| other != index);
            }
            let seats = state.seats.iter().filter(|(_, seat)| seat.asked.is_less_than(&self.spec));
            let leaving: Vec<u64> = seats.map(|(id, _)| *id).collect();
            for id in leaving {
                if let Some(seat) = state.seats.remove(&id) {
                    self.send_away(id, seat, true);
                }
            }
            (std::mem::take(&mut state.slots), state.take_wakers())
        };
        drop(dropped);
        self.forget_positions();
        wake(wakers);
        self.give_up_heading("a value could not be read");
        self.cache.forget_scan(self, "a value could not be read");
    }

    /// Notes that participant `me`, to which morsel `index` counts as delivered, lacks it. False when it sits elsewhere.
    pub(super) fn take_back(&self, me: u64, index: usize) -> bool {
        let (is_here, wakers) = {
            let mut state = self.state.lock();
            let is_here = state.seats.get_mut(&me).map(|seat| seat.consumed.remove(index)).is_some();
            (is_here, state.take_wakers())
        };
        wake(wakers);
        is_here
    }

    /// Gives participant `me`, which came to the end elsewhere while this scan failed to decode morsel `index` for it, a
    /// scan of that morsel, of what it asked for. False when it takes part in a scan.
    pub(super) fn read_again(&self, me: u64, post: &Post, asked: &Arc<Asked>, index: usize) -> bool {
        let mut place = post.lock();
        let Place::Ended { morsel_count } = *place else { return false };
        let mut seen = MorselSet::default();
        for other in (0..morsel_count).filter(|&other| other != index) {
            seen.insert(other);
        }
        *place = Place::At(Arc::new(self.rest(me, post, Arc::clone(asked), seen, true)));
        true
    }

    /// Sends a participant to a scan that it reads alone, which leaves out what it has seen: of what it asked for
    /// (`is_own`), or of all that this one reads. Under this scan's state.
    pub(super) fn send_away(&self, participant_id: u64, seat: Seat, is_own: bool) {
        let Some(post) = seat.post.upgrade() else { return };
        let mut seen = seat.consumed;
        for index in seat.decoding {
            seen.insert(index);
        }
        // Nobody took them yet, and nobody will.
        for (index, _) in seat.handed {
            seen.remove(index);
        }
        let rest = self.rest(participant_id, &post, seat.asked, seen, is_own || self.is_own);
        *post.lock() = Place::At(Arc::new(rest));
    }

    /// Whether those who read on alone had better read just what they asked for.
    pub(super) fn may_retreat(&self) -> bool {
        let progress = self.meters.so_far(MorselWork::default()).progress;
        is_worth_reading_less(progress) && self.top_up().is_none() && self.mapping.lock().is_none()
    }

    /// Sends the only reader to a scan of just what it asked for. If this one keeps a head, the other one sees to it.
    /// Under this scan's state.
    pub(super) fn retreat(self: &Arc<Self>, participant_id: u64, seat: Seat, is_headed: bool) {
        let Some(post) = seat.post.upgrade() else { return };
        let mut rest = self.rest(participant_id, &post, seat.asked, seat.consumed, true);
        // How far a preview came is seen at its end.
        rest.announced = Mutex::new(std::mem::take(&mut *self.announced.lock()));
        rest.meters.scanned_bytes = AtomicU64::new(self.meters.scanned_bytes.load(Ordering::Relaxed));
        rest.meters.total_bytes = AtomicU64::new(self.meters.total_bytes.load(Ordering::Relaxed));
        rest.heading = Mutex::new(is_headed.then(|| Arc::clone(self)));
        *post.lock() = Place::At(Arc::new(rest));
    }

    /// The scan whose head is kept, now that the rest of its file was read here, and what it still keeps.
    pub(super) fn take_heading(&self) -> Option<(Arc<Self>, Sharing)> {
        let heading = self.heading.lock().take()?;
        heading.meters.execute_ns.fetch_add(self.meters.execute_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        let sharing = {
            let mut state = heading.state.lock();
            state.phase = Phase::Verified;
            state.sharing
        };
        Some((heading, sharing))
    }

    /// Has the head go whose file's rest was not read to its end.
    pub(super) fn give_up_heading(&self, reason: &'static str) {
        let heading = self.heading.lock().take();
        if let Some(heading) = heading {
            heading.stop_keeping();
            self.cache.forget_scan(&heading, reason);
        }
    }

    fn rest(&self, participant_id: u64, post: &Post, asked: Arc<Asked>, seen: MorselSet, is_own: bool) -> Self {
        let spec = ScanSpec { notes_positions: false, makes_map: false, ..self.spec.clone() };
        let spec = match is_own {
            true => ScanSpec {
                columns: Arc::clone(&asked.columns),
                predicate: Arc::clone(&asked.predicate),
                keeps_empty: false,
                ..spec
            },
            false => spec,
        };
        let mut state = State::new(Sharing::Solo);
        state.seats.insert(participant_id, Seat { consumed: seen.clone(), ..Seat::new(post, asked) });
        Self {
            id: self.cache.next_number(),
            cache: Arc::clone(&self.cache),
            source: self.source.clone(),
            pinned: self.pinned.clone(),
            spec,
            is_own,
            own_share: if is_own && self.own_share > 0.0 { 1.0 } else { self.own_share },
            base: self.base.clone(),
            top_up: self.top_up.clone().filter(|_| !is_own),
            completed_rows: self.completed_rows.clone().filter(|_| !is_own),
            compares_content: self.compares_content,
            promoted: self.promoted.clone(),
            mapped: self.mapped.clone(),
            may_turn_lazy: false,
            may_keep_head: false,
            factory: Arc::clone(&self.factory),
            askers: Mutex::default(),
            announced: Mutex::default(),
            skip: seen,
            opened: Mutex::new(None),
            state: Mutex::new(state),
            gathered: Mutex::<Option<Gathering>>::default(),
            mapping: Mutex::default(),
            // Who reads on for it reads on here.
            heading: Mutex::new(self.heading.lock().take()),
            meters: ScanMeters::default(),
            unlisting: Unlisting::default(),
        }
    }
}
