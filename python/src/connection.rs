//! `thermocline.connect` and the class `Connection`.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use pyo3::prelude::*;
use thermocline::{Eviction, SessionBuilder, SqlStatement};

use crate::errors::{InputError, exception};
use crate::of_process::OfProcess;
use crate::open_session::OpenSession;
use crate::result::LazyResult;
use crate::workers::Workers;
use crate::{allocator, arguments, arrow_in};

/// Opens a database in this process and returns a connection to it.
///
/// `memory` is the one number to think about: what caches and running queries may use together, such as "4GB",
/// "512MiB", "25%" or a number of bytes; half of this machine's memory when absent, or of the control group's limit if
/// that is less, and a percentage is one of the same. `cache_memory` caps the caches alone. `threads` is how many parts
/// a query runs in, at most 1024, one per core when absent. `eviction` names the policy by which cached results make
/// room for others: "recache" when absent, "recache-as-printed", "lru", "proteus", "vectorwise" or "monetdb".
/// `database` is the folder in which it keeps tables, views and what spares work the next time, made if its parent is
/// there, and open once at a time (`cursor()` gives further connections), unless all open it with `read_only`: then it
/// must be there, and nothing in it is changed. Nothing is kept on disk where `database` is None or ":memory:".
///
/// >>> import thermocline
/// >>> db = thermocline.connect(memory="1GB")
/// >>> db.sql("SELECT 1 + 1 AS two").fetchall()
/// [(2,)]
#[pyfunction]
#[pyo3(signature = (database = None, memory = None, cache_memory = None, threads = None, eviction = None, read_only = false))]
pub(crate) fn connect(
    py: Python<'_>,
    database: Option<PathBuf>,
    memory: Option<&Bound<'_, PyAny>>,
    cache_memory: Option<&Bound<'_, PyAny>>,
    threads: Option<&Bound<'_, PyAny>>,
    eviction: Option<&str>,
    read_only: bool,
) -> PyResult<Connection> {
    let memory = memory.map(|value| arguments::amount("memory", value)).transpose()?;
    let cache_memory = cache_memory.map(|value| arguments::amount("cache_memory", value)).transpose()?;
    let threads = threads.map(|value| arguments::thread_count("threads", value)).transpose()?;
    let eviction: Eviction = match eviction {
        Some(name) => name.parse().map_err(|error| InputError::new_err(format!("eviction='{name}': {error}")))?,
        None => Eviction::default(),
    };
    let build = || {
        let mut builder = SessionBuilder::new()
            .allocated_bytes(allocator::allocated_bytes)
            .on_scarcity(allocator::heed_scarcity)
            .eviction(eviction)
            .read_only(read_only);
        if let Some(folder) = database.filter(|folder| folder.as_os_str() != ":memory:") {
            builder = builder.database(folder);
        }
        if let Some(memory) = memory {
            builder = builder.memory(&memory)?;
        }
        if let Some(cache_memory) = cache_memory {
            builder = builder.cache_memory(&cache_memory)?;
        }
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        builder.build()
    };
    let session = py.detach(build).map_err(|error| exception(py, &error))?;
    let workers = Workers::start(threads)?;
    Ok(Connection { open: Arc::new(OpenSession::new(Arc::new(OfProcess::new(workers)), session)) })
}

/// One user's conversation with a database: `thermocline.connect()` makes the first, `cursor()` further ones.
///
/// Connections of one database share its tables, caches and memory budget; each has its own settings. A connection may
/// be used from several threads. It is a context manager that closes itself at the end of the block.
#[pyclass(frozen, name = "Connection", module = "thermocline")]
pub(crate) struct Connection {
    open: Arc<OpenSession>,
}

#[pymethods]
impl Connection {
    /// Runs SQL.
    ///
    /// A query is not run yet: the `Result` that is returned runs it when its rows are asked for. Any other statement
    /// is done when this returns; the return value is None unless the statement returns rows (`INSERT` and `COPY` count
    /// them). Of several statements, divided by semicolons, all but the last run at once.
    ///
    /// >>> db.sql("CREATE TABLE t AS SELECT 1 AS a")
    /// >>> db.sql("SELECT a FROM t").fetchall()
    /// [(1,)]
    fn sql(&self, py: Python<'_>, text: &str) -> PyResult<Option<LazyResult>> {
        let session = self.open.session()?;
        let mut statements = py.detach(|| session.parse(text)).map_err(|error| exception(py, &error))?;
        drop(session);
        let Some(last) = statements.pop() else {
            return Err(InputError::new_err("there is no statement to run"));
        };
        for statement in &statements {
            let mut running = self.open.run(py, statement)?;
            while running.next(py)?.is_some() {}
        }
        if last.is_query() { Ok(Some(self.result(last))) } else { self.run_now(py, &last) }
    }

    /// The same as `sql`.
    fn execute(&self, py: Python<'_>, text: &str) -> PyResult<Option<LazyResult>> {
        self.sql(py, text)
    }

    /// Makes a table of `object` under `name`, for all connections of this database, until `unregister` or
    /// `DROP TABLE`. A table that has the name already is replaced.
    ///
    /// `object` is anything with `__arrow_c_stream__` or `__arrow_c_array__` (tables, batches and readers of pyarrow
    /// and polars, a `Result` of this package), or a pandas DataFrame, whose index is left out. The rows are counted in
    /// the memory budget and are not copied where the layout allows: don't change their arrays in place. SQL reads a
    /// name without quotes in lower case.
    ///
    /// >>> db.register("people", pyarrow.table({"name": ["Ada", "Bo"]}))
    /// >>> db.sql("SELECT count(*) FROM people").fetchall()
    /// [(2,)]
    fn register(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let session = self.open.session()?;
        let rows = arrow_in::read(object, name, session.database().budget()).or_else(|error| {
            // A library may have made an error of its own of Ctrl-C.
            py.check_signals()?;
            Err(error)
        })?;
        let register = || {
            let (schema, batches) = rows.into_parts();
            session.register_batches(name, schema, batches)
        };
        py.detach(register).map_err(|error| exception(py, &error))
    }

    /// Removes the table `name`.
    ///
    /// >>> db.unregister("people")
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let session = self.open.session()?;
        if py.detach(|| session.deregister(name)).map_err(|error| exception(py, &error))? {
            return Ok(());
        }
        Err(InputError::new_err(format!("there is no table '{name}'")))
    }

    /// What the cache holds now: a `Result` over the table `thermocline.cache_items`.
    ///
    /// >>> held = db.cache().df()[["path", "predicate", "size_bytes", "use_count"]]
    fn cache(&self, py: Python<'_>) -> PyResult<Option<LazyResult>> {
        self.sql(py, "SELECT * FROM thermocline.cache_items")
    }

    /// Another connection to the same database, with settings of its own.
    fn cursor(&self) -> PyResult<Self> {
        Ok(Self { open: Arc::new(self.open.another()?) })
    }

    /// The same as `cursor`.
    fn session(&self) -> PyResult<Self> {
        self.cursor()
    }

    /// Closes this connection; its results can't be asked any more, and `fetchone` and `fetchmany` don't go on.
    ///
    /// Iterations, readers and streams that have begun go on to their end. The database goes when its last connection is
    /// closed and none of them is left.
    fn close(&self, py: Python<'_>) {
        self.open.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    fn __repr__(&self) -> &'static str {
        if self.open.is_closed() { "<thermocline.Connection, closed>" } else { "<thermocline.Connection>" }
    }
}

impl Connection {
    fn result(&self, statement: SqlStatement) -> LazyResult {
        LazyResult::of_query(Arc::clone(&self.open), statement)
    }

    /// Runs a statement that is no query; rows that it returns are kept.
    fn run_now(&self, py: Python<'_>, statement: &SqlStatement) -> PyResult<Option<LazyResult>> {
        let running = self.open.run(py, statement)?;
        let schema = running.schema();
        let batches: Vec<RecordBatch> = running.collect(py)?;
        Ok((!schema.fields().is_empty()).then(|| LazyResult::of_rows(Arc::clone(&self.open), schema, batches)))
    }
}
