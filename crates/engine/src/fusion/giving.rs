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
    /// With how many nobody asks for more.
    enough: Option<usize>,
    /// How much of them is held back.
    most_held_bytes: u64,
    /// The first rows; `None` once they were given out.
    held: Mutex<Option<Held>>,
    sender: Sender<Result<Given, PipelineError>>,
}

/// Rows that nobody has seen.
#[derive(Default)]
struct Held {
    batches: Vec<Given>,
    row_count: usize,
    size_bytes: u64,
}

impl Giving {
    /// Of rows of which `outputs` are made, and where they come out: when there are so many, all, or `enough`. With
    /// `computes` so many are too many.
    pub(super) fn new(
        outputs: Vec<Output>,
        schema: SchemaRef,
        computes: bool,
        enough: Option<usize>,
        most_held_bytes: u64,
    ) -> (Self, Receiver<Result<Given, PipelineError>>) {
        let (sender, receiver) = channel(WAITING_BATCHES);
        let held = Mutex::new(Some(Held::default()));
        (Self { outputs, schema, may_open: !computes, enough, most_held_bytes, held, sender }, receiver)
    }

    /// Takes some rows of a thread, and waits until there is room for them.
    pub(super) fn take(&self, rowset: Rowset, reservation: Reservation) -> Result<(), Box<dyn Error + Send + Sync>> {
        reservation.resize(rowset.unshared_bytes() + output::most_bytes(&rowset, &self.outputs, &self.schema))?;
        let batch = output::batch(rowset, &self.outputs, &self.schema)?;
        let size_bytes = batch.get_array_memory_size() as u64;
        reservation.resize(size_bytes)?;
        let first = {
            let mut held = self.held.lock();
            match held.as_mut() {
                Some(first) => {
                    first.row_count += batch.num_rows();
                    first.size_bytes += size_bytes;
                    first.batches.push((batch, reservation));
                    let are_enough = self.enough.is_some_and(|enough| first.row_count >= enough);
                    if first.size_bytes < self.most_held_bytes && !are_enough {
                        return Ok(());
                    }
                    if !self.may_open && !are_enough {
                        return Err("more rows than are held back until all are computed".into());
                    }
                    held.take().map(|first| first.batches).unwrap_or_default()
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
            Ok(()) => held.unwrap_or_default().batches.into_iter().try_for_each(|given| self.send(Ok(given))),
            Err(error) => {
                // Who takes over needs the memory.
                drop(held);
                self.send(Err(error))
            }
        };
    }

    fn send(&self, given: Result<Given, PipelineError>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody asks for the rows any more");
        Ok(self.sender.blocking_send(given).map_err(gone)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use thermocline_budget::{Account, Budget, Purpose};
    use thermocline_pipeline::{ColumnShape, RowsetColumn, RowsetValues, ValueType};

    use super::*;

    /// As many as would be held back with much memory.
    const MOST_HELD_BYTES: u64 = 16 << 20;

    fn account() -> Account {
        Budget::new(1 << 30, None).account("test", Purpose::Query)
    }

    fn giving(computes: bool, enough: Option<usize>) -> (Giving, Receiver<Result<Given, PipelineError>>) {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
        Giving::new(vec![Output::Column(0)], schema, computes, enough, MOST_HELD_BYTES)
    }

    fn take(giving: &Giving, account: &Account, row_count: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let shape = ColumnShape { name: "v".to_owned(), value_type: ValueType::Int64, nullable: false };
        let values = RowsetValues::Integers(vec![7; row_count]);
        let rowset = Rowset { columns: vec![RowsetColumn { shape, values, valid: None }], row_count };
        giving.take(rowset, account.try_reserve(0).unwrap())
    }

    /// The numbers of rows of what comes out, and the error at its end.
    fn received(mut given: Receiver<Result<Given, PipelineError>>) -> (Vec<usize>, Option<PipelineError>) {
        let mut row_counts = Vec::new();
        while let Some(next) = given.blocking_recv() {
            match next {
                Ok((batch, _)) => row_counts.push(batch.num_rows()),
                Err(error) => return (row_counts, Some(error)),
            }
        }
        (row_counts, None)
    }

    #[test]
    fn the_first_rows_are_held_back_and_gone_if_the_pipeline_fails() {
        let account = account();
        let (first, given) = giving(true, None);
        take(&first, &account, 10).unwrap();
        first.end(Ok(()));
        assert!(matches!(received(given), (rows, None) if rows == [10]));

        let (first, given) = giving(false, None);
        take(&first, &account, 10).unwrap();
        assert!(account.reserved_bytes() >= 80);
        first.end(Err(PipelineError::Cancelled));
        assert!(matches!(received(given), (rows, Some(PipelineError::Cancelled)) if rows.is_empty()));
        assert_eq!(account.reserved_bytes(), 0);
    }

    #[test]
    fn many_rows_leave_before_the_end_unless_something_is_computed() {
        let (account, many) = (account(), MOST_HELD_BYTES as usize / 8);
        let (first, mut given) = giving(false, None);
        take(&first, &account, many).unwrap();
        assert_eq!(given.try_recv().unwrap().unwrap().0.num_rows(), many);
        // Nobody asks any more.
        drop(given);
        assert!(take(&first, &account, 1).unwrap_err().to_string().contains("nobody asks"));

        let (first, given) = giving(true, None);
        let error = take(&first, &account, many).unwrap_err();
        first.end(Err(PipelineError::Consumer(error)));
        assert!(matches!(received(given), (rows, Some(PipelineError::Consumer(_))) if rows.is_empty()));
    }

    #[test]
    fn as_many_rows_as_are_enough_leave_at_once() {
        let account = account();
        for computes in [false, true] {
            let (first, mut given) = giving(computes, Some(5));
            take(&first, &account, 4).unwrap();
            assert!(given.try_recv().is_err());
            take(&first, &account, 1).unwrap();
            assert_eq!(given.try_recv().unwrap().unwrap().0.num_rows(), 4);
        }
    }
}
