//! How many of its processors this process has left idle of late.

use std::sync::Mutex;

use crate::Clock;

/// After so long two thirds of what was seen before is forgotten: a few queries.
const SETTLING_NS: f64 = 1e9;
/// Looked at again sooner, the process's time says little: some systems count it by ticks.
const SHORTEST_NS: u64 = 10_000_000;

/// A running estimate of how many processors are idle on average. Where the clock does not tell what the process has used,
/// and before anything was seen, all are taken to be busy.
///
/// Other processes are not seen: on processors that they use too there is less idle time than this says.
#[derive(Debug)]
pub struct IdleProcessors {
    processor_count: f64,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    monotonic_ns: u64,
    process_cpu_ns: u64,
    idle: f64,
}

impl IdleProcessors {
    /// Of so many processors, one at least.
    pub fn new(processor_count: usize) -> Self {
        Self { processor_count: processor_count.max(1) as f64, seen: Mutex::new(None) }
    }

    /// The number now. Takes in what has been used since it was last asked for.
    pub fn now(&self, clock: &dyn Clock) -> f64 {
        let Some(process_cpu_ns) = clock.process_cpu_ns() else { return 0.0 };
        let monotonic_ns = clock.monotonic_ns();
        // What another thread left half done is no worse than what is seen late.
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Seen { idle, .. } = *match &mut *seen {
            None => seen.insert(Seen { monotonic_ns, process_cpu_ns, idle: 0.0 }),
            Some(last) => {
                let passed_ns = monotonic_ns.saturating_sub(last.monotonic_ns);
                if passed_ns >= SHORTEST_NS {
                    let used_ns = process_cpu_ns.saturating_sub(last.process_cpu_ns) as f64;
                    let latest = (self.processor_count - used_ns / passed_ns as f64).max(0.0);
                    let way = 1.0 - (-(passed_ns as f64) / SETTLING_NS).exp();
                    *last = Seen { monotonic_ns, process_cpu_ns, idle: last.idle + way * (latest - last.idle) };
                }
                last
            }
        };
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, SystemClock};

    fn run(process: &ManualClock, passed_ns: u64, used_ns: u64) {
        process.advance_ns(passed_ns);
        process.work_ns(used_ns);
    }

    #[test]
    fn one_thread_on_three_processors_leaves_two_and_nothing_known_none() {
        let (process, idle) = (ManualClock::default(), IdleProcessors::new(3));
        assert_eq!(idle.now(&process), 0.0, "not known");
        process.work_ns(0);
        assert_eq!(idle.now(&process), 0.0);
        let mut numbers = Vec::new();
        for _ in 0..100 {
            run(&process, 100_000_000, 100_000_000);
            numbers.push(idle.now(&process));
        }
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!((0.78..0.80).contains(&numbers[4]), "{numbers:?}");
        assert!((numbers[99] - 2.0).abs() < 0.001, "{numbers:?}");
        // More than there is: threads that the system counted late.
        run(&process, 100_000_000_000, 1_000_000_000_000);
        assert!(idle.now(&process) < 0.001);
    }

    #[test]
    fn looking_often_is_looking_once() {
        let (process, idle) = (ManualClock::default(), IdleProcessors::new(1));
        process.work_ns(0);
        idle.now(&process);
        for _ in 0..5000 {
            run(&process, 1_000_000, 250_000);
            idle.now(&process);
        }
        assert!((idle.now(&process) - 0.75).abs() < 0.01, "{idle:?}");
    }

    #[test]
    fn a_process_that_works_has_used_time() {
        let clock = SystemClock::new();
        let before_ns = clock.process_cpu_ns();
        let mut sum = 0_u64;
        while clock.process_cpu_ns() == before_ns {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(clock.process_cpu_ns() > before_ns);
    }
}
