//! A table in box drawing.
//!
//! On a screen the result is cut to what can be looked at: some rows from its beginning and end, columns narrowed to
//! the window, the middle ones left out when even that is not enough. Numbers are never narrowed: a cut number is a
//! wrong number. A result of a few rows that does not fit is shown row by row, one field a line, nothing cut. A footer
//! tells what there is and what is shown.
//!
//! Elsewhere nothing is ever cut. Widths come from the first rows, up to [`WINDOW_ROWS`] or [`WINDOW_BYTES`] of text;
//! later ones are printed as they come, and push their frame to the right where they are wider, so that a result of any
//! length takes bounded memory.

mod extent;
mod fit;
mod frame;
mod records;

use std::collections::VecDeque;

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use self::extent::shorten;
use self::fit::{fit, leave_out, natural_widths};
use self::frame::{Frame, push_line};
use super::cells::columns;
use super::{RowWriter, is_right_aligned};
use crate::figures::count_text;
use crate::terminal::{Paint, printable};

/// Rows shown on a screen: as many as two glances take. One more, and the middle is left out.
const SHOWN_ROWS: usize = 40;
/// Rows shown of each end of a result that is cut.
const END_ROWS: usize = 10;
/// Rows that set the widths where nothing is cut: a batch of the engine.
const WINDOW_ROWS: usize = 8192;
/// Text of them after which the widths are set, however few rows it is of: they are held until then.
const WINDOW_BYTES: usize = 1 << 20;
/// The widest that a column is drawn where nothing is cut: all rows are filled up with blanks to its width, and one long
/// text must not make megabytes of each of them. What is wider pushes its frame to the right.
const WIDEST_COLUMNS: usize = 4096;
/// A result of so few rows that does not fit is shown row by row instead, uncut.
const RECORD_ROWS: usize = 4;

/// The window a table is printed in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// Columns of the window.
    pub(crate) width_columns: usize,
    /// Its colours.
    pub(crate) paint: Paint,
}

/// A row's cells; `None` is NULL.
type Row = Vec<Option<String>>;

/// Writes tables.
pub(super) struct TableWriter {
    columns: Vec<Column>,
    screen: Option<Screen>,
    row_count: usize,
    /// The first rows: those a screen may show, or those that set the widths.
    first: Vec<Row>,
    /// The text in them.
    first_bytes: usize,
    /// On a screen: slices that hold at least the last [`END_ROWS`] rows.
    last: VecDeque<RecordBatch>,
    /// Widths, once the header is printed.
    widths: Option<Vec<usize>>,
    scratch: Vec<u8>,
}

struct Column {
    name: String,
    right: bool,
}

impl TableWriter {
    pub(super) fn new(schema: &SchemaRef, screen: Option<Screen>) -> Self {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        // A plan is a drawing of many lines: neither cut nor torn apart can it be read.
        let screen = screen.map(|screen| match names.as_slice() {
            ["plan_type", "plan"] => Screen { width_columns: usize::MAX, ..screen },
            _ => screen,
        });
        let columns = schema
            .fields()
            .iter()
            // A header is one line, whatever the name.
            .map(|field| Column {
                name: printable(field.name()).replace('\n', "\\n"),
                right: is_right_aligned(field.data_type()),
            })
            .collect();
        Self {
            columns,
            screen,
            row_count: 0,
            first: Vec::new(),
            first_bytes: 0,
            last: VecDeque::new(),
            widths: None,
            scratch: Vec::new(),
        }
    }

    /// Renders rows `range` of `batch` and hands each to `take`.
    fn rows(
        &mut self,
        batch: &RecordBatch,
        range: std::ops::Range<usize>,
        mut take: impl FnMut(&mut Self, Row),
    ) -> Result<(), ArrowError> {
        let mut columns = columns(batch)?;
        for index in range {
            let mut row = Row::with_capacity(columns.len());
            for column in &mut columns {
                row.push(if column.is_null(index) {
                    None
                } else {
                    self.scratch.clear();
                    column.push(index, &mut self.scratch)?;
                    let text = String::from_utf8_lossy(&self.scratch);
                    // A line break at the end would be an empty line. The word in quotes is a string, the bare one NULL.
                    Some(match text.trim_end_matches('\n') {
                        "NULL" => "\"NULL\"".to_owned(),
                        text => printable(text),
                    })
                });
            }
            take(self, row);
        }
        Ok(())
    }

    fn row_count_text(&self) -> String {
        match self.row_count {
            1 => "1 row".to_owned(),
            count => format!("{} rows", count_text(count as u64)),
        }
    }

    fn keep_last(&mut self, batch: &RecordBatch) {
        let kept = batch.num_rows().min(END_ROWS);
        self.last.push_back(batch.slice(batch.num_rows() - kept, kept));
        let mut kept_rows: usize = self.last.iter().map(RecordBatch::num_rows).sum();
        while let Some(oldest) = self.last.front() {
            if kept_rows - oldest.num_rows() < END_ROWS {
                break;
            }
            kept_rows -= oldest.num_rows();
            self.last.pop_front();
        }
    }

    /// Prints `row`, or keeps it until there are enough for the widths.
    fn take(&mut self, row: Row, out: &mut Vec<u8>) {
        if let Some(widths) = &self.widths {
            Frame { paint: Paint::PLAIN, widths }.row(&self.columns, &row, out);
            return;
        }
        self.first_bytes += row.iter().flatten().map(String::len).sum::<usize>();
        self.first.push(row);
        if self.first.len() >= WINDOW_ROWS || self.first_bytes >= WINDOW_BYTES {
            self.start(out);
        }
    }

    /// Prints the header and the rows gathered so far, whose widths hold from now on.
    fn start(&mut self, out: &mut Vec<u8>) {
        let mut widths = natural_widths(&self.columns, &self.first);
        widths.iter_mut().for_each(|width| *width = (*width).min(WIDEST_COLUMNS));
        let frame = Frame { paint: Paint::PLAIN, widths: &widths };
        frame.header(&self.columns, out);
        for row in self.first.drain(..) {
            frame.row(&self.columns, &row, out);
        }
        self.widths = Some(widths);
    }

    fn finish_on(&mut self, screen: Screen, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut rows = std::mem::take(&mut self.first);
        let is_cut = self.row_count > SHOWN_ROWS;
        if is_cut {
            rows.truncate(END_ROWS);
            let mut ending = VecDeque::new();
            for batch in std::mem::take(&mut self.last) {
                self.rows(&batch, 0..batch.num_rows(), |_, row| ending.push_back(row))?;
            }
            rows.extend(ending.split_off(ending.len() - END_ROWS));
        }
        let total_columns = self.columns.len();
        let widths = natural_widths(&self.columns, &rows);
        let needed_columns = widths.iter().sum::<usize>() + 3 * widths.len() + 1;
        if (1..=RECORD_ROWS).contains(&rows.len()) && needed_columns > screen.width_columns {
            records::push(&self.columns, &rows, screen.paint, out);
            push_line(&screen.paint.dim(&self.row_count_text()), out);
            return Ok(());
        }
        let fitted = fit(&self.columns, &widths, screen.width_columns);
        let shown_columns = fitted.shown.len();
        if let Some(gap) = fitted.gap {
            leave_out(&mut self.columns, &fitted, gap, || Column { name: "…".to_owned(), right: false });
            for row in &mut rows {
                leave_out(row, &fitted, gap, || Some("…".to_owned()));
            }
        }
        for row in &mut rows {
            for (cell, &width) in row.iter_mut().zip(&fitted.widths) {
                if let Some(text) = cell {
                    *text = shorten(text, width);
                }
            }
        }
        for (column, &width) in self.columns.iter_mut().zip(&fitted.widths) {
            column.name = shorten(&column.name, width);
        }
        let frame = Frame { paint: screen.paint, widths: &fitted.widths };
        frame.header(&self.columns, out);
        for (index, row) in rows.iter().enumerate() {
            if is_cut && index == END_ROWS {
                frame.gap(out);
            }
            frame.row(&self.columns, row, out);
        }
        frame.line('└', '┴', '┘', out);
        let mut footer = self.row_count_text();
        if is_cut {
            footer.push_str(&format!(" ({} shown)", 2 * END_ROWS));
        }
        if shown_columns < total_columns {
            footer.push_str(&format!(", {total_columns} columns ({shown_columns} shown)"));
        }
        push_line(&screen.paint.dim(&footer), out);
        Ok(())
    }
}

impl RowWriter for TableWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.row_count += batch.num_rows();
        if self.screen.is_some() {
            let missing = (SHOWN_ROWS - self.first.len()).min(batch.num_rows());
            self.rows(batch, 0..missing, |table, row| table.first.push(row))?;
            self.keep_last(batch);
            return Ok(());
        }
        self.rows(batch, 0..batch.num_rows(), |table, row| table.take(row, out))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if let Some(screen) = self.screen {
            return self.finish_on(screen, out);
        }
        if self.widths.is_none() {
            self.start(out);
        }
        if let Some(widths) = &self.widths {
            Frame { paint: Paint::PLAIN, widths }.line('└', '┴', '┘', out);
        }
        Ok(())
    }
}
