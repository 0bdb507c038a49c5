//! One JSON object a line. Every object names every column, NULL ones too.
//!
//! Columns whose names are there twice get a suffix, as names within objects do (`x`, `x_1`). Infinities and NaN, which
//! JSON lacks, are `null`; dates and times beyond the calendar are numbers.

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::RowWriter;
use super::json_value::{JsonValue, NotFinite, openings};

/// Writes lines of JSON.
pub(super) struct JsonWriter {
    /// What stands before each value: `{"a":`, then `,"b":` and so on.
    openings: Vec<Vec<u8>>,
}

impl JsonWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        Self { openings: openings(schema.fields().iter().map(|field| field.name().as_str())) }
    }
}

impl RowWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let fields = batch.schema_ref().fields();
        let mut columns = Vec::with_capacity(fields.len());
        for (field, array) in fields.iter().zip(batch.columns()) {
            columns.push(JsonValue::new(field, array, NotFinite::Null)?);
        }
        for row in 0..batch.num_rows() {
            for (opening, column) in self.openings.iter().zip(&mut columns) {
                out.extend_from_slice(opening);
                column.push(row, out)?;
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), ArrowError> {
        Ok(())
    }
}
