//! Tuples of words, numbered in the order of their first mention: what hashing is for where arrays would be too large.
//!
//! **Invariants**: a tuple has one number, and a number one tuple. **Concurrency**: plain values.

use crate::hash::mix;

/// A free place of the table.
const FREE: u32 = u32::MAX;
/// Places of an empty table.
const FIRST_PLACES: usize = 1024;
/// Times as many places as before there are when more than half of them are taken.
const GROWTH: usize = 4;

/// Distinct tuples of `width` words each, fewer than 2^32, in a table with open addressing.
#[derive(Debug)]
pub(crate) struct Tuples {
    width: usize,
    count: usize,
    words: Vec<i64>,
    places: Vec<u32>,
}

impl Tuples {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, count: 0, words: Vec::new(), places: vec![FREE; FIRST_PLACES] }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.words.capacity() * 8 + self.places.len() * 4
    }

    /// Most bytes that it takes while so many more tuples are added: the old places are there until all are in the new
    /// ones.
    pub(crate) fn size_bytes_with(&self, more: usize) -> usize {
        let count = self.count + more;
        let words =
            if count * self.width > self.words.capacity() { 2 * count * self.width } else { self.words.capacity() };
        let mut place_count = self.places.len();
        while count * 2 > place_count {
            place_count *= GROWTH;
        }
        let old_count = if place_count > self.places.len() { place_count / GROWTH } else { 0 };
        words * 8 + (place_count + old_count) * 4
    }

    /// The words of a tuple.
    pub(crate) fn get(&self, number: u32) -> &[i64] {
        &self.words[number as usize * self.width..][..self.width]
    }

    /// The number of a tuple that is there.
    #[inline]
    pub(crate) fn find(&self, tuple: &[i64]) -> Option<u32> {
        self.search(tuple).ok()
    }

    /// The number of a tuple, which is added if it is new.
    #[inline]
    pub(crate) fn number(&mut self, tuple: &[i64]) -> u32 {
        match self.search(tuple) {
            Ok(number) => number,
            Err(place) => {
                let number = self.count as u32;
                self.places[place] = number;
                self.words.extend_from_slice(tuple);
                self.count += 1;
                if self.count * 2 > self.places.len() {
                    self.grow();
                }
                number
            }
        }
    }

    /// The number of a tuple, or else the free place where it belongs. Half of the places are free, so that every
    /// search ends.
    #[inline(always)]
    fn search(&self, tuple: &[i64]) -> Result<u32, usize> {
        let mut place = self.start(tuple);
        loop {
            let number = self.places[place];
            if number == FREE {
                return Err(place);
            }
            if *self.get(number) == *tuple {
                return Ok(number);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    #[inline(always)]
    fn start(&self, tuple: &[i64]) -> usize {
        let hash = tuple.iter().fold(0x243f_6a88_85a3_08d3, |hash, word| mix(hash ^ *word as u64));
        hash as usize & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        self.places = vec![FREE; self.places.len() * GROWTH];
        for number in 0..self.count as u32 {
            let mut place = self.start(self.get(number));
            while self.places[place] != FREE {
                place = (place + 1) & (self.places.len() - 1);
            }
            self.places[place] = number;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use thermocline_seeded::Random;

    #[test]
    fn a_tuple_keeps_its_number_however_many_come() {
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let width = random.below(4);
            let mut tuples = Tuples::new(width);
            let mut seen: BTreeMap<Vec<i64>, u32> = BTreeMap::new();
            let mut room = (0, 0);
            for at in 0..5000 {
                if at % 500 == 0 {
                    room = (tuples.size_bytes_with(500), tuples.places.len());
                }
                let tuple: Vec<i64> = (0..width).map(|_| (random.below(40) as i64 - 20) << 40).collect();
                assert_eq!(tuples.find(&tuple), seen.get(&tuple).copied(), "seed {seed}");
                let next = seen.len() as u32;
                let number = *seen.entry(tuple.clone()).or_insert(next);
                assert_eq!(tuples.number(&tuple), number, "seed {seed}");
                assert_eq!(tuples.get(number), tuple, "seed {seed}");
                // While places are filled anew, the old ones are there too.
                let old_bytes = if tuples.places.len() > room.1 { tuples.places.len() / GROWTH * 4 } else { 0 };
                assert!(tuples.size_bytes() + old_bytes <= room.0, "seed {seed}");
            }
            assert_eq!(tuples.count(), seen.len());
        }
    }
}
