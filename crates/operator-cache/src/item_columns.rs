//! Items with fewer columns, or with those of two: the arrays stay where they are, and so do their reservations.
//!
//! **Owns**: which items can be taken apart by column, and how. **Does not own**: which columns go
//! (`placement::operator_cache::item_parts`), or when (`admission`).

use std::sync::Arc;

use crate::conversion::shape_of;
use crate::item::{Chunk, Item};
use crate::request::{ColumnSpec, SelectRequest};
use crate::rows::ColumnRoute;

impl Item {
    /// Whether it can do without some of its columns: it has all rows of the file, so that the others answer queries
    /// alone, and they lie apart.
    pub(crate) fn is_divisible(&self) -> bool {
        self.predicate.is_all()
            && self.source.unnest.is_none()
            && !self.chunks.is_empty()
            && self.chunks.iter().all(|chunk| chunk.content().as_arrays().is_some())
            && self.columns.iter().all(|column| column.path.len() == 1)
    }

    /// Bytes that go with a column; 0 if somebody else holds it.
    pub(crate) fn removable_bytes(&self, column: usize) -> u64 {
        self.chunks.iter().map(|chunk| chunk.removable_bytes(column)).sum()
    }

    /// The numbers of its columns that a request needs.
    pub(crate) fn needed_columns(&self, request: &SelectRequest) -> Vec<usize> {
        let asked = request.columns.iter().filter_map(|column| ColumnRoute::find_typed(&self.columns, column));
        let tested = request.predicate.fields().filter_map(|(path, _)| ColumnRoute::find(&self.columns, path));
        let mut needed: Vec<usize> = asked.chain(tested).map(|route| route.column()).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
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
        Some(self.divided(kept.iter().map(|&column| self.columns[column].clone()).collect(), chunks?))
    }

    /// The item with the columns that `other`, of the same rows, has and it lacks. None if their rows do not lie in the
    /// same chunks.
    pub(crate) fn united(&self, other: &Self) -> Option<Self> {
        let counts =
            |item: &Self| -> Vec<usize> { item.chunks.iter().map(|chunk| chunk.content().entry_count()).collect() };
        let is_same = self.source == other.source
            && self.predicate == other.predicate
            && (self.generation, self.end_bytes) == (other.generation, other.end_bytes);
        if !is_same || !self.is_divisible() || !other.is_divisible() || counts(self) != counts(other) {
            return None;
        }
        let own = self.columns.iter().enumerate().map(|(index, column)| (column, true, index));
        let others = other.columns.iter().enumerate().map(|(index, column)| (column, false, index));
        let is_new =
            |(column, ..): &(&ColumnSpec, bool, usize)| !self.columns.iter().any(|own| own.path == column.path);
        let mut all: Vec<(&ColumnSpec, bool, usize)> = own.chain(others.filter(is_new)).collect();
        all.sort_by(|one, other| one.0.path.cmp(&other.0.path));
        let chunks: Option<Vec<Arc<Chunk>>> = self
            .chunks
            .iter()
            .zip(&other.chunks)
            .map(|(own, others)| {
                let columns = all.iter().map(|(_, is_own, index)| if *is_own { own } else { others }.column(*index));
                own.with_columns(columns.collect::<Option<_>>()?).map(Arc::new)
            })
            .collect();
        Some(self.divided(all.into_iter().map(|(column, ..)| column.clone()).collect(), chunks?))
    }

    fn divided(&self, columns: Arc<[ColumnSpec]>, chunks: Vec<Arc<Chunk>>) -> Self {
        let (shape, widths_bytes) = shape_of(&chunks, &vec![false; columns.len()], None);
        Self { shape, ..self.of_chunks((columns, widths_bytes), chunks, Arc::clone(&self.structure)) }
    }
}
