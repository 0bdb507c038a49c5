//! The file that the picture of the times goes to: tried before the story, so that no minutes are spent in vain.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A place that can be written. Dropped before a picture is there, it leaves nothing behind.
pub(super) struct Picture {
    path: PathBuf,
    found: Found,
}

/// What was at the place.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A file.
    File,
    /// Nothing; this file was made to try the place, without the links that lead to it.
    Nothing { made: PathBuf },
    /// A pipe or a device, which was not tried.
    Stream,
}

impl Picture {
    /// Sees whether `path` can be written. What is there stays until the picture is drawn. Pipes and devices are not
    /// tried: opening a pipe waits for its reader.
    ///
    /// # Errors
    /// With the path, when it cannot.
    pub(super) fn at(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| Failure::File { path: path.to_owned(), error })?;
        let found = attempt(&path).map_err(|error| Failure::File { path: path.clone(), error })?;
        Ok(Self { path, found })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file was there before.
    pub(super) fn replaces_another(&self) -> bool {
        self.found == Found::File
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        let Found::Nothing { made } = &self.found else { return };
        if std::fs::metadata(made).is_ok_and(|metadata| metadata.len() == 0) {
            let _ = std::fs::remove_file(made);
        }
    }
}

/// Opens `path` if that cannot wait.
fn attempt(path: &Path) -> io::Result<Found> {
    let mut options = File::options();
    options.write(true);
    match std::fs::metadata(path) {
        // Folders too, for the error.
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => options.open(path).map(|_| Found::File),
        Ok(_) => Ok(Found::Stream),
        // Nothing is there, or a link to nothing, which is followed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.create(true).truncate(false).open(path)?;
            Ok(Found::Nothing { made: path.canonicalize()? })
        }
        Err(error) => Err(error),
    }
}

/// Puts into `path` what `write` writes. A file that it wrote a part of, as on a full disk, is removed.
///
/// # Errors
/// With the path, when it cannot be opened or written.
pub(super) fn draw(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let outcome = File::create(path).and_then(|mut file| {
        let written = write(&mut file);
        // Not a device, of which nothing is cut short.
        if written.is_err() && file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            // The file, not a link that leads to it.
            let _ = path.canonicalize().and_then(std::fs::remove_file);
        }
        written
    });
    outcome.map_err(|error| Failure::File { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_place_is_tried_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.svg");
        let picture = Picture::at(&path).unwrap();
        assert!(!picture.replaces_another());
        drop(picture);
        assert!(!path.exists());

        let picture = Picture::at(&path).unwrap();
        std::fs::write(picture.path(), "<svg/>").unwrap();
        drop(picture);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<svg/>");

        let again = Picture::at(&path).unwrap();
        assert!(again.replaces_another());
        drop(again);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<svg/>");

        for wrong in [folder.path().to_owned(), folder.path().join("nowhere/times.svg")] {
            let failure = Picture::at(&wrong).err().unwrap();
            assert!(failure.to_string().contains(&wrong.display().to_string()), "{failure}");
        }
    }

    #[test]
    fn a_link_to_nothing_leads_to_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link.svg"), folder.path().join("target.svg"));
        std::os::unix::fs::symlink("target.svg", &link).unwrap();
        let picture = Picture::at(&link).unwrap();
        assert!(target.exists() && !picture.replaces_another());
        drop(picture);
        assert!(link.is_symlink() && !target.exists());

        let picture = Picture::at(&link).unwrap();
        draw(picture.path(), |file| file.write_all(b"<svg/>")).unwrap();
        drop(picture);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "<svg/>");
    }

    #[test]
    fn a_pipe_is_not_waited_for_before_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (sender, receiver) = mpsc::channel();
        let tried = path.clone();
        std::thread::spawn(move || sender.send(Picture::at(&tried)));
        let picture = receiver.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        assert!(!picture.replaces_another());
        drop(picture);
        assert!(path.exists());
    }

    #[test]
    fn a_picture_that_is_cut_short_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, path) = (folder.path().join("link.svg"), folder.path().join("times.svg"));
        std::os::unix::fs::symlink("times.svg", &link).unwrap();
        for place in [&path, &link] {
            std::fs::write(&path, "an older one").unwrap();
            let failure = draw(place, |file| {
                file.write_all(b"<svg>")?;
                Err(io::ErrorKind::StorageFull.into())
            });
            assert_eq!(failure.unwrap_err().exit_code(), 3);
            assert!(!path.exists() && link.is_symlink());
        }
    }
}
