//! What a scan keeps of its results: all, those of the file's first part, the positions of their records, or nothing.
//!
//! **Owns**: going from more to less. **Does not own**: how much is worth its memory (the cache asks `placement`), the
//! positions (`gathering`).
//!
//! Whoever took part and did not yet see all of what goes reads the file anew, but for the one who has seen most and
//! goes on with this scan; if that one asked for less than the scan reads, it goes on with a scan of just that
//! ([`retreat`](super::retreat)).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::{Phase, Sharing, Slot};
use super::{MorselWork, SharedScan, wake};
use crate::admission::{KeptBytes, structure_bytes};
use crate::item::Chunk;
use crate::recording::estimated_bytes;
use crate::rows::Rows;

impl SharedScan {
    /// Stops keeping results, and frees the kept ones. False when nothing was kept any more.
    pub(crate) fn stop_keeping(self: &Arc<Self>) -> bool {
        let stopped = self.keep_less(Sharing::Solo);
        if stopped {
            self.forget_positions();
        }
        stopped
    }

    /// Frees the kept results and goes on keeping the positions of their records. False when results were not kept any
    /// more, or positions aren't.
    pub(crate) fn keep_positions(self: &Arc<Self>) -> bool {
        self.noted().is_some() && self.keep_less(Sharing::Noted)
    }

    /// Frees the kept results but those of the first morsels, and keeps no more. False when there are none of these, or
    /// they are of no use alone.
    pub(super) fn keep_head(self: &Arc<Self>) -> bool {
        self.may_keep_head && self.keep_less(Sharing::Headed)
    }

    fn keep_less(self: &Arc<Self>, sharing: Sharing) -> bool {
        let mut dropped = Vec::new();
        let room_bytes = self.cache.budget().cache_room_bytes();
        let may_retreat = sharing != Sharing::Noted && self.may_retreat();
        let wakers = {
            let mut state = self.state.lock();
            let is_less = state.sharing == Sharing::Kept
                || (matches!(state.sharing, Sharing::Noted | Sharing::Headed) && sharing == Sharing::Solo);
            // The room that the item needs beside its rows may turn out to be missing when all were read.
            let may_end_so = sharing == Sharing::Headed && matches!(state.phase, Phase::Verified);
            if !is_less || !may_end_so && !matches!(state.phase, Phase::Running) {
                return false;
            }
            let (mut staying_count, mut staying_bytes) = (0, 0);
            if sharing == Sharing::Headed {
                let mut head: Vec<_> = state.head().map(|(chunk, through)| (through + 1, chunk.own_bytes())).collect();
                // The item needs room for itself, and there may be none.
                let mut room_bytes = room_bytes;
                while room_bytes < structure_bytes(self, head.len(), 0) {
                    let Some((_, own_bytes)) = head.pop() else { return false };
                    room_bytes += own_bytes;
                }
                let Some((count, _)) = head.last() else { return false };
                (staying_count, staying_bytes) = (*count, head.iter().map(|(_, own_bytes)| own_bytes).sum());
            }
            state.sharing = sharing;
            let kept_bytes = self.meters.kept_bytes.swap(staying_bytes, Ordering::Relaxed)
                + self.meters.lent_bytes.swap(0, Ordering::Relaxed);
            let decoded_bytes = self.meters.decoded_bytes.load(Ordering::Relaxed);
            let total_bytes = self.meters.total_bytes.load(Ordering::Relaxed);
            let base_bytes = self.base.as_ref().map_or(0, |base| base.size_bytes);
            let item_bytes = base_bytes + estimated_bytes(kept_bytes, decoded_bytes, total_bytes);
            self.meters.item_bytes.fetch_max(item_bytes, Ordering::Relaxed);
            for slot in state.slots.iter_mut().skip(staying_count) {
                if matches!(slot, Slot::Kept { .. } | Slot::Within { .. }) {
                    dropped.push(std::mem::replace(slot, Slot::Gone));
                }
            }
            let heir =
                state.seats.iter().max_by_key(|(id, seat)| (seat.consumed.count(), u64::MAX - **id)).map(|(id, _)| *id);
            let leaving: Vec<u64> = state.seats.keys().copied().filter(|id| Some(*id) != heir).collect();
            for id in leaving {
                if let Some(seat) = state.seats.remove(&id) {
                    let is_own = may_retreat && seat.asked.is_less_than(&self.spec);
                    self.send_away(id, seat, is_own);
                }
            }
            let heir = heir.and_then(|heir| state.seats.get(&heir));
            state.retreats = may_retreat && heir.is_some_and(|heir| heir.asked.is_less_than(&self.spec));
            state.take_wakers()
        };
        drop(dropped);
        wake(wakers);
        true
    }

    /// Reserves memory for a morsel's rows, or stops keeping.
    pub(super) fn keep(
        self: &Arc<Self>,
        rows: Rows,
        index: usize,
        bytes: &Range<u64>,
        morsel: MorselWork,
    ) -> (Arc<Rows>, Option<Arc<Chunk>>) {
        let completed = self.completed_rows.as_ref();
        let lent = completed.and_then(|kept| kept.lent(index, bytes));
        let places = completed.filter(|_| lent.is_some()).map_or(&[][..], |kept| kept.lendable());
        let is_own = |column: usize| places.get(column).copied().flatten().is_none();
        let rows = Arc::new(rows.into_kept(&self.spec.columns, is_own));
        let own_bytes = rows.size_bytes_of(is_own);
        let lent_bytes = lent
            .as_ref()
            .map_or(0, |(lent, lender)| lender.column_bytes(places.iter().copied().flatten(), lent.range.len()));
        let size = KeptBytes { own_bytes, lent_bytes };
        let reserved = self.cache.reserve_for(self, size, morsel);
        let chunk = reserved.map(|reservation| {
            let lent = lent.map(|(lent, _)| lent);
            Arc::new(Chunk::beside(lent, Arc::clone(&rows), places, reservation))
        });
        let keeps_less = || self.keep_head() || self.cache.turn_lazy(self, Vec::new(), "no room for its rows");
        if chunk.is_none() && !keeps_less() && self.stop_keeping() {
            self.cache.forget_scan(self, "no memory for its results");
        }
        (rows, chunk)
    }
}
