//! CSV byte by byte, as one would explain it.

use super::super::fault::Problem;
use super::super::marks::Marks;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OracleField {
    pub(super) start: usize,
    pub(super) is_quoted: bool,
    pub(super) text: Vec<u8>,
    pub(super) problem: Option<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OracleRecord {
    pub(super) start: usize,
    /// After the newline.
    pub(super) end: usize,
    pub(super) ends_with_newline: bool,
    pub(super) is_blank: bool,
    pub(super) fields: Vec<OracleField>,
}

pub(super) fn parse(content: &[u8], marks: Marks) -> Vec<OracleRecord> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let record = parse_record(content, at, marks);
        at = record.end;
        records.push(record);
    }
    records
}

fn parse_record(content: &[u8], start: usize, marks: Marks) -> OracleRecord {
    let mut fields = Vec::new();
    let mut at = start;
    loop {
        let (field, end) = parse_field(content, at, marks);
        fields.push(field);
        at = end;
        if at >= content.len() {
            let line = &content[start..];
            let is_blank = line.is_empty() || line == b"\r";
            return OracleRecord { start, end: at, ends_with_newline: false, is_blank, fields };
        }
        at += 1;
        if content[at - 1] == b'\n' {
            let line = &content[start..at];
            let is_blank = line == b"\n" || line == b"\r\n";
            return OracleRecord { start, end: at, ends_with_newline: true, is_blank, fields };
        }
    }
}

/// The field at `start`, and the offset of the delimiter, newline or end of file after it.
fn parse_field(content: &[u8], start: usize, marks: Marks) -> (OracleField, usize) {
    let byte = |at: usize| content.get(at).copied();
    let is_end = |at: usize| match byte(at) {
        None => true,
        Some(byte) => byte == b'\n' || byte == marks.delimiter,
    };
    // A CR belongs to the line end when a newline or the end of the file follows.
    let is_line_end = |at: usize| byte(at) == Some(b'\r') && matches!(byte(at + 1), None | Some(b'\n'));
    let mut text = Vec::new();
    let mut at = start;
    if marks.quote.is_some() && byte(at) == marks.quote {
        at += 1;
        loop {
            let Some(current) = byte(at) else {
                let problem = Some(Problem::Unclosed);
                return (OracleField { start, is_quoted: true, text, problem }, at);
            };
            if marks.escape == Some(current) || (marks.quote == Some(current) && byte(at + 1) == marks.quote) {
                text.extend(byte(at + 1));
                at += 2;
                at = at.min(content.len());
            } else if marks.quote == Some(current) {
                at += 1;
                break;
            } else {
                text.push(current);
                at += 1;
            }
        }
        let mut problem = None;
        while !is_end(at) {
            if !is_line_end(at) {
                problem = Some(Problem::TrailingText);
            }
            at += 1;
        }
        return (OracleField { start, is_quoted: true, text, problem }, at);
    }
    while !is_end(at) {
        if !is_line_end(at) {
            text.push(content[at]);
        }
        at += 1;
    }
    (OracleField { start, is_quoted: false, text, problem: None }, at)
}
