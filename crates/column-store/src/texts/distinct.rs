//! The distinct texts of a page: each once, and which of them each value is.

use xxhash_rust::xxh3::xxh3_64;

/// Values after which a column that hardly repeats is given up.
const TRIAL_VALUES: usize = 4096;
const EMPTY: u32 = u32::MAX;

/// Distinct texts in the order in which they were found.
#[derive(Debug)]
pub(crate) struct DistinctTexts<'t> {
    texts: Vec<&'t [u8]>,
    places: Vec<u32>,
}

/// An open-addressing table from a text's hash to its place.
struct Table {
    /// High half of the hash, and place.
    slots: Vec<(u32, u32)>,
}

impl Table {
    fn with_slots(slot_count: usize) -> Self {
        Self { slots: vec![(0, EMPTY); slot_count] }
    }

    /// The slot of a text, or the empty one where it belongs.
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let (high, place) = self.slots[slot];
            if place == EMPTY || (high == (hash >> 32) as u32 && is_it(place)) {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }
}

impl<'t> DistinctTexts<'t> {
    /// `None` if more than `limit` texts are distinct, or if the first thousands hardly repeat.
    pub(crate) fn of(texts: &[&'t [u8]], limit: usize) -> Option<Self> {
        let mut distinct = Self { texts: Vec::new(), places: Vec::with_capacity(texts.len()) };
        let mut table = Table::with_slots(1024);
        for (index, text) in texts.iter().enumerate() {
            // Neighbours are often equal.
            if index > 0 && *text == texts[index - 1] {
                distinct.places.push(distinct.places[index - 1]);
                continue;
            }
            let hash = xxh3_64(text);
            let slot = table.slot(hash, |place| distinct.texts[place as usize] == *text);
            if table.slots[slot].1 != EMPTY {
                distinct.places.push(table.slots[slot].1);
                continue;
            }
            let place = distinct.texts.len();
            if place >= limit || (index >= TRIAL_VALUES && place > index / 4 * 3) {
                return None;
            }
            table.slots[slot] = ((hash >> 32) as u32, place as u32);
            distinct.texts.push(text);
            distinct.places.push(place as u32);
            if distinct.texts.len() * 2 > table.slots.len() {
                let mut wider = Table::with_slots(table.slots.len() * 4);
                for (place, text) in distinct.texts.iter().enumerate() {
                    let hash = xxh3_64(text);
                    let slot = wider.slot(hash, |_| false);
                    wider.slots[slot] = ((hash >> 32) as u32, place as u32);
                }
                table = wider;
            }
        }
        Some(distinct)
    }

    /// The texts, each once.
    pub(crate) fn texts(&self) -> &[&'t [u8]] {
        &self.texts
    }

    /// For each value the index of its text.
    pub(crate) fn places(&self) -> &[u32] {
        &self.places
    }
}
