//! A Markdown table, as GitHub and most others read it: pipes escaped, line breaks as `<br>`, numbers to the right.
//! Backslashes stand for themselves: one that would escape what follows is doubled.

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
    for (index, &byte) in cell.iter().enumerate() {
        let next = cell.get(index + 1);
        match byte {
            b'|' => out.extend_from_slice(b"\\|"),
            b'\r' if next == Some(&b'\n') => {}
            b'\n' | b'\r' => out.extend_from_slice(b"<br>"),
            // Before punctuation it is an escape, and a line break is written with some.
            b'\\' if next.is_some_and(|next| next.is_ascii_punctuation() || matches!(next, b'\n' | b'\r')) => {
                out.extend_from_slice(b"\\\\");
            }
            other => out.push(other),
        }
    }
}
