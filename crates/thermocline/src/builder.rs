//! How a program opens Thermocline.

use std::path::PathBuf;

use thermocline_budget::parse_bytes;
use thermocline_engine::{Database, DatabaseOptions, Error, Eviction, Result, Session};
use thermocline_hardware::Machine;

/// Opens a database and its first session. Every setting has a default; only the memory budget is worth thinking about.
#[derive(Debug, Default)]
pub struct SessionBuilder {
    options: DatabaseOptions,
}

impl SessionBuilder {
    /// A builder with defaults: half of the memory this process may use, one partition per core.
    pub fn new() -> Self {
        Self::default()
    }

    /// The folder where the database keeps what outlives the process: made if its parent is there, and open in one
    /// process at a time, unless all open it [`read_only`](Self::read_only). Without one nothing is kept on disk.
    #[must_use]
    pub fn database(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.folder = Some(folder.into());
        self
    }

    /// Opens the folder to read it alone, beside any number of others who do: it must be there, and nothing in it is
    /// changed.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Memory for caches and queries together: `"4GB"`, `"512MiB"`, `"25%"` of RAM, or of the control group's
    /// limit where that is smaller.
    ///
    /// # Errors
    /// When the text is no size.
    pub fn memory(mut self, size: &str) -> Result<Self> {
        self.options.memory_bytes = Some(parse(size)?);
        Ok(self)
    }

    /// A cap on the caches alone.
    ///
    /// # Errors
    /// When the text is no size.
    pub fn cache_memory(mut self, size: &str) -> Result<Self> {
        self.options.cache_memory_bytes = Some(parse(size)?);
        Ok(self)
    }

    /// Partitions a query runs in.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = Some(threads);
        self
    }

    /// Where operators that run out of memory spill to.
    #[must_use]
    pub fn temp_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.temp_directory = Some(directory.into());
        self
    }

    /// Which cached items make room for others; ReCache's policy unless told.
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.options.eviction = eviction;
        self
    }

    /// The figure of a [`CountingAllocator`](crate::memory::CountingAllocator), so that the budget knows of memory that
    /// no operator announces.
    #[must_use]
    pub fn allocated_bytes(mut self, probe: fn() -> u64) -> Self {
        self.options.allocated_bytes = Some(probe);
        self
    }

    /// A function that is told (`true`) when more than half of the budget is in use, and (`false`) when that is over:
    /// above a half, the process's allocator should give freed memory back to the system at once rather than keep it.
    #[must_use]
    pub fn on_scarcity(mut self, hook: fn(bool)) -> Self {
        self.options.on_scarcity = Some(hook);
        self
    }

    /// Opens the database and a session; further sessions come from [`Database::session`].
    ///
    /// # Errors
    /// When the temporary folder cannot be used; when the database's folder holds something else, is open already, or
    /// cannot be written; to be read alone, when there is none, or another process has it open that may change it.
    pub fn build(self) -> Result<Session> {
        Ok(Database::open(self.options)?.session())
    }
}

fn parse(size: &str) -> Result<u64> {
    parse_bytes(size, Machine::detect().usable_memory_bytes()).map_err(|error| Error::input(error.to_string()))
}
