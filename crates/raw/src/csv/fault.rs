//! What was wrong with a record, in the words of the crate's errors.
//!
//! Owns: turning a place in a window into a [`Fault`], and finding its line. Does not own: what to do about it.
//!
//! Concurrency: pure functions.

use std::io::{self, Read};
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::field::{FieldText, read_field};
use super::index::RecordFields;
use super::marks::Marks;
use crate::error::{Fault, quote_seen};
use crate::{Mismatch, RawError};

/// The number, from one, of the line that holds byte `offset_bytes` of `content`, read from its start: one more than
/// the newlines before it, those inside quotes too. Decoders know offsets only; whoever builds a message for a person
/// reads the file again up to there.
///
/// # Errors
/// Whatever reading gives. A content that ends earlier counts as far as it goes.
pub fn line_at(mut content: impl Read, offset_bytes: u64) -> io::Result<u64> {
    let mut buffer = vec![0_u8; 256 << 10];
    let mut line = 1;
    let mut left = offset_bytes;
    while left > 0 {
        let want = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = match content.read(&mut buffer[..want]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
        left -= read as u64;
    }
    Ok(line)
}

/// What is wrong with the way a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A quote opens and is still open at the end of the file.
    Unclosed,
    /// Something follows the closing quote.
    TrailingText,
    /// The bytes are not UTF-8.
    Utf8,
}

/// What is wrong with a field.
#[derive(Debug)]
pub(crate) enum FieldProblem {
    /// With the way it is written.
    Written(Problem),
    /// With the value it stands for.
    Value(Mismatch),
}

/// A record in its window in its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a Arc<str>,
    pub(crate) window: &'a [u8],
    /// Of the window in the file.
    pub(crate) offset_bytes: u64,
    pub(crate) fields: RecordFields<'a>,
}

impl Place<'_> {
    fn raw(&self, position: usize) -> &[u8] {
        self.fields.field(self.window, position)
    }

    fn field_offset_bytes(&self, position: usize) -> u64 {
        self.offset_bytes + self.fields.field_start(position) as u64
    }

    fn fault(&self, offset_bytes: u64, column: Option<&Arc<str>>, seen: String, expected: String) -> Box<Fault> {
        Box::new(Fault {
            file: Arc::clone(self.file),
            offset_bytes,
            line: None,
            column: column.map(|name| name.to_string()),
            seen,
            expected,
        })
    }

    /// A field that is written wrongly.
    pub(crate) fn malformed(&self, position: usize, column: Option<&Arc<str>>, problem: Problem) -> RawError {
        let raw = self.raw(position);
        let mut offset_bytes = self.field_offset_bytes(position);
        let expected = match problem {
            Problem::Unclosed => "a closing quote before the end of the file for the quote that opens here",
            Problem::TrailingText => {
                "a delimiter or the end of the line after the closing quote (a quote within quotes is doubled)"
            }
            Problem::Utf8 => {
                offset_bytes += std::str::from_utf8(raw).map_or_else(|error| error.valid_up_to() as u64, |_| 0);
                "valid UTF-8"
            }
        };
        RawError::Malformed(self.fault(offset_bytes, column, quote_seen(raw), expected.to_owned()))
    }

    /// A field that cannot be read as `data_type`.
    pub(crate) fn unreadable(
        &self,
        position: usize,
        column: &Arc<str>,
        data_type: &DataType,
        problem: FieldProblem,
        marks: Marks,
    ) -> RawError {
        match problem {
            FieldProblem::Written(problem) => self.malformed(position, Some(column), problem),
            FieldProblem::Value(Mismatch::NotUtf8) => self.malformed(position, Some(column), Problem::Utf8),
            FieldProblem::Value(Mismatch::ColumnFull) => {
                RawError::ColumnFull { file: Arc::clone(self.file), column: column.to_string() }
            }
            FieldProblem::Value(Mismatch::NotOfType) => {
                let mut scratch = Vec::new();
                let seen = match read_field(self.raw(position), marks, &mut scratch) {
                    FieldText::Bare(text) | FieldText::Quoted(text) => quote_seen(text),
                    FieldText::TrailingText | FieldText::Unclosed => quote_seen(self.raw(position)),
                };
                let offset_bytes = self.field_offset_bytes(position);
                RawError::Mismatch(self.fault(offset_bytes, Some(column), seen, data_type.to_string()))
            }
        }
    }

    /// A record with too few or too many fields.
    pub(crate) fn field_count(&self, expected: usize) -> RawError {
        let fields = |count: usize| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
        let seen = format!("{}: {}", fields(self.fields.ends.len()), quote_seen(self.fields.bytes(self.window)));
        let offset_bytes = self.offset_bytes + u64::from(self.fields.start);
        RawError::Malformed(self.fault(offset_bytes, None, seen, fields(expected)))
    }

    /// Checks that no CR stands within what may be a header, or all that a file has, outside quotes: all lines of a file
    /// whose lines end with CR alone are one record.
    ///
    /// # Errors
    /// Where the first one stands.
    pub(crate) fn check_line_end(&self, marks: Marks) -> Result<(), RawError> {
        for position in 0..self.fields.ends.len() {
            let raw = self.raw(position);
            if marks.quote.is_some() && raw.first().copied() == marks.quote {
                continue;
            }
            let Some(at) = memchr::memchr(b'\r', raw) else { continue };
            let offset_bytes = self.field_offset_bytes(position) + at as u64;
            let seen = format!("CR without LF in {}", quote_seen(raw));
            let expected = "LF or CRLF at the end of the line (a CR within a field stands between quotes)".to_owned();
            return Err(RawError::Malformed(self.fault(offset_bytes, None, seen, expected)));
        }
        Ok(())
    }

    /// A header that does not name the table's columns.
    pub(crate) fn other_header(&self, names: &[Arc<str>], expected: &[Arc<str>]) -> RawError {
        let differs = names.iter().zip(expected).position(|(name, expected)| name != expected);
        let Some(position) = differs else { return self.field_count(expected.len()) };
        let seen = quote_seen(names[position].as_bytes());
        let expected =
            format!("the header to name column {} {}", position + 1, quote_seen(expected[position].as_bytes()));
        RawError::Malformed(self.fault(self.field_offset_bytes(position), None, seen, expected))
    }
}

/// A field's text, copied out of its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedText {
    pub(crate) is_quoted: bool,
    pub(crate) text: Vec<u8>,
}

/// The text of every field of a record, quotes taken off.
///
/// # Errors
/// The position of a field that is written wrongly, and how.
pub(crate) fn record_texts(
    window: &[u8],
    fields: RecordFields<'_>,
    marks: Marks,
) -> Result<Vec<OwnedText>, (usize, Problem)> {
    let mut scratch = Vec::new();
    (0..fields.ends.len())
        .map(|position| match read_field(fields.field(window, position), marks, &mut scratch) {
            FieldText::Bare(text) => Ok(OwnedText { is_quoted: false, text: text.to_vec() }),
            FieldText::Quoted(text) => Ok(OwnedText { is_quoted: true, text: text.to_vec() }),
            FieldText::TrailingText => Err((position, Problem::TrailingText)),
            FieldText::Unclosed => Err((position, Problem::Unclosed)),
        })
        .collect()
}
