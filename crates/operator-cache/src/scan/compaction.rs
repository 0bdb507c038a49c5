//! Merging small results into chunks that are worth a reader's while.
//!
//! A later scan of the item pays per chunk (a batch, a residual filter, a few allocations: some 20 µs), so chunks
//! should have thousands of rows, however few of them a morsel gave. More would not help: readers take some 16,384 rows
//! at once. Merging happens while the scan runs, by the stream that completes a run, once every participant has seen the
//! run; what is left is merged when the item is made. Where that grows with its file, its small chunks at the end are
//! merged with what is new, whatever their layout.
//!
//! Rows that lie beside those of a chunk of another item are merged within that chunk alone, so that what it lent stays
//! lent.
//!
//! Memory: one merged chunk at a time beside its parts, reserved first; without room the parts stay as they are.

use std::sync::{Arc, Weak};

use super::SharedScan;
use super::state::{Phase, Sharing, Slot, State};
use crate::item::{Chunk, Lent};
use crate::layout::Content;
use crate::rows::Rows;

/// Chunks below this are merged with their neighbours.
const SMALL_ROW_COUNT: usize = 4 << 10;
/// A run is merged when it has this many rows …
const RUN_ROW_COUNT: usize = 16 << 10;
/// … or this many chunks. Each row is then copied at most log₃₂ of the number of morsels times.
const RUN_CHUNK_COUNT: usize = 32;
/// Nothing is merged beyond this many rows,
const LARGE_ROW_COUNT: usize = 32 << 10;
/// nor beyond this many bytes: wide rows gain little from more company.
const LARGE_SIZE_BYTES: u64 = 32 << 20;

/// Neighbouring chunks, by the morsels they cover.
struct Run {
    first: usize,
    through: usize,
    chunks: Vec<Arc<Chunk>>,
}

impl SharedScan {
    /// Merges the run around a morsel that was just kept, if it is long enough.
    pub(super) fn compact_around(&self, index: usize) {
        let run = {
            let mut state = self.state.lock();
            if state.merging || state.sharing == Sharing::Solo {
                return;
            }
            let Some(run) = find_run(&state, index) else { return };
            state.merging = true;
            run
        };
        let merged = self.merge(&run.chunks);
        let _replaced = {
            let mut state = self.state.lock();
            state.merging = false;
            merged.and_then(|merged| replace(&mut state, &run, merged))
        };
    }

    /// Merges small neighbours of a finished scan.
    pub(super) fn merge_small(&self, chunks: Vec<Arc<Chunk>>) -> Vec<Arc<Chunk>> {
        let mut merged = Vec::new();
        let mut run: Vec<Arc<Chunk>> = Vec::new();
        let (mut row_count, mut size_bytes) = (0, 0);
        for chunk in chunks.into_iter().filter(|chunk| chunk.scanned().entry_count() > 0) {
            let is_full = row_count + chunk.scanned().row_count > LARGE_ROW_COUNT
                || size_bytes + chunk.size_bytes() > LARGE_SIZE_BYTES
                || row_count >= RUN_ROW_COUNT
                || run.last().is_some_and(|last| !is_alike(last.lent(), &chunk));
            if is_full || !is_small(&chunk) {
                self.flush(&mut run, &mut merged);
                (row_count, size_bytes) = (0, 0);
            }
            if is_small(&chunk) {
                row_count += chunk.scanned().row_count;
                size_bytes += chunk.size_bytes();
                run.push(chunk);
            } else {
                merged.push(chunk);
            }
        }
        self.flush(&mut run, &mut merged);
        merged.shrink_to_fit();
        merged
    }

    /// The chunks of the item that this scan extends, and those of the scan behind them, the first of which takes in the
    /// small ones before it. Those of more than twice its rows stay, so that of a file that grows by a record at a time
    /// a row is copied some 20 times at most, and a dozen small chunks are left.
    pub(crate) fn behind_base(&self, base: &[Arc<Chunk>], chunks: &[Arc<Chunk>]) -> Vec<Arc<Chunk>> {
        let row_count_of = |chunk: &Chunk| chunk.content().row_count().max(chunk.content().entry_count());
        let (mut kept, mut behind) = (base, chunks);
        let mut merged = None;
        if let Some((first, rest)) = chunks.split_first().filter(|(first, _)| is_small(first)) {
            let (mut row_count, mut size_bytes) = (row_count_of(first), first.size_bytes());
            while let Some((last, before)) = kept.split_last().filter(|(last, _)| is_small(last)) {
                if row_count_of(last) > 2 * row_count || size_bytes + last.size_bytes() > LARGE_SIZE_BYTES {
                    break;
                }
                (row_count, size_bytes) = (row_count + row_count_of(last), size_bytes + last.size_bytes());
                kept = before;
            }
            let small: Vec<Arc<Chunk>> = base[kept.len()..].iter().chain([first]).cloned().collect();
            merged = if small.len() > 1 { self.merge_layouts(&small) } else { None };
            match merged {
                Some(_) => behind = rest,
                None => kept = base,
            }
        }
        kept.iter().cloned().chain(merged).chain(behind.iter().cloned()).collect()
    }

    /// Chunks of whichever layouts as one of arrays, which shares nothing with others. None when there is no room for
    /// that, the parts as arrays beside it, or Arrow refuses.
    fn merge_layouts(&self, chunks: &[Arc<Chunk>]) -> Option<Arc<Chunk>> {
        let parts_bytes: u64 = chunks.iter().map(|chunk| chunk.size_bytes()).sum();
        let reservation = self.cache.reserve_if_free(2 * parts_bytes)?;
        let parts = chunks.iter().map(|chunk| match chunk.content() {
            Content::Arrays(rows) => Ok(Arc::clone(rows)),
            content => content.to_rows(0, content.entry_count(), &**self.cache.clock()).map(Arc::new),
        });
        let parts: Vec<Arc<Rows>> = parts.collect::<Result<_, _>>().ok()?;
        let rows = Rows::concat(&parts).ok()?;
        reservation.resize(rows.size_bytes()).ok()?;
        Some(Arc::new(Chunk::new(Content::Arrays(Arc::new(rows)), reservation)))
    }

    fn flush(&self, run: &mut Vec<Arc<Chunk>>, merged: &mut Vec<Arc<Chunk>>) {
        match if run.len() > 1 { self.merge(run) } else { None } {
            Some(chunk) => {
                merged.push(chunk);
                run.clear();
            }
            None => merged.append(run),
        }
    }

    /// The chunks as one, or None when there is no room for that or Arrow refuses. What one other chunk lent to them all
    /// is not copied.
    fn merge(&self, chunks: &[Arc<Chunk>]) -> Option<Arc<Chunk>> {
        let parts_bytes = chunks.iter().map(|chunk| chunk.own_bytes()).sum();
        let reservation = self.cache.reserve_if_free(parts_bytes)?;
        let parts: Vec<Arc<Rows>> = chunks.iter().map(|chunk| Arc::clone(chunk.scanned())).collect();
        let lent = chunks.first()?.lent().map(|first| {
            let count: usize = chunks.iter().map(|chunk| chunk.content().entry_count()).sum();
            Lent { lender: Weak::clone(&first.lender), range: first.range.start..first.range.start + count }
        });
        let lender = lent.as_ref().and_then(|lent| Some((lent, lent.lender.upgrade()?)));
        let places = lender.as_ref().and(self.completed_rows.as_ref()).map_or(&[][..], |kept| kept.lendable());
        let place = |column: usize| places.get(column).copied().flatten();
        let lent_column = |column: usize| {
            let (lent, lender) = lender.as_ref()?;
            Some(lent.column(lender, place(column)?)?.0)
        };
        let rows = Rows::concat_beside(&parts, lent_column).ok()?;
        reservation.resize(rows.size_bytes_of(|column| place(column).is_none())).ok()?;
        Some(Arc::new(Chunk::beside(lent, Arc::new(rows), places, reservation)))
    }
}

/// Whether a chunk can be merged with the one before it: both have their rows alone, or both some of one other chunk.
fn is_alike(before: Option<&Lent>, chunk: &Chunk) -> bool {
    match (before, chunk.lent()) {
        (None, None) => true,
        (Some(before), Some(lent)) => before.lender.ptr_eq(&lent.lender),
        _ => false,
    }
}

fn is_small(chunk: &Chunk) -> bool {
    chunk.content().row_count() < SMALL_ROW_COUNT && chunk.size_bytes() < LARGE_SIZE_BYTES
}

/// A run of small chunks around `index` that is worth merging and that every participant has seen.
fn find_run(state: &State, index: usize) -> Option<Run> {
    let mut run = Run { first: index, through: index, chunks: Vec::new() };
    let (mut row_count, mut size_bytes) = (0, 0);
    let mut neighbour: Option<Arc<Chunk>> = None;
    let mut take = |first: usize| {
        let Some(Slot::Kept { chunk, through }) = state.slots.get(first) else { return None };
        let fits = is_small(chunk)
            && neighbour.as_ref().is_none_or(|neighbour| is_alike(neighbour.lent(), chunk))
            && row_count + chunk.scanned().row_count <= LARGE_ROW_COUNT
            && size_bytes + chunk.size_bytes() <= LARGE_SIZE_BYTES
            && state.seats.values().all(|seat| seat.consumed.contains(first));
        fits.then(|| {
            row_count += chunk.scanned().row_count;
            size_bytes += chunk.size_bytes();
            neighbour = Some(Arc::clone(chunk));
            (Arc::clone(chunk), *through)
        })
    };
    if let Some(Slot::Within { first }) = state.slots.get(index) {
        run.first = *first;
    }
    let (chunk, through) = take(run.first)?;
    run.through = through;
    run.chunks.push(chunk);
    while run.chunks.len() < RUN_CHUNK_COUNT && run.first > 0 {
        let before = match state.slots[run.first - 1] {
            Slot::Within { first } => first,
            _ => run.first - 1,
        };
        let Some((chunk, _)) = take(before) else { break };
        run.first = before;
        run.chunks.push(chunk);
    }
    run.chunks.reverse();
    while run.chunks.len() < RUN_CHUNK_COUNT {
        let Some((chunk, through)) = take(run.through + 1) else { break };
        run.through = through;
        run.chunks.push(chunk);
    }
    let is_long = row_count >= RUN_ROW_COUNT || run.chunks.len() >= RUN_CHUNK_COUNT || has_whole_lender(&run.chunks);
    (is_long && run.chunks.len() > 1).then_some(run)
}

/// Whether the chunks of a run have all that another lends: the next would have to do with a third.
fn has_whole_lender(chunks: &[Arc<Chunk>]) -> bool {
    let Some((first, last)) = chunks.first().zip(chunks.last()) else { return false };
    let Some((first, last)) = first.lent().zip(last.lent()) else { return false };
    Lent { lender: Weak::clone(&first.lender), range: first.range.start..last.range.end }.is_whole()
}

/// Puts the merged chunk in the place of its parts, unless the scan stopped keeping or somebody sits between having
/// seen some of them and not others. What is returned is to be dropped outside of the lock.
fn replace(state: &mut State, run: &Run, merged: Arc<Chunk>) -> Option<Vec<Slot>> {
    let range = run.first..=run.through;
    let is_keeping = state.sharing == Sharing::Kept && matches!(state.phase, Phase::Running | Phase::Finishing);
    let still_whole = state
        .slots
        .get(range.clone())
        .is_some_and(|slots| slots.iter().all(|slot| matches!(slot, Slot::Kept { .. } | Slot::Within { .. })));
    let seen_alike = || {
        state.seats.values().all(|seat| {
            let seen_count = range.clone().filter(|&index| seat.consumed.contains(index)).count();
            seen_count == 0 || seen_count == run.through - run.first + 1
        })
    };
    if !is_keeping || !still_whole || !seen_alike() {
        return Some(vec![Slot::Kept { chunk: merged, through: run.first }]);
    }
    let mut replaced = Vec::with_capacity(run.through - run.first + 1);
    for index in range {
        replaced.push(std::mem::replace(&mut state.slots[index], Slot::Within { first: run.first }));
    }
    state.slots[run.first] = Slot::Kept { chunk: merged, through: run.through };
    Some(replaced)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use thermocline_budget::{Budget, Purpose};

    use super::*;
    use crate::scan::morsel_set::MorselSet;
    use crate::scan::state::Seat;

    fn chunk(row_count: usize) -> Arc<Chunk> {
        let account = Budget::new(100, None).account("chunks", Purpose::Cache);
        let rows = Rows {
            columns: Vec::new(),
            elements: None,
            row_count,
            record_count: 0,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        };
        Arc::new(Chunk::new(Content::Arrays(Arc::new(rows)), account.try_reserve(1).unwrap()))
    }

    /// A state of two kept morsels and one seat per list of morsels seen.
    fn state(seen: &[&[usize]]) -> State {
        let mut state = State::new(Sharing::Kept);
        state.slots = (0..2).map(|index| Slot::Kept { chunk: chunk(40_000), through: index }).collect();
        for (id, seen) in seen.iter().enumerate() {
            let mut consumed = MorselSet::default();
            for &index in *seen {
                consumed.insert(index);
            }
            state.seats.insert(id as u64, Seat { consumed, ..Seat::nowhere() });
        }
        state
    }

    fn is_replaced(state: &mut State) -> bool {
        let run = Run { first: 0, through: 1, chunks: Vec::new() };
        drop(replace(state, &run, chunk(80_000)));
        matches!(state.slots[1], Slot::Within { first: 0 })
    }

    #[test]
    fn a_run_is_replaced_only_if_nobody_has_seen_a_part_of_it() {
        assert!(is_replaced(&mut state(&[&[0, 1], &[]])));
        assert!(!is_replaced(&mut state(&[&[0, 1], &[0]])), "the second would get morsel 0 twice");
        assert!(!is_replaced(&mut state(&[&[1]])));
    }

    #[test]
    fn a_scan_that_stopped_keeping_gets_nothing_merged() {
        let mut stopped = state(&[&[0, 1]]);
        stopped.sharing = Sharing::Solo;
        assert!(!is_replaced(&mut stopped));
        let mut verified = state(&[&[0, 1]]);
        verified.phase = Phase::Verified;
        assert!(!is_replaced(&mut verified));
    }

    #[test]
    fn chunks_that_somebody_has_not_seen_or_that_are_large_are_in_no_run() {
        let mut many = State::new(Sharing::Kept);
        many.slots = (0..40).map(|index| Slot::Kept { chunk: chunk(10), through: index }).collect();
        let run = find_run(&many, 20).unwrap();
        assert_eq!((run.chunks.len(), run.through - run.first + 1), (RUN_CHUNK_COUNT, RUN_CHUNK_COUNT));
        many.slots[20] = Slot::Kept { chunk: chunk(SMALL_ROW_COUNT), through: 20 };
        assert!(find_run(&many, 20).is_none());
        assert!(find_run(&many, 10).is_none(), "twenty chunks of ten rows are too little");
        assert!(find_run(&state(&[&[0]]), 0).is_none());
    }
}
