//! One open file of a direct medium, and blocking calls on it.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::read_progress::{REPEATS_MAX, ReadProgress, Verdict, is_aligned};
use super::vectored::{alignment_bits, read_vectored_at};
use crate::size_limit::require_file_size;
use crate::storage::medium::read_only;
use crate::storage::pending_read::length_bytes;
use crate::{MediumError, Result};

/// A file that is open past the page cache, through it, or both.
#[derive(Debug)]
pub(super) struct DirectFile {
    path: PathBuf,
    /// With `O_DIRECT` if `is_direct`.
    primary: File,
    is_direct: bool,
    is_writable: bool,
    /// The same file through the page cache, opened when the first transfer comes that is not aligned.
    cached: OnceLock<File>,
    /// The medium's note that the system refuses direct I/O here.
    direct_refused: Arc<AtomicBool>,
}

impl DirectFile {
    /// Opens as `options` say, past the page cache if the medium has not found that refused.
    pub(super) fn open(
        path: PathBuf,
        options: &OpenOptions,
        is_writable: bool,
        direct_refused: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let is_direct = !direct_refused.load(Ordering::Relaxed);
        let (primary, is_direct) = match is_direct.then(|| with_direct(options).open(&path)) {
            Some(Err(error)) if is_refusal(&error) => {
                direct_refused.store(true, Ordering::Relaxed);
                // The kernel makes the file before it looks at the flag.
                (options.clone().create_new(false).open(&path).or_else(|_| options.open(&path))?, false)
            }
            Some(opened) => (opened?, true),
            None => (options.open(&path)?, false),
        };
        Ok(Self { path, primary, is_direct, is_writable, cached: OnceLock::new(), direct_refused })
    }

    /// The file to use for a transfer, and whether it goes past the page cache.
    pub(super) fn way(&self, aligned: bool) -> io::Result<(&File, bool)> {
        if !self.is_direct {
            return Ok((&self.primary, false));
        }
        if aligned {
            return Ok((&self.primary, true));
        }
        if let Some(cached) = self.cached.get() {
            return Ok((cached, false));
        }
        // By the descriptor, not by the path: the name may mean another file by now.
        let opened = reopen(&self.primary, &self.path, self.is_writable)?;
        Ok((self.cached.get_or_init(|| opened), false))
    }

    /// Length now.
    pub(super) fn size_bytes(&self) -> Result<u64> {
        let metadata = self.primary.metadata().map_err(|source| self.failed("read the metadata".to_owned(), source))?;
        Ok(metadata.len())
    }

    /// Fills `parts` one after the other from `offset_bytes` on. Takes what is done off their front.
    pub(super) fn read_vectored_at(&self, offset_bytes: u64, mut parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut progress = ReadProgress::new(offset_bytes, length_bytes(parts));
        if progress.remaining().is_empty() {
            return self.read_result(&progress, Verdict::Complete);
        }
        IoSliceMut::advance_slices(&mut parts, 0); // past parts that are empty
        loop {
            let (file, direct) = match self.way(progress.may_go_direct(alignment_bits(parts))) {
                Ok(way) => way,
                Err(error) => return self.read_result(&progress, Verdict::Failed(error)),
            };
            let answer = read_vectored_at(file, parts, progress.next_offset_bytes());
            if let Ok(read_bytes) = answer {
                IoSliceMut::advance_slices(&mut parts, read_bytes);
            }
            match progress.answered(answer, direct) {
                Verdict::Again => {}
                verdict => return self.read_result(&progress, verdict),
            }
        }
    }

    /// What a read that is over comes to, and a note if direct I/O was refused under way.
    pub(super) fn read_result(&self, progress: &ReadProgress, verdict: Verdict) -> Result<()> {
        if progress.refused_direct() {
            self.direct_refused.store(true, Ordering::Relaxed);
        }
        let (offset_bytes, length_bytes) = (progress.offset_bytes(), progress.remaining().end as u64);
        match verdict {
            Verdict::Complete | Verdict::Again => Ok(()),
            Verdict::PastEnd => Err(MediumError::PastEnd {
                path: self.path.display().to_string(),
                offset_bytes,
                length_bytes,
                size_bytes: self.size_bytes()?,
            }),
            Verdict::Failed(source) => {
                Err(self.failed(format!("read {length_bytes} bytes at byte {offset_bytes}"), source))
            }
        }
    }

    /// Writes all of `bytes` at `offset_bytes`.
    pub(super) fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        if !self.is_writable {
            return Err(read_only(&self.path.display().to_string()));
        }
        require_file_size(offset_bytes, bytes.len())
            .map_err(|source| self.failed(format!("write {} bytes at byte {offset_bytes}", bytes.len()), source))?;
        let mut done = 0;
        let mut direct_allowed = true;
        let mut repeat_count = 0_u32;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let at = offset_bytes + done as u64;
            let action = || format!("write {} bytes at byte {at}", rest.len());
            let aligned = direct_allowed && is_aligned(rest.as_ptr().addr(), at, rest.len());
            let (file, direct) = self.way(aligned).map_err(|source| self.failed(action(), source))?;
            match file.write_at(rest, at) {
                Ok(0) => return Err(self.failed(action(), io::ErrorKind::WriteZero.into())),
                Ok(written_bytes) => {
                    done += written_bytes;
                    repeat_count = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted && repeat_count < REPEATS_MAX => {
                    repeat_count += 1
                }
                Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
                    direct_allowed = false;
                    self.direct_refused.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(self.failed(action(), error)),
            }
        }
        Ok(())
    }

    /// Flushes data and length.
    pub(super) fn sync_data(&self) -> Result<()> {
        self.primary.sync_data().map_err(|source| self.failed("flush its data".to_owned(), source))
    }

    fn failed(&self, action: String, source: io::Error) -> MediumError {
        MediumError::from_io(&self.path, action, source)
    }
}

/// The same options, past the page cache.
#[cfg(target_os = "linux")]
fn with_direct(options: &OpenOptions) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = options.clone();
    options.custom_flags(libc::O_DIRECT);
    options
}

/// Never asked for, as `takes_direct_io` says no.
#[cfg(not(target_os = "linux"))]
fn with_direct(options: &OpenOptions) -> OpenOptions {
    options.clone()
}

/// Whether the file system of `folder` takes direct I/O, as far as can be told without leaving a trace: with a file
/// that never has a name. Where that cannot be made, the first file that is opened will tell.
#[cfg(target_os = "linux")]
pub(super) fn takes_direct_io(folder: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(folder);
    // Unsupported may be the file without a name.
    !matches!(opened, Err(error) if error.kind() == io::ErrorKind::InvalidInput)
}

/// Other systems have no such way that is worth the name.
#[cfg(not(target_os = "linux"))]
pub(super) fn takes_direct_io(_folder: &Path) -> bool {
    false
}

/// Whether this is how a file system says that it knows no direct I/O.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Another open file for the same bytes, without the flags of the first.
fn reopen(file: &File, path: &Path, is_writable: bool) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let open = |path: &Path| OpenOptions::new().read(true).write(is_writable).open(path);
    open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).or_else(|error| {
        // There may be no /proc; the name may mean another file by now.
        let (opened, first) = (open(path).map_err(|_| error)?, file.metadata()?);
        let second = opened.metadata()?;
        match (first.dev(), first.ino()) == (second.dev(), second.ino()) {
            true => Ok(opened),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "another file took its name")),
        }
    })
}
