//! The batches of an operator as pipelines ask for them.
//!
//! **Owns**: which of the operator's partitions each thread drives. **Does not own**: the operator.
//!
//! **Concurrency**: a partition belongs to one thread from its first batch to its last, which runs the operator itself:
//! batches are worked on where they were made.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::common::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_pipeline::{BatchSource, SourceBatch};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::raw_table::scan_exec::RawScanExec;

/// Whether a run's answer is still wanted.
#[derive(Debug, Default)]
pub(super) struct Cancellation {
    is_cancelled: AtomicBool,
    told: Notify,
}

impl Cancellation {
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.told.notify_waiters();
    }

    pub(super) fn flag(&self) -> &AtomicBool {
        &self.is_cancelled
    }

    /// Blocks this thread until `awaited` is there, or until nobody wants the answer any more, which is an error.
    pub(super) fn wait<T>(
        &self,
        runtime: &Handle,
        awaited: impl Future<Output = T>,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        runtime.block_on(async {
            let mut told = pin!(self.told.notified());
            // From here on it hears of a cancellation, and so it must look whether there was one.
            told.as_mut().enable();
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Err("cancelled".into());
            }
            match select(pin!(awaited), told).await {
                Either::Left((there, _)) => Ok(there),
                Either::Right(_) => Err("cancelled".into()),
            }
        })
    }
}

/// See the module.
pub(super) struct PlanBatches<'r> {
    plan: &'r dyn ExecutionPlan,
    columns: &'r [usize],
    context: &'r Arc<TaskContext>,
    runtime: &'r Handle,
    cancellation: &'r Cancellation,
    next_partition: AtomicUsize,
    /// What each thread drives.
    streams: Vec<Mutex<Option<BatchStream>>>,
}

type BatchStream = BoxStream<'static, PlanResult<SourceBatch>>;

/// The batches of a partition: of a scan as they are kept, where that spares copying them.
fn batches(plan: &dyn ExecutionPlan, partition: usize, context: &Arc<TaskContext>) -> PlanResult<BatchStream> {
    // Threads of a run have nothing else to yield to.
    let below = plan.downcast_ref::<CooperativeExec>().map_or(plan, |cooperative| cooperative.input().as_ref());
    match below.downcast_ref::<RawScanExec>() {
        Some(scan) => Ok(scan.kept_batches(partition).boxed()),
        None => Ok(plan.execute(partition, Arc::clone(context))?.map_ok(SourceBatch::from).boxed()),
    }
}

impl<'r> PlanBatches<'r> {
    /// The batches of `plan`, which has these columns of a table.
    pub(super) fn new(
        plan: &'r dyn ExecutionPlan,
        columns: &'r [usize],
        (context, runtime): (&'r Arc<TaskContext>, &'r Handle),
        cancellation: &'r Cancellation,
        thread_count: usize,
    ) -> Self {
        let streams = (0..thread_count.max(1)).map(|_| Mutex::new(None)).collect();
        Self { plan, columns, context, runtime, cancellation, next_partition: AtomicUsize::new(0), streams }
    }
}

impl BatchSource for PlanBatches<'_> {
    fn columns(&self) -> &[usize] {
        self.columns
    }

    fn next(&self, thread: usize) -> Result<Option<SourceBatch>, Box<dyn Error + Send + Sync>> {
        let mut driven = self.streams[thread].lock();
        loop {
            let stream = match driven.as_mut() {
                Some(stream) => stream,
                None => {
                    let partition = self.next_partition.fetch_add(1, Ordering::Relaxed);
                    if partition >= self.plan.output_partitioning().partition_count() {
                        return Ok(None);
                    }
                    let _runtime = self.runtime.enter();
                    driven.insert(batches(self.plan, partition, self.context)?)
                }
            };
            match self.cancellation.wait(self.runtime, stream.next())?.transpose()? {
                Some(rows) if rows.batch.num_rows() > 0 => return Ok(Some(rows)),
                Some(_) => {}
                None => *driven = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::{pending, ready};
    use std::thread;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn waiting_ends_when_nobody_wants_the_answer_any_more() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let cancellation = Cancellation::default();
        assert_eq!(cancellation.wait(runtime.handle(), ready(7)).unwrap(), 7);
        thread::scope(|scope| {
            // Cancelled while they wait or before they do: one of both.
            let waiting = [(); 4].map(|()| scope.spawn(|| cancellation.wait(runtime.handle(), pending::<()>())));
            cancellation.cancel();
            for thread in waiting {
                assert_eq!(thread.join().unwrap().unwrap_err().to_string(), "cancelled");
            }
        });
        assert!(cancellation.wait(runtime.handle(), ready(7)).is_err(), "nothing is begun any more");
    }
}
