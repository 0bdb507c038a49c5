//! CSV records into typed columns.
//!
//! Owns: [`CsvDecoder`], the way from a window of records to builders. Does not own: where fields end (`index`), what
//! text spells which value (`leaf`), where records end in a file (`splitter`).
//!
//! Two ways through a window. The *quick* way presumes that nothing is wrong: every record has the right number of
//! fields (a subtraction each), the predicate's columns are parsed and tested one after the other, each in the rows that
//! passed before, and each wanted column is then parsed in one go for those left, so that the branch on its type predicts
//! well; what passes the last of these tests stays where it is. When anything is wrong, the window's rows are taken back
//! and the *careful* way goes record by record: it finds the first bad record in file order, skips blank lines, and leaves
//! out bad records under [`OnError::Skip`].
//!
//! Invariants: between windows, builders of output columns hold `row_count` values and those of columns that only the
//! predicate needs hold none. What a record means does not depend on the records around it, nor on where `decode` calls
//! cut the file.
//!
//! Concurrency: one thread at a time; buffers are reused, nothing is allocated per row.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use thermocline_predicate::{Domain, FieldPath};

use super::dialect::{CsvFormat, header_names};
use super::fault::{FieldProblem, Place, Problem};
use super::field::{FieldText, raw_field, read_field};
use super::index::{RecordFields, RecordIndex, without_carriage_return};
use super::marks::Marks;
use crate::decoder::{Decoder, Rows};
use crate::leaf::calendar::parse_date;
use crate::leaf::number::{parse_f64, parse_i64};
use crate::positional_map::{FIRST_OFFSET, code_of};
use crate::{Fault, LeafBuilder, MapPiece, MappedRecords, Mismatch, OnError, RawError, RecordPositions, ScanPlan};

/// Bytes indexed at once: the index of a window and its bytes stay in the L2 cache, and the pieces are long enough that
/// indexing the cut record at the end twice does not matter.
const WINDOW_BYTES: usize = 64 << 10;

/// Blank lines before a header that fill this many bytes are an error: pieces of a file that other decoders read could
/// not know that the header is still to come.
const HEADER_REACH_BYTES: usize = 64 << 10;

/// Decodes CSV records by a plan.
#[derive(Debug)]
pub struct CsvDecoder {
    file: Arc<str>,
    format: CsvFormat,
    marks: Marks,
    /// The plan's columns, as positions in `columns`; a path named twice is read once.
    output: Vec<usize>,
    columns: Vec<ParsedColumn>,
    /// Columns the predicate tests, the cheaper to parse first. The order is the same whatever columns are kept, so that
    /// the same records are bad.
    filters: Vec<Filter>,
    on_error: OnError,
    strict: bool,
    window_bytes: usize,
    index: RecordIndex,
    selection: Vec<u32>,
    scratch: Vec<u8>,
    /// The header is still to come: what was decoded began at the start of the file and was blank so far.
    is_header_due: bool,
    row_count: usize,
    record_count: u64,
    skipped_count: u64,
    positions: Option<RecordPositions>,
    /// By column.
    map_paths: Vec<FieldPath>,
    map_piece: Option<MapPiece>,
}

#[derive(Debug)]
struct ParsedColumn {
    /// Position in the file.
    position: usize,
    is_text: bool,
    /// Parsed by a filter, so not again for the rows that passed.
    is_filtered: bool,
    /// Whether its values are kept.
    is_output: bool,
    builder: LeafBuilder,
}

#[derive(Debug)]
struct Filter {
    /// Position in `columns`.
    column: usize,
    domain: Domain,
    /// Whether values that pass stay in the builder: nothing is tested after them.
    keeps_values: bool,
}

impl CsvDecoder {
    /// A decoder of `file`'s records, for messages called `file`.
    ///
    /// # Errors
    /// A column that the format does not name, a path of several names, a type text cannot be read as, a plan that
    /// unnests, or a format that [`CsvFormat::validate`] refuses.
    pub fn new(plan: &ScanPlan, format: &CsvFormat, file: Arc<str>) -> Result<Self, RawError> {
        format.validate()?;
        if let Some(unnest) = &plan.unnest {
            return Err(RawError::plan(&unnest.path, "CSV files have no lists to unnest"));
        }
        let mut decoder = Self {
            file,
            format: format.clone(),
            marks: format.marks(),
            output: Vec::with_capacity(plan.columns.len()),
            columns: Vec::new(),
            filters: Vec::new(),
            on_error: plan.on_error,
            strict: plan.strict,
            window_bytes: WINDOW_BYTES,
            index: RecordIndex::default(),
            selection: Vec::new(),
            scratch: Vec::new(),
            is_header_due: false,
            row_count: 0,
            record_count: 0,
            skipped_count: 0,
            positions: plan.positions.then(RecordPositions::default),
            map_paths: Vec::new(),
            map_piece: None,
        };
        for column in &plan.columns {
            let at = decoder.column(&column.path, &column.data_type)?;
            decoder.columns[at].is_output = true;
            decoder.output.push(at);
        }
        for (path, domain) in plan.predicate.fields() {
            let data_type =
                plan.type_of(path).ok_or_else(|| RawError::plan(path, "the predicate's field has no type"))?;
            let column = decoder.column(path, data_type)?;
            decoder.columns[column].is_filtered = true;
            decoder.filters.push(Filter { column, domain: domain.clone(), keeps_values: false });
        }
        let paths = decoder.columns.iter().map(|column| FieldPath::root(&format.column_names[column.position]));
        decoder.map_paths = paths.collect();
        decoder.map_piece = plan.map.then(|| MapPiece::new(&decoder.map_paths));
        // Text is copied before it is tested; numbers are not.
        let columns = &decoder.columns;
        decoder.filters.sort_by_key(|filter| {
            let column = &columns[filter.column];
            (column.is_text, column.position)
        });
        if let Some(last) = decoder.filters.last_mut() {
            last.keeps_values = decoder.columns[last.column].is_output;
        }
        Ok(decoder)
    }

    /// Small windows, so that small inputs have many.
    #[cfg(test)]
    pub(super) fn with_window_bytes(mut self, window_bytes: usize) -> Self {
        self.window_bytes = window_bytes;
        self
    }

    /// The place in `columns` of a field read as a type.
    fn column(&mut self, path: &FieldPath, data_type: &DataType) -> Result<usize, RawError> {
        let [name] = path.parts() else {
            return Err(RawError::plan(path, "CSV files have no nested fields"));
        };
        let position = self.format.column_names.iter().position(|column| column == name);
        let position = position.ok_or_else(|| RawError::plan(path, "the file has no such column"))?;
        let known = self
            .columns
            .iter()
            .position(|column| column.position == position && column.builder.data_type() == data_type);
        if let Some(known) = known {
            return Ok(known);
        }
        self.columns.push(ParsedColumn {
            position,
            is_text: data_type.is_string(),
            is_filtered: false,
            is_output: false,
            builder: LeafBuilder::new(data_type)
                .ok_or_else(|| RawError::plan(path, format!("CSV files do not hold {data_type}")))?,
        });
        Ok(self.columns.len() - 1)
    }

    /// Indexes one window of `records` and reads its whole records; returns its length.
    fn decode_window(&mut self, records: &[u8], offset_bytes: u64) -> Result<usize, RawError> {
        let (window, is_last) = self.index.build_next(records, self.window_bytes, self.marks, true);
        if let Some(start) = self.index.too_long_record(window) {
            return Err(RawError::RecordTooLong {
                file: Arc::clone(&self.file),
                offset_bytes: offset_bytes + u64::from(start),
            });
        }
        let covered = if is_last { window.len() } else { self.index.covered_bytes() };
        let first = if self.is_header_due { self.read_header(window, offset_bytes)? } else { 0 };
        if !self.read_quickly(window, first, offset_bytes) {
            self.read_carefully(window, first, offset_bytes)?;
        }
        Ok(covered)
    }

    /// Compares the header with the column names, and returns the number of records up to it.
    fn read_header(&mut self, window: &[u8], offset_bytes: u64) -> Result<usize, RawError> {
        for record in 0..self.index.record_count() {
            let fields = self.index.record(record);
            if fields.bytes(window).is_empty() {
                continue;
            }
            self.is_header_due = false;
            let place = Place { file: &self.file, window, offset_bytes, fields };
            let names = header_names(window, fields, self.marks)
                .map_err(|(position, problem)| place.malformed(position, None, problem))?;
            if names != self.format.column_names {
                return Err(place.other_header(&names, &self.format.column_names));
            }
            return Ok(record + 1);
        }
        Ok(self.index.record_count())
    }

    /// Reads the window's records from `first` on if there is nothing wrong with any of them; else takes all its rows
    /// back and returns false.
    fn read_quickly(&mut self, window: &[u8], first: usize, offset_bytes: u64) -> bool {
        let end = self.index.record_count();
        // What is cut off at the end may be cut within a character.
        let covered = self.index.covered_bytes().min(window.len());
        // Once for the window where text is read from most records: far cheaper than field by field.
        let is_text_read =
            self.columns.iter().any(|column| column.is_text && (column.is_filtered || self.filters.is_empty()));
        let text = (is_text_read || self.strict).then(|| std::str::from_utf8(&window[..covered]).ok()).flatten();
        if self.index.has_open_quote()
            || !self.index.all_have(first..end, self.format.column_names.len(), window)
            || (self.strict && text.is_none())
            || (self.strict && !self.all_quotes_close(window, first))
        {
            return false;
        }
        let row_count = self.row_count;
        let passed = if self.filters.is_empty() {
            self.append_all(window, text, first..end)
        } else {
            self.filter_window(window, text, first..end) && self.append_selected(window, text)
        };
        if passed {
            self.record_count += (end - first) as u64;
            if let Some(piece) = &mut self.map_piece {
                for record in first..end {
                    let fields = self.index.record(record);
                    piece.push(offset_bytes + u64::from(fields.start), field_codes(&self.columns, fields));
                }
            }
            if let Some(positions) = &mut self.positions {
                let start = |record: usize| offset_bytes + u64::from(self.index.record_start(record));
                if self.filters.is_empty() {
                    positions.extend((first..end).map(start));
                } else {
                    positions.extend(self.selection.iter().map(|&record| start(record as usize)));
                }
            }
        } else {
            self.row_count = row_count;
            self.take_back();
        }
        passed
    }

    /// Whether each quoted field of the window is closed by its last byte.
    fn all_quotes_close(&mut self, window: &[u8], first: usize) -> bool {
        let Some(quote) = self.marks.quote else { return true };
        if memchr::memchr(quote, window).is_none() {
            return true;
        }
        for record in first..self.index.record_count() {
            let fields = self.index.record(record);
            for position in 0..fields.ends.len() {
                let text = read_field(fields.field(window, position), self.marks, &mut self.scratch);
                if matches!(text, FieldText::TrailingText | FieldText::Unclosed) {
                    return false;
                }
            }
        }
        true
    }

    /// Drops whatever the builders hold beyond `row_count` rows.
    fn take_back(&mut self) {
        for column in &mut self.columns {
            let keep = if column.is_output { self.row_count } else { 0 };
            column.builder.truncate(keep);
        }
    }

    /// Appends the columns no filter has read, for every record; false when a value cannot be read.
    fn append_all(&mut self, window: &[u8], text: Option<&str>, records: std::ops::Range<usize>) -> bool {
        self.row_count += records.len();
        let source = Source { window, text, marks: self.marks, null_text: self.format.null_text.as_bytes() };
        for column in &mut self.columns {
            for record in records.clone() {
                if column.append(source, self.index.record(record), &mut self.scratch).is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// Tests the predicate's columns, one after the other; leaves the records that pass in `selection`. False when a value
    /// that is looked at cannot be read.
    fn filter_window(&mut self, window: &[u8], text: Option<&str>, records: std::ops::Range<usize>) -> bool {
        self.selection.clear();
        self.selection.extend(records.map(|record| record as u32));
        let source = Source { window, text, marks: self.marks, null_text: self.format.null_text.as_bytes() };
        self.filters.iter().all(|filter| {
            let column = &mut self.columns[filter.column];
            column.retain(source, &self.index, filter, &mut self.selection, &mut self.scratch).is_ok()
        })
    }

    /// Appends the selected records' values of columns that are kept, where the last filter has not done so.
    fn append_selected(&mut self, window: &[u8], text: Option<&str>) -> bool {
        self.row_count += self.selection.len();
        let source = Source { window, text, marks: self.marks, null_text: self.format.null_text.as_bytes() };
        let row_count = self.row_count;
        for column in self.columns.iter_mut().filter(|column| column.is_output && column.builder.len() < row_count) {
            for &record in &self.selection {
                if column.append(source, self.index.record(record as usize), &mut self.scratch).is_err() {
                    return false;
                }
            }
        }
        true
    }

    fn read_carefully(&mut self, window: &[u8], first: usize, offset_bytes: u64) -> Result<(), RawError> {
        for record in first..self.index.record_count() {
            let is_unclosed = self.index.has_open_quote() && record + 1 == self.index.record_count();
            let outcome = self.read_record(window, record, offset_bytes, is_unclosed);
            if let Some(piece) = &mut self.map_piece {
                let fields = self.index.record(record);
                match &outcome {
                    Ok(Outcome::Blank) => {}
                    Ok(_) => piece.push(offset_bytes + u64::from(fields.start), field_codes(&self.columns, fields)),
                    Err(_) => piece.spoil(),
                }
            }
            match outcome {
                Ok(Outcome::Blank) => {}
                Ok(Outcome::Rejected) => {
                    self.record_count += 1;
                    self.take_back();
                }
                Ok(Outcome::Passed) => {
                    self.record_count += 1;
                    self.row_count += 1;
                    if let Some(positions) = &mut self.positions {
                        positions.push(offset_bytes + u64::from(self.index.record(record).start));
                    }
                    self.take_back();
                }
                Err(error) => {
                    self.take_back();
                    // A full column is no fault of the record.
                    if self.on_error == OnError::Fail || error.fault().is_none() {
                        return Err(error);
                    }
                    self.skipped_count += 1;
                }
            }
        }
        Ok(())
    }

    /// Reads the record in `content[record]` whose fields are where `codes` tell. `None` when it must be read
    /// carefully.
    fn read_mapped(&mut self, content: &[u8], record: std::ops::Range<usize>, codes: &[u32]) -> Option<Outcome> {
        let source =
            Source { window: content, text: None, marks: self.marks, null_text: self.format.null_text.as_bytes() };
        let count = self.format.column_names.len();
        let mut append = |column: &mut ParsedColumn, code: u32| {
            let start = record.start + code.checked_sub(FIRST_OFFSET)? as usize;
            let mut raw = raw_field(content.get(start..record.end)?, source.marks);
            if column.position + 1 == count {
                raw = without_carriage_return(raw);
            }
            column.append_raw(source, raw, start, &mut self.scratch).ok()
        };
        for filter in &self.filters {
            let column = &mut self.columns[filter.column];
            append(column, codes[filter.column])?;
            if !column.builder.test(&filter.domain) {
                return Some(Outcome::Rejected);
            }
        }
        for (column, &code) in self.columns.iter_mut().zip(codes) {
            if !column.is_filtered {
                append(column, code)?;
            }
        }
        Some(Outcome::Passed)
    }

    fn read_record(
        &mut self,
        window: &[u8],
        record: usize,
        offset_bytes: u64,
        is_unclosed: bool,
    ) -> Result<Outcome, RawError> {
        let fields = self.index.record(record);
        let place = Place { file: &self.file, window, offset_bytes, fields };
        let names = &self.format.column_names;
        if is_unclosed {
            let position = fields.ends.len() - 1;
            return Err(place.malformed(position, names.get(position), Problem::Unclosed));
        }
        if fields.bytes(window).is_empty() {
            return Ok(Outcome::Blank);
        }
        if fields.ends.len() != names.len() {
            return Err(place.field_count(names.len()));
        }
        if self.strict {
            for position in 0..names.len() {
                let raw = fields.field(window, position);
                let problem = match read_field(raw, self.marks, &mut self.scratch) {
                    FieldText::TrailingText | FieldText::Unclosed => Problem::TrailingText,
                    _ if std::str::from_utf8(raw).is_err() => Problem::Utf8,
                    _ => continue,
                };
                return Err(place.malformed(position, names.get(position), problem));
            }
        }
        let source = Source { window, text: None, marks: self.marks, null_text: self.format.null_text.as_bytes() };
        let filters = self.filters.iter().map(|filter| (filter.column, Some(&filter.domain)));
        let others = (0..self.columns.len()).map(|column| (column, None));
        for (at, domain) in filters.chain(others) {
            let column = &mut self.columns[at];
            if domain.is_none() && column.is_filtered {
                continue;
            }
            let position = column.position;
            if let Err(problem) = column.append(source, fields, &mut self.scratch) {
                let data_type = column.builder.data_type();
                return Err(place.unreadable(position, &names[position], data_type, problem, self.marks));
            }
            if domain.is_some_and(|domain| !column.builder.test(domain)) {
                return Ok(Outcome::Rejected);
            }
        }
        Ok(Outcome::Passed)
    }
}

/// Codes of where a record's fields begin, by column.
fn field_codes<'a>(columns: &'a [ParsedColumn], fields: RecordFields<'a>) -> impl Iterator<Item = u32> + 'a {
    columns.iter().map(move |column| code_of(fields.field_start(column.position) - fields.start as usize))
}

enum Outcome {
    Blank,
    Rejected,
    Passed,
}

/// A window's bytes and how its fields are written.
#[derive(Clone, Copy)]
struct Source<'a> {
    window: &'a [u8],
    /// The window as text where it was checked to be UTF-8 as a whole, so that its fields need not be.
    text: Option<&'a str>,
    marks: Marks,
    null_text: &'a [u8],
}

impl Source<'_> {
    /// The text of a field that is no text itself; None of NULL.
    #[inline(always)]
    fn number_text<'t>(self, raw: &'t [u8], scratch: &'t mut Vec<u8>) -> Result<Option<&'t [u8]>, FieldProblem> {
        match read_field(raw, self.marks, scratch) {
            FieldText::Bare(text) => Ok(Some(text).filter(|text| !text.is_empty() && *text != self.null_text)),
            FieldText::Quoted(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            FieldText::TrailingText => Err(FieldProblem::Written(Problem::TrailingText)),
            FieldText::Unclosed => Err(FieldProblem::Written(Problem::Unclosed)),
        }
    }
}

/// Leaves those of the selected records that pass, in their order.
#[inline(always)]
fn retain(
    selection: &mut Vec<u32>,
    mut passes: impl FnMut(usize) -> Result<bool, FieldProblem>,
) -> Result<(), FieldProblem> {
    let mut kept = 0;
    for at in 0..selection.len() {
        let record = selection[at];
        selection[kept] = record;
        kept += usize::from(passes(record as usize)?);
    }
    selection.truncate(kept);
    Ok(())
}

impl ParsedColumn {
    /// Appends the value of this column's field of a record.
    #[inline(always)]
    fn append(
        &mut self,
        source: Source<'_>,
        fields: RecordFields<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FieldProblem> {
        self.append_raw(source, fields.field(source.window, self.position), fields.field_start(self.position), scratch)
    }

    /// Leaves those of the selected records whose field lies in the filter's domain, and their values in the builder if
    /// the filter keeps them. Numbers and dates that it does not keep are tested where they are parsed: most of them are
    /// not wanted, and those that are cost less to parse again than to keep all.
    fn retain(
        &mut self,
        source: Source<'_>,
        index: &RecordIndex,
        filter: &Filter,
        selection: &mut Vec<u32>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FieldProblem> {
        let position = self.position;
        let Filter { domain, keeps_values, .. } = filter;
        macro_rules! retain_numbers {
            ($parse:expr, $test:expr, $values:ident) => {{
                let test = $test;
                retain(selection, |record| {
                    let raw = index.record(record).field(source.window, position);
                    let value = match source.number_text(raw, scratch)? {
                        Some(text) => $parse(text).ok_or(FieldProblem::Value(Mismatch::NotOfType))?,
                        None => {
                            if *keeps_values && domain.admits_null() {
                                self.builder.append_null();
                            }
                            return Ok(domain.admits_null());
                        }
                    };
                    let passes = test(value);
                    if *keeps_values && let Some(values) = self.builder.$values() {
                        // Taken back without a branch: whether one passes is hard to foretell.
                        values.push(value);
                        values.truncate(values.len() - usize::from(!passes));
                    }
                    Ok(passes)
                })
            }};
        }
        match self.builder.data_type() {
            DataType::Int64 => retain_numbers!(parse_i64, |value: i64| domain.contains_int(value.into()), int64_values),
            DataType::Float64 => retain_numbers!(parse_f64, |value| domain.contains_float(value), float64_values),
            DataType::Date32 => {
                retain_numbers!(parse_date, |days: i32| domain.contains_int(days.into()), date32_values)
            }
            _ => retain(selection, |record| {
                let row_count = self.builder.len();
                self.append(source, index.record(record), scratch)?;
                let passes = self.builder.test(domain);
                if !(*keeps_values && passes) {
                    self.builder.truncate(row_count);
                }
                Ok(passes)
            }),
        }
    }

    /// Appends the value that the bytes `raw`, at `start` in the window, stand for.
    #[inline(always)]
    fn append_raw(
        &mut self,
        source: Source<'_>,
        raw: &[u8],
        start: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FieldProblem> {
        let (text, is_quoted) = match read_field(raw, source.marks, scratch) {
            FieldText::Bare(text) if text != source.null_text => (text, false),
            FieldText::Bare(_) => {
                self.builder.append_null();
                return Ok(());
            }
            FieldText::Quoted(text) => (text, true),
            FieldText::TrailingText => return Err(FieldProblem::Written(Problem::TrailingText)),
            FieldText::Unclosed => return Err(FieldProblem::Written(Problem::Unclosed)),
        };
        if !self.is_text {
            if text.is_empty() {
                self.builder.append_null();
                return Ok(());
            }
        } else if let Some(window) = source.text
            // Text that lost more than its two quotes was copied, and does not stand in the window.
            && text.len() + 2 * usize::from(is_quoted) == raw.len()
        {
            let start = start + usize::from(is_quoted);
            if let Some(text) = window.get(start..start + text.len()) {
                return self.builder.append_str(text).map_err(FieldProblem::Value);
            }
        }
        self.builder.append_text(text).map_err(FieldProblem::Value)
    }
}

impl Decoder for CsvDecoder {
    fn decode(&mut self, records: &[u8], file_offset: u64) -> Result<(), RawError> {
        let mut at = 0;
        if file_offset == 0 {
            self.is_header_due = self.format.has_header;
            if records.starts_with(CsvFormat::BYTE_ORDER_MARK) {
                at = CsvFormat::BYTE_ORDER_MARK.len();
            }
        }
        while at < records.len() {
            at += self.decode_window(&records[at..], file_offset + at as u64)?;
        }
        if self.is_header_due && file_offset == 0 && records.len() >= HEADER_REACH_BYTES {
            return Err(RawError::Malformed(Box::new(Fault {
                file: Arc::clone(&self.file),
                offset_bytes: 0,
                line: None,
                column: None,
                seen: "blank lines only".to_owned(),
                expected: format!("a header within the first {} KiB", HEADER_REACH_BYTES >> 10),
            })));
        }
        Ok(())
    }

    fn map_paths(&self) -> &[FieldPath] {
        &self.map_paths
    }

    fn decode_mapped(&mut self, content: &[u8], file_offset: u64, mapped: MappedRecords<'_>) -> Result<(), RawError> {
        for (record, codes) in mapped.iter(file_offset, content.len(), self.map_paths.len()) {
            let outcome = self.read_mapped(content, record.clone(), codes);
            let at = file_offset + record.start as u64;
            let Some(outcome) = outcome else {
                self.take_back();
                let mut from = record.start;
                while from < record.end {
                    from += self.decode_window(&content[from..record.end], file_offset + from as u64)?;
                }
                continue;
            };
            self.record_count += 1;
            if matches!(outcome, Outcome::Passed) {
                self.row_count += 1;
                if let Some(positions) = &mut self.positions {
                    positions.push(at);
                }
            }
            self.take_back();
            if let Some(piece) = &mut self.map_piece {
                piece.push(at, codes.iter().copied());
            }
        }
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.row_count
    }

    fn finish(&mut self) -> Result<Rows, RawError> {
        self.index.clear();
        let mut arrays: Vec<Option<ArrayRef>> = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            arrays.push(if column.is_output {
                let array = column
                    .builder
                    .finish()
                    .map_err(|source| RawError::Arrow { file: Arc::clone(&self.file), source })?;
                Some(array)
            } else {
                None
            });
        }
        Ok(Rows {
            element_offsets: None,
            columns: self.output.iter().filter_map(|&at| arrays[at].clone()).collect(),
            row_count: std::mem::take(&mut self.row_count),
            record_count: std::mem::take(&mut self.record_count),
            skipped_count: std::mem::take(&mut self.skipped_count),
            positions: self.positions.as_mut().map(std::mem::take),
            map_piece: self.map_piece.as_mut().map(MapPiece::take),
        })
    }
}
