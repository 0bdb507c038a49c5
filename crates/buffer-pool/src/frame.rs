//! The memory of one page, from the moment its read is asked for.
//!
//! **Owns**: what has become of the read (under way, arrived, checked, failed) and who waits for it. **Does not own**:
//! finding frames by page, or where memory comes from.
//!
//! **Invariants**: a frame goes from *under way* to *arrived* once, and from there to *settled* once: bytes that passed
//! the check, or an error. It is checked by whoever polls it first after it arrived, so that a waiter that goes away
//! leaves the rest to the next one, and who completes the read, often a thread of the medium's, only publishes and wakes.
//!
//! **Concurrency**: a frame's owners count as pins: the pool's table is one of them, reads and users the others. A wake
//! is not lost, since whoever registers looks for the outcome under the lock under which it is published.

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_medium::{AlignedBuffer, MediumError};
use thermocline_placement::page_cache::{ListKey, PageKey};

use crate::arena::Extent;
use crate::source::{PagePlace, PageSource};
use crate::{PoolError, Result};

/// What a page is read into.
pub(crate) enum FrameMemory {
    /// A part of the pool's memory.
    Extent(Extent),
    /// Memory of a query, for a page that the pool has no room for.
    Passing(Box<PassingMemory>),
}

/// Memory outside of the arena, and what keeps it within the budget.
pub(crate) struct PassingMemory {
    pub(crate) buffer: AlignedBuffer,
    pub(crate) _reservation: Reservation,
}

impl Deref for FrameMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Extent(extent) => extent,
            Self::Passing(passing) => &passing.buffer,
        }
    }
}

impl DerefMut for FrameMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Extent(extent) => extent,
            Self::Passing(passing) => &mut passing.buffer,
        }
    }
}

/// What the medium made of the read.
pub(crate) enum Arrived {
    /// The page is there.
    Filled,
    /// Anything is there.
    Failed(Arc<MediumError>),
    /// Whatever was there before is.
    Dropped,
}

#[derive(Default)]
struct Progress {
    /// Until somebody takes it to check it.
    arrived: Option<Arrived>,
    waiting: Vec<Waker>,
}

/// See the module. Small, for there are many: where the page lies in its file is asked of the source again.
pub(crate) struct Frame {
    key: PageKey,
    list: ListKey,
    rows: u32,
    read_bytes: u32,
    size_bytes: u32,
    /// Where in the arena it lies, if it does.
    offset: Option<u64>,
    /// From the end of the read on, whatever became of it: what lies where this frame does is this frame's while it
    /// lives.
    memory: OnceLock<FrameMemory>,
    settled: OnceLock<Result<(), Arc<PoolError>>>,
    progress: Mutex<Progress>,
}

impl Frame {
    /// A frame whose read is about to be submitted.
    pub(crate) fn new(key: PageKey, place: &PagePlace, offset: Option<u64>) -> Self {
        let &PagePlace { read_bytes, size_bytes, list, rows, .. } = place;
        let size_bytes = size_bytes.min(read_bytes);
        let (memory, settled, progress) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { key, list, rows, read_bytes, size_bytes, offset, memory, settled, progress }
    }

    pub(crate) fn key(&self) -> PageKey {
        self.key
    }

    pub(crate) fn list(&self) -> ListKey {
        self.list
    }

    /// The number of its rows.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// What is read.
    pub(crate) fn read_bytes(&self) -> u64 {
        u64::from(self.read_bytes)
    }

    /// The memory it takes.
    pub(crate) fn held_bytes(&self) -> u64 {
        PagePlace::memory_bytes(self.read_bytes)
    }

    /// Where in the arena it lies.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The page, once it is settled; nothing before and after a failure.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.settled.get() {
            Some(Ok(())) => self.arrived_bytes(),
            _ => &[],
        }
    }

    fn arrived_bytes(&self) -> &[u8] {
        self.memory.get().and_then(|memory| memory.get(..self.size_bytes as usize)).unwrap_or_default()
    }

    /// Whether asking for it now would be in vain.
    pub(crate) fn has_failed(&self) -> bool {
        match self.settled.get() {
            Some(outcome) => outcome.is_err(),
            None => matches!(self.progress.lock().arrived, Some(Arrived::Failed(_) | Arrived::Dropped)),
        }
    }

    /// The read into `memory` is over. Called once, on any thread; does not panic.
    pub(crate) fn arrived(&self, memory: FrameMemory, arrived: Arrived) {
        // Nobody else sets it.
        let _ = self.memory.set(memory);
        let mut progress = self.progress.lock();
        progress.arrived = Some(arrived);
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        wake_all(waiting);
    }

    /// Ready when the page can be used or has failed. Checks it if nobody has yet.
    pub(crate) fn poll(&self, source: &dyn PageSource, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        let mut progress = self.progress.lock();
        if let Some(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        let Some(arrived) = progress.arrived.take() else {
            if !progress.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                progress.waiting.push(context.waker().clone());
            }
            return Poll::Pending;
        };
        drop(progress);
        // Settles it even if the check panics: others wait.
        let mut settling = Settling { frame: self, source, outcome: None };
        settling.outcome = Some(self.judge(source, arrived));
        drop(settling);
        self.outcome().map_or(Poll::Pending, Poll::Ready)
    }

    fn outcome(&self) -> Option<Result<()>> {
        self.settled.get().map(|outcome| outcome.clone().map_err(|error| (*error).clone()))
    }

    fn judge(&self, source: &dyn PageSource, arrived: Arrived) -> Result<()> {
        let page = || source.describe(self.key.page);
        match arrived {
            Arrived::Filled => {
                source.check(self.key.page, self.arrived_bytes()).map_err(|error| self.damaged(source, error))
            }
            Arrived::Failed(error) => {
                let PagePlace { file, offset_bytes, read_bytes, .. } = source.place(self.key.page);
                let file = file.name().to_owned();
                Err(PoolError::Read { page: page(), file, offset_bytes, read_bytes, source: error })
            }
            Arrived::Dropped => Err(PoolError::Dropped { page: page() }),
        }
    }

    fn damaged(&self, source: &dyn PageSource, error: Box<dyn Error + Send + Sync>) -> PoolError {
        let PagePlace { file, offset_bytes, size_bytes, .. } = source.place(self.key.page);
        let (page, file) = (source.describe(self.key.page), file.name().to_owned());
        PoolError::Damaged { page, file, offset_bytes, size_bytes, source: error.into() }
    }
}

/// Wakes them all. One that panics, of which the panic hook tells, keeps no other from it.
fn wake_all(waiting: Vec<Waker>) {
    for waker in waiting {
        let _ = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("key", &self.key).field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}

/// Publishes what became of a frame, and wakes who waits for it.
struct Settling<'a> {
    frame: &'a Frame,
    source: &'a dyn PageSource,
    /// None if the check panicked.
    outcome: Option<Result<()>>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let panicked = || Err(self.frame.damaged(self.source, Box::from("its check panicked")));
        let outcome = self.outcome.take().unwrap_or_else(panicked).map_err(Arc::new);
        // Nobody else settles it: what arrived was taken once.
        let _ = self.frame.settled.set(outcome);
        let waiting = std::mem::take(&mut self.frame.progress.lock().waiting);
        wake_all(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_as_small_as_is_reserved_for() {
        // With the two counts of its owners.
        assert!(size_of::<Frame>() + 16 <= 160, "{}", size_of::<Frame>());
    }
}
