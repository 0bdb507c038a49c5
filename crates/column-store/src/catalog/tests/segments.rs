//! Real segments for the changes that crashes and faults are tried on: their rows follow from their names.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use thermocline_medium::Medium;

use super::changes::columns;
use super::story::Outcome;
use crate::SegmentInfo;
use crate::catalog::PendingSegment;
use crate::catalog::segment_names::number_of;
use crate::segment::tests::tables::Table;

/// Segments whose numbers differ by less have different rows.
const TABLE_COUNT: usize = 8;

/// Two row groups, with NULLs.
fn table(number: usize) -> Table {
    let batch = |start: i64| {
        let numbers = start..start + 150;
        let a: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone().map(|at| at * at % 977)));
        let b: ArrayRef =
            Arc::new(StringArray::from_iter(numbers.map(|at| (at % 5 != 0).then(|| format!("text {}", at % 31)))));
        vec![RecordBatch::try_new(columns(), vec![a, b]).unwrap()]
    };
    let start = 1000 * number as i64;
    Table::of(&columns(), &[batch(start), batch(start + 500)])
}

/// The rows of the segment of this name.
fn table_of(name: &str) -> Outcome<&'static Table> {
    static TABLES: OnceLock<Vec<Table>> = OnceLock::new();
    let number = number_of(name).ok_or_else(|| format!("{name} is no segment's name"))?;
    Ok(&TABLES.get_or_init(|| (0..TABLE_COUNT).map(table).collect())[number as usize % TABLE_COUNT])
}

pub(super) fn write(medium: &Arc<dyn Medium>, pending: &PendingSegment) -> Outcome<SegmentInfo> {
    Ok(table_of(pending.name())?.write(medium, pending.name())?)
}

pub(super) fn require_whole(medium: &Arc<dyn Medium>, segment: &SegmentInfo) -> Outcome {
    match table_of(&segment.name)?.compare(medium, segment)? {
        true => Ok(()),
        false => Err(format!("{} has other rows than were written", segment.name).into()),
    }
}
