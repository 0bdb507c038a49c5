#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::mpsc;

use thermocline_hardware::ManualClock;

use super::*;
use crate::{AlignedBuffer, MemoryMedium, ReadQueue};

/// Sleeping moves the clock.
#[derive(Debug)]
struct Advancing(Arc<ManualClock>);

impl Sleep for Advancing {
    fn sleep_ns(&self, duration_ns: u64) {
        self.0.advance_ns(duration_ns);
    }
}

/// A file of a mebibyte on a device of 1 GB/s, so that a byte takes a nanosecond, and a clock that stands still.
fn medium(latency_ns: u64) -> (Arc<dyn Medium>, MediumFile, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(0));
    let inner = Arc::new(MemoryMedium::new());
    let file = inner.create("column").unwrap();
    inner.write_at(&file, 0, &[5; 1 << 20]).unwrap();
    let throttle = Throttle { bytes_per_s: 1_000_000_000, latency_ns };
    let sleep = Arc::new(Advancing(Arc::clone(&clock)));
    let throttled = ThrottledMedium::new(inner, throttle, Arc::<ManualClock>::clone(&clock), sleep).unwrap();
    (Arc::new(throttled), file, clock)
}

#[test]
fn reads_under_way_at_once_share_the_rate_and_the_latency_passes_once() {
    let (medium, file, clock) = medium(500);
    let mut queue = ReadQueue::new(medium);
    queue.submit((0..10).map(|index| (file.clone(), index * 1000, AlignedBuffer::new(1000))));
    while let Some(read) = queue.wait_next() {
        read.outcome.unwrap();
        assert!(read.buffer.iter().all(|&byte| byte == 5));
    }
    assert_eq!(clock.monotonic_ns(), 10 * 1000 + 500);
}

#[test]
fn reads_one_after_the_other_pay_the_latency_each() {
    let (medium, file, clock) = medium(500);
    for count in 1..=10 {
        medium.read_at(&file, 0, &mut [0; 1000]).unwrap();
        assert_eq!(clock.monotonic_ns(), count * 1500);
    }
}

#[test]
fn an_idle_device_saves_nothing_up() {
    let (medium, file, clock) = medium(0);
    clock.advance_ns(1_000_000);
    medium.read_at(&file, 0, &mut [0; 1000]).unwrap();
    assert_eq!(clock.monotonic_ns(), 1_001_000);
}

#[test]
fn a_read_is_told_when_it_is_due_and_not_before() {
    struct Told {
        buffer: Vec<u8>,
        clock: Arc<ManualClock>,
        at_ns: mpsc::Sender<u64>,
    }
    impl PendingRead for Told {
        fn destination(&mut self) -> Destination<'_> {
            Destination::One(&mut self.buffer)
        }
        fn completed(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            self.at_ns.send(self.clock.monotonic_ns()).unwrap();
        }
    }
    let (medium, file, clock) = medium(7);
    let (at_ns, times) = mpsc::channel();
    let reads = [100, 50, 200].map(|length| ReadAt {
        file: file.clone(),
        offset_bytes: 0,
        read: Box::new(Told { buffer: vec![0; length], clock: Arc::clone(&clock), at_ns: at_ns.clone() }),
    });
    medium.submit(reads.into());
    drop(medium);
    assert_eq!(times.try_iter().collect::<Vec<_>>(), [107, 157, 357]);
}

#[test]
fn failures_come_through_and_writes_take_no_time() {
    let (medium, file, clock) = medium(0);
    medium.write_at(&medium.open_writable("column").unwrap(), 1 << 20, &[1; 5000]).unwrap();
    medium.sync_data(&file).unwrap();
    assert_eq!(clock.monotonic_ns(), 0);
    let mut queue = ReadQueue::new(medium);
    queue.submit([(file, 2 << 20, vec![0; 1])]);
    assert!(matches!(queue.wait_next().unwrap().outcome, Err(MediumError::PastEnd { .. })));
}
