//! The texts of a page, sorted, so that their codes are ordered as they are: its dictionary, or one that is made. Where
//! nobody asks for their order, they may be listed as they come.
//!
//! **Concurrency**: plain values and views.

use std::collections::HashMap;
use std::ops::Bound;
use std::str::Utf8Error;
use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{Array, ArrayAccessor, ArrayRef, AsArray, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_column_store::Dictionary;
use thermocline_predicate::{Domain, Interval, Scalar};

use crate::membership::Membership;

/// The texts of a page, sorted but for listed ones.
#[derive(Debug)]
pub(super) enum PageTexts<'p> {
    Dictionary(Dictionary<'p>),
    /// Of a page without a dictionary.
    Made(Vec<Vec<u8>>),
    /// In any order, some more than once, with NULLs among them.
    Listed(ArrayRef),
}

impl PageTexts<'_> {
    pub(super) fn entry_count(&self) -> usize {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry_count(),
            Self::Made(texts) => texts.len(),
            Self::Listed(texts) => texts.len(),
        }
    }

    /// The bytes of a code's text; of a NULL any.
    pub(super) fn entry(&self, code: usize) -> Option<&[u8]> {
        match self {
            Self::Dictionary(dictionary) => dictionary.entry(code),
            Self::Made(texts) => texts.get(code).map(Vec::as_slice),
            Self::Listed(texts) => listed(texts, code).map(str::as_bytes),
        }
    }

    /// The text of a code, empty for one that there is not; of a NULL any.
    ///
    /// # Errors
    /// For bytes that are no UTF-8.
    pub(super) fn text(&self, code: usize) -> Result<&str, Utf8Error> {
        match self {
            Self::Listed(texts) => Ok(listed(texts, code).unwrap_or_default()),
            _ => std::str::from_utf8(self.entry(code).unwrap_or_default()),
        }
    }

    /// The codes of the texts that are in a domain.
    pub(super) fn set_of(&self, domain: &Domain) -> Membership {
        match self {
            Self::Dictionary(dictionary) => {
                Membership::of_codes(domain, dictionary.entry_count(), |text| dictionary.code_of(text))
            }
            Self::Made(texts) => Membership::of_codes(domain, texts.len(), |text| {
                texts.binary_search_by(|entry| entry.as_slice().cmp(text))
            }),
            Self::Listed(texts) => {
                let beginnings = Beginnings::of(domain);
                let is_in =
                    |text: &str| beginnings.decide(text.as_bytes()).unwrap_or_else(|| domain.contains_str(text));
                match texts.data_type() {
                    DataType::Utf8 => places(texts.as_string::<i32>(), is_in),
                    DataType::LargeUtf8 => places(texts.as_string::<i64>(), is_in),
                    DataType::Utf8View => places(texts.as_string_view(), is_in),
                    // Only these are listed.
                    _ => Membership::Never,
                }
            }
        }
    }

    /// All of them by their codes.
    ///
    /// # Errors
    /// What is no UTF-8, and texts of 2 GiB together.
    pub(super) fn array(&self) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Listed(texts) => Ok(Arc::clone(texts)),
            _ => array_of((0..self.entry_count()).map(|code| self.entry(code).unwrap_or_default())),
        }
    }
}

/// The text in a place of an array.
fn listed(texts: &ArrayRef, place: usize) -> Option<&str> {
    if place >= texts.len() {
        return None;
    }
    match texts.data_type() {
        DataType::Utf8 => Some(texts.as_string::<i32>().value(place)),
        DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(place)),
        DataType::Utf8View => Some(texts.as_string_view().value(place)),
        // Only these are listed.
        _ => None,
    }
}

/// The places of the texts that a test finds.
fn places<'t>(texts: impl ArrayAccessor<Item = &'t str>, test: impl Fn(&str) -> bool) -> Membership {
    Membership::of_places(texts.len(), |place| test(texts.value(place)))
}

/// The first eight bytes of a domain's bounds, which mostly tell where a text is.
struct Beginnings(Vec<(u64, u64)>);

/// The first eight bytes of a text as a number that is ordered as they are; there are zeros behind its end.
pub(super) fn beginning(text: &[u8]) -> u64 {
    if let Some(first) = text.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let missing = 8 * (8 - text.len() as u32);
    match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // These overlap.
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << missing
        }
        _ => text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)).checked_shl(missing).unwrap_or(0),
    }
}

impl Beginnings {
    fn of(domain: &Domain) -> Self {
        let key = |bound: &Bound<Scalar>, unbounded: u64| match bound {
            Bound::Included(Scalar::Utf8(text)) | Bound::Excluded(Scalar::Utf8(text)) => beginning(text.as_bytes()),
            _ => unbounded,
        };
        let ends = |interval: &Interval| (key(&interval.low, 0), key(&interval.high, u64::MAX));
        Self(domain.intervals().iter().map(ends).collect())
    }

    /// Whether a text is in the domain, where that is certain by its first bytes.
    fn decide(&self, text: &[u8]) -> Option<bool> {
        let key = beginning(text);
        // Of a few, to count takes no longer than to search, and no branch is guessed wrong.
        let next = match self.0.len() {
            0..=16 => self.0.iter().filter(|(_, high)| *high < key).count(),
            _ => self.0.partition_point(|(_, high)| *high < key),
        };
        match self.0.get(next) {
            Some((low, high)) if *low < key && key < *high => Some(true),
            Some((low, high)) if key == *low || key == *high => None,
            _ => Some(false),
        }
    }
}

/// Texts, which are checked to be some, one behind the other.
pub(super) fn array_of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Result<ArrayRef, ArrowError> {
    let mut bytes = Vec::new();
    let mut starts = vec![0i32];
    for text in texts {
        bytes.extend_from_slice(text);
        let end = i32::try_from(bytes.len()).map_err(|_| ArrowError::OffsetOverflowError(bytes.len()))?;
        starts.push(end);
    }
    Ok(Arc::new(StringArray::try_new(OffsetBuffer::new(starts.into()), Buffer::from_vec(bytes), None)?))
}

/// Texts on the way to codes.
#[derive(Default)]
pub(super) struct TextCoding {
    /// The number of each text, in the order of their first occurrence.
    numbers: HashMap<Vec<u8>, u32, RandomState>,
    codes: Vec<u32>,
}

impl TextCoding {
    /// The number of a text for [`TextCoding::push_number`].
    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        let next = self.numbers.len() as u32;
        match self.numbers.get(text) {
            Some(number) => *number,
            None => *self.numbers.entry(text.to_vec()).or_insert(next),
        }
    }

    pub(super) fn push_number(&mut self, number: u32) {
        self.codes.push(number);
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        let number = self.number(text);
        self.push_number(number);
    }

    /// The code of each text, and the texts.
    pub(super) fn finish<'p>(mut self) -> (Vec<u32>, PageTexts<'p>) {
        let mut texts: Vec<(Vec<u8>, u32)> = self.numbers.into_iter().collect();
        texts.sort_unstable();
        let mut sorted = vec![0; texts.len()];
        for (place, (_, number)) in texts.iter().enumerate() {
            sorted[*number as usize] = place as u32;
        }
        for code in &mut self.codes {
            *code = sorted[*code as usize];
        }
        (self.codes, PageTexts::Made(texts.into_iter().map(|(text, _)| text).collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::StringViewArray;
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn listed_texts_are_in_a_domain_as_each_of_them_is() {
        for length in 0..12 {
            let text: Vec<u8> = (0..length).map(|at| 200 + at).collect();
            let mut filled = [0; 8];
            filled.iter_mut().zip(&text).for_each(|(to, from)| *to = *from);
            assert_eq!(beginning(&text), u64::from_be_bytes(filled), "{length} bytes");
        }
        let letters = ["", "\0", "a", "b", "é", "sixteen letters.", "\u{10ffff}"];
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let text = |random: &mut Random| (0..random.below(4)).map(|_| *random.pick(&letters)).collect::<String>();
            let texts: Vec<String> = (0..200).map(|_| text(&mut random)).collect();
            let mut domain = Domain::none();
            for _ in 0..random.below(5) {
                let (one, other) = (text(&mut random), text(&mut random));
                let (low, high) = if one < other { (one, other) } else { (other, one) };
                domain = domain.union(&match random.below(5) {
                    0 => Domain::prefix(&low),
                    1 => Domain::point(Scalar::from(low.as_str())),
                    2 => Domain::interval(Bound::Unbounded, Bound::Excluded(Scalar::from(low.as_str()))),
                    3 => Domain::interval(Bound::Excluded(Scalar::from(high.as_str())), Bound::Unbounded),
                    _ => Domain::interval(
                        Bound::Excluded(Scalar::from(low.as_str())),
                        Bound::Included(Scalar::from(high.as_str())),
                    ),
                });
            }
            let listed = PageTexts::Listed(Arc::new(StringViewArray::from_iter_values(&texts)));
            let set = listed.set_of(&domain);
            for (code, text) in texts.iter().enumerate() {
                assert_eq!(set.contains(code as i64), domain.contains_str(text), "seed {seed}: {text:?} in {domain:?}");
            }
        }
    }
}
