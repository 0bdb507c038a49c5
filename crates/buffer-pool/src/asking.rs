//! Asking for pages: those in memory are found, the others are read.
//!
//! **Owns**: which pages become one read, and where pages go that there is no room for. **Does not own**: when they are
//! asked for (`reader`), what has to go (`residents`).
//!
//! **Invariants**: each page that is asked for is looked up and, if it is not there, entered under one hold of the
//! lock, so that it is read once however many ask. Reads are submitted after the lock is released.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline_medium::AlignedBuffer;
use thermocline_placement::page_cache::PageKey;

use crate::arena::{Extent, UNIT_BYTES};
use crate::frame::{Frame, FrameMemory, PassingMemory};
use crate::pool::BufferPool;
use crate::read_run::ReadRun;
use crate::residents::{NOTE_BYTES, Residents};
use crate::source::{PagePlace, SourceEntry};
use crate::{PoolError, Result};

/// A page that was asked for: pinned, in memory or on its way.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) frame: Arc<Frame>,
    /// It was in memory or on its way already.
    pub(crate) was_hit: bool,
}

impl BufferPool {
    /// Asks for pages in this order, as far as there is room; returns for how many. Neighbours in the order that are
    /// neighbours in the file are read together.
    pub(crate) fn ask(&self, entry: &SourceEntry, wanted: &[(u32, PagePlace)], asked: &mut VecDeque<Asked>) -> usize {
        let mut runs = Vec::new();
        let mut residents = self.residents.lock();
        let mut done_count = 0;
        while let Some((page, _)) = wanted.get(done_count) {
            if let Some(frame) = residents.find(PageKey { source: entry.id, page: *page }) {
                asked.push_back(Asked { frame, was_hit: true });
                done_count += 1;
                continue;
            }
            let count = self.run_length(&residents, entry, &wanted[done_count..]);
            let run = &wanted[done_count..done_count + count];
            let read_count = read_run(&mut residents, entry, run, &mut runs, asked);
            done_count += read_count;
            if read_count < count {
                break;
            }
        }
        drop(residents);
        self.arena.bring_in();
        self.submit(entry, runs);
        done_count
    }

    /// How many of the first pages, at least one, can be read together.
    fn run_length(&self, residents: &Residents, entry: &SourceEntry, wanted: &[(u32, PagePlace)]) -> usize {
        let mut bytes = 0;
        let follows = |pair: &&[(u32, PagePlace)]| {
            let [(_, place), (next_page, next)] = pair else { return false };
            bytes += place.held_bytes();
            bytes + next.held_bytes() <= self.options.read_most_bytes
                && place.is_followed_by(next)
                && !residents.has(PageKey { source: entry.id, page: *next_page })
        };
        1 + wanted.windows(2).take_while(follows).count()
    }

    /// Asks for a page that there is no room for, in memory of the query that wants it.
    ///
    /// # Errors
    /// [`PoolError::Memory`].
    pub(crate) fn ask_passing(&self, entry: &SourceEntry, page: u32, place: &PagePlace) -> Result<Asked> {
        // The buffer may need a part of a unit more to begin where it must.
        let bytes = place.held_bytes() + UNIT_BYTES + NOTE_BYTES;
        let reservation = self
            .passing
            .try_reserve(bytes)
            .map_err(|source| PoolError::Memory { page: entry.source.describe(page), source })?;
        let buffer = AlignedBuffer::new(place.held_bytes() as usize);
        let key = PageKey { source: entry.id, page };
        let mut residents = self.residents.lock();
        if let Some(frame) = residents.find(key) {
            return Ok(Asked { frame, was_hit: true });
        }
        let frame = Arc::new(Frame::new(key, place, None));
        let memory = FrameMemory::Passing(Box::new(PassingMemory { buffer, _reservation: reservation }));
        let run = ReadRun::new(entry.source.medium(), place, vec![Arc::clone(&frame)], vec![memory]);
        residents.note_passing(&frame);
        drop(residents);
        self.submit(entry, vec![run]);
        Ok(Asked { frame, was_hit: false })
    }

    /// Takes a page that has failed out of the table, so that it is read again when it is next asked for.
    pub(crate) fn forget(&self, frame: &Arc<Frame>) {
        self.residents.lock().forget(frame);
    }

    fn submit(&self, entry: &SourceEntry, runs: Vec<ReadRun>) {
        if !runs.is_empty() {
            let is_metered = entry.source.shows_storage_rate();
            let reads = runs.into_iter().map(|run| run.into_read(is_metered.then(|| self.device.begin()))).collect();
            entry.source.medium().submit(reads);
        }
    }
}

/// Enters frames for pages that are not there and lie next to each other, as far as there is room; returns for how
/// many.
fn read_run(
    residents: &mut Residents,
    entry: &SourceEntry,
    run: &[(u32, PagePlace)],
    runs: &mut Vec<ReadRun>,
    asked: &mut VecDeque<Asked>,
) -> usize {
    let sizes_bytes: Vec<u64> = run.iter().map(|(_, place)| place.held_bytes()).collect();
    let mut done_count = 0;
    while let Some((_, first)) = run.get(done_count) {
        let Some((extents, count)) = residents.take_run(&sizes_bytes[done_count..], first.list) else { break };
        let mut free = extents.iter().map(Extent::range);
        let mut part = 0..0;
        let mut frames = Vec::with_capacity(count);
        for (page, place) in &run[done_count..done_count + count] {
            if part.is_empty() {
                part = free.next().unwrap_or_default();
            }
            let frame = Frame::new(PageKey { source: entry.id, page: *page }, place, Some(part.start));
            part.start += place.held_bytes();
            frames.push(Arc::new(frame));
        }
        let memory = extents.into_iter().map(FrameMemory::Extent).collect();
        // Before others can find the frames: should a policy panic, they are told by the run that goes.
        let run = ReadRun::new(entry.source.medium(), first, frames, memory);
        for frame in run.frames() {
            residents.keep(frame);
            asked.push_back(Asked { frame: Arc::clone(frame), was_hit: false });
        }
        runs.push(run);
        done_count += count;
    }
    done_count
}
