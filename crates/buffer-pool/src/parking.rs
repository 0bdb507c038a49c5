//! Waiting for a poll-based thing on a thread of one's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Parked {
    thread: Thread,
    /// Somebody else may unpark the thread, or take its token: what counts is this.
    is_woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls until there is an answer; sleeps in between. Not for threads that drive other tasks.
pub(crate) fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    // Most pages are there already: nothing is allocated for these.
    if let Poll::Ready(answer) = poll(&mut Context::from_waker(Waker::noop())) {
        return answer;
    }
    let parked = Arc::new(Parked { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&parked));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(answer) = poll(&mut context) {
            return answer;
        }
        while !parked.is_woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}
