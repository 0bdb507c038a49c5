//! One query's part in a scan, and the streams that read it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::{FutureExt, Stream};
use parking_lot::Mutex;
use thermocline_hardware::Clock;
use thermocline_predicate::{Conjunction, FieldPath};

use super::claiming::Claimed;
use super::retreat::{Asked, Delivered, DeliveredCut};
use super::state::{Obtained, Place, Post, SharedFetch, Step};
use super::{SharedScan, Undecoded};
use crate::cut::{Cut, View};
use crate::error::CacheError;
use crate::item::Item;
use crate::request::ColumnSpec;
use crate::rows::Rows;

/// Claims without rows after which a poll returns, so that a query can be cancelled.
const FRUITLESS_CLAIMS: u32 = 4;

/// One query's part in a scan of one file: every row of the scan is delivered to exactly one of its streams.
///
/// Dropping it (with its streams) ends the query's part, at any point; nobody else notices. Once a stream has come to
/// the end, nothing of the scan is held for its sake any more, unless another finds that it must read again what it was
/// decoding then.
#[derive(Debug)]
pub struct Participant {
    id: u64,
    clock: Arc<dyn Clock>,
    post: Post,
    /// The item whose rows come first, when the scan extends one; until all of them were taken.
    base: Mutex<Option<Arc<Item>>>,
    base_next: AtomicUsize,
    columns: Arc<[ColumnSpec]>,
    list: Option<FieldPath>,
    predicate: Arc<Conjunction>,
    residual: Conjunction,
    pub(crate) asked: Arc<Asked>,
}

impl Participant {
    /// Takes part in a scan that runs; None when it no longer shares.
    pub(crate) fn join(
        scan: &Arc<SharedScan>,
        columns: &Arc<[ColumnSpec]>,
        predicate: &Arc<Conjunction>,
    ) -> Option<Arc<Self>> {
        let participant = Self::attend(scan, columns, predicate)?;
        scan.meters.participant_count.fetch_add(1, Ordering::Relaxed);
        Some(participant)
    }

    /// The same for one who does not use the rows.
    pub(super) fn attend(
        scan: &Arc<SharedScan>,
        columns: &Arc<[ColumnSpec]>,
        predicate: &Arc<Conjunction>,
    ) -> Option<Arc<Self>> {
        let participant = Self::of(scan, columns, predicate);
        // Where it has no seat it can't leave either: dropping it is harmless.
        scan.join(participant.id, &participant.post, &participant.asked).then_some(participant)
    }

    /// The first to take part in a new scan.
    pub(crate) fn first(
        scan: &Arc<SharedScan>,
        columns: &Arc<[ColumnSpec]>,
        predicate: &Arc<Conjunction>,
    ) -> Arc<Self> {
        let participant = Self::of(scan, columns, predicate);
        scan.seat(participant.id, &participant.post, &participant.asked);
        scan.meters.participant_count.fetch_add(1, Ordering::Relaxed);
        participant
    }

    fn of(scan: &Arc<SharedScan>, columns: &Arc<[ColumnSpec]>, predicate: &Arc<Conjunction>) -> Arc<Self> {
        Arc::new(Self {
            id: scan.cache.next_number(),
            clock: Arc::clone(scan.cache.clock()),
            post: Arc::new(Mutex::new(Place::At(Arc::clone(scan)))),
            base: Mutex::new(scan.base.clone()),
            base_next: AtomicUsize::new(0),
            columns: Arc::clone(&scan.spec.columns),
            list: scan.source.unnest.clone(),
            predicate: Arc::clone(&scan.spec.predicate),
            residual: scan.spec.predicate.residual(predicate),
            asked: Arc::new(Asked { columns: Arc::clone(columns), predicate: Arc::clone(predicate) }),
        })
    }

    /// The columns of the rows that the shared scan delivers.
    pub fn columns(&self) -> &Arc<[ColumnSpec]> {
        &self.columns
    }

    /// The predicate that the rows of the shared scan satisfy.
    pub fn predicate(&self) -> &Arc<Conjunction> {
        &self.predicate
    }

    /// What the query must still check on each of these rows.
    pub fn residual(&self) -> &Conjunction {
        &self.residual
    }

    /// How the columns at `outputs` are cut out of the rows that it delivers. None when one is not among them.
    pub fn cut(&self, outputs: &[FieldPath]) -> Option<DeliveredCut> {
        let cut =
            |columns, residual: &Conjunction| Cut::new(columns, self.list.as_ref(), View::Elements, residual, outputs);
        Some(DeliveredCut {
            of_shared: cut(&self.columns, &self.residual)?,
            of_own: cut(&self.asked.columns, &Conjunction::all())?,
        })
    }

    /// Has morsel `index`, which `left` could not decode, read again by whatever scan it takes part in now.
    fn take_back(&self, left: &SharedScan, index: usize) {
        loop {
            let is_to_be_read = match self.scan() {
                // It is moved under the lock of the scan that it leaves.
                Some(scan) => scan.take_back(self.id, index) || self.scan().is_some_and(|now| Arc::ptr_eq(&scan, &now)),
                // Its other streams came to the end meanwhile.
                None => left.read_again(self.id, &self.post, &self.asked, index),
            };
            if is_to_be_read {
                return;
            }
        }
    }

    /// The scan that it takes part in now; None once it has had everything.
    fn scan(&self) -> Option<Arc<SharedScan>> {
        match &*self.post.lock() {
            Place::At(scan) => Some(Arc::clone(scan)),
            Place::Ended { .. } => None,
        }
    }

    /// One more stream over what this participant has not yet received. Ask for as many as there are threads.
    pub fn stream(self: &Arc<Self>) -> RowStream {
        RowStream { participant: Arc::clone(self), fetching: None, ended: false }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        if let Some(scan) = self.scan() {
            scan.leave(self.id);
        }
    }
}

/// Rows of a scan as they come, in no particular order. Decodes on the thread that polls it; one morsel a poll.
///
/// After an error or the end it gives nothing more. Rows may be empty: they still carry counts of records.
pub struct RowStream {
    participant: Arc<Participant>,
    fetching: Option<(Arc<SharedScan>, usize, SharedFetch)>,
    ended: bool,
}

impl Stream for RowStream {
    type Item = Result<Delivered, CacheError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(rows) = self.next_of_base() {
            return self.deliver(rows, false);
        }
        let me = self.participant.id;
        let mut fruitless_count = 0;
        loop {
            let Some(scan) = self.participant.scan() else {
                // Another stream came to the end.
                (self.fetching, self.ended) = (None, true);
                return Poll::Ready(None);
            };
            if self.fetching.as_ref().is_some_and(|(of, ..)| !Arc::ptr_eq(of, &scan)) {
                self.fetching = None;
            }
            if let Some((_, index, fetch)) = &mut self.fetching
                && let Poll::Ready(fetched) = fetch.poll_unpin(context)
            {
                let index = *index;
                self.fetching = None;
                match fetched {
                    Err(error) => scan.fail(error),
                    Ok(fetched) => {
                        if let Some(obtained) = scan.take_fetched(me, index, &fetched) {
                            match self.decode(&scan, index, obtained) {
                                Some(decoded) => return self.deliver(decoded, scan.is_own),
                                None => continue,
                            }
                        }
                    }
                }
                continue;
            }
            match scan.step(me, self.fetching.is_some(), context) {
                Step::Deliver(rows) => return self.deliver(Ok(rows), scan.is_own),
                Step::Claim => match scan.claim(me) {
                    Claimed::Morsel(index, obtained) => {
                        if let Some(decoded) = self.decode(&scan, index, obtained) {
                            return self.deliver(decoded, scan.is_own);
                        }
                    }
                    Claimed::Fetch(index, fetch) => self.fetching = Some((scan, index, fetch)),
                    Claimed::Nothing => {
                        // Morsels seen elsewhere are passed over; let go of the thread now and then.
                        fruitless_count += 1;
                        if fruitless_count == FRUITLESS_CLAIMS {
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                },
                Step::Drive(index, fetch) => self.fetching = Some((scan, index, fetch)),
                Step::Finish => scan.finish(),
                Step::Wait => return Poll::Pending,
                Step::Moved | Step::Rescan | Step::Retreat | Step::Gap => {}
                Step::End => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Step::Fail(error) => return self.deliver(Err(error), scan.is_own),
            }
        }
    }
}

impl RowStream {
    fn deliver(
        &mut self,
        decoded: Result<Arc<Rows>, CacheError>,
        is_own: bool,
    ) -> Poll<Option<Result<Delivered, CacheError>>> {
        self.ended = decoded.is_err();
        Poll::Ready(Some(decoded.map(|rows| Delivered { rows, is_own })))
    }

    /// None when the participant is to read it again elsewhere.
    fn decode(
        &self,
        scan: &Arc<SharedScan>,
        index: usize,
        obtained: Obtained,
    ) -> Option<Result<Arc<Rows>, CacheError>> {
        match scan.decode(self.participant.id, index, obtained) {
            Ok(rows) => Some(Ok(rows)),
            Err(Undecoded::ForWhoAskedForIt(_)) if self.participant.asked.is_less_than(&scan.spec) => {
                self.participant.take_back(scan, index);
                None
            }
            Err(Undecoded::ForWhoAskedForIt(error) | Undecoded::ForAll(error)) => Some(Err(error)),
        }
    }

    fn next_of_base(&self) -> Option<Result<Arc<Rows>, CacheError>> {
        let Participant { base, base_next, clock, .. } = &*self.participant;
        let item = base.lock().clone()?;
        let index = base_next.fetch_add(1, Ordering::Relaxed);
        let Some(chunk) = item.chunks.get(index) else {
            // Not freed under the lock: it is held here.
            *base.lock() = None;
            return None;
        };
        let content = chunk.content();
        if let Some(rows) = content.as_arrays() {
            return Some(Ok(Arc::clone(rows)));
        }
        let rows = content.to_rows(0, content.entry_count(), &**clock);
        Some(rows.map(Arc::new).map_err(|error| CacheError::source(Box::new(error))))
    }
}
