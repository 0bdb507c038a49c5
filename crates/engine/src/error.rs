//! What can go wrong, sorted by what the caller should do about it.
//!
//! Everything below the engine reports through `DataFusionError` (it is the error type of the traits we implement),
//! with our own errors kept as its source; [`Error`] adds the [`ErrorKind`] and keeps the chain.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use thermocline_budget::BudgetError;
use thermocline_column_store::{CatalogError, SegmentError};
use thermocline_medium::MediumError;
use thermocline_raw::RawError;

use crate::sql::syntax_error;

/// What the caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The SQL, the file or a setting is wrong: fix it.
    Input,
    /// Something changed underneath, such as a file during its scan: run the query again.
    Retry,
    /// Memory or disk is short: free some, or raise `thermocline.memory`.
    Resources,
    /// The query was cancelled by its user.
    Cancelled,
    /// A fault of Thermocline's own: please report it.
    Internal,
}

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<DataFusionError>>,
}

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with no deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The input is wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error as DataFusion's, for code that runs inside one of its traits.
    pub fn into_datafusion(self) -> DataFusionError {
        match self.source {
            Some(source) => *source,
            None => DataFusionError::External(Box::new(self)),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let root = error.find_root();
        let kind = match root {
            DataFusionError::ResourcesExhausted(_) => ErrorKind::Resources,
            DataFusionError::Internal(_) => ErrorKind::Internal,
            DataFusionError::IoError(io) if io.kind() == std::io::ErrorKind::StorageFull => ErrorKind::Resources,
            DataFusionError::External(source) => {
                if let Some(own) = source.downcast_ref::<Error>() {
                    own.kind
                } else if source.downcast_ref::<BudgetError>().is_some() {
                    ErrorKind::Resources
                } else if is_change(source.as_ref()) {
                    ErrorKind::Retry
                } else if is_full(source.as_ref()) {
                    ErrorKind::Resources
                } else {
                    ErrorKind::Input
                }
            }
            _ => ErrorKind::Input,
        };
        // The root says what happened; DataFusion's prefixes around it ("Execution error: External error: …") do not
        // help.
        let message = match root {
            DataFusionError::External(source) => source.to_string(),
            DataFusionError::SQL(error, detail) => syntax_error::sentence(error, detail.as_deref()),
            other => other.strip_backtrace(),
        };
        Self { kind, message, source: Some(Box::new(error)) }
    }
}

impl From<CatalogError> for Error {
    fn from(error: CatalogError) -> Self {
        DataFusionError::External(Box::new(error)).into()
    }
}

/// Whether a file changed underneath, at whatever depth that was noticed.
fn is_change(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|error| {
        matches!(medium_error(error), Some(MediumError::Changed { .. }))
            || matches!(error.downcast_ref(), Some(RawError::Truncated { .. }))
            || matches!(error.downcast_ref::<Arc<RawError>>().map(AsRef::as_ref), Some(RawError::Truncated { .. }))
    })
}

/// Whether a medium has no room left, at whatever depth that was noticed.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|error| matches!(medium_error(error), Some(MediumError::OutOfSpace { .. })))
}

/// The medium's error that this one is, shares with others who waited for the same read, or stands for: those of tables
/// and catalog that say the same are not told from it by their chain of causes, which goes on with what caused the
/// medium's.
fn medium_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a MediumError> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(CatalogError::Medium(source)), _) | (_, Some(SegmentError::Medium(source))) => Some(source),
        _ => error.downcast_ref().or_else(|| error.downcast_ref::<Arc<MediumError>>().map(Arc::as_ref)),
    }
}

/// The error, what caused it, what caused that, and so on.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}
