//! A file written beside its name, and put in place once it is whole.
//!
//! **Invariants:** until [`StagedFile::place`] the name has what it had. Whoever drops a [`StagedFile`] without
//! [`keep`](StagedFile::keep) has the bytes removed there and then, also from under the name, unless that had a file
//! before, which is gone. Only a process that is killed leaves bytes behind, under a hidden name that listings pass over.
//!
//! **Concurrency:** [`StagedBytes`] are written by any number of threads, also after the [`StagedFile`] was dropped: then
//! to a file that has no name any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pinned_file::require_regular;
use crate::size_limit::require_file_size;
use crate::{MediumError, Result};

/// Whose process and which of its files comes behind.
const STAGED_NAME: &str = ".thermocline-copy-";

/// Links that lead to links at most, as with the system.
const MAX_LINKS: usize = 40;

/// What keeps a file that is being written, and the name it is written for. Removed when dropped, unless kept.
#[derive(Debug)]
pub struct StagedFile {
    staged: PathBuf,
    target: PathBuf,
    replaces: bool,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Under its own, hidden name.
    Beside,
    /// Under the name it was written for.
    Target,
    /// There, for good.
    Kept,
}

impl StagedFile {
    /// A file that is to be at `target`, in the place of the regular file that may be there; links are followed. Missing
    /// folders are made, and noted in `folders`.
    ///
    /// # Errors
    /// Something else than a regular file at `target`; failures of the system, as when the folder may not be written.
    pub fn create(target: &Path, folders: &mut MadeFolders) -> Result<(Self, StagedBytes)> {
        let failed = |source| MediumError::from_write(target, "create the file", source);
        let (target_file, replaced) = match fs::metadata(target) {
            Ok(metadata) => {
                require_regular(target, &metadata)?;
                (fs::canonicalize(target).map_err(failed)?, Some(metadata))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (followed(target).map_err(failed)?, None),
            Err(error) => return Err(failed(error)),
        };
        let replaces = replaced.is_some();
        let folder = target_file.parent().unwrap_or(Path::new("/"));
        let created = create_in(folder).or_else(|error| match error.kind() {
            // Asked once: there are folders that take no files and say so.
            io::ErrorKind::NotFound => folders.make(folder).and_then(|()| create_in(folder)),
            _ => Err(error),
        });
        let (path, file) = created.map_err(failed)?;
        let staged = Self { staged: path, target: target_file.clone(), replaces, place: Place::Beside };
        if let Some(replaced) = replaced {
            // Who could not read the one before cannot read this one. Only some may give files away; whoever replaces
            // another's keeps it.
            let _ = std::os::unix::fs::fchown(&file, Some(replaced.uid()), Some(replaced.gid()));
            file.set_permissions(replaced.permissions()).map_err(failed)?;
        }
        Ok((staged, StagedBytes { file, target: target_file, replaces }))
    }

    /// Puts the file under the name it was written for. Does not wait for the disk.
    ///
    /// # Errors
    /// Failures of the system.
    pub fn place(&mut self) -> Result<()> {
        fs::rename(&self.staged, &self.target)
            .map_err(|source| MediumError::from_write(&self.target, "put the file in place", source))?;
        self.place = Place::Target;
        Ok(())
    }

    /// Leaves the file where it is.
    pub fn keep(&mut self) {
        self.place = Place::Kept;
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // Whoever gives up has a reason of its own to tell.
        let _ = match self.place {
            Place::Beside => fs::remove_file(&self.staged),
            Place::Target if !self.replaces => fs::remove_file(&self.target),
            Place::Target | Place::Kept => Ok(()),
        };
    }
}

/// The bytes of a [`StagedFile`].
#[derive(Debug)]
pub struct StagedBytes {
    file: File,
    target: PathBuf,
    replaces: bool,
}

impl StagedBytes {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// Failures of the system, and a file that would be larger than it allows; they name the file by where it is to be.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let failed = |source| MediumError::from_write(&self.target, format!("write at byte {offset}"), source);
        require_file_size(offset, bytes.len()).and_then(|()| self.file.write_all_at(bytes, offset)).map_err(failed)
    }

    /// Called when all is written. What will take the place of another file is on the disk then: a crash must not lose
    /// both.
    ///
    /// # Errors
    /// Failures of the system, also those that writes before had and did not tell.
    pub fn finish(&self) -> Result<()> {
        if !self.replaces {
            return Ok(());
        }
        self.file.sync_all().map_err(|source| MediumError::from_write(&self.target, "write the file to disk", source))
    }
}

/// What a link leads to that has nothing at its end; other names are as they are.
fn followed(target: &Path) -> io::Result<PathBuf> {
    let mut end = target.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&end) {
            Ok(next) => end = end.parent().unwrap_or(Path::new("/")).join(next),
            // No link, or nothing.
            Err(_) => return Ok(end),
        }
    }
    // The system found an end just before.
    Err(io::Error::other("too many symbolic links"))
}

/// Creates a file of a name that no other has.
fn create_in(folder: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Ends: each name is tried once, and killed processes have left but so many.
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{STAGED_NAME}{}-{number}", std::process::id()));
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return outcome.map(|file| (path, file)),
        }
    }
}

/// Folders that were made for files. Dropped without [`keep`](Self::keep), those that are empty are removed.
#[derive(Debug, Default)]
pub struct MadeFolders {
    /// The outer ones first.
    made: Vec<PathBuf>,
}

impl MadeFolders {
    /// Leaves the folders.
    pub fn keep(&mut self) {
        self.made.clear();
    }

    /// Makes `folder`, and those it is to be in. What is there already is left to whoever uses it.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => self.made.push(folder.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // Others may have put something there.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests;
