//! Pages one after the other, read ahead of who uses them.
//!
//! **Owns**: how far ahead, and what was waited for. **Does not own**: which pages and in which order; how they get
//! into memory (`asking`).
//!
//! **Invariants**: pages come in the order in which they were asked for, each once or with its error. What is ahead is
//! pinned, so that it is not given up for what lies further ahead. What is ahead and had to be read stays within
//! `read_ahead_bytes`, with what was there already it stays within twice that, and both within the reader's share of
//! the pool; but for one page, without which nothing would ever come.
//!
//! **Concurrency**: a reader has one consumer. It may be dropped at any time: what is under way then comes into memory
//! and is kept as any other page.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::vec;

use crate::asking::Asked;
use crate::pool::BufferPool;
use crate::source::{PagePlace, SourceEntry};
use crate::{PinnedPage, Result, parking};

/// How a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Bytes that are read ahead of the consumer at most.
    pub read_ahead_bytes: u64,
}

impl Default for ReadOptions {
    /// Eight pieces of 2 MiB: what keeps a disk busy while a consumer works on one of them.
    fn default() -> Self {
        Self { read_ahead_bytes: 16 << 20 }
    }
}

/// Reads pages of one source in a given order; of [`RegisteredSource::reader`](crate::RegisteredSource::reader).
pub struct PageReader {
    pool: Arc<BufferPool>,
    entry: Arc<SourceEntry>,
    options: ReadOptions,
    /// Not looked at yet.
    pages: vec::IntoIter<u32>,
    /// Next to be asked for, those before it having been.
    wanted: VecDeque<(u32, PagePlace)>,
    ahead: VecDeque<Asked>,
    /// Memory of all that is ahead, and of what of it had to be read.
    ahead_bytes: u64,
    missed_ahead_bytes: u64,
    /// There was no room: asked again when so few are ahead.
    full_until: Option<usize>,
    waiting_since_ns: Option<u64>,
}

impl PageReader {
    pub(crate) fn new(pool: Arc<BufferPool>, entry: Arc<SourceEntry>, pages: Vec<u32>, options: ReadOptions) -> Self {
        pool.reader_count.fetch_add(1, Ordering::Relaxed);
        Self {
            pool,
            entry,
            options,
            pages: pages.into_iter(),
            wanted: VecDeque::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            missed_ahead_bytes: 0,
            full_until: None,
            waiting_since_ns: None,
        }
    }

    /// How many pages have not come yet.
    fn left_count(&self) -> usize {
        self.ahead.len() + self.wanted.len() + self.pages.len()
    }

    /// Has the first pages read without waiting for any, as far as there is room: for who knows that it will want them,
    /// and not yet.
    pub fn start(&mut self) {
        if self.may_ask() {
            self.ask_ahead();
        }
    }

    /// The next page; None after the last. An error is that page's alone: the next call goes on behind it.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<PinnedPage>>> {
        if let Err(error) = self.read_ahead() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(next) = self.ahead.front() else { return Poll::Ready(None) };
        let Poll::Ready(outcome) = next.frame.poll(self.entry.source.as_ref(), context) else {
            self.waiting_since_ns.get_or_insert_with(|| self.pool.clock.monotonic_ns());
            return Poll::Pending;
        };
        let since_ns = self.waiting_since_ns.take();
        let waited_ns = since_ns.map_or(0, |since_ns| self.pool.clock.monotonic_ns().saturating_sub(since_ns));
        let Some(Asked { frame, was_hit }) = self.ahead.pop_front() else { return Poll::Ready(None) };
        self.ahead_bytes -= frame.held_bytes();
        self.missed_ahead_bytes -= if was_hit { 0 } else { frame.held_bytes() };
        Poll::Ready(Some(match outcome {
            Ok(()) => Ok(PinnedPage::new(frame, waited_ns, was_hit)),
            Err(error) => {
                self.pool.forget(&frame);
                Err(error)
            }
        }))
    }

    /// As [`poll_next`](Self::poll_next), for who awaits it.
    pub async fn next(&mut self) -> Option<Result<PinnedPage>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`poll_next`](Self::poll_next); the thread sleeps until the page is there.
    pub fn wait_next(&mut self) -> Option<Result<PinnedPage>> {
        parking::wait(|context| self.poll_next(context))
    }

    /// Asks for more if enough of what was ahead is used up for a whole read; for one page in any case, if nothing is
    /// ahead.
    fn read_ahead(&mut self) -> Result<()> {
        if !self.may_ask() {
            return Ok(());
        }
        self.ask_ahead();
        if self.ahead.is_empty()
            && let Some((page, place)) = self.wanted.pop_front()
        {
            self.ahead.push_back(self.pool.ask_passing(&self.entry, page, &place)?);
            self.count_from(0);
        }
        Ok(())
    }

    fn may_ask(&self) -> bool {
        let is_at_end = self.wanted.is_empty() && self.pages.len() == 0;
        !is_at_end && self.full_until.is_none_or(|count| self.ahead.len() <= count)
    }

    /// Asks for what there is room for.
    fn ask_ahead(&mut self) {
        let most_bytes = self.options.read_ahead_bytes.min(self.pool.reader_share_bytes());
        let piece_bytes = self.pool.options.read_most_bytes.min(most_bytes / 2).max(1);
        let room_bytes =
            most_bytes.saturating_sub(self.missed_ahead_bytes).min((2 * most_bytes).saturating_sub(self.ahead_bytes));
        if !self.ahead.is_empty() && room_bytes < piece_bytes {
            return;
        }
        let wanted_count = self.look_ahead(room_bytes);
        let asked_before_count = self.ahead.len();
        let wanted = &self.wanted.make_contiguous()[..wanted_count];
        let count = self.pool.ask(&self.entry, wanted, &mut self.ahead);
        self.full_until = (count < wanted_count).then_some(self.ahead.len() / 2);
        self.wanted.drain(..count);
        self.count_from(asked_before_count);
    }

    /// Counts what was asked for from there on.
    fn count_from(&mut self, first: usize) {
        for Asked { frame, was_hit } in self.ahead.range(first..) {
            self.ahead_bytes += frame.held_bytes();
            self.missed_ahead_bytes += if *was_hit { 0 } else { frame.held_bytes() };
        }
    }

    /// Finds the places of the next pages. Returns how many `room_bytes` hold, but one at least if nothing is ahead.
    fn look_ahead(&mut self, room_bytes: u64) -> usize {
        let mut wanted_bytes = 0;
        for count in 0.. {
            if count == self.wanted.len() {
                let Some(page) = self.pages.next() else { return count };
                self.wanted.push_back((page, self.entry.source.place(page)));
            }
            wanted_bytes += self.wanted[count].1.held_bytes();
            if wanted_bytes > room_bytes {
                return count.max(usize::from(self.ahead.is_empty()));
            }
        }
        self.wanted.len()
    }
}

impl Drop for PageReader {
    fn drop(&mut self) {
        self.pool.reader_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for PageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageReader")
            .field("source", &self.entry.id)
            .field("left_count", &self.left_count())
            .field("ahead_bytes", &self.ahead_bytes)
            .finish_non_exhaustive()
    }
}
