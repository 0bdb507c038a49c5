//! Numbers of all types as signed ones of 64 bits in the same order, so that what orders and tells apart is written
//! once.
//!
//! **Invariants**: ordinals are ordered as their values are: floats by IEEE 754's total order, which is DataFusion's
//! (`-0.0` before `0.0`, NaNs at the ends); and each has its value's very bits. 32-bit floats have the ordinals of the
//! 64-bit ones that they are.
//!
//! **Concurrency**: plain functions.

/// The ordinal of `-0.0`, which makes one group with `0.0`.
pub(crate) const NEGATIVE_ZERO: i64 = -1;
/// What the ordinal of an unsigned integer of 64 bits is less than the integer.
pub(crate) const UNSIGNED_BIAS: i128 = 1 << 63;

/// Positive floats order like their bits, negative ones in reverse.
#[inline(always)]
pub(crate) fn of_float(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[inline(always)]
pub(crate) fn to_float(ordinal: i64) -> f64 {
    f64::from_bits((ordinal ^ ((ordinal >> 63) as u64 >> 1) as i64) as u64)
}

/// The ordinal of what arithmetic gives: a NaN of it has the sign that the processor makes of it, and is one value here,
/// the largest.
#[inline(always)]
pub(crate) fn of_computed(value: f64) -> i64 {
    of_float(if value.is_nan() { f64::NAN } else { value })
}

#[inline(always)]
pub(crate) fn of_unsigned(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

#[inline(always)]
pub(crate) fn to_unsigned(ordinal: i64) -> u64 {
    ordinal as u64 ^ 1 << 63
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_ordered_as_values_are_and_give_them_back() {
        let floats = [-f64::NAN, f64::NEG_INFINITY, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, f64::INFINITY, f64::NAN];
        for pair in floats.windows(2) {
            assert!(of_float(pair[0]) < of_float(pair[1]), "{pair:?}");
        }
        for float in floats {
            assert_eq!(to_float(of_float(float)).to_bits(), float.to_bits());
        }
        assert_eq!(of_float(-0.0), NEGATIVE_ZERO);
        let unsigned = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
        for pair in unsigned.windows(2) {
            assert!(of_unsigned(pair[0]) < of_unsigned(pair[1]), "{pair:?}");
        }
        for value in unsigned {
            assert_eq!(to_unsigned(of_unsigned(value)), value);
            assert_eq!(i128::from(of_unsigned(value)), i128::from(value) - UNSIGNED_BIAS);
        }
    }
}
