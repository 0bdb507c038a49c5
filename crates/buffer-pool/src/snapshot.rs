//! What the pool holds, for system tables and tests.

use thermocline_placement::page_cache::ListKey;

/// The pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// One for each list that there ever was, in order.
    pub lists: Vec<ListSnapshot>,
    /// Pages in memory, of all lists.
    pub page_count: u64,
    /// Memory behind the pool's addresses, in use or not.
    pub mapped_bytes: u64,
    /// What is reserved for that and for the pool's notes.
    pub reserved_bytes: u64,
}

/// What the pool has of one list, and what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListSnapshot {
    /// Which list.
    pub list: ListKey,
    /// Pages kept in memory, those on the policy's free list and those that are being read included.
    pub page_count: u64,
    /// Memory that they take.
    pub held_bytes: u64,
    /// What the list may keep; 0 for policies without quotas.
    pub quota_bytes: u64,
    /// Memory of pages that go before any other of the pool, and are hits until then.
    pub free_list_bytes: u64,
    /// How often a page was asked for that was in memory or on its way.
    pub hit_count: u64,
    /// How often one was asked for that was not.
    pub miss_count: u64,
    /// Read from the medium.
    pub read_bytes: u64,
}

impl ListSnapshot {
    pub(crate) fn new(list: ListKey) -> Self {
        Self {
            list,
            page_count: 0,
            held_bytes: 0,
            quota_bytes: 0,
            free_list_bytes: 0,
            hit_count: 0,
            miss_count: 0,
            read_bytes: 0,
        }
    }
}
