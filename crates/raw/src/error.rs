//! What can go wrong while raw files are read, in words for the person who owns the file.
//!
//! **Owns**: the crate's error type, and how a bad value or record is described: file, place, column, what was seen,
//! what was expected.
//!
//! **Invariants**: what was seen is quoted escaped and cut to about [`SEEN_CHARACTERS`] characters, so that no message
//! floods a terminal or carries control characters.

use std::fmt::{self, Write};
use std::io;
use std::sync::Arc;

use thermocline_medium::MediumError;
use thermocline_predicate::FieldPath;

/// Longest quotation of a file's content in a message; enough to recognise the place.
pub const SEEN_CHARACTERS: usize = 60;

/// Longest record that is read, in bytes: a longer "line" is far more likely a binary file or a missing quote.
pub const MAX_RECORD_BYTES: usize = 256 << 20;

/// Deepest nesting of objects and lists that is read.
pub const MAX_DEPTH: usize = 512;

/// A place in a file and what was wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file's path or URL.
    pub file: Arc<str>,
    /// Offset of the offending byte from the start of the (decompressed) file.
    pub offset_bytes: u64,
    /// Line, counted from one; known for CSV.
    pub line: Option<u64>,
    /// The column at fault, where there is one.
    pub column: Option<String>,
    /// What the file holds there, made by [`quote_seen`].
    pub seen: String,
    /// What should have been there, for example `Int64` or `a comma or a closing brace`.
    pub expected: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ", byte {}", self.offset_bytes)?;
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.seen)
    }
}

/// Why a raw file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// A well-formed value of another type than the column's. With an inferred schema that is a value that
    /// contradicts the sampled rows.
    #[error(
        "{0}; the sampled rows said otherwise: raise `sample_rows` (-1 for all), declare the column's type, or set \
         on_error = 'skip'"
    )]
    Mismatch(Box<Fault>),
    /// Bytes that are not what the format prescribes.
    #[error("{0}")]
    Malformed(Box<Fault>),
    /// Objects and lists nested deeper than [`MAX_DEPTH`].
    #[error("{0}")]
    TooDeep(Box<Fault>),
    /// A record longer than [`MAX_RECORD_BYTES`].
    #[error("{file}, byte {offset_bytes}: a record of more than {} MiB; is this a text file with a record a line?", MAX_RECORD_BYTES >> 20)]
    RecordTooLong {
        /// The file's path or URL.
        file: Arc<str>,
        /// Where the record begins.
        offset_bytes: u64,
    },
    /// The sample has no record to infer columns from.
    #[error("{file}: no columns can be inferred: {reason}; declare them with CREATE EXTERNAL TABLE")]
    NothingToInfer {
        /// The file's path or URL, or the first of several.
        file: Arc<str>,
        /// What was there instead of records.
        reason: String,
    },
    /// No memory for the beginning of a file.
    #[error(
        "{file}: no memory for the records that columns are inferred from: {source}; lower `sample_rows`, or declare the \
         columns"
    )]
    SampleMemory {
        /// The file's path or URL.
        file: Arc<str>,
        /// Why there is none.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A plan that cannot be carried out, for instance a type that raw files cannot hold.
    #[error("column {column}: {reason}")]
    Plan {
        /// The column's path.
        column: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An option of a table that cannot hold, or not beside another.
    #[error("option `{name}`: {reason}")]
    Option {
        /// The option's name.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A column outgrew what one Arrow array can address.
    #[error(
        "{file}: column {column} outgrows an Arrow array (2 GiB of text or 2^31 elements) within one piece of the file"
    )]
    ColumnFull {
        /// The file's path or URL.
        file: Arc<str>,
        /// The column's path.
        column: String,
    },
    /// The file ended before the scan's end: it was truncated meanwhile.
    #[error(
        "{file}: ended at byte {offset_bytes} during the scan, expected {expected_bytes} bytes; the file was changed"
    )]
    Truncated {
        /// The file's path or URL.
        file: Arc<str>,
        /// Where reading stopped.
        offset_bytes: u64,
        /// The size pinned when the scan began.
        expected_bytes: u64,
    },
    /// A position at which no record can begin: it was noted in another file, or in another version of this one.
    #[error("{file}, byte {offset_bytes}: {reason}; the file was changed since its records' positions were noted")]
    Position {
        /// The file's path or URL.
        file: Arc<str>,
        /// The position.
        offset_bytes: u64,
        /// What was expected there, and what was found.
        reason: String,
    },
    /// Stored bytes that are no positional map of this file. Not a fault of the file: it is scanned without a map.
    #[error("{file}: its stored positional map is not used: {reason}")]
    PositionalMap {
        /// The file's path or URL.
        file: Arc<str>,
        /// What was expected of the map.
        reason: &'static str,
    },
    /// A remote morsel was to be decoded before it was fetched: a fault of the caller.
    #[error("{file}, byte {offset_bytes}: to be decoded before it was fetched")]
    NotFetched {
        /// The object's URL.
        file: Arc<str>,
        /// Where the morsel begins.
        offset_bytes: u64,
    },
    /// Compressed bytes that do not decompress.
    #[error("{file}, compressed byte {offset_bytes}: damaged or incomplete {format} data: {source}")]
    Decompress {
        /// The file's path or URL.
        file: Arc<str>,
        /// About where, in compressed bytes.
        offset_bytes: u64,
        /// `gzip` or `zstd`.
        format: &'static str,
        /// What the decompressor said.
        source: io::Error,
    },
    /// The medium below could not be read. Not transparent: whoever looks for the medium's error finds it as the cause.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// One of the others, told to each who waited for the same read.
    #[error("{0}")]
    Shared(#[source] Arc<RawError>),
    /// Arrow refused to build an array.
    #[error("{file}: building columns: {source}")]
    Arrow {
        /// The file's path or URL.
        file: Arc<str>,
        /// What Arrow said.
        source: arrow::error::ArrowError,
    },
}

impl RawError {
    /// The place and the words of errors about a file's content; None for the others.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Mismatch(fault) | Self::Malformed(fault) | Self::TooDeep(fault) => Some(fault),
            Self::Shared(error) => error.fault(),
            _ => None,
        }
    }

    /// The same error with the line filled in, where it has a place and lacks the line.
    #[must_use]
    pub fn with_line(mut self, line: u64) -> Self {
        if let Self::Mismatch(fault) | Self::Malformed(fault) | Self::TooDeep(fault) = &mut self {
            fault.line.get_or_insert(line);
        }
        self
    }

    /// A plan error about a column.
    pub fn plan(column: &FieldPath, reason: impl Into<String>) -> Self {
        Self::Plan { column: column.to_string(), reason: reason.into() }
    }
}

/// Bytes of a file as a message shows them: in quotation marks, escaped, invalid UTF-8 as `\xNN`, cut after about
/// [`SEEN_CHARACTERS`] characters; `the end of the record` where there are none.
pub fn quote_seen(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "the end of the record".to_owned();
    }
    let mut quoted = String::from("'");
    let mut written = 0;
    // Four bytes a character at most: no need to look at more of a long value.
    let head = bytes.get(..4 * SEEN_CHARACTERS + 4).unwrap_or(bytes);
    'chunks: for chunk in head.utf8_chunks() {
        for character in chunk.valid().chars() {
            if written == SEEN_CHARACTERS {
                break 'chunks;
            }
            written += 1;
            match character {
                '\'' | '"' => quoted.push(character),
                _ => quoted.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            if written >= SEEN_CHARACTERS {
                break 'chunks;
            }
            written += 1;
            // Writing to a String cannot fail.
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    }
    if written >= SEEN_CHARACTERS && bytes.len() > SEEN_CHARACTERS {
        quoted.push('…');
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_escaped_and_cut() {
        assert_eq!(quote_seen(b"1.5"), "'1.5'");
        assert_eq!(quote_seen(b"a\tb\x00\xff\"'"), "'a\\tb\\0\\xff\"''");
        assert_eq!(quote_seen("häß".as_bytes()), "'häß'");
        assert_eq!(quote_seen(b""), "the end of the record");
        let long = quote_seen(&[b'x'; 1000]);
        assert_eq!(long.chars().count(), SEEN_CHARACTERS + 3);
        assert!(long.ends_with("…'"));
        assert!(!quote_seen(&[b'x'; SEEN_CHARACTERS]).contains('…'));
    }

    #[test]
    fn messages_name_file_line_offset_column_seen_and_expected() {
        let fault = Fault {
            file: Arc::from("/data/a.csv"),
            offset_bytes: 17,
            line: None,
            column: Some("n".to_owned()),
            seen: quote_seen(b"1.5"),
            expected: "Int64".to_owned(),
        };
        let message = RawError::Mismatch(Box::new(fault)).with_line(3).to_string();
        assert!(
            message.starts_with("/data/a.csv, line 3, byte 17, column n: expected Int64, found '1.5';"),
            "{message}"
        );
        assert!(message.contains("`sample_rows`"), "{message}");
    }
}
