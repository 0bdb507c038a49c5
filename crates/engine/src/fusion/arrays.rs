//! Record batches in memory as row groups, cut into slices that threads can share.
//!
//! **Concurrency**: views.

use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use thermocline_pipeline::{PageFacts, PageSource, SourceColumn};

use super::chunks::{SLICE_ROWS, slices};

/// See the module.
pub(super) struct Arrays<'r> {
    batches: &'r [RecordBatch],
    /// Of a batch, from which row on, and how many.
    slices: Vec<(usize, usize, usize)>,
}

impl<'r> Arrays<'r> {
    pub(super) fn new(batches: &'r [RecordBatch]) -> Self {
        let of_batch = |(number, batch): (usize, &RecordBatch)| {
            slices(batch.num_rows(), SLICE_ROWS).map(move |(first, count)| (number, first, count)).collect::<Vec<_>>()
        };
        let slices = batches.iter().enumerate().flat_map(of_batch).collect();
        Self { batches, slices }
    }
}

impl PageSource for Arrays<'_> {
    fn row_group_count(&self) -> usize {
        self.slices.len()
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.slices[row_group].2
    }

    fn facts(&self, _row_group: usize, _column: usize) -> Option<PageFacts<'_>> {
        None
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        let (batch, first, count) = self.slices[row_group];
        let array = self.batches[batch].columns().get(column).ok_or_else(|| format!("no column {column}"))?;
        Ok(SourceColumn::Array(match array.len() == count {
            true => Arc::clone(array),
            false => array.slice(first, count),
        }))
    }
}
