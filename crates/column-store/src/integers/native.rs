//! The machine's integers that 64-bit patterns decode to.

mod sealed {
    pub trait Sealed {}
}

/// An integer that whole numbers of pages decode to: signed and unsigned ones of 8 to 64 bits, and `i128`.
pub trait Native: Copy + Default + sealed::Sealed + 'static {
    /// The low bits of the pattern, or for wider types the signed number that it is.
    #[doc(hidden)]
    fn from_pattern(pattern: u64) -> Self;
    /// From as many little-endian bytes as the type has; zero from any other number of bytes.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! native {
    ($($native:ty),*) => {
        $(impl sealed::Sealed for $native {}

        impl Native for $native {
            #[inline(always)]
            fn from_pattern(pattern: u64) -> Self {
                pattern as Self
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }
        })*
    };
}

native!(i8, i16, i32, i64, u8, u16, u32, u64);

impl sealed::Sealed for i128 {}

impl Native for i128 {
    #[inline(always)]
    fn from_pattern(pattern: u64) -> Self {
        Self::from(pattern as i64)
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0, Self::from_le_bytes)
    }
}
