//! The page used least often goes first, with ageing: a page that comes starts above the one that went last.
//!
//! Without ageing, pages that were asked for often stay for ever after the last query that wants them. A page's
//! priority is its uses plus the *floor*, the highest priority that any victim had, as it stood at the page's last use;
//! so pages that are no longer asked for fall behind as others come. Of equal priorities the least recently used goes
//! first.
//!
//! Papers: LFU with dynamic ageing, Arlitt, Cherkasova, Dilley, Friedrich and Jin, "Evaluating content management
//! techniques for Web proxy caches", 1999 (without sizes: a page's cost is in proportion to its size). Pure; O(log n).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::page_table::{PageTable, Slot};
use super::{HeldBytes, ListKey, PageKey, PagePolicy};

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    count: u64,
    /// `count` plus the floor at the last use.
    priority: u64,
    /// Number of the last use among all uses of all pages.
    last: u64,
}

/// Gives up the least frequently used page, recent uses counting more.
#[derive(Debug, Default)]
pub struct Lfu {
    pages: PageTable<Uses>,
    /// Priority, last use, page.
    order: BTreeSet<(u64, u64, PageKey)>,
    floor: u64,
    now: u64,
}

impl Lfu {
    fn count_use(&mut self, slot: Slot) {
        self.now += 1;
        let key = self.pages.key(slot);
        let before = self.pages.value(slot);
        self.order.remove(&(before.priority, before.last, key));
        let count = before.count + 1;
        let uses = Uses { count, priority: self.floor + count, last: self.now };
        self.order.insert((uses.priority, uses.last, key));
        self.pages.set_value(slot, uses);
    }
}

impl PagePolicy for Lfu {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        let slot = self.pages.find(page);
        let slot = slot.unwrap_or_else(|| self.pages.insert(page, list, size_bytes, Uses::default()));
        self.count_use(slot);
    }

    fn touch(&mut self, page: PageKey) {
        if let Some(slot) = self.pages.find(page) {
            self.count_use(slot);
        }
    }

    fn remove(&mut self, page: PageKey) {
        if let Some(slot) = self.pages.find(page) {
            let uses = self.pages.value(slot);
            self.order.remove(&(uses.priority, uses.last, page));
            self.pages.remove(slot);
        }
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        let &(priority, _, page) = self.order.iter().find(|(_, _, page)| can_go(*page))?;
        self.floor = self.floor.max(priority);
        Some(page)
    }

    /// To look raises no floor.
    fn show_next(&mut self, look: &mut dyn FnMut(PageKey) -> bool) {
        self.order.iter().find(|(_, _, page)| look(*page));
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        self.pages.all_kept()
    }
}
