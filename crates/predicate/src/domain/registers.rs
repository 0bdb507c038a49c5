//! The loop over a column's values with the widest registers that the processor has: without them there is not even a
//! comparison of 64-bit integers for more than one at a time.
//!
//! **Concurrency**: plain functions.
#![allow(unsafe_code)]

use arrow::buffer::BooleanBuffer;

use super::evaluate::within_in_any_registers;

/// Which values have a key in one of the sorted disjoint inclusive ranges.
pub(super) fn with_widest_registers<V: Copy, K: Copy + Ord>(
    values: &[V],
    key: impl Fn(V) -> K,
    ranges: &[(K, K)],
) -> BooleanBuffer {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn with_avx2<V: Copy, K: Copy + Ord>(values: &[V], key: impl Fn(V) -> K, ranges: &[(K, K)]) -> BooleanBuffer {
            within_in_any_registers(values, key, ranges)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
        fn with_avx512<V: Copy, K: Copy + Ord>(values: &[V], key: impl Fn(V) -> K, ranges: &[(K, K)]) -> BooleanBuffer {
            within_in_any_registers(values, key, ranges)
        }
        let has_avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        if has_avx512 {
            // SAFETY: the processor has these instructions.
            return unsafe { with_avx512(values, key, ranges) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { with_avx2(values, key, ranges) };
        }
    }
    within_in_any_registers(values, key, ranges)
}
