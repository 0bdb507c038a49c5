//! Nothing stays beyond its pins: caching is left to the operating system's page cache.
//!
//! Reading through that cache instead of past it is the medium's matter. Paper: a baseline of HPCache §6 (pools that
//! lean on the kernel). Pure; O(1).

#[cfg(test)]
mod tests;

use super::lru::Lru;
use super::{HeldBytes, ListKey, PageKey, PagePolicy};

/// Gives up every page that has no pin.
#[derive(Debug, Default)]
pub struct Os {
    pages: Lru,
}

impl PagePolicy for Os {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, rows: u32) {
        self.pages.admit(page, list, size_bytes, rows);
    }

    fn touch(&mut self, page: PageKey) {
        self.pages.touch(page);
    }

    fn remove(&mut self, page: PageKey) {
        self.pages.remove(page);
    }

    fn victim(&mut self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.pages.victim(incoming, can_go)
    }

    fn set_quotas(&mut self, _quotas: &[(ListKey, u64)]) {}

    fn held(&self) -> Vec<HeldBytes> {
        self.pages.held()
    }

    fn keeps_unpinned(&self) -> bool {
        false
    }
}
