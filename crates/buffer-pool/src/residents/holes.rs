//! Which of the pages that a policy would give up next leave a hole of the size that is wanted.
//!
//! **Owns**: the choice among candidates. **Does not own**: the order in which a policy gives pages up, which it
//! departs from as little as it can, or what is done with the choice.
//!
//! Pages of a pool are of many sizes, and those that stay lie among those that go. Giving up pages by age alone until a
//! hole is large enough leaves a little free memory in many places: a tenth of all of it, where four pages of ten stay.
//! So of the next few candidates those go that leave a hole of about the size, alone or with others that lie beside
//! them.

use std::ops::Range;

use thermocline_placement::page_cache::PageKey;

/// So many candidates are looked at first, and twice as many as long as none of them is of use.
const FIRST_COUNT: usize = 16;

/// A hole is close to a size if what is left over is at most one part in so many of it.
const CLOSE_PART: u64 = 16;

/// A page that can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: PageKey,
    /// Where its frame lies.
    pub(super) frame: Range<u64>,
    /// What is free if it goes.
    pub(super) hole: Range<u64>,
}

impl Candidate {
    /// Whether it leaves about what is wanted.
    pub(super) fn is_close(&self, wanted_bytes: u64) -> bool {
        let hole_bytes = size_bytes(&self.hole);
        hole_bytes >= wanted_bytes && hole_bytes - wanted_bytes <= wanted_bytes / CLOSE_PART
    }
}

pub(super) fn size_bytes(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// Of candidates in the order in which they should go, those to give up for a hole of `wanted_bytes`: the smallest hole
/// that suffices among the first few, or among more if there is none. None if all of them would not do.
pub(super) fn for_a_hole(candidates: &[Candidate], wanted_bytes: u64) -> Option<Vec<PageKey>> {
    let mut count = FIRST_COUNT;
    loop {
        let first = &candidates[..count.min(candidates.len())];
        let chosen = smallest_hole(first, wanted_bytes);
        if chosen.is_some() || count >= candidates.len() {
            return chosen;
        }
        count *= 2;
    }
}

/// The smallest hole that suffices, of equal ones that which holds the first candidate.
fn smallest_hole(candidates: &[Candidate], wanted_bytes: u64) -> Option<Vec<PageKey>> {
    let mut by_place: Vec<(usize, &Candidate)> = candidates.iter().enumerate().collect();
    by_place.sort_unstable_by_key(|(_, candidate)| candidate.frame.start);
    let mut best: Option<(u64, usize, Range<usize>)> = None;
    let mut first = 0;
    for (last, (_, candidate)) in by_place.iter().enumerate() {
        if last > first && by_place[last - 1].1.hole.end < candidate.frame.start {
            first = last; // something else lies between
        }
        let hole_bytes = |first: usize| candidate.hole.end - by_place[first].1.hole.start;
        while first < last && hole_bytes(first + 1) >= wanted_bytes {
            first += 1;
        }
        if hole_bytes(first) >= wanted_bytes {
            let group = first..last + 1;
            let rank = by_place[group.clone()].iter().map(|(rank, _)| *rank).min().unwrap_or(0);
            let found = (hole_bytes(first), rank, group);
            if best.as_ref().is_none_or(|best| (found.0, found.1) < (best.0, best.1)) {
                best = Some(found);
            }
        }
    }
    best.map(|(_, _, group)| by_place[group].iter().map(|(_, candidate)| candidate.key).collect())
}

#[cfg(test)]
mod tests;
