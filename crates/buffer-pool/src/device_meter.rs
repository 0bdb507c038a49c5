//! How fast the device is while it has something to do for the pool.
//!
//! **Invariants**: time counts while at least one read is under way, whoever asked for it, and once however many there
//! are; what a read brought counts when it is over. So bytes over time are at most what the device can do, and less
//! only while it is asked for little at once.
//!
//! **Concurrency**: one short lock for each end of a read.

use std::sync::Arc;

use parking_lot::Mutex;
use thermocline_hardware::Clock;

/// The meter of all reads of a pool.
#[derive(Debug)]
pub(crate) struct DeviceMeter {
    clock: Arc<dyn Clock>,
    sums: Mutex<Sums>,
}

/// What a device brought, and how long that took it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeviceWork {
    pub(crate) bytes: u64,
    pub(crate) busy_ns: u64,
}

#[derive(Debug, Default)]
struct Sums {
    under_way_count: usize,
    /// Until when busy time is counted, while reads are under way.
    counted_until_ns: u64,
    since_taken: DeviceWork,
}

impl Sums {
    fn count_until(&mut self, now_ns: u64) {
        if self.under_way_count > 0 {
            self.since_taken.busy_ns += now_ns.saturating_sub(self.counted_until_ns);
        }
        // Clocks are read before the lock is had, and may come in another order.
        self.counted_until_ns = self.counted_until_ns.max(now_ns);
    }
}

impl DeviceMeter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, sums: Mutex::default() })
    }

    /// A read is handed to the device.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        let now_ns = self.clock.monotonic_ns();
        let mut sums = self.sums.lock();
        sums.count_until(now_ns);
        sums.under_way_count += 1;
        UnderWay { meter: Arc::clone(self) }
    }

    /// What was done since work was last taken, if the device was busy for so long at least; else it goes on counting.
    pub(crate) fn take(&self, least_busy_ns: u64) -> Option<DeviceWork> {
        let now_ns = self.clock.monotonic_ns();
        let mut sums = self.sums.lock();
        sums.count_until(now_ns);
        (sums.since_taken.busy_ns >= least_busy_ns.max(1)).then(|| std::mem::take(&mut sums.since_taken))
    }
}

/// A read that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    meter: Arc<DeviceMeter>,
}

impl UnderWay {
    /// It brought so much.
    pub(crate) fn arrived(self, bytes: u64) {
        self.meter.sums.lock().since_taken.bytes += bytes;
    }

    /// Another read of the same device begins.
    pub(crate) fn another(&self) -> Self {
        self.meter.begin()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let now_ns = self.meter.clock.monotonic_ns();
        let mut sums = self.meter.sums.lock();
        sums.count_until(now_ns);
        sums.under_way_count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use thermocline_hardware::ManualClock;

    use super::*;

    #[test]
    fn time_counts_once_and_only_while_something_is_under_way() {
        let clock = Arc::new(ManualClock::default());
        let meter = DeviceMeter::new(Arc::clone(&clock) as Arc<dyn Clock>);
        clock.advance_ns(100);
        assert_eq!(meter.take(0), None);
        let first = meter.begin();
        clock.advance_ns(10);
        let second = meter.begin();
        clock.advance_ns(10);
        first.arrived(4096);
        clock.advance_ns(10);
        assert_eq!(meter.take(31), None);
        assert_eq!(meter.take(30), Some(DeviceWork { bytes: 4096, busy_ns: 30 }));
        clock.advance_ns(5);
        drop(second);
        clock.advance_ns(1000);
        assert_eq!(meter.take(1), Some(DeviceWork { bytes: 0, busy_ns: 5 }), "what fails brings nothing");
        assert_eq!(meter.take(1), None);
    }
}
