//! Where the records lie that a running scan found, morsel by morsel, until a lazy item is made of it.
//!
//! **Owns**: the positions and the memory that is reserved for them. **Does not own**: whether they are wanted (the
//! scan's [`Sharing`] says), what makes room for them (`lazy`).
//!
//! **Memory**: twice what is noted is reserved, in steps, since at the end all is laid together in one piece.
//! **Concurrency**: behind a lock of its own, under which nothing is asked of others; morsels come in any order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_budget::Reservation;
use thermocline_raw::RecordPositions;

use super::state::{Phase, Sharing};
use super::{MorselWork, NOTE_ATTEMPTS, SharedScan};

/// Reserved at least when more is needed, so that not every morsel asks: a step of the noted bytes, …
const STEP_SHARE: u64 = 4;
/// … or this many bytes.
const STEP_BYTES: u64 = 4 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gathering {
    morsels: Vec<Option<RecordPositions>>,
    noted: Noted,
    reservation: Reservation,
}

/// What was gathered so far, in figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noted {
    /// Bytes of the positions as they lie now.
    pub(crate) size_bytes: u64,
    pub(crate) position_count: u64,
    /// Records that were read to find them.
    pub(crate) record_count: u64,
}

impl Gathering {
    /// Nothing yet, with an empty reservation to grow.
    pub(crate) fn new(reservation: Reservation) -> Self {
        Self { morsels: Vec::new(), noted: Noted::default(), reservation }
    }

    pub(crate) fn noted(&self) -> Noted {
        self.noted
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reservation.size_bytes()
    }

    /// Adds a morsel's positions. They are handed back when there is no free memory for them.
    pub(crate) fn note(
        &mut self,
        index: usize,
        positions: RecordPositions,
        record_count: u64,
    ) -> Result<(), RecordPositions> {
        let places = (index + 1).saturating_sub(self.morsels.len()) * size_of::<Option<RecordPositions>>();
        let size_bytes = self.noted.size_bytes + (positions.size_bytes() + places) as u64;
        let missing_bytes = (2 * size_bytes).saturating_sub(self.reserved_bytes());
        if missing_bytes > 0 {
            let step_bytes = missing_bytes.max(size_bytes / STEP_SHARE).max(STEP_BYTES);
            let grown = self.reservation.try_grow(step_bytes).or_else(|_| self.reservation.try_grow(missing_bytes));
            if grown.is_err() {
                return Err(positions);
            }
        }
        if self.morsels.len() <= index {
            self.morsels.resize(index + 1, None);
        }
        self.noted.size_bytes = size_bytes;
        self.noted.position_count += positions.len() as u64;
        self.noted.record_count += record_count;
        self.morsels[index] = Some(positions);
        Ok(())
    }

    /// All positions in file order, if those of each of so many morsels are there, with the memory reserved for them.
    pub(crate) fn merged(self, morsel_count: usize) -> Option<(RecordPositions, Noted, Reservation)> {
        if self.morsels.len() != morsel_count {
            return None;
        }
        let mut merged = RecordPositions::default();
        for positions in self.morsels {
            // Each goes as soon as it is copied.
            merged.append(&positions?);
        }
        merged.shrink_to_fit();
        Some((merged, self.noted, self.reservation))
    }
}

impl SharedScan {
    /// Keeps where a morsel's records lie, or gives that up for the whole scan.
    pub(super) fn note_positions(
        self: &Arc<Self>,
        index: usize,
        mut noted: RecordPositions,
        record_count: u64,
        morsel: MorselWork,
    ) {
        noted.shrink_to_fit();
        for _ in 0..NOTE_ATTEMPTS {
            match &mut *self.gathered.lock() {
                None => return,
                Some(gathering) => match gathering.note(index, noted, record_count) {
                    Ok(()) => return,
                    Err(refused) => noted = refused,
                },
            }
            // Beside rows they are a comfort, and displace nothing.
            let is_needed = self.may_turn_lazy;
            if !is_needed || !self.cache.make_room_for_positions(self, noted.size_bytes() as u64, morsel) {
                break;
            }
        }
        self.give_up_positions("no memory for its records' positions");
    }

    /// Frees the positions; a scan that keeps nothing else keeps nothing then.
    pub(crate) fn give_up_positions(self: &Arc<Self>, reason: &'static str) {
        self.forget_positions();
        let kept_nothing_else = {
            let mut state = self.state.lock();
            let is_noted = state.sharing == Sharing::Noted && matches!(state.phase, Phase::Running);
            if is_noted {
                state.sharing = Sharing::Solo;
            }
            is_noted
        };
        if kept_nothing_else {
            self.cache.forget_scan(self, reason);
        }
    }

    /// Frees the positions gathered so far; no more are.
    pub(crate) fn forget_positions(&self) {
        let _gathered = self.gathered.lock().take();
    }

    /// What was gathered of positions, and the bytes reserved for it; None if none are.
    pub(crate) fn noted(&self) -> Option<(Noted, u64)> {
        self.gathered.lock().as_ref().map(|gathering| (gathering.noted(), gathering.reserved_bytes()))
    }

    /// All positions, once every morsel was decoded, with their reservation. None if some are missing.
    pub(crate) fn take_positions(&self) -> Option<(RecordPositions, Noted, Reservation)> {
        let gathering = self.gathered.lock().take()?;
        let morsel_count = self.state.lock().slots.len();
        gathering.merged(morsel_count)
    }

    /// Reserved for rows and positions so far.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.meters.kept_bytes.load(Ordering::Relaxed) + self.noted().map_or(0, |(_, reserved_bytes)| reserved_bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use thermocline_budget::{Budget, Purpose};

    use super::*;

    #[test]
    fn morsels_of_any_order_are_laid_together_in_that_of_the_file_and_a_missing_one_is_told() {
        let account = Budget::new(1 << 20, None).account("positions", Purpose::Cache);
        let mut gathering = Gathering::new(account.try_reserve(0).unwrap());
        for index in [2, 0, 3] {
            let positions = (0..300).map(|record| (index * 300 + record) * 10).collect();
            gathering.note(index as usize, positions, 600).unwrap();
        }
        assert_eq!((gathering.noted().position_count, gathering.noted().record_count), (900, 1800));
        assert!(gathering.reserved_bytes() >= 2 * gathering.noted().size_bytes);
        let offsets = (300..600).map(|record| record * 10);
        gathering.note(1, offsets.collect(), 300).unwrap();
        let (merged, _, reservation) = gathering.merged(4).unwrap();
        assert!(merged.iter().eq((0..1200).map(|record| record * 10)));
        assert!(reservation.size_bytes() >= merged.size_bytes() as u64);
        drop(reservation);
        assert_eq!(account.reserved_bytes(), 0);
        let mut lacking = Gathering::new(account.try_reserve(0).unwrap());
        lacking.note(1, RecordPositions::default(), 1).unwrap();
        assert!(lacking.merged(2).is_none());
    }

    #[test]
    fn what_finds_no_memory_is_handed_back_and_may_come_again() {
        let budget = Budget::new(5000, None);
        let account = budget.account("positions", Purpose::Cache);
        let other = account.try_reserve(4900).unwrap();
        let mut gathering = Gathering::new(account.try_reserve(0).unwrap());
        let positions: RecordPositions = (0..100).collect();
        let refused = gathering.note(0, positions.clone(), 100).unwrap_err();
        assert_eq!(refused, positions);
        drop(other);
        gathering.note(0, refused, 100).unwrap();
        assert_eq!(gathering.merged(1).unwrap().0, positions);
    }
}
