//! A read that a medium carries out while its caller goes on.

use std::io::IoSliceMut;
use std::thread::{self, JoinHandle};

use super::MediumFile;
use crate::Result;

/// The memory that one read fills.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Memory that lies together: the shortest way.
    One(&'a mut [u8]),
    /// Memory in several places, filled one after the other, as `readv` does. A read goes past the page cache only if the
    /// address of each and the lengths of all are multiples of [`DIRECT_ALIGNMENT_BYTES`](super::DIRECT_ALIGNMENT_BYTES).
    Several(Vec<IoSliceMut<'a>>),
}

impl Destination<'_> {
    /// The length of the read.
    pub fn length_bytes(&self) -> usize {
        match self {
            Self::One(part) => part.len(),
            Self::Several(parts) => length_bytes(parts),
        }
    }
}

/// Of all parts together.
pub(super) fn length_bytes(parts: &[IoSliceMut<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Where a read goes, and what happens when it is done.
///
/// The medium owns the value from submission to completion, so that memory the device writes to can neither be freed
/// nor looked at meanwhile, whatever becomes of the caller. Implement it on what is needed to make the read known: a
/// buffer pool's on the frame it fills and those who wait for it. [`ReadQueue`](super::ReadQueue) is a ready-made one.
///
/// The trait is safe to implement although the system writes through a pointer: the medium calls
/// [`destination`](Self::destination) and treats the last borrow that it returns as alive until it calls
/// [`completed`](Self::completed), exactly as an `async` block would that holds the slice while it waits.
pub trait PendingRead: Send {
    /// The memory to fill; its length is the length of the read. The same memory at every call. May be called by the
    /// thread that submits and by one of the medium's.
    fn destination(&mut self) -> Destination<'_>;

    /// Called once, when the destination is filled or the read has failed; after a failure the destination holds
    /// anything. Runs on a thread that serves all reads of the medium: publish, wake and return, and neither block
    /// nor panic. Submitting further reads is allowed.
    fn completed(self: Box<Self>, outcome: Result<()>);
}

/// One read to submit.
pub struct ReadAt {
    /// What to read from.
    pub file: MediumFile,
    /// Where the read begins in the file.
    pub offset_bytes: u64,
    /// Where it goes.
    pub read: Box<dyn PendingRead>,
}

/// Waits for a thread, unless a completion on that very thread has dropped the medium.
pub(super) fn join_unless_self(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        // An error is a panic of the thread, which has been reported where it happened.
        let _ = thread.join();
    }
}
