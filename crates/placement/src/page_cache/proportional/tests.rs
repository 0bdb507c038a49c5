//! The rules of the places, on plain vectors.

use super::room::rarity;
use super::*;
use crate::page_cache::replay::{SlowPages, same_answers};

#[derive(Clone, Copy, Debug)]
struct Page {
    key: PageKey,
    list: ListKey,
    size_bytes: u64,
    last: u64,
    gap: Option<u64>,
    number: u64,
}

/// Oldest first each.
#[derive(Debug, Default)]
struct Slow {
    kept: Vec<Page>,
    spare: Vec<Page>,
    passing: Vec<Page>,
    leaving: Vec<Page>,
    followed: Option<u64>,
    names: Vec<Page>,
    quotas: BTreeMap<ListKey, u64>,
    memory_bytes: Option<u64>,
    passing_bytes: u64,
    now: u64,
    reach_start: u64,
    named: Option<PageKey>,
}

fn bytes<'a>(pages: impl IntoIterator<Item = &'a Page>) -> u64 {
    pages.into_iter().map(|page| page.size_bytes).sum()
}

fn take(pages: &mut Vec<Page>, key: PageKey) -> Option<Page> {
    let at = pages.iter().position(|page| page.key == key)?;
    Some(pages.remove(at))
}

impl Slow {
    fn all(&self) -> impl Iterator<Item = &Page> {
        self.kept.iter().chain(&self.spare).chain(&self.passing).chain(&self.leaving)
    }

    fn of(&self, list: ListKey) -> impl Iterator<Item = &Page> {
        self.kept.iter().filter(move |page| page.list == list)
    }

    fn oldest_of(&self, list: ListKey) -> Option<Page> {
        self.of(list).next().copied()
    }

    fn stable_bytes(&self) -> u64 {
        self.memory_bytes.map_or(1 << 60, |bytes| bytes - self.passing_bytes.clamp(bytes / 256, bytes / 2))
    }

    fn limit_bytes(&self, list: ListKey) -> u64 {
        let quota_bytes = self.quotas.get(&list).copied().unwrap_or(0);
        let all_bytes: u64 = self.quotas.values().sum();
        if all_bytes <= self.stable_bytes() { quota_bytes } else { quota_bytes * self.stable_bytes() / all_bytes }
    }

    fn spare_bytes(&self) -> u64 {
        self.stable_bytes().saturating_sub(bytes(&self.kept))
    }

    fn fits_in_list(&self, page: &Page) -> bool {
        self.quotas.contains_key(&page.list)
            && bytes(self.of(page.list)) + page.size_bytes <= self.limit_bytes(page.list)
    }

    /// Of the pages of a room, oldest first; and whether it should leave.
    fn replaced_by(&self, page: &Page, before: Option<u64>, room: &[Page]) -> Option<(PageKey, bool)> {
        let unused = self.now - room.first()?.last;
        let (clearly, gap) = match before {
            Some(before) => ((self.now - before) * 2 < unused, Some(self.now - before)),
            None => (self.is_stale(unused), None),
        };
        if clearly {
            return Some((room[0].key, true));
        }
        let weakest = |again: bool| weakest_first(room).into_iter().find(|other| other.gap.is_some() == again);
        let follows = |other: &Page| {
            let was_used = gap.is_none_or(|gap| (self.now - other.last) * 2 < gap);
            page.number < other.number && was_used
        };
        if let Some(other) = weakest(false)
            && follows(&other)
        {
            return Some((other.key, false));
        }
        let (gap, other) = (gap?, weakest(true)?);
        let of_other = other.gap?;
        let alike = gap <= of_other * 2 && follows(&other);
        let rarer = gap * 2 < of_other.min(self.now - other.last);
        (rarer || alike).then_some((other.key, rarer))
    }

    fn is_stale(&self, unused: u64) -> bool {
        unused > (self.now - self.reach_start) * 8
    }

    /// Pages that leave or pass, the next to go first.
    fn transient(&self) -> Vec<Page> {
        let mut passing = self.passing.clone();
        let is_followed = self.followed.is_some_and(|followed| self.now - followed <= self.all().count() as u64 / 8);
        if !is_followed && passing.first().is_some_and(|oldest| !self.is_stale(self.now - oldest.last)) {
            passing.reverse();
        }
        self.leaving.iter().copied().chain(passing).collect()
    }

    fn earlier_use(&self, last: u64, page_count: usize) -> Option<u64> {
        (self.now - last > page_count as u64 / 8).then_some(last)
    }

    fn free(&mut self, key: PageKey) {
        let Some(page) = take(&mut self.kept, key) else { return };
        let strength = |page: &Page| (rarity(page.gap), page.number);
        while bytes(&self.spare) + page.size_bytes > self.spare_bytes() {
            match weakest_first(&self.spare).first() {
                Some(weakest) if strength(weakest) > strength(&page) => {
                    self.leaving.extend(take(&mut self.spare, weakest.key));
                }
                _ => return self.leaving.push(page),
            }
        }
        self.spare.push(page);
    }

    fn keep_again(&mut self, page: Page) {
        [&mut self.spare, &mut self.passing, &mut self.leaving].into_iter().for_each(|pages| {
            take(pages, page.key);
        });
        self.kept.push(page);
    }

    fn transient_bytes(&self) -> u64 {
        bytes(&self.leaving) + bytes(&self.passing)
    }

    fn try_keep(&mut self, page: &Page, before: Option<u64>) -> bool {
        while !self.fits_in_list(page) {
            let room: Vec<Page> = self.of(page.list).copied().collect();
            match self.replaced_by(page, before, &room) {
                Some((replaced, true)) => self.leaving.extend(take(&mut self.kept, replaced)),
                Some((replaced, false)) => self.free(replaced),
                None => return false,
            }
        }
        true
    }

    fn try_spare(&mut self, page: &Page, before: Option<u64>) -> bool {
        while bytes(&self.spare) + page.size_bytes > self.spare_bytes() {
            match self.replaced_by(page, before, &self.spare) {
                Some((replaced, _)) => self.leaving.extend(take(&mut self.spare, replaced)),
                None => return false,
            }
        }
        true
    }
}

/// First to give up first.
fn weakest_first<'a>(pages: impl IntoIterator<Item = &'a Page>) -> Vec<Page> {
    let mut pages: Vec<Page> = pages.into_iter().copied().collect();
    pages.sort_by_key(|page| std::cmp::Reverse((rarity(page.gap), page.number)));
    pages
}

fn with_slack(needed_bytes: u64) -> u64 {
    needed_bytes + needed_bytes / 2
}

impl PagePolicy for Slow {
    fn admit(&mut self, key: PageKey, list: ListKey, size_bytes: u64, rows: u32) {
        self.now += 1;
        let name = take(&mut self.names, key);
        let page_count = self.all().count();
        let before = name.and_then(|name| self.earlier_use(name.last, page_count));
        let last = match (name, before) {
            (Some(name), None) => {
                self.followed = Some(self.now);
                name.last
            }
            _ => self.now,
        };
        let (gap, number) = (before.map(|before| self.now - before), mixed(key.source, rows));
        let page = Page { key, list, size_bytes, last, gap, number };
        let held_bytes = bytes(self.all()) + size_bytes;
        self.memory_bytes = self.memory_bytes.map(|memory_bytes| memory_bytes.max(held_bytes));
        if self.try_keep(&page, before) {
            self.kept.push(page);
        } else if self.try_spare(&page, before) {
            self.spare.push(page);
        } else {
            self.passing.push(page);
        }
    }

    fn touch(&mut self, key: PageKey) {
        if self.all().all(|page| page.key != key) {
            return;
        }
        self.now += 1;
        let page_count = self.all().count();
        let Some(before) =
            self.all().find(|page| page.key == key).and_then(|page| self.earlier_use(page.last, page_count))
        else {
            if self.passing.iter().any(|page| page.key == key) {
                self.followed = Some(self.now);
            }
            return;
        };
        let used = |page: Page, now| Page { last: now, gap: Some(now - before), ..page };
        if let Some(page) = take(&mut self.kept, key) {
            self.kept.push(used(page, self.now));
        } else if let Some(page) = take(&mut self.spare, key) {
            match self.try_keep(&page, Some(before)) {
                true => self.kept.push(used(page, self.now)),
                false => self.spare.push(used(page, self.now)),
            }
        } else if let Some(page) = take(&mut self.passing, key).or_else(|| take(&mut self.leaving, key)) {
            if self.try_keep(&page, Some(before)) {
                self.kept.push(used(page, self.now));
            } else if self.try_spare(&page, Some(before)) {
                self.spare.push(used(page, self.now));
            } else {
                self.passing.push(used(page, self.now));
            }
        }
    }

    fn remove(&mut self, key: PageKey) {
        let places = [&mut self.kept, &mut self.spare, &mut self.passing, &mut self.leaving];
        let gone = places.into_iter().find_map(|pages| take(pages, key));
        if self.named == Some(key) {
            self.named = None;
            self.names.extend(gone);
            while self.names.len() > 4 * self.all().count() {
                self.reach_start = self.reach_start.max(self.names.remove(0).last);
            }
        }
    }

    fn victim(&mut self, incoming: Option<ListKey>, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<PageKey> {
        self.memory_bytes = Some(bytes(self.all()));
        while bytes(&self.spare) > self.spare_bytes() {
            let weakest = weakest_first(&self.spare)[0];
            self.leaving.extend(take(&mut self.spare, weakest.key));
        }
        let transient = self.transient();
        let transient_count = transient.len();
        for (at, page) in transient.into_iter().chain(weakest_first(&self.spare)).enumerate() {
            if self.fits_in_list(&page) {
                self.keep_again(page);
            } else if can_go(page.key) {
                if at >= transient_count && incoming.is_some() {
                    self.passing_bytes = self.passing_bytes.max(with_slack(self.transient_bytes() + page.size_bytes));
                }
                self.named = Some(page.key);
                return self.named;
            }
        }
        let full = |list| self.oldest_of(list).is_some_and(|page| !self.fits_in_list(&page));
        let fullness = |list| bytes(self.of(list)) as f64 / self.quotas[&list] as f64;
        let mut lists: Vec<ListKey> = self.quotas.keys().copied().collect();
        lists.sort_by(|a, b| fullness(*b).total_cmp(&fullness(*a)));
        if let Some(own) = incoming.filter(|own| full(*own)) {
            lists.insert(0, own);
        }
        let victim = lists.into_iter().find_map(|list| {
            let mut pages: Vec<Page> = self.of(list).copied().collect();
            pages.reverse();
            if incoming.is_none() {
                pages = weakest_first(self.of(list));
            }
            pages.into_iter().find(|page| can_go(page.key))
        })?;
        if incoming.is_some() {
            self.passing_bytes = self.passing_bytes.max(with_slack(self.transient_bytes() + victim.size_bytes));
        }
        self.named = Some(victim.key);
        self.named
    }

    fn set_quotas(&mut self, quotas: &[(ListKey, u64)]) {
        self.passing_bytes -= self.passing_bytes.div_ceil(256);
        self.quotas = quotas.iter().copied().filter(|quota| quota.1 > 0).collect();
        let lists: std::collections::BTreeSet<ListKey> = self.kept.iter().map(|page| page.list).collect();
        for list in lists {
            while bytes(self.of(list)) > self.limit_bytes(list)
                && let Some(weakest) = weakest_first(self.of(list)).first()
            {
                self.free(weakest.key);
            }
        }
        let mut free = weakest_first(&self.spare);
        free.reverse();
        free.extend(self.passing.iter().rev().chain(self.leaving.iter().rev()).copied());
        for page in free {
            if self.fits_in_list(&page) {
                self.keep_again(page);
            }
        }
    }

    fn held(&self) -> Vec<HeldBytes> {
        let mut held = SlowPages::sums(self.all().map(|page| (page.key, page.list, page.size_bytes)));
        for list in self.quotas.keys() {
            if held.iter().all(|held| held.list != *list) {
                held.push(HeldBytes { list: *list, quota_bytes: 0, kept_bytes: 0, free_list_bytes: 0 });
            }
        }
        held.sort_by_key(|held| held.list);
        for held in &mut held {
            let all_bytes = held.kept_bytes;
            held.quota_bytes = self.quotas.get(&held.list).copied().unwrap_or(0);
            held.kept_bytes = bytes(self.of(held.list));
            held.free_list_bytes = all_bytes - held.kept_bytes;
        }
        held
    }
}

#[test]
fn pages_go_as_the_rules_say() {
    for seed in 0..300 {
        same_answers(seed, &mut Proportional::default(), &mut Slow::default());
    }
}

#[test]
fn pages_that_pass_get_room_when_newcomers_need_it_and_not_when_memory_shrinks() {
    let mut policy = Proportional::default();
    policy.set_quotas(&[(ListKey(0), 40)]);
    (0..50).for_each(|page| policy.admit(PageKey { source: 0, page }, ListKey(0), 1, page));
    let is_kept =
        |page: &PageKey| policy.pages.find(*page).is_some_and(|slot| policy.pages.value(slot).place == Place::Kept);
    let kept: Vec<PageKey> = (0..50).map(|page| PageKey { source: 0, page }).filter(is_kept).collect();
    // The others cannot go.
    assert_eq!(kept.len(), 40);
    assert!(policy.victim(None, &mut |page| kept.contains(&page)).is_some());
    assert_eq!(policy.passing_bytes, 0);
    assert!(policy.victim(Some(ListKey(0)), &mut |page| kept.contains(&page)).is_some());
    assert!(policy.passing_bytes > 0);
}

#[test]
fn pages_that_are_kept_are_not_shown_as_next() {
    let mut policy = Proportional::default();
    policy.set_quotas(&[(ListKey(0), 30)]);
    (0..50).for_each(|page| policy.admit(PageKey { source: 0, page }, ListKey(0), 1, page));
    policy.victim(Some(ListKey(0)), &mut |_| true);
    let mut shown = Vec::new();
    policy.show_next(&mut |page| {
        shown.push(page);
        false
    });
    let place = |page: PageKey| policy.pages.find(page).map(|slot| policy.pages.value(slot).place);
    assert_eq!(shown.len(), 20);
    assert!(shown.iter().all(|page| matches!(place(*page), Some(Place::Leaving | Place::Passing | Place::Spare))));
}

#[test]
fn names_are_bounded() {
    let mut policy = Proportional::default();
    for page in 0..20_000 {
        let page = PageKey { source: 0, page };
        while policy.pages.size_bytes() >= 300 {
            let victim = policy.victim(None, &mut |_| true).unwrap_or(page);
            policy.remove(victim);
        }
        policy.admit(page, ListKey(0), 1, page.page);
    }
    assert!((1100..=1200).contains(&policy.names.page_count()), "{} names", policy.names.page_count());
}
