//! Memory that direct I/O can read into: its first byte lies at a multiple of [`DIRECT_ALIGNMENT_BYTES`].

use std::fmt;
use std::ops::{Deref, DerefMut};

/// What offset, length and address of a read must be multiples of to go past the page cache.
///
/// Devices ask for 512 or 4096 bytes, and file systems for no more than their block, which is 4096 bytes wherever pages
/// are; 4096 is a multiple of all of them, and of the pages that the kernel pins for the transfer.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// An owned, aligned, zero-filled piece of memory with a length that can be changed up to its capacity, so that one
/// buffer serves reads of many sizes.
///
/// The bytes beyond the length keep what they held: giving the buffer a greater length shows them again.
///
/// ```
/// use thermocline_medium::{AlignedBuffer, DIRECT_ALIGNMENT_BYTES};
/// let mut buffer = AlignedBuffer::new(3 * DIRECT_ALIGNMENT_BYTES);
/// buffer.set_len(DIRECT_ALIGNMENT_BYTES);
/// assert_eq!(buffer.len(), DIRECT_ALIGNMENT_BYTES);
/// assert_eq!(buffer.as_ptr().addr() % DIRECT_ALIGNMENT_BYTES, 0);
/// ```
pub struct AlignedBuffer {
    /// Larger than the capacity by what aligning may cost, so that no allocator has to be asked in a special way. Zero
    /// pages come from the system untouched.
    storage: Box<[u8]>,
    start: usize,
    len: usize,
    capacity_bytes: usize,
}

impl AlignedBuffer {
    /// A buffer of `capacity_bytes` zeros, all of which are its length.
    pub fn new(capacity_bytes: usize) -> Self {
        let storage = vec![0_u8; capacity_bytes + DIRECT_ALIGNMENT_BYTES - 1].into_boxed_slice();
        let past = storage.as_ptr().addr() % DIRECT_ALIGNMENT_BYTES;
        let start = (DIRECT_ALIGNMENT_BYTES - past) % DIRECT_ALIGNMENT_BYTES;
        Self { storage, start, len: capacity_bytes, capacity_bytes }
    }

    /// The greatest length this buffer can have.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Sets how many bytes the buffer shows.
    ///
    /// # Panics
    /// If `len` exceeds the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity_bytes, "a length of {len} in a buffer of {} bytes", self.capacity_bytes);
        self.len = len;
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("len", &self.len)
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_any_size_is_aligned_and_zero() {
        for capacity_bytes in [0, 1, 511, 4096, 4097, 2 << 20] {
            let buffer = AlignedBuffer::new(capacity_bytes);
            assert_eq!(buffer.as_ptr().addr() % DIRECT_ALIGNMENT_BYTES, 0);
            assert_eq!(buffer.len(), capacity_bytes);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_recycled_buffer_stays_where_it_is_and_keeps_its_bytes() {
        let mut buffer = AlignedBuffer::new(8192);
        let address = buffer.as_ptr();
        buffer[8191] = 7;
        buffer.set_len(100);
        assert_eq!(buffer.len(), 100);
        buffer.set_len(8192);
        assert_eq!((buffer.as_ptr(), buffer[8191]), (address, 7));
    }
}
