//! A table in box drawing.
//!
//! On a screen the result is cut to what can be looked at: some rows from its beginning and end, columns narrowed to the
//! window, the middle ones left out when even that is not enough. Numbers are never narrowed: a cut number is a wrong
//! number. A footer tells what there is and what is shown.
//!
//! Elsewhere nothing is ever cut. Widths come from the first rows; later ones are printed as they come, and push their
//! frame to the right where they are wider, so that a result of any length takes bounded memory.

use std::collections::VecDeque;

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;
use unicode_width::UnicodeWidthStr;

use super::cells::columns;
use super::{RowWriter, is_right_aligned};
use crate::figures::count_text;
use crate::terminal::Paint;

/// Rows shown on a screen: as many as two glances take. One more, and the middle is left out.
const SHOWN_ROWS: usize = 40;
/// Rows shown of each end of a result that is cut.
const END_ROWS: usize = 10;
/// Rows that set the widths where nothing is cut: a batch of the engine.
const WINDOW_ROWS: usize = 8192;
/// The least a text column is narrowed to.
const LEAST_WIDTH_COLUMNS: usize = 12;

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
        // A plan is a text of many lines; cut ones cannot be read.
        let screen = screen.map(|screen| match names.as_slice() {
            ["plan_type", "plan"] => Screen { width_columns: usize::MAX, ..screen },
            _ => screen,
        });
        let columns = schema
            .fields()
            .iter()
            .map(|field| Column { name: printable(field.name()), right: is_right_aligned(field.data_type()) })
            .collect();
        Self {
            columns,
            screen,
            row_count: 0,
            first: Vec::new(),
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
                    Some(printable(&String::from_utf8_lossy(&self.scratch)))
                });
            }
            take(self, row);
        }
        Ok(())
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

    /// Prints the header and the rows gathered so far, whose widths hold from now on.
    fn start(&mut self, out: &mut Vec<u8>) {
        let widths = natural_widths(&self.columns, &self.first);
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
        let mut footer = match self.row_count {
            1 => "1 row".to_owned(),
            count => format!("{} rows", count_text(count as u64)),
        };
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
        if self.widths.is_none() {
            self.rows(batch, 0..batch.num_rows(), |table, row| table.first.push(row))?;
            if self.first.len() >= WINDOW_ROWS {
                self.start(out);
            }
            return Ok(());
        }
        self.rows(batch, 0..batch.num_rows(), |table, row| {
            if let Some(widths) = &table.widths {
                Frame { paint: Paint::PLAIN, widths }.row(&table.columns, &row, out);
            }
        })
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

/// Draws frames of given widths.
struct Frame<'a> {
    paint: Paint,
    widths: &'a [usize],
}

impl Frame<'_> {
    fn line(&self, left: char, between: char, right: char, out: &mut Vec<u8>) {
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

    fn header(&self, columns: &[Column], out: &mut Vec<u8>) {
        self.line('┌', '┬', '┐', out);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.cells(columns, &names, |paint, name| paint.bold(name), out);
        self.line('├', '┼', '┤', out);
    }

    fn gap(&self, out: &mut Vec<u8>) {
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
    fn row(&self, columns: &[Column], row: &Row, out: &mut Vec<u8>) {
        let height = row.iter().flatten().map(|text| text.split('\n').count()).max().unwrap_or(1);
        for line in 0..height {
            let cells: Vec<&str> = row
                .iter()
                .map(|cell| match cell {
                    // The word in quotes is a string, the bare one is NULL.
                    Some(text) if text == "NULL" => "\"NULL\"",
                    Some(text) => text.split('\n').nth(line).unwrap_or(""),
                    None if line == 0 => "NULL",
                    None => "",
                })
                .collect();
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

fn push_line(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// Columns a text takes on a terminal.
fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

fn pad(text: &str, width: usize, right: bool) -> String {
    let blanks = width.saturating_sub(width_of(text));
    let mut padded = String::with_capacity(text.len() + blanks);
    if right {
        padded.extend(std::iter::repeat_n(' ', blanks));
    }
    padded.push_str(text);
    if !right {
        padded.extend(std::iter::repeat_n(' ', blanks));
    }
    padded
}

/// What would move the cursor is spelled out, but for line breaks, which a cell may have.
fn printable(text: &str) -> String {
    if !text.chars().any(|c| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push('\n'),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

fn natural_widths(columns: &[Column], rows: &[Row]) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| width_of(&column.name)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let cell_width = match cell {
                Some(text) if text == "NULL" => 6,
                Some(text) => text.split('\n').map(width_of).max().unwrap_or(0),
                None => 4,
            };
            *width = (*width).max(cell_width);
        }
    }
    widths
}

/// Which columns are shown, and how wide.
struct Fitted {
    /// Indices of the columns shown.
    shown: Vec<usize>,
    /// Where among the shown ones the mark for those left out stands.
    gap: Option<usize>,
    /// Widths of what is printed, the mark included.
    widths: Vec<usize>,
}

/// Narrows text columns, the widest first; leaves out columns from the middle while that is not enough.
fn fit(columns: &[Column], natural: &[usize], window: usize) -> Fitted {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    loop {
        let gap = (shown.len() < columns.len()).then_some(shown.len().div_ceil(2));
        // A frame and two blanks a column, one frame at the end; the mark is a column of width one.
        let room =
            window.saturating_sub(3 * (shown.len() + usize::from(gap.is_some())) + 1 + usize::from(gap.is_some()));
        let least =
            |index: usize| if columns[index].right { natural[index] } else { natural[index].min(LEAST_WIDTH_COLUMNS) };
        let needed: usize = shown.iter().map(|&index| least(index)).sum();
        if needed > room && shown.len() > 2 {
            shown.remove(shown.len() / 2);
            continue;
        }
        let capped = |cap: usize, index: usize| natural[index].min(cap.max(least(index)));
        let total = |cap: usize| shown.iter().map(|&index| capped(cap, index)).sum::<usize>();
        let widest = shown.iter().map(|&index| natural[index]).max().unwrap_or(0);
        // The largest cap that fits; widths are some thousands at most, and the sum grows with the cap.
        let (mut low, mut high) = (0, widest);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if total(middle) <= room {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let mut widths: Vec<usize> = shown.iter().map(|&index| capped(low, index)).collect();
        if let Some(gap) = gap {
            widths.insert(gap, 1);
        }
        return Fitted { shown, gap, widths };
    }
}

/// Keeps the items of the columns shown and puts the mark among them.
fn leave_out<T>(items: &mut Vec<T>, fitted: &Fitted, gap: usize, mark: impl FnOnce() -> T) {
    let mut index = 0;
    items.retain(|_| {
        index += 1;
        fitted.shown.binary_search(&(index - 1)).is_ok()
    });
    items.insert(gap, mark());
}

/// Cuts each line of `text` to `width` columns, with `…` for what is gone.
fn shorten(text: &str, width: usize) -> String {
    if text.split('\n').all(|line| width_of(line) <= width) {
        return text.to_owned();
    }
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            if width_of(line) <= width {
                return line.to_owned();
            }
            let mut kept = String::new();
            for c in line.chars() {
                kept.push(c);
                if width_of(&kept) + 1 > width {
                    kept.pop();
                    break;
                }
            }
            kept.push('…');
            kept
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(right: bool) -> Column {
        Column { name: String::new(), right }
    }

    #[test]
    fn wide_text_is_cut_by_the_columns_it_takes() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
        // Each of these takes two columns, so only one fits beside the mark.
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(width_of(&shorten("日本語の列", 6)), 5);
        assert_eq!(shorten("ab\nabcdef", 4), "ab\nabc…");
    }

    #[test]
    fn numbers_keep_their_width_and_text_shares_the_rest() {
        let columns = [column(true), column(false), column(false)];
        let fitted = fit(&columns, &[20, 60, 60], 80);
        assert_eq!(fitted.gap, None);
        assert_eq!(fitted.widths[0], 20);
        assert_eq!(fitted.widths[1], fitted.widths[2]);
        assert!(fitted.widths.iter().sum::<usize>() + 10 <= 80);
        assert!(fitted.widths.iter().sum::<usize>() + 10 >= 79, "the window is used: {:?}", fitted.widths);
    }

    #[test]
    fn the_middle_columns_go_first_and_the_window_is_kept_to() {
        let columns: Vec<Column> = (0..30).map(|_| column(true)).collect();
        let fitted = fit(&columns, &[10; 30], 100);
        assert!(fitted.widths.iter().map(|width| width + 3).sum::<usize>() < 100);
        assert_eq!(fitted.shown.first(), Some(&0));
        assert_eq!(fitted.shown.last(), Some(&29));
        assert!(fitted.gap.is_some());
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let fitted = fit(&[column(false), column(true)], &[30, 5], usize::MAX);
        assert_eq!(fitted.widths, [30, 5]);
        assert_eq!(fitted.gap, None);
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(printable("a\tb\x1b[2Jc\r"), "a\\tb\\u{1b}[2Jc\\r");
        assert_eq!(printable("two\nlines"), "two\nlines");
    }
}
