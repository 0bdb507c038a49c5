//! What a row's fields are written into: a CSV record, a CSV header or a JSON object.
//!
//! Owns the frame around values (names, separators, quotes). `tables` names the fields, `text` spells the values.

use std::fmt::Display;

use tpchgen::dates::TPCHDate;

use super::text::{push_csv_quoted, push_date, push_display, push_hundredths, push_integer, push_json_string};

/// Takes the fields of one record, in order. No field is ever NULL in TPC-H.
pub(super) trait FieldSink {
    fn integer(&mut self, name: &'static str, value: i64);
    /// A number with two decimals, in hundredths.
    fn decimal(&mut self, name: &'static str, hundredths: i64);
    fn date(&mut self, name: &'static str, value: TPCHDate);
    /// A string from a fixed vocabulary: no comma, quote or newline in it.
    fn word(&mut self, name: &'static str, value: impl Display);
    /// As `word`, for strings that are at hand; spares the formatting machinery on the hot tables.
    fn known_word(&mut self, name: &'static str, value: &str);
    /// Free text, which may hold anything.
    fn text(&mut self, name: &'static str, value: &str);
}

/// Appends one CSV record; `end` closes the line.
pub(super) struct CsvRecord<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> CsvRecord<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    pub(super) fn end(self) {
        self.out.push(b'\n');
    }

    fn separate(&mut self) -> &mut Vec<u8> {
        if self.out.len() > self.start {
            self.out.push(b',');
        }
        self.out
    }
}

impl FieldSink for CsvRecord<'_> {
    fn integer(&mut self, _: &'static str, value: i64) {
        push_integer(self.separate(), value);
    }

    fn decimal(&mut self, _: &'static str, hundredths: i64) {
        push_hundredths(self.separate(), hundredths);
    }

    fn date(&mut self, _: &'static str, value: TPCHDate) {
        push_date(self.separate(), value);
    }

    fn word(&mut self, _: &'static str, value: impl Display) {
        push_display(self.separate(), value);
    }

    fn known_word(&mut self, _: &'static str, value: &str) {
        self.separate().extend_from_slice(value.as_bytes());
    }

    fn text(&mut self, _: &'static str, value: &str) {
        push_csv_quoted(self.separate(), value);
    }
}

/// Collects the names of a record's fields: the header line of a CSV file.
#[derive(Default)]
pub(super) struct FieldNames {
    pub(super) names: Vec<&'static str>,
}

impl FieldSink for FieldNames {
    fn integer(&mut self, name: &'static str, _: i64) {
        self.names.push(name);
    }

    fn decimal(&mut self, name: &'static str, _: i64) {
        self.names.push(name);
    }

    fn date(&mut self, name: &'static str, _: TPCHDate) {
        self.names.push(name);
    }

    fn word(&mut self, name: &'static str, _: impl Display) {
        self.names.push(name);
    }

    fn known_word(&mut self, name: &'static str, _: &str) {
        self.names.push(name);
    }

    fn text(&mut self, name: &'static str, _: &str) {
        self.names.push(name);
    }
}

/// Appends one JSON object; `end` closes it. No space anywhere.
pub(super) struct JsonObject<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> JsonObject<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    /// Writes the name of a field and hands out the buffer for its value.
    pub(super) fn name(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.first { b"\"" } else { b",\"" });
        self.first = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }
}

impl FieldSink for JsonObject<'_> {
    fn integer(&mut self, name: &'static str, value: i64) {
        push_integer(self.name(name), value);
    }

    fn decimal(&mut self, name: &'static str, hundredths: i64) {
        push_hundredths(self.name(name), hundredths);
    }

    fn date(&mut self, name: &'static str, value: TPCHDate) {
        let out = self.name(name);
        out.push(b'"');
        push_date(out, value);
        out.push(b'"');
    }

    fn word(&mut self, name: &'static str, value: impl Display) {
        let out = self.name(name);
        out.push(b'"');
        push_display(out, value);
        out.push(b'"');
    }

    fn known_word(&mut self, name: &'static str, value: &str) {
        let out = self.name(name);
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    }

    fn text(&mut self, name: &'static str, value: &str) {
        push_json_string(self.name(name), value);
    }
}
