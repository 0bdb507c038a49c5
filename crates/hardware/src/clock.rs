//! The clock that is passed in: monotonic time for durations, wall time for comparison with file stamps.
//!
//! This is the only file of the shipped crates that reads the ambient clock; `clippy.toml` bans it elsewhere.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Shared by reference between all threads of a database.
pub trait Clock: Send + Sync + Debug {
    /// Nanoseconds since an arbitrary origin of this clock; never goes back.
    fn monotonic_ns(&self) -> u64;
    /// Nanoseconds since 1970-01-01T00:00:00Z by the system's wall clock; may jump either way.
    fn wall_ns(&self) -> i64;
    /// Nanoseconds that the calling thread has worked; where that is not known, as [`Clock::monotonic_ns`].
    fn thread_cpu_ns(&self) -> u64 {
        self.monotonic_ns()
    }
    /// Nanoseconds that all threads of this process together have worked; `None` where that is not known.
    fn process_cpu_ns(&self) -> Option<u64> {
        None
    }
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_ns(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }

    fn thread_cpu_ns(&self) -> u64 {
        system_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_else(|| self.monotonic_ns())
    }

    fn process_cpu_ns(&self) -> Option<u64> {
        system_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
    }
}

/// One of the system's clocks, if it has it.
fn system_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a value of its own type and to nothing else.
    #[allow(unsafe_code)]
    let is_known = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    let ns = || u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
    is_known.then(ns)
}

/// A clock that moves only when told to, for tests and replays. What its process has worked is not known until it is told.
///
/// ```
/// use thermocline_hardware::{Clock, ManualClock};
/// let clock = ManualClock::new(1_000);
/// clock.advance_ns(5);
/// assert_eq!((clock.monotonic_ns(), clock.wall_ns()), (5, 1_005));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    monotonic_ns: AtomicU64,
    wall_ns: AtomicI64,
    process_cpu_ns: AtomicU64,
    knows_process: AtomicBool,
}

impl ManualClock {
    /// A clock at monotonic 0 and the given wall time.
    pub fn new(wall_ns: i64) -> Self {
        Self { wall_ns: AtomicI64::new(wall_ns), ..Self::default() }
    }

    /// Moves both times forward by `by_ns`.
    pub fn advance_ns(&self, by_ns: u64) {
        self.monotonic_ns.fetch_add(by_ns, Ordering::SeqCst);
        self.wall_ns.fetch_add(i64::try_from(by_ns).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Has the process work for so long, which takes no time by itself.
    pub fn work_ns(&self, by_ns: u64) {
        self.process_cpu_ns.fetch_add(by_ns, Ordering::SeqCst);
        self.knows_process.store(true, Ordering::SeqCst);
    }

    /// Sets the wall time alone, as an administrator or NTP would.
    pub fn set_wall_ns(&self, wall_ns: i64) {
        self.wall_ns.store(wall_ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(Ordering::SeqCst)
    }

    fn wall_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::SeqCst)
    }

    /// Nothing: a clock that is moved while a thread is at something does not say that it worked so long.
    fn thread_cpu_ns(&self) -> u64 {
        0
    }

    fn process_cpu_ns(&self) -> Option<u64> {
        self.knows_process.load(Ordering::SeqCst).then(|| self.process_cpu_ns.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back_and_knows_the_epoch() {
        let clock = SystemClock::new();
        let first_ns = clock.monotonic_ns();
        assert!(clock.monotonic_ns() >= first_ns);
        assert!(clock.wall_ns() > 1_700_000_000_000_000_000, "{}", clock.wall_ns());
    }

    #[test]
    fn a_thread_that_sleeps_does_not_work() {
        let clock = SystemClock::new();
        let (began_ns, worked_ns) = (clock.monotonic_ns(), clock.thread_cpu_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(clock.monotonic_ns() - began_ns >= 50_000_000);
        assert!(clock.thread_cpu_ns() - worked_ns < 25_000_000);
    }

    #[test]
    fn the_manual_clock_moves_only_when_told_to() {
        let clock = ManualClock::new(10);
        assert_eq!((clock.monotonic_ns(), clock.wall_ns()), (0, 10));
        clock.advance_ns(7);
        clock.set_wall_ns(-3);
        assert_eq!((clock.monotonic_ns(), clock.wall_ns(), clock.process_cpu_ns()), (7, -3, None));
        clock.work_ns(0);
        assert_eq!((clock.process_cpu_ns(), clock.thread_cpu_ns()), (Some(0), 0));
        clock.work_ns(5);
        assert_eq!((clock.monotonic_ns(), clock.process_cpu_ns()), (7, Some(5)));
    }
}
