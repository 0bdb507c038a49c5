//! The class `Result`: a query that runs when its rows are asked for.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyImportError, PyModuleNotFoundError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use thermocline::SqlStatement;

use crate::arrow_out::{self, ArrowSchema, ArrowStream, BatchIterator};
use crate::in_turn::InTurn;
use crate::open_session::OpenSession;
use crate::rows::{RowCursor, RowIterator};
use crate::running::RunningQuery;
use crate::{plain_types, table_text};

/// Rows that `print(result)` and an interactive prompt show, as many as `show` does by default.
const REPR_ROWS: usize = 20;

/// The answer of a query, computed when it is asked for.
///
/// Each of `fetchall`, `df`, `pl`, `arrow`, `arrow_reader`, `show` and iteration runs the query (anew, if it ran
/// before), so the answer is that of the files as they are then. Only `fetchone` and `fetchmany` go on where the one
/// before them ended; `fetchall` after them returns the rows that are left. After the last row they return None and no
/// rows, and after an error that error: who wants to begin again asks `db.sql(…)` again.
///
/// Nothing can be asked once the connection is closed. Iterations, readers and streams that have begun go on to their
/// end, and keep the database open until then.
///
/// Libraries that know the Arrow PyCapsule interface take a `Result` as it is: `pyarrow.table(result)`,
/// `polars.DataFrame(result)`. The rows stream through in batches and the query runs meanwhile. A library may read types
/// that it does not know wrongly: polars does so with decimals of 32 and 64 bits, and with times in seconds that are too
/// large for milliseconds. `pl` converts the former and refuses the latter.
#[pyclass(frozen, name = "Result", module = "thermocline")]
pub(crate) struct LazyResult {
    open: Arc<OpenSession>,
    origin: Origin,
    /// Where `fetchone` and `fetchmany` are.
    place: InTurn<Place>,
}

enum Origin {
    Query(SqlStatement),
    /// The rows of a statement that is no query and was run once.
    Rows(SchemaRef, Vec<RecordBatch>),
}

enum Place {
    /// Nobody asked yet.
    Start,
    Within(RowCursor),
    /// The end has been told.
    End,
}

impl LazyResult {
    /// A query that did not run yet.
    pub(crate) fn of_query(open: Arc<OpenSession>, statement: SqlStatement) -> Self {
        Self { open, origin: Origin::Query(statement), place: InTurn::new(Place::Start) }
    }

    /// Rows that are there already.
    pub(crate) fn of_rows(open: Arc<OpenSession>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { open, origin: Origin::Rows(schema, batches), place: InTurn::new(Place::Start) }
    }

    /// Starts the query.
    ///
    /// # Errors
    /// Planning errors, and signals.
    pub(crate) fn run(&self, py: Python<'_>) -> PyResult<RunningQuery> {
        match &self.origin {
            Origin::Query(statement) => self.open.run(py, statement),
            Origin::Rows(schema, batches) => {
                self.open.check_open()?;
                Ok(RunningQuery::kept(Arc::clone(schema), batches.clone()))
            }
        }
    }

    /// The columns: those of the rows that `fetchone` and `fetchmany` are giving, or as of now.
    fn schema(&self, py: Python<'_>) -> PyResult<SchemaRef> {
        self.open.check_open()?;
        if let Place::Within(cursor) = &*self.place.take(py)? {
            return Ok(cursor.schema());
        }
        match &self.origin {
            Origin::Query(statement) => self.open.columns(py, statement),
            Origin::Rows(schema, _) => Ok(Arc::clone(schema)),
        }
    }

    /// The complete answer, if `check` finds nothing wrong with its columns.
    fn collected(&self, py: Python<'_>, check: fn(&Schema) -> PyResult<()>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
        let running = self.run(py)?;
        let schema = running.schema();
        check(&schema)?;
        Ok((schema, running.collect(py)?))
    }

    fn text(&self, py: Python<'_>, row_count: usize) -> PyResult<String> {
        let mut running = self.run(py)?;
        let mut batches = Vec::new();
        let mut seen = 0;
        // One row more tells whether there are more.
        while seen <= row_count
            && let Some(batch) = running.next(py)?
        {
            seen += batch.num_rows();
            batches.push(batch);
        }
        table_text::draw(&running.schema(), &batches, row_count)
    }
}

#[pymethods]
impl LazyResult {
    /// All rows as tuples, of a run of its own; while `fetchone` or `fetchmany` are on their way, the rows that are left.
    ///
    /// NULL is None; a struct is a dict, a list a list, a map a dict, a decimal `decimal.Decimal`; dates and times are
    /// those of `datetime`, aware and in UTC where the column has a time zone. `datetime` ends at microseconds: digits
    /// beyond are cut off. Intervals are `thermocline.Interval`.
    ///
    /// >>> db.sql("SELECT 1 AS a, 'x' AS b").fetchall()
    /// [(1, 'x')]
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.open.check_open()?;
        let mut place = self.place.take(py)?;
        if let Place::Within(cursor) = &mut *place {
            let rows = cursor.take(py, usize::MAX)?;
            *place = Place::End;
            return Ok(rows);
        }
        drop(place);
        RowCursor::new(self.run(py)?).take(py, usize::MAX)
    }

    /// The next row; None after the last one, as often as it is asked.
    ///
    /// >>> db.sql("SELECT 1 AS a").fetchone()
    /// (1,)
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.at_place(py, |cursor| {
            let row = cursor.next(py)?;
            let is_over = row.is_none();
            Ok((row, is_over))
        })
        .map(Option::flatten)
    }

    /// The next `count` rows, fewer at the end; none after the last one, as often as it is asked.
    #[pyo3(signature = (count = 1))]
    fn fetchmany<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let rows = self.at_place(py, |cursor| {
            let rows = cursor.take(py, count)?;
            let is_over = rows.is_empty() && count > 0;
            Ok((rows, is_over))
        })?;
        Ok(rows.unwrap_or_else(|| PyList::empty(py)))
    }

    /// The rows as tuples, one by one, while the query runs.
    ///
    /// >>> for name, age in db.sql("SELECT name, age FROM people ORDER BY age"):
    /// ...     print(name, age)
    /// Ada 36
    /// Bo 41
    fn __iter__(&self, py: Python<'_>) -> PyResult<RowIterator> {
        Ok(RowIterator::new(RowCursor::new(self.run(py)?)))
    }

    /// The names of the columns: planned anew, or those of the rows that `fetchone` and `fetchmany` are giving.
    #[getter]
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.schema(py)?.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// The Arrow types of the columns, as text: planned anew, or those of the rows that `fetchone` and `fetchmany` are
    /// giving.
    ///
    /// >>> db.sql("SELECT 1 AS a, 0.5 AS b").types
    /// ['Int64', 'Float64']
    #[getter]
    fn types(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.schema(py)?.fields().iter().map(|field| field.data_type().to_string()).collect())
    }

    /// The answer as a pandas DataFrame. Needs pandas and pyarrow.
    ///
    /// Integers of a column with NULLs become floats, as pandas has it; where one of them would change by that, it is
    /// refused.
    fn df<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        need(py, "pandas", "df()")?;
        let pyarrow = need(py, "pyarrow", "df()")?;
        let (schema, batches) = self.collected(py, plain_types::check_for_pandas)?;
        let stream =
            plain_stream(py, &schema, batches, plain_types::for_pandas, plain_types::check_integers_for_pandas)?;
        let options = PyDict::new(py);
        // A file may say what its columns were in pandas: those of the answer are others.
        options.set_item("ignore_metadata", true)?;
        pyarrow.call_method1("table", (stream,))?.call_method("to_pandas", (), Some(&options))
    }

    /// The answer as a polars DataFrame. Needs polars.
    fn pl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let polars = need(py, "polars", "pl()")?;
        let (schema, batches) = self.collected(py, plain_types::check_for_polars)?;
        let stream = plain_stream(py, &schema, batches, plain_types::for_polars, |_, _| Ok(()))?;
        polars.call_method1("DataFrame", (stream,))
    }

    /// The answer as a `pyarrow.Table`. Needs pyarrow.
    fn arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = need(py, "pyarrow", "arrow()")?;
        let (schema, batches) = self.collected(py, |_| Ok(()))?;
        pyarrow.call_method1("table", (ArrowStream::new(schema, batches),))
    }

    /// The answer as a `pyarrow.RecordBatchReader`, which takes batches while the query runs: for answers larger than
    /// memory. Needs pyarrow.
    fn arrow_reader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = need(py, "pyarrow", "arrow_reader()")?;
        let running = self.run(py)?;
        // A stream of the PyCapsule interface would turn our exceptions, and Ctrl-C, into pyarrow's.
        let schema = pyarrow.call_method1("schema", (ArrowSchema(running.schema()),))?;
        let batches = BatchIterator::new(running, pyarrow.getattr("record_batch")?.unbind());
        pyarrow.getattr("RecordBatchReader")?.call_method1("from_batches", (schema, batches))
    }

    /// Prints the first rows as a table.
    #[pyo3(signature = (max_rows = 20))]
    fn show(&self, py: Python<'_>, max_rows: usize) -> PyResult<()> {
        // Python's own print, so that notebooks and redirected output see it.
        py.import("builtins")?.call_method1("print", (self.text(py, max_rows)?,))?;
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.text(py, REPR_ROWS)
    }

    /// The Arrow PyCapsule interface: a stream of the answer's batches, computed while they are read.
    /// `requested_schema` is not followed, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        arrow_out::stream_of_query(py, self.run(py)?)
    }
}

impl LazyResult {
    /// Calls `take` with the cursor of `fetchone` and `fetchmany`, which starts if there is none yet, and ends if `take`
    /// says so; `None` after the end.
    fn at_place<T>(
        &self,
        py: Python<'_>,
        take: impl FnOnce(&mut RowCursor) -> PyResult<(T, bool)>,
    ) -> PyResult<Option<T>> {
        self.open.check_open()?;
        let mut place = self.place.take(py)?;
        if matches!(*place, Place::Start) {
            *place = Place::Within(RowCursor::new(self.run(py)?));
        }
        let Place::Within(cursor) = &mut *place else { return Ok(None) };
        let (taken, is_over) = take(cursor)?;
        if is_over {
            *place = Place::End;
        }
        Ok(Some(taken))
    }
}

/// The answer in types that a library knows, converted without the interpreter lock, if `check` finds nothing wrong with
/// its values.
fn plain_stream(
    py: Python<'_>,
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    plain: fn(&DataType) -> Option<DataType>,
    check: fn(&Schema, &[RecordBatch]) -> PyResult<()>,
) -> PyResult<ArrowStream> {
    let (schema, batches) = py.detach(|| {
        let (schema, batches) = plain_types::converted(schema, batches, plain)?;
        check(&schema, &batches)?;
        PyResult::Ok((schema, batches))
    })?;
    Ok(ArrowStream::new(schema, batches))
}

/// Imports an optional package.
fn need<'py>(py: Python<'py>, package: &str, method: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|error| {
        if !error.is_instance_of::<PyModuleNotFoundError>(py) {
            return error;
        }
        let missing = PyImportError::new_err(format!("{method} needs {package}: pip install {package}"));
        missing.set_cause(py, Some(error));
        missing
    })
}
