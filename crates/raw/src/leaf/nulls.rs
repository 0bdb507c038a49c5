//! Which rows of a growing column are NULL.
//!
//! **Owns**: the positions of NULLs while a column grows, and the validity bitmap made of them at the end.
//!
//! **Invariants**: positions ascend and are below the column's length. A column without NULLs costs nothing: the
//! common append of a value does not touch this structure at all.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

/// Positions of the NULLs of a growing column.
#[derive(Debug, Default, Clone)]
pub(crate) struct Nulls {
    positions: Vec<u32>,
}

impl Nulls {
    /// Marks row `row` as NULL; rows are marked in ascending order. The decoders keep columns below 2^31 rows.
    pub(crate) fn push(&mut self, row: usize) {
        self.positions.push(row as u32);
    }

    /// Whether row `row` is NULL, where `row` is the column's last.
    pub(crate) fn is_last(&self, row: usize) -> bool {
        self.positions.last() == Some(&(row as u32))
    }

    /// Forgets NULLs at `len` and above.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.positions.last().is_some_and(|&row| row as usize >= len) {
            self.positions.pop();
        }
    }

    /// The validity bitmap of a column of `len` rows, None without NULLs; starts anew.
    pub(crate) fn finish(&mut self, len: usize) -> Option<NullBuffer> {
        if self.positions.is_empty() {
            return None;
        }
        let mut bits = vec![0xff_u8; len.div_ceil(8)];
        for &row in &self.positions {
            if let Some(byte) = bits.get_mut(row as usize / 8) {
                *byte &= !(1 << (row % 8));
            }
        }
        self.positions.clear();
        Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, len)))
    }

    /// Bytes held on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
    }
}
