//! Small whole numbers in as many bits as the largest of a block takes.
//!
//! **Owns**: packing a block of numbers into words, and taking them out again.
//!
//! **Does not own**: what the numbers are, what is subtracted from them first (frame of reference), where blocks lie.
//!
//! **Invariants**: a block starts at a word; number `i` of a block takes bits `i * width` on, lowest bits first.
//!
//! **Concurrency**: plain functions.

/// Bits that `largest` takes; 0 for 0.
pub(crate) fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Words that `count` numbers of `width` bits take.
pub(crate) fn word_count(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(64)
}

/// Appends `numbers`, each below 2^`width`, to `words` as one block.
pub(crate) fn pack(numbers: impl Iterator<Item = u64>, width: u32, words: &mut Vec<u64>) {
    if width == 0 {
        return;
    }
    let mut word = 0;
    let mut used = 0;
    for number in numbers {
        word |= number << used;
        used += width;
        if used >= 64 {
            words.push(word);
            used -= 64;
            // What did not fit; nothing of it when the number ended with the word.
            word = if used == 0 { 0 } else { number >> (width - used) };
        }
    }
    if used > 0 {
        words.push(word);
    }
}

/// Number `index` of the block `words`; `width` is at most 64.
#[inline(always)]
pub(crate) fn unpack(words: &[u64], width: u32, index: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let bit = index * width as usize;
    let (at, shift) = (bit / 64, (bit % 64) as u32);
    let low = words[at] >> shift;
    let number = if shift + width > 64 { low | words[at + 1] << (64 - shift) } else { low };
    number & (u64::MAX >> (64 - width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for width in 0..=64 {
            for count in [0, 1, 2, 63, 64, 127, 128, 1000] {
                let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
                let number = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) & mask;
                let mut words = vec![7];
                pack((0..count as u64).map(number), width, &mut words);
                assert_eq!(words.len(), 1 + word_count(count, width), "{count} of {width} bits");
                for index in 0..count {
                    assert_eq!(unpack(&words[1..], width, index), number(index as u64), "{index} of {width} bits");
                }
            }
        }
    }

    #[test]
    fn a_width_is_the_least_that_holds_the_number() {
        assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 8, 9, 64]);
    }
}
