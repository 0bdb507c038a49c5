//! Arrays that others lent: given back while Python runs, kept once it ends.
//!
//! The owner of an array may ask for the interpreter lock when it gets it back; pyarrow does so for memory of NumPy.
//! Whatever thread asks for that lock while the interpreter ends is itself ended by Python, up to 3.13, and a worker
//! thread takes the whole process with it. So [`keep_all`], which Python calls before it ends, has all arrays kept from
//! then on, and waits for those that are on their way back.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arrow::ffi::FFI_ArrowArray;
use pyo3::prelude::*;

/// Whether arrays are kept. It and the count are atomics, since a forked child may find a mutex locked for ever.
static ARE_KEPT: AtomicBool = AtomicBool::new(false);
/// Arrays that are being given back now.
static RETURNING_COUNT: AtomicUsize = AtomicUsize::new(0);

/// How often, and how many times, the end of Python looks whether all are back: a second in all. An owner takes moments.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
const LOOK_COUNT: usize = 1_000;

/// `array`, to be given back to its owner by way of this module.
pub(crate) fn lent(array: FFI_ArrowArray) -> FFI_ArrowArray {
    if array.is_released() {
        return array;
    }
    FFI_ArrowArray {
        length: array.length,
        null_count: array.null_count,
        offset: array.offset,
        n_buffers: array.n_buffers,
        n_children: array.n_children,
        buffers: array.buffers,
        children: array.children,
        dictionary: array.dictionary,
        release: Some(give_back),
        private_data: Box::into_raw(Box::new(array)).cast(),
    }
}

/// The callback of the interface by which a consumer is done with an array.
unsafe extern "C" fn give_back(array: *mut FFI_ArrowArray) {
    // SAFETY: the interface passes a valid array, whose callback this is, and once only: it has none afterwards.
    let array = unsafe { &mut *array };
    array.release = None;
    // SAFETY: `lent` made it of a box.
    let owned = unsafe { Box::from_raw(array.private_data.cast::<FFI_ArrowArray>()) };
    // Counted first: either the end of Python waits for this one, or this one sees that it comes.
    RETURNING_COUNT.fetch_add(1, Ordering::SeqCst);
    if ARE_KEPT.load(Ordering::SeqCst) {
        std::mem::forget(owned);
    } else {
        drop(owned);
    }
    RETURNING_COUNT.fetch_sub(1, Ordering::SeqCst);
}

/// Keeps all arrays from now on. For `atexit`: Python calls it before it ends.
#[pyfunction]
pub(crate) fn keep_all(py: Python<'_>) {
    ARE_KEPT.store(true, Ordering::SeqCst);
    // Without the lock, which their owners ask for.
    py.detach(|| {
        for _ in 0..LOOK_COUNT {
            if RETURNING_COUNT.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    });
}
