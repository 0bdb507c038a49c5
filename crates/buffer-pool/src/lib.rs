//! The buffer pool: pages of anything in memory, read ahead, pinned while they are used, kept while they are worth it.
//!
//! **Owns**: frames by page id ([`RegisteredSource`]); reads of pages ahead of a consumer ([`PageReader`]); pins
//! ([`PinnedPage`]); the memory of all that, as the budget gives it ([`BufferPool`]). **Does not own**: where pages lie
//! and whether they are what they should be ([`PageSource`]), bytes on their way (`medium`), which pages are worth
//! their memory (`placement::page_cache`). It never looks into a page.
//!
//! **Invariants**
//! - A page that is asked for by many is read once, and checked once, by one of those who ask.
//! - A pinned page neither moves nor changes. What nobody has pinned may go at any moment.
//! - Memory is reserved before it is used, as a cache's. A page that no room can be made for comes into memory of the
//!   query that asks, so that reading fails for lack of memory only where a query gets none.
//! - A page that cannot be read or is damaged is an error for all who wait for it, is not kept, and is read again when
//!   it is next asked for.
//!
//! **Concurrency**: everything may be used from any thread. There is one lock for look-ups and decisions; none is held
//! during reads and checks. Pins are counted without it.
//!
//! **Paper**: HPCache (DaMoN 2022), §4.3. Deviations: pages are of any size rather than of 2 MiB, and accounted in
//! bytes; the pool takes memory chunk by chunk and gives it back to queries; quotas and free list are a policy's among
//! others.
//!
//! ```
//! use std::error::Error;
//! use std::sync::Arc;
//!
//! use thermocline_budget::Budget;
//! use thermocline_buffer_pool::{BufferPool, PagePlace, PageSource, PoolOptions, ReadOptions};
//! use thermocline_hardware::SystemClock;
//! use thermocline_medium::{Medium, MediumFile, MemoryMedium};
//! use thermocline_placement::page_cache::{ListKey, PagePolicyName};
//!
//! struct Column { medium: Arc<dyn Medium>, file: MediumFile, list: ListKey }
//!
//! impl PageSource for Column {
//!     fn medium(&self) -> &Arc<dyn Medium> {
//!         &self.medium
//!     }
//!     fn place(&self, page: u32) -> PagePlace {
//!         let offset_bytes = u64::from(page) * 8192;
//!         let (file, list) = (self.file.clone(), self.list);
//!         PagePlace { file, offset_bytes, read_bytes: 8192, size_bytes: 5000, list, rows: page }
//!     }
//!     fn check(&self, page: u32, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
//!         if bytes[0] == page as u8 { Ok(()) } else { Err(format!("begins with {}, not {page}", bytes[0]).into()) }
//!     }
//!     fn describe(&self, page: u32) -> String {
//!         format!("page {page} of the column")
//!     }
//! }
//!
//! let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
//! let file = medium.create("column")?;
//! for page in 0..10_u8 {
//!     medium.append(&file, &[page; 8192])?;
//! }
//! let budget = Budget::new(64 << 20, None);
//! let policy = PagePolicyName::default().build();
//! let pool = BufferPool::new(PoolOptions::default(), &budget, policy, Arc::new(SystemClock::new()))?;
//! let column = pool.register(Arc::new(Column { medium, file, list: pool.new_list() }));
//! let mut reader = column.reader([3, 4, 9], ReadOptions::default());
//! while let Some(page) = reader.wait_next() {
//!     assert_eq!(page?.len(), 5000);
//! }
//! let again = column.reader([4], ReadOptions::default()).wait_next().transpose()?;
//! assert!(again.is_some_and(|page| page.was_hit()));
//! # Ok::<(), Box<dyn Error>>(())
//! ```

mod arena;
mod asking;
mod device_meter;
mod error;
mod frame;
mod frame_table;
mod free_extents;
mod memory_needs;
mod parking;
mod pinned_page;
mod pool;
mod read_run;
mod reader;
mod residents;
mod rest;
mod running_pipeline;
mod snapshot;
mod source;
mod tuner;

pub use arena::mapped_bytes;
pub use error::PoolError;
pub use memory_needs::MemoryNeed;
pub use pinned_page::PinnedPage;
pub use pool::{BufferPool, PoolOptions};
pub use reader::{PageReader, ReadOptions};
pub use running_pipeline::{PipelineReport, PipelineStart, RunningPipeline, Watcher, Work};
pub use snapshot::{ListSnapshot, PoolSnapshot};
pub use source::{PagePlace, PageSource, RegisteredSource};
pub use tuner::{Decision, Tuner};

/// The result of every fallible call of this crate.
pub type Result<T, E = PoolError> = std::result::Result<T, E>;

#[cfg(test)]
mod tests;
