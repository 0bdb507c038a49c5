//! Which pages of which columns stay in memory, between storage and processor.
//!
//! **Owns**: the policies of the buffer pool, one folder each, behind [`PagePolicy`] and chosen by [`PagePolicyName`].
//! **Does not own** pages, pins or reads: the buffer pool does, and asks here.
//!
//! **Invariants**: a policy names only pages that it was told of and that may go; its answers follow from the calls
//! alone, never from the order in which a hash table yields. Pages of sources that are gone are removed by who told of
//! them.
//!
//! **Concurrency**: none here. The pool calls a policy under one short lock, once for each page (not row), so every
//! call is O(1) or O(log n) beside the pinned pages that it has to pass over.
//!
//! Paper: HPCache (DaMoN 2022) §3 and §4; each module lists its deviations.

mod fresh_memory;
pub mod lending;
pub mod lfu;
pub mod lru;
pub mod model;
pub mod mru;
pub mod os;
mod page_table;
mod policy;
mod policy_name;
pub mod programmes;
pub mod proportional;
mod read_ahead;
#[cfg(test)]
mod replay;
pub mod two_queue;
pub mod window;

pub use fresh_memory::FreshMemory;
pub use policy::{HeldBytes, ListKey, PageKey, PagePolicy};
pub use policy_name::{PagePolicyName, UnknownPagePolicy};
pub use read_ahead::read_ahead_bytes;
