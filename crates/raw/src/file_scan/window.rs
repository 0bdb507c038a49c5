//! Bytes on their way from a file to a decoder.
//!
//! **Owns**: [`Window`], a buffer that is filled behind and emptied in front.
//!
//! **Invariants**: memory once cleared is never cleared again: a read overwrites it. (A `Vec` resized for each read
//! would write every byte twice.)

/// A buffer filled behind and emptied in front.
#[derive(Debug, Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    /// What is in it.
    pub(super) fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room for `count` more bytes behind the content; [`filled`](Self::filled) tells how much of it was used.
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let wanted = self.end + count;
        if self.bytes.len() < wanted {
            // Doubles while one long record is gathered, but takes no more than asked at first.
            self.bytes.reserve(wanted - self.bytes.len());
            self.bytes.resize(wanted, 0);
        }
        &mut self.bytes[self.end..wanted]
    }

    /// Bytes held on the heap once there is room for `count` more bytes behind the content.
    pub(super) fn grown_bytes(&self, count: usize) -> usize {
        let wanted = self.end - self.start + count;
        // As vectors grow.
        if wanted <= self.bytes.capacity() { self.bytes.capacity() } else { wanted.max(2 * self.bytes.capacity()) }
    }

    /// Takes memory for `count` bytes of content in all, so that gathering them moves nothing.
    pub(super) fn reserve(&mut self, count: usize) {
        self.bytes.reserve_exact(count.saturating_sub(self.bytes.len()));
    }

    /// Adds the first `count` bytes of the room to the content.
    pub(super) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Drops the first `count` bytes of the content.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Keeps only the first `count` bytes of the content.
    pub(super) fn truncate(&mut self, count: usize) {
        self.end = self.start + count;
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// The content as a vector of its own.
    pub(super) fn into_content(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes.drain(..self.start);
        self.bytes
    }

    /// Bytes held on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
