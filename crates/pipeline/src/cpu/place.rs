//! Which page something is said of.

use thermocline_column_store::PageError;

use crate::PipelineError;

/// A page of a column, for messages.
#[derive(Debug, Clone)]
pub(super) struct PagePlace {
    pub(super) row_group: usize,
    pub(super) column: String,
}

impl PagePlace {
    pub(super) fn page_error(&self, source: PageError) -> PipelineError {
        PipelineError::Page { row_group: self.row_group, column: self.column.clone(), source }
    }

    pub(super) fn mismatch(&self, found: String, expected: String) -> PipelineError {
        PipelineError::PageMismatch { row_group: self.row_group, column: self.column.clone(), found, expected }
    }
}
