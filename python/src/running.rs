//! A statement that runs: a task on the runtime that pulls batches and passes them on.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use thermocline::{Error, ErrorKind, Session, SqlStatement};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};

use crate::errors::{InternalError, exception};
use crate::of_process::OfProcess;
use crate::wait::wait;
use crate::workers::Workers;

/// Batches computed ahead of the reader: one in hand while the next is made, one more to even out their times.
const BATCHES_AHEAD: usize = 2;

/// The batches of one run of a statement. Dropping it cancels the run.
///
/// At least one batch is given, an empty one if there are no rows: pyarrow's conversion to pandas ends the process for
/// columns of some types without any.
#[derive(Debug)]
pub(crate) struct RunningQuery {
    schema: SchemaRef,
    source: Source,
    has_given: bool,
}

#[derive(Debug)]
enum Source {
    /// A task that computes them.
    Task(OfProcess<Task>),
    /// They are there already.
    Kept(std::vec::IntoIter<RecordBatch>),
}

#[derive(Debug)]
struct Task {
    batches: mpsc::Receiver<Result<RecordBatch, Error>>,
    /// `None` once the end of the task was seen.
    join: Option<AbortOnDrop<()>>,
    /// What the run ended with, to be told again.
    failure: Option<Error>,
    /// What it runs on, which may outlive its connection with it. Last: the task is cancelled before they go.
    _workers: Arc<OfProcess<Workers>>,
}

/// A task that is cancelled when nobody waits for it any more.
#[derive(Debug)]
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RunningQuery {
    /// Starts a statement and returns when its columns are known; a statement that is no query is done then.
    ///
    /// # Errors
    /// Planning errors, signals, and `InputError` in a forked child.
    pub(crate) fn start(
        py: Python<'_>,
        workers: &Arc<OfProcess<Workers>>,
        session: Session,
        statement: SqlStatement,
    ) -> PyResult<Self> {
        let (opened, is_open) = oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let join = workers.get()?.handle().spawn(async move {
            let mut result = match session.execute(&statement).await {
                Ok(result) => result,
                Err(error) => {
                    // The receiver is gone when the caller was interrupted.
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            if opened.send(Ok(result.schema())).is_err() {
                return;
            }
            while let Some(batch) = result.next().await {
                let is_over = batch.is_err();
                if sender.send(batch).await.is_err() || is_over {
                    return;
                }
            }
        });
        let mut task = Task { batches, join: Some(AbortOnDrop(join)), failure: None, _workers: Arc::clone(workers) };
        match wait(py, is_open)? {
            Ok(Ok(schema)) => Ok(Self { schema, source: Source::Task(OfProcess::new(task)), has_given: false }),
            Ok(Err(error)) => Err(exception(py, &error)),
            // The task ended without a word.
            Err(_) => {
                task.end(py)?;
                Err(match &task.failure {
                    Some(failure) => exception(py, failure),
                    None => InternalError::new_err("the query was cancelled before its columns were known"),
                })
            }
        }
    }

    /// Batches that were computed before.
    pub(crate) fn kept(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, source: Source::Kept(batches.into_iter()), has_given: false }
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether computing the batches ended with an error, which [`next`](Self::next) tells again and again.
    pub(crate) fn has_failed(&self) -> bool {
        match &self.source {
            Source::Kept(_) => false,
            Source::Task(task) => task.get().is_ok_and(|task| task.failure.is_some()),
        }
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// What went wrong while computing it: the run is over then. And signals, after which the run goes on.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        // Batches that are always there in time are never waited for, and a caller in Rust runs no Python code in
        // between.
        py.check_signals()?;
        let batch = match &mut self.source {
            Source::Kept(batches) => batches.next(),
            Source::Task(task) => task.get_mut()?.next(py)?,
        };
        let is_first = !std::mem::replace(&mut self.has_given, true);
        Ok(batch.or_else(|| is_first.then(|| RecordBatch::new_empty(self.schema()))))
    }

    /// All batches that are left.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(crate) fn collect(mut self, py: Python<'_>) -> PyResult<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next(py)? {
            batches.push(batch);
        }
        Ok(batches)
    }
}

impl Task {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        if self.failure.is_none() {
            match wait(py, self.batches.recv())? {
                Some(Ok(batch)) => return Ok(Some(batch)),
                Some(Err(error)) => self.failure = Some(error),
                None => self.end(py)?,
            }
        }
        self.failure.as_ref().map_or(Ok(None), |failure| Err(exception(py, failure)))
    }

    /// Called when the channel is closed: the task has returned or panicked.
    ///
    /// # Errors
    /// Signals: the task is to be asked again then.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(join) = &mut self.join else { return Ok(()) };
        self.failure = wait(py, &mut join.0)?.err().map(ended);
        self.join = None;
        Ok(())
    }
}

/// The columns of a query, which is not run for them.
///
/// # Errors
/// Planning errors, and signals.
pub(crate) fn columns(
    py: Python<'_>,
    runtime: &Handle,
    session: Session,
    statement: SqlStatement,
) -> PyResult<SchemaRef> {
    let mut planning = AbortOnDrop(runtime.spawn(async move { session.columns(&statement).await }));
    wait(py, &mut planning.0)?.unwrap_or_else(|failure| Err(ended(failure))).map_err(|error| exception(py, &error))
}

/// Why a task has no answer.
fn ended(failure: JoinError) -> Error {
    let reason = match failure.try_into_panic() {
        Ok(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_string(),
            (_, Some(text)) => text.clone(),
            _ => "no message".to_string(),
        },
        Err(cancelled) => cancelled.to_string(),
    };
    Error::new(ErrorKind::Internal, format!("the query ended in a panic, please report it: {reason}"))
}
