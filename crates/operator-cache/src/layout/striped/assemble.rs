//! Phase one of assembly: from levels to the lists' offsets, the NULL bitmaps and the places of values.
//!
//! Each node reads the levels of one leaf below it, 64 entries at a time. An entry is a *place* of the node if it does
//! not repeat within a list below the node and is an element of the list around it; it is an *element* of a list node
//! likewise, one list further down. A list's offset at a place is the number of elements before it.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, FieldRef};
use arrow::error::ArrowError;
use thermocline_hardware::Clock;

use super::levels::{BitmapWriter, WORD_ENTRIES, compress};
use super::{Leaf, Node, NodeKind, place};
use crate::layout::ReadTimes;

pub(super) struct Assembly<'a> {
    leaves: &'a [Leaf],
    clock: &'a dyn Clock,
    times: &'a mut ReadTimes,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(leaves: &'a [Leaf], clock: &'a dyn Clock, times: &'a mut ReadTimes) -> Self {
        Self { leaves, clock, times }
    }

    /// `node` at its `length` places.
    pub(super) fn column(&mut self, node: &Node, length: usize) -> Result<ArrayRef, ArrowError> {
        self.build(node, length, node.is_optional)
    }

    /// The field at the end of `path` below `node`, at the node's `length` places: NULL wherever anything between the
    /// innermost list above it and the field is.
    pub(super) fn field(&mut self, node: &Node, path: &[usize], length: usize) -> Result<ArrayRef, ArrowError> {
        let Some((&index, rest)) = path.split_first() else {
            return self.build(node, length, node.definition > node.place_definition);
        };
        match &node.kind {
            NodeKind::Struct { children, .. } if index < children.len() => self.field(&children[index], rest, length),
            NodeKind::List { field, element } => {
                let (offsets, nulls) = self.list(node, length, node.definition > node.place_definition)?;
                let elements = self.field(element, path, element_count(&offsets))?;
                let is_nullable = field.is_nullable() || leads_through_nullable(element, path);
                let field = Arc::new(Field::new(field.name(), elements.data_type().clone(), is_nullable));
                self.finish_list(field, offsets, elements, nulls)
            }
            _ => Err(ArrowError::InvalidArgumentError(format!("{} has no field {index}", node.data_type))),
        }
    }

    fn build(&mut self, node: &Node, length: usize, is_nullable: bool) -> Result<ArrayRef, ArrowError> {
        match &node.kind {
            NodeKind::Leaf => self.leaf(node, length, is_nullable),
            NodeKind::Struct { fields, children } => {
                let began_ns = self.clock.monotonic_ns();
                let nulls =
                    if is_nullable { Places::of(node, self.leaves).present(node.definition, length) } else { None };
                self.times.compute_ns += self.clock.monotonic_ns() - began_ns;
                let children =
                    children.iter().map(|child| self.column(child, length)).collect::<Result<Vec<_>, _>>()?;
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, length)?))
            }
            NodeKind::List { field, element } => {
                let (offsets, nulls) = self.list(node, length, is_nullable)?;
                let elements = self.column(element, element_count(&offsets))?;
                self.finish_list(Arc::clone(field), offsets, elements, nulls)
            }
        }
    }

    fn leaf(&mut self, node: &Node, length: usize, is_nullable: bool) -> Result<ArrayRef, ArrowError> {
        let began_ns = self.clock.monotonic_ns();
        let present = Places::of(node, self.leaves).present(node.definition, length);
        let found_ns = self.clock.monotonic_ns();
        let values = self.leaves[node.source].values.as_ref();
        let placed = place::place(values, present.as_ref(), is_nullable, length);
        self.times.compute_ns += found_ns - began_ns;
        self.times.data_ns += self.clock.monotonic_ns() - found_ns;
        placed
    }

    /// The offsets and NULLs of a list node.
    fn list(
        &mut self,
        node: &Node,
        length: usize,
        is_nullable: bool,
    ) -> Result<(OffsetBuffer<i32>, Option<NullBuffer>), ArrowError> {
        let began_ns = self.clock.monotonic_ns();
        let places = Places::of(node, self.leaves);
        let offsets = places.list_offsets(node.definition + 1, length)?;
        let nulls = if is_nullable { places.present(node.definition, length) } else { None };
        self.times.compute_ns += self.clock.monotonic_ns() - began_ns;
        Ok((offsets, nulls))
    }

    fn finish_list(
        &mut self,
        field: FieldRef,
        offsets: OffsetBuffer<i32>,
        elements: ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(ListArray::try_new(field, offsets, elements, nulls)?))
    }
}

fn element_count(offsets: &OffsetBuffer<i32>) -> usize {
    offsets.last().map_or(0, |&end| end as usize)
}

/// Is any field on `path` below `node`, up to the next list, declared as nullable?
fn leads_through_nullable(node: &Node, path: &[usize]) -> bool {
    match (&node.kind, path.split_first()) {
        (NodeKind::Struct { fields, children }, Some((&index, rest))) => {
            fields.get(index).is_some_and(|field| field.is_nullable())
                || children.get(index).is_some_and(|child| leads_through_nullable(child, rest))
        }
        _ => false,
    }
}

/// The places of a node among the entries of one leaf below it.
struct Places<'a> {
    leaf: &'a Leaf,
    definition: u8,
    repetition: u8,
    /// Every entry is a place.
    is_all: bool,
}

impl<'a> Places<'a> {
    fn of(node: &Node, leaves: &'a [Leaf]) -> Self {
        let leaf = &leaves[node.source];
        let (definition, repetition) = (node.place_definition, node.repetition);
        let is_all = leaf.repetitions.highest() <= repetition && leaf.definitions.lowest() >= definition;
        Self { leaf, definition, repetition, is_all }
    }

    /// Ones for the places among the 64 entries of word `index`.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        !self.leaf.repetitions.at_least(self.repetition + 1, index)
            & self.leaf.definitions.at_least(self.definition, index)
            & self.leaf.definitions.entries(index)
    }

    /// Which of the `length` places have a definition level of at least `threshold`; None: all of them.
    fn present(&self, threshold: u8, length: usize) -> Option<NullBuffer> {
        let definitions = &self.leaf.definitions;
        if definitions.lowest() >= threshold {
            return None;
        }
        if self.is_all
            && let Some(bitmap) = definitions.shared_bitmap(threshold)
        {
            return Some(NullBuffer::new(bitmap));
        }
        let mut bitmap = BitmapWriter::with_capacity(length);
        for index in 0..definitions.word_count() {
            let places = self.word(index);
            let present = definitions.at_least(threshold, index) & places;
            match places {
                u64::MAX => bitmap.append(present, WORD_ENTRIES),
                _ => bitmap.append(compress(present, places), places.count_ones() as usize),
            }
        }
        Some(NullBuffer::new(bitmap.finish())).filter(|present| present.null_count() > 0)
    }

    /// For each place, and for the end, how many entries before it are elements: of definition level
    /// `element_definition` or more, and not repeating within a list below the elements.
    fn list_offsets(&self, element_definition: u8, length: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
        let (definitions, repetitions) = (&self.leaf.definitions, &self.leaf.repetitions);
        let mut offsets = vec![0_i32; length + 1];
        // Every entry counts as an element but those of `missing`, which are few in the innermost list.
        let (mut place, mut missing_count) = (0, 0);
        for index in 0..definitions.word_count() {
            let entries = definitions.entries(index);
            let places = self.word(index);
            let elements =
                definitions.at_least(element_definition, index) & !repetitions.at_least(self.repetition + 2, index);
            let missing = !elements & entries;
            let first = index * WORD_ENTRIES;
            let mut visited = places | missing;
            while visited != 0 {
                let at = visited.trailing_zeros() as usize;
                offsets[place] = (first + at - missing_count) as i32;
                place += (places >> at & 1) as usize;
                missing_count += (missing >> at & 1) as usize;
                visited &= visited - 1;
            }
        }
        let element_count = definitions.entry_count() - missing_count;
        offsets[place] = i32::try_from(element_count).map_err(|_| ArrowError::OffsetOverflowError(element_count))?;
        debug_assert_eq!(place, length, "each place has an entry");
        Ok(OffsetBuffer::new(offsets.into()))
    }
}
