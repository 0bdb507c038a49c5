//! Proportional caching: each list keeps what its quota says, and what is beyond goes first.
//!
//! **Places.** A page is *kept* (within its list's quota), *spare*, *passing* or *leaving*. All but the first are the
//! paper's global free list (§4.3): they serve hits, go before any kept page, and are kept again as soon as their list
//! has room. Spare pages use the memory that no quota claims, so that none lies idle. Leaving pages, which made way for
//! others, are the next to go, in the order in which they left; then newcomers that pass. These two have at least one
//! byte in `PASSING_LEAST_PART`, and as much room as pages that are in use and not kept were seen to need. Before there
//! are quotas no page is kept.
//!
//! **Which page that passes.** The newest, so that what room they have beyond the pages in use holds the same pages when
//! the scan comes again. But while one scan follows another closely, seen by pages that are asked for again just after
//! they passed, the oldest: what passes then is on its way from the first to the second.
//!
//! **Which page of a list.** Scans come again in the same order, so giving up the least recently used page of a full
//! list, or keeping each newcomer, would never hit. The kept pages therefore stay as they are, and newcomers pass by,
//! but for an even spread over the list (`room`), for which they take the place of pages that the scan has used already;
//! those that it has not come to would be read again at once. A page takes the place of the one not used for longest only
//! if the time since its own last use is clearly shorter (by `CLEARLY`) than the time that the other has gone without:
//! pages that zone maps make queries touch more often move in, and so do those of a changed workload, at its second or
//! third query. Names of pages that went are remembered for that. The same rule decides who is spare. Uses that follow
//! each other closely are one use: they come from one query, or from two that scan together.
//!
//! **Pages of the same rows stay together** where their columns have equal shares: what a query has to read is then whole
//! row groups, in fewer and larger reads.
//!
//! **Time** is counted in uses of pages. **Memory** is what is held when room is asked for; the pool's size may change.
//! If the quotas are more than that, all are cut in proportion.
//!
//! Papers: HPCache §4.2 and §4.3; the rule of the last uses is that of LIRS (Jiang and Zhang, SIGMETRICS 2002), whose
//! stack test "is in stack S" is the comparison of two times here. Deviations: the paper does not say which page of a
//! full column goes, nor that what is in memory must be spread for its equation 1 to hold, and gives memory that no
//! quota claims to nobody. LIRS has no margin and no closely following uses: scans of many threads come in roughly the
//! same order only, and without the margin every page that is a little early would push out one that is a little late.
//!
//! Pure; amortised O(1) for hits and O(log n) for pages that come; choosing among kept pages, which happens only while
//! memory shrinks or all else is pinned, O(lists); new quotas, O(pages).

mod room;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::page_table::{Chain, PageTable, Slot};
use super::{HeldBytes, ListKey, PageKey, PagePolicy};
use room::{Room, mixed};

/// Of the memory, one byte in so many at least is for newcomers: without room to pass through they would push kept pages
/// out. Too little to miss; how much more scans need that read ahead is seen when they do.
const PASSING_LEAST_PART: u64 = 256;
/// Of how much can't go there is half as much again for pages that pass: a newcomer needs memory of its size in one
/// piece, so that there must be some to choose among.
const PASSING_SLACK: u64 = 2;
/// At most one byte in so many is for pages that pass.
const PASSING_PART: u64 = 2;
/// With each decision about quotas, of which there are several for each query, the room for pages that pass shrinks by one
/// byte in so many: it is for as many readers as there were of late. Queries that read nothing lie between those that do,
/// and whenever there is too little room kept pages go.
const PASSING_DECAY: u64 = 256;
/// A time is clearly shorter than another if it is less than one part in so many of it. Of 16 threads that go through
/// their parts of a scan independently some pages come early or late by a third of the time between two scans, so two
/// thirds are too much; pages that three queries ask for while one asks for others pass.
const CLEARLY: u64 = 2;
/// Uses of a page count once within as many uses of pages as one in so many of the pages held.
const ONE_USE_PART: u64 = 8;
/// Names are remembered for so many times the pages held: the reach of the rule, five times the memory. Their bytes are
/// below one in a thousand of those of pages of 256 KiB.
const NAMES_PER_PAGE: usize = 4;
/// A page unused for so many times as long as names reach back makes way for any newcomer: scans that are so much
/// larger than memory gain nothing by keeping it, and it may be of no query any more.
const STALE_REACHES: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Kept,
    Spare,
    Passing,
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct State {
    place: Place,
    /// The time of the last use; of several that follow each other closely the first.
    last: u64,
    /// From the last use but one to the last. Of a page seen once, none.
    gap: Option<u64>,
    /// The same for pages of the same rows, and else as if it were random.
    number: u64,
}

#[derive(Debug, Default)]
struct List {
    quota_bytes: u64,
    kept: Room,
}

/// Gives up what is beyond the quotas, and of a list what is used least.
#[derive(Debug, Default)]
pub struct Proportional {
    pages: PageTable<State>,
    /// The lists with a quota.
    lists: BTreeMap<ListKey, List>,
    /// Of all lists.
    quota_bytes: u64,
    /// Of all lists.
    kept_bytes: u64,
    spare: Room,
    passing: Chain,
    leaving: Chain,
    /// When a page was last asked for again just after it passed.
    followed: Option<u64>,
    /// Bytes held when room was asked for, or later if that is more; `None` before that.
    memory_bytes: Option<u64>,
    /// What pages that pass were seen to need of late, in a pool of which they need more than that part.
    passing_bytes: u64,
    now: u64,
    /// Pages that went, with their last use, in the order in which they went.
    names: PageTable<u64>,
    remembered: Chain,
    /// The last use of the page whose name was forgotten last.
    reach_start: u64,
    /// Named by `victim` and not yet removed: its name is remembered when it goes.
    named: Option<PageKey>,
}

impl Proportional {
    /// Memory for kept and spare pages.
    fn stable_bytes(&self) -> u64 {
        self.memory_bytes.map_or(u64::MAX, |bytes| {
            bytes - self.passing_bytes.clamp(bytes / PASSING_LEAST_PART, bytes / PASSING_PART)
        })
    }

    fn spare_limit_bytes(&self) -> u64 {
        self.stable_bytes().saturating_sub(self.kept_bytes)
    }

    /// A list's quota, cut if all together are more than there is.
    fn limit_bytes(&self, quota_bytes: u64) -> u64 {
        let stable_bytes = self.stable_bytes();
        if self.quota_bytes <= stable_bytes {
            return quota_bytes;
        }
        let cut = u128::from(quota_bytes) * u128::from(stable_bytes) / u128::from(self.quota_bytes);
        u64::try_from(cut).unwrap_or(quota_bytes)
    }

    /// The page of a room that makes way for `slot`, which is used now and was at `before`, if any does; and whether it
    /// has not been used for so long that it should go altogether.
    fn replaced_by(&self, slot: Slot, before: Option<u64>, room: &Room) -> Option<(Slot, bool)> {
        let oldest = room.oldest()?;
        let unused = self.now - self.pages.value(oldest).last;
        let gap = before.map(|before| self.now - before);
        let replaces_oldest = match gap {
            Some(gap) => gap.saturating_mul(CLEARLY) < unused,
            // Its last use is not known.
            None => self.is_stale(unused),
        };
        if replaces_oldest {
            return Some((oldest, true));
        }
        let number = self.pages.value(slot).number;
        // By the scan that the newcomer is of.
        let was_used = |unused: u64| gap.is_none_or(|gap| unused.saturating_mul(CLEARLY) < gap);
        let follows = |other: &Slot| {
            let State { number: of_other, last, .. } = self.pages.value(*other);
            number < of_other && was_used(self.now - last)
        };
        let seen_once = |other: &Slot| self.pages.value(*other).gap.is_none();
        if let Some(weakest) = room.weakest().filter(seen_once).filter(follows) {
            return Some((weakest, false));
        }
        // Clearly rarer ones make way whatever the numbers, clearly more frequent ones stay.
        let gap = gap?;
        let weakest = room.weakest_used_again()?;
        let of_weakest = self.pages.value(weakest).gap?;
        let unused = self.now - self.pages.value(weakest).last;
        let rarer = gap.saturating_mul(CLEARLY) < of_weakest.min(unused);
        let alike = gap <= of_weakest.saturating_mul(CLEARLY);
        (rarer || alike && follows(&weakest)).then_some((weakest, rarer))
    }

    /// Uses of pages within which those of one page are one.
    fn one_use(&self) -> u64 {
        self.pages.page_count() as u64 / ONE_USE_PART
    }

    /// `last`, unless it was so shortly ago that it and the use that happens now are one.
    fn earlier_use(&self, last: u64) -> Option<u64> {
        (self.now - last > self.one_use()).then_some(last)
    }

    /// Whether a page that is unused for so long is likely to be of no query any more.
    fn is_stale(&self, unused: u64) -> bool {
        unused > (self.now - self.reach_start).saturating_mul(STALE_REACHES)
    }

    fn link_newest(&mut self, slot: Slot, place: Place) {
        let state = self.pages.value(slot);
        self.pages.set_value(slot, State { place, ..state });
        match place {
            Place::Kept => {
                self.kept_bytes += self.pages.page_bytes(slot);
                let list = self.lists.entry(self.pages.list(slot)).or_default();
                list.kept.push_newest(&mut self.pages, slot);
            }
            Place::Spare => self.spare.push_newest(&mut self.pages, slot),
            Place::Passing => self.pages.push_newest(&mut self.passing, slot),
            Place::Leaving => self.pages.push_newest(&mut self.leaving, slot),
        }
    }

    fn unlink(&mut self, slot: Slot) {
        match self.pages.value(slot).place {
            Place::Kept => {
                self.kept_bytes -= self.pages.page_bytes(slot);
                let list = self.lists.entry(self.pages.list(slot)).or_default();
                list.kept.unlink(&mut self.pages, slot);
            }
            Place::Spare => self.spare.unlink(&mut self.pages, slot),
            Place::Passing => self.pages.unlink(&mut self.passing, slot),
            Place::Leaving => self.pages.unlink(&mut self.leaving, slot),
        }
    }

    /// From wherever it is to the leaving ones.
    fn leave(&mut self, slot: Slot) {
        self.unlink(slot);
        self.link_newest(slot, Place::Leaving);
    }

    /// Whether the page's list could keep it beside all that it keeps.
    fn has_room(&self, slot: Slot) -> bool {
        self.lists.get(&self.pages.list(slot)).is_some_and(|list| {
            list.kept.size_bytes().saturating_add(self.pages.page_bytes(slot)) <= self.limit_bytes(list.quota_bytes)
        })
    }

    /// Makes room for an unlinked page among the kept ones of its list by those it replaces.
    fn can_be_kept(&mut self, slot: Slot, before: Option<u64>) -> bool {
        while !self.has_room(slot) {
            let list = self.lists.get(&self.pages.list(slot));
            match list.and_then(|list| self.replaced_by(slot, before, &list.kept)) {
                Some((replaced, true)) => self.leave(replaced),
                Some((replaced, false)) => self.free(replaced),
                None => return false,
            }
        }
        true
    }

    /// Makes room for an unlinked page among the spare ones by those it replaces.
    fn can_be_spare(&mut self, slot: Slot, before: Option<u64>) -> bool {
        while self.spare.size_bytes().saturating_add(self.pages.page_bytes(slot)) > self.spare_limit_bytes() {
            match self.replaced_by(slot, before, &self.spare) {
                Some((replaced, _)) => self.leave(replaced),
                None => return false,
            }
        }
        true
    }

    /// From the kept pages of its list to the free list: among the spare ones, if there is room or others are given up
    /// before it. As the newest, though it is not, so that the pages not used for longest stay where they are looked
    /// for.
    fn free(&mut self, slot: Slot) {
        self.unlink(slot);
        while self.spare.size_bytes().saturating_add(self.pages.page_bytes(slot)) > self.spare_limit_bytes() {
            let Some(weaker) = self.spare.gives_up_before(&self.pages, slot) else {
                return self.link_newest(slot, Place::Leaving);
            };
            self.leave(weaker);
        }
        self.link_newest(slot, Place::Spare);
    }

    fn free_what_is_beyond(&mut self, key: ListKey) {
        while let Some(list) = self.lists.get(&key)
            && let Some(weakest) = list.kept.weakest()
            && (list.quota_bytes == 0 || list.kept.size_bytes() > self.limit_bytes(list.quota_bytes))
        {
            self.free(weakest);
        }
    }

    /// Keeps again what lists have room for of their pages on the free list, the last to be given up first.
    fn keep_again(&mut self) {
        let newest_first = [&self.passing, &self.leaving].into_iter().flat_map(|chain| self.pages.newest_first(chain));
        let free_list: Vec<Slot> = self.spare.strongest_first().chain(newest_first).collect();
        for slot in free_list {
            if self.has_room(slot) {
                self.unlink(slot);
                self.link_newest(slot, Place::Kept);
            }
        }
    }

    /// Lets a page of the free list go, unless its list has room again: then it is kept instead.
    fn goes(&mut self, slot: Slot, can_go: &mut dyn FnMut(PageKey) -> bool) -> bool {
        if self.has_room(slot) {
            self.unlink(slot);
            self.link_newest(slot, Place::Kept);
            return false;
        }
        can_go(self.pages.key(slot))
    }

    /// The first in the order of a chain that can go.
    fn victim_of(
        &mut self,
        first: Option<Slot>,
        next: fn(&PageTable<State>, Slot) -> Option<Slot>,
        can_go: &mut dyn FnMut(PageKey) -> bool,
    ) -> Option<Slot> {
        let mut at = first;
        while let Some(slot) = at {
            at = next(&self.pages, slot);
            if self.goes(slot, can_go) {
                return Some(slot);
            }
        }
        None
    }

    /// A page that leaves or passes and can go.
    fn transient_victim(&mut self, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<Slot> {
        if let Some(slot) = self.victim_of(self.leaving.oldest(), PageTable::newer, can_go) {
            return Some(slot);
        }
        let is_followed = self.followed.is_some_and(|followed| self.now - followed <= self.one_use());
        let oldest = self.passing.oldest();
        if is_followed || oldest.is_some_and(|oldest| self.is_stale(self.now - self.pages.value(oldest).last)) {
            return self.victim_of(oldest, PageTable::newer, can_go);
        }
        self.victim_of(self.passing.newest(), PageTable::older, can_go)
    }

    fn spare_victim(&mut self, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<Slot> {
        let mut next = self.spare.weakest();
        while let Some(slot) = next {
            next = self.spare.next_weakest(&self.pages, slot);
            if self.goes(slot, can_go) {
                return Some(slot);
            }
        }
        None
    }

    /// A kept page that can go: of the list that wants room, if that is full, else of the one that is fullest. For a
    /// newcomer the page used last: a scan that comes again needs it later than any other, and those that it has not
    /// come to yet would be read again at once, in the place of others. For less memory the first to give up, so that
    /// what stays is spread over the scan.
    fn kept_victim(&self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<Slot> {
        let mut lists: Vec<(bool, f64, ListKey, &List)> = Vec::with_capacity(self.lists.len());
        for (key, list) in &self.lists {
            let fullness = list.kept.size_bytes() as f64 / list.quota_bytes.max(1) as f64;
            let full = list.kept.oldest().is_some_and(|oldest| !self.has_room(oldest));
            lists.push((full && incoming == Some(*key), fullness, *key, list));
        }
        lists.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        lists.into_iter().find_map(|(_, _, _, List { kept, .. })| match incoming {
            Some(_) => kept.newest_that_can_go(&self.pages, can_go),
            None => kept.weakest_that_can_go(&self.pages, can_go),
        })
    }

    fn forget(&mut self, name: Slot) -> u64 {
        let last = self.names.value(name);
        self.names.unlink(&mut self.remembered, name);
        self.names.remove(name);
        last
    }

    fn remember(&mut self, page: PageKey, list: ListKey, last: u64) {
        let name = self.names.insert(page, list, 0, last);
        self.names.push_newest(&mut self.remembered, name);
        let most = self.pages.page_count().saturating_mul(NAMES_PER_PAGE);
        while self.names.page_count() > most
            && let Some(oldest) = self.remembered.oldest()
        {
            let last = self.forget(oldest);
            self.reach_start = self.reach_start.max(last);
        }
    }
}

impl PagePolicy for Proportional {
    fn admit(&mut self, page: PageKey, list: ListKey, size_bytes: u64, rows: u32) {
        if self.pages.find(page).is_some() {
            return self.touch(page);
        }
        self.now += 1;
        let known = self.names.find(page).map(|name| self.forget(name));
        let before = known.and_then(|last| self.earlier_use(last));
        let last = if before.is_none() { known.unwrap_or(self.now) } else { self.now };
        let gap = before.map(|before| self.now - before);
        if known.is_some() && before.is_none() {
            self.followed = Some(self.now);
        }
        let state = State { place: Place::Passing, last, gap, number: mixed(page.source, rows) };
        let slot = self.pages.insert(page, list, size_bytes, state);
        self.memory_bytes = self.memory_bytes.map(|bytes| bytes.max(self.pages.size_bytes()));
        let place = if self.can_be_kept(slot, before) {
            Place::Kept
        } else if self.can_be_spare(slot, before) {
            Place::Spare
        } else {
            Place::Passing
        };
        self.link_newest(slot, place);
    }

    fn touch(&mut self, page: PageKey) {
        let Some(slot) = self.pages.find(page) else { return };
        self.now += 1;
        let state @ State { place, last, .. } = self.pages.value(slot);
        let Some(before) = self.earlier_use(last) else {
            if place == Place::Passing {
                self.followed = Some(self.now);
            }
            return;
        };
        let used = State { last: self.now, gap: Some(self.now - before), ..state };
        if place == Place::Kept {
            if let Some(list) = self.lists.get_mut(&self.pages.list(slot)) {
                list.kept.used(&mut self.pages, slot, used);
            }
            return;
        }
        self.unlink(slot);
        self.pages.set_value(slot, used);
        let place = if self.can_be_kept(slot, Some(before)) {
            Place::Kept
        } else if place == Place::Spare || self.can_be_spare(slot, Some(before)) {
            // What is spare stays so while it is used: room is asked for the others.
            Place::Spare
        } else {
            Place::Passing
        };
        self.link_newest(slot, place);
    }

    fn remove(&mut self, page: PageKey) {
        let named = self.named.take_if(|named| *named == page).is_some();
        if let Some(slot) = self.pages.find(page) {
            let (list, last) = (self.pages.list(slot), self.pages.value(slot).last);
            self.unlink(slot);
            self.pages.remove(slot);
            if named {
                self.remember(page, list, last);
            }
        }
    }

    fn victim(&mut self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.memory_bytes = Some(self.pages.size_bytes());
        while self.spare.size_bytes() > self.spare_limit_bytes()
            && let Some(weakest) = self.spare.weakest()
        {
            self.leave(weakest);
        }
        let slot = match self.transient_victim(can_go) {
            Some(slot) => slot,
            None => {
                let slot = self.spare_victim(can_go).or_else(|| self.kept_victim(incoming, can_go))?;
                // All that pass or leave are in use, if this is for a newcomer. Memory that shrinks may want others for
                // its own reasons.
                if incoming.is_some() {
                    let passing_bytes = self.leaving.size_bytes() + self.passing.size_bytes();
                    let needed_bytes = passing_bytes + self.pages.page_bytes(slot);
                    self.passing_bytes = self.passing_bytes.max(needed_bytes + needed_bytes / PASSING_SLACK);
                }
                slot
            }
        };
        self.named = Some(self.pages.key(slot));
        self.named
    }

    fn show_next(&mut self, look: &mut dyn FnMut(PageKey) -> bool) {
        if self.transient_victim(look).is_none() {
            self.spare_victim(look);
        }
    }

    fn set_quotas(&mut self, quotas: &[(ListKey, u64)]) {
        self.passing_bytes -= self.passing_bytes.div_ceil(PASSING_DECAY);
        self.lists.values_mut().for_each(|list| list.quota_bytes = 0);
        for (key, bytes) in quotas {
            self.lists.entry(*key).or_default().quota_bytes = *bytes;
        }
        self.quota_bytes = self.lists.values().fold(0, |sum, list| sum.saturating_add(list.quota_bytes));
        let keys: Vec<ListKey> = self.lists.keys().copied().collect();
        keys.into_iter().for_each(|key| self.free_what_is_beyond(key));
        self.lists.retain(|_, list| list.quota_bytes > 0);
        self.keep_again();
    }

    fn keepable_bytes(&self, capacity_bytes: u64) -> u64 {
        self.stable_bytes().min(capacity_bytes)
    }

    fn held(&self) -> Vec<HeldBytes> {
        let mut held: BTreeMap<ListKey, HeldBytes> = BTreeMap::new();
        for (&list, &bytes) in self.pages.list_bytes() {
            held.insert(list, HeldBytes { list, quota_bytes: 0, kept_bytes: 0, free_list_bytes: bytes });
        }
        for (&key, list) in &self.lists {
            let nothing = HeldBytes { list: key, quota_bytes: 0, kept_bytes: 0, free_list_bytes: 0 };
            let of_list = held.entry(key).or_insert(nothing);
            of_list.quota_bytes = list.quota_bytes;
            of_list.kept_bytes = list.kept.size_bytes();
            of_list.free_list_bytes -= list.kept.size_bytes();
        }
        held.into_values().collect()
    }
}
