//! Pieces of a map to a map.

use std::collections::BTreeMap;

use thermocline_predicate::FieldPath;

use super::field_offsets::FieldOffsets;
use super::{MapPiece, PositionalMap};
use crate::RecordPositions;

/// Gathers the [`MapPiece`]s of one scan of a whole file, in any order.
///
/// What it holds stays within a limit: when it would not, the offsets of the field that takes most are given up, and
/// when no field is left, everything.
#[derive(Debug)]
pub struct PositionalMapBuilder {
    limit_bytes: usize,
    records: RecordPositions,
    /// Offsets of fields; `None` for one given up.
    fields: Vec<(FieldPath, Option<FieldOffsets>)>,
    /// Pieces behind one that is still to come, by their morsels.
    waiting: BTreeMap<u64, MapPiece>,
    /// The morsel to come next.
    next: u64,
    is_given_up: bool,
}

impl PositionalMapBuilder {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            records: RecordPositions::default(),
            fields: Vec::new(),
            waiting: BTreeMap::new(),
            next: 0,
            is_given_up: false,
        }
    }

    /// Adds the piece of the morsel numbered `index`.
    pub fn add(&mut self, index: u64, piece: MapPiece) {
        if self.is_given_up {
            return;
        }
        if piece.is_spoilt {
            self.give_up();
            return;
        }
        self.waiting.insert(index, piece);
        while let Some(piece) = self.waiting.remove(&self.next) {
            self.append(piece);
            self.next += 1;
        }
        self.keep_limit();
    }

    fn append(&mut self, piece: MapPiece) {
        if self.next == 0 {
            // A path read as several types is one field.
            for (path, _) in &piece.fields {
                if !self.fields.iter().any(|(known, _)| known == path) {
                    self.fields.push((path.clone(), Some(FieldOffsets::default())));
                }
            }
        }
        for (path, field) in &mut self.fields {
            match (piece.fields.iter().find(|(known, _)| known == path), &mut *field) {
                (Some((_, offsets)), Some(field)) => field.append(offsets),
                _ => *field = None,
            }
        }
        self.records.append(&piece.records);
    }

    fn keep_limit(&mut self) {
        while self.size_bytes() > self.limit_bytes {
            let sizes = self.fields.iter().enumerate().map(|(at, (_, field))| (at, field.as_ref()));
            let largest = sizes.filter_map(|(at, field)| Some((field?.size_bytes(), at))).max();
            let Some((_, at)) = largest else { return self.give_up() };
            let path = self.fields[at].0.clone();
            self.fields[at].1 = None;
            self.waiting.values_mut().for_each(|piece| piece.fields.retain(|(known, _)| known != &path));
        }
    }

    fn give_up(&mut self) {
        *self = Self { is_given_up: true, ..Self::new(0) };
    }

    /// Bytes held on the heap, the pieces that wait included.
    pub fn size_bytes(&self) -> usize {
        let fields = self.fields.iter().filter_map(|(_, field)| field.as_ref());
        let waiting: usize = self.waiting.values().map(MapPiece::size_bytes).sum();
        self.records.size_bytes() + fields.map(FieldOffsets::size_bytes).sum::<usize>() + waiting
    }

    /// The map of a file whose records end at `end_bytes`. `None` when it outgrew its limit, when a record could not be
    /// read, or when a morsel's piece is missing.
    pub fn finish(mut self, end_bytes: u64) -> Option<PositionalMap> {
        if self.is_given_up || !self.waiting.is_empty() || self.records.last().is_some_and(|last| last >= end_bytes) {
            return None;
        }
        self.records.shrink_to_fit();
        let fields = self.fields.into_iter().filter_map(|(path, field)| {
            let mut field = field?;
            field.shrink_to_fit();
            Some((path, field))
        });
        Some(PositionalMap { records: self.records.into(), fields: fields.collect(), end_bytes })
    }
}
