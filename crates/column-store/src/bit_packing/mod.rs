//! Mini-blocks of 1,024 whole numbers in as many bits as the largest takes.
//!
//! **Owns**: the width of a mini-block, packing, unpacking whole mini-blocks and single values.
//!
//! **Does not own**: what is subtracted first (`integers`), where mini-blocks lie in a page.
//!
//! **Invariants**: a mini-block of `width` bits takes `width * 128` bytes. The last one of a page is filled up with
//! zeros. Of one that is cut short behind its first values only whole groups are there, no more than these lie in.
//!
//! **Concurrency**: plain functions and views.
//!
//! The kernels are in `lanes`; loops over neighbouring lanes with constant shifts, which the compiler turns into
//! whatever vector instructions the target has. The reference that tests compare with takes one bit after another
//! (`tests.rs`).

mod lanes;
mod population;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use std::ops::Range;

use crate::{MINI_BLOCK_VALUES, PageError};
use lanes::GROUP_BYTES;
pub(crate) use lanes::prefetch;
pub(crate) use population::count_ones;

/// Bytes that a mini-block takes for each bit of its width.
pub const BYTES_PER_WIDTH: usize = GROUP_BYTES;

/// Bits that `largest` takes; 0 for 0.
pub(crate) fn width_of(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Appends `values`, each below 2^`width`, to `packed` as one mini-block.
pub(crate) fn pack(values: &[u64; MINI_BLOCK_VALUES], width: u32, packed: &mut Vec<u8>) {
    match width {
        0 => {}
        1..=8 => lanes::bytes::pack(values, width, packed),
        9..=16 => lanes::halves::pack(values, width, packed),
        17..=32 => lanes::words::pack(values, width, packed),
        _ => lanes::longs::pack(values, width, packed),
    }
}

/// Bytes of the first `count` values of a mini-block: the groups that their rows lie in.
pub(crate) fn first_values_bytes(width: u32, count: usize) -> usize {
    // By shifts: pages are opened often, and a division takes longer than the rest.
    let word_bits = width.next_power_of_two().max(8);
    let shift = word_bits.trailing_zeros();
    let lane_shift = MINI_BLOCK_VALUES.trailing_zeros() - shift;
    let row_count = (count + (1 << lane_shift) - 1) >> lane_shift;
    ((row_count * width as usize + word_bits as usize - 1) >> shift) * BYTES_PER_WIDTH
}

/// As [`pack`], cut short behind the first `count` values; those behind them must be zeros.
pub(crate) fn pack_first(values: &[u64; MINI_BLOCK_VALUES], count: usize, width: u32, packed: &mut Vec<u8>) {
    let start = packed.len();
    pack(values, width, packed);
    packed.truncate(start + first_values_bytes(width, count));
}

/// The packed bits of one mini-block or of its first values, without what was subtracted from them.
#[derive(Debug, Clone, Copy)]
pub struct PackedBits<'a> {
    width: u32,
    groups: &'a [[u8; GROUP_BYTES]],
}

impl<'a> PackedBits<'a> {
    /// `packed` must hold a whole number of groups, at most 64: the width is what it holds.
    #[inline]
    pub(crate) fn new(packed: &'a [u8]) -> Self {
        let (groups, rest) = packed.as_chunks::<GROUP_BYTES>();
        debug_assert!(rest.is_empty() && groups.len() <= 64, "{} bytes are no mini-block", packed.len());
        Self { width: groups.len() as u32, groups }
    }

    /// Of a mini-block that was cut short behind its first values, which `packed` holds.
    #[inline]
    pub(crate) fn of_first(width: u32, packed: &'a [u8]) -> Self {
        let (groups, rest) = packed.as_chunks::<GROUP_BYTES>();
        debug_assert!(rest.is_empty() && groups.len() <= width as usize, "{} bytes of {width} bits", packed.len());
        Self { width, groups }
    }

    /// Bits of each value, 0 to 64. With 0 all values are 0 and there are no bytes.
    #[inline]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The packed bytes, as `docs/formats/column-pages.md` specifies them.
    pub fn bytes(&self) -> &'a [u8] {
        self.groups.as_flattened()
    }

    /// Takes out all 1,024 values; of a mini-block that was cut short the first ones, and others mean nothing. Cheapest
    /// where `W` is the smallest word that holds [`PackedBits::width`].
    ///
    /// # Errors
    /// [`PageError::TooWide`] if the values do not fit `W`.
    pub fn unpack<W: Word>(&self, values: &mut [W; MINI_BLOCK_VALUES]) -> Result<(), PageError> {
        if self.width > W::BITS {
            return Err(PageError::TooWide { width: self.width, word: W::BITS });
        }
        W::unpack(*self, values);
        Ok(())
    }

    /// Value `index`, which is below 1,024 and there.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        match self.width {
            0 => 0,
            1..=8 => lanes::bytes::get(self.groups, self.width, index),
            9..=16 => lanes::halves::get(self.groups, self.width, index),
            17..=32 => lanes::words::get(self.groups, self.width, index),
            _ => lanes::longs::get(self.groups, self.width, index),
        }
    }

    /// Has the cache line or two of value `index`, which is below 1,024, brought near while something else is done.
    #[inline]
    pub fn prefetch_value(&self, index: usize) {
        match self.width {
            0 => {}
            1..=8 => lanes::bytes::prefetch(self.groups, self.width, index),
            9..=16 => lanes::halves::prefetch(self.groups, self.width, index),
            17..=32 => lanes::words::prefetch(self.groups, self.width, index),
            _ => lanes::longs::prefetch(self.groups, self.width, index),
        }
    }

    /// How many cache lines it takes.
    #[inline]
    pub fn line_count(&self) -> usize {
        self.groups.len() * lanes::LINES_A_GROUP
    }

    /// The same of its cache lines `lines`, as far as it has them; how many these are.
    #[inline]
    pub fn prefetch_lines(&self, lines: Range<usize>) -> usize {
        lanes::prefetch_lines(self.groups, lines)
    }

    /// Calls `each` with some places, which are below 1,024 and there, and their values, in this order.
    #[inline(always)]
    pub fn for_each_of(&self, places: &[u16], mut each: impl FnMut(u16, u64)) {
        macro_rules! each {
            ($kernels:ident) => {
                for place in places {
                    each(*place, lanes::$kernels::get(self.groups, self.width, usize::from(*place)));
                }
            };
        }
        match self.width {
            0 => places.iter().for_each(|place| each(*place, 0)),
            1..=8 => each!(bytes),
            9..=16 => each!(halves),
            17..=32 => each!(words),
            _ => each!(longs),
        }
    }

    /// Calls `use_values` with the values in the smallest word that holds them.
    #[inline(always)]
    pub fn with_unpacked<R>(&self, use_values: impl WithUnpacked<R>) -> R {
        match self.width {
            0..=8 => {
                let mut values = [0u8; MINI_BLOCK_VALUES];
                lanes::bytes::unpack(self.groups, self.width, &mut values);
                use_values.call(&values)
            }
            9..=16 => {
                let mut values = [0u16; MINI_BLOCK_VALUES];
                lanes::halves::unpack(self.groups, self.width, &mut values);
                use_values.call(&values)
            }
            17..=32 => {
                let mut values = [0u32; MINI_BLOCK_VALUES];
                lanes::words::unpack(self.groups, self.width, &mut values);
                use_values.call(&values)
            }
            _ => {
                let mut values = [0u64; MINI_BLOCK_VALUES];
                lanes::longs::unpack(self.groups, self.width, &mut values);
                use_values.call(&values)
            }
        }
    }
}

/// What to do with the values of a mini-block, for each word that they may be in.
pub trait WithUnpacked<R> {
    /// `values` are all 1,024, those past the page's end being zeros.
    fn call<W: Word>(self, values: &[W; MINI_BLOCK_VALUES]) -> R;
}

mod sealed {
    pub trait Sealed {}
}

/// A word that values unpack to: `u8`, `u16`, `u32` or `u64`.
pub trait Word: Copy + Default + Into<u64> + sealed::Sealed {
    /// Bits of the word.
    const BITS: u32;
    /// Takes out all values of `packed`, whose width is at most [`Word::BITS`].
    #[doc(hidden)]
    fn unpack(packed: PackedBits<'_>, values: &mut [Self; MINI_BLOCK_VALUES]);
}

fn widen<N: Copy, W: From<N>>(narrow: &[N; MINI_BLOCK_VALUES], wide: &mut [W; MINI_BLOCK_VALUES]) {
    for (to, from) in wide.iter_mut().zip(narrow) {
        *to = W::from(*from);
    }
}

macro_rules! word {
    ($word:ty, $kernels:ident, $least:literal, [$($narrower:ty),*]) => {
        impl sealed::Sealed for $word {}
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            fn unpack(packed: PackedBits<'_>, values: &mut [Self; MINI_BLOCK_VALUES]) {
                /// Apart, since it takes room on the stack.
                #[inline(never)]
                fn unpack_narrower(packed: PackedBits<'_>, values: &mut [$word; MINI_BLOCK_VALUES]) {
                    $(if packed.width <= <$narrower>::BITS {
                        let mut narrow = [0 as $narrower; MINI_BLOCK_VALUES];
                        <$narrower as Word>::unpack(packed, &mut narrow);
                        return widen(&narrow, values);
                    })*
                    debug_assert_eq!(packed.width, 0, "wider words have been unpacked");
                    values.fill(0);
                }
                if packed.width >= $least {
                    return lanes::$kernels::unpack(packed.groups, packed.width, values);
                }
                unpack_narrower(packed, values);
            }
        }
    };
}

word!(u8, bytes, 1, []);
word!(u16, halves, 9, [u8]);
word!(u32, words, 17, [u8, u16]);
word!(u64, longs, 33, [u8, u16, u32]);
