//! What can go wrong on the way of a page into memory.

use std::error::Error;
use std::io;
use std::sync::Arc;

use thermocline_budget::BudgetError;
use thermocline_medium::MediumError;

/// An error of the buffer pool. Cheap to clone: everyone who waits for one page gets the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The page cannot be read.
    #[error("{page} (bytes {offset_bytes} to {} of {file}): {source}", .offset_bytes + u64::from(*.read_bytes))]
    Read {
        /// What the source calls the page.
        page: String,
        /// The file that it lies in.
        file: String,
        /// Where it begins there.
        offset_bytes: u64,
        /// How much was to be read.
        read_bytes: u32,
        /// What the medium said.
        source: Arc<MediumError>,
    },
    /// The page was read and is not what it should be.
    #[error("{page} ({size_bytes} bytes at byte {offset_bytes} of {file}) is damaged: {source}")]
    Damaged {
        /// What the source calls the page.
        page: String,
        /// The file that it lies in.
        file: String,
        /// Where it begins there.
        offset_bytes: u64,
        /// How long it is.
        size_bytes: u32,
        /// What the source's check said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// A read was given up by the medium.
    #[error("{page}: the medium dropped the read; it is being shut down")]
    Dropped {
        /// What the source calls the page.
        page: String,
    },
    /// There is no room in the cache, and none for a query.
    #[error("no memory to read {page}: {source}")]
    Memory {
        /// What the source calls the page.
        page: String,
        /// What the budget said.
        source: BudgetError,
    },
    /// The system has no addresses for the pool's memory.
    #[error("cannot set aside {address_bytes} bytes of addresses for the buffer pool (see ulimit -v): {source}")]
    Addresses {
        /// The least that was tried.
        address_bytes: u64,
        /// What the system said.
        source: Arc<io::Error>,
    },
}
