//! Pages by key, in chains from the newest to the oldest.
//!
//! **Owns**: a slab of pages, the key of each, and the links of doubly linked chains through it, so that moving a page
//! in an order costs no allocation. **Does not own** what an order means: policies do.
//!
//! **Invariants**: a page is in one chain at most; a chain's bytes are the sum of its pages'; `list_bytes` has no entry
//! for a list whose last page with bytes has gone.

use std::collections::{BTreeMap, HashMap};

use super::{HeldBytes, ListKey, PageKey};

/// A page's place in the slab. Valid until the page is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Slot(u32);

impl Slot {
    /// Before all others in their order, which has no meaning.
    pub(super) const LEAST: Self = Self(0);
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Entry<T> {
    key: PageKey,
    list: ListKey,
    size_bytes: u64,
    newer: u32,
    older: u32,
    value: T,
}

/// The ends of one order of pages.
#[derive(Debug)]
pub(super) struct Chain {
    newest: u32,
    oldest: u32,
    size_bytes: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, size_bytes: 0 }
    }
}

impl Chain {
    /// Of all its pages together.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its first page, if it has any.
    pub(super) fn newest(&self) -> Option<Slot> {
        (self.newest != NONE).then_some(Slot(self.newest))
    }

    /// Its last page, if it has any.
    pub(super) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(Slot(self.oldest))
    }
}

/// Pages with a value of type `T` each.
#[derive(Debug)]
pub(super) struct PageTable<T> {
    entries: Vec<Entry<T>>,
    vacant: Vec<u32>,
    slots: HashMap<PageKey, u32>,
    list_bytes: BTreeMap<ListKey, u64>,
    size_bytes: u64,
}

impl<T> Default for PageTable<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
            slots: HashMap::new(),
            list_bytes: BTreeMap::new(),
            size_bytes: 0,
        }
    }
}

impl<T: Copy> PageTable<T> {
    /// How many pages there are.
    pub(super) fn page_count(&self) -> usize {
        self.slots.len()
    }

    /// Of all pages together.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of each list that has pages.
    pub(super) fn list_bytes(&self) -> &BTreeMap<ListKey, u64> {
        &self.list_bytes
    }

    /// All pages as kept ones, for policies without quotas.
    pub(super) fn all_kept(&self) -> Vec<HeldBytes> {
        let kept = |(&list, &kept_bytes)| HeldBytes { list, quota_bytes: 0, kept_bytes, free_list_bytes: 0 };
        self.list_bytes.iter().map(kept).collect()
    }

    pub(super) fn find(&self, key: PageKey) -> Option<Slot> {
        self.slots.get(&key).copied().map(Slot)
    }

    /// Takes in a page that is not there, in no chain yet.
    pub(super) fn insert(&mut self, key: PageKey, list: ListKey, size_bytes: u64, value: T) -> Slot {
        let entry = Entry { key, list, size_bytes, newer: NONE, older: NONE, value };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 - 1 pages are in memory")
            }
        };
        let before = self.slots.insert(key, slot);
        debug_assert!(before.is_none(), "{key:?} is there already");
        *self.list_bytes.entry(list).or_default() += size_bytes;
        self.size_bytes += size_bytes;
        Slot(slot)
    }

    /// Forgets a page that is in no chain any more.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Entry { key, list, size_bytes, .. } = *self.entry(slot);
        self.slots.remove(&key);
        self.vacant.push(slot.0);
        self.size_bytes -= size_bytes;
        if let Some(bytes) = self.list_bytes.get_mut(&list) {
            *bytes -= size_bytes;
            if *bytes == 0 {
                self.list_bytes.remove(&list);
            }
        }
    }

    pub(super) fn key(&self, slot: Slot) -> PageKey {
        self.entry(slot).key
    }

    pub(super) fn list(&self, slot: Slot) -> ListKey {
        self.entry(slot).list
    }

    pub(super) fn page_bytes(&self, slot: Slot) -> u64 {
        self.entry(slot).size_bytes
    }

    pub(super) fn value(&self, slot: Slot) -> T {
        self.entry(slot).value
    }

    pub(super) fn set_value(&mut self, slot: Slot, value: T) {
        self.entries[slot.0 as usize].value = value;
    }

    /// Puts a page that is in no chain at the newest end of one.
    pub(super) fn push_newest(&mut self, chain: &mut Chain, slot: Slot) {
        let entry = &mut self.entries[slot.0 as usize];
        (entry.newer, entry.older) = (NONE, chain.newest);
        chain.size_bytes += entry.size_bytes;
        match chain.newest {
            NONE => chain.oldest = slot.0,
            newest => self.entries[newest as usize].newer = slot.0,
        }
        chain.newest = slot.0;
    }

    /// Takes a page out of the chain that it is in.
    pub(super) fn unlink(&mut self, chain: &mut Chain, slot: Slot) {
        let Entry { newer, older, size_bytes, .. } = *self.entry(slot);
        match newer {
            NONE => chain.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => chain.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        chain.size_bytes -= size_bytes;
    }

    /// The next newer page of the same chain.
    pub(super) fn newer(&self, slot: Slot) -> Option<Slot> {
        let newer = self.entry(slot).newer;
        (newer != NONE).then_some(Slot(newer))
    }

    /// The next older page of the same chain.
    pub(super) fn older(&self, slot: Slot) -> Option<Slot> {
        let older = self.entry(slot).older;
        (older != NONE).then_some(Slot(older))
    }

    /// The first page of a chain, from its oldest, that can go.
    pub(super) fn oldest_that_can_go(&self, chain: &Chain, can_go: &mut dyn FnMut(PageKey) -> bool) -> Option<Slot> {
        std::iter::successors(chain.oldest(), |at| self.newer(*at)).find(|slot| can_go(self.key(*slot)))
    }

    /// From the newest page of a chain to the oldest.
    pub(super) fn newest_first<'a>(&'a self, chain: &Chain) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(chain.newest(), |at| self.older(*at))
    }

    fn entry(&self, slot: Slot) -> &Entry<T> {
        &self.entries[slot.0 as usize]
    }
}
