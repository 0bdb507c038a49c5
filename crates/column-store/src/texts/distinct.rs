//! The distinct texts of a page: each once, and which of them each value is.

use xxhash_rust::xxh3::xxh3_64;

use super::Text;

/// Values after which a column that hardly repeats is given up.
const TRIAL_VALUES: usize = 4096;
/// Slots looked at for each value, on average, after which texts whose hashes collide are given up: random ones need
/// less than two.
const MOST_STEPS: usize = 16;
/// Texts for each eight slots of a table, at most: few enough that looking for one takes few steps, and so many that the
/// most that a full row group's dictionary has are found in no more slots than rows.
const MOST_TEXTS_OF_EIGHT: usize = 5;
const EMPTY: u32 = u32::MAX;

/// Distinct texts in the order in which they were found.
#[derive(Debug)]
pub(crate) struct DistinctTexts<'t> {
    texts: Vec<Text<'t>>,
    places: Vec<u64>,
}

/// Of a text of up to 16 bytes all of it counts, as in wyhash by folded products of both halves; of a longer one another
/// hash.
#[inline]
fn hash(text: &Text<'_>) -> u32 {
    const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
    const SECOND: u64 = 0xe703_7ed1_a0b4_28db;
    let bits = text.whole_head().unwrap_or_else(|| u128::from(xxh3_64(text.bytes())));
    let low = bits as u64 ^ FIRST;
    let high = (bits >> 64) as u64 ^ SECOND ^ (text.len() as u64) << 32;
    let product = u128::from(low) * u128::from(high);
    let folded = product as u64 ^ (product >> 64) as u64;
    (folded ^ folded >> 32) as u32
}

/// A text's hash, and its place or [`EMPTY`]. Eight bytes, so that the table of a page with as many texts as can pay is
/// smaller than what is said of them.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    place: u32,
}

/// An open-addressing table from hashes to places.
struct Table {
    slots: Vec<Slot>,
}

impl Table {
    /// A power of two.
    fn with_slots(slot_count: usize) -> Self {
        Self { slots: vec![Slot { hash: 0, place: EMPTY }; slot_count] }
    }

    /// The index of a text's slot, or of the empty one where it belongs; and how many others were looked at.
    #[inline]
    fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> (usize, usize) {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        let mut steps = 0;
        loop {
            let slot = &self.slots[index];
            if slot.place == EMPTY || (slot.hash == hash && is_it(slot.place)) {
                return (index, steps);
            }
            index = (index + 1) & mask;
            steps += 1;
        }
    }

    fn is_full(&self, text_count: usize) -> bool {
        text_count * 8 > self.slots.len() * MOST_TEXTS_OF_EIGHT
    }

    /// The same in twice the slots.
    fn widened(self) -> Self {
        let mut wider = Self::with_slots(self.slots.len() * 2);
        for slot in self.slots.iter().filter(|slot| slot.place != EMPTY) {
            let (index, _) = wider.find(slot.hash, |_| false);
            wider.slots[index] = *slot;
        }
        wider
    }
}

impl<'t> DistinctTexts<'t> {
    /// `None` if more than `limit` texts are distinct, or, without `persist`, if the first thousands hardly repeat or
    /// hashes collide too often.
    pub(crate) fn of(texts: impl Iterator<Item = Text<'t>>, limit: usize, persist: bool) -> Option<Self> {
        let mut distinct = Self { texts: Vec::new(), places: Vec::with_capacity(texts.size_hint().0) };
        let mut table = Table::with_slots(1024);
        let mut steps_left = TRIAL_VALUES + texts.size_hint().0.saturating_mul(MOST_STEPS);
        for (index, text) in texts.enumerate() {
            let hash = hash(&text);
            let (slot, steps) = table.find(hash, |place| distinct.texts[place as usize] == text);
            steps_left = steps_left.saturating_sub(steps);
            if steps_left == 0 && !persist {
                return None;
            }
            let found = table.slots[slot].place;
            if found != EMPTY {
                distinct.places.push(u64::from(found));
                continue;
            }
            let place = distinct.texts.len();
            let hardly_repeat = index >= TRIAL_VALUES && place > index / 4 * 3;
            if place >= limit || (hardly_repeat && !persist) {
                return None;
            }
            table.slots[slot] = Slot { hash, place: place as u32 };
            distinct.push(text, limit);
            distinct.places.push(place as u64);
            if table.is_full(distinct.texts.len()) {
                table = table.widened();
            }
        }
        Some(distinct)
    }

    /// Adds a text, of which there are never more than `limit`: no room is taken for more.
    fn push(&mut self, text: Text<'t>, limit: usize) {
        let count = self.texts.len();
        if count == self.texts.capacity() {
            let left = limit - count;
            // A last step of a few is not left.
            self.texts.reserve_exact(if left <= count + count / 2 { left } else { count.max(1024) });
        }
        self.texts.push(text);
    }

    /// The texts, each once.
    pub(crate) fn texts(&self) -> &[Text<'t>] {
        &self.texts
    }

    /// For each value what `code` makes of the index of its text.
    pub(crate) fn into_places(mut self, code: impl Fn(u64) -> u64) -> Vec<u64> {
        self.places.iter_mut().for_each(|place| *place = code(*place));
        self.places
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::HashMap;

    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn every_text_is_found_once_in_the_order_of_a_plain_map() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let kinds = *random.pick(&[1, 5, 300, 3000]);
            let owned: Vec<Vec<u8>> = (0..5000)
                .map(|_| {
                    let kind = random.below(kinds);
                    // Lengths around that of a key, and texts that differ in their last byte or their length alone.
                    let mut text = vec![0; kind % 19];
                    if random.one_in(5) {
                        return text;
                    }
                    text.extend_from_slice(&(kind as u16).to_le_bytes()[..if kind < 256 { 1 } else { 2 }]);
                    text
                })
                .collect();
            let texts: Vec<Text<'_>> = owned.iter().map(|bytes| Text::new(bytes)).collect();
            let mut places = HashMap::new();
            let expected: Vec<u64> = owned
                .iter()
                .map(|bytes| {
                    let next = places.len() as u64;
                    *places.entry(bytes).or_insert(next)
                })
                .collect();
            let of = |limit| DistinctTexts::of(texts.iter().copied(), limit, true);
            let distinct = of(texts.len()).unwrap();
            assert_eq!(distinct.texts().len(), places.len(), "seed {seed}");
            for (text, place) in &places {
                assert_eq!(distinct.texts()[*place as usize].bytes(), text.as_slice(), "seed {seed}");
            }
            let twice: Vec<u64> = expected.iter().map(|place| place * 2).collect();
            assert_eq!(distinct.into_places(|place| place * 2), twice, "seed {seed}");
            if places.len() > 1 {
                assert!(of(places.len() - 1).is_none(), "seed {seed}");
            }
        }
    }

    #[test]
    fn texts_that_hardly_repeat_are_given_up_unless_asked_for() {
        let owned: Vec<String> = (0..20_000).map(|index| format!("a text of its own, {index}")).collect();
        let texts: Vec<Text<'_>> = owned.iter().map(|text| Text::new(text.as_bytes())).collect();
        let of = |persist| DistinctTexts::of(texts.iter().copied(), texts.len(), persist);
        assert!(of(false).is_none());
        assert_eq!(of(true).unwrap().texts().len(), 20_000);
    }
}
