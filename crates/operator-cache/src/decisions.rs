//! The ring of decisions: what the cache did and the numbers that made it.
//!
//! Bounded, in entries and in what each holds; the oldest entry makes room. Predicates are kept as data and rendered
//! when somebody looks, but for long ones: an entry outlives the item that they are counted with.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_predicate::{Conjunction, Interval};

use crate::item::ItemId;

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionKind {
    /// A finished scan's rows were kept as an item.
    Admit,
    /// A scan's rows are not kept, for want of room or benefit.
    Refuse,
    /// An item was dropped for room.
    Evict,
    /// Columns of an item were dropped for room.
    DropColumns,
    /// The last rows of an item were dropped for room.
    DropRows,
    /// An item of the same predicate answers a query.
    Hit,
    /// An item of a wider predicate answers a query, with a residual filter.
    Subsume,
    /// An item of the file's first records answers a query, with a scan of the rest.
    Head,
    /// An item is extended by what its file grew.
    Extend,
    /// Columns that an item lacks are scanned and laid beside its own.
    TopUp,
    /// Items that cover parts of a query's range answer it together, with a scan of what they lack.
    Combine,
    /// The records of a lazy item are read again, and their rows kept.
    Promote,
    /// A query takes part in a scan that another one began.
    Join,
    /// A query waits for a scan that runs, and then scans what that one lacked.
    Wait,
    /// The file is scanned.
    Miss,
    /// A scan finds records and fields by a positional map.
    MapUsed,
    /// A scan of a whole file made a positional map of it, or added fields to the one there is.
    MapMade,
    /// A positional map that an earlier process made was taken over.
    MapLoaded,
    /// The file is scanned for queries to come, while none runs.
    ScanAhead,
    /// Items were dropped because their file is no longer the one they were made of.
    Invalidate,
    /// A scan drops its rows and goes on keeping the positions of their records.
    Lazy,
    /// A scan that kept its rows no longer does, or ended early.
    Abort,
    /// An item was read: what that took, and what it would have taken in other layouts.
    Read,
    /// An item was given another layout.
    SwitchLayout,
    /// An item that should have another layout could not be given it.
    KeepLayout,
    /// An item is no longer kept in a second layout, since others need the memory.
    DropMirror,
    /// Everything was dropped at the user's wish.
    Clear,
}

impl DecisionKind {
    /// Lower-case word, as the table `thermocline.decisions` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::Evict => "evict",
            Self::DropColumns => "drop_columns",
            Self::DropRows => "drop_rows",
            Self::Hit => "hit",
            Self::Subsume => "subsume",
            Self::Head => "head",
            Self::Extend => "extend",
            Self::TopUp => "top_up",
            Self::Combine => "combine",
            Self::Promote => "promote",
            Self::Join => "join",
            Self::Wait => "wait",
            Self::Miss => "miss",
            Self::MapUsed => "map_used",
            Self::MapMade => "map_made",
            Self::MapLoaded => "map_loaded",
            Self::ScanAhead => "scan_ahead",
            Self::Invalidate => "invalidate",
            Self::Lazy => "lazy",
            Self::Abort => "abort",
            Self::Read => "read",
            Self::SwitchLayout => "switch_layout",
            Self::KeepLayout => "keep_layout",
            Self::DropMirror => "drop_mirror",
            Self::Clear => "clear",
        }
    }
}

/// Bytes of a predicate up to which a decision keeps it as it is: some twenty values. Of 4096 decisions that is 8 MB, as
/// if none shared its predicate with others.
const WHOLE_BYTES: usize = 2048;

/// Bytes of the text that is kept of a longer one.
const BRIEF_BYTES: usize = 512;

/// The predicate of a decision, as far as it is kept; shown as SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotedPredicate {
    /// All of it.
    Whole(Arc<Conjunction>),
    /// The beginning of one that is long.
    Brief(Arc<str>),
}

impl NotedPredicate {
    /// Of a short predicate a reference, of a long one a text.
    pub(crate) fn of(predicate: &Arc<Conjunction>) -> Self {
        // Each interval takes more than its own size, and to count them is cheaper than to measure their texts.
        let most_intervals = WHOLE_BYTES / size_of::<Interval>();
        match predicate.interval_count() <= most_intervals && predicate.heap_bytes() <= WHOLE_BYTES {
            true => Self::Whole(Arc::clone(predicate)),
            false => Self::Brief(predicate.brief(BRIEF_BYTES).into()),
        }
    }
}

impl fmt::Display for NotedPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(predicate) => predicate.fmt(f),
            Self::Brief(text) => f.write_str(text),
        }
    }
}

/// One decision.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Number of the decision since the cache was made, from 1.
    pub tick: u64,
    /// Wall time, nanoseconds since 1970-01-01T00:00:00Z.
    pub wall_ns: i64,
    /// What was decided.
    pub kind: DecisionKind,
    /// The item concerned, if it has a number yet.
    pub item_id: Option<ItemId>,
    /// Path or URL of the file.
    pub path: Arc<str>,
    /// The predicate of the item or scan.
    pub predicate: Option<NotedPredicate>,
    /// The numbers that made the decision; names end in their unit.
    pub numbers: Vec<(&'static str, f64)>,
    /// Why, in words.
    pub reason: &'static str,
}

/// A decision before it is stamped.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: DecisionKind,
    pub(crate) item_id: Option<ItemId>,
    pub(crate) path: Arc<str>,
    pub(crate) predicate: Option<NotedPredicate>,
    pub(crate) numbers: Vec<(&'static str, f64)>,
    pub(crate) reason: &'static str,
}

/// Bounded, thread-safe log of decisions.
#[derive(Debug)]
pub(crate) struct DecisionRing {
    capacity: usize,
    inner: Mutex<(u64, VecDeque<Decision>)>,
}

impl DecisionRing {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), inner: Mutex::new((0, VecDeque::new())) }
    }

    pub(crate) fn record(&self, wall_ns: i64, entry: Entry) {
        let mut inner = self.inner.lock();
        let (tick, ring) = &mut *inner;
        *tick += 1;
        if ring.len() == self.capacity {
            ring.pop_front();
        }
        let Entry { kind, item_id, path, predicate, numbers, reason } = entry;
        ring.push_back(Decision { tick: *tick, wall_ns, kind, item_id, path, predicate, numbers, reason });
    }

    /// Oldest first.
    pub(crate) fn snapshot(&self) -> Vec<Decision> {
        self.inner.lock().1.iter().cloned().collect()
    }
}
