//! One read between its submission and its completion.
//!
//! **Owns:** the read's box, and with it the memory that the kernel is given addresses of.
//!
//! **Invariants:** the box is taken apart by [`Flight::new`] and put together by [`Flight::finish`] alone; in between
//! nobody but the kernel has access to the memory.

// The kernel is given addresses; no safe form of io_uring exists that takes memory by another owner.
#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use io_uring::{opcode, types};

use crate::storage::direct::file::DirectFile;
use crate::storage::direct::read_progress::{ReadProgress, Verdict};
use crate::storage::direct::vectored::{PARTS_MAX, alignment_bits};
use crate::storage::{Destination, MediumFile, PendingRead, ReadAt};
use crate::{MediumError, Result};

/// The most that is asked of the kernel at once; it transfers no more than 2 GiB less a page.
const TRANSFER_MAX_BYTES: usize = 1 << 30;

/// A read on its way: the box of its owner taken apart, so that nothing but the kernel has access to its memory.
pub(super) struct Flight {
    /// From `Box::into_raw`; given back by `finish`.
    read: *mut dyn PendingRead,
    /// What of the destination, which `read` has lent until `finish`, has yet to be filled.
    memory: Memory,
    progress: ReadProgress,
    file: MediumFile,
    /// Whether the last transfer was asked to go past the page cache.
    direct: bool,
}

/// Addresses that the kernel is given. No references: the kernel writes there while this is moved about.
pub(super) enum Memory {
    /// From here on.
    One(*mut u8),
    /// These parts from the given one on. In a box, for the kernel may look at them until it has answered. `'static`
    /// stands for the time until `finish`; an `IoSliceMut` is an address and a length.
    Several(Box<[IoSliceMut<'static>]>, usize),
}

impl Memory {
    /// So many bytes of it are filled.
    pub(super) fn advance(&mut self, bytes: usize) {
        match self {
            Self::One(start) => *start = start.wrapping_add(bytes),
            Self::Several(parts, first) => {
                let mut rest = &mut parts[*first..];
                let count = rest.len();
                IoSliceMut::advance_slices(&mut rest, bytes);
                *first += count - rest.len();
            }
        }
    }

    /// As [`ReadProgress::may_go_direct`] asks for it.
    fn alignment_bits(&self) -> usize {
        match self {
            Self::One(start) => start.addr(),
            Self::Several(parts, first) => alignment_bits(&parts[*first..]),
        }
    }
}

// SAFETY: stands for a `Box<dyn PendingRead>`, which is `Send`, and a `Destination` lent by it, which is `Send` too.
unsafe impl Send for Flight {}

impl Flight {
    /// Takes the box of a read apart.
    pub(super) fn new(ReadAt { file, offset_bytes, read }: ReadAt) -> Self {
        let read = Box::into_raw(read);
        // SAFETY: the pointer comes from a box, and nothing else uses it before `finish` makes it a box again. The
        // borrow that `destination` returns is taken to last until then: lifetimes don't change what an implementation
        // does, so it can't tell this caller from one that holds the slice in a local variable all the while.
        let destination: Destination<'static> = unsafe { (*read).destination() };
        let progress = ReadProgress::new(offset_bytes, destination.length_bytes());
        let mut memory = match destination {
            Destination::One(bytes) => Memory::One(bytes.as_mut_ptr()),
            Destination::Several(parts) => Memory::Several(parts.into(), 0),
        };
        memory.advance(0); // past parts that are empty
        Self { read, memory, progress, file, direct: false }
    }

    /// The entry that asks the kernel for what remains.
    pub(super) fn entry(&mut self, user_data: u64) -> Result<io_uring::squeue::Entry> {
        let way = self.file.state::<DirectFile>()?.way(self.progress.may_go_direct(self.memory.alignment_bits()));
        let (file, direct) =
            way.map_err(|source| MediumError::from_io(self.file.name().as_ref(), "open it anew", source))?;
        self.direct = direct;
        let (file, offset_bytes) = (types::Fd(file.as_raw_fd()), self.progress.next_offset_bytes());
        let entry = match &self.memory {
            Memory::One(start) => {
                let length = self.progress.remaining().len().min(TRANSFER_MAX_BYTES) as u32;
                opcode::Read::new(file, *start, length).offset(offset_bytes).build()
            }
            Memory::Several(parts, first) => {
                let rest = &parts[*first..];
                // An `IoSliceMut` has the form of an `iovec` on Unix, as its documentation promises.
                let vectors = rest.as_ptr().cast::<libc::iovec>();
                opcode::Readv::new(file, vectors, rest.len().min(PARTS_MAX) as u32).offset(offset_bytes).build()
            }
        };
        Ok(entry.user_data(user_data))
    }

    /// Takes in what the kernel has answered.
    pub(super) fn answered(&mut self, answer: io::Result<usize>) -> Verdict {
        if let Ok(read_bytes) = answer {
            self.memory.advance(read_bytes);
        }
        self.progress.answered(answer, self.direct)
    }

    /// What the read comes to, when it is over.
    pub(super) fn result(&self, verdict: Verdict) -> Result<()> {
        self.file.state::<DirectFile>()?.read_result(&self.progress, verdict)
    }

    /// Reads what remains in this thread.
    pub(super) fn read_blocking(mut self) {
        let (offset_bytes, length) = (self.progress.next_offset_bytes(), self.progress.remaining().len());
        let outcome = self.file.state::<DirectFile>().and_then(|file| match &mut self.memory {
            Memory::One(start) => {
                // SAFETY: the destination is lent until `finish`, so many bytes of it remain from there on, and the
                // kernel has no part of it: flights come here from the queue or after their entry was answered.
                let bytes = unsafe { std::slice::from_raw_parts_mut(*start, length) };
                file.read_vectored_at(offset_bytes, &mut [IoSliceMut::new(bytes)])
            }
            Memory::Several(parts, first) => file.read_vectored_at(offset_bytes, &mut parts[*first..]),
        });
        self.finish(outcome);
    }

    /// Gives the memory back and tells the owner. One that panics must not end the reads of all others.
    pub(super) fn finish(self, outcome: Result<()>) {
        let Self { read, memory, .. } = self;
        drop(memory);
        // SAFETY: the pointer comes from `Box::into_raw` and becomes a box only here, once, as `self` is consumed. The
        // kernel is done with the memory, and the slices that were lent are gone.
        let read = unsafe { Box::from_raw(read) };
        let _ = catch_unwind(AssertUnwindSafe(|| read.completed(outcome)));
    }
}
