//! A text beside its first bytes as a number, by which most comparisons are decided without a look at the bytes.

use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of a head.
const HEAD_BYTES: usize = size_of::<u128>();

/// A text, or other bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'t> {
    bytes: &'t [u8],
    /// The first 16 bytes, the first one lowest; zeros behind the end. Texts of up to 16 bytes are equal if their heads
    /// and lengths are.
    head: u128,
}

impl<'t> Text<'t> {
    pub(crate) fn new(bytes: &'t [u8]) -> Self {
        let head = match bytes.first_chunk() {
            Some(first) => u128::from_le_bytes(*first),
            None => bytes.iter().rev().fold(0, |head, byte| head << 8 | u128::from(*byte)),
        };
        Self { bytes, head }
    }

    /// A part of `buffer`. Where more bytes follow, this takes no branch for the length.
    #[inline]
    pub(crate) fn within(buffer: &'t [u8], place: Range<usize>) -> Self {
        let start = place.start;
        let bytes = &buffer[place];
        match buffer.get(start..start + HEAD_BYTES).and_then(<[u8]>::first_chunk) {
            Some(first) => Self { bytes, head: u128::from_le_bytes(*first) & head_mask(bytes.len()) },
            None => Self::new(bytes),
        }
    }

    /// A text of which `head` has the first bytes, all of them if there are no more than 16, and anything behind them.
    #[inline]
    pub(crate) fn with_head(bytes: &'t [u8], head: u128) -> Self {
        Self { bytes, head: head & head_mask(bytes.len()) }
    }

    /// The least and the greatest of some texts; empty ones of none.
    pub(crate) fn bounds(mut texts: impl Iterator<Item = Self>) -> (Self, Self) {
        let first = texts.next().unwrap_or_else(|| Self::new(&[]));
        let (mut least, mut greatest) = (first, first);
        for text in texts {
            // Most texts are neither, which their heads say.
            if text.order() <= least.order() {
                least = least.min(text);
            }
            if text.order() >= greatest.order() {
                greatest = greatest.max(text);
            }
        }
        (least, greatest)
    }

    /// Rises with the texts; equal for those that differ behind their heads, or in how many zeros they end with.
    #[inline]
    fn order(&self) -> u128 {
        // The first byte decides first.
        self.head.swap_bytes()
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &'t [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The head, if it and the length are the whole text.
    #[inline]
    pub(crate) fn whole_head(&self) -> Option<u128> {
        (self.bytes.len() <= HEAD_BYTES).then_some(self.head)
    }
}

/// The bits of a head that belong to a text of this length.
#[inline]
fn head_mask(length: usize) -> u128 {
    if length >= HEAD_BYTES { u128::MAX } else { (1 << (8 * length)) - 1 }
}

impl PartialEq for Text<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
            && self.len() == other.len()
            && (self.len() <= HEAD_BYTES || self.bytes[HEAD_BYTES..] == other.bytes[HEAD_BYTES..])
    }
}

impl Eq for Text<'_> {}

impl Ord for Text<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Zeros behind an end may be equal to zeros of a longer text: then the bytes decide.
        self.order().cmp(&other.order()).then_with(|| self.bytes.cmp(other.bytes))
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn texts_compare_as_their_bytes_do_however_they_were_made() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            // Few different bytes, zeros among them, so that many beginnings are equal.
            let buffer: Vec<u8> = (0..100).map(|_| *random.pick(&[0, 0, 0, b'a', 0xff])).collect();
            let mut texts = Vec::new();
            for _ in 0..30 {
                let start = random.below(buffer.len());
                let end = start + random.below((buffer.len() - start).min(40) + 1);
                let bytes = &buffer[start..end];
                let mut head = [0xee; 16];
                let kept = bytes.len().min(16);
                head[..kept].copy_from_slice(&bytes[..kept]);
                texts.extend([
                    Text::new(bytes),
                    Text::within(&buffer, start..end),
                    Text::with_head(bytes, u128::from_le_bytes(head)),
                ]);
            }
            let (least, greatest) = Text::bounds(texts.iter().copied());
            assert_eq!(Some(least.bytes()), texts.iter().map(Text::bytes).min(), "seed {seed}");
            assert_eq!(Some(greatest.bytes()), texts.iter().map(Text::bytes).max(), "seed {seed}");
            for left in &texts {
                for right in &texts {
                    let context = || format!("seed {seed}: {left:?}, {right:?}");
                    assert_eq!(left.cmp(right), left.bytes().cmp(right.bytes()), "{}", context());
                    assert_eq!(left == right, left.bytes() == right.bytes(), "{}", context());
                    if let (Some(one), Some(other)) = (left.whole_head(), right.whole_head()) {
                        let same = one == other && left.len() == right.len();
                        assert_eq!(same, left.bytes() == right.bytes(), "{}", context());
                    }
                }
            }
        }
    }
}
