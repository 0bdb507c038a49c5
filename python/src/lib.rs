//! The extension module `thermocline._thermocline`: the engine as Python objects.
//!
//! **Owns**: connections and results as Python sees them, waiting without the interpreter lock, Arrow data in and out
//! through the PyCapsule interface, rows as Python values.
//!
//! **Does not own**: anything a Rust user would miss; that is in the facade crate `thermocline`.
//!
//! **How a query runs**: a task on the connection's own runtime pulls batches and passes them through a short channel
//! (`running`); the thread that asked waits for the channel without the interpreter lock and looks for signals every
//! 50 ms (`wait`), so that Ctrl-C is answered whatever the workers do.
//!
//! **Concurrency**: every class may be used by several threads. What runs Python code while it is used is used in turn
//! (`in_turn`), and refuses to be used from within itself. Locks are held for moments; a turn is only waited for without
//! the interpreter lock, and no worker thread ever asks for the interpreter lock while somebody waits for it with that
//! lock held.
//!
//! **The end of Python**: queries that run are not waited for. Arrays of others are kept from then on (`lent_array`),
//! since giving them back may take the interpreter lock.
//!
//! **Fork**: what belongs to one process is wrapped in `of_process::OfProcess`, which refuses in a child and leaks
//! there.

mod allocator;
mod arguments;
mod arrow_in;
mod arrow_out;
mod connection;
mod errors;
mod in_turn;
mod lent_array;
mod names;
mod of_process;
mod open_session;
mod plain_types;
mod result;
mod rows;
mod running;
mod same_layout;
mod table_text;
mod values;
mod wait;
mod workers;

use pyo3::prelude::*;

/// The compiled part of the `thermocline` package; import `thermocline` instead.
#[pymodule]
fn _thermocline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<result::LazyResult>()?;
    let at_exit = wrap_pyfunction!(lent_array::keep_all, module)?;
    module.py().import("atexit")?.call_method1("register", (at_exit,))?;
    module.add_function(wrap_pyfunction!(connection::connect, module)?)
}
