//! A result as a table for people: the first rows, long values cut, in box characters.

use std::fmt::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::PyResult;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::errors::InternalError;

/// Columns of the terminal that one value may take: two or three wide values still fit a line.
const VALUE_WIDTH: usize = 60;

/// The columns and the first `row_count` rows of `batches`, and a line that tells whether there are more.
pub(crate) fn draw(schema: &SchemaRef, batches: &[RecordBatch], row_count: usize) -> PyResult<String> {
    table(schema, batches, row_count).map_err(|error| InternalError::new_err(error.to_string()))
}

fn table(schema: &SchemaRef, batches: &[RecordBatch], row_count: usize) -> Result<String, ArrowError> {
    let header = vec![
        schema.fields().iter().map(|field| shorten(field.name())).collect::<Vec<_>>(),
        schema.fields().iter().map(|field| shorten(&field.data_type().to_string())).collect(),
    ];
    let options = FormatOptions::default().with_null("NULL").with_display_error(true);
    let mut rows = Vec::new();
    let mut has_more = false;
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        let taken = batch.num_rows().min(row_count - rows.len());
        rows.extend(
            (0..taken).map(|row| columns.iter().map(|column| shorten(&column.value(row).to_string())).collect()),
        );
        has_more |= taken < batch.num_rows();
    }
    let widths: Vec<usize> = (0..schema.fields().len())
        .map(|column| header.iter().chain(&rows).map(|row: &Vec<String>| row[column].width()).max().unwrap_or(0))
        .collect();
    let is_number: Vec<bool> = schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
    let mut text = String::new();
    rule(&mut text, &widths, ['┌', '┬', '┐']);
    for row in &header {
        line(&mut text, row, &widths, &is_number);
    }
    rule(&mut text, &widths, ['├', '┼', '┤']);
    for row in &rows {
        line(&mut text, row, &widths, &is_number);
    }
    rule(&mut text, &widths, ['└', '┴', '┘']);
    text.push_str(&match (has_more, rows.len()) {
        (true, shown) => format!("the first {shown} rows; there are more"),
        (false, 1) => "1 row".to_owned(),
        (false, count) => format!("{count} rows"),
    });
    Ok(text)
}

fn rule(text: &mut String, widths: &[usize], [left, middle, right]: [char; 3]) {
    text.push(left);
    for (index, width) in widths.iter().enumerate() {
        if index > 0 {
            text.push(middle);
        }
        text.extend(std::iter::repeat_n('─', width + 2));
    }
    text.push(right);
    text.push('\n');
}

fn line(text: &mut String, row: &[String], widths: &[usize], is_number: &[bool]) {
    for ((value, width), is_number) in row.iter().zip(widths).zip(is_number) {
        let gap = " ".repeat(width - value.width());
        // Writing to a String cannot fail.
        let _ = if *is_number { write!(text, "│ {gap}{value} ") } else { write!(text, "│ {value}{gap} ") };
    }
    text.push_str("│\n");
}

/// One line of at most [`VALUE_WIDTH`] columns.
fn shorten(value: &str) -> String {
    let mut short = String::new();
    let mut width = 0;
    for letter in value.chars() {
        let shown: String = if letter.is_control() { letter.escape_default().collect() } else { letter.into() };
        let letter_width = shown.chars().map(|part| part.width().unwrap_or(0)).sum::<usize>();
        if width + letter_width >= VALUE_WIDTH {
            short.push('…');
            break;
        }
        width += letter_width;
        short.push_str(&shown);
    }
    short
}
