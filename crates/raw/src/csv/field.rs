//! One field's bytes as they stand in the file, and the text they stand for.
//!
//! Owns: taking quotes and escapes off. Does not own: what the text means.
//!
//! Invariants: the bytes come from `index::RecordFields`, so a field that starts with a quote either closes it or ends
//! with the last record.
//!
//! Concurrency: pure functions over a caller's scratch buffer.

use super::marks::Marks;

/// A field's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldText<'a> {
    /// As it stands.
    Bare(&'a [u8]),
    /// Without its quotes.
    Quoted(&'a [u8]),
    /// The quotes close before the field ends.
    TrailingText,
    /// The quotes never close.
    Unclosed,
}

/// Reads a field. Copies (into `scratch`) only when there is a doubled or escaped byte to take out.
#[inline(always)]
pub(crate) fn read_field<'a>(raw: &'a [u8], marks: Marks, scratch: &'a mut Vec<u8>) -> FieldText<'a> {
    match (raw.first(), marks.quote) {
        (Some(first), Some(quote)) if *first == quote => read_quoted(raw, quote, marks, scratch),
        _ => FieldText::Bare(raw),
    }
}

fn read_quoted<'a>(raw: &'a [u8], quote: u8, marks: Marks, scratch: &'a mut Vec<u8>) -> FieldText<'a> {
    let body = &raw[1..];
    let next = |from: usize| {
        let rest = &body[from..];
        match marks.escape {
            None => memchr::memchr(quote, rest),
            Some(escape) => memchr::memchr2(quote, escape, rest),
        }
        .map(|at| from + at)
    };
    let Some(first) = next(0) else { return FieldText::Unclosed };
    if first + 1 == body.len() && body[first] == quote {
        return FieldText::Quoted(&body[..first]);
    }
    scratch.clear();
    let mut from = 0;
    let mut found = Some(first);
    while let Some(at) = found {
        scratch.extend_from_slice(&body[from..at]);
        if body[at] == quote && body.get(at + 1) != Some(&quote) {
            return if at + 1 == body.len() { FieldText::Quoted(scratch) } else { FieldText::TrailingText };
        }
        // A doubled quote, or an escape: the byte after it is data.
        let Some(&data) = body.get(at + 1) else { return FieldText::Unclosed };
        scratch.push(data);
        from = at + 2;
        found = next(from);
    }
    FieldText::Unclosed
}
