//! Results for others through the Arrow PyCapsule interface.
//!
//! A consumer may call the stream from any thread, with or without the interpreter lock. So each call attaches (which
//! does nothing for a thread that holds the lock), and waits without it, as everywhere.

#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow::array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{InternalError, ResourceError};
use crate::in_turn::InTurn;
use crate::of_process::OfProcess;
use crate::running::RunningQuery;

/// The names that the interface gives to capsules, by what they hold.
pub(crate) const STREAM_NAME: &CStr = c"arrow_array_stream";
pub(crate) const SCHEMA_NAME: &CStr = c"arrow_schema";
pub(crate) const ARRAY_NAME: &CStr = c"arrow_array";

fn capsule(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    // The capsule drops the stream if its consumer did not take it.
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM_NAME)
}

/// The batches of a running query, computed while they are read.
pub(crate) fn stream_of_query(py: Python<'_>, running: RunningQuery) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = running.schema();
    capsule(py, Box::new(QueryReader { schema, running: Some(running) }))
}

struct QueryReader {
    schema: SchemaRef,
    /// `None` after the end or an error.
    running: Option<RunningQuery>,
}

impl Iterator for QueryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let running = self.running.as_mut()?;
        let next = Python::try_attach(|py| running.next(py).map_err(|error| foreign_error(py, &error)));
        let next = next.unwrap_or_else(|| Err(ArrowError::CDataInterface("the interpreter has ended".to_owned())));
        if !matches!(next, Ok(Some(_))) {
            self.running = None;
        }
        next.transpose()
    }
}

impl RecordBatchReader for QueryReader {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// An exception for a consumer that takes only a number and a text.
fn foreign_error(py: Python<'_>, error: &PyErr) -> ArrowError {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: this thread is attached; the call only sets the flag that a signal's arrival sets. The consumer turns
        // our answer into an error of its own; with the flag set again, Python raises KeyboardInterrupt as soon as it
        // gets control.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        return ArrowError::IoError("interrupted".to_owned(), std::io::ErrorKind::Interrupted.into());
    }
    // A zero byte, which may come from a file, would end the text.
    let text = error.value(py).to_string().replace('\0', "\\0");
    if error.is_instance_of::<ResourceError>(py) {
        ArrowError::MemoryError(text)
    } else {
        ArrowError::InvalidArgumentError(text)
    }
}

/// Batches of a running query for pyarrow's reader of Python iterators, which passes exceptions on as they are.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct BatchIterator {
    running: OfProcess<InTurn<RunningQuery>>,
    /// `pyarrow.record_batch`.
    import: Py<PyAny>,
}

impl BatchIterator {
    /// The batches that are left.
    pub(crate) fn new(running: RunningQuery, import: Py<PyAny>) -> Self {
        Self { running: OfProcess::new(InTurn::new(running)), import }
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.running.get()?.take(py)?.next(py)?;
        next.map(|batch| self.import.bind(py).call1((ArrowBatch(batch),))).transpose()
    }
}

/// One batch that knows the PyCapsule interface.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct ArrowBatch(RecordBatch);

#[pymethods]
impl ArrowBatch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let rows = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).into_data());
        Ok((schema_capsule(py, self.0.schema_ref())?, PyCapsule::new_with_value(py, rows, ARRAY_NAME)?))
    }
}

/// Columns that know the PyCapsule interface.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct ArrowSchema(pub(crate) SchemaRef);

#[pymethods]
impl ArrowSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| InternalError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
}

/// A complete answer that knows the PyCapsule interface.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct ArrowStream {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowStream {
    /// The answer `batches`, each with the columns of `schema`.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl ArrowStream {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        capsule(py, Box::new(RecordBatchIterator::new(batches, SchemaRef::clone(&self.schema))))
    }
}
