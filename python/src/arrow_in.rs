//! Tables of others through the Arrow PyCapsule interface.
//!
//! The interface trusts its producers: pointers and lengths are taken as they are. Types, the end of the stream and
//! errors are checked; arrow's own reader is not used because it takes a missing error text for impossible.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use thermocline::memory::format_bytes;

use crate::arrow_out::{ARRAY_NAME, SCHEMA_NAME, STREAM_NAME};
use crate::errors::{InputError, ResourceError};

/// A table of others: its columns and its rows.
type Table = (SchemaRef, Vec<RecordBatch>);

/// Reads a table from an object that offers one.
///
/// # Errors
/// `InputError` when the object is no table, `ResourceError` as soon as its rows take more than `limit_bytes`, whatever
/// the object raises itself, and signals.
pub(crate) fn read(object: &Bound<'_, PyAny>, limit_bytes: u64) -> PyResult<Table> {
    let py = object.py();
    if is_pandas(object)? {
        let pyarrow = py.import("pyarrow").map_err(|error| {
            let missing = InputError::new_err("registering a pandas DataFrame needs pyarrow: pip install pyarrow");
            missing.set_cause(py, Some(error));
            missing
        })?;
        let options = PyDict::new(py);
        options.set_item("preserve_index", false)?;
        let table = pyarrow.getattr("Table")?.call_method("from_pandas", (object,), Some(&options))?;
        return read_stream(&table, limit_bytes);
    }
    if object.hasattr("__arrow_c_stream__")? {
        return read_stream(object, limit_bytes);
    }
    if object.hasattr("__arrow_c_array__")? {
        return read_array(object);
    }
    Err(InputError::new_err(format!(
        "cannot make a table of {}: expected an object with __arrow_c_stream__ or __arrow_c_array__ (pyarrow, polars, a \
         Result) or a pandas DataFrame",
        object.get_type().fully_qualified_name()?
    )))
}

/// Looked for by hand: pandas' own stream includes the index.
fn is_pandas(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let modules = object.py().import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    match modules.get_item("pandas")? {
        // A module that is being imported, or a stand-in of a test, has no DataFrame.
        Some(pandas) if pandas.hasattr("DataFrame")? => object.is_instance(&pandas.getattr("DataFrame")?),
        _ => Ok(false),
    }
}

fn read_stream(object: &Bound<'_, PyAny>, limit_bytes: u64) -> PyResult<Table> {
    let py = object.py();
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM_NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid stream; we take it over and leave a released one behind, as the
    // interface asks.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let mut stream = Stream::new(stream).map_err(refused)?;
    let mut batches = Vec::new();
    let mut size_bytes = 0;
    while let Some(batch) = py.detach(|| stream.next()).map_err(refused)? {
        // Batches may be slices of one array.
        size_bytes += thermocline::memory::used_bytes(&batch).map_err(refused)? as u64;
        if size_bytes > limit_bytes {
            return Err(ResourceError::new_err(format!(
                "the table takes more than thermocline.memory = {}: free some, or raise thermocline.memory",
                format_bytes(limit_bytes)
            )));
        }
        batches.push(batch);
        py.check_signals()?;
    }
    Ok((stream.schema, batches))
}

fn read_array(object: &Bound<'_, PyAny>) -> PyResult<Table> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        object.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA_NAME))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a valid schema, and the capsule lives until the end of this function.
    let schema = table_schema(unsafe { schema.as_ref() }).map_err(refused)?;
    let array = array.pointer_checked(Some(ARRAY_NAME))?.cast::<FFI_ArrowArray>();
    // SAFETY: as for streams: a valid array by the capsule's name, taken over.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    // SAFETY: the producer made the array for this schema.
    let batch = unsafe { batch(array, &schema) }.map_err(refused)?;
    Ok((schema, vec![batch]))
}

/// A stream of a producer of the interface.
struct Stream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl Stream {
    fn new(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
            return Err(ArrowError::CDataInterface("the stream was read before".to_owned()));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the callback belongs to this stream, which is not released.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(failure(&mut stream, code));
        }
        Ok(Self { schema: table_schema(&schema)?, stream })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(get_next) = self.stream.get_next else {
            return Err(ArrowError::CDataInterface("the stream has no get_next".to_owned()));
        };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the callback belongs to this stream, which is not released.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if code != 0 {
            return Err(failure(&mut self.stream, code));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: the arrays of a stream have its schema.
        unsafe { batch(array, &self.schema) }.map(Some)
    }
}

fn failure(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let text = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the callback belongs to this stream; the text is valid until the next call.
        let text = unsafe { get_last_error(&raw mut *stream) };
        // SAFETY: a text that is not null ends with a zero byte.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    ArrowError::CDataInterface(text.unwrap_or_else(|| format!("the stream failed with error {code}")))
}

/// The columns of a table, which the interface passes as a struct.
fn table_schema(schema: &FFI_ArrowSchema) -> Result<SchemaRef, ArrowError> {
    match DataType::try_from(schema)? {
        DataType::Struct(_) => Ok(Arc::new(Schema::try_from(schema)?)),
        other => Err(ArrowError::SchemaError(format!("expected a table, that is a struct of columns, found {other}"))),
    }
}

/// One batch of a table.
///
/// # Safety
/// `array` holds values of `schema`.
unsafe fn batch(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    // SAFETY: by this function's contract.
    let data: ArrayData = unsafe { from_ffi_and_data_type(array, DataType::Struct(schema.fields().clone())) }?;
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        return Err(ArrowError::InvalidArgumentError("a row of a table cannot be NULL as a whole".to_owned()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), rows.into_parts().1, &options)
}

fn refused(error: ArrowError) -> PyErr {
    // The producer's own words; arrow's prefix says nothing more.
    InputError::new_err(match error {
        ArrowError::CDataInterface(text) | ArrowError::SchemaError(text) | ArrowError::InvalidArgumentError(text) => {
            text
        }
        other => other.to_string(),
    })
}
