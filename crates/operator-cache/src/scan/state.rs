//! What a scan's streams share under its lock: morsels, seats, phase. Pure transitions; no I/O, no decoding, no cache.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

use super::SharedScan;
use super::morsel_set::MorselSet;
use super::retreat::Asked;
use crate::error::CacheError;
use crate::heads::Border;
use crate::item::{Chunk, Item};
use crate::rows::Rows;
use crate::source::Morsel;

/// A fetch under way. Whoever polls it drives it; whoever first finds it done takes the morsel out.
pub(crate) type SharedFetch = Shared<BoxFuture<'static, Result<FetchedMorsel, CacheError>>>;

/// A morsel, and the time that it took to get it from the source, nanoseconds.
#[derive(Debug)]
pub(crate) struct Obtained {
    pub(crate) morsel: Morsel,
    pub(crate) obtaining_ns: u64,
}

/// A fetched morsel, until somebody decodes it.
pub(crate) type FetchedMorsel = Arc<Mutex<Option<Obtained>>>;

/// Where a participant's streams find the scan they take part in; it changes when a scan is given up for sharing.
pub(crate) type Post = Arc<Mutex<Place>>;

/// See [`Post`].
#[derive(Debug)]
pub(crate) enum Place {
    At(Arc<SharedScan>),
    /// They have had everything, of a file of so many morsels: nothing of the scan is held for their sake.
    Ended {
        morsel_count: usize,
    },
}

/// One morsel.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    /// Not yet decoded: being claimed, fetched or decoded, or not yet issued.
    Open,
    /// Decoded and kept, together with the morsels after it up to `through`.
    Kept { chunk: Arc<Chunk>, through: usize },
    /// Kept in the chunk of an earlier morsel.
    Within { first: usize },
    /// Decoded and handed out, not kept.
    Gone,
}

/// What a participant has and lacks.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Morsels delivered to it.
    pub(crate) consumed: MorselSet,
    /// Morsels that its own streams are decoding.
    pub(crate) decoding: Vec<usize>,
    /// Kept morsels that it may take; some may have been consumed since, as part of a merged chunk.
    pub(crate) ready: VecDeque<usize>,
    /// Rows handed to it that are not kept, with the numbers of their morsels, which count as delivered.
    pub(crate) handed: VecDeque<(usize, Arc<Rows>)>,
    /// Weak: the post holds the scan that holds the seat.
    pub(crate) post: Weak<Mutex<Place>>,
    pub(crate) asked: Arc<Asked>,
}

impl Seat {
    pub(crate) fn new(post: &Post, asked: Arc<Asked>) -> Self {
        Self {
            consumed: MorselSet::default(),
            decoding: Vec::new(),
            ready: VecDeque::new(),
            handed: VecDeque::new(),
            post: Arc::downgrade(post),
            asked,
        }
    }

    /// A seat of nobody's.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self {
            consumed: MorselSet::default(),
            decoding: Vec::new(),
            ready: VecDeque::new(),
            handed: VecDeque::new(),
            post: Weak::new(),
            asked: Arc::new(Asked { columns: Arc::default(), predicate: Arc::default() }),
        }
    }
}

/// Whether results are kept and shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Every result is kept until the scan ends; participants may join.
    Kept,
    /// The results of the first morsels are kept; one participant reads alone.
    Headed,
    /// Positions of records are kept, rows are not; one participant reads alone.
    Noted,
    /// Nothing is kept; one participant reads alone.
    Solo,
}

/// How far the scan is.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Running,
    /// Every morsel was decoded; one stream checks that the file is still the same.
    Finishing,
    /// It was.
    Verified,
    Failed(CacheError),
}

/// What a stream should do next.
pub(crate) enum Step {
    /// Give these rows to the consumer.
    Deliver(Arc<Rows>),
    /// Ask the source for the next morsel (already counted as claiming).
    Claim,
    /// Drive a fetch.
    Drive(usize, SharedFetch),
    /// Check the file and end the scan.
    Finish,
    /// Nothing to do until woken.
    Wait,
    /// The participant, which reads alone, is to go on with a scan of just what it asked for.
    Retreat,
    /// All is read but what was dropped when sharing ended: the participant must read that anew, from another seat.
    Rescan,
    /// The participant sits elsewhere now.
    Moved,
    End,
    /// The source left out a number.
    Gap,
    Fail(CacheError),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) sharing: Sharing,
    pub(crate) phase: Phase,
    pub(crate) slots: Vec<Slot>,
    /// Entries of each morsel, once it was decoded.
    pub(crate) entry_counts: Vec<u32>,
    /// [`Head::end_bytes`](crate::Head::end_bytes) of each morsel.
    pub(crate) head_ends: Vec<u64>,
    pub(crate) seats: HashMap<u64, Seat>,
    pub(crate) fetching: BTreeMap<usize, SharedFetch>,
    /// Calls of `next_morsel` under way.
    pub(crate) claiming_count: usize,
    pub(crate) decoding_count: usize,
    pub(crate) exhausted: bool,
    /// Numbers that the source gave out.
    issued: MorselSet,
    /// Whether a stream is merging kept results.
    pub(crate) merging: bool,
    /// Whether its only reader asked for less than it reads, and is to go on with just that.
    pub(crate) retreats: bool,
    /// Whether it can't be joined any more: kept results are for those alone who take part.
    is_unlisted: bool,
    /// What became of the results, until all who take part have seen these: it shares their memory, so it counts as read.
    item: Option<Arc<Item>>,
    wakers: Vec<Waker>,
}

/// What a scan no longer holds; to be dropped outside of its lock.
pub(crate) type Seen = (Vec<Slot>, Option<Arc<Item>>);

impl State {
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            phase: Phase::Running,
            slots: Vec::new(),
            entry_counts: Vec::new(),
            head_ends: Vec::new(),
            seats: HashMap::new(),
            fetching: BTreeMap::new(),
            claiming_count: 0,
            decoding_count: 0,
            exhausted: false,
            issued: MorselSet::default(),
            merging: false,
            retreats: false,
            is_unlisted: false,
            item: None,
            wakers: Vec::new(),
        }
    }

    /// Whether others may take part.
    pub(crate) fn can_be_joined(&self) -> bool {
        self.sharing == Sharing::Kept && !self.is_unlisted && !matches!(self.phase, Phase::Failed(_))
    }

    /// Notes that it can't be joined any more, and what became of its results.
    pub(crate) fn unlist(&mut self, item: Option<Arc<Item>>) -> Seen {
        self.is_unlisted = true;
        self.item = item;
        self.take_seen()
    }

    /// Takes out the results that all have seen who take part, if others can't any more; and the item once there are no
    /// results left.
    pub(crate) fn take_seen(&mut self) -> Seen {
        if !self.is_unlisted {
            return Seen::default();
        }
        let (mut seen, mut is_read) = (Vec::new(), false);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if matches!(slot, Slot::Kept { .. } | Slot::Within { .. }) {
                match self.seats.values().all(|seat| seat.consumed.contains(index)) {
                    true => seen.push(std::mem::replace(slot, Slot::Gone)),
                    false => is_read = true,
                }
            }
        }
        (seen, if is_read { None } else { self.item.take() })
    }

    /// Gives a participant a seat, with everything that is kept so far to be read.
    pub(crate) fn seat(&mut self, participant_id: u64, post: &Post, asked: &Arc<Asked>) {
        let mut seat = Seat::new(post, Arc::clone(asked));
        let kept = self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, Slot::Kept { .. }));
        seat.ready.extend(kept.map(|(index, _)| index));
        self.seats.insert(participant_id, seat);
    }

    /// The next thing to do for a stream of participant `me`. Registers its waker when there is nothing.
    ///
    /// `is_fetching`: the stream drives a fetch already and neither claims nor helps with another.
    pub(crate) fn step(&mut self, me: u64, is_fetching: bool, context: &Context<'_>) -> Step {
        if let Phase::Failed(error) = &self.phase {
            return Step::Fail(error.clone());
        }
        let Some(seat) = self.seats.get_mut(&me) else { return Step::Moved };
        if let Some((_, rows)) = seat.handed.pop_front() {
            return Step::Deliver(rows);
        }
        while let Some(index) = seat.ready.pop_front() {
            if seat.consumed.contains(index) {
                continue;
            }
            let first = match self.slots[index] {
                Slot::Within { first } => first,
                _ => index,
            };
            if let Slot::Kept { chunk, through } = &self.slots[first] {
                for part in first..=*through {
                    seat.consumed.insert(part);
                }
                return Step::Deliver(Arc::clone(chunk.scanned()));
            }
        }
        if self.retreats && !self.exhausted && matches!(self.phase, Phase::Running) {
            // What its streams decode still is verified with what they will read elsewhere: first that is done.
            if self.claiming_count == 0 && self.decoding_count == 0 {
                return Step::Retreat;
            }
            self.register(context);
            return Step::Wait;
        }
        if is_fetching {
            self.register(context);
            return Step::Wait;
        }
        if !self.exhausted {
            self.claiming_count += 1;
            return Step::Claim;
        }
        if let Some((&index, fetch)) = self.fetching.first_key_value() {
            let fetch = fetch.clone();
            self.register(context);
            return Step::Drive(index, fetch);
        }
        if self.claiming_count == 0 && self.decoding_count == 0 {
            let lacks_any = seat.consumed.count() < self.slots.len() as u64;
            match self.phase {
                Phase::Running if self.issued.count() != self.slots.len() as u64 => return Step::Gap,
                // Only a reader that sits alone lacks anything here: what was dropped when sharing ended. Positions
                // were noted of that too, or other morsels are kept, so they are seen to first.
                Phase::Running if lacks_any && !matches!(self.sharing, Sharing::Noted | Sharing::Headed) => {
                    return Step::Rescan;
                }
                Phase::Verified if lacks_any => return Step::Rescan,
                Phase::Running => {
                    self.phase = Phase::Finishing;
                    return Step::Finish;
                }
                Phase::Verified => return Step::End,
                Phase::Finishing | Phase::Failed(_) => {}
            }
        }
        self.register(context);
        Step::Wait
    }

    /// Makes room for a morsel that was issued. False when its number was issued before.
    pub(crate) fn issue(&mut self, index: usize) -> bool {
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::Open);
        }
        self.issued.insert(index)
    }

    /// Notes that `me` decodes morsel `index`. False when it sits elsewhere: then the morsel is not its to decode.
    pub(crate) fn begin_decoding(&mut self, me: u64, index: usize) -> bool {
        let Some(seat) = self.seats.get_mut(&me) else { return false };
        seat.decoding.push(index);
        self.decoding_count += 1;
        true
    }

    /// Notes the entries of a kept morsel, and where the file's head up to it ends.
    pub(crate) fn note_kept(&mut self, index: usize, entry_count: usize, head_end_bytes: u64) {
        if self.entry_counts.len() <= index {
            self.entry_counts.resize(index + 1, 0);
            self.head_ends.resize(index + 1, 0);
        }
        // Arrays of more than 2^31 rows are not made.
        self.entry_counts[index] = u32::try_from(entry_count).unwrap_or(u32::MAX);
        self.head_ends[index] = head_end_bytes;
    }

    /// The chunks kept of the first morsels, up to the first that is not.
    pub(crate) fn head(&self) -> impl Iterator<Item = (&Arc<Chunk>, usize)> {
        let mut next = 0;
        std::iter::from_fn(move || match self.slots.get(next) {
            Some(Slot::Kept { chunk, through }) => {
                next = through + 1;
                Some((chunk, *through))
            }
            _ => None,
        })
    }

    /// Where kept rows can be parted: behind the chunks of the first morsels.
    pub(crate) fn borders(&self) -> Vec<Border> {
        let mut border = Border::default();
        let borders = self.head().map(|(chunk, through)| {
            let rows = chunk.scanned();
            border.entry_count += rows.entry_count() as u64;
            border.head.record_count += rows.record_count;
            border.head.end_bytes = self.head_ends.get(through).copied().unwrap_or(0);
            border
        });
        borders.collect()
    }

    /// Entries up to the end of each morsel.
    pub(crate) fn morsel_ends(&self) -> Arc<[u64]> {
        let counts = self.entry_counts.iter().copied().chain(std::iter::repeat(0)).take(self.slots.len());
        counts
            .scan(0, |end, count| {
                *end += u64::from(count);
                Some(*end)
            })
            .collect()
    }

    fn register(&mut self, context: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
    }

    /// Everyone who waits; wake them after the lock is released.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }
}
