//! Bytes as a manifest, or what is wrong with them.
//!
//! **Invariants**: never a panic, whatever the bytes; no memory for more than a small multiple of them. What is read is
//! written as the same bytes again, so that nothing in a manifest goes unread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::Peekable;
use std::str::Split;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use xxhash_rust::xxh3::xxh3_64;

use super::encode::{MAGIC, VERSION, read_type, require_size};
use super::quoted::unquote;
use super::segment_names::number_of;
use super::{CatalogError, ColumnTable, Entry, EntryName, Manifest};
use crate::SegmentInfo;

/// Line 1 ends before: the magic, the greatest version and length, a checksum.
const HEAD_LIMIT_BYTES: usize = 96;

/// How much of what was found a message shows.
const SHOWN_CHARACTERS: usize = 60;

impl Manifest {
    /// The manifest of a file.
    ///
    /// # Errors
    /// The bytes are not a manifest as it was written; each says where, what was found and what was expected.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CatalogError> {
        require_size(bytes.len() as u64)?;
        let body = checked_body(bytes)?;
        let text = std::str::from_utf8(body)
            .map_err(|error| CatalogError::Text { offset: (bytes.len() - body.len() + error.valid_up_to()) as u64 })?;
        // Each line ends with a newline, so that the last piece is empty.
        let mut lines = Lines { pieces: text.split('\n').peekable(), number: 1 };
        lines.manifest()
    }
}

fn shown(found: &str) -> String {
    let mut cut: String = found.chars().take(SHOWN_CHARACTERS).collect();
    if cut.len() < found.len() {
        cut.push('…');
    }
    format!("{cut:?}")
}

fn wrong(line: u64, found: &str, expected: &str) -> CatalogError {
    CatalogError::Line { line, found: shown(found), expected: expected.to_owned() }
}

/// What follows line 1, after magic, version, length and checksum have been compared.
fn checked_body(bytes: &[u8]) -> Result<&[u8], CatalogError> {
    let start = &bytes[..bytes.len().min(HEAD_LIMIT_BYTES)];
    if !start.starts_with(MAGIC.as_bytes()) {
        let found = String::from_utf8_lossy(&start[..start.len().min(MAGIC.len())]).into_owned();
        return Err(CatalogError::Magic { found, expected: MAGIC });
    }
    let head_length = start.iter().position(|&byte| byte == b'\n').unwrap_or(start.len());
    let head = String::from_utf8_lossy(&start[MAGIC.len()..head_length]);
    let mut words = Words { line: 1, rest: Some(&head) };
    // The version first: a newer one may say anything after it.
    let version = words.number("the version of the format")?;
    if version != VERSION {
        return Err(CatalogError::Version { found: version, expected: VERSION });
    }
    let expected_bytes = words.number("a length in bytes")?;
    let expected = words.checksum()?;
    words.end()?;
    let body = bytes.get(head_length + 1..).ok_or_else(|| wrong(1, &head, "a line's end after the checksum"))?;
    if body.len() as u64 != expected_bytes {
        return Err(CatalogError::Length { found_bytes: body.len() as u64, expected_bytes });
    }
    let found = xxh3_64(body);
    if found != expected {
        return Err(CatalogError::Checksum { found, expected });
    }
    Ok(body)
}

/// The words of a line, with one blank between two of them. `rest` is `None` after the last.
struct Words<'a> {
    line: u64,
    rest: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn word(&mut self, expected: &str) -> Result<&'a str, CatalogError> {
        let rest = self.rest.ok_or_else(|| wrong(self.line, "", expected))?;
        let (word, rest) = rest.split_once(' ').map_or((rest, None), |(word, rest)| (word, Some(rest)));
        self.rest = rest;
        Ok(word)
    }

    fn number(&mut self, expected: &str) -> Result<u64, CatalogError> {
        let word = self.word(expected)?;
        let number = word.parse().ok().filter(|number: &u64| number.to_string() == word);
        number.ok_or_else(|| wrong(self.line, word, expected))
    }

    fn checksum(&mut self) -> Result<u64, CatalogError> {
        let expected = "a checksum of 16 hexadecimal digits";
        let word = self.word(expected)?;
        let checksum = u64::from_str_radix(word, 16).ok().filter(|checksum| format!("{checksum:016x}") == word);
        checksum.ok_or_else(|| wrong(self.line, word, expected))
    }

    fn text(&mut self, expected: &str) -> Result<String, CatalogError> {
        let rest = self.rest.unwrap_or_default();
        let wrong = || wrong(self.line, rest, &format!("{expected} in quotes"));
        let (text, after) = unquote(rest).ok_or_else(wrong)?;
        self.rest = match after.strip_prefix(' ') {
            None if after.is_empty() => None,
            None => return Err(wrong()),
            after => after,
        };
        Ok(text)
    }

    fn entry_name(&mut self) -> Result<EntryName, CatalogError> {
        Ok(EntryName { schema: self.text("a schema")?, name: self.text("a name")? })
    }

    fn end(&self) -> Result<(), CatalogError> {
        self.rest.map_or(Ok(()), |rest| Err(wrong(self.line, rest, "the line's end")))
    }
}

/// The lines after line 1.
struct Lines<'a> {
    pieces: Peekable<Split<'a, char>>,
    /// Of the line that was taken last.
    number: u64,
}

impl<'a> Lines<'a> {
    /// The next line, whose first word is not taken.
    fn take(&mut self) -> Words<'a> {
        self.number += 1;
        Words { line: self.number, rest: Some(self.pieces.next().unwrap_or_default()) }
    }

    /// The rest of the next line if it is of this kind.
    fn take_if(&mut self, kind: &str) -> Option<Words<'a>> {
        let line = self.pieces.next_if(|line| line.split(' ').next() == Some(kind))?;
        self.number += 1;
        let rest = line.split_once(' ').map(|(_, rest)| rest);
        Some(Words { line: self.number, rest })
    }

    /// The number behind a word that has a line of its own.
    fn numbered(&mut self, kind: &str) -> Result<u64, CatalogError> {
        let expected = format!("\"{kind}\" and a number");
        let Some(mut words) = self.take_if(kind) else {
            let words = self.take();
            return Err(wrong(words.line, words.rest.unwrap_or_default(), &expected));
        };
        let number = words.number(&expected)?;
        words.end()?;
        Ok(number)
    }

    fn manifest(&mut self) -> Result<Manifest, CatalogError> {
        let version = self.numbered("version")?;
        let next_file = self.numbered("next-file")?;
        let mut entries = BTreeMap::new();
        let mut segment_names = BTreeSet::new();
        loop {
            let (line, (name, entry)) = if let Some(mut words) = self.take_if("table") {
                let name = words.entry_name()?;
                words.end()?;
                (words.line, (name, Entry::ColumnTable(self.table(next_file, &mut segment_names)?)))
            } else if let Some(mut words) = self.take_if("external") {
                let (name, definition) = definition(&mut words)?;
                (words.line, (name, Entry::ExternalTable { definition }))
            } else if let Some(mut words) = self.take_if("view") {
                let (name, definition) = definition(&mut words)?;
                (words.line, (name, Entry::View { definition }))
            } else {
                self.end()?;
                return Ok(Manifest { entries, version, next_file });
            };
            if let Some((last, _)) = entries.last_key_value()
                && *last >= name
            {
                return Err(wrong(line, &name.to_string(), &format!("a name after {}", shown(&last.to_string()))));
            }
            entries.insert(name, entry);
        }
    }

    /// What follows the line of a column table.
    fn table(&mut self, next_file: u64, names: &mut BTreeSet<String>) -> Result<ColumnTable, CatalogError> {
        let metadata = self.metadata()?;
        let mut fields = Vec::new();
        while let Some(mut words) = self.take_if("column") {
            let name = words.text("a column's name")?;
            let type_text = words.text("a type")?;
            let data_type = read_type(&type_text)
                .ok_or_else(|| wrong(words.line, &type_text, "a type that column pages hold, as Arrow writes it"))?;
            let is_nullable = match words.word("\"nullable\" or \"not-null\"")? {
                "nullable" => true,
                "not-null" => false,
                other => return Err(wrong(words.line, other, "\"nullable\" or \"not-null\"")),
            };
            words.end()?;
            fields.push(Field::new(name, data_type, is_nullable).with_metadata(self.metadata()?));
        }
        let mut segments = Vec::new();
        while let Some(mut words) = self.take_if("segment") {
            let name = words.text("a segment's name")?;
            let is_known = number_of(&name).is_some_and(|number| number < next_file);
            if !is_known || !names.insert(name.clone()) {
                let expected = format!("the name of a segment below {next_file} that no line before has");
                return Err(wrong(words.line, &name, &expected));
            }
            let size_bytes = words.number("a size in bytes")?;
            let row_count = words.number("a number of rows")?;
            let footer_checksum = words.checksum()?;
            words.end()?;
            segments.push(SegmentInfo { name, size_bytes, row_count, footer_checksum });
        }
        Ok(ColumnTable { columns: Arc::new(Schema::new_with_metadata(fields, metadata)), segments })
    }

    /// The metadata of what the line before describes.
    fn metadata(&mut self) -> Result<HashMap<String, String>, CatalogError> {
        let mut metadata = HashMap::new();
        let mut last: Option<String> = None;
        while let Some(mut words) = self.take_if("metadata") {
            let key = words.text("a key")?;
            let value = words.text("a value")?;
            words.end()?;
            if last.is_some_and(|last| last >= key) {
                return Err(wrong(words.line, &key, "a key after the one before"));
            }
            metadata.insert(key.clone(), value);
            last = Some(key);
        }
        Ok(metadata)
    }

    /// Nothing but the empty piece behind the last newline.
    fn end(&mut self) -> Result<(), CatalogError> {
        self.number += 1;
        match (self.pieces.next(), self.pieces.next()) {
            (Some(""), None) => Ok(()),
            (None, _) => Err(wrong(self.number, "", "a newline at the end of the line before")),
            (Some(found), _) => {
                let expected = "\"table\", \"external\" or \"view\"; or below a table \"metadata\", \"column\" or \"segment\", in this order";
                Err(wrong(self.number, found, expected))
            }
        }
    }
}

fn definition(words: &mut Words<'_>) -> Result<(EntryName, String), CatalogError> {
    let name = words.entry_name()?;
    let definition = words.text("a definition")?;
    words.end()?;
    Ok((name, definition))
}
