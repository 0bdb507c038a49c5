//! Waiting for a future without the interpreter lock, with an eye on signals.
//!
//! The waiting thread is parked by itself, not by the runtime's timer: when all workers are busy with a long
//! computation nobody would drive that timer, and Ctrl-C would have to wait for them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often a waiting thread looks for signals: half of the 100 ms within which Ctrl-C has to be answered.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future`. The calling thread gives up the interpreter lock meanwhile. The future should only receive from
/// elsewhere: the work itself belongs on the runtime.
///
/// # Errors
/// What a Python signal handler raises (`KeyboardInterrupt`); the future is dropped then.
pub(crate) fn wait<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = py.detach(|| poll_for(future.as_mut(), SIGNAL_INTERVAL)) {
            return Ok(output);
        }
        py.check_signals()?;
    }
}

/// Polls, and polls again when woken or when `limit` is over. May return early: the caller loops.
fn poll_for<F: Future>(mut future: Pin<&mut F>, limit: Duration) -> Poll<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Poll::Ready(output),
        Poll::Pending => {
            std::thread::park_timeout(limit);
            future.poll(&mut context)
        }
    }
}
