//! The striped layout: one column of nested records as a column per scalar field, without duplication.
//!
//! **Owns**: taking records apart into leaf columns with definition and repetition levels ([`shred`]), and putting
//! them, or one field of them, together again ([`assemble`], [`place`]). **Does not own**: which columns are asked for.
//!
//! A leaf keeps an entry for each of its values and for each place where a value is missing because something above
//! it is NULL or empty. The *definition level* of an entry says how much of the path to the leaf is there; its
//! *repetition level*, which list on the path the entry goes on with (0: a new record). Values are kept for the entries
//! of the highest definition level alone.
//!
//! **Invariants**
//! - The leaves of the tree of [`Node`]s are `leaves`, in order; each node's `source` is one of the leaves below it.
//! - The number of a leaf's values is the number of its entries at its node's definition level.
//! - Leaves below the same innermost list have equal repetition levels, and share them; so do leaves with equal
//!   definition levels by construction (required fields of one struct).
//!
//! **Concurrency**: never changes once built; shared between threads.
//!
//! **Paper**: ReCache (PVLDB 2017), §4; Dremel (Melnik et al., PVLDB 2010), §4.1 to §4.3. Deviations:
//! - Assembly is an automaton for each leaf instead of one over all leaves that goes record by record: what is asked
//!   for are Arrow's columns, so nothing would be gained by visiting the leaves in turn. Its transitions are decided
//!   for 64 entries at a time by comparing packed levels ([`levels`]).
//! - A field counts as optional if it holds a NULL, whatever its type says, so that levels say no more than they must.
//! - Lists can be NULL, not only empty: a NULL list is one definition level below an empty one.
//! - Fields without any scalar in them (structs of no fields) are leaves without values.

mod assemble;
mod levels;
mod place;
mod shred;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::error::ArrowError;
use thermocline_hardware::Clock;

use self::levels::Levels;
use super::ReadTimes;
use super::content::ColumnValues;

/// One column of records in Dremel's form: a leaf column per scalar field, without duplication, with definition and
/// repetition levels.
#[derive(Debug)]
pub(crate) struct StripedColumn {
    record_count: usize,
    root: Node,
    leaves: Vec<Leaf>,
    size_bytes: u64,
}

impl StripedColumn {
    /// Takes the records of `array` apart. Buffers that are needed whole are shared, others copied.
    ///
    /// # Errors
    /// Types that are not Boolean, a fixed-width number, date, time or decimal of at most 16 bytes, Utf8 or codes
    /// of it, or a List or Struct of these; more than 254 levels; more than 2³² − 1 values in a field.
    pub(crate) fn shred(array: &ArrayRef) -> Result<Self, ArrowError> {
        let (root, leaves) = shred::shred(array)?;
        let mut column = Self { record_count: array.len(), root, leaves, size_bytes: 0 };
        column.size_bytes = column.count_bytes();
        Ok(column)
    }

    /// Bytes held: the capacity of every buffer, and the structures around them.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn count_bytes(&self) -> u64 {
        let mut levels: Vec<&Arc<Levels>> =
            self.leaves.iter().flat_map(|leaf| [&leaf.definitions, &leaf.repetitions]).collect();
        levels.sort_unstable_by_key(|levels| Arc::as_ptr(levels));
        levels.dedup_by_key(|levels| Arc::as_ptr(levels));
        let levels_bytes: usize = levels.iter().map(|levels| levels.size_bytes()).sum();
        let values_bytes: usize = self
            .leaves
            .iter()
            .filter_map(|leaf| leaf.values.as_ref())
            .map(|values| values.get_array_memory_size())
            .sum();
        let structures_bytes = size_of::<Self>() + self.leaves.capacity() * size_of::<Leaf>() + self.root.heap_bytes();
        (levels_bytes + values_bytes + structures_bytes) as u64
    }

    /// The values of the only field, of all records. `None` where there are several.
    pub(crate) fn values(&self) -> Option<ColumnValues> {
        let [leaf] = self.leaves.as_slice() else { return None };
        let is_scalar = match &self.root.kind {
            NodeKind::Leaf => true,
            NodeKind::List { element, .. } => matches!(element.kind, NodeKind::Leaf),
            NodeKind::Struct { .. } => false,
        };
        let array = leaf.values.clone().filter(|_| is_scalar)?;
        let lacks_some = leaf.definitions.entry_count() > array.len();
        Some(ColumnValues { array, lacks_some })
    }

    /// The column again: the values, NULLs and empty lists that were taken apart. What lies under a NULL struct is
    /// not defined. Adds what it took to `times`, once per phase of each leaf and node.
    ///
    /// # Errors
    /// Whatever Arrow refuses; none is expected.
    pub(crate) fn assemble(&self, clock: &dyn Clock, times: &mut ReadTimes) -> Result<ArrayRef, ArrowError> {
        assemble::Assembly::new(&self.leaves, clock, times).column(&self.root, self.record_count)
    }

    /// The field at the end of a path of struct-field indices, and nothing beside it. Structs on the path vanish (where
    /// one is NULL, the field is), lists on it stay: a field of a list of structs comes as the list of the field's
    /// values. An empty path is the whole column.
    ///
    /// # Errors
    /// A path that leads to no field.
    pub(crate) fn assemble_field(
        &self,
        children: &[usize],
        clock: &dyn Clock,
        times: &mut ReadTimes,
    ) -> Result<ArrayRef, ArrowError> {
        assemble::Assembly::new(&self.leaves, clock, times).field(&self.root, children, self.record_count)
    }
}

/// A field of the records' type: where it is on its path, and what is below it.
#[derive(Debug)]
struct Node {
    data_type: DataType,
    /// Can it be NULL where the struct or list around it is there?
    is_optional: bool,
    /// Entries of this level or a higher one have it, not NULL.
    definition: u8,
    /// Entries of this definition level or a higher one have a place for it: they are elements of the innermost list
    /// above it. 0 without such a list.
    place_definition: u8,
    /// How many lists are above it; an entry that repeats within a deeper one is no new place for it.
    repetition: u8,
    /// The leaf below it of the fewest entries: its levels tell what this node's would.
    source: usize,
    kind: NodeKind,
}

#[derive(Debug)]
enum NodeKind {
    /// A scalar, or a struct of no fields: the leaf at `source`.
    Leaf,
    /// A struct of at least one field.
    Struct { fields: Fields, children: Vec<Node> },
    /// A list; its elements' definition level is one above its own.
    List { field: FieldRef, element: Box<Node> },
}

impl Node {
    /// Bytes of what is below it, itself not included.
    fn heap_bytes(&self) -> usize {
        match &self.kind {
            NodeKind::Leaf => 0,
            NodeKind::Struct { children, .. } => {
                children.capacity() * size_of::<Self>() + children.iter().map(Self::heap_bytes).sum::<usize>()
            }
            NodeKind::List { element, .. } => size_of::<Self>() + element.heap_bytes(),
        }
    }
}

/// A column of scalars: an entry for each value and each place where one is missing.
#[derive(Debug)]
struct Leaf {
    definitions: Arc<Levels>,
    repetitions: Arc<Levels>,
    /// The values that are there, without NULLs; None for structs of no fields.
    values: Option<ArrayRef>,
}
