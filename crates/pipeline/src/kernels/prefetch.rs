//! Telling the processor what will be read.
//!
//! Concurrency: plain functions.
#![allow(unsafe_code)]

/// Has the cache line that a value starts in brought near while something else is done, where the processor can be told
/// to.
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
