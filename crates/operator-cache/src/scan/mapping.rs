//! The positional map that a running scan of a whole file makes, morsel by morsel.
//!
//! **Owns**: the pieces gathered so far and the memory that is reserved for them. **Does not own**: whether a map is
//! wanted, what makes room for it, and what becomes of it ([`maps`](crate::maps)).
//!
//! **Memory**: twice what was gathered is reserved, in steps: it grows by doubling, and at the end spare room is given
//! back by copying. **Concurrency**: behind a lock of its own, under which nothing is asked of others; morsels come in
//! any order.

use std::sync::Arc;

use thermocline_budget::Reservation;
use thermocline_placement::operator_cache::extrapolate::DEFAULT_MARGIN;
use thermocline_raw::{MapPiece, PositionalMap, PositionalMapBuilder};

use super::{MorselWork, NOTE_ATTEMPTS, SharedScan, SoFar};

/// Reserved at least when more is needed, so that not every morsel asks: a step of what is held, …
const STEP_SHARE: u64 = 4;
/// … or this many bytes.
const STEP_BYTES: u64 = 4 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mapping {
    builder: PositionalMapBuilder,
    piece_count: usize,
    reservation: Reservation,
}

impl Mapping {
    /// Nothing yet, with an empty reservation to grow.
    pub(crate) fn new(limit_bytes: u64, reservation: Reservation) -> Self {
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        Self { builder: PositionalMap::builder(limit_bytes), piece_count: 0, reservation }
    }

    /// Adds a morsel's piece. It is handed back when there is no free memory for it.
    fn add(&mut self, index: usize, piece: MapPiece) -> Result<(), MapPiece> {
        let needed_bytes = 2 * (self.builder.size_bytes() + piece.size_bytes()) as u64;
        let missing_bytes = needed_bytes.saturating_sub(self.reservation.size_bytes());
        if missing_bytes > 0 {
            let step_bytes = missing_bytes.max(needed_bytes / STEP_SHARE).max(STEP_BYTES);
            let grown = self.reservation.try_grow(step_bytes).or_else(|_| self.reservation.try_grow(missing_bytes));
            if grown.is_err() {
                return Err(piece);
            }
        }
        self.builder.add(index as u64, piece);
        self.piece_count += 1;
        Ok(())
    }
}

impl SharedScan {
    /// Keeps what a morsel adds to the map, or gives the map up.
    pub(super) fn note_map(self: &Arc<Self>, index: usize, piece: Option<MapPiece>, morsel: MorselWork) {
        let Some(mut piece) = piece else {
            if self.spec.makes_map {
                self.give_up_map("a part of the file gave no piece of its map");
            }
            return;
        };
        for _ in 0..NOTE_ATTEMPTS {
            match &mut *self.mapping.lock() {
                None => return,
                Some(mapping) => match mapping.add(index, piece) {
                    Ok(()) => return,
                    Err(refused) => piece = refused,
                },
            }
            let Some((size_bytes, reserved_bytes)) = self.mapping_bytes() else { return };
            let SoFar { progress, execute_ns, .. } = self.meters.so_far(morsel);
            let so_far_bytes = 2 * (size_bytes + piece.size_bytes() as u64);
            let whole_bytes = progress.whole_bytes(so_far_bytes, DEFAULT_MARGIN).unwrap_or(so_far_bytes);
            let execute_ns = progress.whole_ns(execute_ns).unwrap_or(execute_ns);
            let what = (&self.source, &*self.spec.columns);
            if !self.cache.make_room_for_map(what, &self.pinned, whole_bytes, reserved_bytes, execute_ns) {
                break;
            }
        }
        self.give_up_map("no memory for its positional map");
    }

    /// Bytes of the map so far, and bytes reserved for it; None if none is made.
    pub(crate) fn mapping_bytes(&self) -> Option<(u64, u64)> {
        let mapping = self.mapping.lock();
        mapping.as_ref().map(|mapping| (mapping.builder.size_bytes() as u64, mapping.reservation.size_bytes()))
    }

    /// Frees what was gathered of the map, for want of memory or of a piece. The bytes that were reserved for it; None
    /// if none is made.
    pub(crate) fn give_up_map(&self, reason: &'static str) -> Option<u64> {
        let reserved_bytes = self.forget_map()?;
        self.cache.note_lost_map(self, reason);
        Some(reserved_bytes)
    }

    /// Frees what was gathered of the map; the bytes that were reserved for it.
    pub(crate) fn forget_map(&self) -> Option<u64> {
        let mapping = self.mapping.lock().take()?;
        Some(mapping.reservation.size_bytes())
    }

    /// The map, once every morsel was decoded, with its reservation. None if a piece of it is missing, or none is made.
    pub(crate) fn take_map(&self) -> Option<(PositionalMap, Reservation)> {
        let mapping = self.mapping.lock().take()?;
        let morsel_count = self.state.lock().slots.len();
        if mapping.piece_count != morsel_count || morsel_count == 0 {
            return None;
        }
        Some((mapping.builder.finish(self.spec.end_bytes)?, mapping.reservation))
    }
}
