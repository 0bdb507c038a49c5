//! How a run can fail, and what its caller is told: a message, a hint, an exit code.
//!
//! Exit codes are part of the interface: `arguments.rs` documents them in `--help`.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::{Error, ErrorKind};

use crate::terminal::{Terminal, printable};

/// Why a run ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine refused or failed; `origin` is the file the statement came from.
    Query { origin: Option<String>, error: Error },
    /// A file of ours (not one that SQL reads) could not be read or written.
    File { path: PathBuf, error: io::Error },
    /// Standard input, output or the terminal failed.
    Stream { name: &'static str, error: io::Error },
    /// Rows could not be turned into text.
    Render(ArrowError),
    /// A fault of our own.
    Fault(String),
    /// Ctrl-C.
    Interrupted,
    /// Whoever read our output has left; nothing to tell anyone.
    OutputClosed {
        /// Whether statements were left that did not run: what the reader did not want is no loss, what they would have
        /// done is.
        is_early: bool,
    },
}

/// What a shell says of a process that SIGPIPE ended, which is how most commands end whose reader leaves.
const OUTPUT_CLOSED_EARLY: u8 = 128 + 13;

/// What a step of this command returns.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failed write to standard output. A reader that left is no error.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed { is_early: false },
            _ => Self::Stream { name: "standard output", error },
        }
    }

    /// The same failure, known to come from a statement in `origin`.
    pub(crate) fn in_file(self, origin: &str) -> Self {
        match self {
            Self::Query { origin: None, error } => Self::Query { origin: Some(origin.to_owned()), error },
            other => other,
        }
    }

    /// The same failure, known to have kept other statements from running.
    pub(crate) fn before_others(self) -> Self {
        match self {
            Self::OutputClosed { .. } => Self::OutputClosed { is_early: true },
            other => other,
        }
    }

    fn kind(&self) -> ErrorKind {
        let of_io = |error: &io::Error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::OutOfMemory | io::ErrorKind::QuotaExceeded => {
                ErrorKind::Resources
            }
            _ => ErrorKind::Input,
        };
        match self {
            Self::Query { error, .. } => error.kind(),
            Self::File { error, .. } | Self::Stream { error, .. } => of_io(error),
            Self::Render(_) | Self::Fault(_) => ErrorKind::Internal,
            Self::Interrupted | Self::OutputClosed { .. } => ErrorKind::Cancelled,
        }
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        if let Self::OutputClosed { is_early } = self {
            return if *is_early { OUTPUT_CLOSED_EARLY } else { 0 };
        }
        match self.kind() {
            ErrorKind::Input => 1,
            ErrorKind::Resources => 3,
            ErrorKind::Retry => 4,
            ErrorKind::Cancelled => 130,
            _ => 70,
        }
    }

    /// What the user can do about it, if there is more to say than the message does.
    fn hint(&self) -> Option<&'static str> {
        match self.kind() {
            ErrorKind::Input => match self {
                Self::Query { error, .. } if names_a_missing_table(&error.to_string()) => {
                    Some("files are named in single quotes, as in FROM 'events.ndjson'")
                }
                _ => None,
            },
            ErrorKind::Retry => Some("run it again: each query sees one version of a file"),
            ErrorKind::Resources if self.is_full_disk() => Some("free room on the disk, or write elsewhere"),
            ErrorKind::Resources => {
                Some("raise the budget with --memory or SET thermocline.memory = '…', or free memory or disk")
            }
            ErrorKind::Cancelled => None,
            _ => Some("this is a fault of Thermocline's own; please report it with the statement that led to it"),
        }
    }

    /// Whether a stream or file had no room: no memory helps there.
    fn is_full_disk(&self) -> bool {
        let is_full = |error: &io::Error| {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
        };
        match self {
            Self::File { error, .. } | Self::Stream { error, .. } => is_full(error),
            Self::Query { error, .. } => {
                let first: &(dyn std::error::Error + 'static) = error;
                let mut causes = std::iter::successors(Some(first), |cause| cause.source());
                causes.any(|cause| cause.downcast_ref().is_some_and(is_full))
            }
            _ => false,
        }
    }

    /// Tells the user, on standard error. What messages quote of files cannot move the cursor there.
    pub(crate) fn report(&self, stderr: &Terminal) {
        let text = match self {
            Self::OutputClosed { .. } => return,
            Self::Interrupted => "interrupted".to_owned(),
            _ => {
                let mut text = format!("{} {}", stderr.paint.red("error:"), printable(&self.to_string()));
                if let Some(hint) = self.hint() {
                    text.push_str(&format!("\n{} {hint}", stderr.paint.bold("hint:")));
                }
                text
            }
        };
        stderr.note(&text);
    }
}

/// DataFusion's words for a name it does not know.
fn names_a_missing_table(message: &str) -> bool {
    message.contains("table '") && message.contains("not found")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query { origin: None, error } => write!(f, "{error}"),
            Self::Query { origin: Some(origin), error } => write!(f, "{origin}: {error}"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Stream { name, error } => write!(f, "{name}: {error}"),
            Self::Render(error) => write!(f, "a result could not be printed: {error}"),
            Self::Fault(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted"),
            Self::OutputClosed { .. } => f.write_str("standard output was closed"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Cancelled => Self::Interrupted,
            _ => Self::Query { origin: None, error },
        }
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Render(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(kind: ErrorKind) -> Failure {
        Error::new(kind, "message").into()
    }

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        assert_eq!(query(ErrorKind::Input).exit_code(), 1);
        assert_eq!(query(ErrorKind::Resources).exit_code(), 3);
        assert_eq!(query(ErrorKind::Retry).exit_code(), 4);
        assert_eq!(query(ErrorKind::Internal).exit_code(), 70);
        assert_eq!(query(ErrorKind::Cancelled).exit_code(), 130);
        assert_eq!(Failure::Interrupted.exit_code(), 130);
        let full = Failure::File { path: "x".into(), error: io::ErrorKind::StorageFull.into() };
        assert_eq!(full.exit_code(), 3);
    }

    #[test]
    fn a_reader_that_leaves_is_no_failure_and_a_full_disk_is() {
        assert_eq!(Failure::output(io::ErrorKind::BrokenPipe.into()).exit_code(), 0);
        assert_eq!(Failure::output(io::ErrorKind::StorageFull.into()).exit_code(), 3);
    }

    #[test]
    fn a_reader_that_leaves_before_other_statements_is_told_by_the_exit_code() {
        assert_eq!(Failure::output(io::ErrorKind::BrokenPipe.into()).before_others().exit_code(), 141);
        assert_eq!(query(ErrorKind::Retry).before_others().exit_code(), 4);
    }

    #[test]
    fn a_full_disk_under_our_own_files_is_not_mended_with_memory() {
        let full = Failure::output(io::ErrorKind::StorageFull.into());
        assert!(full.hint().is_some_and(|hint| hint.contains("disk") && !hint.contains("memory")));
    }

    #[test]
    fn hints_are_given_where_the_message_leaves_something_open() {
        assert!(query(ErrorKind::Resources).hint().is_some_and(|hint| hint.contains("thermocline.memory")));
        assert!(query(ErrorKind::Retry).hint().is_some());
        assert!(query(ErrorKind::Internal).hint().is_some_and(|hint| hint.contains("report")));
        assert!(query(ErrorKind::Input).hint().is_none());
        let missing = Failure::from(Error::input("table 'main.public.events' not found"));
        assert!(missing.hint().is_some_and(|hint| hint.contains("single quotes")));
    }

    #[test]
    fn a_statement_of_a_file_is_reported_with_the_file() {
        let failure = query(ErrorKind::Input).in_file("report.sql");
        assert_eq!(failure.to_string(), "report.sql: message");
    }
}
