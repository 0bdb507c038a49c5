//! What a connection shares with its results: the runtime of the database and the session, until it is closed.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use thermocline::{Session, SqlStatement};

use crate::errors::InputError;
use crate::of_process::OfProcess;
use crate::running::{self, RunningQuery};
use crate::workers::Workers;

/// A session until it is closed, and the workers that run its queries.
#[derive(Debug)]
pub(crate) struct OpenSession {
    workers: Arc<OfProcess<Workers>>,
    /// Only held for a clone or a drop, never while waiting or without the interpreter lock.
    session: Mutex<Option<OfProcess<Session>>>,
}

impl OpenSession {
    /// A session on its database's workers.
    pub(crate) fn new(workers: Arc<OfProcess<Workers>>, session: Session) -> Self {
        Self { workers, session: Mutex::new(Some(OfProcess::new(session))) }
    }

    /// Another session of the same database.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub(crate) fn another(&self) -> PyResult<Self> {
        let session = self.session()?.database().session();
        Ok(Self::new(Arc::clone(&self.workers), session))
    }

    /// The session.
    ///
    /// # Errors
    /// `InputError` when it was closed, or in a forked child.
    pub(crate) fn session(&self) -> PyResult<Session> {
        self.check_process()?;
        match &*self.session.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(session) => Ok(session.get()?.clone()),
            None => Err(closed()),
        }
    }

    /// Refuses in a forked child, before any lock is asked for.
    ///
    /// # Errors
    /// `InputError` there.
    fn check_process(&self) -> PyResult<()> {
        self.workers.get().map(|_| ())
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Ends the session; queries that run go on to their end.
    pub(crate) fn close(&self, py: Python<'_>) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        end(py, session);
    }

    /// Refuses when the session was closed, or in a forked child.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub(crate) fn check_open(&self) -> PyResult<()> {
        self.check_process()?;
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Starts a statement.
    ///
    /// # Errors
    /// Those of [`session`](Self::session) and of planning the statement, and signals.
    pub(crate) fn run(&self, py: Python<'_>, statement: &SqlStatement) -> PyResult<RunningQuery> {
        let session = self.session()?;
        RunningQuery::start(py, &self.workers, session, statement.clone())
    }

    /// The columns of a query as of now, which is not run for them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn columns(&self, py: Python<'_>, statement: &SqlStatement) -> PyResult<SchemaRef> {
        let session = self.session()?;
        running::columns(py, self.workers.get()?.handle(), session, statement.clone())
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let session = self.session.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if session.is_some() {
            // Python collects with the lock held. Where there is none to give up, the session is dropped with the closure.
            let _ = Python::try_attach(move |py| end(py, session));
        }
    }
}

/// Drops a session without the interpreter lock: with the last one go the caches, which may be many gigabytes, and arrays
/// of others, whose owners may ask for the lock in a thread that is waited for.
fn end(py: Python<'_>, session: Option<OfProcess<Session>>) {
    py.detach(|| drop(session));
}

fn closed() -> PyErr {
    InputError::new_err("this connection is closed")
}
