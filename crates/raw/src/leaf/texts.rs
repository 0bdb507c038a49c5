//! The growing texts of a column.
//!
//! **Invariants**: between calls, what lies behind the last text's end is no text: it was begun, and is overwritten or
//! dropped before another is appended. Every text is UTF-8 by itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;

use super::Mismatch;

/// Texts one behind the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    /// `ends[i]` is where text `i` ends in `bytes`.
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Texts {
    /// Number of texts.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends what stands for NULL.
    pub(super) fn push_empty(&mut self) {
        self.ends.push(self.bytes.len() as i32);
    }

    /// # Errors
    /// More bytes than an Arrow array can address.
    #[inline]
    pub(super) fn push(&mut self, text: &str) -> Result<(), Mismatch> {
        let end = i32::try_from(self.bytes.len() + text.len()).map_err(|_| Mismatch::ColumnFull)?;
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(end);
        Ok(())
    }

    /// Adds the first `length` bytes of `step`, which are ASCII, to the text that was begun, or begins one. All of
    /// `step` is copied, which takes no branch on the length.
    #[inline(always)]
    pub(crate) fn begin_ascii<const STEP: usize>(&mut self, step: &[u8; STEP], length: usize) {
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(step);
        self.bytes.truncate(end);
    }

    /// Appends the text that was begun. False if there is no room for it.
    #[inline(always)]
    pub(crate) fn append_begun(&mut self) -> bool {
        let end = i32::try_from(self.bytes.len());
        end.map(|end| self.ends.push(end)).is_ok()
    }

    /// Drops the text that was begun.
    #[inline]
    pub(crate) fn drop_begun(&mut self) {
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.drop_begun();
    }

    /// The bytes of the last text.
    #[inline]
    pub(super) fn last(&self) -> Option<&[u8]> {
        let start = self.ends.len().checked_sub(2).and_then(|row| self.ends.get(row)).map_or(0, |&end| end as usize);
        let end = *self.ends.last()? as usize;
        self.bytes.get(start..end)
    }

    /// The array of all texts, exactly sized; starts anew but keeps the room.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        let bytes = Buffer::from_vec(self.bytes.as_slice().to_vec());
        self.bytes.clear();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(StringArray::try_new(offsets, bytes, nulls)?))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<i32>() + self.bytes.capacity()
    }
}
