//! How a CSV file is written: its delimiter, quotes, header, and how it spells NULL.
//!
//! Owns: [`CsvOptions`] (what the user said), [`CsvFormat`] (what holds for a file), and the guesses in between.
//! Does not own: the types of the columns (`infer`).
//!
//! Rules. The **delimiter** is the one of comma, semicolon, tab and bar that gives every record of the sample's first
//! 256 KiB the same number of fields, more than one; among several the one that gives the most fields, then the first
//! in that order. If none does (a ragged sample), the one whose most frequent field count covers most records; if no
//! candidate occurs at all, the comma. The **header** is the first record if one of its fields could not be a value of
//! its column, judged by the records after it: text over a column of numbers, dates or booleans. When no column is any of
//! these, it is a header if its fields are text themselves, or empty over columns without a value, and no field that it
//! has twice is a value of its column too. A lone first record is a header if all its fields are text. The quote is `"` unless told. Blank lines are not records, in a file of one column neither:
//! write `""`.
//!
//! Concurrency: plain values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::fault::{OwnedText, Problem, record_texts};
use super::index::{RecordFields, RecordIndex};
use super::marks::Marks;
use super::types::ValueKind;
use crate::RawError;

/// What the user said about a CSV file; the rest is guessed from a sample.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvOptions {
    /// The byte between fields. `None`: guessed among `,`, `;`, tab and `|`.
    pub delimiter: Option<u8>,
    /// The byte around fields that hold delimiters, newlines or quotes; `None`: there is no such byte.
    pub quote: Option<u8>,
    /// The byte that inside quotes makes the next one data, besides the doubled quote.
    pub escape: Option<u8>,
    /// Whether the first record names the columns. `None`: guessed.
    pub has_header: Option<bool>,
    /// The text that, without quotes, means NULL.
    pub null_text: Arc<str>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: None, quote: Some(b'"'), escape: None, has_header: None, null_text: Arc::from("") }
    }
}

/// How a CSV file is written, nothing left open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvFormat {
    /// The byte between fields.
    pub delimiter: u8,
    /// The byte around fields that hold delimiters, newlines or quotes. It opens only as the first byte of a field.
    pub quote: Option<u8>,
    /// The byte that inside quotes makes the next one data, besides the doubled quote.
    pub escape: Option<u8>,
    /// Whether the first record that is not blank names the columns.
    pub has_header: bool,
    /// The text that, without quotes, means NULL. Whatever it is, an empty field is NULL in a column that is not text,
    /// quoted or not: it could not be a value there. In a text column a quoted field is never NULL.
    pub null_text: Arc<str>,
    /// The columns in file order, as the table names them.
    pub column_names: Vec<Arc<str>>,
}

impl CsvFormat {
    /// The byte order mark some programs write first.
    pub(crate) const BYTE_ORDER_MARK: &'static [u8] = b"\xef\xbb\xbf";

    /// A comma-separated format with a header, and the given columns.
    pub fn with_columns<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            has_header: true,
            null_text: Arc::from(""),
            column_names: names.into_iter().map(Into::into).collect(),
        }
    }

    /// Checks that delimiter, quote and escape can be told apart.
    ///
    /// # Errors
    /// Names the option that cannot be.
    pub fn validate(&self) -> Result<(), RawError> {
        let invalid = |name: &'static str, byte: u8, why: &str| {
            Err(RawError::Option { name, reason: format!("{:?} {why}", char::from(byte)) })
        };
        for (name, byte) in [("delimiter", Some(self.delimiter)), ("quote", self.quote), ("escape", self.escape)] {
            match byte {
                Some(byte @ (b'\n' | b'\r')) => return invalid(name, byte, "ends lines"),
                Some(byte) if !byte.is_ascii() => {
                    return invalid(name, byte, "is not an ASCII character");
                }
                _ => {}
            }
        }
        if self.quote == Some(self.delimiter) {
            return invalid("quote", self.delimiter, "is the delimiter too");
        }
        if self.escape == Some(self.delimiter) {
            return invalid("escape", self.delimiter, "is the delimiter too");
        }
        Ok(())
    }

    pub(crate) fn marks(&self) -> Marks {
        marks_of(self.delimiter, self.quote, self.escape)
    }
}

fn marks_of(delimiter: u8, quote: Option<u8>, escape: Option<u8>) -> Marks {
    // An escape equal to the quote is the doubled quote, which holds anyway.
    Marks { delimiter, quote, escape: escape.filter(|escape| quote != Some(*escape)) }
}

/// The delimiters tried when none is given, the likelier first.
const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Bytes in which the delimiter is looked for: some thousand records, and each candidate costs a structural scan.
const SNIFFED_BYTES: usize = 256 << 10;

/// Guesses the delimiter of `sample`, which starts with a record.
pub(crate) fn sniff_delimiter(sample: &[u8], options: &CsvOptions, is_whole: bool) -> u8 {
    let (sample, is_whole) = match sample.get(..SNIFFED_BYTES) {
        Some(head) => (head, false),
        None => (sample, is_whole),
    };
    // (consistent, records covered by the most frequent count, that count)
    let mut best = ((false, 0_usize, 0_usize), b',');
    for delimiter in CANDIDATES {
        if options.quote == Some(delimiter) || options.escape == Some(delimiter) {
            continue;
        }
        let marks = marks_of(delimiter, options.quote, options.escape);
        let mut counts = field_counts(sample, marks, is_whole);
        counts.sort_unstable();
        let modal = counts.chunk_by(|a, b| a == b).filter(|run| run[0] > 1).map(|run| (run.len(), run[0])).max();
        let Some((covered, fields)) = modal else { continue };
        let score = if covered == counts.len() { (true, fields, covered) } else { (false, covered, fields) };
        if score > best.0 {
            best = (score, delimiter);
        }
    }
    best.1
}

/// Fields per record, blank lines left out. A sample without one whole record counts what there is of the first.
fn field_counts(sample: &[u8], marks: Marks, is_whole: bool) -> Vec<usize> {
    let mut index = RecordIndex::default();
    index.build(sample, marks, is_whole);
    if index.record_count() == 0 {
        index.build(sample, marks, true);
    }
    (0..index.record_count())
        .map(|record| index.record(record))
        .filter(|record| !record.bytes(sample).is_empty())
        .map(|record| record.ends.len())
        .collect()
}

/// Guesses whether a first record with fields of these `kinds` names the columns; `rest` is the widened kind of each
/// column over the records after it, `None` when there are none. `is_repeated_below` tells whether one of its
/// [`repeated`] fields is a value of its column.
pub(crate) fn sniff_header(kinds: &[ValueKind], rest: Option<&[ValueKind]>, is_repeated_below: bool) -> bool {
    let Some(rest) = rest else { return kinds.iter().all(|kind| *kind == ValueKind::Text) };
    let is_typed = |kind: &ValueKind| !matches!(kind, ValueKind::Null | ValueKind::Text);
    if rest.iter().any(is_typed) {
        return kinds.iter().zip(rest).any(|(first, rest)| is_typed(rest) && *first == ValueKind::Text);
    }
    let is_name = |(first, rest): (&ValueKind, &ValueKind)| match first {
        ValueKind::Text => true,
        // What a delimiter at the end of each line makes.
        ValueKind::Null => *rest == ValueKind::Null,
        _ => false,
    };
    kinds.contains(&ValueKind::Text) && kinds.iter().zip(rest).all(is_name) && !is_repeated_below
}

/// The positions of fields that are not empty and occur twice or more in a record.
pub(crate) fn repeated(texts: &[OwnedText]) -> Vec<usize> {
    let mut counts: HashMap<&[u8], usize> = HashMap::with_capacity(texts.len());
    for field in texts {
        *counts.entry(&field.text).or_default() += 1;
    }
    let is_repeated = |field: &OwnedText| !field.text.is_empty() && counts[field.text.as_slice()] > 1;
    (0..texts.len()).filter(|&position| is_repeated(&texts[position])).collect()
}

/// The column names a record gives as a header. An empty name becomes `column_N`, N counting from 1; a second `a`
/// becomes `a_1`, a third `a_2`, passing over names that other columns have.
///
/// # Errors
/// The position of a field that is written wrongly, and how.
pub(crate) fn header_names(
    window: &[u8],
    fields: RecordFields<'_>,
    marks: Marks,
) -> Result<Vec<Arc<str>>, (usize, Problem)> {
    let mut names = Vec::with_capacity(fields.ends.len());
    for (position, field) in record_texts(window, fields, marks)?.into_iter().enumerate() {
        let name = String::from_utf8(field.text).map_err(|_| (position, Problem::Utf8))?;
        names.push(if name.is_empty() { numbered_name(position) } else { name });
    }
    let wanted: HashSet<String> = names.iter().cloned().collect();
    let mut given = HashSet::with_capacity(names.len());
    // The last number that a name was given, or looked at for it: those up to it stay taken.
    let mut last_numbers: HashMap<String, usize> = HashMap::new();
    Ok(names
        .into_iter()
        .map(|name| {
            let mut candidate = name.clone();
            while !given.insert(candidate.clone()) {
                let number = last_numbers.entry(name.clone()).or_default();
                // Ends: each round tries another name, and only finitely many are taken.
                candidate = loop {
                    *number += 1;
                    let next = format!("{name}_{number}");
                    if !wanted.contains(&next) {
                        break next;
                    }
                };
            }
            Arc::from(candidate)
        })
        .collect())
}

/// The name of a column without one.
pub(crate) fn numbered_name(position: usize) -> String {
    format!("column_{}", position + 1)
}
