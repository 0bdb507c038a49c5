//! From pages to frames, and the order of the frames in memory.
//!
//! **Invariants**: a frame is found by its page if and only if it is found by where it lies.
//!
//! **Concurrency**: under the pool's lock. A frame whose only owner is the table can get another one only by a look-up,
//! so that under the lock a count of one owner can be trusted.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use thermocline_placement::page_cache::PageKey;

use crate::frame::Frame;

/// Hashes numbers that count up: a multiplication spreads them well enough, and nobody chooses them to do harm.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 divided by the golden ratio; then the lower half, which tables look at too, gets what the upper one has.
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A map whose keys are numbers.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    /// By source, then by page.
    sources: Numbered<u32, Numbered<u32, Arc<Frame>>>,
    by_offset: BTreeMap<u64, PageKey>,
}

impl FrameTable {
    pub(crate) fn add_source(&mut self, source: u32) {
        self.sources.insert(source, Numbered::default());
    }

    /// Forgets a source without frames.
    pub(crate) fn remove_source(&mut self, source: u32) {
        let table = self.sources.remove(&source);
        debug_assert!(table.is_none_or(|table| table.is_empty()), "source {source} has frames");
    }

    pub(crate) fn keys_of(&self, source: u32) -> Vec<PageKey> {
        let pages = self.sources.get(&source).into_iter().flat_map(|table| table.keys());
        pages.map(|&page| PageKey { source, page }).collect()
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.by_offset.len() as u64
    }

    pub(crate) fn get(&self, key: PageKey) -> Option<&Arc<Frame>> {
        self.sources.get(&key.source)?.get(&key.page)
    }

    /// Whether the page has a frame that nobody but the table owns.
    pub(crate) fn is_unused(&self, key: PageKey) -> bool {
        self.get(key).is_some_and(|frame| Arc::strong_count(frame) == 1)
    }

    /// Adds a frame of the arena whose page has none; false if its source is not there.
    pub(crate) fn insert(&mut self, frame: &Arc<Frame>) -> bool {
        let key = frame.key();
        let (Some(offset), Some(table)) = (frame.offset(), self.sources.get_mut(&key.source)) else { return false };
        let before = table.insert(key.page, Arc::clone(frame));
        debug_assert!(before.is_none(), "{key:?} has a frame already");
        self.by_offset.insert(offset, key);
        true
    }

    pub(crate) fn remove(&mut self, key: PageKey) -> Option<Arc<Frame>> {
        let frame = self.sources.get_mut(&key.source)?.remove(&key.page)?;
        if let Some(offset) = frame.offset() {
            self.by_offset.remove(&offset);
        }
        Some(frame)
    }

    /// All frames in the order in which they lie in memory.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Arc<Frame>> {
        self.by_offset.values().filter_map(|&key| self.get(key))
    }

    /// The part of memory that a page's frame takes.
    pub(crate) fn part_of(&self, key: PageKey) -> Option<Range<u64>> {
        let frame = self.get(key)?;
        frame.offset().map(|offset| offset..offset + frame.held_bytes())
    }

    /// The page whose frame ends where a part of memory begins, and that whose frame begins where it ends.
    pub(crate) fn beside(&self, part: &Range<u64>) -> [Option<PageKey>; 2] {
        let before = self.by_offset.range(..part.start).next_back().map(|(_, &key)| key);
        let before = before.filter(|&key| self.part_of(key).is_some_and(|frame| frame.end == part.start));
        [before, self.by_offset.get(&part.end).copied()]
    }

    /// The pages whose frames lie in a part of memory, if only with a part of theirs.
    pub(crate) fn keys_in(&self, part: &Range<u64>) -> Vec<PageKey> {
        let before = self.by_offset.range(..part.start).next_back();
        let before = before.filter(|&(_, &key)| self.part_of(key).is_some_and(|frame| frame.end > part.start));
        before.into_iter().chain(self.by_offset.range(part.clone())).map(|(_, &key)| key).collect()
    }

    /// How many bytes of a part of memory would be free without the frames there, if nobody owns one of these.
    pub(crate) fn unused_bytes(&self, part: &Range<u64>) -> Option<u64> {
        self.keys_in(part).into_iter().try_fold(0, |bytes, key| {
            let frame = self.part_of(key).filter(|_| self.is_unused(key))?;
            Some(bytes + frame.end.min(part.end) - frame.start.max(part.start))
        })
    }

    /// Bytes of all frames that nobody else owns. Looks at each frame.
    pub(crate) fn all_unused_bytes(&self) -> u64 {
        self.in_order().filter(|frame| Arc::strong_count(frame) == 1).map(|frame| frame.held_bytes()).sum()
    }
}
