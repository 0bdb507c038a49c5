//! Values that threads use in turn, while Python code may run.
//!
//! A plain mutex would do, but for two things: a signal handler, a finalizer or a trace function that runs while its own
//! thread uses the value would wait for itself for ever, and whoever waits for another thread would be deaf to Ctrl-C.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use pyo3::prelude::*;

use crate::errors::InputError;
use crate::wait::SIGNAL_INTERVAL;

/// A value that one thread uses at a time.
#[derive(Debug)]
pub(crate) struct InTurn<T> {
    /// Who uses the value. Only held to look and to change, never while waiting or while Python code runs.
    user: Mutex<Option<ThreadId>>,
    /// Told when nobody uses it any more.
    is_free: Condvar,
    /// Only locked by its user: nobody ever waits for it.
    value: Mutex<T>,
}

impl<T: Send> InTurn<T> {
    /// A value that nobody uses yet.
    pub(crate) fn new(value: T) -> Self {
        Self { user: Mutex::default(), is_free: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until no other thread uses the value. The calling thread gives up the interpreter lock meanwhile.
    ///
    /// # Errors
    /// `InputError` when this very thread uses it, and signals.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Turn<'_, T>> {
        while !self.begin()? {
            py.detach(|| self.wait());
            py.check_signals()?;
        }
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Turn { of: self, value: Some(value) })
    }

    /// Makes this thread the user if there is none.
    fn begin(&self) -> PyResult<bool> {
        let this = std::thread::current().id();
        let mut user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        match *user {
            None => *user = Some(this),
            Some(other) if other != this => return Ok(false),
            Some(_) => {
                return Err(InputError::new_err(
                    "this result is being asked by the same thread already: code that runs meanwhile, such as a signal \
                     handler, has to ask another one, db.sql(…)",
                ));
            }
        }
        Ok(true)
    }

    /// Waits until told, or until it is time to look for signals.
    fn wait(&self) {
        let user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        if user.is_some() {
            let _ = self.is_free.wait_timeout(user, SIGNAL_INTERVAL);
        }
    }
}

/// The right to use a value, until it is dropped.
pub(crate) struct Turn<'a, T> {
    of: &'a InTurn<T>,
    /// `None` only while being dropped.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the value is there until the turn ends")
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the value is there until the turn ends")
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        // Before the next user begins.
        self.value = None;
        *self.of.user.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.of.is_free.notify_one();
    }
}
