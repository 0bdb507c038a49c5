//! Arguments of `connect` that are numbers, or text that stands for one.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use thermocline::MAX_THREADS;

use crate::errors::InputError;

/// Letters of a value that an error shows.
const SHOWN_LETTERS: usize = 60;

/// An amount of memory: text with a unit, such as `4GB`, or a number of bytes. As text, which the engine reads.
///
/// # Errors
/// `InputError` when it is no amount, `TypeError` when it is neither text nor a whole number.
pub(crate) fn amount(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.extract();
    }
    let expected = "an amount such as \"4GB\" or a number of bytes, at least 0 and less than 2**64";
    Ok(format!("{}B", whole_number(name, value, expected)?))
}

/// A number of threads.
///
/// # Errors
/// `InputError` when it is none that a database can have, `TypeError` when it is no whole number.
pub(crate) fn thread_count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let expected = format!("a whole number, at least 1 and at most {MAX_THREADS}");
    let count = whole_number(name, value, &expected)?;
    usize::try_from(count)
        .ok()
        .filter(|count| (1..=MAX_THREADS).contains(count))
        .ok_or_else(|| InputError::new_err(refusal(name, value, &expected)))
}

/// Any whole number but True and False, which are 1 and 0 to Python.
fn whole_number(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyResult<u64> {
    if value.is_instance_of::<PyBool>() {
        return Err(InputError::new_err(refusal(name, value, expected)));
    }
    let py = value.py();
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(py) {
            InputError::new_err(refusal(name, value, expected))
        } else if error.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(refusal(name, value, expected))
        } else {
            error
        }
    })
}

fn refusal(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> String {
    // Python writes no numbers of thousands of digits.
    let seen = value.repr().map_or_else(|_| "a value that cannot be shown".to_owned(), |text| text.to_string());
    match seen.char_indices().nth(SHOWN_LETTERS) {
        Some((end, _)) => format!("{name}={}…: expected {expected}", &seen[..end]),
        None => format!("{name}={seen}: expected {expected}"),
    }
}
