//! What one process shares: the budget, the caches, the clock, the schemas seen. Sessions are light and come from here.
//!
//! A child process made by `fork` has copies of the parent's locks in whatever state they were; using them could hang
//! or count memory twice, so every entry point checks the process id and refuses.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use thermocline_budget::Budget;
use thermocline_column_store::EntryName;
use thermocline_hardware::{Clock, Machine, SystemClock, first_touch};
pub use thermocline_medium::StoreOptions;
use thermocline_medium::{Medium, OpenStores};
use thermocline_operator_cache::{CacheOptions, MapStore, OperatorCache, Recorder};
pub use thermocline_placement::operator_cache::PolicyName as Eviction;
use thermocline_placement::spilling;

use crate::catalog::SharedTables;
use crate::column_table::ColumnTables;
use crate::error::{Error, ErrorKind, Result};
use crate::folder::Folder;
use crate::idle_work::IdleWork;
use crate::memory_pool::BudgetPool;
use crate::page_pool::PagePool;
use crate::parquet_table::{FooterCache, ParquetPages};
use crate::raw_table::schema_cache::SchemaCache;
use crate::session::Session;
use crate::settings::{SharedSettings, ThermoclineConfig};
use crate::spill_files::SpillFiles;
use crate::trace_file::TraceFile;

/// Partitions that a query is run in at most: each has buffers of its own, and far more than there are processors of any
/// machine only cost memory.
pub const MAX_THREADS: usize = 1024;

/// The catalog and schema that unqualified names live in.
pub(crate) const DEFAULT_CATALOG: &str = "main";
pub(crate) const DEFAULT_SCHEMA: &str = "public";

/// How to open a [`Database`].
#[derive(Debug, Clone, Default)]
pub struct DatabaseOptions {
    /// Where the database keeps what outlives the process; nowhere when absent. Made if its parent is there.
    pub folder: Option<PathBuf>,
    /// Whether the folder is only read, by any number of processes at once: it is there, nothing in it is changed, and
    /// statements that would change it are refused.
    pub read_only: bool,
    /// Memory for caches and queries together; half of the smaller of RAM and the control group's limit when absent.
    pub memory_bytes: Option<u64>,
    /// A cap on the caches alone.
    pub cache_memory_bytes: Option<u64>,
    /// Partitions a query runs in; one per logical core when absent.
    pub threads: Option<usize>,
    /// Where operators that run out of memory spill to; the system's temporary folder when absent.
    pub temp_directory: Option<PathBuf>,
    /// Which items make room for others.
    pub eviction: Eviction,
    /// Figure of a counting allocator, if the process has one: bytes allocated now.
    pub allocated_bytes: Option<fn() -> u64>,
    /// Told when memory becomes scarce and when it no longer is, so that the process's allocator gives back early
    /// ([`Budget::observe_scarcity`]).
    pub on_scarcity: Option<fn(bool)>,
    /// How S3 and HTTP stores that no host registered are reached; as the environment says at each query when absent.
    pub stores: Option<StoreOptions>,
    /// Time; the system's when absent. Tests pass their own.
    pub clock: Option<Arc<dyn Clock>>,
}

/// One engine in one process.
#[derive(Debug)]
pub struct Database {
    process_id: u32,
    machine: Machine,
    clock: Arc<dyn Clock>,
    budget: Budget,
    cache: Arc<OperatorCache>,
    settings: Arc<SharedSettings>,
    schemas: SchemaCache,
    footers: Arc<FooterCache>,
    pages: Arc<PagePool>,
    parquet_pages: Arc<ParquetPages>,
    stores: OpenStores,
    catalogs: Arc<dyn CatalogProviderList>,
    runtime: Arc<RuntimeEnv>,
    threads: usize,
    idle_work: Arc<IdleWork>,
    column_tables: Option<Arc<ColumnTables>>,
    folder: Option<Arc<Folder>>,
}

impl Database {
    /// Opens a database. Where this process has its folder open, it waits for up to two seconds: tasks of a query that
    /// was cancelled may outlive the last session for a moment.
    ///
    /// # Errors
    /// When the temporary folder cannot be used; when the database's folder holds something else, is open already, or
    /// cannot be written; to be read alone, when there is none, or another process has it open that may change it.
    pub fn open(options: DatabaseOptions) -> Result<Arc<Self>> {
        Self::open_on(options, None)
    }

    /// The same with column tables on another medium than their folder, which can be made to fail.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_on(options: DatabaseOptions, tables_medium: Option<Arc<dyn Medium>>) -> Result<Arc<Self>> {
        if let Some(threads) = options.threads.filter(|threads| !(1..=MAX_THREADS).contains(threads)) {
            return Err(Error::input(format!("threads = {threads}: expected a number from 1 to {MAX_THREADS}")));
        }
        let open_folder = if options.read_only { Folder::open_read_only } else { Folder::open };
        let folder = options.folder.as_deref().map(open_folder).transpose()?.map(Arc::new);
        if options.read_only && folder.is_none() {
            return Err(Error::input(
                "a database that is only read needs a folder: say which one, or leave read_only out",
            ));
        }
        let machine = Machine::detect();
        let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let memory_bytes = options.memory_bytes.unwrap_or_else(|| machine.default_memory_budget_bytes());
        let budget = Budget::new(memory_bytes, options.cache_memory_bytes);
        if let Some(probe) = options.allocated_bytes {
            budget.observe_allocated(probe);
        }
        if let Some(hook) = options.on_scarcity {
            budget.observe_scarcity(hook);
        }
        let trace = Arc::new(TraceFile::default());
        let cache_options = CacheOptions {
            policy: options.eviction.policy(),
            recorder: Some(Arc::clone(&trace) as Arc<dyn Recorder>),
            fresh_ns_per_byte: first_touch().map_or(0.0, |touch| touch.least_ns_per_byte()),
            processor_count: machine.logical_cores,
            map_store: folder.clone().map(|folder| folder as Arc<dyn MapStore>),
            ..CacheOptions::default()
        };
        let cache = OperatorCache::new(cache_options, &budget, Arc::clone(&clock));
        let footers = FooterCache::new(&budget, Arc::clone(&clock));
        let pages = PagePool::open(&budget, &clock)?;
        let parquet_pages = ParquetPages::new(&pages, &budget, &clock);
        let column_tables = match &folder {
            Some(folder) => {
                let medium = tables_medium.map_or_else(|| ColumnTables::medium_of(folder), Ok)?;
                Some(Arc::new(ColumnTables::open(folder, medium, &budget, &clock, &pages)?))
            }
            None => None,
        };
        let settings = SharedSettings::new(
            budget.clone(),
            Arc::clone(&cache),
            &machine,
            options.eviction,
            trace,
            Arc::clone(&pages),
            column_tables.clone(),
        );
        let settings = Arc::new(settings);
        // DataFusion's own caches of listings and statistics are checked by size and second, or not at all; ours are
        // checked by file version. A limit of zero turns theirs off.
        let caches = CacheManagerConfig::default()
            .with_list_files_cache_limit(0)
            .with_file_statistics_cache_limit(0)
            .with_metadata_cache_limit(0);
        let spill_files = SpillFiles::new(options.temp_directory.unwrap_or_else(std::env::temp_dir));
        let disk = DiskManagerBuilder::default()
            .with_temp_file_factory(Arc::new(spill_files))
            .with_max_spill_merge_fan_in(spilling::MOST_MERGED_RUNS);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(BudgetPool::new(&budget)))
            .with_cache_manager(caches)
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(DEFAULT_SCHEMA, Arc::<SharedTables>::default())?;
        let stored_schemas = column_tables.iter().flat_map(|tables: &Arc<ColumnTables>| tables.schemas());
        for schema in stored_schemas.filter(|schema| schema != DEFAULT_SCHEMA) {
            catalog.register_schema(&schema, Arc::<SharedTables>::default())?;
        }
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(DEFAULT_CATALOG.to_string(), Arc::new(catalog));
        let threads = options.threads.unwrap_or(machine.logical_cores.clamp(1, MAX_THREADS));
        Ok(Arc::new(Self {
            process_id: std::process::id(),
            machine,
            clock,
            budget,
            cache,
            settings,
            schemas: SchemaCache::default(),
            footers,
            pages,
            parquet_pages,
            stores: OpenStores::new(options.stores),
            catalogs: Arc::new(catalogs),
            runtime,
            threads,
            idle_work: Arc::default(),
            column_tables,
            folder,
        }))
    }

    /// A new session.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(Arc::clone(self))
    }

    /// Where it keeps what outlives the process: a canonical path.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref().map(Folder::path)
    }

    /// Whether its folder is only read.
    pub fn is_read_only(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.is_read_only())
    }

    /// Refuses to make, change or drop what its folder has, or would have, under this name, if that is only read.
    pub(crate) fn check_changeable(&self, name: &EntryName) -> Result<()> {
        match &self.folder {
            Some(folder) if folder.is_read_only() => Err(Error::input(format!(
                "{name} cannot be made, changed or dropped: database '{}' is open read-only",
                folder.path().display()
            ))),
            _ => Ok(()),
        }
    }

    /// The tables in its folder, if it has one.
    pub(crate) fn column_tables(&self) -> Option<&Arc<ColumnTables>> {
        self.column_tables.as_ref()
    }

    /// The machine this runs on.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The time source.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The memory budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The operator cache.
    pub fn cache(&self) -> &Arc<OperatorCache> {
        &self.cache
    }

    /// Settings shared by all sessions.
    pub fn settings(&self) -> &Arc<SharedSettings> {
        &self.settings
    }

    /// Partitions a query runs in.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// What is done while no query runs.
    pub(crate) fn idle_work(&self) -> &Arc<IdleWork> {
        &self.idle_work
    }

    /// Blocks until what is done between queries is done, or for so long; whether nothing is left to do. Queries need
    /// not wait for it.
    pub fn rest(&self, at_most: Duration) -> bool {
        self.idle_work.rest(at_most)
    }

    pub(crate) fn schemas(&self) -> &SchemaCache {
        &self.schemas
    }

    pub(crate) fn footers(&self) -> &Arc<FooterCache> {
        &self.footers
    }

    /// What holds pages of column tables and Parquet files in memory.
    pub(crate) fn pages(&self) -> &Arc<PagePool> {
        &self.pages
    }

    /// The Parquet files whose pages are known there.
    pub(crate) fn parquet_pages(&self) -> &Arc<ParquetPages> {
        &self.parquet_pages
    }

    /// Stores that were opened by their URL.
    pub(crate) fn stores(&self) -> &OpenStores {
        &self.stores
    }

    pub(crate) fn catalogs(&self) -> &Arc<dyn CatalogProviderList> {
        &self.catalogs
    }

    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// The settings of a new session.
    pub fn default_config(&self) -> ThermoclineConfig {
        ThermoclineConfig::new(Arc::clone(&self.settings))
    }

    /// Refuses in a process that was forked from the one that opened the database.
    pub(crate) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process_id {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Input,
            format!(
                "this database was opened by process {} and cannot be used after fork in process {}: open a new one in the child",
                self.process_id,
                std::process::id()
            ),
        ))
    }
}
