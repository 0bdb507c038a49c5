//! Rows as text: the four formats and what they share.
//!
//! Owns the text of results. Does not own where it goes: a writer appends bytes to a buffer, whoever drives it writes
//! them out. Values are rendered in one place (`cells`), so that a value looks the same in every format but for its
//! quoting.
//!
//! CSV, JSON and Markdown stream: nothing is kept of a batch once it is rendered. A table needs the widths of its
//! columns first; see `table` for how it stays bounded.

mod cells;
mod csv;
mod display;
mod json;
mod json_value;
mod markdown;
mod table;
#[cfg(test)]
mod tests;

use clap::ValueEnum;
use thermocline_engine::arrow::datatypes::{DataType, SchemaRef};
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

pub(crate) use table::Screen;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Box drawing, numbers to the right. On a terminal long results are cut
    Table,
    /// RFC 4180 with a header line. The empty string is ""; NULL is empty, but "" where there is one column
    Csv,
    /// One JSON object a line, nested values as JSON
    Json,
    /// A Markdown table
    Markdown,
}

impl Format {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Markdown => "markdown",
        }
    }

    /// A writer for one result. With a `screen` a table is cut to what fits there; without, never.
    pub(crate) fn writer(self, schema: &SchemaRef, screen: Option<Screen>) -> Box<dyn RowWriter> {
        match self {
            Self::Table => Box::new(table::TableWriter::new(schema, screen)),
            Self::Csv => Box::new(csv::CsvWriter::new(schema)),
            Self::Json => Box::new(json::JsonWriter::new(schema)),
            Self::Markdown => Box::new(markdown::MarkdownWriter::new(schema)),
        }
    }
}

/// Turns the batches of one result into text, in order.
pub(crate) trait RowWriter: Send {
    /// Appends what can be printed of `batch` now.
    ///
    /// # Errors
    /// When a type has no text form.
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError>;

    /// Appends what is left, after the last batch; a result without rows has a header too, where the format has one.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError>;
}

/// Numbers line up by their last digit.
fn is_right_aligned(data_type: &DataType) -> bool {
    data_type.is_numeric()
}
