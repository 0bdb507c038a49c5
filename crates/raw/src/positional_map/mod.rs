//! Where records and fields are in a raw file, so that a later scan need not look for them.
//!
//! **Owns**: [`PositionalMap`]: offsets of all records of a file, and of the fields that scans touched; how it grows
//! from the pieces of a scan ([`PositionalMapBuilder`]) and is written and read (`image`).
//!
//! **Does not own**: noting offsets and reading by them (the decoders), whether the file is still the same (the caller
//! compares its version), where a map is kept.
//!
//! **Invariants**
//! - Every record that is not a blank line has a position; every field of the map has a code for every record.
//! - A map comes from a scan that found nothing wrong. What the map does not know of a record is looked for in it.
//!
//! **Concurrency**: a map never changes once it is made; a builder belongs to one thread at a time.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.1, which takes positional maps from NoDB (SIGMOD 2012, §4.2). Deviations: offsets
//! of a field count from its record's start, not from the nearest known field; a map has no holes by column, for it is
//! made by a whole scan or not at all.

mod builder;
mod field_offsets;
mod image;
mod piece;

use std::sync::Arc;

use thermocline_predicate::FieldPath;

pub use builder::PositionalMapBuilder;
pub(crate) use field_offsets::{ABSENT, FIRST_OFFSET, UNKNOWN, code_of};
pub use piece::MapPiece;

use crate::RecordPositions;
use field_offsets::FieldOffsets;

/// Offsets of a file's records and of some of their fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionalMap {
    records: Arc<RecordPositions>,
    fields: Vec<(FieldPath, FieldOffsets)>,
    end_bytes: u64,
}

impl PositionalMap {
    /// Gathers a map that takes at most `limit_bytes`.
    pub fn builder(limit_bytes: usize) -> PositionalMapBuilder {
        PositionalMapBuilder::new(limit_bytes)
    }

    /// Where all the file's records are.
    pub fn records(&self) -> &Arc<RecordPositions> {
        &self.records
    }

    /// The offset at which the last record ends, at the latest.
    pub fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Paths of the fields whose offsets are known. Of CSV files they are the columns' names.
    pub fn paths(&self) -> impl Iterator<Item = &FieldPath> {
        self.fields.iter().map(|(path, _)| path)
    }

    /// Whether a scan that reads the fields at `paths`, of which those below `list` are its elements', finds all that
    /// it reads by the map: of what is below the list, the list.
    pub fn knows<'a>(&self, paths: impl IntoIterator<Item = &'a FieldPath>, list: Option<&'a FieldPath>) -> bool {
        let paths = paths.into_iter().filter(|path| list.is_none_or(|list| !path.starts_with(list)));
        self.records.is_empty() || paths.chain(list).all(|path| self.field_of(path).is_some())
    }

    /// This map with the fields of `other`, a map of the same file; where both know a field, what either knows of it.
    /// `None` when they are not of the same records.
    pub fn merged(&self, other: &Self) -> Option<Self> {
        if self.records != other.records || self.end_bytes != other.end_bytes {
            return None;
        }
        let mut merged = self.clone();
        for (path, theirs) in &other.fields {
            match merged.fields.iter_mut().find(|(known, _)| known == path) {
                None => merged.fields.push((path.clone(), theirs.clone())),
                Some((_, ours)) => {
                    let mut both = FieldOffsets::default();
                    for record in 0..theirs.len() {
                        let code = ours.get(record);
                        both.push(if code == UNKNOWN { theirs.get(record) } else { code });
                    }
                    both.shrink_to_fit();
                    *ours = both;
                }
            }
        }
        Some(merged)
    }

    /// Bytes held on the heap.
    pub fn size_bytes(&self) -> usize {
        self.records.size_bytes() + self.fields.iter().map(|(_, field)| field.size_bytes()).sum::<usize>()
    }

    /// The number of a field of the map.
    pub(crate) fn field_of(&self, path: &FieldPath) -> Option<usize> {
        self.fields.iter().position(|(known, _)| known == path)
    }

    /// The codes of these fields, of which some may be no field of the map, for each of `records`, record by record.
    pub(crate) fn codes(&self, records: std::ops::Range<usize>, fields: &[Option<usize>]) -> Vec<u32> {
        let mut codes = vec![UNKNOWN; records.len() * fields.len()];
        for (at, field) in fields.iter().enumerate() {
            if let (Some(field), Some(codes)) = (*field, codes.get_mut(at..)) {
                self.fields[field].1.read(records.clone(), codes, fields.len());
            }
        }
        codes
    }
}

/// Some records of a file as a map knows them.
#[derive(Debug, Clone, Copy)]
pub struct MappedRecords<'a> {
    /// Offsets in the file of their first bytes, ascending.
    pub(crate) starts: &'a [u64],
    /// Where the last of them ends, at the latest.
    pub(crate) end: u64,
    /// For each record a code for each of the decoder's [`map_paths`](crate::Decoder::map_paths).
    pub(crate) codes: &'a [u32],
}

impl<'a> MappedRecords<'a> {
    /// Each record's bytes as positions in a buffer that begins at `offset` in the file and has `length` bytes, and its
    /// codes, `width` a record.
    pub(crate) fn iter(
        self,
        offset: u64,
        length: usize,
        width: usize,
    ) -> impl Iterator<Item = (std::ops::Range<usize>, &'a [u32])> {
        let place = move |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(length).min(length);
        (0..self.starts.len()).map(move |index| {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.end);
            (place(self.starts[index])..place(end), &self.codes[index * width..][..width])
        })
    }
}
