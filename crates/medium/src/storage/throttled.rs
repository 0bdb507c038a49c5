//! A medium made as slow as another: so many bytes a second for all readers together, and so long for each read.
//!
//! **Owns:** when a read is told to be complete. The reads themselves are those of the medium within.
//!
//! **Does not own:** writes and syncs, which pass unchanged: a lab that simulates a disk's reads loads its tables
//! first.
//!
//! **Invariants:** the simulated device transfers one read after the other, in the order of submission: a read is due
//! when those before it and itself could have been transferred, plus the latency. It completes when it is due or, if
//! the medium within is slower, when that is done; never before. Lateness of one read does not delay the due times of
//! others, so that the rate is exact over many.
//!
//! **Concurrency:** one thread hands reads on and tells their owners; it sleeps until the next one is due. Reads by
//! [`Medium::read_at`] sleep in the thread that asks, and share the same device.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::IoSliceMut;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thermocline_hardware::Clock;

use super::pending_read::{join_unless_self, length_bytes};
use super::{Destination, Medium, MediumFile, PendingRead, ReadAt};
use crate::{MediumError, Result};

/// How a thread waits: for the system, or for a test that moves its clock itself.
pub trait Sleep: Send + Sync + Debug {
    /// Returns after `duration_ns` by the clock that the medium was given, or a little later.
    fn sleep_ns(&self, duration_ns: u64);
}

/// Sleeps as the system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSleep;

impl Sleep for SystemSleep {
    fn sleep_ns(&self, duration_ns: u64) {
        thread::sleep(Duration::from_nanos(duration_ns));
    }
}

/// What a simulated device can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// What all readers get together. 0 is taken as 1.
    pub bytes_per_s: u64,
    /// What each read takes beyond its transfer; those of reads under way at once pass at once.
    pub latency_ns: u64,
}

/// A medium that reads no faster than a given device would.
#[derive(Debug)]
pub struct ThrottledMedium {
    inner: Arc<dyn Medium>,
    device: Arc<Device>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Device {
    throttle: Throttle,
    clock: Arc<dyn Clock>,
    sleep: Arc<dyn Sleep>,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// When the last transfer that was asked for will be over, by the clock.
    free_at_ns: u64,
    arrived: VecDeque<(ReadAt, u64)>,
    is_closing: bool,
}

impl Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("free_at_ns", &self.free_at_ns).finish_non_exhaustive()
    }
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books the transfer of a read, and returns when the read is due.
    fn book(&self, state: &mut State, length_bytes: usize) -> u64 {
        let transfer_ns = length_bytes as u128 * 1_000_000_000 / u128::from(self.throttle.bytes_per_s.max(1));
        let begins_ns = state.free_at_ns.max(self.clock.monotonic_ns());
        state.free_at_ns = begins_ns.saturating_add(u64::try_from(transfer_ns).unwrap_or(u64::MAX));
        state.free_at_ns.saturating_add(self.throttle.latency_ns)
    }

    fn sleep_until_ns(&self, due_ns: u64) {
        // A sleep may end early where its clock is not this one; a clock that stands still must not hold reads for
        // ever.
        for _ in 0..1000 {
            match due_ns.saturating_sub(self.clock.monotonic_ns()) {
                0 => return,
                left_ns => self.sleep.sleep_ns(left_ns),
            }
        }
    }
}

/// A read as the medium within knows it: what comes of it is kept until the read is due.
struct Delayed {
    /// None once it is over.
    read: Option<Box<dyn PendingRead>>,
    slot: Arc<Slot>,
}

/// A read that is over, and how it went.
type Over = (Box<dyn PendingRead>, Result<()>);

#[derive(Default)]
struct Slot {
    over: Mutex<Option<Over>>,
    arrived: Condvar,
}

impl PendingRead for Delayed {
    fn destination(&mut self) -> Destination<'_> {
        self.read.as_mut().map_or(Destination::One(&mut []), |read| read.destination())
    }

    fn completed(mut self: Box<Self>, outcome: Result<()>) {
        if let Some(read) = self.read.take() {
            *self.slot.over.lock().unwrap_or_else(PoisonError::into_inner) = Some((read, outcome));
            self.slot.arrived.notify_one();
        }
    }
}

impl Slot {
    /// Waits until the medium within has completed the read.
    fn wait(&self) -> Over {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(over) = over.take() {
                return over;
            }
            over = self.arrived.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl ThrottledMedium {
    /// A throttle around `inner`. Time is read from `clock` and passes in `sleep`.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn new(
        inner: Arc<dyn Medium>,
        throttle: Throttle,
        clock: Arc<dyn Clock>,
        sleep: Arc<dyn Sleep>,
    ) -> Result<Self> {
        let device = Arc::new(Device { throttle, clock, sleep, state: Mutex::default(), arrived: Condvar::new() });
        let (served, medium) = (Arc::clone(&device), Arc::clone(&inner));
        let thread = thread::Builder::new()
            .name("thermocline-throttle".to_owned())
            .stack_size(256 << 10)
            .spawn(move || serve(&served, medium.as_ref()))
            .map_err(|source| MediumError::from_io(Path::new("throttle"), "start a thread", source))?;
        Ok(Self { inner, device, thread: Some(thread) })
    }
}

/// Hands reads on as they arrive and tells their owners when they are due: in order of submission, which is the order
/// in which they are due.
fn serve(device: &Device, inner: &dyn Medium) {
    let mut under_way: VecDeque<(Arc<Slot>, u64)> = VecDeque::new();
    loop {
        let mut state = device.lock();
        while under_way.is_empty() && state.arrived.is_empty() {
            if state.is_closing {
                return;
            }
            state = device.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let arrived = std::mem::take(&mut state.arrived);
        drop(state);
        if !arrived.is_empty() {
            let mut reads = Vec::with_capacity(arrived.len());
            for (ReadAt { file, offset_bytes, read }, due_ns) in arrived {
                let slot = Arc::new(Slot::default());
                under_way.push_back((Arc::clone(&slot), due_ns));
                reads.push(ReadAt { file, offset_bytes, read: Box::new(Delayed { read: Some(read), slot }) });
            }
            inner.submit(reads);
        }
        // What arrives during this sleep is due later, and so loses nothing but a head start.
        if let Some((slot, due_ns)) = under_way.pop_front() {
            device.sleep_until_ns(due_ns);
            let (read, outcome) = slot.wait();
            // An owner that panics must not end the reads of all others.
            let _ = catch_unwind(AssertUnwindSafe(|| read.completed(outcome)));
        }
    }
}

impl Drop for ThrottledMedium {
    fn drop(&mut self) {
        self.device.lock().is_closing = true;
        self.device.arrived.notify_all();
        if let Some(thread) = self.thread.take() {
            join_unless_self(thread);
        }
    }
}

impl Medium for ThrottledMedium {
    fn describe(&self) -> String {
        let Throttle { bytes_per_s, latency_ns } = self.device.throttle;
        format!("{}, throttled to {bytes_per_s} bytes/s and {latency_ns} ns a read (simulated)", self.inner.describe())
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        self.inner.create(name)
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        self.inner.open(name)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        self.inner.open_writable(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        self.inner.size_bytes(file)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        let due_ns = self.device.book(&mut self.device.lock(), buffer.len());
        let outcome = self.inner.read_at(file, offset_bytes, buffer);
        self.device.sleep_until_ns(due_ns);
        outcome
    }

    fn read_vectored_at(&self, file: &MediumFile, offset_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        let due_ns = self.device.book(&mut self.device.lock(), length_bytes(parts));
        let outcome = self.inner.read_vectored_at(file, offset_bytes, parts);
        self.device.sleep_until_ns(due_ns);
        outcome
    }

    fn submit(&self, reads: Vec<ReadAt>) {
        let mut state = self.device.lock();
        for mut read in reads {
            let due_ns = self.device.book(&mut state, read.read.destination().length_bytes());
            state.arrived.push_back((read, due_ns));
        }
        drop(state);
        self.device.arrived.notify_all();
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(file, offset_bytes, bytes)
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        self.inner.sync_data(file)
    }

    fn sync_namespace(&self) -> Result<()> {
        self.inner.sync_namespace()
    }
}

#[cfg(test)]
mod tests;
