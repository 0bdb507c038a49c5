//! Results for others through the Arrow PyCapsule interface.
//!
//! A consumer may call the stream from any thread, with or without the interpreter lock. So each call attaches (which does
//! nothing for a thread that holds the lock), and waits without it, as everywhere.

#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::ResourceError;
use crate::running::RunningQuery;

/// The name that the interface gives to capsules of streams.
pub(crate) const STREAM_NAME: &CStr = c"arrow_array_stream";

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
        // SAFETY: this thread is attached; the call only sets the flag that a signal's arrival sets. The consumer turns our
        // answer into an error of its own; with the flag set again, Python raises KeyboardInterrupt as soon as it gets control.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() };
    }
    // A zero byte, which may come from a file, would end the text.
    let text = error.value(py).to_string().replace('\0', "\\0");
    if error.is_instance_of::<ResourceError>(py) {
        ArrowError::MemoryError(text)
    } else {
        ArrowError::InvalidArgumentError(text)
    }
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
