//! Tables of others: through the Arrow PyCapsule interface, but for those whose errors it would change.
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
use thermocline_budget::{Budget, BudgetError, Purpose, Reservation};

use crate::arrow_out::{ARRAY_NAME, SCHEMA_NAME, STREAM_NAME};
use crate::errors::{InputError, ResourceError};
use crate::lent_array::lent;
use crate::names::repeated;
use crate::result::LazyResult;
use crate::same_layout::same_columns;

/// A table of others: its columns and its rows, which are held from the budget while they are read.
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    reservation: Reservation,
}

impl Rows {
    fn new(schema: SchemaRef, name: &str, budget: &Budget) -> PyResult<Self> {
        if let Some(names) = repeated(schema.fields()) {
            return Err(InputError::new_err(format!(
                "table '{name}': several columns are named {names}: SQL could not tell them apart"
            )));
        }
        let reservation = budget.account(name, Purpose::Query).try_reserve(0).map_err(no_room)?;
        Ok(Self { schema, batches: Vec::new(), reservation })
    }

    fn push(&mut self, py: Python<'_>, batch: RecordBatch) -> PyResult<()> {
        // Batches may be slices of one array.
        let size_bytes = thermocline::memory::used_bytes(&batch).map_err(refused)? as u64;
        // Caches may have to make room.
        py.detach(|| self.reservation.try_grow(size_bytes)).map_err(no_room)?;
        self.batches.push(batch);
        py.check_signals()
    }

    /// The columns and the rows, which the budget does not hold any more.
    pub(crate) fn into_parts(self) -> (SchemaRef, Vec<RecordBatch>) {
        (self.schema, self.batches)
    }
}

fn no_room(error: BudgetError) -> PyErr {
    ResourceError::new_err(error.to_string())
}

/// Reads the rows of table `name` from an object that offers them.
///
/// # Errors
/// `InputError` when the object is no table, `ResourceError` as soon as its rows find no room, whatever the object
/// raises itself, and signals.
pub(crate) fn read(object: &Bound<'_, PyAny>, name: &str, budget: &Budget) -> PyResult<Rows> {
    let py = object.py();
    // A stream would have only a number and a text for our own exceptions, and for Ctrl-C.
    if let Ok(result) = object.cast::<LazyResult>() {
        let mut running = result.get().run(py)?;
        let mut rows = Rows::new(running.schema(), name, budget)?;
        while let Some(batch) = running.next(py)? {
            rows.push(py, batch)?;
        }
        return Ok(rows);
    }
    // The same goes for those of a reader's source, which may be Python code.
    if is_a(object, "pyarrow", "RecordBatchReader")? {
        return read_reader(object, name, budget);
    }
    // Pandas' own stream includes the index.
    if is_a(object, "pandas", "DataFrame")? {
        let pyarrow = py.import("pyarrow").map_err(|error| {
            let missing = InputError::new_err("registering a pandas DataFrame needs pyarrow: pip install pyarrow");
            missing.set_cause(py, Some(error));
            missing
        })?;
        let options = PyDict::new(py);
        options.set_item("preserve_index", false)?;
        let table = pyarrow.getattr("Table")?.call_method("from_pandas", (object,), Some(&options))?;
        return read_stream(&table, name, budget);
    }
    if object.hasattr("__arrow_c_stream__")? {
        return read_stream(object, name, budget);
    }
    if object.hasattr("__arrow_c_array__")? {
        let (schema, batch) = one_batch(object)?;
        let mut rows = Rows::new(schema, name, budget)?;
        rows.push(py, batch)?;
        return Ok(rows);
    }
    Err(InputError::new_err(format!(
        "cannot make a table of {}: expected an object with __arrow_c_stream__ or __arrow_c_array__ (pyarrow, polars, a \
         Result) or a pandas DataFrame",
        object.get_type().fully_qualified_name()?
    )))
}

/// Whether `object` is of a class of a package, which need not be there.
fn is_a(object: &Bound<'_, PyAny>, package: &str, class: &str) -> PyResult<bool> {
    let modules = object.py().import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    match modules.get_item(package)? {
        // A module that is being imported, or a stand-in of a test, lacks its classes.
        Some(package) if package.hasattr(class)? => object.is_instance(&package.getattr(class)?),
        _ => Ok(false),
    }
}

fn read_reader(reader: &Bound<'_, PyAny>, name: &str, budget: &Budget) -> PyResult<Rows> {
    let py = reader.py();
    let schema = reader.getattr("schema")?.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
    let mut rows = Rows::new(schema_of_capsule(&schema)?, name, budget)?;
    for object in reader.try_iter()? {
        let (schema, array) = exported(&object?)?;
        // The reader takes its source's word for them.
        if !same_columns(&rows.schema, &schema) {
            let types = |schema: &SchemaRef| -> Vec<_> {
                schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
            };
            return Err(InputError::new_err(format!(
                "a batch of the stream has the columns {:?}, expected {:?}",
                types(&schema),
                types(&rows.schema)
            )));
        }
        // SAFETY: the producer made the array for its own schema, whose arrays are the same in memory.
        let batch = unsafe { batch(array, &rows.schema) }.map_err(refused)?;
        rows.push(py, batch)?;
    }
    Ok(rows)
}

fn read_stream(object: &Bound<'_, PyAny>, name: &str, budget: &Budget) -> PyResult<Rows> {
    let py = object.py();
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM_NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid stream; we take it over and leave a released one behind, as the
    // interface asks.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let mut stream = Stream::new(stream).map_err(refused)?;
    let mut rows = Rows::new(SchemaRef::clone(&stream.schema), name, budget)?;
    while let Some(batch) = py.detach(|| stream.next()).map_err(refused)? {
        rows.push(py, batch)?;
    }
    Ok(rows)
}

fn one_batch(object: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, RecordBatch)> {
    let (schema, array) = exported(object)?;
    // SAFETY: the producer made the array for this schema.
    let batch = unsafe { batch(array, &schema) }.map_err(refused)?;
    Ok((schema, batch))
}

/// What an object with `__arrow_c_array__` has: an array, and the schema that it was made for.
fn exported(object: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, FFI_ArrowArray)> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        object.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema_of_capsule(&schema)?;
    let array = array.pointer_checked(Some(ARRAY_NAME))?.cast::<FFI_ArrowArray>();
    // SAFETY: as for streams: a valid array by the capsule's name, taken over.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    Ok((schema, array))
}

fn schema_of_capsule(capsule: &Bound<'_, PyCapsule>) -> PyResult<SchemaRef> {
    let schema = capsule.pointer_checked(Some(SCHEMA_NAME))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a valid schema, and outlives this function.
    table_schema(unsafe { schema.as_ref() }).map_err(refused)
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
        DataType::Struct(_) => {
            let mut schema = Schema::try_from(schema)?;
            // What the columns were in pandas: queries that change their types would pass it on.
            schema.metadata.remove("pandas");
            Ok(Arc::new(schema))
        }
        other => Err(ArrowError::SchemaError(format!("expected a table, that is a struct of columns, found {other}"))),
    }
}

/// One batch of a table.
///
/// # Safety
/// `array` holds values of `schema`, or of one with the [`same_columns`].
unsafe fn batch(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    // SAFETY: by this function's contract.
    let data: ArrayData = unsafe { from_ffi_and_data_type(lent(array), DataType::Struct(schema.fields().clone())) }?;
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
