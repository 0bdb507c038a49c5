//! Reads into buffers of one type that come back in the order in which they complete.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Destination, Medium, MediumFile, PendingRead, ReadAt};
use crate::Result;

/// A read that is over.
#[derive(Debug)]
pub struct FinishedRead<B> {
    /// What was read from.
    pub file: MediumFile,
    /// Where in the file.
    pub offset_bytes: u64,
    /// The buffer, to use and to read into again. Holds anything if the read failed.
    pub buffer: B,
    /// How it went.
    pub outcome: Result<()>,
}

/// Submits reads into buffers that it owns meanwhile, and gives the buffers back as the reads complete.
///
/// For one consumer; the buffers it hands in bound how many reads are in flight. A queue that is dropped lets its reads
/// complete and drops their buffers then.
///
/// ```
/// use std::sync::Arc;
/// use thermocline_medium::{AlignedBuffer, Medium, MemoryMedium, ReadQueue};
/// # fn main() -> thermocline_medium::Result<()> {
/// let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
/// let file = medium.create("column")?;
/// medium.write_at(&file, 0, &[7; 8192])?;
/// let mut queue = ReadQueue::new(Arc::clone(&medium));
/// queue.submit([0, 4096].map(|offset_bytes| (file.clone(), offset_bytes, AlignedBuffer::new(4096))));
/// while let Some(finished) = queue.wait_next() {
///     finished.outcome?;
///     assert_eq!(finished.buffer[0], 7);
/// }
/// # Ok(())
/// # }
/// ```
pub struct ReadQueue<B> {
    medium: Arc<dyn Medium>,
    finished: Arc<Finished<B>>,
    /// Taken from `finished` together, so that the lock is taken once for many small reads.
    ready: VecDeque<FinishedRead<B>>,
    in_flight_count: usize,
}

struct Finished<B> {
    arrivals: Mutex<Arrivals<B>>,
    arrived: Condvar,
}

struct Arrivals<B> {
    reads: VecDeque<FinishedRead<B>>,
    /// The consumer waits. Waking is a system call whether or not anybody does.
    is_awaited: bool,
}

impl<B> Finished<B> {
    fn lock(&self) -> MutexGuard<'_, Arrivals<B>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Queued<B> {
    file: MediumFile,
    offset_bytes: u64,
    buffer: B,
    finished: Arc<Finished<B>>,
}

impl<B: AsMut<[u8]> + Send> PendingRead for Queued<B> {
    fn destination(&mut self) -> Destination<'_> {
        Destination::One(self.buffer.as_mut())
    }

    fn completed(self: Box<Self>, outcome: Result<()>) {
        let Self { file, offset_bytes, buffer, finished } = *self;
        let mut arrivals = finished.lock();
        arrivals.reads.push_back(FinishedRead { file, offset_bytes, buffer, outcome });
        let is_awaited = std::mem::take(&mut arrivals.is_awaited);
        drop(arrivals);
        if is_awaited {
            finished.arrived.notify_one();
        }
    }
}

impl<B: AsMut<[u8]> + Send + 'static> ReadQueue<B> {
    /// A queue of reads from `medium`.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        let arrivals = Mutex::new(Arrivals { reads: VecDeque::new(), is_awaited: false });
        let finished = Arc::new(Finished { arrivals, arrived: Condvar::new() });
        Self { medium, finished, ready: VecDeque::new(), in_flight_count: 0 }
    }

    /// How many reads were submitted and not yet returned.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight_count
    }

    /// Submits reads of whole buffers: file, offset in bytes, buffer. One call for many costs less than many.
    pub fn submit(&mut self, reads: impl IntoIterator<Item = (MediumFile, u64, B)>) {
        let reads: Vec<_> = reads
            .into_iter()
            .map(|(file, offset_bytes, buffer)| {
                let finished = Arc::clone(&self.finished);
                let read = Box::new(Queued { file: file.clone(), offset_bytes, buffer, finished });
                ReadAt { file, offset_bytes, read }
            })
            .collect();
        self.in_flight_count += reads.len();
        self.medium.submit(reads);
    }

    /// The next read that completes; waits for it. None when none is in flight.
    pub fn wait_next(&mut self) -> Option<FinishedRead<B>> {
        if self.in_flight_count == 0 {
            return None;
        }
        if self.ready.is_empty() {
            let mut arrivals = self.finished.lock();
            while arrivals.reads.is_empty() {
                arrivals.is_awaited = true;
                arrivals = self.finished.arrived.wait(arrivals).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut self.ready, &mut arrivals.reads);
        }
        self.take_ready()
    }

    /// A read that has completed already. None when there is no such one.
    pub fn try_next(&mut self) -> Option<FinishedRead<B>> {
        if self.ready.is_empty() {
            std::mem::swap(&mut self.ready, &mut self.finished.lock().reads);
        }
        self.take_ready()
    }

    fn take_ready(&mut self) -> Option<FinishedRead<B>> {
        let read = self.ready.pop_front()?;
        self.in_flight_count -= 1;
        Some(read)
    }
}

impl<B> Debug for ReadQueue<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadQueue")
            .field("medium", &self.medium)
            .field("in_flight_count", &self.in_flight_count)
            .finish_non_exhaustive()
    }
}
