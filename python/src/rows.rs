//! Batches as Python tuples, row by row.

use std::sync::{Mutex, PoisonError};

use arrow::array::RecordBatch;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;

use crate::running::RunningQuery;
use crate::values;

/// A place in the rows of a running query.
#[derive(Debug)]
pub(crate) struct RowCursor {
    running: RunningQuery,
    /// What is left of the batch that was read last.
    rows: std::vec::IntoIter<Py<PyTuple>>,
}

impl RowCursor {
    /// Before the first row.
    pub(crate) fn new(running: RunningQuery) -> Self {
        Self { running, rows: Vec::new().into_iter() }
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Those of the query, a value that Python's types cannot hold, and signals.
    pub(crate) fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row.into_bound(py)));
            }
            match self.running.next(py)? {
                Some(batch) => self.rows = tuples(py, &batch)?.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// The rows of a batch.
fn tuples(py: Python<'_>, batch: &RecordBatch) -> PyResult<Vec<Py<PyTuple>>> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        columns.push(values::of_column(py, field.name(), column)?.into_iter());
    }
    // Each iterator has one value a row.
    (0..batch.num_rows())
        .map(|_| Ok(PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())?.unbind()))
        .collect()
}

/// The rows of one run of a query.
#[pyclass(frozen, name = "RowIterator", module = "thermocline")]
pub(crate) struct RowIterator {
    cursor: Mutex<RowCursor>,
}

impl RowIterator {
    /// The rows from `cursor` on.
    pub(crate) fn new(cursor: RowCursor) -> Self {
        Self { cursor: Mutex::new(cursor) }
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.cursor.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).next(py)
    }
}
