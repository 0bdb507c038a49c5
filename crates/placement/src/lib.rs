//! Models and policies of all caches: measurements in, predicted seconds and placements out.
//!
//! **Owns**: what is worth keeping, what goes when room is needed, how one budget is divided; and decisions of the same
//! kind elsewhere: how a page is encoded, which segments are merged, how a pipeline groups, when
//! operators spill. **Does not own** any cached
//! byte, measurement or movement: the crates that hold caches measure, ask here, and carry the answer out.
//!
//! **Invariants**: every function is pure. There is no clock, no thread, no I/O and no randomness here, and nothing
//! is depended on but numbers and a solver of linear programmes, so that any decision can be repeated from its recorded
//! inputs and any policy replayed against a recorded trace. Ties are broken by recency, then by id: the order of the
//! inputs never matters.
//!
//! **Concurrency**: state goes in and comes out by value; callers decide under which lock.
//!
//! **Units**: sizes in bytes (`u64`), measured times in nanoseconds (`u64`), worths in seconds (`f64`), predicted times
//! in nanoseconds where they are compared with measured ones, and else in seconds (`f64`).

pub mod broker;
pub mod column_encoding;
pub mod fusion;
pub mod operator_cache;
pub mod page_cache;
pub mod segment_merging;
pub mod spilling;
