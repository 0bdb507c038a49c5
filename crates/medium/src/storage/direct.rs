//! Files of one local folder, read past the page cache and many at once.
//!
//! **Owns:** the choice of the way to read, made when the folder is opened: io_uring where the system grants it, else
//! threads that block; `O_DIRECT` where the file system takes it, else the page cache. Neither refusal is an error;
//! [`describe`](super::Medium::describe) tells the way.
//!
//! **Invariants:** a transfer goes past the page cache if address, offset and length are multiples of 4096, and through
//! it otherwise, by a second descriptor of the same file; Linux keeps the two coherent as long as they are not at work
//! on the same bytes at the same time. A buffer belongs to the medium until its read is completed. Every answer of the
//! system is judged by the same rules ([`read_progress`]), whichever way it came.
//!
//! **Concurrency:** one thread owns the ring; submitting puts reads into its queue and wakes it if it sleeps. So
//! completions run on that thread and never interrupt the threads that compute. Dropping the medium waits until what
//! was submitted has completed.

mod file;
mod read_progress;
mod read_threads;
#[cfg(target_os = "linux")]
mod ring;
mod vectored;

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::medium::require_name;
use super::{Medium, MediumFile, ReadAt};
use crate::{MediumError, Result};
use file::{DirectFile, takes_direct_io};
use read_threads::ReadThreads;

/// Reads that go on while their callers do.
trait BackgroundReads: Send + Sync + Debug {
    fn submit(&self, reads: Vec<ReadAt>);
    /// Completes "read by …".
    fn describe(&self) -> &'static str;
}

/// Which ways of reading to try. The default is all of them, the fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectOptions {
    /// Read through io_uring.
    pub io_uring: bool,
    /// Go past the page cache.
    pub past_page_cache: bool,
}

impl Default for DirectOptions {
    fn default() -> Self {
        Self { io_uring: true, past_page_cache: true }
    }
}

/// A medium on the files of one folder.
#[derive(Debug)]
pub struct DirectMedium {
    folder_path: PathBuf,
    folder: File,
    reads: Box<dyn BackgroundReads>,
    direct_refused: Arc<AtomicBool>,
}

impl DirectMedium {
    /// The files of a folder that exists, read the fastest way that the system grants.
    ///
    /// # Errors
    /// There is no such folder, or it can't be read.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_with(folder, DirectOptions::default())
    }

    /// The same with fewer ways to choose from.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(folder: &Path, options: DirectOptions) -> Result<Self> {
        let opened = File::open(folder)
            .and_then(|opened| opened.metadata().map(|metadata| (opened, metadata)))
            .and_then(
                |(opened, metadata)| {
                    if metadata.is_dir() { Ok(opened) } else { Err(io::ErrorKind::NotADirectory.into()) }
                },
            )
            .map_err(|source| MediumError::from_io(folder, "open the folder", source))?;
        let direct_refused = !(options.past_page_cache && takes_direct_io(folder));
        Ok(Self {
            folder_path: folder.to_owned(),
            folder: opened,
            reads: background_reads(options),
            direct_refused: Arc::new(AtomicBool::new(direct_refused)),
        })
    }

    fn open_file(&self, name: &str, action: &str, options: &OpenOptions, is_writable: bool) -> Result<MediumFile> {
        require_name(name)?;
        let path = self.folder_path.join(name);
        let file = DirectFile::open(path, options, is_writable, Arc::clone(&self.direct_refused))
            .map_err(|source| MediumError::from_io(&self.folder_path.join(name), action, source))?;
        Ok(MediumFile::new(name, Arc::new(file)))
    }
}

fn background_reads(options: DirectOptions) -> Box<dyn BackgroundReads> {
    #[cfg(target_os = "linux")]
    if options.io_uring
        && let Ok(ring) = ring::RingReads::start()
    {
        return Box::new(ring);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = options;
    Box::new(ReadThreads::new())
}

impl Medium for DirectMedium {
    fn describe(&self) -> String {
        let cache = if self.direct_refused.load(Ordering::Relaxed) { "through" } else { "past" };
        format!("files in {}, read by {} {cache} the page cache", self.folder_path.display(), self.reads.describe())
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        self.open_file(name, "create the file", OpenOptions::new().read(true).write(true).create_new(true), true)
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        self.open_file(name, "open the file", OpenOptions::new().read(true), false)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        self.open_file(name, "open the file", OpenOptions::new().read(true).write(true), true)
    }

    fn remove(&self, name: &str) -> Result<()> {
        require_name(name)?;
        let path = self.folder_path.join(name);
        fs::remove_file(&path).map_err(|source| MediumError::from_io(&path, "remove the file", source))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        require_name(from)?;
        require_name(to)?;
        let path = self.folder_path.join(from);
        fs::rename(&path, self.folder_path.join(to))
            .map_err(|source| MediumError::from_io(&path, format!("rename the file to {to}"), source))
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |source| MediumError::from_io(&self.folder_path, "list the folder", source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder_path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // What is no file of ours, by its kind or by a name that is no text, is none of ours.
            if entry.file_type().map_err(failed)?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        file.state::<DirectFile>()?.size_bytes()
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_vectored_at(file, offset_bytes, &mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored_at(&self, file: &MediumFile, offset_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        file.state::<DirectFile>()?.read_vectored_at(offset_bytes, parts)
    }

    fn submit(&self, reads: Vec<ReadAt>) {
        self.reads.submit(reads);
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        file.state::<DirectFile>()?.write_at(offset_bytes, bytes)
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        file.state::<DirectFile>()?.sync_data()
    }

    fn sync_namespace(&self) -> Result<()> {
        self.folder.sync_all().map_err(|source| MediumError::from_io(&self.folder_path, "flush the folder", source))
    }
}

#[cfg(test)]
mod tests;
