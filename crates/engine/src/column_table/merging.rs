//! Rows of small segments that are written anew together with an insert's, so that many small inserts leave few
//! segments.
//!
//! Which ones is for `placement` to say (`segment_merging`). Merging only saves work later: where the rows find no
//! memory, or cannot be read, the segments stay as they are, and who asks for them is told what is wrong.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use thermocline_budget::{Account, Reservation};
use thermocline_column_store::{ColumnTable, Entry, EntryName, MINI_BLOCK_VALUES, ROW_GROUP_ROWS, SegmentInfo};
use thermocline_placement::segment_merging::merged_segment_count;
use tokio::task::spawn_blocking;

use super::ColumnTables;
use super::store::{OpenSegment, OpenTable};
use crate::error::{Error, Result};
use crate::raw_table::listing::external;

/// Segments of so many rows are left alone: with two of them a row group is full.
pub(super) const FULL_ROWS: u64 = ROW_GROUP_ROWS as u64 / 2;

/// Rows decoded at once: the batches that DataFusion makes by itself.
const BATCH_ROWS: usize = 8192;

/// A batch and the memory that is reserved for it.
pub(super) type ReservedBatch = (RecordBatch, Reservation);

/// The last segments of a table, and their rows.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) rows: Vec<ReservedBatch>,
}

impl Tail {
    /// What of a table is to be written anew together with so many rows; nothing if that cannot be had.
    pub(super) async fn to_merge(
        tables: &Arc<ColumnTables>,
        name: &EntryName,
        schema: &SchemaRef,
        account: &Account,
        added_rows: u64,
    ) -> Self {
        let manifest = tables.manifest();
        let Some(Entry::ColumnTable(table)) = manifest.entries.get(name) else { return Self::default() };
        let row_counts: Vec<u64> = table.segments.iter().map(|segment| segment.row_count).collect();
        let count = merged_segment_count(&row_counts, added_rows, FULL_ROWS);
        if count == 0 || !table.is_still(schema) {
            return Self::default();
        }
        let segments = table.segments[table.segments.len() - count..].to_vec();
        let (tables, name, account) = (Arc::clone(tables), name.clone(), account.clone());
        let wanted = segments.clone();
        match spawn_blocking(move || rows_of(&tables, &name, &wanted, &account)).await {
            Ok(Ok(rows)) => Self { segments, rows },
            _ => Self::default(),
        }
    }

    /// Puts other segments in the place of these; `false` if the table no longer has them.
    pub(super) fn replace(&self, table: &mut ColumnTable, merged: &[SegmentInfo]) -> bool {
        let Range { start, end } = match place_of(&self.segments, &table.segments) {
            Some(place) => place,
            None => return false,
        };
        table.segments.splice(start..end, merged.iter().cloned());
        true
    }
}

/// Where `part` is within `whole`; at its end if it is empty.
fn place_of(part: &[SegmentInfo], whole: &[SegmentInfo]) -> Option<Range<usize>> {
    let Some(first) = part.first() else { return Some(whole.len()..whole.len()) };
    let start = whole.iter().position(|segment| segment == first)?;
    let place = start..start + part.len();
    (whole.get(place.clone()) == Some(part)).then_some(place)
}

/// The rows of some segments of a table. Blocks on I/O.
fn rows_of(
    tables: &ColumnTables,
    name: &EntryName,
    wanted: &[SegmentInfo],
    account: &Account,
) -> Result<Vec<ReservedBatch>> {
    let table = tables.table(name)?;
    let mut rows = Vec::new();
    for info in wanted {
        let found = table
            .iter()
            .find_map(|table| table.segments.iter().find(|open| open.segment.info() == info).map(|open| (table, open)));
        let Some((table, open)) = found else {
            return Err(Error::input(format!("table {name} has no segment {} any more", info.name)));
        };
        for row_group in 0..open.segment.row_groups().len() {
            decode(table, open, row_group, account, &mut rows)?;
        }
    }
    Ok(rows)
}

/// Adds the rows of one row group, each batch reserved once it is known how large it is.
fn decode(
    table: &OpenTable,
    open: &OpenSegment,
    row_group: usize,
    account: &Account,
    rows: &mut Vec<ReservedBatch>,
) -> Result<()> {
    let segment = &open.segment;
    let group = &segment.row_groups()[row_group];
    let stored_bytes: usize = group.pages().iter().map(|place| place.stored_bytes()).sum();
    let _stored = account.try_reserve(stored_bytes as u64).map_err(external)?;
    let mut stored = Vec::with_capacity(group.pages().len());
    for place in group.pages() {
        let mut bytes = vec![0; place.stored_bytes()];
        table.medium.read_at(segment.file(), place.offset_bytes(), &mut bytes).map_err(external)?;
        stored.push(bytes);
    }
    let checked = stored.iter().enumerate().map(|(column, bytes)| segment.check_page(row_group, column, bytes));
    let pages = checked.collect::<Result<Vec<_>, _>>().map_err(external)?;
    let block_count = group.row_count().div_ceil(MINI_BLOCK_VALUES);
    let step = BATCH_ROWS / MINI_BLOCK_VALUES;
    for start in (0..block_count).step_by(step) {
        let blocks = start..(start + step).min(block_count);
        let fields = pages.iter().zip(table.schema.fields());
        let columns = fields.map(|(page, field)| page.decode_range(blocks.clone(), field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(external)?;
        let batch = RecordBatch::try_new(Arc::clone(&table.schema), columns).map_err(external)?;
        let reserved = account.try_reserve(batch.get_array_memory_size() as u64).map_err(external)?;
        rows.push((batch, reserved));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn segments(numbers: &[u64]) -> Vec<SegmentInfo> {
        let segment = |number: &u64| SegmentInfo {
            name: format!("{number:08}.segment"),
            size_bytes: 4096,
            row_count: 1,
            footer_checksum: *number,
        };
        numbers.iter().map(segment).collect()
    }

    #[test]
    fn merged_segments_take_the_place_of_theirs_wherever_that_is_by_then() {
        let tail = Tail { segments: segments(&[3, 4]), rows: Vec::new() };
        let after = |before: &[u64]| {
            let mut table =
                ColumnTable::with_segments(Arc::new(datafusion::arrow::datatypes::Schema::empty()), segments(before));
            tail.replace(&mut table, &segments(&[9]))
                .then(|| table.segments.iter().map(|s| s.footer_checksum).collect())
        };
        let expected: [(&[u64], Option<Vec<u64>>); 6] = [
            (&[1, 3, 4], Some(vec![1, 9])),
            // Rows were added meanwhile.
            (&[1, 3, 4, 5], Some(vec![1, 9, 5])),
            // Merged, or replaced, by somebody else.
            (&[1, 7], None),
            (&[3], None),
            (&[4, 3], None),
            (&[], None),
        ];
        for (before, expected) in expected {
            assert_eq!(after(before), expected, "{before:?}");
        }
        let nothing = Tail::default();
        let mut table =
            ColumnTable::with_segments(Arc::new(datafusion::arrow::datatypes::Schema::empty()), segments(&[1]));
        assert!(nothing.replace(&mut table, &segments(&[2])));
        assert_eq!(table.segments, segments(&[1, 2]));
    }
}
