//! Where operators write what they have no memory for: files without a name in the temporary folder.
//!
//! **Owns**: making, writing and reading them. **Does not own**: what is in them and when they are needed (DataFusion's
//! operators).
//!
//! **Invariants**: a file is in no folder from its beginning on, so that the system takes it back when the process ends,
//! however that may be. There is no limit but the disk's.
//!
//! **Concurrency**: a file is written at its end by one writer, and may be read by many, at places of their own.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};

/// Bytes read at once: a merge holds so many of each file that it reads.
const READ_BYTES: usize = 128 << 10;

/// Makes the files in one folder.
#[derive(Debug)]
pub(crate) struct SpillFiles {
    folder: PathBuf,
}

impl SpillFiles {
    /// In `folder`, which is made where it is not there when it is needed first.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let create = || {
            std::fs::create_dir_all(&self.folder)?;
            tempfile::tempfile_in(&self.folder)
        };
        let file = create()
            .map_err(|error| self::error(&format!("cannot make a file ({description})"), &self.folder, &error))?;
        let folder = Arc::from(self.folder.as_path());
        Ok(Arc::new(UnnamedFile { file: Arc::new(file), written_bytes: Arc::default(), folder }))
    }
}

/// An error that says which folder it is of, and of the same kind.
fn error(what: &str, folder: &Path, error: &io::Error) -> DataFusionError {
    DataFusionError::IoError(in_folder(what, folder, error))
}

fn in_folder(what: &str, folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("{what} in {}, where goes what there is no memory for: {error}", folder.display()),
    )
}

#[derive(Debug)]
struct UnnamedFile {
    file: Arc<File>,
    written_bytes: Arc<AtomicU64>,
    folder: Arc<Path>,
}

impl SpillFile for UnnamedFile {
    fn size(&self) -> Option<u64> {
        Some(self.written_bytes.load(Ordering::Acquire))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let (file, folder) = (Arc::clone(&self.file), Arc::clone(&self.folder));
        let read_from = move |offset: u64| {
            let (file, folder) = (Arc::clone(&file), Arc::clone(&folder));
            async move {
                let read = tokio::task::spawn_blocking(move || read_at(&file, offset)).await;
                let read = read.map_err(|error| DataFusionError::External(Box::new(error)))?;
                let bytes = read.map_err(|failed| error("cannot read", &folder, &failed))?;
                let next = offset + bytes.len() as u64;
                Ok((!bytes.is_empty()).then_some((bytes, next)))
            }
        };
        Ok(Box::pin(stream::try_unfold(0, read_from)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let Self { file, written_bytes, folder } = self;
        let (file, written_bytes, folder) = (Arc::clone(file), Arc::clone(written_bytes), Arc::clone(folder));
        Ok(Box::new(Writer { file, written_bytes, folder }))
    }
}

/// The bytes from `offset` on, up to [`READ_BYTES`]; none at the end.
fn read_at(file: &File, offset: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; READ_BYTES];
    let mut count = 0;
    while count < bytes.len() {
        match file.read_at(&mut bytes[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(count);
    Ok(bytes.into())
}

/// Writes at the end.
#[derive(Debug)]
struct Writer {
    file: Arc<File>,
    written_bytes: Arc<AtomicU64>,
    folder: Arc<Path>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let offset = self.written_bytes.load(Ordering::Acquire);
        let written = self.file.write_at(bytes, offset).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => in_folder("cannot write", &self.folder, &error),
        })?;
        self.written_bytes.store(offset + written as u64, Ordering::Release);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn what_was_written_is_read_by_several_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(folder.path().join("made when it is needed"));
        let file = files.create_temp_file("a test").unwrap();
        let content: Vec<u8> = (0..3 * READ_BYTES + 17).map(|at| (at % 251) as u8).collect();
        // Two writers one after the other: the second goes on where the first one ended.
        let (first, second) = content.split_at(READ_BYTES + 5);
        for part in [first, second] {
            let mut writer = file.open_writer().unwrap();
            writer.write_all(part).unwrap();
            writer.finish().unwrap();
        }
        assert_eq!(file.size(), Some(content.len() as u64));
        assert_eq!(std::fs::read_dir(&files.folder).unwrap().count(), 0);
        let mut streams = [file.read_stream().unwrap(), file.read_stream().unwrap()];
        let mut read = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            for (stream, read) in streams.iter_mut().zip(&mut read) {
                read.extend(stream.try_next().await.unwrap().unwrap_or_default());
            }
        }
        assert!(read.iter().all(|read| *read == content));
    }

    #[test]
    fn an_error_names_the_folder_and_keeps_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        std::fs::write(&file, "").unwrap();
        let Err(error) = SpillFiles::new(file).create_temp_file("a test").map(|_| ()) else { panic!("no folder") };
        let DataFusionError::IoError(cause) = &error else { panic!("{error:?}") };
        assert_eq!(cause.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("a file"), "{error}");
    }
}
