//! Inferred schemas by file version and options, so that naming a table is cheap.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thermocline_medium::FileVersion;
use thermocline_raw::csv::CsvFormat;

use crate::parquet_table::ParquetFacts;

/// What was inferred from one file's head.
#[derive(Debug, Clone)]
pub(crate) struct Inferred {
    pub(crate) schema: SchemaRef,
    /// For CSV: the dialect and the names of the file's columns by position.
    pub(crate) csv: Option<Arc<CsvFormat>>,
    /// About the bytes of one record.
    pub(crate) record_bytes: u64,
    /// For Parquet: what its footers tell.
    pub(crate) facts: Option<Arc<ParquetFacts>>,
}

/// Entries kept: a schema is some kilobytes, so the whole stays in the low megabytes.
const CAPACITY: usize = 1024;

/// A bounded map from `(version, options)` to what was inferred.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache {
    entries: Mutex<HashMap<(FileVersion, String), Inferred>>,
}

impl SchemaCache {
    /// What was inferred from this version under these options.
    pub(crate) fn get(&self, version: &FileVersion, options: &str) -> Option<Inferred> {
        self.entries.lock().get(&(version.clone(), options.to_string())).cloned()
    }

    /// Remembers. The caller must not offer what was read from a young version.
    pub(crate) fn put(&self, version: &FileVersion, options: &str, inferred: Inferred) {
        let mut entries = self.entries.lock();
        if entries.len() >= CAPACITY {
            // Which entries are still wanted is not worth tracking: inferring again costs milliseconds.
            entries.clear();
        }
        entries.insert((version.clone(), options.to_string()), inferred);
    }
}
