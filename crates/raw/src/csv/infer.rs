//! The schema and the format of CSV files from a sample of their records.
//!
//! Owns: [`infer`]. Does not own: how a sample is read, the guesses about the dialect (`dialect`), the kinds of values
//! and how they widen (`types`: the table and the rule stand there).
//!
//! Invariants: every record of the sample decodes under the inferred schema and format, except those left out under
//! [`OnError::Skip`]. Every column is nullable.
//!
//! Concurrency: a pure function.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};

use super::dialect::{CsvFormat, CsvOptions, header_names, numbered_name, repeated, sniff_delimiter, sniff_header};
use super::fault::{OwnedText, Place, Problem, line_at, record_texts};
use super::field::{FieldText, read_field};
use super::index::{RecordFields, RecordIndex};
use super::marks::Marks;
use super::types::{BigIntegers, ValueKind};
use crate::error::Fault;
use crate::{OnError, RawError};

/// Bytes indexed at once.
const WINDOW_BYTES: usize = 64 << 10;

/// The beginning of a file.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    /// The file's path or URL, for messages.
    pub file: Arc<str>,
    /// Its first bytes, decompressed. A record cut off at the end is left out.
    pub bytes: &'a [u8],
    /// Whether that is the whole file, so that its last record counts without a newline too.
    pub is_whole: bool,
}

/// What the user said about inference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferOptions {
    /// About the files' format.
    pub csv: CsvOptions,
    /// Records looked at, over all samples.
    pub sample_rows: usize,
    /// The type of integers beyond 64 bits.
    pub big_integers: BigIntegers,
    /// Whether a record with too few or too many fields, or with stray quotes, is left out rather than an error.
    pub on_error: OnError,
}

impl Default for InferOptions {
    fn default() -> Self {
        Self {
            csv: CsvOptions::default(),
            sample_rows: 10_000,
            big_integers: BigIntegers::default(),
            on_error: OnError::Fail,
        }
    }
}

/// Infers the columns of a table and the format of its files. The first sample with a record decides the format and the
/// columns' names; the others must have the same columns. Each gives an equal share of the sampled rows at most, and
/// what those before it left of theirs. Costs a structural scan and a look at each field.
///
/// # Errors
/// No sample has a record; a record has another number of fields than the first one; a quote is not closed, or closed
/// within a field; a header is not UTF-8 or differs between files; lines end with CR alone; a file is UTF-16; options
/// contradict each other. Errors about a file's content name the line. Under [`OnError::Skip`] records that cannot be
/// read are left out, but not a first one that may be the header.
pub fn infer<'a>(
    samples: impl IntoIterator<Item = Sample<'a>>,
    options: &InferOptions,
) -> Result<(SchemaRef, CsvFormat), RawError> {
    let mut columns: Option<Columns> = None;
    let mut first: Option<(Arc<str>, &'static str)> = None;
    let samples: Vec<Sample<'a>> = samples.into_iter().collect();
    let mut rows_left = options.sample_rows.max(1);
    for (at, sample) in samples.iter().enumerate() {
        let content = sample.bytes.strip_prefix(CsvFormat::BYTE_ORDER_MARK).unwrap_or(sample.bytes);
        first.get_or_insert_with(|| (Arc::clone(&sample.file), without_record(content)));
        // Lines are counted here: the content is at hand.
        let with_line = |error: RawError| match error.fault().map(|fault| fault.offset_bytes) {
            Some(offset_bytes) => match line_at(sample.bytes, offset_bytes) {
                Ok(line) => error.with_line(line),
                Err(_) => error,
            },
            None => error,
        };
        check_encoding(sample).map_err(with_line)?;
        let base = (sample.bytes.len() - content.len()) as u64;
        // Its share of the rows, or a long file would use up those of the files behind it. Two at first: whether a record
        // is a header is told by the next one.
        let least = if columns.is_none() { rows_left.min(2) } else { 1 };
        let share = rows_left.div_ceil(samples.len() - at).max(least);
        let mut share_left = share;
        let read = read_sample(sample, content, base, options, &mut columns, &mut share_left);
        read.map_err(with_line)?;
        rows_left -= share - share_left;
        if rows_left == 0 {
            break;
        }
    }
    match columns {
        Some(columns) => Ok(columns.finish()),
        None => {
            let (file, reason) = first.unwrap_or((Arc::from("(no file)"), without_record(b"")));
            Err(RawError::NothingToInfer { file, reason: reason.to_owned() })
        }
    }
}

/// What `content` has in the place of records, if it has none.
fn without_record(content: &[u8]) -> &'static str {
    let has = |byte: u8| memchr::memchr(byte, content).is_some();
    match content {
        [] => "the file is empty",
        _ if has(b'\r') && !has(b'\n') => "its lines end with CR, expected LF or CRLF",
        _ => "there is no whole record in the sample",
    }
}

/// UTF-16 begins with a mark of its own; its zero bytes would be read as characters.
fn check_encoding(sample: &Sample<'_>) -> Result<(), RawError> {
    let seen = match sample.bytes {
        [0xff, 0xfe, ..] => "the mark of UTF-16 (FF FE)",
        [0xfe, 0xff, ..] => "the mark of UTF-16 (FE FF)",
        _ => return Ok(()),
    };
    Err(RawError::Malformed(Box::new(Fault {
        file: Arc::clone(&sample.file),
        offset_bytes: 0,
        line: None,
        column: None,
        seen: seen.to_owned(),
        expected: "text in UTF-8".to_owned(),
    })))
}

/// The columns found so far.
struct Columns {
    format: CsvFormat,
    marks: Marks,
    /// Widened over the records that are surely not headers.
    kinds: Vec<ValueKind>,
}

impl Columns {
    fn finish(self) -> (SchemaRef, CsvFormat) {
        let fields: Vec<_> = self
            .format
            .column_names
            .iter()
            .zip(self.kinds)
            .map(|(name, kind)| Field::new(name.as_ref(), kind.data_type(), true))
            .collect();
        (Arc::new(Schema::new(fields)), self.format)
    }
}

fn format_of(content: &[u8], is_whole: bool, options: &CsvOptions) -> Result<CsvFormat, RawError> {
    let format = CsvFormat {
        delimiter: match options.delimiter {
            Some(delimiter) => delimiter,
            None => sniff_delimiter(content, options, is_whole),
        },
        quote: options.quote,
        escape: options.escape,
        has_header: options.has_header.unwrap_or(false),
        null_text: Arc::clone(&options.null_text),
        column_names: Vec::new(),
    };
    format.validate()?;
    Ok(format)
}

/// Widens each column's kind by a record whose fields are as many, and written as they should be.
fn widen_record(
    kinds: &mut [ValueKind],
    (window, fields): (&[u8], RecordFields<'_>),
    format: &CsvFormat,
    big_integers: BigIntegers,
    scratch: &mut Vec<u8>,
) {
    for (position, kind) in kinds.iter_mut().enumerate() {
        if *kind == ValueKind::Text {
            continue;
        }
        let text = match read_field(fields.field(window, position), format.marks(), scratch) {
            FieldText::Bare(text) if text != format.null_text.as_bytes() => text,
            FieldText::Quoted(text) => text,
            _ => continue,
        };
        if !text.is_empty() {
            *kind = kind.widen(ValueKind::of(text, big_integers));
        }
    }
}

/// Checks that a record has the columns of those before it and that its quotes close where they should.
fn check_record(
    place: &Place<'_>,
    marks: Marks,
    expected: Option<usize>,
    is_unclosed: bool,
    scratch: &mut Vec<u8>,
) -> Result<(), RawError> {
    let fields = place.fields;
    if is_unclosed {
        return Err(place.malformed(fields.ends.len() - 1, None, Problem::Unclosed));
    }
    if let Some(expected) = expected
        && expected != fields.ends.len()
    {
        return Err(place.field_count(expected));
    }
    for position in 0..fields.ends.len() {
        if read_field(fields.field(place.window, position), marks, scratch) == FieldText::TrailingText {
            return Err(place.malformed(position, None, Problem::TrailingText));
        }
    }
    Ok(())
}

fn widen_all(kinds: &mut [ValueKind], others: &[ValueKind]) {
    for (kind, other) in kinds.iter_mut().zip(others) {
        *kind = kind.widen(*other);
    }
}

fn read_sample(
    sample: &Sample<'_>,
    content: &[u8],
    base: u64,
    options: &InferOptions,
    columns: &mut Option<Columns>,
    rows_left: &mut usize,
) -> Result<(), RawError> {
    let mut format = match columns {
        Some(columns) => columns.format.clone(),
        None => format_of(content, sample.is_whole, &options.csv)?,
    };
    let marks = format.marks();
    let may_have_header = match columns {
        Some(columns) => columns.format.has_header,
        None => options.csv.has_header != Some(false),
    };
    // The first record of this sample: its kinds, and its texts until they are known to be no header's.
    let mut head: Option<Head> = None;
    let mut rest: Option<Vec<ValueKind>> = None;
    let mut index = RecordIndex::default();
    let mut scratch = Vec::new();
    let mut at = 0;
    'windows: while at < content.len() {
        let (window, is_all) = index.build_next(&content[at..], WINDOW_BYTES, marks, sample.is_whole);
        if let Some(start) = index.too_long_record(window) {
            let offset_bytes = base + at as u64 + u64::from(start);
            return Err(RawError::RecordTooLong { file: Arc::clone(&sample.file), offset_bytes });
        }
        for record in 0..index.record_count() {
            let fields = index.record(record);
            if fields.bytes(window).is_empty() {
                continue;
            }
            let place = Place { file: &sample.file, window, offset_bytes: base + at as u64, fields };
            let expected = match (&head, &columns) {
                (_, Some(columns)) => Some(columns.kinds.len()),
                (Some(head), None) => Some(head.kinds.len()),
                (None, None) => None,
            };
            let is_unclosed = is_all && index.has_open_quote() && record + 1 == index.record_count();
            match check_record(&place, marks, expected, is_unclosed, &mut scratch) {
                Ok(()) => {}
                // Whether a first record is a header is not known of one that cannot be read, so it is not left out
                // where it may be one.
                Err(_) if options.on_error == OnError::Skip && (head.is_some() || !may_have_header) => continue,
                Err(error) => return Err(error),
            }
            let malformed = |(position, problem)| place.malformed(position, None, problem);
            let widen = |kinds: &mut [ValueKind], scratch: &mut Vec<u8>| {
                widen_record(kinds, (window, fields), &format, options.big_integers, scratch);
            };
            let nothing = || vec![ValueKind::Null; fields.ends.len()];
            if let Some(head) = &mut head {
                head.compare((window, fields), marks, &mut scratch);
                widen(rest.get_or_insert_with(nothing), &mut scratch);
            } else {
                // All of a file without LF is one record.
                let is_all_there_is = is_all && record + 1 == index.record_count() && !window.ends_with(b"\n");
                if may_have_header || is_all_there_is {
                    place.check_line_end(marks)?;
                }
                let names = match may_have_header {
                    true => header_names(window, fields, marks).map_err(malformed),
                    false => Ok(Vec::new()),
                };
                if let Some(columns) = &columns
                    && format.has_header
                {
                    let names = names?;
                    if names != columns.format.column_names {
                        return Err(place.other_header(&names, &columns.format.column_names));
                    }
                    head = Some(Head::of_names(names));
                    continue;
                }
                let mut kinds = nothing();
                widen(&mut kinds, &mut scratch);
                let texts = record_texts(window, fields, marks).map_err(malformed)?;
                let repeated = if options.csv.has_header.is_none() { repeated(&texts) } else { Vec::new() };
                head = Some(Head { texts, kinds, names, repeated, is_repeated_below: false });
            }
            *rows_left -= 1;
            if *rows_left == 0 {
                break 'windows;
            }
        }
        at += if is_all { window.len() } else { index.covered_bytes() };
    }
    let Some(head) = head else { return Ok(()) };
    if columns.is_none() {
        if options.csv.has_header.is_none() {
            format.has_header = sniff_header(&head.kinds, rest.as_deref(), head.is_repeated_below);
        }
        format.column_names = if format.has_header {
            head.names?
        } else {
            (0..head.kinds.len()).map(|position| Arc::from(numbered_name(position))).collect()
        };
    }
    let columns =
        columns.get_or_insert_with(|| Columns { kinds: vec![ValueKind::Null; head.kinds.len()], marks, format });
    debug_assert_eq!(columns.marks, marks);
    if !columns.format.has_header {
        widen_all(&mut columns.kinds, &head.kinds);
    }
    if let Some(rest) = rest {
        widen_all(&mut columns.kinds, &rest);
    }
    Ok(())
}

/// The first record of a sample.
struct Head {
    texts: Vec<OwnedText>,
    kinds: Vec<ValueKind>,
    /// The names it would give as a header, where it may be one.
    names: Result<Vec<Arc<str>>, RawError>,
    /// The positions of names that it would give twice.
    repeated: Vec<usize>,
    /// Whether one of these is a value of its column.
    is_repeated_below: bool,
}

impl Head {
    /// What is known to be a header.
    fn of_names(names: Vec<Arc<str>>) -> Self {
        Self { texts: Vec::new(), kinds: Vec::new(), names: Ok(names), repeated: Vec::new(), is_repeated_below: false }
    }

    /// Looks for the repeated names in a record below.
    fn compare(&mut self, (window, fields): (&[u8], RecordFields<'_>), marks: Marks, scratch: &mut Vec<u8>) {
        if self.is_repeated_below {
            return;
        }
        self.is_repeated_below =
            self.repeated.iter().any(|&position| match read_field(fields.field(window, position), marks, scratch) {
                FieldText::Bare(text) | FieldText::Quoted(text) => text == self.texts[position].text,
                FieldText::TrailingText | FieldText::Unclosed => false,
            });
    }
}
