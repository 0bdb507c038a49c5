//! Rows one below the other, a field a line: for few rows that are too wide to stand beside each other.

use super::extent::{pad, width_of};
use super::frame::push_line;
use super::{Column, Row};
use crate::terminal::Paint;

/// Appends `rows`. Lines of a value after its first stand below it.
pub(super) fn push(columns: &[Column], rows: &[Row], paint: Paint, out: &mut Vec<u8>) {
    let name_width = columns.iter().map(|column| width_of(&column.name)).max().unwrap_or(0);
    for (index, row) in rows.iter().enumerate() {
        if rows.len() > 1 {
            push_line(&paint.dim(&format!("── row {} ──", index + 1)), out);
        }
        for (column, cell) in columns.iter().zip(row) {
            let name = paint.bold(&pad(&column.name, name_width, false));
            let Some(text) = cell else {
                push_line(&format!("{name}  {}", paint.dim("NULL")), out);
                continue;
            };
            for (line_index, line) in text.split('\n').enumerate() {
                let head = if line_index == 0 { name.as_str() } else { &" ".repeat(name_width) };
                push_line(format!("{head}  {line}").trim_end(), out);
            }
        }
    }
}
