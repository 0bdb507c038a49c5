//! Where operators write what they have no memory for: a file without a name in the temporary folder, which has pieces of
//! all that is written.
//!
//! **Owns**: making, writing and reading it. **Does not own**: what is in it and when it is needed (DataFusion's operators,
//! who take each of its parts for a file of its own, and have thousands of them).
//!
//! **Invariants**
//! - The file is in no folder from its beginning on, so that the system takes it back when the process ends, however that
//!   may be. There is no limit but the disk's.
//! - A piece belongs to one part. Whoever drops the last handle of a part leaves its pieces to others; when there is no part
//!   left, the file is gone.
//!
//! **Concurrency**: a part is written at its end by one writer, and may be read by many, at places of their own.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use parking_lot::Mutex;

/// Bytes read at once: a merge holds so many of each part that it reads.
const READ_BYTES: u64 = 128 << 10;

/// Bytes of a piece: many reads, and few to remember of a large part.
const PIECE_BYTES: u64 = 1 << 20;

/// Makes the parts.
#[derive(Debug)]
pub(crate) struct SpillFiles {
    folder: PathBuf,
    /// The file, as long as it has parts.
    whole: Mutex<Weak<Whole>>,
}

impl SpillFiles {
    /// In `folder`, which is made where it is not there when it is needed first.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, whole: Mutex::default() }
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let mut known = self.whole.lock();
        let whole = match known.upgrade() {
            Some(whole) => whole,
            None => {
                let create = || {
                    std::fs::create_dir_all(&self.folder)?;
                    tempfile::tempfile_in(&self.folder)
                };
                let file = create().map_err(|error| {
                    self::error(&format!("cannot make a file ({description})"), &self.folder, &error)
                })?;
                let whole = Arc::new(Whole { file, folder: self.folder.clone(), pieces: Mutex::default() });
                *known = Arc::downgrade(&whole);
                whole
            }
        };
        Ok(Arc::new(Part(Arc::new(Content { whole, places: Mutex::default(), written_bytes: AtomicU64::new(0) }))))
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

/// The file of all parts.
#[derive(Debug)]
struct Whole {
    file: File,
    folder: PathBuf,
    pieces: Mutex<Pieces>,
}

/// Where the next pieces come.
#[derive(Debug, Default)]
struct Pieces {
    end: u64,
    /// Where pieces were that no part has any more.
    left: Vec<u64>,
}

impl Pieces {
    /// The place of a piece that no part has.
    fn place(&mut self) -> u64 {
        self.left.pop().unwrap_or_else(|| {
            let place = self.end;
            self.end += PIECE_BYTES;
            place
        })
    }
}

/// What is written of a part.
#[derive(Debug)]
struct Content {
    whole: Arc<Whole>,
    /// Of its pieces, of which all but the last are full.
    places: Mutex<Vec<u64>>,
    written_bytes: AtomicU64,
}

impl Content {
    /// Where the part's byte `offset` lies, and how many bytes of its piece there are from there on.
    fn place(&self, offset: u64) -> (u64, u64) {
        let (piece, within) = (offset / PIECE_BYTES, offset % PIECE_BYTES);
        let mut places = self.places.lock();
        if piece as usize == places.len() {
            places.push(self.whole.pieces.lock().place());
        }
        (places[piece as usize] + within, PIECE_BYTES - within)
    }

    /// The bytes from `offset` on, up to [`READ_BYTES`]; none at the end.
    fn read(&self, offset: u64) -> io::Result<Bytes> {
        let left = self.written_bytes.load(Ordering::Acquire).saturating_sub(offset);
        if left == 0 {
            return Ok(Bytes::new());
        }
        let (place, in_piece) = self.place(offset);
        let mut bytes = vec![0; left.min(in_piece).min(READ_BYTES) as usize];
        self.whole.file.read_exact_at(&mut bytes, place)?;
        Ok(bytes.into())
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.whole.pieces.lock().left.append(self.places.get_mut());
    }
}

#[derive(Debug)]
struct Part(Arc<Content>);

impl SpillFile for Part {
    fn size(&self) -> Option<u64> {
        Some(self.0.written_bytes.load(Ordering::Acquire))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let content = Arc::clone(&self.0);
        let read_from = move |offset: u64| {
            let content = Arc::clone(&content);
            async move {
                let read =
                    move || content.read(offset).map_err(|failed| error("cannot read", &content.whole.folder, &failed));
                let read = tokio::task::spawn_blocking(read).await;
                let bytes = read.map_err(|error| DataFusionError::External(Box::new(error)))??;
                let next = offset + bytes.len() as u64;
                Ok((!bytes.is_empty()).then_some((bytes, next)))
            }
        };
        Ok(Box::pin(stream::try_unfold(0, read_from)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

/// Writes at the end.
#[derive(Debug)]
struct Writer(Arc<Content>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self(content) = self;
        let offset = content.written_bytes.load(Ordering::Acquire);
        let (place, in_piece) = content.place(offset);
        let bytes = &bytes[..bytes.len().min(in_piece as usize)];
        let written = content.whole.file.write_at(bytes, place).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => in_folder("cannot write", &content.whole.folder, &error),
        })?;
        content.written_bytes.store(offset + written as u64, Ordering::Release);
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

    fn content(seed: usize, length: u64) -> Vec<u8> {
        (0..length as usize).map(|at| (at * 7 % 251 + seed) as u8).collect()
    }

    fn write(file: &Arc<dyn SpillFile>, content: &[u8]) {
        let mut writer = file.open_writer().unwrap();
        writer.write_all(content).unwrap();
        writer.finish().unwrap();
    }

    async fn read(file: &Arc<dyn SpillFile>) -> Vec<u8> {
        file.read_stream().unwrap().try_collect::<Vec<_>>().await.unwrap().concat()
    }

    #[tokio::test]
    async fn what_was_written_is_read_by_several_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(folder.path().join("made when it is needed"));
        let [file, other] = [(); 2].map(|()| files.create_temp_file("a test").unwrap());
        // Two writers one after the other: the second goes on where the first one ended. Another part is written between
        // them.
        let [content, between] = [content(0, 2 * PIECE_BYTES + 3 * READ_BYTES + 17), content(4, PIECE_BYTES + 1)];
        let (first, second) = content.split_at(READ_BYTES as usize + 5);
        write(&file, first);
        write(&other, &between);
        write(&file, second);
        assert_eq!(file.size(), Some(content.len() as u64));
        assert_eq!(std::fs::read_dir(&files.folder).unwrap().count(), 0);
        let mut streams = [file.read_stream().unwrap(), file.read_stream().unwrap()];
        // What is being read stays.
        drop(file);
        write(&files.create_temp_file("a third").unwrap(), &between);
        let mut read_by = [Vec::new(), Vec::new()];
        for _ in 0..40 {
            for (stream, read) in streams.iter_mut().zip(&mut read_by) {
                read.extend(stream.try_next().await.unwrap().unwrap_or_default());
            }
        }
        assert!(read_by.iter().all(|read| *read == content));
        assert_eq!(read(&other).await, between);
    }

    #[tokio::test]
    async fn the_room_of_parts_that_are_gone_is_used_again_and_given_back_with_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(folder.path().to_owned());
        let kept = files.create_temp_file("a test").unwrap();
        let kept_content = content(1, 2 * PIECE_BYTES - 1);
        write(&kept, &kept_content);
        for seed in 2..9 {
            let file = files.create_temp_file("a test").unwrap();
            let content = content(seed, 3 * PIECE_BYTES);
            write(&file, &content);
            assert_eq!(read(&file).await, content, "{seed}");
        }
        assert_eq!(read(&kept).await, kept_content);
        let whole = files.whole.lock().upgrade().unwrap();
        assert_eq!(whole.file.metadata().unwrap().len(), 5 * PIECE_BYTES);
        drop((whole, kept));
        assert!(files.whole.lock().upgrade().is_none());
        assert!(read(&files.create_temp_file("a test").unwrap()).await.is_empty());
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
