//! Files in memory: for tests, and under a throttle in place of disks of any speed.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::medium::{name_taken, no_such_file, read_only, require_name, require_within};
use super::pending_read::length_bytes;
use super::{Medium, MediumFile};
use crate::Result;

/// Bytes of a file that lie together. Growing never moves what is there; a file of less takes what it needs.
const CHUNK_BYTES: usize = 1 << 20;

/// A medium whose files are in memory. Nothing survives it, so that syncs have nothing to do. Reads are copies, made in
/// the thread that asks for them.
#[derive(Debug, Default)]
pub struct MemoryMedium {
    files: RwLock<BTreeMap<String, Arc<MemoryFile>>>,
}

/// What a handle stands for.
struct OpenMemoryFile {
    file: Arc<MemoryFile>,
    is_writable: bool,
}

/// Chunks of [`CHUNK_BYTES`], all full but the last.
#[derive(Debug, Default)]
struct MemoryFile {
    chunks: RwLock<Vec<Vec<u8>>>,
}

impl MemoryMedium {
    /// A medium without files.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn handle(name: &str, file: Arc<MemoryFile>, is_writable: bool) -> MediumFile {
    MediumFile::new(name, Arc::new(OpenMemoryFile { file, is_writable }))
}

impl MemoryFile {
    fn chunks(&self) -> RwLockReadGuard<'_, Vec<Vec<u8>>> {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of(chunks: &[Vec<u8>]) -> usize {
    chunks.last().map_or(0, |last| (chunks.len() - 1) * CHUNK_BYTES + last.len())
}

/// Grows a file with zeros until it has `size` bytes.
fn grow(chunks: &mut Vec<Vec<u8>>, size: usize) {
    while size_of(chunks) < size {
        let wanted = size - size_of(chunks);
        match chunks.last_mut() {
            Some(last) if last.len() < CHUNK_BYTES => {
                let grown = last.len() + wanted.min(CHUNK_BYTES - last.len());
                last.resize(grown, 0);
            }
            _ => chunks.push(Vec::new()),
        }
    }
}

/// Calls `visit` with a chunk's index, the range within it, and the range within the buffer, for each chunk touched.
fn for_each_chunk(
    offset: usize,
    length: usize,
    mut visit: impl FnMut(usize, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < length {
        let at = offset + done;
        let within = at % CHUNK_BYTES;
        let count = (CHUNK_BYTES - within).min(length - done);
        visit(at / CHUNK_BYTES, within..within + count, done..done + count);
        done += count;
    }
}

impl Medium for MemoryMedium {
    fn describe(&self) -> String {
        "files in memory".to_owned()
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        require_name(name)?;
        let mut files = self.files_mut();
        if files.contains_key(name) {
            return Err(name_taken(name));
        }
        let file = Arc::new(MemoryFile::default());
        files.insert(name.to_owned(), Arc::clone(&file));
        Ok(handle(name, file, true))
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        require_name(name)?;
        let file = self.files().get(name).cloned().ok_or_else(|| no_such_file(name))?;
        Ok(handle(name, file, false))
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        require_name(name)?;
        let file = self.files().get(name).cloned().ok_or_else(|| no_such_file(name))?;
        Ok(handle(name, file, true))
    }

    fn remove(&self, name: &str) -> Result<()> {
        require_name(name)?;
        self.files_mut().remove(name).map(drop).ok_or_else(|| no_such_file(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        require_name(from)?;
        require_name(to)?;
        let mut files = self.files_mut();
        let file = files.remove(from).ok_or_else(|| no_such_file(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        Ok(size_of(&file.state::<OpenMemoryFile>()?.file.chunks()) as u64)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_vectored_at(file, offset_bytes, &mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored_at(&self, file: &MediumFile, offset_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        let chunks = file.state::<OpenMemoryFile>()?.file.chunks();
        require_within(file.name(), offset_bytes, length_bytes(parts), size_of(&chunks) as u64)?;
        let mut next = offset_bytes as usize;
        for buffer in parts {
            for_each_chunk(next, buffer.len(), |index, within, part| {
                buffer[part].copy_from_slice(&chunks[index][within]);
            });
            next += buffer.len();
        }
        Ok(())
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let state = file.state::<OpenMemoryFile>()?;
        if !state.is_writable {
            return Err(read_only(file.name()));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunks = state.file.chunks.write().unwrap_or_else(PoisonError::into_inner);
        grow(&mut chunks, offset_bytes as usize + bytes.len());
        for_each_chunk(offset_bytes as usize, bytes.len(), |index, within, part| {
            chunks[index][within].copy_from_slice(&bytes[part]);
        });
        Ok(())
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        file.state::<OpenMemoryFile>().map(drop)
    }

    fn sync_namespace(&self) -> Result<()> {
        Ok(())
    }
}
