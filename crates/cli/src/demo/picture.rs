//! The file that the picture of the times goes to: tried before the story, so that no minutes are spent in vain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A place that can be written. Dropped before a picture is there, it leaves nothing behind.
pub(super) struct Picture {
    path: PathBuf,
    is_new: bool,
}

impl Picture {
    /// Sees whether `path` can be written. What is there stays until the picture is drawn.
    ///
    /// # Errors
    /// With the path, when it cannot.
    pub(super) fn at(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| Failure::File { path: path.to_owned(), error })?;
        let is_new = match File::create_new(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let opened = File::options().write(true).open(&path);
                opened.map_err(|error| Failure::File { path: path.clone(), error })?;
                false
            }
            Err(error) => return Err(Failure::File { path, error }),
        };
        Ok(Self { path, is_new })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing was there before.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        if self.is_new && std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_is_tried_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.svg");
        let picture = Picture::at(&path).unwrap();
        assert!(picture.is_new());
        drop(picture);
        assert!(!path.exists());

        let picture = Picture::at(&path).unwrap();
        std::fs::write(picture.path(), "<svg/>").unwrap();
        drop(picture);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<svg/>");

        let again = Picture::at(&path).unwrap();
        assert!(!again.is_new());
        drop(again);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<svg/>");

        for wrong in [folder.path().to_owned(), folder.path().join("nowhere/times.svg")] {
            let failure = Picture::at(&wrong).err().unwrap();
            assert!(failure.to_string().contains(&wrong.display().to_string()), "{failure}");
        }
    }
}
