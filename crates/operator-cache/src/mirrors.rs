//! Mirrors: the rows of an item once more, in the layout that it had before, kept while nobody needs the memory.
//!
//! **Owns**: which items have a mirror, and giving its memory back. **Does not own**: in which of its two forms an item
//! is read (`placement::operator_cache::layout`), making a mirror (`conversion`).
//!
//! **Memory**: a mirror is reserved like any item, and marked as spare: whatever is reserved beside it takes the place of
//! mirrors before anything else goes, that of the one that was read longest ago first.
//! **Concurrency**: these locks are taken last, under whichever others, and no mirror is dropped under them; but it may be
//! under those of whoever reserves.
//!
//! **Paper**: Ramamurthy, DeWitt and Su, A Case for Fractured Mirrors (VLDB 2002), where both copies are kept for good.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thermocline_budget::SpareMark;
use thermocline_placement::operator_cache::layout::planned_query::PlannedQuery;
use thermocline_placement::operator_cache::layout::{Forms, Layout};

use crate::cache::OperatorCache;
use crate::cut::{Cut, View};
use crate::decisions::DecisionKind;
use crate::item::{Chunk, Item, ItemId};

/// The item as it was before it was converted.
#[derive(Debug)]
struct Mirror {
    /// What goes with it. Dropped before the memory is.
    spare: SpareMark,
    former: Arc<Item>,
    /// What it is the mirror of.
    of: ItemId,
}

/// What an item's mirror is kept in.
#[derive(Debug, Default)]
pub(crate) struct MirrorSlot {
    mirror: Mutex<Option<Mirror>>,
    read_tick: AtomicU64,
}

impl MirrorSlot {
    /// The mirror's layout, and the bytes that go with it.
    pub(crate) fn describe(&self) -> Option<(Layout, u64)> {
        self.mirror.lock().as_ref().map(|mirror| (mirror.former.layout, mirror.spare.size_bytes()))
    }

    /// Drops the mirror; who reads it goes on to.
    pub(crate) fn clear(&self) {
        let mirror = self.mirror.lock().take();
        drop(mirror);
    }

    /// The mirror, to be read.
    pub(crate) fn read(&self, tick: u64) -> Option<Arc<Item>> {
        self.read_tick.store(tick, Ordering::Relaxed);
        self.mirror.lock().as_ref().map(|mirror| Arc::clone(&mirror.former))
    }

    /// Takes the mirror out, unless somebody reads it: it is found by its slot alone.
    fn take_unread(&self) -> Option<Mirror> {
        self.mirror.lock().take_if(|mirror| Arc::strong_count(&mirror.former) == 1)
    }
}

/// The slots of all items that have a mirror.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    slots: Mutex<Vec<Weak<MirrorSlot>>>,
}

impl Mirrors {
    fn add(&self, slot: &Arc<MirrorSlot>) {
        let mut slots = self.slots.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(slot));
    }

    /// The one first whose mirror was read longest ago.
    fn held(&self) -> Vec<Arc<MirrorSlot>> {
        let mut held: Vec<_> = self.slots.lock().iter().filter_map(Weak::upgrade).collect();
        held.sort_by_key(|slot| slot.read_tick.load(Ordering::Relaxed));
        held
    }
}

impl OperatorCache {
    /// Makes an item's former self its mirror, which has the same rows and columns in another layout.
    pub(crate) fn mirror(&self, item: &Item, former: Arc<Item>) {
        // That has none itself.
        former.mirror.clear();
        let is_shared = |chunk: &&Arc<Chunk>| item.chunks.iter().any(|other| Arc::ptr_eq(other, chunk));
        let shared_bytes: u64 = former.chunks.iter().filter(is_shared).map(|chunk| chunk.size_bytes()).sum();
        let spare = self.budget().mark_spare(former.own_bytes().saturating_sub(shared_bytes));
        item.mirror.read_tick.store(self.tick(), Ordering::Relaxed);
        *item.mirror.mirror.lock() = Some(Mirror { spare, former, of: item.id });
        self.mirrors().add(&item.mirror);
    }

    /// The item, or its mirror where the query had better read that: they have the same rows, and the cut fits both.
    /// [`finish_reading`](Self::finish_reading) is told of the item and the layout that was read.
    pub fn form_for(&self, item: &Arc<Item>, cut: &Cut) -> Arc<Item> {
        let own = || Arc::clone(item);
        let Some((mirror, _)) = item.mirror.describe() else { return own() };
        let (record_columns, element_columns) = cut.column_counts();
        let query = PlannedQuery {
            reads_elements: cut.view() == View::Elements && item.source.unnest.is_some(),
            record_columns,
            element_columns,
            as_kept: cut.leaves_as_kept(),
        };
        let columns = cut.columns_read(&item.widths_bytes, item.source.unnest.as_ref());
        let forms = Forms { own: item.layout, mirror: Some(mirror) };
        let layout = item.layouts.lock().choose(self.layout_rule(), &item.shape, forms, &query, &columns);
        // It may have gone meanwhile.
        let chosen = if layout == mirror { item.mirror.read(self.tick()) } else { None };
        chosen.unwrap_or_else(own)
    }

    /// Drops all mirrors; who reads one goes on to.
    pub(crate) fn clear_mirrors(&self) {
        self.mirrors().held().iter().for_each(|slot| slot.clear());
    }

    /// Gives back so much of what mirrors take, or all that nobody reads; returns how much.
    pub(crate) fn drop_mirrors(&self, bytes: u64) -> u64 {
        let mut freed_bytes = 0;
        for slot in self.mirrors().held() {
            if freed_bytes >= bytes {
                break;
            }
            if let Some(Mirror { spare, former, of }) = slot.take_unread() {
                freed_bytes += spare.size_bytes();
                drop(spare);
                let numbers = vec![("size_bytes", former.size_bytes as f64)];
                let (path, reason) = (&former.source.path, "others need the memory");
                self.record(DecisionKind::DropMirror, Some(of), path, &former.predicate, numbers, reason);
            }
        }
        freed_bytes
    }
}
