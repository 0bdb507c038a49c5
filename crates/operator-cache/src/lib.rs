//! The operator cache: results of select operators over single raw files, in memory, for later and other queries.
//!
//! **Owns**: items (the kept rows of one select over one file, or where their records lie; positional maps of files),
//! the layouts they have and the index that finds them; the shared scan that computes a miss once for all who want it;
//! the record of each file's version and content that tells whether an item still holds; the decisions taken, with
//! their numbers. **Does not own**: parsing (a [`MorselSource`] does it), the models and policies (`placement`, pure
//! functions), the memory (`budget`), plans and expressions (the engine translates those it can into a
//! [`Conjunction`](thermocline_predicate::Conjunction)).
//!
//! A query pins each file once ([`OperatorCache::pin`]), asks ([`OperatorCache::begin`]) and either reads an item,
//! takes part in a scan, or reads several items that answer it together, with a scan of what they lack. A folder is as
//! many files.
//!
//! **Invariants**
//! - An item of generation `g` that ends at byte `e` holds exactly the rows that satisfy its predicate among the first
//!   `e` bytes of the file (a lazy one the positions of their records), for every query that pinned generation `g` and
//!   sees `e` bytes. Others never get it.
//! - Every participant of a scan receives every row exactly once, whoever else joins, leaves, fails or stops reading.
//! - What is kept is reserved first. A reservation lives as long as the bytes: an evicted item that is still being
//!   read counts as the cache's until its last reader is done.
//! - Nothing waits for another query's consumer, and nothing blocks but short locks, a content check in `pin`, and
//!   whatever the source itself does.
//!
//! **Concurrency**: everything is shared between threads. Locks are taken in this order: catalog, scan, file record,
//! mirrors; none of them is held while rows are decoded, memory is reserved by evicting, large buffers are freed (but
//! mirrors, for what is reserved under one) or streams are woken.
//!
//! **Paper**: ReCache (PVLDB 2017), §3.2 (building and matching), §3.3 (subsumption), §4 (layouts), §5 (eviction,
//! admission). Deviations: the materialiser is the scan itself, so that several queries can fill one item; a scan that
//! outgrows its memory goes on without keeping; items grow with their files; matching goes beyond ranges of numbers.

mod admission;
mod ahead;
mod begin;
mod cache;
mod candidates;
mod catalog;
mod combination;
mod conversion;
mod cut;
mod decisions;
mod demand;
mod error;
mod file_record;
mod heads;
mod item;
mod item_columns;
mod kept_columns;
mod layout;
mod lazy;
mod listing;
mod map_history;
mod map_store;
mod maps;
mod matching;
mod mirrors;
mod planning;
mod recording;
mod request;
mod rows;
mod scan;
mod siblings;
mod source;
#[cfg(test)]
mod tests;
mod top_up;
mod value_bytes;

pub use begin::{MatchKind, Start};
pub use cache::{CacheOptions, OperatorCache};
pub use combination::{CombinedPart, PartSummary};
pub use conversion::Conversion;
pub use cut::{Cut, CutPieces, CutRows, View};
pub use decisions::{Decision, DecisionKind, NotedPredicate};
pub use error::{CacheError, SourceError};
pub use file_record::{AppendPolicy, OpenedFile, PinnedSource};
pub use item::{Item, ItemId, ItemSummary, Piece};
pub use layout::{ReadTimes, Reading};
pub use listing::Explanation;
pub use map_store::MapStore;
pub use recording::Recorder;
pub use request::{ColumnSpec, Expectation, SelectRequest};
pub use rows::{ColumnRoute, Elements, Rows, element_columns};
pub use scan::{Awaited, Delivered, DeliveredCut, Participant, RowStream};
pub use source::{Fetch, Head, Morsel, MorselSource, ScanSpec, SourceEnd, SourceFactory, SourceKey};
pub use thermocline_placement::operator_cache::SourceKind;
pub use thermocline_placement::operator_cache::admission_rule::{AdmissionMode, AdmissionRule};
