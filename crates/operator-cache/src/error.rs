//! What can go wrong when a select is answered through the cache.

use std::sync::Arc;

/// Why a [`MorselSource`](crate::MorselSource) could not deliver; it names file, offset and value itself.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Errors of the operator cache. Cloneable, because one scan's error reaches every query that takes part in it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The raw file could not be read or parsed; the source's own error is in the chain and in the message.
    #[error("{0}")]
    Source(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// A file's content could not be checked against the hashes of an earlier scan.
    #[error("cannot check the content of '{path}' against its earlier scan: {source}")]
    ContentCheck {
        /// Path or URL of the file.
        path: Arc<str>,
        /// The read error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// A source broke its contract; a defect, not a user's mistake.
    #[error("scan of '{path}' broke its contract: {what}")]
    Contract {
        /// Path or URL of the file.
        path: Arc<str>,
        /// What was seen and what was expected.
        what: String,
    },
    /// Arrow refused to merge or slice results.
    #[error("cannot merge results of '{path}': {source}")]
    Merge {
        /// Path or URL of the file.
        path: Arc<str>,
        /// Arrow's error.
        source: Arc<arrow::error::ArrowError>,
    },
}

impl CacheError {
    pub(crate) fn source(error: SourceError) -> Self {
        Self::Source(Arc::from(error))
    }
}
