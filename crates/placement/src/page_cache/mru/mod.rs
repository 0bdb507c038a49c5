//! The page used last goes first: the best there is for one scan that comes again and again, and blind to changes,
//! since what no query asks for any more is never given up.
//!
//! Papers: Chou and DeWitt, VLDB 1985, who name it for looping scans: of the pages that no query holds, the most
//! recently used; the baseline of HPCache §5. Pure; O(1) beside pinned pages, which stand at the front of its order.

#[cfg(test)]
mod tests;

use super::page_table::{Chain, PageTable};
use super::{HeldBytes, ListKey, PageKey, PagePolicy};

/// Gives up the most recently used page.
#[derive(Debug, Default)]
pub struct Mru {
    pages: PageTable<()>,
    by_last_use: Chain,
}

impl PagePolicy for Mru {
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
        self.pages.newest_first(&self.by_last_use).map(|slot| self.pages.key(slot)).find(|page| can_go(*page))
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        self.pages.all_kept()
    }
}
