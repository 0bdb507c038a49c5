//! The engine's errors as Python exceptions. The classes live in `thermocline/errors.py`, where editors and readers see
//! them. The message is the engine's; deeper causes that say more than the message are the chain of `__cause__`.

use std::error::Error;

use pyo3::prelude::*;
use thermocline::ErrorKind;

/// The exception classes; the module keeps their names apart from Rust's own `Error`.
mod classes {
    pyo3::import_exception!(thermocline.errors, Error);
    pyo3::import_exception!(thermocline.errors, InputError);
    pyo3::import_exception!(thermocline.errors, RetryError);
    pyo3::import_exception!(thermocline.errors, ResourceError);
    pyo3::import_exception!(thermocline.errors, InternalError);
}

pub(crate) use classes::{InputError, InternalError, ResourceError};

/// The exception for an error of the engine.
pub(crate) fn exception(py: Python<'_>, error: &thermocline::Error) -> PyErr {
    let message = error.to_string();
    let cause = cause(py, error, &message);
    let exception = match error.kind() {
        ErrorKind::Input => InputError::new_err(message),
        ErrorKind::Retry => classes::RetryError::new_err(message),
        ErrorKind::Resources => ResourceError::new_err(message),
        ErrorKind::Internal => InternalError::new_err(message),
        _ => classes::Error::new_err(message),
    };
    exception.set_cause(py, cause);
    exception
}

/// The chain below `error`, without the links that only wrap or repeat what `shown` says.
fn cause(py: Python<'_>, error: &dyn Error, shown: &str) -> Option<PyErr> {
    let source = error.source()?;
    let text = source.to_string();
    if shown.contains(&text) || text.contains(shown) {
        return cause(py, source, shown);
    }
    let deeper = cause(py, source, &text);
    let exception = classes::Error::new_err(text);
    exception.set_cause(py, deeper);
    Some(exception)
}
