//! Pages that stay, and which of them make way for newcomers.
//!
//! **Owns**: the pages of one room, the kept ones of a list or the spare ones, in two orders: by last use, and by the
//! *order of giving up*: those seen once before those used again, of these the rarely used ones first (by the power of
//! two of the time between uses), and among alike ones by a number mixed from the place of their rows, the greatest
//! first. **Does not own** the bound on their bytes.
//!
//! A newcomer with a smaller number than the first in that order takes its place. So after one scan a room has the
//! pages with the smallest numbers of all that came by, whatever the order in which they came, and has read none twice
//! for it (a bottom-k sample). They are spread evenly over the scan, which is what equation 1 of HPCache takes for
//! granted: a room that had the first pages of each column would let storage idle while they are worked on, and the
//! work wait for storage after them.

use std::collections::BTreeSet;

use super::super::PageKey;
use super::super::page_table::{Chain, PageTable, Slot};
use super::State;

/// One room.
#[derive(Debug, Default)]
pub(super) struct Room {
    by_last_use: Chain,
    /// The last goes first.
    to_give_up: BTreeSet<Rank>,
}

/// Bits of the time between uses, more than any time has for pages seen once; mixed number; page.
type Rank = (u32, u64, Slot);

const SEEN_ONCE: u32 = u64::BITS + 1;

/// A number that says nothing about a page but is the same every time, and for all pages of the same rows: the finaliser
/// of SplitMix64, one to one.
pub(super) fn mixed(source: u32, rows: u32) -> u64 {
    let key = u64::from(source) << 32 | u64::from(rows);
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

pub(super) fn rarity(gap: Option<u64>) -> u32 {
    gap.map_or(SEEN_ONCE, |gap| u64::BITS - gap.leading_zeros())
}

fn rank(pages: &PageTable<State>, slot: Slot) -> Rank {
    (rarity(pages.value(slot).gap), pages.value(slot).number, slot)
}

impl Room {
    pub(super) fn size_bytes(&self) -> u64 {
        self.by_last_use.size_bytes()
    }

    /// The page not used for longest.
    pub(super) fn oldest(&self) -> Option<Slot> {
        self.by_last_use.oldest()
    }

    /// The first to give up.
    pub(super) fn weakest(&self) -> Option<Slot> {
        self.to_give_up.last().map(|(_, _, slot)| *slot)
    }

    /// The first to give up of those used again.
    pub(super) fn weakest_used_again(&self) -> Option<Slot> {
        self.to_give_up.range(..(SEEN_ONCE, 0, Slot::LEAST)).next_back().map(|(_, _, slot)| *slot)
    }

    /// The first to give up, if it would be given up before this page.
    pub(super) fn gives_up_before(&self, pages: &PageTable<State>, slot: Slot) -> Option<Slot> {
        self.weakest().filter(|weakest| rank(pages, *weakest) > rank(pages, slot))
    }

    /// Its pages, the last to be given up first.
    pub(super) fn strongest_first(&self) -> impl Iterator<Item = Slot> + '_ {
        self.to_give_up.iter().map(|(_, _, slot)| *slot)
    }

    /// The one to give up after this one.
    pub(super) fn next_weakest(&self, pages: &PageTable<State>, slot: Slot) -> Option<Slot> {
        self.to_give_up.range(..rank(pages, slot)).next_back().map(|(_, _, slot)| *slot)
    }

    /// The first to give up that can go.
    pub(super) fn weakest_that_can_go(
        &self,
        pages: &PageTable<State>,
        can_go: &mut dyn FnMut(PageKey) -> bool,
    ) -> Option<Slot> {
        self.to_give_up.iter().rev().map(|(_, _, slot)| *slot).find(|slot| can_go(pages.key(*slot)))
    }

    /// The page used last that can go.
    pub(super) fn newest_that_can_go(
        &self,
        pages: &PageTable<State>,
        can_go: &mut dyn FnMut(PageKey) -> bool,
    ) -> Option<Slot> {
        pages.newest_first(&self.by_last_use).find(|slot| can_go(pages.key(*slot)))
    }

    /// Takes in a page as the newest.
    pub(super) fn push_newest(&mut self, pages: &mut PageTable<State>, slot: Slot) {
        pages.push_newest(&mut self.by_last_use, slot);
        self.to_give_up.insert(rank(pages, slot));
    }

    /// Lets a page out, whose state is as it was when it came in.
    pub(super) fn unlink(&mut self, pages: &mut PageTable<State>, slot: Slot) {
        pages.unlink(&mut self.by_last_use, slot);
        self.to_give_up.remove(&rank(pages, slot));
    }

    /// One of its pages was used again.
    pub(super) fn used(&mut self, pages: &mut PageTable<State>, slot: Slot, state: State) {
        if rarity(pages.value(slot).gap) != rarity(state.gap) {
            self.to_give_up.remove(&rank(pages, slot));
            pages.set_value(slot, state);
            self.to_give_up.insert(rank(pages, slot));
        } else {
            pages.set_value(slot, state);
        }
        pages.unlink(&mut self.by_last_use, slot);
        pages.push_newest(&mut self.by_last_use, slot);
    }
}
