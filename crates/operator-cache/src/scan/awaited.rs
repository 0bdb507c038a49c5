//! Waiting for a scan that runs, because its item will spare the one who waits most of a scan of its own: only the
//! columns that it lacks are left to be scanned then, and by one for all who wait.
//!
//! Whoever waits takes part in the scan, as if its rows were wanted: so the scan ends whatever became of those who began
//! it, no core stands idle meanwhile, and what is left to do afterwards is never more than a scan of one's own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use parking_lot::Mutex;
use thermocline_predicate::Conjunction;

use super::{Participant, RowStream, SharedScan};
use crate::request::{ColumnSpec, SelectRequest};

/// What somebody who waits will ask for; as long as somebody holds it.
#[derive(Debug)]
pub(crate) struct AwaitedColumns {
    pub(crate) generation: u64,
    pub(crate) predicate: Arc<Conjunction>,
    pub(crate) columns: Arc<[ColumnSpec]>,
}

/// A running scan whose item is worth waiting for. Await [`over`](Self::over), then ask again; hold this until the
/// answer is there: whoever asks first has the columns scanned that the others will ask for.
pub struct Awaited {
    scan: Arc<SharedScan>,
    stream: Option<RowStream>,
    columns: Arc<AwaitedColumns>,
}

impl Awaited {
    /// None when the scan no longer shares.
    pub(crate) fn new(scan: &Arc<SharedScan>, request: &SelectRequest) -> Option<Self> {
        let participant = Participant::attend(scan, &request.columns, &request.predicate)?;
        let columns = AwaitedColumns {
            generation: scan.pinned.generation,
            predicate: Arc::clone(&request.predicate),
            columns: Arc::clone(&request.columns),
        };
        Some(Self { scan: Arc::clone(scan), stream: Some(participant.stream()), columns: Arc::new(columns) })
    }

    /// What is waited for, to be listed.
    pub(crate) fn columns(&self) -> &Arc<AwaitedColumns> {
        &self.columns
    }

    /// Waits until the scan has become an item or can't become one any more. Decodes on the thread that polls it, one
    /// morsel a poll. Errors are those of the scan's: whoever asks again meets their own.
    pub async fn over(&mut self) {
        std::future::poll_fn(|context| self.poll_over(context)).await;
        self.stream = None;
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.scan.unlisting.register(context) || !self.scan.is_keeping() {
            return Poll::Ready(());
        }
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        match Pin::new(stream).poll_next(context) {
            Poll::Pending => {}
            // Another query's turn; and this one may be cancelled.
            Poll::Ready(Some(Ok(_))) => context.waker().wake_by_ref(),
            // Whoever finished the scan is about to list its item.
            Poll::Ready(None | Some(Err(_))) => self.stream = None,
        }
        Poll::Pending
    }
}

/// Whether a scan was taken off the list of those that can be joined, and who wants to know.
#[derive(Debug, Default)]
pub(super) struct Unlisting(Mutex<(bool, Vec<Waker>)>);

impl Unlisting {
    pub(super) fn note(&self) {
        let wakers = {
            let (is_over, wakers) = &mut *self.0.lock();
            *is_over = true;
            std::mem::take(wakers)
        };
        super::wake(wakers);
    }

    /// Whether it was; else the task is woken once it is.
    fn register(&self, context: &Context<'_>) -> bool {
        let (is_over, wakers) = &mut *self.0.lock();
        if !*is_over && !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        *is_over
    }
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Awaited").field("scan", &self.scan).field("columns", &self.columns).finish_non_exhaustive()
    }
}
