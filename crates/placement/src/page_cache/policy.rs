//! What the buffer pool tells and asks a policy.

use std::fmt::Debug;

/// One page of one source: a segment file of a table, an index, a Parquet file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PageKey {
    /// The source, as the pool numbers them. Numbers are not used again for other contents.
    pub source: u32,
    /// The page within the source.
    pub page: u32,
}

/// The pages of one column, whichever sources they lie in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ListKey(pub u32);

/// What memory holds of one list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldBytes {
    /// The list.
    pub list: ListKey,
    /// What [`PagePolicy::set_quotas`] grants it; zero for policies without quotas.
    pub quota_bytes: u64,
    /// Bytes of its pages within its quota; for policies without quotas, all of them.
    pub kept_bytes: u64,
    /// Bytes of its pages that go before any kept one, and serve hits until then.
    pub free_list_bytes: u64,
}

/// Says which pages go when room is needed. Told of every page that comes, is used, and goes.
pub trait PagePolicy: Send + Debug {
    /// The page is being read into memory, on behalf of a scan of its list. One that is there already counts as
    /// touched. `rows` is the number of the part of its source's rows that it belongs to: scans read the pages of all
    /// their columns with the same number together.
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, rows: u32);

    /// The page was there when it was asked for. Pages that are not there are ignored.
    fn touch(&mut self, page: PageKey);

    /// The page is gone, for whatever reason, its being named by [`Self::victim`] among them.
    fn remove(&mut self, page: PageKey);

    /// The page to give up next, for a page of the list `incoming`, or for memory alone. Asked again until enough is
    /// free; what it names stays until [`Self::remove`] is called for it. `can_go` is false for pinned pages; `None` if
    /// no page can go. Cost: that of one call, and `can_go` once for each pinned page that is passed over.
    fn victim(&mut self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey>;

    /// Shows the pages that could go next for others in their place, in about that order, until `look` says that it has
    /// seen enough: for who chooses among them those that leave memory of the size that is wanted. Policies with quotas
    /// leave out what these keep.
    fn show_next(&mut self, look: &mut dyn FnMut(PageKey) -> bool) {
        self.victim(None, look);
    }

    /// Bytes that each list may keep, instead of all earlier ones; lists that are not named get none. Policies without
    /// quotas ignore it.
    fn set_quotas(&mut self, quotas: &[(ListKey, u64)]);

    /// What quotas can claim of a pool of so many bytes: less than all, if pages that pass need room too.
    fn keepable_bytes(&self, capacity_bytes: u64) -> u64 {
        capacity_bytes
    }

    /// What is held of each list that has pages or a quota, in the order of their keys.
    fn held(&self) -> Vec<HeldBytes>;

    /// Whether pages without pins stay while there is room. If not, the pool gives each up when its last pin goes.
    fn keeps_unpinned(&self) -> bool {
        true
    }
}
