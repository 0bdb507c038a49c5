//! What belongs to one query: the versions of the files and tables it sees, its progress, and whether it may use the
//! caches.
//!
//! A [`QueryContext`] travels in the session configuration of the query (as an extension), because that is what every
//! scan of the query can reach, at planning (`TableProvider::scan`) as well as at execution. It is made by
//! [`crate::planner::CachingQueryPlanner`] once per physical plan.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;
use thermocline_buffer_pool::Watcher;
use xxhash_rust::xxh3::xxh3_64;

use crate::raw_table::listing::QueryFile;
use crate::read_tables::ReadTables;

/// How far a statement has come, for progress bars. Bytes are those of raw files that have to be parsed, and of the
/// pages of column tables and Parquet files, wherever they are.
#[derive(Debug, Default)]
pub struct Progress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Progress {
    /// Bytes read and parsed, or worked on, so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes known to be needed; grows while scans start.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_done(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_total(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Watcher for Progress {
    fn begun(&self, bytes: u64) {
        self.add_total(bytes);
    }

    fn done(&self, bytes: u64) {
        self.add_done(bytes);
    }
}

/// The files one query has opened, by canonical path or URL, the listings it has made, and what it reads of tables.
#[derive(Debug, Default)]
pub struct QueryContext {
    files: Mutex<HashMap<Arc<str>, Arc<QueryFile>>>,
    listings: tokio::sync::Mutex<HashMap<String, Arc<[Arc<QueryFile>]>>>,
    read: ReadTables,
    progress: Arc<Progress>,
    plan_signature: OnceLock<u64>,
}

impl QueryContext {
    /// A context whose progress is visible to the caller.
    pub fn with_progress(progress: Arc<Progress>) -> Self {
        Self { progress, ..Self::default() }
    }

    /// How far the query has come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// What it reads of the database's own tables.
    pub(crate) fn read(&self) -> &ReadTables {
        &self.read
    }

    /// Notes which plan the query has.
    pub(crate) fn note_plan(&self, plan: &LogicalPlan) {
        self.plan_signature.get_or_init(|| signature(&plan.display_indent().to_string()));
    }

    /// The same for queries of the same plan, whatever the constants in it; 0 before it is known.
    pub(crate) fn plan_signature(&self) -> u64 {
        self.plan_signature.get().copied().unwrap_or_default()
    }

    /// The query's view of the file `path`: the first caller opens it, later ones see the same version.
    pub(crate) fn file(
        &self,
        path: &Arc<str>,
        open: impl FnOnce() -> Result<Arc<QueryFile>>,
    ) -> Result<Arc<QueryFile>> {
        let mut files = self.files.lock();
        if let Some(file) = files.get(path) {
            return Ok(Arc::clone(file));
        }
        let file = open()?;
        files.insert(Arc::clone(path), Arc::clone(&file));
        Ok(file)
    }

    /// The query's listing of `location`: made once, so that a folder named twice has the same files twice.
    pub(crate) async fn listing<F>(&self, location: &str, list: impl FnOnce() -> F) -> Result<Arc<[Arc<QueryFile>]>>
    where
        F: Future<Output = Result<Arc<[Arc<QueryFile>]>>>,
    {
        let mut listings = self.listings.lock().await;
        if let Some(files) = listings.get(location) {
            return Ok(Arc::clone(files));
        }
        let files = list().await?;
        listings.insert(location.to_string(), Arc::clone(&files));
        Ok(files)
    }
}

/// Of a plan as text, in which constants are digits or stand between double quotes. Names that differ in digits alone
/// are taken to be the same, which does no harm: who uses the signature knows the table and its columns.
pub(crate) fn signature(plan: &str) -> u64 {
    let outside = plan.split('"').step_by(2);
    let text: String = outside.flat_map(str::chars).filter(|letter| !letter.is_ascii_digit()).collect();
    xxh3_64(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn plans_are_alike_that_differ_in_constants_alone() {
        let plan = |filter: &str| signature(&format!("Filter: {filter}\n  TableScan: t"));
        assert_eq!(plan("t.a = Int64(1)"), plan("t.a = Int64(250)"));
        assert_eq!(plan("t.s = Utf8(\"ASIA\")"), plan("t.s = Utf8(\"EUROPE 2\")"));
        assert_ne!(plan("t.a = Int64(1)"), plan("t.a > Int64(1)"));
        assert_ne!(plan("t.a = Int64(1)"), plan("t.b = Int64(1)"));
    }
}
