//! What can go wrong where bytes rest. Every message names the path or URL and what to do about it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::store_failure;

/// An error of the medium.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediumError {
    /// Nothing exists under this name.
    #[error("{path}: no such file or folder; check the name (relative paths start at {working_folder})")]
    NotFound {
        /// The path as far as it is known.
        path: String,
        /// Where relative paths start.
        working_folder: String,
    },
    /// The operating system refuses access.
    #[error("{path}: permission denied; grant read permission on it and search permission on the folders above it")]
    PermissionDenied {
        /// The path or URL.
        path: String,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store has nothing under this name.
    #[error("{url}: no such object; check the key, letter by letter, and the name of the bucket or host")]
    NoSuchObject {
        /// The object's or prefix's URL.
        url: String,
    },
    /// The store has no bucket of this name.
    #[error("{url}: no such bucket; check its name, and AWS_ENDPOINT_URL if it is not at AWS")]
    NoSuchBucket {
        /// The object's or prefix's URL.
        url: String,
    },
    /// The store refuses access.
    #[error("{url}: the store refuses access{said}; {advice}")]
    AccessRefused {
        /// The object's or prefix's URL.
        url: String,
        /// The reason it gives, in brackets after a blank; empty if none.
        said: String,
        /// What to do.
        advice: &'static str,
        /// The answer.
        #[source]
        source: Box<object_store::Error>,
    },
    /// No use can be made of the store as it was named or configured, or of its server as it answers.
    #[error("{url}: {reason}")]
    Unreachable {
        /// The object's or prefix's URL.
        url: String,
        /// What is the matter and what to do.
        reason: String,
        /// What happened.
        #[source]
        source: Box<object_store::Error>,
    },
    /// The location lies outside the allowed directories.
    #[error("{path}: not allowed; this session may only read below {allowed} (setting allowed_directories)")]
    NotAllowed {
        /// The path as asked for, links resolved as far as they exist.
        path: String,
        /// The allowed directories, listed.
        allowed: String,
    },
    /// A glob that matches no file.
    #[error("{pattern}: no file matches this pattern; check it, hidden files are matched only by a leading dot")]
    NoMatch {
        /// The glob.
        pattern: String,
    },
    /// A folder without a file of the kinds asked for.
    #[error("{path}: the folder holds no {kinds}; hidden files and those starting with '_' are not looked at")]
    EmptyFolder {
        /// The folder.
        path: String,
        /// The suffixes looked for, or `file`.
        kinds: String,
    },
    /// A folder, pipe, socket or device where a file was expected.
    #[error("{path}: is {found}, expected a regular file")]
    NotAFile {
        /// The path.
        path: String,
        /// What it is.
        found: &'static str,
    },
    /// A location that cannot be understood.
    #[error("{location}: {reason}")]
    InvalidLocation {
        /// The location as written.
        location: String,
        /// What is wrong with it and how to write it.
        reason: String,
    },
    /// The file is no longer the one that was opened.
    #[error("{path}: changed while it was read: {difference}; run the query again")]
    Changed {
        /// The path or URL.
        path: String,
        /// What is different, as seen in the metadata.
        difference: String,
    },
    /// A read that reaches past the end of a file: the file was cut short, or the offset is wrong.
    #[error(
        "{path}: cannot read {length_bytes} bytes at byte {offset_bytes}: the file ends at byte {size_bytes}, \
         expected at least {}", offset_bytes.saturating_add(*length_bytes)
    )]
    PastEnd {
        /// The path, or the name within its medium.
        path: String,
        /// Where the read begins.
        offset_bytes: u64,
        /// How much was to be read.
        length_bytes: u64,
        /// Where the file ends.
        size_bytes: u64,
    },
    /// The device, or the user's share of it, is full, or the file as large as the system lets it be.
    #[error("{path}: cannot {action}: {source}; {}", room_advice(.source))]
    OutOfSpace {
        /// The path, or the name within its medium.
        path: String,
        /// What was tried, with the offset.
        action: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file was used with another medium than the one that opened it.
    #[error("{path}: was opened by another medium than the one it is used with")]
    ForeignFile {
        /// The name of the file.
        path: String,
    },
    /// Any other failure of the operating system.
    #[error("{path}: cannot {action}: {source}{}", files_advice(.source))]
    Io {
        /// The path.
        path: String,
        /// What was tried, with the offset if it was a read.
        action: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Any other failure of an object store.
    #[error("{url}: cannot {action}: {source}")]
    Store {
        /// The object's or prefix's URL.
        url: String,
        /// What was tried.
        action: String,
        /// What the store said.
        #[source]
        source: object_store::Error,
    },
    /// What several reads failed by that were one.
    #[error("{0}")]
    Shared(#[source] Arc<MediumError>),
}

impl MediumError {
    /// Whether reading a part of what could not be read would fail too, by all that is known: the matter is with the
    /// file or its store as a whole, and the store's client has retried what can be.
    pub fn is_of_whole_file(&self) -> bool {
        match self {
            Self::Shared(error) => error.is_of_whole_file(),
            Self::PastEnd { .. } | Self::Io { .. } | Self::OutOfSpace { .. } => false,
            _ => true,
        }
    }

    /// The error for a system call on `path` that failed; `action` completes "cannot …".
    pub(crate) fn from_io(path: &Path, action: impl Into<String>, source: io::Error) -> Self {
        let shown = path.display().to_string();
        match source.kind() {
            // A component that is a file where a folder was needed: the name leads nowhere, as with a missing one.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                let working_folder = std::env::current_dir()
                    .map_or_else(|_| "a working folder that is gone".to_owned(), |folder| folder.display().to_string());
                Self::NotFound { path: shown, working_folder }
            }
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path: shown, source: Box::new(source) },
            _ => Self::from_write(path, action, source),
        }
    }

    /// The same for a file that was to be written, which need not be there: what is refused, or missing, is its folder.
    pub(crate) fn from_write(path: &Path, action: impl Into<String>, source: io::Error) -> Self {
        let (path, action) = (path.display().to_string(), action.into());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::OutOfSpace { path, action, source }
            }
            _ => Self::Io { path, action, source },
        }
    }

    /// The error for a call on the object at `url` that failed; `action` completes "cannot …".
    pub fn from_store(url: &str, action: impl Into<String>, source: object_store::Error) -> Self {
        store_failure::explain(url.to_owned(), action.into(), source)
    }
}

/// What makes room, by what is short.
fn room_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files, or write less at once",
        _ => "free some space there, or use another folder",
    }
}

/// What to do where no more files can be open; empty for all else.
fn files_advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => "; raise the process's limit of open files (ulimit -n), or name fewer files at once",
        Some(libc::ENFILE) => "; raise the system's limit of open files, or name fewer files at once",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(code: i32) -> MediumError {
        MediumError::from_io(Path::new("/data/x.csv"), "read at byte 7", io::Error::from_raw_os_error(code))
    }

    #[test]
    fn system_errors_become_kinds_that_say_what_to_do() {
        assert!(matches!(mapped(libc::ENOENT), MediumError::NotFound { .. }));
        assert!(matches!(mapped(libc::ENOTDIR), MediumError::NotFound { .. }));
        assert!(matches!(mapped(libc::EACCES), MediumError::PermissionDenied { .. }));
        assert!(matches!(mapped(libc::EPERM), MediumError::PermissionDenied { .. }));
        assert!(matches!(mapped(libc::EIO), MediumError::Io { .. }));
        assert!(matches!(mapped(libc::ENOSPC), MediumError::OutOfSpace { .. }));
        assert!(matches!(mapped(libc::EDQUOT), MediumError::OutOfSpace { .. }));
        assert!(matches!(mapped(libc::EFBIG), MediumError::OutOfSpace { .. }));
        assert!(
            mapped(libc::EFBIG).to_string().ends_with("raise the limit on the size of files, or write less at once")
        );
        assert!(mapped(libc::ENOSPC).to_string().ends_with("free some space there, or use another folder"));
        for code in [libc::ENOENT, libc::EACCES, libc::EIO] {
            assert!(mapped(code).to_string().starts_with("/data/x.csv: "), "{}", mapped(code));
        }
        assert!(mapped(libc::EIO).to_string().contains("cannot read at byte 7"));
        assert!(mapped(libc::EMFILE).to_string().contains("ulimit -n"));
        assert!(mapped(libc::EACCES).to_string().contains("grant read permission"));
    }

    #[test]
    fn store_errors_name_the_url() {
        let source = || Box::<dyn std::error::Error + Send + Sync>::from("told so");
        let url = "s3://bucket/a.csv";
        let missing = object_store::Error::NotFound { path: "a.csv".to_owned(), source: source() };
        let missing = MediumError::from_store(url, "read", missing).to_string();
        assert!(missing.starts_with("s3://bucket/a.csv: no such object"), "{missing}");
        let refused = object_store::Error::Unauthenticated { path: "a.csv".to_owned(), source: source() };
        assert!(matches!(MediumError::from_store(url, "read", refused), MediumError::AccessRefused { .. }));
        let changed = object_store::Error::Precondition { path: "a.csv".to_owned(), source: source() };
        assert!(matches!(MediumError::from_store(url, "read", changed), MediumError::Changed { .. }));
        let other = object_store::Error::Generic { store: "S3", source: source() };
        let other = MediumError::from_store(url, "list", other).to_string();
        assert!(other.starts_with("s3://bucket/a.csv: cannot list: ") && other.contains("told so"), "{other}");
    }
}
