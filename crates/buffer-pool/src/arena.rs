//! The memory of the pool: one range of addresses, of which chunks are backed by memory as the budget gives it.
//!
//! **Owns**: the range, which chunks of it are backed and reserved, which bytes of them are free; [`Extent`], a part of
//! it with one owner. **Does not own**: what lies in the extents, what has to go when there is no room.
//!
//! Memory that was touched once is used again before fresh memory is: bringing a page in costs more than reading into
//! it. Chunks lie on huge pages if those come quickly enough, which is measured ([`FreshMemory`] decides), and else are
//! moved to them later ([`Arena::enlarge_next`]). One range, rather than a mapping for each chunk, lets an extent cross
//! chunks, and leaves room for the largest extent wherever chunks are backed, since addresses cost nothing. The range can
//! also be registered as a whole with a device.
//!
//! **Invariants**
//! - Extents lie in backed chunks, at multiples of [`UNIT_BYTES`], and no two that are alive overlap.
//! - What is backed is reserved, and a little more for the notes about what lies in it ([`charge_bytes`]).
//! - A chunk without extents is given back when there are more than [`SPARE_CHUNKS`] of them.
//!
//! **Concurrency**: one lock, held for a search in a tree and, where chunks come and go, for the system calls that do
//! that. It is taken within the pool's lock, never the other way round.

// The reason: memory that the system is asked for directly, so that it can be handed out in parts, given back by the
// chunk and lie on huge pages. `Vec<u8>` could not be shared out to owners on several threads without a copy. The safe
// twin of an extent is `AlignedBuffer`, which frames without room in the arena lie in; tests run both against one
// model.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use thermocline_budget::{Account, Reservation};
use thermocline_hardware::{Clock, first_touch};
use thermocline_medium::DIRECT_ALIGNMENT_BYTES;
use thermocline_placement::page_cache::FreshMemory;

use crate::free_extents::FreeExtents;

/// Sizes and offsets of extents are multiples of it: what direct I/O asks for.
pub(crate) const UNIT_BYTES: u64 = DIRECT_ALIGNMENT_BYTES as u64;

/// Chunks without extents that are kept for the next ones: what eviction empties is filled again at once.
const SPARE_CHUNKS: usize = 4;

/// Of a huge page; the range begins at a multiple of it.
const HUGE_BYTES: usize = 2 << 20;

/// After so many chunks in a row that the system would not move to huge pages it is not asked for the others.
const MOST_REFUSED: u32 = 16;

/// One part in so many of a chunk is reserved on top of it for notes about what it holds, and for three notes at least:
/// enough for pages of 80 KiB, as most columns have. What smaller ones need beyond that is reserved as they come.
const NOTES_PART: u64 = 256;
const LEAST_NOTES_BYTES: u64 = 1024;

/// Backed now, by all arenas of the process.
static BACKED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Memory that buffer pools of this process hold outside of its allocator: whoever counts what is allocated adds it.
pub fn mapped_bytes() -> u64 {
    BACKED_BYTES.load(Ordering::Relaxed)
}

/// What is reserved for a chunk and the notes about what it holds.
pub(crate) const fn charge_bytes(chunk_bytes: u64) -> u64 {
    let notes_bytes = chunk_bytes / NOTES_PART;
    chunk_bytes + if notes_bytes > LEAST_NOTES_BYTES { notes_bytes } else { LEAST_NOTES_BYTES }
}

/// A range of addresses, given back when dropped.
#[derive(Debug)]
struct Mapping {
    /// What the system gave.
    whole: NonNull<libc::c_void>,
    whole_bytes: usize,
    /// The first multiple of [`HUGE_BYTES`] in it.
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: a mapping is two addresses and two lengths; the memory behind it is reached by extents alone, each of which
// has one owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Addresses for `size_bytes` that nothing lies behind yet.
    fn reserve(size_bytes: usize) -> io::Result<Self> {
        let whole_bytes = size_bytes.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping wherever the system sees fit; no memory of ours is touched.
        let whole = unsafe { libc::mmap(std::ptr::null_mut(), whole_bytes, libc::PROT_NONE, flags, -1, 0) };
        if whole == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let whole = NonNull::new(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        let first = whole.cast::<u8>();
        // SAFETY: less than HUGE_BYTES is added, which the mapping is longer by.
        let start = unsafe { first.add(first.align_offset(HUGE_BYTES)) };
        Ok(Self { whole, whole_bytes, start, size_bytes })
    }

    /// Puts zeroed memory behind a part; `is_huge` is the advice about its pages.
    fn back(&self, part: Range<u64>, is_huge: Option<bool>) -> io::Result<()> {
        let (start, size_bytes) = self.part(part);
        // SAFETY: the part lies within this mapping, where no extent is: nobody reads or writes it.
        let refused = unsafe { libc::mprotect(start, size_bytes, libc::PROT_READ | libc::PROT_WRITE) } != 0;
        if refused {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        if let Some(is_huge) = is_huge {
            let advice = if is_huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // SAFETY: as above; without effect where the system knows no such advice.
            unsafe { libc::madvise(start, size_bytes, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = is_huge;
        Ok(())
    }

    /// Brings in the memory behind a part, which may be in use; false if the system does not do that.
    fn bring_in(&self, part: Range<u64>) -> bool {
        let (start, size_bytes) = self.part(part);
        // SAFETY: the part lies within this mapping, and what it holds stays as it is.
        #[cfg(target_os = "linux")]
        return unsafe { libc::madvise(start, size_bytes, libc::MADV_POPULATE_WRITE) } == 0;
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Moves what a part holds to huge pages while it is in use; false if the system does not do that.
    fn enlarge(&self, part: Range<u64>) -> bool {
        let (start, size_bytes) = self.part(part);
        // SAFETY: as above.
        #[cfg(target_os = "linux")]
        return unsafe {
            libc::madvise(start, size_bytes, libc::MADV_HUGEPAGE) == 0
                && libc::madvise(start, size_bytes, libc::MADV_COLLAPSE) == 0
        };
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Gives the memory behind a part back to the system.
    fn bare(&self, part: Range<u64>) {
        let (start, size_bytes) = self.part(part);
        // SAFETY: the part lies within this mapping, where no extent is: what it holds is nobody's. A new mapping in
        // its place drops the memory on every system; should that fail, the memory stays and is used when the part is
        // backed again.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
            libc::mmap(start, size_bytes, libc::PROT_NONE, flags, -1, 0);
        }
    }

    fn part(&self, part: Range<u64>) -> (*mut libc::c_void, usize) {
        assert!(part.start <= part.end && part.end <= self.size_bytes as u64, "{part:?} of {}", self.size_bytes);
        // SAFETY: within the mapping, as was just seen.
        let start = unsafe { self.start.add(part.start as usize) };
        (start.as_ptr().cast(), (part.end - part.start) as usize)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `mmap` gave, once. Extents keep the arena alive, so there is none.
        unsafe { libc::munmap(self.whole.as_ptr(), self.whole_bytes) };
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Mapping,
    chunk_bytes: u64,
    clock: Arc<dyn Clock>,
    backed_bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Within backed chunks.
    free: FreeExtents,
    /// Chunks without memory.
    unbacked: FreeExtents,
    /// By chunk, as far as there was ever one backed.
    used_bytes: Vec<u64>,
    /// Backed chunks without extents.
    empty: BTreeSet<usize>,
    /// Decides about pages; none where the system has no huge ones.
    fresh: Option<FreshMemory>,
    /// Backed to lie on huge pages, and not touched yet.
    untouched: Vec<Range<u64>>,
    /// Backed chunks on small pages that are to lie on huge ones.
    small: BTreeSet<usize>,
    /// The last chunks that the system refused to move there.
    refused_count: u32,
    /// For what is backed, and the notes.
    reservation: Reservation,
}

impl Arena {
    /// An arena that reserves from `account`, nothing at first. `address_bytes` bounds what can ever be backed at once;
    /// where the system grants fewer addresses it takes what it gets.
    ///
    /// # Errors
    /// The system grants not even a small part of the addresses.
    pub(crate) fn new(
        account: &Account,
        chunk_bytes: u64,
        address_bytes: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, (u64, io::Error)> {
        let chunk_bytes = chunk_bytes.max(UNIT_BYTES).next_multiple_of(UNIT_BYTES);
        let mut size_bytes = address_bytes.max(chunk_bytes);
        let mapping = loop {
            size_bytes -= size_bytes % chunk_bytes;
            match Mapping::reserve(usize::try_from(size_bytes).unwrap_or(usize::MAX / 2)) {
                Ok(mapping) => break mapping,
                Err(error) if size_bytes / 2 < (64 << 20) => return Err((size_bytes, error)),
                Err(_) => size_bytes /= 2,
            }
        };
        let mut unbacked = FreeExtents::default();
        unbacked.insert(0, size_bytes);
        let touch = chunk_bytes.is_multiple_of(HUGE_BYTES as u64).then(first_touch).flatten();
        let fresh = touch.filter(|touch| touch.huge_ns.is_some()).map(|touch| FreshMemory::new(touch.slow_ns()));
        let state = State {
            free: FreeExtents::default(),
            unbacked,
            used_bytes: Vec::new(),
            empty: BTreeSet::new(),
            fresh,
            untouched: Vec::new(),
            small: BTreeSet::new(),
            refused_count: 0,
            reservation: account.reserve_infallible(0),
        };
        Ok(Arc::new(Self { mapping, chunk_bytes, clock, backed_bytes: AtomicU64::new(0), state: Mutex::new(state) }))
    }

    /// Whether what is backed but for `kept_bytes` of it, and what the budget has free, is as much together.
    pub(crate) fn could_hold(&self, size_bytes: u64, kept_bytes: u64) -> bool {
        let available_bytes = self.backed_bytes().saturating_sub(kept_bytes);
        let missing_count = size_bytes.saturating_sub(available_bytes).div_ceil(self.chunk_bytes);
        let state = self.state.lock();
        let is_free = state.reservation.try_grow(missing_count * self.charge_bytes()).is_ok();
        if is_free {
            state.reservation.shrink(missing_count * self.charge_bytes());
        }
        is_free
    }

    /// What is backed and given back at once.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Memory that is backed now.
    pub(crate) fn backed_bytes(&self) -> u64 {
        self.backed_bytes.load(Ordering::Relaxed)
    }

    /// What is reserved for notes about what the extents hold.
    pub(crate) fn notes_bytes(&self) -> u64 {
        self.backed_bytes() / self.chunk_bytes * (charge_bytes(self.chunk_bytes) - self.chunk_bytes)
    }

    /// An extent of `size_bytes`, a multiple of [`UNIT_BYTES`] and not 0; from what is backed if it fits there, else
    /// from chunks that the budget has free room for. None if neither.
    pub(crate) fn take(self: &Arc<Self>, size_bytes: u64) -> Option<Extent> {
        debug_assert!(size_bytes > 0 && size_bytes.is_multiple_of(UNIT_BYTES), "{size_bytes}");
        let mut state = self.state.lock();
        let offset = match state.free.take(size_bytes) {
            Some(offset) => offset,
            None => {
                self.back_chunks(&mut state, size_bytes.div_ceil(self.chunk_bytes))?;
                state.free.take(size_bytes)?
            }
        };
        Some(self.extent(state, offset, size_bytes))
    }

    /// Brings in the huge pages of the chunks backed since, which is measured. Each may take milliseconds: to be called
    /// when no lock is held, before there is written to what was taken. Without the call they come when they are
    /// touched.
    pub(crate) fn bring_in(&self) {
        loop {
            let Some(range) = self.state.lock().untouched.pop() else { return };
            let page_count = (range.end - range.start) / HUGE_BYTES as u64;
            let began_ns = self.clock.thread_cpu_ns();
            let came = self.mapping.bring_in(range);
            let took_ns = self.clock.thread_cpu_ns().saturating_sub(began_ns);
            if came && let Some(fresh) = &mut self.state.lock().fresh {
                fresh.came(took_ns / page_count);
            }
        }
    }

    /// Whether there are chunks that are to lie on huge pages and do not.
    pub(crate) fn has_small(&self) -> bool {
        !self.state.lock().small.is_empty()
    }

    /// Moves one such chunk to huge pages, which may take milliseconds, without the lock. Who reads there meanwhile
    /// waits for that; if the chunk loses its memory meanwhile, nothing is moved.
    pub(crate) fn enlarge_next(&self) {
        let Some(chunk) = self.state.lock().small.pop_first() else { return };
        let was_enlarged = self.mapping.enlarge(self.chunk(chunk));
        let mut state = self.state.lock();
        state.refused_count = if was_enlarged { 0 } else { state.refused_count + 1 };
        if state.refused_count >= MOST_REFUSED {
            state.small.clear();
        }
    }

    /// An extent for the first of these sizes, as many of them as lie together anywhere in what is backed and free; for
    /// how many it is. None if there is no room for one.
    pub(crate) fn take_first(self: &Arc<Self>, sizes_bytes: &[u64]) -> Option<(Extent, usize)> {
        let mut state = self.state.lock();
        let largest_bytes = state.free.largest_bytes();
        let (mut size_bytes, mut count) = (0, 0);
        for next_bytes in sizes_bytes {
            if size_bytes + next_bytes > largest_bytes {
                break;
            }
            size_bytes += next_bytes;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        let offset = state.free.take(size_bytes)?;
        Some((self.extent(state, offset, size_bytes), count))
    }

    /// Notes that a part of what was free is taken.
    fn extent(self: &Arc<Self>, mut state: MutexGuard<'_, State>, offset: u64, size_bytes: u64) -> Extent {
        for (chunk, part_bytes) in self.chunks(offset, size_bytes) {
            state.used_bytes[chunk] += part_bytes;
            state.empty.remove(&chunk);
        }
        Extent { arena: Arc::clone(self), offset, size_bytes }
    }

    /// Backs so many neighbouring chunks. Empty ones elsewhere move there before the budget is asked for more.
    fn back_chunks(&self, state: &mut State, count: u64) -> Option<()> {
        let moved_count = (state.empty.len() as u64).min(count);
        state.reservation.try_grow((count - moved_count) * self.charge_bytes()).ok()?;
        self.bare_chunks(state, moved_count as usize);
        let size_bytes = count * self.chunk_bytes;
        let Some(offset) = state.unbacked.take(size_bytes) else {
            state.reservation.shrink(count * self.charge_bytes());
            return None;
        };
        let is_huge = state.fresh.as_mut().map(FreshMemory::is_next_huge);
        if self.mapping.back(offset..offset + size_bytes, is_huge).is_err() {
            state.unbacked.insert(offset, size_bytes);
            state.reservation.shrink(count * self.charge_bytes());
            return None;
        }
        self.backed_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        BACKED_BYTES.fetch_add(size_bytes, Ordering::Relaxed);
        let first = (offset / self.chunk_bytes) as usize;
        let past = first + count as usize;
        if state.used_bytes.len() < past {
            state.used_bytes.resize(past, 0);
        }
        state.empty.extend(first..past);
        match is_huge {
            Some(true) => state.untouched.push(offset..offset + size_bytes),
            Some(false) => state.small.extend(first..past),
            None => {}
        }
        state.free.insert(offset, size_bytes);
        Some(())
    }

    /// Takes the memory from so many empty chunks, those at the highest addresses; the reservation stays.
    fn bare_chunks(&self, state: &mut State, count: usize) {
        for _ in 0..count {
            let Some(chunk) = state.empty.pop_last() else { return };
            state.small.remove(&chunk);
            let range = self.chunk(chunk);
            let was_free = state.free.take_range(range.start, self.chunk_bytes);
            debug_assert!(was_free, "chunk {chunk} is empty and not free");
            self.mapping.bare(range.clone());
            state.unbacked.insert(range.start, self.chunk_bytes);
            self.backed_bytes.fetch_sub(self.chunk_bytes, Ordering::Relaxed);
            BACKED_BYTES.fetch_sub(self.chunk_bytes, Ordering::Relaxed);
        }
    }

    fn chunk(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.chunk_bytes;
        start..start + self.chunk_bytes
    }

    fn charge_bytes(&self) -> u64 {
        charge_bytes(self.chunk_bytes)
    }

    /// The chunks that a range touches, and how many of its bytes lie in each.
    fn chunks(&self, offset: u64, size_bytes: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (chunk_bytes, end) = (self.chunk_bytes, offset + size_bytes);
        (offset / chunk_bytes..end.div_ceil(chunk_bytes)).map(move |chunk| {
            let start = offset.max(chunk * chunk_bytes);
            (chunk as usize, end.min((chunk + 1) * chunk_bytes) - start)
        })
    }

    /// The range that would be free around the frame that lies in `part`, if that went.
    pub(crate) fn hole_around(&self, part: Range<u64>) -> Range<u64> {
        self.state.lock().free.around(part)
    }

    /// Of what is free, so many ranges, the largest first.
    pub(crate) fn largest_holes(&self, count: usize) -> Vec<Range<u64>> {
        self.state.lock().free.largest().take(count).collect()
    }

    /// The smallest range of whole chunks around a range.
    pub(crate) fn around(&self, part: &Range<u64>) -> Range<u64> {
        part.start - part.start % self.chunk_bytes..part.end.next_multiple_of(self.chunk_bytes)
    }

    /// Bytes of extents in the chunks of a range of whole chunks.
    pub(crate) fn used_bytes(&self, chunks: &Range<u64>) -> u64 {
        let (first, past) = ((chunks.start / self.chunk_bytes) as usize, (chunks.end / self.chunk_bytes) as usize);
        self.state.lock().used_bytes.get(first..past).map_or(0, |used_bytes| used_bytes.iter().sum())
    }

    /// Bytes of all extents.
    pub(crate) fn all_used_bytes(&self) -> u64 {
        self.state.lock().used_bytes.iter().sum()
    }

    /// Backed chunks of which at most a quarter is used but not nothing, the emptiest first.
    pub(crate) fn sparse_chunks(&self) -> Vec<Range<u64>> {
        let state = self.state.lock();
        let mut sparse: Vec<(u64, usize)> = state
            .used_bytes
            .iter()
            .enumerate()
            .filter(|&(_, &used_bytes)| used_bytes > 0 && used_bytes <= self.chunk_bytes / 4)
            .map(|(chunk, &used_bytes)| (used_bytes, chunk))
            .collect();
        drop(state);
        sparse.sort_unstable();
        sparse.into_iter().map(|(_, chunk)| self.chunk(chunk)).collect()
    }

    /// Gives empty chunks back until `bytes` of the reservation are, or there are none; returns how many bytes those
    /// were.
    pub(crate) fn give_back(&self, bytes: u64) -> u64 {
        let mut state = self.state.lock();
        let count = bytes.div_ceil(self.charge_bytes()).min(state.empty.len() as u64);
        self.bare_chunks(&mut state, count as usize);
        state.reservation.shrink(count * self.charge_bytes())
    }

    /// Of the account's bytes, what this arena has.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.state.lock().reservation.size_bytes()
    }

    fn free(&self, offset: u64, size_bytes: u64) {
        let mut state = self.state.lock();
        for (chunk, part_bytes) in self.chunks(offset, size_bytes) {
            state.used_bytes[chunk] -= part_bytes;
            if state.used_bytes[chunk] == 0 {
                state.empty.insert(chunk);
            }
        }
        state.free.insert(offset, size_bytes);
        let excess_count = state.empty.len().saturating_sub(SPARE_CHUNKS);
        if excess_count > 0 {
            self.bare_chunks(&mut state, excess_count);
            state.reservation.shrink(excess_count as u64 * self.charge_bytes());
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        BACKED_BYTES.fetch_sub(*self.backed_bytes.get_mut(), Ordering::Relaxed);
    }
}

/// A part of the arena's memory, its owner's alone, until it is dropped. Holds anything at first.
#[derive(Debug)]
pub(crate) struct Extent {
    arena: Arc<Arena>,
    offset: u64,
    size_bytes: u64,
}

impl Extent {
    /// Where in the arena it lies.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.size_bytes
    }

    /// Cuts off all but the first `size_bytes`, a multiple of [`UNIT_BYTES`] less than its size.
    pub(crate) fn split_off(&mut self, size_bytes: u64) -> Self {
        assert!(
            size_bytes > 0 && size_bytes < self.size_bytes && size_bytes.is_multiple_of(UNIT_BYTES),
            "{size_bytes} of {}",
            self.size_bytes
        );
        let rest = Self {
            arena: Arc::clone(&self.arena),
            offset: self.offset + size_bytes,
            size_bytes: self.size_bytes - size_bytes,
        };
        self.size_bytes = size_bytes;
        rest
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: extents lie within the mapping.
        unsafe { self.arena.mapping.start.add(self.offset as usize) }
    }
}

impl Deref for Extent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is backed by initialised memory (zeros, if nobody wrote), stays so while the extent is
        // alive since its chunks are not empty, and overlaps no other extent; who changes it needs a unique reference
        // to this one. Gains: frames of the size of a page without an allocation each, on huge pages
        // (`benches/pool.rs`).
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.size_bytes as usize) }
    }
}

impl DerefMut for Extent {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the extent is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.size_bytes as usize) }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.arena.free(self.offset, self.size_bytes);
    }
}

#[cfg(test)]
mod tests;
