//! Counts the bytes that the process has allocated, around any allocator.
//!
//! Reservations are promises; this is the truth they are compared with. Each thread gathers its own balance and moves
//! it to the shared counter when it passes [`FLUSH_BYTES`] either way, so that most calls touch only thread-local
//! memory; the count is off by at most that much per running thread. What a thread has left is moved when it ends.
//!
//! Counted are the sizes asked for, not what the allocator rounds them up to, nor pages it keeps for itself.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// Balance at which a thread tells the others: 16 threads are then off by at most 1 MiB, and even buffers of 8 KiB
/// touch the shared counter once in eight calls.
const FLUSH_BYTES: i64 = 64 << 10;

/// Shared by all instances, since a process has one global allocator. Signed: a balance may arrive before the
/// allocation it pays back, from another thread.
static ALLOCATED_BYTES: AtomicI64 = AtomicI64::new(0);

struct Balance {
    bytes: Cell<i64>,
}

impl Drop for Balance {
    fn drop(&mut self) {
        ALLOCATED_BYTES.fetch_add(self.bytes.replace(0), Ordering::Relaxed);
    }
}

thread_local! {
    // Const-initialised, so that the first access does not allocate.
    static BALANCE: Balance = const { Balance { bytes: Cell::new(0) } };
}

/// A global allocator that forwards to `A` and counts.
///
/// ```
/// use std::alloc::System;
/// use thermocline_budget::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);
///
/// let before_bytes = CountingAllocator::<System>::allocated_bytes();
/// let held = vec![0_u8; 1 << 20];
/// assert!(CountingAllocator::<System>::allocated_bytes() >= before_bytes + (1 << 20) - (64 << 10));
/// # drop(held);
/// ```
#[derive(Debug, Default)]
pub struct CountingAllocator<A> {
    inner: A,
}

impl<A> CountingAllocator<A> {
    /// Counts what goes through `inner`.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }

    /// Bytes allocated and not yet freed, by all threads; off by at most 64 KiB per running thread.
    pub fn allocated_bytes() -> u64 {
        u64::try_from(ALLOCATED_BYTES.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

#[inline]
fn count(delta_bytes: i64) {
    let gathered = BALANCE.try_with(|balance| {
        let bytes = balance.bytes.get() + delta_bytes;
        if bytes.unsigned_abs() < FLUSH_BYTES as u64 {
            balance.bytes.set(bytes);
        } else {
            balance.bytes.set(0);
            ALLOCATED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
    });
    // The thread is ending and its balance has been moved: other destructors still free memory.
    if gathered.is_err() {
        ALLOCATED_BYTES.fetch_add(delta_bytes, Ordering::Relaxed);
    }
}

/// A layout's size never passes `isize::MAX`.
#[inline]
fn signed(bytes: usize) -> i64 {
    bytes as i64
}

// SAFETY: every call is forwarded unchanged to `A`, which upholds the contract; counting neither allocates, nor
// unwinds, nor touches the memory.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are those of `A`.
        let pointer = unsafe { self.inner.alloc(layout) };
        if !pointer.is_null() {
            count(signed(layout.size()));
        }
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations are those of `A`.
        let pointer = unsafe { self.inner.alloc_zeroed(layout) };
        if !pointer.is_null() {
            count(signed(layout.size()));
        }
        pointer
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are those of `A`, which made `pointer`.
        unsafe { self.inner.dealloc(pointer, layout) };
        count(-signed(layout.size()));
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: the caller's obligations are those of `A`, which made `pointer`.
        let moved = unsafe { self.inner.realloc(pointer, layout, new_bytes) };
        if !moved.is_null() {
            count(signed(new_bytes) - signed(layout.size()));
        }
        moved
    }
}
