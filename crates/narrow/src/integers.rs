//! How many bits whole numbers take.

/// Values that are looked at before it is seen whether they are too wide already.
const BLOCK_VALUES: usize = 4096;

/// An integer of Arrow's.
pub(crate) trait Integer: Copy {
    /// Has as many leading zeros, in 64 bits, as the number has to spare.
    fn spread(self) -> u64;
}

macro_rules! impl_signed {
    ($($native:ty),*) => {$(
        impl Integer for $native {
            #[inline(always)]
            fn spread(self) -> u64 {
                // The sign takes one bit more than the digits, which are turned around in negative numbers.
                (i64::from(self ^ self >> (<$native>::BITS - 1)) << 1) as u64 | 1
            }
        }
    )*};
}
impl_signed!(i16, i32, i64);

macro_rules! impl_unsigned {
    ($($native:ty),*) => {$(
        impl Integer for $native {
            #[inline(always)]
            fn spread(self) -> u64 {
                self.into()
            }
        }
    )*};
}
impl_unsigned!(u16, u32);

/// Bits that the widest of some numbers takes, a sign among them; `None` if more than `limit`.
pub(crate) fn width<T: Integer>(values: &[T], limit: u32) -> Option<u32> {
    let mut spread = 0;
    for block in values.chunks(BLOCK_VALUES) {
        spread = block.iter().fold(spread, |spread, value| spread | value.spread());
        if u64::BITS - spread.leading_zeros() > limit {
            return None;
        }
    }
    Some(u64::BITS - spread.leading_zeros())
}
