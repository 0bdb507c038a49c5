//! Values that only the process that made them may touch.
//!
//! A child made by `fork` has copies of the parent's locks in whatever state they were, and none of its threads: using
//! the engine there, or only dropping it, could hang. So access is refused in a child, and what a child inherited is
//! leaked when Python collects it there.

use pyo3::PyResult;

use crate::errors::InputError;

/// A value of the process that made it.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process_id: u32,
    /// `None` only while being taken out.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// A value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { process_id: std::process::id(), value: Some(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// `InputError` in another process than the one that made the value.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.check()?;
        Ok(self.value.as_ref().expect("the value is there until the wrapper is dropped"))
    }

    /// The value, to change it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        self.check()?;
        Ok(self.value.as_mut().expect("the value is there until the wrapper is dropped"))
    }

    fn check(&self) -> PyResult<()> {
        let process_id = std::process::id();
        if process_id == self.process_id {
            return Ok(());
        }
        Err(InputError::new_err(format!(
            "this connection was opened by process {} and cannot be used after fork in process {process_id}: \
             call thermocline.connect() in the child",
            self.process_id
        )))
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process_id != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
