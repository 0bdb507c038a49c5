//! Mirrors: the rows of an item once more, in the layout that it had before, kept while nobody needs the memory.
//!
//! **Owns**: which items have a mirror, and giving its memory back. **Does not own**: in which of its two forms an item
//! is read (`placement::operator_cache::layout`), making a mirror (`conversion`).
//!
//! **Memory**: a mirror is reserved like any item, but counts as free: whatever the cache would keep, and whatever
//! queries need, takes the place of mirrors before anything else goes, that of the one that was read longest ago first.
//! **Concurrency**: these locks are taken last, under whichever others, and mirrors are dropped under none of them.
//!
//! **Paper**: Ramamurthy, DeWitt and Su, A Case for Fractured Mirrors (VLDB 2002), where both copies are kept for good.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_placement::operator_cache::layout::Forms;
use thermocline_placement::operator_cache::layout::planned_query::PlannedQuery;

use crate::cache::OperatorCache;
use crate::cut::{Cut, View};
use crate::decisions::DecisionKind;
use crate::item::{Item, ItemId};

/// The item as it was before it was converted.
#[derive(Debug)]
struct Mirror {
    former: Arc<Item>,
    /// What it is the mirror of.
    of: ItemId,
}

impl Mirror {
    /// Whether nobody reads it: it is found by its slot alone, which must be locked to ask.
    fn is_unread(&self) -> bool {
        Arc::strong_count(&self.former) == 1
    }
}

/// What an item's mirror is kept in.
#[derive(Debug, Default)]
pub(crate) struct MirrorSlot {
    mirror: Mutex<Option<Mirror>>,
    read_tick: AtomicU64,
}

impl MirrorSlot {
    /// The item's mirror, if it has one.
    pub(crate) fn get(&self) -> Option<Arc<Item>> {
        self.mirror.lock().as_ref().map(|mirror| Arc::clone(&mirror.former))
    }

    /// Bytes that would be free without it: none while somebody reads it.
    fn free_bytes(&self) -> u64 {
        let mirror = self.mirror.lock();
        mirror.as_ref().filter(|mirror| mirror.is_unread()).map_or(0, |mirror| mirror.former.own_bytes())
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

    fn held(&self) -> Vec<Arc<MirrorSlot>> {
        self.slots.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Bytes of all that nobody reads.
    fn free_bytes(&self) -> u64 {
        self.held().iter().map(|slot| slot.free_bytes()).sum()
    }

    /// Takes out enough for so many bytes, or all; who drops them gives them back.
    fn take(&self, bytes: u64) -> (Vec<Mirror>, u64) {
        let mut held = self.held();
        held.sort_by_key(|slot| slot.read_tick.load(Ordering::Relaxed));
        let (mut taken, mut freed_bytes) = (Vec::new(), 0);
        for slot in held {
            if freed_bytes >= bytes {
                break;
            }
            if let Some(mirror) = slot.mirror.lock().take_if(|mirror| mirror.is_unread()) {
                freed_bytes += mirror.former.own_bytes();
                taken.push(mirror);
            }
        }
        (taken, freed_bytes)
    }
}

impl OperatorCache {
    /// Makes an item's former self its mirror, which has the same rows and columns in another layout.
    pub(crate) fn mirror(&self, item: &Item, former: Arc<Item>) {
        // That has none itself.
        let dropped = former.mirror.mirror.lock().take();
        drop(dropped);
        item.mirror.read_tick.store(self.tick(), Ordering::Relaxed);
        *item.mirror.mirror.lock() = Some(Mirror { former, of: item.id });
        self.mirrors().add(&item.mirror);
    }

    /// The item, or its mirror where the query had better read that: they have the same rows, and the cut fits both.
    /// [`finish_reading`](Self::finish_reading) is told of the item and the layout that was read.
    pub fn form_for(&self, item: &Arc<Item>, cut: &Cut) -> Arc<Item> {
        let Some(mirror) = item.mirror.get() else { return Arc::clone(item) };
        let (record_columns, element_columns) = cut.column_counts();
        let query = PlannedQuery {
            reads_elements: cut.view() == View::Elements && item.source.unnest.is_some(),
            record_columns,
            element_columns,
            as_kept: cut.leaves_as_kept(),
        };
        let columns = cut.columns_read(&item.widths_bytes, item.source.unnest.as_ref());
        let forms = Forms { own: item.layout, mirror: Some(mirror.layout) };
        let layout = item.layouts.lock().choose(self.layout_rule(), &item.shape, forms, &query, &columns);
        if layout != mirror.layout {
            return Arc::clone(item);
        }
        item.mirror.read_tick.store(self.tick(), Ordering::Relaxed);
        mirror
    }

    /// What could be reserved without evicting anything but mirrors.
    pub fn room_bytes(&self) -> u64 {
        self.budget().cache_room_bytes().saturating_add(self.mirrors().free_bytes())
    }

    /// Bytes of mirrors that nobody reads.
    pub(crate) fn mirrors_bytes(&self) -> u64 {
        self.mirrors().free_bytes()
    }

    /// Memory without evicting anything but mirrors.
    pub(crate) fn reserve_if_free(&self, size_bytes: u64) -> Option<Reservation> {
        loop {
            if let Ok(reservation) = self.account().try_reserve(size_bytes) {
                return Some(reservation);
            }
            let missing_bytes = size_bytes.saturating_sub(self.budget().cache_room_bytes());
            let is_enough = missing_bytes <= self.mirrors_bytes();
            if !is_enough || self.drop_mirrors(missing_bytes, "the cache needs the memory") == 0 {
                return None;
            }
        }
    }

    /// Gives back so much of what mirrors take, or all of it; returns how much.
    pub(crate) fn drop_mirrors(&self, bytes: u64, reason: &'static str) -> u64 {
        let (taken, freed_bytes) = self.mirrors().take(bytes.max(1));
        for Mirror { former, of } in &taken {
            let numbers = vec![("size_bytes", former.size_bytes as f64)];
            self.record(DecisionKind::DropMirror, Some(*of), &former.source.path, &former.predicate, numbers, reason);
        }
        freed_bytes
    }
}
