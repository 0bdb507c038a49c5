//! Parquet files as the buffer pool reads them: through the open files of the queries that ask.
//!
//! Owns: which open file a read goes to ([`OpenHandles`]), and the way there ([`OpenFiles`]): local files are read on
//! the runtime's blocking threads, objects by requests on the runtime, neighbouring reads together. Does not own: what
//! is asked for (the pool), or whether a file is still the one that was opened, which it says itself.
//!
//! Invariants. The pool keeps no file open: it reads on behalf of queries, which do. Of several that have a version
//! open the one that opened it last serves: what others may read with can have run out since. A read that finds the file
//! changed fails. Every read that was handed over is completed, or dropped with the runtime, which the pool's readers hear
//! of too. A request that fails is not made again, nor in parts: the store's client has retried what can be, and waited
//! for as long as it should.
//!
//! Reads need no alignment, since they go through the system's page cache, or over the network.

use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thermocline_medium::{Destination, Medium, MediumError, MediumFile, PinnedFile, ReadAt, RemoteFile};
use tokio::runtime::Handle;

use super::file::ParquetFile;

/// Result of the medium's calls.
type Result<T> = std::result::Result<T, MediumError>;

/// How reads of one file are put together.
#[derive(Debug, Clone, Copy)]
struct Joining {
    /// Bytes between two reads that are done by one, at most.
    gap_bytes: u64,
    /// Bytes from the first to the last, at most, unless a single read is more.
    most_bytes: u64,
}

/// A blocking thread's task costs as much as some kilobytes; two megabytes keep a disk busy, and several tasks all of
/// it.
const LOCAL: Joining = Joining { gap_bytes: 64 << 10, most_bytes: 2 << 20 };

/// A request costs as much as some megabytes. What lies between two reads is fetched in vain: as much as
/// `object_store`'s own joining allows. Stores answer several requests of some megabytes faster than one of many.
const REMOTE: Joining = Joining { gap_bytes: object_store::OBJECT_STORE_COALESCE_DEFAULT, most_bytes: 8 << 20 };

/// One version of a file, as open as the queries that read it have it.
#[derive(Debug, Default)]
pub(super) struct OpenHandles {
    /// Those asked with last at the end.
    open: Mutex<Vec<OpenHandle>>,
}

#[derive(Debug)]
enum OpenHandle {
    Local(Weak<PinnedFile>),
    Remote(Weak<RemoteFile>),
}

impl OpenHandle {
    fn file(&self) -> Option<ParquetFile> {
        match self {
            Self::Local(file) => file.upgrade().map(ParquetFile::Local),
            Self::Remote(file) => file.upgrade().map(ParquetFile::Remote),
        }
    }

    fn is_of(&self, file: &ParquetFile) -> bool {
        match (self, file) {
            (Self::Local(known), ParquetFile::Local(file)) => std::ptr::eq(known.as_ptr(), Arc::as_ptr(file)),
            (Self::Remote(known), ParquetFile::Remote(file)) => std::ptr::eq(known.as_ptr(), Arc::as_ptr(file)),
            _ => false,
        }
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Local(file) => file.strong_count() == 0,
            Self::Remote(file) => file.strong_count() == 0,
        }
    }
}

impl OpenHandles {
    /// Has reads go through `file` from now on, for as long as somebody has it and until this is told of another.
    pub(super) fn add(&self, file: &ParquetFile) {
        let mut open = self.open.lock();
        open.retain(|handle| !handle.is_closed() && !handle.is_of(file));
        open.push(match file {
            ParquetFile::Local(file) => OpenHandle::Local(Arc::downgrade(file)),
            ParquetFile::Remote(file) => OpenHandle::Remote(Arc::downgrade(file)),
        });
    }

    fn file(&self) -> Option<ParquetFile> {
        self.open.lock().iter().rev().find_map(OpenHandle::file)
    }
}

/// All open Parquet files as a medium that can be read from by [`submit`](Medium::submit).
#[derive(Debug)]
pub(super) struct OpenFiles;

impl OpenFiles {
    /// The file that is called `name` as the pool knows it.
    pub(super) fn handle(name: &str, handles: &Arc<OpenHandles>) -> MediumFile {
        let handles = Arc::clone(handles);
        MediumFile::new(name, handles)
    }
}

fn open_file(file: &MediumFile) -> Result<ParquetFile> {
    file.state::<OpenHandles>()?.file().ok_or_else(|| MediumError::Io {
        path: file.name().to_owned(),
        action: "read from it".to_owned(),
        source: std::io::Error::other("no query has it open any more"),
    })
}

/// The error for anything but reading.
fn read_only<T>(name: &str) -> Result<T> {
    Err(MediumError::Io {
        path: name.to_owned(),
        action: "do more than read it".to_owned(),
        source: std::io::Error::other("it is not the database's own"),
    })
}

impl Medium for OpenFiles {
    fn describe(&self) -> String {
        "Parquet files and objects that queries have open".to_owned()
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        read_only(name)
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        read_only(name)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        read_only(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        read_only(name)
    }

    fn rename(&self, from: &str, _to: &str) -> Result<()> {
        read_only(from)
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        Ok(open_file(file)?.size_bytes())
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        match open_file(file)? {
            ParquetFile::Local(file) => read_local(&file, offset_bytes, Destination::One(buffer)),
            // Nobody may block on a request here.
            ParquetFile::Remote(_) => read_only(file.name()),
        }
    }

    fn submit(&self, mut reads: Vec<ReadAt>) {
        while let Some(first) = reads.first() {
            let file = first.file.clone();
            let (of_file, others) = reads.into_iter().partition(|read: &ReadAt| read.file.is_same(&file));
            reads = others;
            match open_file(&file) {
                Ok(ParquetFile::Local(file)) => submit_local(&file, of_file),
                Ok(ParquetFile::Remote(file)) => submit_remote(&file, of_file),
                // Each is told why; the file may be open by then.
                Err(_) => of_file.into_iter().for_each(|asked| match open_file(&asked.file) {
                    Ok(ParquetFile::Local(file)) => submit_local(&file, vec![asked]),
                    Ok(ParquetFile::Remote(file)) => submit_remote(&file, vec![asked]),
                    Err(error) => asked.read.completed(Err(error)),
                }),
            }
        }
    }

    fn write_at(&self, file: &MediumFile, _offset_bytes: u64, _bytes: &[u8]) -> Result<()> {
        read_only(file.name())
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        read_only(file.name())
    }

    fn sync_namespace(&self) -> Result<()> {
        Ok(())
    }
}

fn submit_local(file: &Arc<PinnedFile>, reads: Vec<ReadAt>) {
    for (_, reads) in joined(reads, LOCAL) {
        let file = Arc::clone(file);
        let read_all = move || {
            for ReadAt { offset_bytes, mut read, .. } in reads {
                let outcome = read_local(&file, offset_bytes, read.destination());
                read.completed(outcome);
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(read_all)),
            Err(_) => read_all(),
        }
    }
}

fn read_local(file: &PinnedFile, offset_bytes: u64, destination: Destination<'_>) -> Result<()> {
    fill(destination, offset_bytes, |next_bytes, part| file.read_exact_at(part, next_bytes))?;
    file.require_unwritten()
}

/// Fills each part of a read by `read`, which is told where the part begins in the file.
fn fill(
    destination: Destination<'_>,
    offset_bytes: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut next_bytes = offset_bytes;
    match destination {
        Destination::One(part) => read(next_bytes, part),
        Destination::Several(parts) => parts.into_iter().try_for_each(|mut part| {
            read(next_bytes, &mut part)?;
            next_bytes += part.len() as u64;
            Ok(())
        }),
    }
}

fn submit_remote(file: &Arc<RemoteFile>, reads: Vec<ReadAt>) {
    let Ok(runtime) = Handle::try_current() else {
        // Dropped reads are an error for who waits for them; scans always run within a runtime.
        return;
    };
    for (range, reads) in joined(reads, REMOTE) {
        let file = Arc::clone(file);
        drop(runtime.spawn(async move { read_remote(&file, range, reads).await }));
    }
}

/// One request for all of `range`, of which `reads` want parts. If it fails, all have the same error.
async fn read_remote(file: &RemoteFile, range: Range<u64>, reads: Vec<ReadAt>) {
    let found = file.read_range(range.clone()).await.map_err(Arc::new);
    for ReadAt { offset_bytes, mut read, .. } in reads {
        let outcome = match &found {
            Ok(bytes) => copy_from(file, bytes, range.start, offset_bytes, read.destination()),
            Err(error) => Err(MediumError::Shared(Arc::clone(error))),
        };
        read.completed(outcome);
    }
}

/// Fills `destination` from `bytes`, which begin at `start_bytes` of the file.
fn copy_from(
    file: &RemoteFile,
    bytes: &[u8],
    start_bytes: u64,
    offset_bytes: u64,
    destination: Destination<'_>,
) -> Result<()> {
    let length_bytes = destination.length_bytes() as u64;
    fill(destination, offset_bytes, |next_bytes, part| {
        // Within a range that was asked for: the distance fits.
        let start = (next_bytes - start_bytes) as usize;
        let Some(found) = bytes.get(start..start + part.len()) else {
            let (path, size_bytes) = (file.version().path.to_string(), file.size_bytes());
            return Err(MediumError::PastEnd { path, offset_bytes, length_bytes, size_bytes });
        };
        part.copy_from_slice(found);
        Ok(())
    })
}

/// The reads in the order of the file, those together that lie close to each other, each group with the range that it
/// covers.
fn joined(mut reads: Vec<ReadAt>, joining: Joining) -> Vec<(Range<u64>, Vec<ReadAt>)> {
    reads.sort_by_key(|read| read.offset_bytes);
    let mut groups: Vec<(Range<u64>, Vec<ReadAt>)> = Vec::new();
    for mut read in reads {
        let start = read.offset_bytes;
        let end = start + read.read.destination().length_bytes() as u64;
        match groups.last_mut() {
            Some((range, group))
                if start <= range.end.saturating_add(joining.gap_bytes)
                    && end.saturating_sub(range.start) <= joining.most_bytes =>
            {
                range.end = range.end.max(end);
                group.push(read);
            }
            _ => groups.push((start..end, vec![read])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::IoSliceMut;

    use thermocline_medium::PendingRead;

    use super::*;

    struct Asked(Vec<u8>);

    impl PendingRead for Asked {
        fn destination(&mut self) -> Destination<'_> {
            Destination::One(&mut self.0)
        }

        fn completed(self: Box<Self>, _outcome: Result<()>) {}
    }

    fn ranges(reads: &[(u64, usize)], joining: Joining) -> Vec<(Range<u64>, usize)> {
        let file = OpenFiles::handle("a.parquet", &Arc::default());
        let reads = reads.iter().map(|&(offset_bytes, length)| ReadAt {
            file: file.clone(),
            offset_bytes,
            read: Box::new(Asked(vec![0; length])),
        });
        joined(reads.collect(), joining).into_iter().map(|(range, reads)| (range, reads.len())).collect()
    }

    #[test]
    fn reads_close_to_each_other_are_one_up_to_a_size() {
        let joining = Joining { gap_bytes: 10, most_bytes: 100 };
        assert_eq!(ranges(&[(60, 20), (0, 50)], joining), [(0..80, 2)], "in the order of the file");
        assert_eq!(ranges(&[(0, 50), (61, 20)], joining), [(0..50, 1), (61..81, 1)], "too far apart");
        assert_eq!(ranges(&[(0, 50), (50, 50), (100, 50)], joining), [(0..100, 2), (100..150, 1)]);
        assert_eq!(ranges(&[(0, 500), (500, 1)], joining), [(0..500, 1), (500..501, 1)], "one alone may be larger");
        assert!(ranges(&[], joining).is_empty());
    }

    #[test]
    fn each_part_of_a_read_is_filled_from_where_the_one_before_ends() {
        let file: Vec<u8> = (0..100).collect();
        let read = |offset_bytes: u64, part: &mut [u8]| {
            let start = offset_bytes as usize;
            part.copy_from_slice(&file[start..start + part.len()]);
            Ok(())
        };
        let mut whole = [0; 9];
        fill(Destination::One(&mut whole), 20, read).unwrap();
        let (mut first, mut second, mut third) = ([0; 2], [0; 0], [0; 7]);
        let parts = [&mut first[..], &mut second, &mut third].map(IoSliceMut::new);
        fill(Destination::Several(parts.into()), 20, read).unwrap();
        assert_eq!((first.as_slice(), third.as_slice()), whole.split_at(2));
    }

    #[test]
    fn a_file_that_no_query_has_open_is_an_error_that_names_it() {
        let file = OpenFiles::handle("/data/a.parquet", &Arc::default());
        let error = OpenFiles.read_at(&file, 0, &mut [0; 4]).unwrap_err().to_string();
        assert!(error.contains("/data/a.parquet: cannot read") && error.contains("no query has it open"), "{error}");
        let error = OpenFiles.write_at(&file, 0, &[0; 4]).unwrap_err().to_string();
        assert!(error.starts_with("/data/a.parquet: cannot do more than read it"), "{error}");
    }
}
