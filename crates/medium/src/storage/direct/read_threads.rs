//! Reads in the background by threads that block: for systems without io_uring, and the safe reference beside it.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::BackgroundReads;
use super::file::DirectFile;
use crate::storage::pending_read::join_unless_self;
use crate::storage::{Destination, ReadAt};

/// How many reads are under way at once. A disk of today is kept busy by 16 reads of 256 KiB; of more threads most
/// would wait for each other.
const THREADS_MAX: usize = 16;

/// A few threads, started as they are needed, that take reads from one queue in order.
#[derive(Debug)]
pub(super) struct ReadThreads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<ReadAt>,
    idle_count: usize,
    is_closing: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting_count", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves reads until the medium is dropped and nothing waits any more.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(read) = queue.waiting.pop_front() {
                drop(queue);
                // An owner that panics must not end the reads of all others.
                let _ = catch_unwind(AssertUnwindSafe(|| read_blocking(read)));
                queue = self.lock();
            } else if queue.is_closing {
                return;
            } else {
                queue.idle_count += 1;
                queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle_count -= 1;
            }
        }
    }
}

impl ReadThreads {
    /// No threads yet.
    pub(super) fn new() -> Self {
        Self { shared: Arc::default(), threads: Mutex::default() }
    }

    /// Starts threads for reads that no idle one will take. Returns false when there is none at all.
    fn start_threads(&self, wanted: usize) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..wanted.min(THREADS_MAX - threads.len()) {
            let shared = Arc::clone(&self.shared);
            // The stack holds a read and what its completion calls.
            let started = thread::Builder::new()
                .name("thermocline-read".to_owned())
                .stack_size(256 << 10)
                .spawn(move || shared.serve());
            match started {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        !threads.is_empty()
    }
}

impl BackgroundReads for ReadThreads {
    fn submit(&self, reads: Vec<ReadAt>) {
        let unserved = {
            let mut queue = self.shared.lock();
            queue.waiting.extend(reads);
            queue.waiting.len().saturating_sub(queue.idle_count)
        };
        if unserved > 0 && !self.start_threads(unserved) {
            // No thread to be had: the caller does it himself.
            while let Some(read) = { self.shared.lock().waiting.pop_front() } {
                read_blocking(read);
            }
        }
        self.shared.arrived.notify_all();
    }

    fn describe(&self) -> &'static str {
        "threads that block"
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.arrived.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            join_unless_self(thread);
        }
    }
}

/// Carries one read out and tells its owner.
fn read_blocking(ReadAt { file, offset_bytes, mut read }: ReadAt) {
    let outcome = file.state::<DirectFile>().and_then(|file| match read.destination() {
        Destination::One(buffer) => file.read_vectored_at(offset_bytes, &mut [IoSliceMut::new(buffer)]),
        Destination::Several(mut parts) => file.read_vectored_at(offset_bytes, &mut parts),
    });
    read.completed(outcome);
}
