//! A statement that runs: a task on the runtime that pulls batches and passes them on.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use thermocline::{Error, Session, SqlStatement};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::errors::{InternalError, exception};
use crate::of_process::OfProcess;
use crate::wait::wait;

/// Batches computed ahead of the reader: one in hand while the next is made, one more to even out their times.
const BATCHES_AHEAD: usize = 2;

/// The batches of one run of a statement. Dropping it cancels the run.
#[derive(Debug)]
pub(crate) struct RunningQuery {
    schema: SchemaRef,
    source: Source,
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
    join: Option<JoinHandle<()>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(join) = &self.join {
            join.abort();
        }
    }
}

impl RunningQuery {
    /// Starts a statement and returns when its columns are known; a statement that is no query is done then.
    ///
    /// # Errors
    /// Planning errors, and signals.
    pub(crate) fn start(py: Python<'_>, runtime: &Handle, session: Session, statement: SqlStatement) -> PyResult<Self> {
        let (opened, is_open) = oneshot::channel();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let join = runtime.spawn(async move {
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
        let mut task = Task { batches, join: Some(join) };
        match wait(py, is_open)? {
            Ok(Ok(schema)) => Ok(Self { schema, source: Source::Task(OfProcess::new(task)) }),
            Ok(Err(error)) => Err(exception(py, &error)),
            // The task ended without a word.
            Err(_) => {
                task.end(py)?;
                Err(InternalError::new_err("the query was cancelled before its columns were known"))
            }
        }
    }

    /// Batches that were computed before.
    pub(crate) fn kept(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, source: Source::Kept(batches.into_iter()) }
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// What went wrong while computing it, and signals. The run is over then.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        // Batches that are always there in time are never waited for, and a caller in Rust runs no Python code in
        // between.
        py.check_signals()?;
        match &mut self.source {
            Source::Kept(batches) => Ok(batches.next()),
            Source::Task(task) => task.get_mut()?.next(py),
        }
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
        match wait(py, self.batches.recv())? {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(exception(py, &error)),
            None => {
                self.end(py)?;
                Ok(None)
            }
        }
    }

    /// Called when the channel is closed: the task has returned or panicked.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(join) = self.join.take() else { return Ok(()) };
        let Err(failure) = wait(py, join)? else { return Ok(()) };
        let reason = match failure.try_into_panic() {
            Ok(panic) => match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
                (Some(text), _) => (*text).to_string(),
                (_, Some(text)) => text.clone(),
                _ => "no message".to_string(),
            },
            Err(cancelled) => cancelled.to_string(),
        };
        Err(InternalError::new_err(format!("the query ended in a panic, please report it: {reason}")))
    }
}
