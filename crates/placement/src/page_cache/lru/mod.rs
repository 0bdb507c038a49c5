//! The page not used for longest goes first: what buffer pools do unless told otherwise, and the worst there is for
//! scans that come again, since each page goes shortly before it is asked for.
//!
//! Paper: a baseline of HPCache §3. Pure; O(1).

#[cfg(test)]
mod tests;

use super::page_table::{Chain, PageTable};
use super::{HeldBytes, ListKey, PageKey, PagePolicy};

/// Gives up the least recently used page.
#[derive(Debug, Default)]
pub struct Lru {
    pages: PageTable<()>,
    by_last_use: Chain,
}

impl PagePolicy for Lru {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, _rows: u32) {
        if self.pages.find(page).is_some() {
            return self.touch(page);
        }
        let slot = self.pages.insert(page, list, size_bytes, ());
        self.pages.push_newest(&mut self.by_last_use, slot);
    }

    fn touch(&mut self, page: PageKey) {
        if let Some(slot) = self.pages.find(page) {
            self.pages.unlink(&mut self.by_last_use, slot);
            self.pages.push_newest(&mut self.by_last_use, slot);
        }
    }

    fn remove(&mut self, page: PageKey) {
        if let Some(slot) = self.pages.find(page) {
            self.pages.unlink(&mut self.by_last_use, slot);
            self.pages.remove(slot);
        }
    }

    fn victim(&mut self, _incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.pages.oldest_that_can_go(&self.by_last_use, can_go).map(|slot| self.pages.key(slot))
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        self.pages.all_kept()
    }
}
