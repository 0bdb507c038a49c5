//! The trait of all media, and the handle of a file in one.

use std::any::Any;
use std::fmt::{self, Debug};
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;

use super::pending_read::{Destination, ReadAt};
use crate::{MediumError, Result};

/// A folder-like namespace of files that a database keeps its own data in.
///
/// Names are flat: no folders within. What is written is there for every reader at once, but survives a crash only
/// after [`sync_data`](Self::sync_data) on the file; that a name exists, is gone or means another file survives only
/// after [`sync_namespace`](Self::sync_namespace). Before that a crash may keep or lose each such change alone. Bytes
/// of a write that is not synced may be kept in part.
///
/// A file that is removed or replaced stays readable through the handles that were opened before.
///
/// Offsets, lengths and addresses may be any. Those that are multiples of
/// [`DIRECT_ALIGNMENT_BYTES`](super::DIRECT_ALIGNMENT_BYTES) go past the page cache where the medium can do that.
///
/// Any number of threads may use a medium at once. Writes to one file should come from one thread at a time: of
/// overlapping ones, or of an [`append`](Self::append) beside another, nothing is promised.
pub trait Medium: Send + Sync + Debug {
    /// What this medium is and which way its reads go, for reports: a sentence without a full stop.
    fn describe(&self) -> String;

    /// Makes a new, empty file and opens it for reading and writing.
    ///
    /// # Errors
    /// The name exists or is none; failures of the system.
    fn create(&self, name: &str) -> Result<MediumFile>;

    /// Opens a file for reading alone.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; failures of the system.
    fn open(&self, name: &str) -> Result<MediumFile>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; failures of the system.
    fn open_writable(&self, name: &str) -> Result<MediumFile>;

    /// Removes a name.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; failures of the system.
    fn remove(&self, name: &str) -> Result<()>;

    /// Gives a file another name, in place of the file that has it, if any. Every reader sees either the one or the
    /// other, and so does whoever opens the medium after a crash.
    ///
    /// # Errors
    /// [`MediumError::NotFound`]; failures of the system.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Failures of the system.
    fn list(&self) -> Result<Vec<String>>;

    /// The file's length now.
    ///
    /// # Errors
    /// Failures of the system.
    fn size_bytes(&self, file: &MediumFile) -> Result<u64>;

    /// Fills `buffer` from `offset_bytes` on, in the calling thread. For one read alone this is the shortest way.
    ///
    /// # Errors
    /// [`MediumError::PastEnd`] when the file ends before; failures of the system.
    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `parts` one after the other from `offset_bytes` on, in the calling thread: one read where the medium can
    /// do that, one for each part where nothing else is said. The slices themselves may be changed.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at). The parts then hold anything.
    fn read_vectored_at(&self, file: &MediumFile, offset_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut next_bytes = offset_bytes;
        for part in parts {
            self.read_at(file, next_bytes, part)?;
            next_bytes += part.len() as u64;
        }
        Ok(())
    }

    /// Hands over reads that the medium carries out while the caller goes on, as many at once as it sees fit, in any
    /// order. For each one [`PendingRead::completed`](super::PendingRead::completed) is called exactly once, on a
    /// thread of the medium or, for media without threads, before this call returns.
    ///
    /// Nothing here blocks on I/O where the medium has threads, and nothing bounds what is handed over: the caller
    /// owns the buffers and so the bound.
    fn submit(&self, reads: Vec<ReadAt>) {
        for ReadAt { file, offset_bytes, mut read } in reads {
            let outcome = match read.destination() {
                Destination::One(buffer) => self.read_at(&file, offset_bytes, buffer),
                Destination::Several(mut parts) => self.read_vectored_at(&file, offset_bytes, &mut parts),
            };
            read.completed(outcome);
        }
    }

    /// Writes all of `bytes` at `offset_bytes`; the file grows as needed, and a gap reads as zeros.
    ///
    /// # Errors
    /// The file was opened for reading alone; [`MediumError::OutOfSpace`]; failures of the system. Some of the bytes
    /// may then have been written.
    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()>;

    /// Writes all of `bytes` at the end of the file, and returns where that was.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    fn append(&self, file: &MediumFile, bytes: &[u8]) -> Result<u64> {
        let offset_bytes = self.size_bytes(file)?;
        self.write_at(file, offset_bytes, bytes)?;
        Ok(offset_bytes)
    }

    /// Returns when what was written to the file, and its length, will survive a crash. Its name may not.
    ///
    /// # Errors
    /// Failures of the system. What was written since the last successful call is then in doubt for good: calling
    /// again may succeed without having saved it, so write it anew, to another file.
    fn sync_data(&self, file: &MediumFile) -> Result<()>;

    /// Returns when all names created, removed and renamed so far will survive a crash.
    ///
    /// # Errors
    /// Failures of the system.
    fn sync_namespace(&self) -> Result<()>;
}

/// A file held open by a medium. Clones share the open file, which is closed with the last of them.
#[derive(Clone)]
pub struct MediumFile {
    name: Arc<str>,
    state: Arc<dyn Any + Send + Sync>,
}

impl MediumFile {
    /// A handle with what the medium knows about the open file; for those who implement [`Medium`].
    pub fn new(name: &str, state: Arc<dyn Any + Send + Sync>) -> Self {
        Self { name: Arc::from(name), state }
    }

    /// The name under which the file was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the other handle is a clone of this one, or this of that: never true of two files, nor of one opened
    /// twice.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// What the medium gave to [`new`](Self::new); for those who implement [`Medium`].
    ///
    /// # Errors
    /// [`MediumError::ForeignFile`] when it is not a `T`.
    pub fn state<T: Any>(&self) -> Result<&T> {
        self.state.downcast_ref().ok_or_else(|| MediumError::ForeignFile { path: self.name.to_string() })
    }
}

impl Debug for MediumFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MediumFile").field(&self.name).finish()
    }
}

/// Refuses what is not a name of one file in one folder.
pub(super) fn require_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => "a file needs a name",
        "." | ".." => "is a folder, not a file",
        _ if name.contains(['/', '\0']) => "a name within a medium has no '/' and no NUL",
        _ => return Ok(()),
    };
    Err(MediumError::InvalidLocation { location: name.to_owned(), reason: reason.to_owned() })
}

/// The error for a name that does not exist.
pub(super) fn no_such_file(name: &str) -> MediumError {
    MediumError::from_io(Path::new(name), "open the file", std::io::ErrorKind::NotFound.into())
}

/// The error for a name that exists and should not.
pub(super) fn name_taken(name: &str) -> MediumError {
    MediumError::from_io(Path::new(name), "create the file", std::io::ErrorKind::AlreadyExists.into())
}

/// The error for writing to a file that was opened for reading.
pub(super) fn read_only(name: &str) -> MediumError {
    MediumError::Io {
        path: name.to_owned(),
        action: "write to it".to_owned(),
        source: std::io::Error::other("it was opened for reading alone"),
    }
}

/// The error for a read that would reach past `size_bytes`. No bytes can be read anywhere.
pub(super) fn require_within(name: &str, offset_bytes: u64, length_bytes: usize, size_bytes: u64) -> Result<()> {
    let length_bytes = length_bytes as u64;
    match offset_bytes.checked_add(length_bytes) {
        Some(end) if end <= size_bytes || length_bytes == 0 => Ok(()),
        _ => Err(MediumError::PastEnd { path: name.to_owned(), offset_bytes, length_bytes, size_bytes }),
    }
}
