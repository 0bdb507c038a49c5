//! What belongs to one query: the versions of the files it sees, its progress, and whether it may use the caches.
//!
//! A [`QueryContext`] travels in the session configuration of the query (as an extension), because that is what every
//! scan of the query can reach, at planning (`TableProvider::scan`) as well as at execution. It is made by
//! [`crate::planner::CachingQueryPlanner`] once per physical plan.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use parking_lot::Mutex;

use crate::raw_table::listing::QueryFile;

/// How far a query has come, for progress bars. Bytes are those of raw files that the query has to parse.
#[derive(Debug, Default)]
pub struct Progress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Progress {
    /// Bytes parsed so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes known to need parsing; grows while scans start.
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

/// The files one query has opened, by canonical path or URL, and the listings it has made.
#[derive(Debug, Default)]
pub struct QueryContext {
    files: Mutex<HashMap<Arc<str>, Arc<QueryFile>>>,
    listings: tokio::sync::Mutex<HashMap<String, Arc<[Arc<QueryFile>]>>>,
    progress: Arc<Progress>,
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
