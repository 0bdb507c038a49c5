//! The drawing of a table whose widths are known.

use super::extent::pad;
use super::{Column, Row};
use crate::terminal::Paint;

/// Draws frames of given widths.
pub(super) struct Frame<'a> {
    pub(super) paint: Paint,
    pub(super) widths: &'a [usize],
}

impl Frame<'_> {
    pub(super) fn line(&self, left: char, between: char, right: char, out: &mut Vec<u8>) {
        let mut line = String::from(left);
        for (index, &width) in self.widths.iter().enumerate() {
            if index > 0 {
                line.push(between);
            }
            line.extend(std::iter::repeat_n('─', width + 2));
        }
        line.push(right);
        push_line(&self.paint.dim(&line), out);
    }

    pub(super) fn header(&self, columns: &[Column], out: &mut Vec<u8>) {
        self.line('┌', '┬', '┐', out);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.cells(columns, &names, |paint, name| paint.bold(name), out);
        self.line('├', '┼', '┤', out);
    }

    pub(super) fn gap(&self, out: &mut Vec<u8>) {
        let mut line = String::new();
        for &width in self.widths {
            line.push_str("│ ");
            line.push_str(&pad("·", width, false));
            line.push(' ');
        }
        line.push('│');
        push_line(&self.paint.dim(&line), out);
    }

    /// A row is as high as its highest cell.
    pub(super) fn row(&self, columns: &[Column], row: &Row, out: &mut Vec<u8>) {
        let height = row.iter().flatten().map(|text| text.split('\n').count()).max().unwrap_or(1);
        let mut lines: Vec<_> = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL").split('\n')).collect();
        for _ in 0..height {
            let cells: Vec<&str> = lines.iter_mut().map(|lines| lines.next().unwrap_or("")).collect();
            let is_null = |index: usize| row.get(index).is_some_and(Option::is_none);
            let mut index = 0;
            self.cells(
                columns,
                &cells,
                |paint, text| {
                    let painted = if is_null(index) { paint.dim(text) } else { text.to_owned() };
                    index += 1;
                    painted
                },
                out,
            );
        }
    }

    fn cells(
        &self,
        columns: &[Column],
        cells: &[&str],
        mut painted: impl FnMut(Paint, &str) -> String,
        out: &mut Vec<u8>,
    ) {
        let bar = self.paint.dim("│");
        let mut line = String::new();
        for ((column, text), &width) in columns.iter().zip(cells).zip(self.widths) {
            line.push_str(&bar);
            line.push(' ');
            line.push_str(&painted(self.paint, &pad(text, width, column.right)));
            line.push(' ');
        }
        line.push_str(&bar);
        push_line(&line, out);
    }
}

pub(super) fn push_line(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}
