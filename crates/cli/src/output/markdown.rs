//! A Markdown table, as GitHub and most others read it: pipes escaped, line breaks as `<br>`, numbers to the right.

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::cells::columns;
use super::{RowWriter, is_right_aligned};

/// Writes Markdown.
pub(super) struct MarkdownWriter {
    header: Option<Vec<u8>>,
    cell: Vec<u8>,
}

impl MarkdownWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let mut header = Vec::new();
        for field in schema.fields() {
            header.extend_from_slice(b"| ");
            push_escaped(field.name().as_bytes(), &mut header);
            header.push(b' ');
        }
        header.extend_from_slice(b"|\n");
        for field in schema.fields() {
            header.extend_from_slice(if is_right_aligned(field.data_type()) { b"| ---: " } else { b"| --- " });
        }
        header.extend_from_slice(b"|\n");
        Self { header: Some(header), cell: Vec::new() }
    }
}

impl RowWriter for MarkdownWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(header) = self.header.take() {
            out.extend_from_slice(&header);
        }
        let mut columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for column in &mut columns {
                out.extend_from_slice(b"| ");
                if column.is_null(row) {
                    out.extend_from_slice(b"*NULL*");
                } else {
                    self.cell.clear();
                    column.push(row, &mut self.cell)?;
                    push_escaped(&self.cell, out);
                }
                out.push(b' ');
            }
            out.extend_from_slice(b"|\n");
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

fn push_escaped(cell: &[u8], out: &mut Vec<u8>) {
    for &byte in cell {
        match byte {
            b'|' => out.extend_from_slice(b"\\|"),
            b'\n' => out.extend_from_slice(b"<br>"),
            b'\r' => {}
            other => out.push(other),
        }
    }
}
