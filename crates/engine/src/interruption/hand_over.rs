//! Gives a runtime's other tasks a thread while one task computes for long.

use std::cell::Cell;
use std::time::Duration;

use thermocline_hardware::Clock;
use tokio::runtime::{Handle, RuntimeFlavor};

/// After how much computing without a pause others get a turn: well under the tenth of a second that a user notices.
const STRETCH_NS: u64 = 30_000_000;

/// How long to stand aside: enough for a new thread to start and to take the worker's place, 1 % of the time.
const PAUSE: Duration = Duration::from_micros(300);

thread_local! {
    /// When this thread was here last, and since when it has been coming without a pause.
    static STRETCH: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// To be called every now and then by whoever may compute for long inside a poll. The first call of a stretch only
/// starts to count; once it has lasted, the runtime's other tasks move to a thread of their own, if they have none.
pub(super) fn hand_over_if_long(clock: &dyn Clock) {
    let now_ns = clock.monotonic_ns();
    let (last_ns, since_ns) = STRETCH.get();
    // Another database's clock may have another origin: whatever is far away is another stretch.
    let since_ns = if now_ns.abs_diff(last_ns) > STRETCH_NS { now_ns } else { since_ns };
    if now_ns.abs_diff(since_ns) <= STRETCH_NS {
        STRETCH.set((now_ns, since_ns));
        return;
    }
    STRETCH.set((now_ns, now_ns));
    // The other kind of runtime has one thread only.
    if Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(|| std::thread::sleep(PAUSE));
    }
}
