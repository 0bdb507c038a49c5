//! Packing and unpacking of 1,024 values for one word size: the kernels.
//!
//! **Owns**: the order of bits within a packed mini-block (`docs/formats/column-pages.md`). Words of 8, 16, 32 or 64
//! bits lie in lanes, so that a register of any width takes neighbouring lanes and no value crosses from one lane to
//! another: with words of `B` bits there are `1024 / B` lanes of `B` rows, value `i` is row `i / lanes` of lane
//! `i % lanes`, and row `r` of a lane takes the lane's bits `r * width` on, lowest first. One word of every lane makes
//! a group of 128 bytes.
//!
//! **Invariants**: whatever the word, 1,024 values of `width` bits take `width` groups.
//!
//! **Concurrency**: plain functions.
//!
//! **Paper**: Afroozeh and Boncz, "The FastLanes Compression Layout" (PVLDB 2023), §2. Deviations: rows are in the
//! order of the values (not transposed in tiles of 8 × 16), so that positions need no translation; the word follows
//! from the width alone and not from the column's type, so that codes of up to 8 bits unpack to bytes whatever they
//! stand for.
#![allow(unsafe_code)]

/// Bytes of one word of every lane.
pub(super) const GROUP_BYTES: usize = 128;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Cache lines of a group.
pub(super) const LINES_A_GROUP: usize = GROUP_BYTES / LINE_BYTES;

/// Has the cache line that `bytes` start in brought near while something else is done, where the processor can be told
/// to.
#[inline(always)]
fn prefetch_line(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read by the program, and the address is that of a slice anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Has all the cache lines of these bytes brought near.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    bytes.chunks(LINE_BYTES).for_each(prefetch_line);
}

/// The same of the lines `lines` of a packed mini-block, as far as it goes; how many these are.
#[inline]
pub(super) fn prefetch_lines(packed: &[[u8; GROUP_BYTES]], lines: std::ops::Range<usize>) -> usize {
    let (all, _) = packed.as_flattened().as_chunks::<LINE_BYTES>();
    let wanted = all.get(lines.start..lines.end.min(all.len())).unwrap_or_default();
    wanted.iter().for_each(|line| prefetch_line(line));
    wanted.len()
}

/// Registers that loops are compiled for: wider ones take as many steps fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registers {
    /// Those that every processor of this kind has.
    Common,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Registers {
    /// The widest that this processor has.
    #[inline]
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            return Self::Avx512;
        } else if is_x86_feature_detected!("avx2") {
            return Self::Avx2;
        }
        Self::Common
    }
}

macro_rules! kernels {
    ($module:ident, $word:ty, $lane_count:literal, [$($width:literal)*]) => {
        pub(super) mod $module {
            use super::{GROUP_BYTES, Registers};

            const BITS: usize = <$word>::BITS as usize;
            const BYTES: usize = BITS / 8;
            const LANES: usize = $lane_count;

            #[inline(always)]
            fn word(group: &[u8; GROUP_BYTES], lane: usize) -> $word {
                let (words, _) = group.as_chunks::<BYTES>();
                <$word>::from_le_bytes(words[lane])
            }

            /// `packed` holds `WIDTH` groups; 0 < `WIDTH` <= `BITS`.
            #[inline(always)]
            fn unpack_width<const WIDTH: usize>(packed: &[[u8; GROUP_BYTES]], values: &mut [$word; 1024]) {
                let Some(groups) = packed.first_chunk::<WIDTH>() else { return };
                let mask = <$word>::MAX >> (BITS - WIDTH);
                let (rows, _) = values.as_chunks_mut::<LANES>();
                for (row, lanes) in rows.iter_mut().enumerate() {
                    let bit = row * WIDTH;
                    let (at, shift) = (bit / BITS, bit % BITS);
                    let low = &groups[at];
                    if shift + WIDTH <= BITS {
                        for (lane, value) in lanes.iter_mut().enumerate() {
                            *value = (word(low, lane) >> shift) & mask;
                        }
                    } else {
                        let high = &groups[at + 1];
                        for (lane, value) in lanes.iter_mut().enumerate() {
                            *value = ((word(low, lane) >> shift) | (word(high, lane) << (BITS - shift))) & mask;
                        }
                    }
                }
            }

            /// `packed` holds fewer groups than `width`: only the rows that are wholly there are taken out.
            #[inline(always)]
            fn unpack_rows(packed: &[[u8; GROUP_BYTES]], width: u32, values: &mut [$word; 1024]) {
                let width = width as usize;
                let mask = <$word>::MAX >> (BITS - width);
                let (rows, _) = values.as_chunks_mut::<LANES>();
                for (row, lanes) in rows.iter_mut().take(packed.len() * BITS / width).enumerate() {
                    let bit = row * width;
                    let (low, high) = (&packed[bit / BITS], &packed[(bit + width - 1) / BITS]);
                    let shift = bit % BITS;
                    for (lane, value) in lanes.iter_mut().enumerate() {
                        // As in `get`.
                        *value = ((word(low, lane) >> shift) | (word(high, lane) << 1 << (BITS - 1 - shift))) & mask;
                    }
                }
            }

            /// The reference, and what is compiled for wider registers too.
            #[inline(always)]
            pub(in super::super) fn unpack_any(packed: &[[u8; GROUP_BYTES]], width: u32, values: &mut [$word; 1024]) {
                if packed.len() < width as usize {
                    return unpack_rows(packed, width, values);
                }
                match width {
                    $($width => unpack_width::<$width>(packed, values),)*
                    _ => values.fill(0),
                }
            }

            /// Takes 1,024 values out of `packed`, which holds `width` groups, or the first ones where it holds fewer;
            /// `width` is one of this word's.
            pub(in super::super) fn unpack(packed: &[[u8; GROUP_BYTES]], width: u32, values: &mut [$word; 1024]) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn unpack_avx2(packed: &[[u8; GROUP_BYTES]], width: u32, values: &mut [$word; 1024]) {
                    unpack_any(packed, width, values);
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw")]
                fn unpack_avx512(packed: &[[u8; GROUP_BYTES]], width: u32, values: &mut [$word; 1024]) {
                    unpack_any(packed, width, values);
                }
                match Registers::detect() {
                    Registers::Common => unpack_any(packed, width, values),
                    // SAFETY: the processor has these instructions.
                    #[cfg(target_arch = "x86_64")]
                    Registers::Avx2 => unsafe { unpack_avx2(packed, width, values) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Registers::Avx512 => unsafe { unpack_avx512(packed, width, values) },
                }
            }

            /// Appends 1,024 values, each below 2^`width`, as `width` groups; 0 < `width` <= `BITS`.
            pub(in super::super) fn pack(values: &[u64; 1024], width: u32, packed: &mut Vec<u8>) {
                let width = width as usize;
                let mut words = vec![[0 as $word; LANES]; width];
                let (rows, _) = values.as_chunks::<LANES>();
                for (row, lanes) in rows.iter().enumerate() {
                    let bit = row * width;
                    let (at, shift) = (bit / BITS, bit % BITS);
                    for (word, value) in words[at].iter_mut().zip(lanes) {
                        *word |= (*value as $word) << shift;
                    }
                    if shift + width > BITS {
                        for (word, value) in words[at + 1].iter_mut().zip(lanes) {
                            *word |= (*value as $word) >> (BITS - shift);
                        }
                    }
                }
                let start = packed.len();
                packed.resize(start + width * GROUP_BYTES, 0);
                let (to, _) = packed[start..].as_chunks_mut::<BYTES>();
                for (to, word) in to.iter_mut().zip(words.as_flattened()) {
                    *to = word.to_le_bytes();
                }
            }

            /// Where value `index` (below 1,024) lies: the groups that its first and its last bit are in, which are the
            /// same or neighbours, the lane, and the bit of the first group's word.
            #[inline(always)]
            fn place(width: u32, index: usize) -> (usize, usize, usize, usize) {
                let (row, lane) = (index / LANES, index % LANES);
                let bit = row * width as usize;
                (bit / BITS, (bit + width as usize - 1) / BITS, lane, bit % BITS)
            }

            /// Has the cache lines that value `index` (below 1,024) of `packed` lies in brought near.
            #[inline]
            pub(in super::super) fn prefetch(packed: &[[u8; GROUP_BYTES]], width: u32, index: usize) {
                let (first, last, lane, _) = place(width, index);
                // To ask twice for the same takes less time than a branch that is not foreseen.
                super::prefetch_line(&packed[first][lane * BYTES..]);
                super::prefetch_line(&packed[last][lane * BYTES..]);
            }

            /// Value `index` (below 1,024) of `packed`; 0 < `width` <= `BITS`.
            #[inline]
            pub(in super::super) fn get(packed: &[[u8; GROUP_BYTES]], width: u32, index: usize) -> u64 {
                let (first, last, lane, shift) = place(width, index);
                // No branch on whether the value goes on in the next word: that is not foreseen. If it does not, what
                // comes of the same word once more is above its bits.
                let low = word(&packed[first], lane) >> shift;
                let high = word(&packed[last], lane) << 1 << (BITS - 1 - shift);
                u64::from((low | high) & (<$word>::MAX >> (BITS - width as usize)))
            }
        }
    };
}

kernels!(bytes, u8, 128, [1 2 3 4 5 6 7 8]);
kernels!(halves, u16, 64, [9 10 11 12 13 14 15 16]);
kernels!(words, u32, 32, [17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32]);
kernels!(longs, u64, 16, [
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
]);
