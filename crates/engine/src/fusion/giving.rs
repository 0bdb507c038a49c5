//! The rows of a pipeline on their way to whoever asked for them, while it runs.
//!
//! **Owns**: the first rows, which are held back so that operators can take over as long as nobody has seen a row; and
//! the channel that the others go through. **Does not own**: the pipeline, what operators then do.
//!
//! **Invariants**
//! - Rows are given out either by the pipeline or by operators, never by both.
//! - A pipeline that computes gives out its rows when it has ended: its arithmetic may fail on rows that operators would
//!   never compute.
//!
//! **Concurrency**: a thread of the pipeline that has rows waits until the channel has room for them; it goes on, with
//! an error, when nobody asks any more.

use std::error::Error;
use std::io;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_pipeline::{PipelineError, Rowset};
use thermocline_placement::fusion;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::output;
use super::star::Output;

/// Batches that wait in the channel.
const WAITING_BATCHES: usize = 2;

/// Rows, and what holds their memory.
pub(super) type Given = (RecordBatch, Reservation);

/// Where the pipeline's threads give their rows.
pub(super) struct Giving {
    outputs: Vec<Output>,
    schema: SchemaRef,
    /// Whether rows may leave before the pipeline has ended.
    may_open: bool,
    /// The first rows and their bytes; `None` once they were given out.
    held: Mutex<Option<(Vec<Given>, u64)>>,
    sender: Sender<Result<Given, PipelineError>>,
}

impl Giving {
    /// Of rows of which `outputs` are made, and where they come out. With `computes` they leave when all are there.
    pub(super) fn new(
        outputs: Vec<Output>,
        schema: SchemaRef,
        computes: bool,
    ) -> (Self, Receiver<Result<Given, PipelineError>>) {
        let (sender, receiver) = channel(WAITING_BATCHES);
        (Self { outputs, schema, may_open: !computes, held: Mutex::new(Some((Vec::new(), 0))), sender }, receiver)
    }

    /// Takes some rows of a thread, and waits until there is room for them.
    pub(super) fn take(&self, rowset: Rowset, reservation: Reservation) -> Result<(), Box<dyn Error + Send + Sync>> {
        reservation.resize(2 * rowset.size_bytes())?;
        let batch = output::batch(&rowset, &self.outputs, &self.schema)?;
        drop(rowset);
        let size_bytes = batch.get_array_memory_size() as u64;
        reservation.resize(size_bytes)?;
        let first = {
            let mut held = self.held.lock();
            match held.as_mut() {
                Some((batches, held_bytes)) => {
                    batches.push((batch, reservation));
                    *held_bytes += size_bytes;
                    if *held_bytes < fusion::MOST_HELD_BYTES {
                        return Ok(());
                    }
                    if !self.may_open {
                        return Err("more rows than are held back until all are computed".into());
                    }
                    held.take().map(|(batches, _)| batches).unwrap_or_default()
                }
                None => vec![(batch, reservation)],
            }
        };
        first.into_iter().try_for_each(|given| self.send(Ok(given)))
    }

    /// The pipeline has ended: gives out what was held back, or why there is no more.
    pub(super) fn end(self, ended: Result<(), PipelineError>) {
        let held = self.held.lock().take();
        // Who does not ask any more needs no rest.
        let _ = match ended {
            Ok(()) => held.into_iter().flat_map(|(batches, _)| batches).try_for_each(|given| self.send(Ok(given))),
            Err(error) => self.send(Err(error)),
        };
    }

    fn send(&self, given: Result<Given, PipelineError>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody asks for the rows any more");
        Ok(self.sender.blocking_send(given).map_err(gone)?)
    }
}
