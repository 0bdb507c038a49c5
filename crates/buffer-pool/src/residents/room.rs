//! Memory for pages that come, by giving up others.
//!
//! **Invariants**: no more goes than is needed. A run of pages takes memory that lies together if there is such, else
//! as few parts as there are; that is cheaper than giving up more, which would have to be read again, and than moving
//! what stays.
//!
//! What has to go is what the policy names, and about as much as comes; but where that leaves no hole of the size that
//! is wanted, it is chosen among what the policy would name next ([`holes`]), though no page is passed over for long. In
//! the end what lies beside it goes too, or the little that lies beside a hole which is almost large enough.

use std::ops::Range;

use thermocline_placement::page_cache::{ListKey, PageKey};

use super::Residents;
use super::holes::{self, Candidate, size_bytes};
use crate::arena::Extent;

/// Most extents that a run is read into: the system looks at each, and the kernel's fast way has room for eight.
const PARTS_MAX: usize = 64;

/// Most pages that are looked at for a hole, however many there are.
const CANDIDATES_MAX: u64 = 64;

/// Of the pages one in so many is looked at for a hole, so that what a policy would keep in a small pool stays.
const CANDIDATES_PART: u64 = 16;

/// Holes that are looked at for one that little makes large enough.
const HOLES_MAX: usize = 16;

impl Residents {
    /// Memory for pages of these sizes that are read together: extents, each for one or several of them in their order,
    /// and for how many of them that is: all, if enough others can go. None if there is not even room for the first.
    pub(crate) fn take_run(&mut self, sizes_bytes: &[u64], incoming: ListKey) -> Option<(Vec<Extent>, usize)> {
        let (mut extents, mut count) = (Vec::new(), 0);
        let mut left_bytes: u64 = sizes_bytes.iter().sum();
        // Of all that come, and for the next of them.
        let (mut may_go_bytes, mut gone_bytes) = (left_bytes, 0);
        while let Some(&next_bytes) = sizes_bytes.get(count)
            && extents.len() < PARTS_MAX
        {
            let (extent, taken_count) = if let Some(extent) = self.arena.take(left_bytes) {
                (extent, sizes_bytes.len() - count)
            } else if let Some(taken) = self.arena.take_first(&sizes_bytes[count..]) {
                taken
            } else if extents.is_empty() {
                (self.take_one(next_bytes, incoming)?, 1)
            } else if may_go_bytes > 0
                && let Some(bytes) = self.make_hole(next_bytes, incoming, gone_bytes)
            {
                may_go_bytes = may_go_bytes.saturating_sub(bytes);
                gone_bytes += bytes;
                continue;
            } else {
                break;
            };
            left_bytes -= extent.len() as u64;
            extents.push(extent);
            count += taken_count;
            gone_bytes = 0;
        }
        Some((extents, count))
    }

    /// Memory for one page, whatever has to go that can; nothing goes for one that is larger than all that there could
    /// be.
    fn take_one(&mut self, wanted_bytes: u64, incoming: ListKey) -> Option<Extent> {
        if !self.arena.could_hold(wanted_bytes, self.kept_bytes(wanted_bytes)) {
            return None;
        }
        let mut gone_bytes = 0;
        loop {
            if let Some(extent) = self.arena.take(wanted_bytes) {
                return Some(extent);
            }
            gone_bytes += self.make_hole(wanted_bytes, incoming, gone_bytes)?;
        }
    }

    /// Bytes that stay whatever goes for a page, since somebody has them. Not looked for where the page is no larger than a
    /// chunk: all that could go for it in vain is less than that, and it is asked for such pages all the time.
    fn kept_bytes(&self, wanted_bytes: u64) -> u64 {
        if wanted_bytes <= self.arena.chunk_bytes() {
            return 0;
        }
        self.arena.all_used_bytes().saturating_sub(self.table.all_unused_bytes())
    }

    /// Gives up pages so that there is a hole of `wanted_bytes`, or one step closer to it, `gone_bytes` having gone for
    /// it already. Returns how many bytes they had; None if no page can go.
    fn make_hole(&mut self, wanted_bytes: u64, incoming: ListKey, gone_bytes: u64) -> Option<u64> {
        // Asked for the newcomer: a policy learns from it how much there is that can't go.
        let next = self.victim(Some(incoming), |_, _, _| true)?;
        if self.candidate(next).is_some_and(|next| next.is_close(wanted_bytes)) {
            return Some(self.remove(next));
        }
        if !self.is_overdue(next) {
            let candidates = self.candidates(wanted_bytes);
            if let Some(chosen) = holes::for_a_hole(&candidates, wanted_bytes) {
                let stays = !chosen.contains(&next);
                let bytes = chosen.into_iter().map(|key| self.give_up(key)).sum();
                if stays {
                    self.pass_over(next, bytes);
                }
                return Some(bytes);
            }
        }
        // As much as comes goes by the policy's order alone before neighbours in memory go too.
        if gone_bytes < wanted_bytes {
            return Some(self.give_up(next));
        }
        Some(match self.cheapest_hole(next, wanted_bytes) {
            Some(keys) => keys.into_iter().map(|key| self.remove(key)).sum(),
            // Pinned ones lie between: whole chunks can be put together from anywhere.
            None => self.empty_around(next),
        })
    }

    /// Pages of so many bytes went in the place of the one that the policy names.
    fn pass_over(&mut self, next: PageKey, bytes: u64) {
        let before_bytes = self.passed_over.filter(|(page, _)| *page == next).map_or(0, |(_, bytes)| bytes);
        self.passed_over = Some((next, before_bytes + bytes));
    }

    /// Whether so much went in its place that it has to go, whatever hole it leaves: one that is much larger than all
    /// that come never leaves a good one.
    fn is_overdue(&self, next: PageKey) -> bool {
        let most_bytes = self.arena.backed_bytes() / CANDIDATES_PART;
        self.passed_over.is_some_and(|(page, bytes)| page == next && bytes > most_bytes)
    }

    /// The pages that the policy would give up next, up to one that leaves a hole close to what is wanted.
    fn candidates(&mut self, wanted_bytes: u64) -> Vec<Candidate> {
        let most = (self.table.page_count() / CANDIDATES_PART).clamp(1, CANDIDATES_MAX) as usize;
        let Self { policy, table, arena, .. } = self;
        let mut candidates = Vec::with_capacity(most);
        policy.show_next(&mut |key| {
            let Some(frame) = table.part_of(key).filter(|_| table.is_unused(key)) else { return false };
            let candidate = Candidate { key, hole: arena.hole_around(frame.clone()), frame };
            let is_last = candidate.is_close(wanted_bytes) || candidates.len() + 1 >= most;
            candidates.push(candidate);
            is_last
        });
        candidates
    }

    fn candidate(&self, key: PageKey) -> Option<Candidate> {
        let frame = self.table.part_of(key)?;
        Some(Candidate { key, hole: self.arena.hole_around(frame.clone()), frame })
    }

    /// Gives up a page that the policy did not name last, as if it had.
    fn give_up(&mut self, key: PageKey) -> u64 {
        self.policy.victim(None, &mut |candidate| candidate == key);
        self.remove(key)
    }

    /// The pages of the fewest bytes that leave a hole of `wanted_bytes` with `next` or with one of the largest holes
    /// that there are; None if one of those can't go, wherever it is tried.
    fn cheapest_hole(&self, next: PageKey, wanted_bytes: u64) -> Option<Vec<PageKey>> {
        let next = self.candidate(next)?;
        let around_next = self.grown(next.hole, wanted_bytes).map(|(keys, bytes)| {
            let keys = std::iter::once(next.key).chain(keys).collect();
            (keys, bytes + size_bytes(&next.frame))
        });
        let holes = self.arena.largest_holes(HOLES_MAX).into_iter();
        let around_holes = holes.filter_map(|hole| self.grown(hole, wanted_bytes));
        around_next.into_iter().chain(around_holes).min_by_key(|(_, bytes)| *bytes).map(|(keys, _)| keys)
    }

    /// The pages beside a hole that make one of `wanted_bytes` of it, and their bytes; None if one of them can't go.
    fn grown(&self, mut hole: Range<u64>, wanted_bytes: u64) -> Option<(Vec<PageKey>, u64)> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while size_bytes(&hole) < wanted_bytes {
            let missing_bytes = wanted_bytes - size_bytes(&hole);
            let beside = self.table.beside(&hole).into_iter().flatten().filter(|&key| self.table.is_unused(key));
            // The smallest that suffices, else the largest.
            let nearest = beside.filter_map(|key| self.candidate(key)).min_by_key(|beside| {
                let frame_bytes = size_bytes(&beside.frame);
                if frame_bytes >= missing_bytes { (false, frame_bytes) } else { (true, u64::MAX - frame_bytes) }
            })?;
            hole = hole.start.min(nearest.hole.start)..hole.end.max(nearest.hole.end);
            bytes += size_bytes(&nearest.frame);
            keys.push(nearest.key);
        }
        Some((keys, bytes))
    }
}
