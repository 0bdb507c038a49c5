//! Which parts of a range of addresses are free.
//!
//! **Owns**: free extents by place and by size. **Does not own**: the memory, what is taken, alignment: every number
//! that goes in is a multiple of the caller's unit, and so is every one that comes out.
//!
//! **Invariants**: extents are not empty, don't overlap and don't touch: neighbours become one. Best fit: the smallest
//! extent that suffices, of equal ones the one at the lowest address, so that the same memory is used again and the
//! rest stays whole. All calls are O(log n).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A set of free extents, in bytes from the start of the range.
#[derive(Debug, Default)]
pub(crate) struct FreeExtents {
    /// Offset to size.
    by_offset: BTreeMap<u64, u64>,
    /// Size, then offset.
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeExtents {
    /// Adds what is not free yet.
    pub(crate) fn insert(&mut self, offset: u64, size_bytes: u64) {
        if size_bytes == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + size_bytes);
        if let Some((&before, &before_bytes)) = self.by_offset.range(..offset).next_back() {
            debug_assert!(before + before_bytes <= offset, "{before}+{before_bytes} is free, so is {offset}");
            if before + before_bytes == offset {
                self.forget(before, before_bytes);
                start = before;
            }
        }
        if let Some((&after, &after_bytes)) = self.by_offset.range(offset..).next() {
            debug_assert!(end <= after, "{after} is free, so is {offset}+{size_bytes}");
            if after == end {
                self.forget(after, after_bytes);
                end += after_bytes;
            }
        }
        self.note(start, end - start);
    }

    /// Takes `size_bytes`, which is not 0, by best fit; returns where.
    pub(crate) fn take(&mut self, size_bytes: u64) -> Option<u64> {
        let &(found_bytes, offset) = self.by_size.range((size_bytes, 0)..).next()?;
        self.forget(offset, found_bytes);
        if found_bytes > size_bytes {
            self.note(offset + size_bytes, found_bytes - size_bytes);
        }
        Some(offset)
    }

    /// The size of the largest; 0 if there is none.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.by_size.last().map_or(0, |&(size_bytes, _)| size_bytes)
    }

    /// The largest, the largest first.
    pub(crate) fn largest(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.by_size.iter().rev().map(|&(size_bytes, offset)| offset..offset + size_bytes)
    }

    /// The range that would be free around `part`, which is not free, if it were.
    pub(crate) fn around(&self, part: Range<u64>) -> Range<u64> {
        let before =
            self.by_offset.range(..part.start).next_back().filter(|&(start, bytes)| start + bytes == part.start);
        let start = before.map_or(part.start, |(&start, _)| start);
        let end = part.end + self.by_offset.get(&part.end).copied().unwrap_or(0);
        start..end
    }

    /// Takes this range, all of which is free; false, and nothing is changed, if it is not.
    pub(crate) fn take_range(&mut self, offset: u64, size_bytes: u64) -> bool {
        let end = offset + size_bytes;
        let Some((&start, &found_bytes)) = self.by_offset.range(..=offset).next_back() else { return false };
        if start + found_bytes < end {
            return false;
        }
        self.forget(start, found_bytes);
        self.note(start, offset - start);
        self.note(end, start + found_bytes - end);
        true
    }

    fn note(&mut self, offset: u64, size_bytes: u64) {
        if size_bytes > 0 {
            self.by_offset.insert(offset, size_bytes);
            self.by_size.insert((size_bytes, offset));
        }
    }

    fn forget(&mut self, offset: u64, size_bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size_bytes, offset));
    }
}

#[cfg(test)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    /// The obvious way: a flag for each unit.
    struct Units(Vec<bool>);

    impl Units {
        fn extents(&self) -> Vec<(u64, u64)> {
            let mut extents: Vec<(u64, u64)> = Vec::new();
            for (index, _) in self.0.iter().enumerate().filter(|&(_, &is_free)| is_free) {
                let index = index as u64;
                match extents.last_mut() {
                    Some((start, count)) if *start + *count == index => *count += 1,
                    _ => extents.push((index, 1)),
                }
            }
            extents
        }

        fn set(&mut self, offset: u64, count: u64, is_free: bool) {
            self.0[offset as usize..(offset + count) as usize].fill(is_free);
        }
    }

    #[test]
    fn random_takes_and_returns_agree_with_a_flag_for_each_unit() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut extents, mut units) = (FreeExtents::default(), Units(vec![false; 64]));
            let mut taken: Vec<(u64, u64)> = vec![(0, 64)];
            for _ in 0..300 {
                let size = 1 + random.below(9) as u64;
                match random.below(3) {
                    0 => {
                        let expected = units
                            .extents()
                            .into_iter()
                            .filter(|&(_, count)| count >= size)
                            .min_by_key(|&(offset, count)| (count, offset))
                            .map(|(offset, _)| offset);
                        assert_eq!(extents.take(size), expected, "seed {seed}");
                        if let Some(offset) = expected {
                            units.set(offset, size, false);
                            taken.push((offset, size));
                        }
                    }
                    1 => {
                        let offset = random.below(64 - size as usize) as u64;
                        let expected =
                            units.0[offset as usize..(offset + size) as usize].iter().all(|&is_free| is_free);
                        assert_eq!(extents.take_range(offset, size), expected, "seed {seed}");
                        if expected {
                            units.set(offset, size, false);
                            taken.push((offset, size));
                        }
                    }
                    _ if taken.is_empty() => {}
                    _ => {
                        let (offset, count) = taken.swap_remove(random.below(taken.len()));
                        let kept = random.below(count as usize + 1) as u64;
                        extents.insert(offset + kept, count - kept);
                        units.set(offset + kept, count - kept, true);
                        if kept > 0 {
                            taken.push((offset, kept));
                        }
                    }
                }
                assert_eq!(extents.largest_bytes(), units.extents().iter().map(|&(_, count)| count).max().unwrap_or(0));
                for &(offset, count) in taken.iter().filter(|&&(_, count)| count > 0) {
                    let mut freed = Units(units.0.clone());
                    freed.set(offset, count, true);
                    let mut around = freed.extents().into_iter().map(|(start, count)| start..start + count);
                    let around = around.find(|extent| extent.contains(&offset));
                    assert_eq!(Some(extents.around(offset..offset + count)), around, "seed {seed}");
                }
                let found: Vec<(u64, u64)> = extents.by_offset.iter().map(|(&offset, &size)| (offset, size)).collect();
                assert_eq!(found, units.extents(), "seed {seed}");
                let mut by_size: Vec<(u64, u64)> = found.iter().map(|&(offset, size)| (size, offset)).collect();
                by_size.sort_unstable();
                assert!(extents.by_size.iter().eq(by_size.iter()), "seed {seed}");
            }
        }
    }
}
