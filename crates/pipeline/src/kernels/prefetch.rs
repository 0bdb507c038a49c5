//! Telling the processor what will be read.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Has the first `line_count` cache lines of `bytes` brought near while something else is done, where the processor can
/// be told to.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], line_count: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE_BYTES).take(line_count) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read by the program, and the address is that of a slice anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, line_count);
}

/// The same of the cache line that a value starts in.
#[inline(always)]
pub(crate) fn prefetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read by the program, and the address is that of a value anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
