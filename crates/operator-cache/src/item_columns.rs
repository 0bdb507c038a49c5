//! Items with fewer columns: the other arrays stay where they are, and so do their reservations.
//!
//! **Owns**: which items can be taken apart by column, and how; what their columns take. **Does not own**: which columns
//! go (`placement::operator_cache::item_parts`), or when (`admission`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::Array;

use crate::conversion::shape_of;
use crate::item::{Chunk, Item};
use crate::request::ColumnSpec;

/// Rows after which the mean width of a column's values says something of the others'.
const TELLING_ROW_COUNT: u64 = 1000;

impl Item {
    /// Whether it can do without some of its columns: it has all rows of the file, so that the others answer queries
    /// alone, and they lie apart.
    pub(crate) fn is_divisible(&self) -> bool {
        self.predicate.is_all()
            && self.source.unnest.is_none()
            && self.columns.len() > 1
            && !self.chunks.is_empty()
            && self.chunks.iter().all(|chunk| chunk.content().as_arrays().is_some())
            && self.columns.iter().all(|column| column.path.len() == 1)
    }

    /// Of a value of each column in the mean, where there are enough to tell; else none.
    pub(crate) fn mean_widths_bytes(&self) -> Vec<f32> {
        let rows = self.chunks.iter().filter_map(|chunk| chunk.content().as_arrays());
        if self.source.unnest.is_some() || self.row_count < TELLING_ROW_COUNT {
            return Vec::new();
        }
        let mut sums = vec![0; self.columns.len()];
        for rows in rows {
            for (sum, column) in sums.iter_mut().zip(&rows.columns) {
                *sum += column.get_buffer_memory_size();
            }
        }
        sums.into_iter().map(|bytes| (bytes as f64 / self.row_count as f64) as f32).collect()
    }

    /// Bytes that go with a column; without those that somebody else holds too. Chunks that have parts of what one other
    /// lent lie side by side, and hold it together.
    pub(crate) fn removable_bytes(&self, column: usize) -> u64 {
        let memory = |chunk: &Arc<Chunk>| chunk.column_memory(column).map(Arc::as_ptr);
        let runs = self.chunks.chunk_by(|one, other| memory(one) == memory(other));
        let held = runs.filter_map(|run| Some((run.first()?.column_memory(column)?, run.len())));
        let alone = held.filter(|(memory, count)| Arc::strong_count(memory) == *count);
        alone.map(|(memory, _)| memory.size_bytes()).sum()
    }

    /// Whether all of its rows lie in arrays.
    pub(crate) fn holds_arrays(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.content().as_arrays().is_some())
    }

    /// Bytes that go with it: all that it holds but the columns that somebody else holds too.
    pub(crate) fn own_bytes(&self) -> u64 {
        // Whoever completes an item takes its place.
        if !self.may_share.load(Ordering::Relaxed) {
            return self.size_bytes;
        }
        let own_bytes = |column| self.removable_bytes(column);
        let shared_bytes = |column| {
            let memory = self.chunks.iter().map(|chunk| (chunk.column_memory(column), chunk.content().entry_count()));
            let held: u64 = memory.filter_map(|(memory, count)| Some(memory?.share_bytes(count))).sum();
            held.saturating_sub(own_bytes(column))
        };
        self.size_bytes.saturating_sub((0..self.columns.len()).map(shared_bytes).sum())
    }

    /// The item with these of its columns alone, ascending by number. None if it can't be divided.
    pub(crate) fn with_columns(&self, kept: &[usize]) -> Option<Self> {
        if !self.is_divisible() || kept.is_empty() {
            return None;
        }
        let chunks: Option<Vec<Arc<Chunk>>> = self
            .chunks
            .iter()
            .map(|chunk| {
                let columns: Option<Vec<_>> = kept.iter().map(|&column| chunk.column(column)).collect();
                chunk.with_columns(columns?).map(Arc::new)
            })
            .collect();
        let chunks = chunks?;
        let columns: Arc<[ColumnSpec]> = kept.iter().map(|&column| self.columns[column].clone()).collect();
        let (shape, widths_bytes) = shape_of(&chunks, &vec![false; columns.len()], None);
        let structure = Arc::clone(&self.structure);
        Some(Self { shape, ..self.of_chunks((columns, widths_bytes), chunks, structure) })
    }
}
