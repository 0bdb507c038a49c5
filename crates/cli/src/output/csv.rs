//! CSV by RFC 4180: fields in quotes where they must be, quotes inside doubled. Lines end with a newline alone.
//!
//! NULL is an empty field and the empty string is `""`, so that they can be told apart. A line that would be empty (one
//! column, NULL) is `""` too: most readers skip empty lines, and a row must not vanish.

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::RowWriter;
use super::cells::columns;

/// Writes CSV.
pub(super) struct CsvWriter {
    header: Option<Vec<u8>>,
    field: Vec<u8>,
}

impl CsvWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let mut header = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                header.push(b',');
            }
            push_field(field.name().as_bytes(), &mut header);
        }
        header.push(b'\n');
        Self { header: Some(header), field: Vec::new() }
    }
}

impl RowWriter for CsvWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        let mut columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            let line_start = out.len();
            for (index, column) in columns.iter_mut().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                if !column.is_null(row) {
                    self.field.clear();
                    column.push(row, &mut self.field)?;
                    push_field(&self.field, out);
                }
            }
            if out.len() == line_start {
                out.extend_from_slice(b"\"\"");
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        Ok(())
    }
}

/// Appends one field.
fn push_field(field: &[u8], out: &mut Vec<u8>) {
    let needs_quotes = field.is_empty() || field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if !needs_quotes {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for &byte in field {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
