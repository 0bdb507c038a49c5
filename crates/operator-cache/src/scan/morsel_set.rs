//! A set of morsel numbers.

/// Bits by number; numbers are dense, so a bit each is little.
#[derive(Debug, Clone, Default)]
pub(crate) struct MorselSet {
    words: Vec<u64>,
    count: u64,
}

impl MorselSet {
    /// False if it was there already.
    pub(crate) fn insert(&mut self, index: usize) -> bool {
        let word = index / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let bit = 1 << (index % 64);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// False if it was not there.
    pub(crate) fn remove(&mut self, index: usize) -> bool {
        let was_there = self.contains(index);
        if was_there {
            self.words[index / 64] &= !(1 << (index % 64));
            self.count -= 1;
        }
        was_there
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// How many are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
