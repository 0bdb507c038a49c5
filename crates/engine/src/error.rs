//! What can go wrong, sorted by what the caller should do about it.
//!
//! Everything below the engine reports through `DataFusionError` (it is the error type of the traits we implement),
//! with our own errors kept as its source; [`Error`] adds the [`ErrorKind`] and keeps the chain.

use std::io;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use thermocline_budget::BudgetError;
use thermocline_column_store::{CatalogError, SegmentError};
use thermocline_medium::MediumError;
use thermocline_pipeline::PipelineError;
use thermocline_raw::RawError;
use tokio::task::JoinError;

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
            DataFusionError::External(source) => {
                source.downcast_ref::<Error>().map_or_else(|| kind_of(source.as_ref()), |own| own.kind)
            }
            other => kind_of(other),
        };
        // The root says what happened; DataFusion's prefixes around it ("Execution error: External error: …") do not
        // help.
        let message = match root {
            DataFusionError::External(source) => source.to_string(),
            DataFusionError::SQL(error, detail) => syntax_error::sentence(error, detail.as_deref()),
            other => without_far_guess(other.strip_backtrace()),
        };
        Self { kind, message, source: Some(Box::new(error)) }
    }
}

impl From<CatalogError> for Error {
    fn from(error: CatalogError) -> Self {
        DataFusionError::External(Box::new(error)).into()
    }
}

/// A message without the name that was perhaps meant, where that has little in common with what was written.
fn without_far_guess(message: String) -> String {
    let guess = message.rsplit_once("\nDid you mean '");
    let Some((before, guess)) = guess.and_then(|(before, guess)| Some((before, guess.strip_suffix("'?")?))) else {
        return message;
    };
    let written = before.trim_end_matches("'.").rsplit_once('\'').map_or("", |(_, name)| name);
    let is_near = 3 * levenshtein(written, guess) <= written.len().max(guess.len());
    if is_near { message } else { before.trim_end_matches('.').to_owned() }
}

/// The kind of an error that is not one of ours, by whatever in its chain of causes says one.
fn kind_of(error: &(dyn std::error::Error + 'static)) -> ErrorKind {
    if causes(error).any(is_change) {
        ErrorKind::Retry
    } else if causes(error).any(is_shortage) {
        ErrorKind::Resources
    } else {
        causes(error).find_map(|error| error.downcast_ref::<JoinError>()).map_or(ErrorKind::Input, |ended| {
            match ended.is_cancelled() {
                true => ErrorKind::Cancelled,
                // A panic.
                false => ErrorKind::Internal,
            }
        })
    }
}

/// Whether this says that a file changed underneath.
fn is_change(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(medium_error(error), Some(MediumError::Changed { .. }))
        || matches!(error.downcast_ref(), Some(RawError::Truncated { .. }))
        || matches!(error.downcast_ref::<Arc<RawError>>().map(AsRef::as_ref), Some(RawError::Truncated { .. }))
}

/// Whether this says that there is no memory, or no room on a medium.
fn is_shortage(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let is_full = |error: &io::Error| matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge);
    matches!(medium_error(error), Some(MediumError::OutOfSpace { .. }))
        || matches!(error.downcast_ref(), Some(BudgetError::QueryMemory { .. } | BudgetError::CacheMemory { .. }))
        // Transparent: its chain of causes goes on with what caused the budget's.
        || matches!(error.downcast_ref(), Some(PipelineError::Memory(_)))
        || matches!(error.downcast_ref(), Some(ArrowError::MemoryError(_)))
        || error.downcast_ref().is_some_and(is_full)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use thermocline_buffer_pool::PoolError;

    use super::*;

    fn kind(error: impl Into<DataFusionError>) -> ErrorKind {
        Error::from(error.into()).kind()
    }

    fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }

    #[test]
    fn short_memory_and_full_disks_are_no_fault_of_the_input_however_deep_they_are_met() {
        let no_memory = || BudgetError::CacheMemory { account: "pages".to_owned(), asked_bytes: 2, free_bytes: 1 };
        assert_eq!(kind(external(no_memory())), ErrorKind::Resources);
        let page = PoolError::Memory { page: "page 1".to_owned(), source: no_memory() };
        assert_eq!(kind(external(page)), ErrorKind::Resources);
        assert_eq!(kind(external(PipelineError::Memory(no_memory()))), ErrorKind::Resources);
        assert_eq!(kind(ArrowError::MemoryError("no memory".to_owned())), ErrorKind::Resources);
        for full in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert_eq!(kind(io::Error::from(full)), ErrorKind::Resources);
            assert_eq!(kind(ArrowError::IoError("spill".to_owned(), full.into())), ErrorKind::Resources);
        }
        assert_eq!(kind(io::Error::from(io::ErrorKind::NotFound)), ErrorKind::Input);
        let size = BudgetError::InvalidSize { text: "4".to_owned(), reason: "the unit is missing".to_owned() };
        assert_eq!(kind(external(size)), ErrorKind::Input);
    }

    #[test]
    fn a_name_is_guessed_where_it_has_much_in_common_with_what_was_written() {
        let message = |written: &str, guess: &str| {
            let text = format!("Invalid function '{written}'.\nDid you mean '{guess}'?");
            Error::from(DataFusionError::Plan(text)).to_string()
        };
        assert!(message("median_", "median").ends_with("Did you mean 'median'?"));
        assert!(message("sha256", "acos").ends_with("Invalid function 'sha256'"));
        assert!(message("", "").contains("Did you mean"));
    }

    #[tokio::test]
    async fn a_panic_is_a_fault_of_ours_and_a_task_that_was_ended_is_not() {
        let panicked = async || {
            let panicking = tokio::task::spawn_blocking(|| -> () { std::panic::resume_unwind(Box::new("a fault")) });
            panicking.await.unwrap_err()
        };
        let joined = DataFusionError::ExecutionJoin(Box::new(panicked().await));
        for error in [external(panicked().await), joined] {
            assert_eq!(kind(error.context("a scan")), ErrorKind::Internal);
        }
        let ended = tokio::spawn(std::future::pending::<()>());
        ended.abort();
        assert_eq!(kind(external(ended.await.unwrap_err())), ErrorKind::Cancelled);
    }
}
