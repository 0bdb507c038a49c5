//! `COPY … TO 'x.ndjson'` and `'x.jsonl'`: DataFusion writes such files, but knows them as `.json` alone.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result};
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};

/// DataFusion's JSON under another suffix.
#[derive(Debug)]
pub(super) struct NdjsonOutput {
    suffix: &'static str,
    inner: JsonFormatFactory,
}

impl NdjsonOutput {
    /// One for each suffix.
    pub(super) fn all() -> impl Iterator<Item = Arc<dyn FileFormatFactory>> {
        ["ndjson", "jsonl"].into_iter().map(|suffix| Arc::new(Self { suffix, inner: JsonFormatFactory::new() }) as _)
    }
}

impl GetExt for NdjsonOutput {
    fn get_ext(&self) -> String {
        self.suffix.to_string()
    }
}

impl FileFormatFactory for NdjsonOutput {
    fn create(&self, session: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        self.inner.create(session, options)
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        FileFormatFactory::default(&self.inner)
    }
}
