//! Whether memory is scarce, and the hook that is told when that changes.
//!
//! **Invariants**: the hook is told of changes in turns, `true` first, by one thread at a time; once nobody is telling
//! it any more, what it was told last is how it is.
//!
//! **Concurrency**: no lock, since it is told by whoever reserves or gives back, with locks of a cache held. What is and
//! what was told is one number: a thread that finds another one telling leaves the news to that one, which looks again
//! when it is done.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Memory is scarce.
const IS_SCARCE: u8 = 1;
/// The hook knows it.
const TOLD_SCARCE: u8 = 2;
/// A thread is telling it something.
const IS_TELLING: u8 = 4;

/// See the module.
#[derive(Default)]
pub(crate) struct Scarcity {
    hook: OnceLock<fn(bool)>,
    state: AtomicU8,
}

impl Scarcity {
    /// The first hook that is set stays.
    pub(crate) fn observe(&self, hook: fn(bool)) {
        let _ = self.hook.set(hook);
    }

    /// Takes note of how it is, which `judge` says from how it was, and has the hook follow. Without a hook nothing is
    /// asked. Judged again after a change, for what it was judged by may have changed before that was noted.
    pub(crate) fn note(&self, judge: impl Fn(bool) -> bool) {
        let Some(hook) = self.hook.get() else { return };
        loop {
            let was_scarce = self.state.load(Ordering::Relaxed) & IS_SCARCE != 0;
            if judge(was_scarce) == was_scarce {
                break;
            }
            let turned = |state: u8| ((state & IS_SCARCE != 0) == was_scarce).then_some(state ^ IS_SCARCE);
            // If another thread was first, that is judged again too.
            let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turned);
        }
        self.tell(*hook);
    }

    fn tell(&self, hook: fn(bool)) {
        let begin = |state: u8| {
            let is_new = (state & IS_SCARCE != 0) != (state & TOLD_SCARCE != 0);
            (is_new && state & IS_TELLING == 0).then_some((state ^ TOLD_SCARCE) | IS_TELLING)
        };
        while let Ok(before) = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, begin) {
            let telling = Telling(self);
            hook(before & TOLD_SCARCE == 0);
            drop(telling);
        }
    }
}

/// Ends when dropped, should the hook panic too.
struct Telling<'a>(&'a Scarcity);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!IS_TELLING, Ordering::Release);
    }
}

/// Nobody is short of memory in what is gone.
impl Drop for Scarcity {
    fn drop(&mut self) {
        if let (Some(hook), true) = (self.hook.get(), *self.state.get_mut() & TOLD_SCARCE != 0) {
            hook(false);
        }
    }
}

impl fmt::Debug for Scarcity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_scarce = self.state.load(Ordering::Relaxed) & IS_SCARCE != 0;
        f.debug_struct("Scarcity").field("is_scarce", &is_scarce).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;

    #[test]
    fn what_is_told_last_is_how_it_is_however_long_telling_takes() {
        static TOLD: Mutex<Vec<bool>> = Mutex::new(Vec::new());
        static HAS_BEGUN: Barrier = Barrier::new(2);
        static GOES_ON: Barrier = Barrier::new(2);
        let scarcity = Scarcity::default();
        scarcity.observe(|is_scarce| {
            if is_scarce && TOLD.lock().unwrap().is_empty() {
                HAS_BEGUN.wait();
                GOES_ON.wait();
            }
            TOLD.lock().unwrap().push(is_scarce);
        });
        thread::scope(|scope| {
            scope.spawn(|| scarcity.note(|_| true));
            HAS_BEGUN.wait();
            scarcity.note(|_| false);
            GOES_ON.wait();
        });
        assert_eq!(*TOLD.lock().unwrap(), [true, false]);
        scarcity.note(|_| true);
        assert_eq!(*TOLD.lock().unwrap(), [true, false, true]);
        drop(scarcity);
        assert_eq!(*TOLD.lock().unwrap(), [true, false, true, false]);
    }

    #[test]
    fn a_hook_that_notes_a_change_itself_is_told_of_it_afterwards() {
        static SCARCITY: OnceLock<Scarcity> = OnceLock::new();
        static TOLD: Mutex<Vec<bool>> = Mutex::new(Vec::new());
        let scarcity = SCARCITY.get_or_init(Scarcity::default);
        scarcity.observe(|is_scarce| {
            SCARCITY.get().unwrap().note(|_| false);
            TOLD.lock().unwrap().push(is_scarce);
        });
        scarcity.note(|_| true);
        assert_eq!(*TOLD.lock().unwrap(), [true, false]);
    }
}
