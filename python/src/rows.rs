//! Batches as Python tuples, row by row.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::InputError;
use crate::in_turn::InTurn;
use crate::of_process::OfProcess;
use crate::running::RunningQuery;
use crate::values;

/// Rows that are converted at a time, as many as DataFusion puts into a batch: between them it is time to look for
/// signals, and batches that users register may be of any size.
const ROWS_AT_ONCE: usize = 8192;

/// A place in the rows of a running query.
///
/// The place moves only when rows are handed over: after a signal's exception it is where it was. After an error of the
/// query, or a value that Python's types cannot hold, it stays before that error.
#[derive(Debug)]
pub(crate) struct RowCursor {
    running: RunningQuery,
    /// What was read and is not converted yet.
    batch: Option<RecordBatch>,
    /// What is converted and not handed over yet.
    rows: VecDeque<Py<PyTuple>>,
}

impl RowCursor {
    /// Before the first row.
    pub(crate) fn new(running: RunningQuery) -> Self {
        Self { running, batch: None, rows: VecDeque::new() }
    }

    /// The columns of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.running.schema()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Those of the query, a value that Python's types cannot hold, and signals.
    pub(crate) fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.fill(py, 1)?;
        Ok(self.rows.pop_front().map(|row| row.into_bound(py)))
    }

    /// The next `count` rows, fewer at the end.
    ///
    /// # Errors
    /// As [`next`](Self::next), for any of these rows.
    pub(crate) fn take<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        self.fill(py, count)?;
        let taken = count.min(self.rows.len());
        let list = PyList::new(py, self.rows.range(..taken))?;
        self.rows.drain(..taken);
        Ok(list)
    }

    /// Converts until `count` rows are there, or all.
    ///
    /// At an error the rows before it that are there go: who asked for them has got the error instead of them, and gets
    /// it again. After a signal's exception they stay.
    fn fill(&mut self, py: Python<'_>, count: usize) -> PyResult<()> {
        while self.rows.len() < count {
            if self.batch.is_some() {
                py.check_signals()?;
                self.convert(py)?;
                continue;
            }
            match self.running.next(py) {
                Ok(Some(batch)) => self.batch = Some(batch),
                Ok(None) => break,
                Err(error) => {
                    if self.running.has_failed() {
                        self.rows.clear();
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Converts the first rows of the batch, as many as Python's types can hold: one value is to fail its own row alone.
    /// What is not converted stays.
    fn convert(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(batch) = self.batch.clone() else { return Ok(()) };
        let mut count = batch.num_rows().min(ROWS_AT_ONCE);
        loop {
            match tuples(py, &batch.slice(0, count)) {
                Ok(rows) => {
                    self.rows.extend(rows);
                    let left = batch.num_rows() - count;
                    self.batch = (left > 0).then(|| batch.slice(count, left));
                    return Ok(());
                }
                Err(error) if !error.is_instance_of::<InputError>(py) => return Err(error),
                Err(_) if count > 1 => count /= 2,
                Err(error) => {
                    self.rows.clear();
                    return Err(error);
                }
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
    cursor: OfProcess<InTurn<RowCursor>>,
}

impl RowIterator {
    /// The rows from `cursor` on.
    pub(crate) fn new(cursor: RowCursor) -> Self {
        Self { cursor: OfProcess::new(InTurn::new(cursor)) }
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.cursor.get()?.take(py)?.next(py)
    }
}
