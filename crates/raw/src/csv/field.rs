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

/// The raw bytes of the field that `rest`, cut at the end of its record, begins with: up to the delimiter or newline
/// that ends it.
#[inline]
pub(crate) fn raw_field(rest: &[u8], marks: Marks) -> &[u8] {
    let end = match (rest.first(), marks.quote) {
        (Some(first), Some(quote)) if *first == quote => quoted_end(rest, quote, marks),
        _ => memchr::memchr2(marks.delimiter, b'\n', rest),
    };
    &rest[..end.unwrap_or(rest.len())]
}

fn quoted_end(rest: &[u8], quote: u8, marks: Marks) -> Option<usize> {
    let mut at = 1;
    loop {
        // Inside quotes.
        at += match marks.escape {
            None => memchr::memchr(quote, rest.get(at..)?),
            Some(escape) => memchr::memchr2(quote, escape, rest.get(at..)?),
        }?;
        if rest[at] != quote {
            at += 2;
            continue;
        }
        at += 1;
        // Behind them; a quote that follows at once is a doubled one.
        if rest.get(at) != Some(&quote) {
            return memchr::memchr2(marks.delimiter, b'\n', &rest[at..]).map(|end| at + end);
        }
        at += 1;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::index::RecordIndex;
    use super::*;

    #[test]
    fn a_field_read_from_its_start_ends_where_the_index_says() {
        for seed in 1..=5000_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut below = |bound: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as usize % bound
            };
            let window: Vec<u8> = (0..below(120)).map(|_| b"\"\"\"\"aab,,,\n\r\\"[below(13)]).collect();
            let quote = (below(5) > 0).then_some(b'"');
            let escape = (below(3) == 0).then_some(b'\\');
            let marks = Marks { delimiter: b',', quote, escape };
            let mut index = RecordIndex::default();
            index.build(&window, marks, true);
            for record in 0..index.record_count() {
                let fields = index.record(record);
                let end = (fields.ends[fields.ends.len() - 1] as usize + 1).min(window.len());
                for position in 0..fields.ends.len() {
                    let start = fields.field_start(position);
                    let expected = &window[start..fields.ends[position] as usize];
                    let text = String::from_utf8_lossy(&window);
                    let raw = raw_field(&window[start..end], marks);
                    assert_eq!(raw, expected, "seed {seed}, byte {start}, {marks:?}: {text:?}");
                }
            }
        }
    }
}
