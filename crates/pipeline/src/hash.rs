//! The hash of tables and groups.

/// 64 bits that all depend on those of `word`: Fibonacci hashing, with both halves of the product, so that keys that
/// are multiples of powers of two spread too.
#[inline(always)]
pub(crate) fn mix(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product >> 64) as u64 ^ product as u64
}
