//! One page alone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::asking::Asked;
use crate::pool::BufferPool;
use crate::source::SourceEntry;
use crate::{PinnedPage, Result, parking};

/// A page on its way; of [`RegisteredSource::pin`](crate::RegisteredSource::pin). Asked for when first polled. If it is
/// dropped before the page is there, the page is kept as any other.
#[must_use = "nothing is read before it is polled"]
pub struct Pinning {
    pool: Arc<BufferPool>,
    entry: Arc<SourceEntry>,
    page: u32,
    asked: Option<Asked>,
    waiting_since_ns: Option<u64>,
}

impl Pinning {
    pub(crate) fn new(pool: Arc<BufferPool>, entry: Arc<SourceEntry>, page: u32) -> Self {
        Self { pool, entry, page, asked: None, waiting_since_ns: None }
    }

    /// Waits for the page; the thread sleeps until it is there.
    ///
    /// # Errors
    /// It cannot be read or is damaged, or there is no memory for it.
    pub fn wait(mut self) -> Result<PinnedPage> {
        parking::wait(|context| self.poll_page(context))
    }

    fn poll_page(&mut self, context: &mut Context<'_>) -> Poll<Result<PinnedPage>> {
        let asked = match self.asked.take() {
            Some(asked) => asked,
            None => self.pool.ask_one(&self.entry, self.page)?,
        };
        let Poll::Ready(outcome) = asked.frame.poll(self.entry.source.as_ref(), context) else {
            self.asked = Some(asked);
            self.waiting_since_ns.get_or_insert_with(|| self.pool.clock.monotonic_ns());
            return Poll::Pending;
        };
        let since_ns = self.waiting_since_ns.take();
        let waited_ns = since_ns.map_or(0, |since_ns| self.pool.clock.monotonic_ns().saturating_sub(since_ns));
        Poll::Ready(match outcome {
            Ok(()) => Ok(PinnedPage::new(asked.frame, waited_ns, asked.was_hit)),
            Err(error) => {
                self.pool.forget(&asked.frame);
                Err(error)
            }
        })
    }
}

impl Future for Pinning {
    type Output = Result<PinnedPage>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_page(context)
    }
}

impl fmt::Debug for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinning").field("source", &self.entry.id).field("page", &self.page).finish_non_exhaustive()
    }
}
