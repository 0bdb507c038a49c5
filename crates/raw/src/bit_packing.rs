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

/// How often neighbours of `width` bits can be joined until they would take more than a word; of `width` 1 to 64.
fn joining_count(width: u32) -> u32 {
    (64 / width).ilog2()
}

/// As [`pack`], for a count that is a power of two, of at least 64: neighbours are joined first, which takes no carrying
/// from one to the next. What is left in `numbers` is of no use.
pub(crate) fn pack_joined(numbers: &mut [u64], width: u32, words: &mut Vec<u64>) {
    if width == 0 {
        return;
    }
    let (mut count, mut joined_width) = (numbers.len(), width);
    for _ in 0..joining_count(width) {
        count /= 2;
        for index in 0..count {
            numbers[index] = numbers[2 * index] | numbers[2 * index + 1] << joined_width;
        }
        joined_width *= 2;
    }
    pack(numbers[..count].iter().copied(), joined_width, words);
}

/// All numbers that [`pack_joined`] packed.
pub(crate) fn unpack_joined(words: &[u64], width: u32, numbers: &mut [u64]) {
    if width == 0 {
        numbers.fill(0);
        return;
    }
    let joining_count = joining_count(width);
    let mut count = numbers.len() >> joining_count;
    for (index, number) in numbers[..count].iter_mut().enumerate() {
        *number = unpack(words, width << joining_count, index);
    }
    for joined in (0..joining_count).rev() {
        let half_width = width << joined;
        let mask = (1 << half_width) - 1;
        // From the last on, so that none is overwritten before it is parted.
        for index in (0..count).rev() {
            let number = numbers[index];
            numbers[2 * index + 1] = number >> half_width;
            numbers[2 * index] = number & mask;
        }
        count *= 2;
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
    fn joined_numbers_lie_as_others_do() {
        for width in 0..=64 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            for count in [64, 128] {
                let number = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) & mask;
                let numbers: Vec<u64> = (0..count).map(number).collect();
                let (mut one_by_one, mut joined) = (Vec::new(), Vec::new());
                pack(numbers.iter().copied(), width, &mut one_by_one);
                pack_joined(&mut numbers.clone(), width, &mut joined);
                assert_eq!(joined, one_by_one, "{count} of {width} bits");
                let mut unpacked = vec![7; numbers.len()];
                unpack_joined(&joined, width, &mut unpacked);
                assert_eq!(unpacked, numbers, "{count} of {width} bits");
            }
        }
    }

    #[test]
    fn a_width_is_the_least_that_holds_the_number() {
        assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 8, 9, 64]);
    }
}
