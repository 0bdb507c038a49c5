//! What one morsel adds to a positional map.

use thermocline_predicate::FieldPath;

use super::field_offsets::FieldOffsets;
use crate::RecordPositions;

/// Positions of a morsel's records, and of the fields that its decoder looked for.
#[derive(Debug, Clone)]
pub struct MapPiece {
    pub(super) records: RecordPositions,
    pub(super) fields: Vec<(FieldPath, FieldOffsets)>,
    /// Whether a record could not be read: nobody knows where its fields are.
    pub(super) is_spoilt: bool,
}

impl MapPiece {
    /// An empty piece for fields at `paths`; one that is named twice counts twice.
    pub(crate) fn new(paths: &[FieldPath]) -> Self {
        let fields = paths.iter().map(|path| (path.clone(), FieldOffsets::default())).collect();
        Self { records: RecordPositions::default(), fields, is_spoilt: false }
    }

    /// Adds a record at `offset` in the file whose fields have these codes, in the order of the paths.
    #[inline]
    pub(crate) fn push(&mut self, offset: u64, codes: impl Iterator<Item = u32>) {
        self.records.push(offset);
        for ((_, field), code) in self.fields.iter_mut().zip(codes) {
            field.push(code);
        }
    }

    /// Notes that a record could not be read.
    pub(crate) fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// Hands over what was gathered and starts anew.
    pub(crate) fn take(&mut self) -> Self {
        let fields = self.fields.iter_mut().map(|(path, field)| (path.clone(), std::mem::take(field))).collect();
        Self { records: std::mem::take(&mut self.records), fields, is_spoilt: std::mem::take(&mut self.is_spoilt) }
    }

    /// Bytes held on the heap.
    pub fn size_bytes(&self) -> usize {
        self.records.size_bytes() + self.fields.iter().map(|(_, field)| field.size_bytes()).sum::<usize>()
    }
}
