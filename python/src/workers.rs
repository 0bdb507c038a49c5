//! The worker threads of a database: there until its last connection and the last query that runs on them are gone.

use pyo3::prelude::*;
use thermocline::THREAD_STACK_BYTES;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::allocator::IDLE_THREAD;
use crate::errors::InternalError;

/// The worker threads of one database.
#[derive(Debug)]
pub(crate) struct Workers(Option<Runtime>);

impl Workers {
    /// Starts `count` threads; one per core when absent.
    pub(crate) fn start(count: Option<usize>) -> PyResult<Self> {
        let mut builder = Builder::new_multi_thread();
        if let Some(count) = count {
            builder.worker_threads(count);
        }
        let runtime = builder
            .thread_name("thermocline")
            .thread_stack_size(THREAD_STACK_BYTES)
            .thread_keep_alive(IDLE_THREAD)
            .enable_all()
            .build()
            .map_err(|error| InternalError::new_err(format!("cannot start worker threads: {error}")))?;
        Ok(Self(Some(runtime)))
    }

    /// Where tasks are spawned.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("the runtime is there until the workers are dropped").handle()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Running tasks are dropped where they next wait; Python does not have to stand still for that.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
