//! A local file held open: the bytes of one version, whatever happens to its name.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{FileVersion, MediumError, Result, Stamp};

/// What became of a pinned file since it was opened, by its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Same version.
    Unchanged,
    /// Longer, otherwise the same file. That the old prefix is unchanged is not known: ask its
    /// [`BlockHashes`](crate::BlockHashes).
    Grown,
    /// Truncated, rewritten, touched, replaced or unlinked.
    Other,
}

/// An open local file and its version when it was opened.
///
/// Renaming another file over its name, or deleting it, does not disturb reads: the open descriptor keeps the old
/// file. Writing in place does disturb them, and is noticed by [`change`](Self::change).
pub struct PinnedFile {
    file: File,
    version: FileVersion,
}

impl PinnedFile {
    /// Opens the file at `path` for reading and takes its version.
    ///
    /// # Errors
    /// A missing file, no permission, anything but a regular file, a path that is not UTF-8.
    pub fn open(path: &Path) -> Result<Self> {
        // Asked before opening, for opening a pipe would wait for a writer.
        let failed = |source| MediumError::from_io(path, "open the file", source);
        require_regular(path, &std::fs::metadata(path).map_err(failed)?)?;
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        require_regular(path, &metadata)?;
        let canonical = path_of_open_file(&file, path).map_err(failed)?;
        let version = FileVersion::of_local(utf8_path(&canonical)?, &metadata);
        Ok(Self { file, version })
    }

    /// The version at open.
    pub fn version(&self) -> &FileVersion {
        &self.version
    }

    /// Canonical path of the file at open.
    pub fn path(&self) -> &Arc<str> {
        &self.version.path
    }

    /// Length at open; what was appended since lies beyond it.
    pub fn size_bytes(&self) -> u64 {
        self.version.size_bytes
    }

    /// Fills `buffer` from `offset` on, and returns how much was read: less than asked for only at the end of the file.
    ///
    /// The end is that of the file now, not of the pinned version: cap the buffer to [`size_bytes`](Self::size_bytes).
    ///
    /// # Errors
    /// Failures of the system; interrupted calls are repeated.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled_bytes = 0;
        while filled_bytes < buffer.len() {
            let at = offset + filled_bytes as u64;
            match self.file.read_at(&mut buffer[filled_bytes..], at) {
                Ok(0) => break,
                Ok(read_bytes) => filled_bytes += read_bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(MediumError::from_io(
                        Path::new(&*self.version.path),
                        format!("read at byte {at}"),
                        error,
                    ));
                }
            }
        }
        Ok(filled_bytes)
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and [`MediumError::Changed`] when the file ends too early: it was truncated.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read_bytes = self.read_at(buffer, offset)?;
        if read_bytes == buffer.len() {
            return Ok(());
        }
        Err(MediumError::Changed {
            path: self.version.path.to_string(),
            difference: format!(
                "it ends at byte {}, expected at least {}",
                offset + read_bytes as u64,
                offset + buffer.len() as u64
            ),
        })
    }

    /// The open file's version now: same path and file, its present size and times.
    ///
    /// # Errors
    /// Failures of the system.
    pub fn current_version(&self) -> Result<FileVersion> {
        let failed = |source| MediumError::from_io(Path::new(&*self.version.path), "read the metadata", source);
        let metadata = self.file.metadata().map_err(failed)?;
        Ok(FileVersion::of_local(Arc::clone(&self.version.path), &metadata))
    }

    /// Compares the open file's version now with that at open.
    ///
    /// # Errors
    /// Failures of the system.
    pub fn change(&self) -> Result<Change> {
        Ok(classify(&self.version, &self.current_version()?))
    }

    /// Refuses a file that was written since it was opened, growth included. A moved change time alone is no write:
    /// renaming another file over this one does that, too.
    ///
    /// # Errors
    /// [`MediumError::Changed`], failures of the system.
    pub fn require_unwritten(&self) -> Result<()> {
        let now = self.current_version()?;
        let mtime_ns = |stamp: &Stamp| match stamp {
            Stamp::Local { mtime_ns, .. } => Some(*mtime_ns),
            Stamp::Object { .. } => None,
        };
        if self.version.size_bytes == now.size_bytes && mtime_ns(&self.version.stamp) == mtime_ns(&now.stamp) {
            return Ok(());
        }
        Err(MediumError::Changed {
            path: self.version.path.to_string(),
            difference: self.version.difference(&now).unwrap_or_else(|| "it was written to".to_owned()),
        })
    }
}

impl fmt::Debug for PinnedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedFile").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Growth needs a new modification time too: a longer file with an old one had it restored by somebody.
fn classify(opened: &FileVersion, now: &FileVersion) -> Change {
    if opened == now {
        return Change::Unchanged;
    }
    let Stamp::Local { mtime_ns, device, inode, .. } = opened.stamp else { return Change::Other };
    match now.stamp {
        Stamp::Local { mtime_ns: mtime_now_ns, device: device_now, inode: inode_now, .. }
            if now.size_bytes > opened.size_bytes
                && mtime_now_ns >= mtime_ns
                && (device, inode) == (device_now, inode_now) =>
        {
            Change::Grown
        }
        _ => Change::Other,
    }
}

/// Refuses all but regular files, saying what was found.
pub(crate) fn require_regular(path: &Path, metadata: &std::fs::Metadata) -> Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let found = match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(MediumError::NotAFile { path: path.display().to_string(), found })
}

/// Paths are UTF-8 everywhere above: in SQL, in Arrow columns, in messages. A lossy name could name two files.
pub(crate) fn utf8_path(path: &Path) -> Result<Arc<str>> {
    path.to_str().map(Arc::from).ok_or_else(|| MediumError::InvalidLocation {
        location: path.display().to_string(),
        reason: "the path is not valid UTF-8; rename the file".to_owned(),
    })
}

/// The canonical path of what was opened. On Linux the kernel tells that for the descriptor itself, so that a link
/// that is switched between opening and resolving cannot give one file the name of another.
fn path_of_open_file(file: &File, path: &Path) -> std::io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        if let Ok(link) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            && link.is_absolute()
            && !link.as_os_str().to_string_lossy().ends_with(" (deleted)")
        {
            return Ok(link);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    std::fs::canonicalize(path)
}

#[cfg(test)]
mod tests;
