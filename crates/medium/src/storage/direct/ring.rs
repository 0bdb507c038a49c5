//! Reads in the background through io_uring, by one thread that owns the ring.
//!
//! **Owns:** the ring; the memory of every read between submission and completion.
//!
//! **Invariants:** what the kernel writes to is neither freed nor looked at before it says that it is done: a read is
//! held as a raw pointer ([`Flight`]) from submission on, and made a box again only by [`Flight::finish`]. A flight
//! that is dropped otherwise, which only a defect can cause, leaks the read. At most [`DEPTH`] reads are in the
//! kernel's hands, fewer than the completion queue holds, so that no completion is ever lost.
//!
//! **Concurrency:** callers put reads into a queue under a lock and write a byte to a pipe if the thread may be asleep;
//! the pipe is polled by the ring, so that the thread waits for completions and arrivals in one call. The kernel's work
//! at completion falls to the thread that submitted, which is why that is not the caller's: it would interrupt
//! the computation. Completions are told after the next reads are submitted, without a lock held.
//!
//! [`ReadThreads`](super::read_threads::ReadThreads) is the safe reference that tests compare with. What the ring
//! gains is shown by `benches/storage.rs`.

// The kernel is given addresses; no safe form of io_uring exists that takes memory by another owner.
#![allow(unsafe_code)]

mod flight;

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use io_uring::{EnterFlags, IoUring, Probe, opcode, types};

use super::BackgroundReads;
use super::file::DirectFile;
use super::read_progress::Verdict;
use crate::Result;
use crate::storage::ReadAt;
use crate::storage::pending_read::join_unless_self;
use flight::Flight;

/// How many reads the kernel has at once. Disks of today reach their best rate of 4 KiB reads with 64 to 128 of them;
/// of larger pieces fewer are needed, and more do no harm.
const DEPTH: usize = 128;
/// How often in a row the kernel may refuse to take reads, a millisecond apart, before the ring is given up.
const REFUSALS_MAX: u32 = 1000;
/// Until something comes.
const FOR_EVER_MS: i32 = -1;
/// The completion that stands for "somebody has submitted".
const WAKE: u64 = u64::MAX;

/// The handle of the thread that reads.
#[derive(Debug)]
pub(super) struct RingReads {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: PipeWriter,
}

#[derive(Default)]
struct Queue {
    arrived: VecDeque<Flight>,
    /// The thread waits, or is about to, and wants to be woken for arrivals.
    is_asleep: bool,
    is_closing: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("arrived_count", &self.arrived.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and wakes the thread if it may be asleep.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let must_wake = {
            let mut queue = self.lock();
            change(&mut queue);
            std::mem::take(&mut queue.is_asleep)
        };
        if must_wake {
            // One byte for each time the thread lies down: the pipe is never full, and its other end lives in the
            // thread.
            let _ = (&self.wake).write(&[1]);
        }
    }
}

impl RingReads {
    /// Sets up a ring and its thread.
    ///
    /// # Errors
    /// The kernel has no io_uring or grants none to this process, or no thread or memory is to be had.
    pub(super) fn start() -> io::Result<Self> {
        Self::start_with(RingThread::run)
    }

    fn start_with(run: fn(RingThread)) -> io::Result<Self> {
        // Twice as many entries as reads: room for the poll of the pipe. The completion queue is twice that again.
        let ring = IoUring::new(2 * DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::PollAdd::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (woken, wake) = io::pipe()?;
        let shared = Arc::new(Shared { queue: Mutex::default(), wake });
        let thread = RingThread {
            ring,
            woken,
            is_poll_set: false,
            shared: Arc::clone(&shared),
            waiting: VecDeque::new(),
            flights: std::iter::repeat_with(|| None).take(DEPTH).collect(),
            free: (0..DEPTH).collect(),
            unsubmitted: VecDeque::new(),
            answers: Vec::new(),
            finished: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("thermocline-ring".to_owned())
            .stack_size(256 << 10)
            .spawn(move || run(thread))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl BackgroundReads for RingReads {
    fn submit(&self, reads: Vec<ReadAt>) {
        let mut flights = VecDeque::with_capacity(reads.len());
        for read in reads {
            match read.file.state::<DirectFile>() {
                Ok(_) => flights.push_back(Flight::new(read)),
                Err(error) => read.read.completed(Err(error)),
            }
        }
        self.shared.change(|queue| queue.arrived.append(&mut flights));
    }

    fn describe(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for RingReads {
    fn drop(&mut self) {
        self.shared.change(|queue| queue.is_closing = true);
        if let Some(thread) = self.thread.take() {
            join_unless_self(thread);
        }
    }
}

/// What the thread has.
struct RingThread {
    ring: IoUring,
    woken: PipeReader,
    is_poll_set: bool,
    shared: Arc<Shared>,
    /// Reads that the kernel has not been asked for, or has to be asked for again.
    waiting: VecDeque<Flight>,
    /// By slot, which is also the `user_data` of the entry.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// `user_data` of the entries that lie in the submission queue, in order.
    unsubmitted: VecDeque<u64>,
    answers: Vec<(u64, i32)>,
    finished: Vec<(Flight, Result<()>)>,
}

impl RingThread {
    fn run(mut self) {
        let mut refusal_count = 0;
        while !self.take_arrivals() {
            self.push_poll();
            self.push_reads();
            self.tell_owners(); // of reads that could not even be asked for
            let wanted = usize::from(self.lie_down());
            match self.submit(wanted) {
                Ok(()) => refusal_count = 0,
                Err(_) if refusal_count < REFUSALS_MAX => {
                    refusal_count += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return self.run_without_ring(),
            }
            self.take_answers();
            // First the device gets more to do, then the owners hear of what is done.
            self.push_reads();
            if !self.unsubmitted.is_empty() {
                // A refusal comes again at the next round, and is dealt with there.
                let _ = self.submit(0);
            }
            self.tell_owners();
        }
    }

    /// Goes on with blocking reads when the kernel takes no more entries. What it has taken is waited for; what lies
    /// in the submission queue is never submitted any more, and so the thread's own again.
    fn run_without_ring(mut self) {
        for user_data in std::mem::take(&mut self.unsubmitted) {
            if user_data != WAKE {
                let flight = self.land(user_data);
                self.waiting.extend(flight);
            }
        }
        while self.free.len() < DEPTH {
            let none: Option<&libc::sigset_t> = None;
            // SAFETY: submits nothing, waits for one completion, and passes no argument.
            let waited = unsafe { self.ring.submitter().enter(0, 1, EnterFlags::GETEVENTS.bits(), none) };
            match waited {
                // What the kernel has taken it answers, waited for or not.
                Err(error) if error.kind() != io::ErrorKind::Interrupted => thread::sleep(Duration::from_millis(1)),
                _ => {}
            }
            self.take_answers();
            self.tell_owners();
        }
        while !self.take_arrivals() {
            while let Some(flight) = self.waiting.pop_front() {
                flight.read_blocking();
            }
            let mut queue = self.shared.lock();
            queue.is_asleep = queue.arrived.is_empty() && !queue.is_closing;
            let may_sleep = queue.is_asleep;
            drop(queue);
            if may_sleep {
                self.clear_pipe(FOR_EVER_MS);
            }
        }
    }

    /// Takes what has arrived. True when all is done and the medium was dropped.
    fn take_arrivals(&mut self) -> bool {
        let mut queue = self.shared.lock();
        self.waiting.append(&mut queue.arrived);
        queue.is_closing && self.free.len() == DEPTH && self.waiting.is_empty()
    }

    /// Whether to wait for a completion: not if there is more to do at once. Called with all that can be in the ring,
    /// for only a read that the kernel knows of will complete.
    fn lie_down(&self) -> bool {
        let under_way_count = DEPTH - self.free.len();
        let mut queue = self.shared.lock();
        if under_way_count < DEPTH && (!queue.arrived.is_empty() || queue.is_closing && under_way_count == 0) {
            return false;
        }
        // With a full ring, arrivals can wait for the next completion.
        queue.is_asleep = under_way_count < DEPTH;
        true
    }

    fn push_poll(&mut self) {
        if !self.is_poll_set {
            let entry = opcode::PollAdd::new(types::Fd(self.woken.as_raw_fd()), libc::POLLIN as u32).build();
            // SAFETY: the entry refers to no memory, and the pipe is open as long as the ring.
            self.is_poll_set = unsafe { self.ring.submission().push(&entry.user_data(WAKE)) }.is_ok();
            if self.is_poll_set {
                self.unsubmitted.push_back(WAKE);
            }
        }
    }

    /// Gives waiting reads slots and entries.
    fn push_reads(&mut self) {
        while let Some(&slot) = self.free.last()
            && let Some(mut flight) = self.waiting.pop_front()
        {
            let entry = match flight.entry(slot as u64) {
                Ok(entry) => entry,
                Err(error) => {
                    self.finished.push((flight, Err(error)));
                    continue;
                }
            };
            // SAFETY: the entry refers to memory within the destination, which is lent until `Flight::finish`, or to
            // addresses of such in a box of the flight's, which no one changes before it is answered, and to a
            // descriptor that the flight's file keeps open; the flight stays in its slot until then.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.waiting.push_front(flight);
                return;
            }
            self.free.pop();
            self.flights[slot] = Some(flight);
            self.unsubmitted.push_back(slot as u64);
        }
    }

    /// Submits what was pushed, and waits for `wanted` completions unless there are as many already.
    fn submit(&mut self, wanted: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(wanted) {
            Ok(taken_count) => {
                self.unsubmitted.drain(..taken_count.min(self.unsubmitted.len()));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the flight out of its slot.
    fn land(&mut self, user_data: u64) -> Option<Flight> {
        let slot = usize::try_from(user_data).ok()?;
        let flight = self.flights.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(flight)
    }

    /// Takes in what the kernel has answered: reads that are over become finished, others wait again.
    fn take_answers(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (user_data, result) in answers.drain(..) {
            if user_data == WAKE {
                self.is_poll_set = false;
                if result > 0 {
                    self.clear_pipe(0);
                }
                continue;
            }
            let Some(mut flight) = self.land(user_data) else { continue };
            let answer = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
            match flight.answered(answer) {
                Verdict::Again => self.waiting.push_front(flight),
                verdict => {
                    let outcome = flight.result(verdict);
                    self.finished.push((flight, outcome));
                }
            }
        }
        self.answers = answers;
    }

    /// Reads what was written to wake this thread; waits so long for it if there is nothing. What the ring says of the
    /// pipe may be of a byte that has been read since: a writer wakes who polls after it has written, and by then the
    /// byte may be gone with those of others, and the next poll set up.
    fn clear_pipe(&mut self, timeout_ms: i32) {
        let mut pipe = libc::pollfd { fd: self.woken.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which is this thread's own, of a pipe that is open.
        if unsafe { libc::poll(&raw mut pipe, 1, timeout_ms) } > 0 {
            let _ = self.woken.read(&mut [0; 64]);
        }
    }

    fn tell_owners(&mut self) {
        for (flight, outcome) in self.finished.drain(..) {
            flight.finish(outcome);
        }
    }
}

#[cfg(test)]
mod tests;
