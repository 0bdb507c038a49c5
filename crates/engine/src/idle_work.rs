//! Work that nobody waits for, done while no query runs.
//!
//! **Owns**: the queue of such work, its one thread, and how it is known that nothing else is to be done.
//! **Does not own**: the work itself ([`crate::raw_table`]'s).
//!
//! **Rules**
//! - Work begins when no scan has run for [`QUIET`], and asks again ([`IdleWork::go_on`]) before each of its steps,
//!   which take milliseconds: whoever asks a query meanwhile waits for one step at most.
//! - With the last session goes all work that is left: a database that nobody can ask has nothing to prepare for.
//! - There is a thread while there is work, and none else.
//!
//! **Concurrency**: one lock, under which nothing is done but counting.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long nothing must have run: longer than from one query of a program to its next, shorter than anybody thinks.
const QUIET: Duration = Duration::from_millis(25);

/// Jobs that wait at most; further ones are not worth remembering.
const QUEUE_LENGTH: usize = 64;

/// Told to stop between its steps by [`IdleWork::wait`].
pub(crate) type Job = Box<dyn FnOnce(&IdleWork) + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct IdleWork {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running_count: usize,
    session_count: usize,
    queue: VecDeque<Job>,
    has_thread: bool,
}

impl std::fmt::Debug for IdleWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("IdleWork").field("running_count", &state.running_count).finish_non_exhaustive()
    }
}

/// Something that idle work gives way to, as long as this lives.
#[derive(Debug)]
pub(crate) struct Busy(Arc<IdleWork>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.state.lock().running_count -= 1;
        self.0.changed.notify_all();
    }
}

/// A session, as long as this lives.
#[derive(Debug)]
pub(crate) struct Presence(Arc<IdleWork>);

impl Drop for Presence {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.state.lock();
            state.session_count -= 1;
            if state.session_count == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() }
        };
        self.0.changed.notify_all();
        drop(left);
    }
}

impl IdleWork {
    /// Notes that a scan runs.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.state.lock().running_count += 1;
        self.changed.notify_all();
        Busy(Arc::clone(self))
    }

    /// Whether a scan runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.state.lock().running_count > 0
    }

    /// Notes that there is a session.
    pub(crate) fn presence(self: &Arc<Self>) -> Presence {
        self.state.lock().session_count += 1;
        Presence(Arc::clone(self))
    }

    /// Has a job done when nothing else is. It is forgotten if there is no session, or too much is waiting.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) {
        {
            let mut state = self.state.lock();
            if state.session_count == 0 || state.queue.len() >= QUEUE_LENGTH {
                return;
            }
            state.queue.push_back(job);
            if std::mem::replace(&mut state.has_thread, true) {
                return;
            }
        }
        let work = Arc::clone(self);
        let thread = std::thread::Builder::new().name("thermocline-idle".to_string()).spawn(move || work.run());
        if thread.is_err() {
            // Without a thread it is not done; the next job tries again. Jobs are dropped without the lock, for what
            // goes with them may want it.
            let _left = {
                let mut state = self.state.lock();
                state.has_thread = false;
                std::mem::take(&mut state.queue)
            };
            // Who waits for the work to end need not any more.
            self.changed.notify_all();
        }
    }

    fn run(&self) {
        loop {
            let job = {
                let mut state = self.state.lock();
                let job = state.queue.pop_front();
                state.has_thread = job.is_some();
                job
            };
            match job {
                // What a job leaves behind when it panics is nothing: nobody waits for it.
                Some(job) => drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(self)))),
                None => {
                    self.changed.notify_all();
                    return;
                }
            }
        }
    }

    /// Blocks until no work is left, or for so long; whether none is left.
    pub(crate) fn rest(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        !self.changed.wait_while_for(&mut state, |state| state.has_thread, at_most).timed_out()
    }

    /// Returns once nothing has run for a while; false when the work is no longer wanted.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.session_count == 0 {
                return false;
            }
            if state.running_count > 0 {
                self.changed.wait(&mut state);
            } else if self.changed.wait_for(&mut state, QUIET).timed_out() && state.running_count == 0 {
                return state.session_count > 0;
            }
        }
    }

    /// Whether work that waited for its beginning may go on with its next step; waits again if something runs.
    pub(crate) fn go_on(&self) -> bool {
        let is_quiet = {
            let state = self.state.lock();
            state.running_count == 0 && state.session_count > 0
        };
        is_quiet || self.wait()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvTimeoutError};

    use super::*;

    #[test]
    fn work_is_done_when_nothing_runs_and_not_before() {
        let idle = Arc::new(IdleWork::default());
        let _session = idle.presence();
        assert!(!idle.is_busy());
        let busy = idle.busy();
        assert!(idle.is_busy());
        let (done, is_done) = mpsc::channel();
        let (proceed, may_proceed) = mpsc::channel();
        idle.submit(Box::new(move |idle| {
            assert!(idle.wait());
            done.send("first").ok();
            // What runs by then is to be heeded by the next step.
            may_proceed.recv().ok();
            assert!(idle.go_on());
            done.send("second").ok();
        }));
        assert_eq!(is_done.recv_timeout(4 * QUIET), Err(RecvTimeoutError::Timeout), "something runs");
        drop(busy);
        assert_eq!(is_done.recv(), Ok("first"));
        let busy = idle.busy();
        proceed.send(()).ok();
        assert_eq!(is_done.recv_timeout(4 * QUIET), Err(RecvTimeoutError::Timeout), "something runs again");
        drop(busy);
        assert_eq!(is_done.recv(), Ok("second"));
        assert!(idle.rest(Duration::from_secs(60)));
    }

    #[test]
    fn work_goes_with_the_last_session() {
        let idle = Arc::new(IdleWork::default());
        let (ended, how) = mpsc::channel();
        let job = |ended: mpsc::Sender<bool>| -> Job {
            Box::new(move |idle| {
                ended.send(idle.wait()).ok();
            })
        };
        idle.submit(job(ended.clone()));
        assert!(how.try_recv().is_err(), "nobody is there");
        let (session, _busy) = (idle.presence(), idle.busy());
        idle.submit(job(ended.clone()));
        idle.submit(job(ended));
        drop(session);
        // The first may have begun to wait; the second never does.
        assert_ne!(how.recv(), Ok(true));
        assert_ne!(how.recv(), Ok(true));
    }

    #[test]
    fn a_job_that_panics_keeps_none_from_being_done() {
        let idle = Arc::new(IdleWork::default());
        let _session = idle.presence();
        let (done, is_done) = mpsc::channel();
        idle.submit(Box::new(|_| std::panic::resume_unwind(Box::new(()))));
        idle.submit(Box::new(move |_| {
            done.send(()).ok();
        }));
        assert_eq!(is_done.recv(), Ok(()));
    }
}
