//! Getting past values that nobody asked for.
//!
//! **Owns**: skipping a value, and skipping to the end of an object or list from anywhere inside it; the byte by byte
//! reference of the latter, which is also the way on machines without AVX2.
//!
//! **Does not own**: checking what is skipped. Quotes and escapes are followed exactly; brackets and braces must
//! balance and the outermost ones must be of one kind; everything else passes (`strict` scans validate first).
//!
//! **Invariants**: never looks past the record's `end`; nesting deeper than [`MAX_DEPTH`] is an error.

use super::bad::{Bad, What};
use super::byte_scan::{byte, scalar_end, skip_space, string_end};
use crate::error::MAX_DEPTH;

/// The position just behind the value at `pos`, white space before it allowed. `depth` objects and lists are open
/// around it.
#[inline(always)]
pub(super) fn skip_value(buf: &[u8], mut pos: usize, end: usize, depth: u32) -> Result<usize, Bad> {
    let mut first = byte(buf, pos);
    if first <= b' ' {
        pos = skip_space(buf, pos);
        first = byte(buf, pos);
    }
    match first {
        b'"' => Ok(string_end(buf, pos + 1, end)?.0 + 1),
        b'0'..=b'9' | b'-' | b't' | b'f' | b'n' => Ok(scalar_end(buf, pos, end)),
        b'{' | b'[' => skip_container(buf, pos, end, depth),
        _ => Err(Bad::new(pos, What::Value)),
    }
}

/// The position just behind the object or list that opens at `open`; `depth` more are open around it.
#[inline]
pub(super) fn skip_container(buf: &[u8], open: usize, end: usize, depth: u32) -> Result<usize, Bad> {
    let is_list = byte(buf, open) == b'[';
    let outcome = skip_levels(buf, open + 1, end, Levels { open: 1, around: depth });
    closed(buf, outcome, is_list, open)
}

/// The position just behind the end of the object that opened at `open`, from `pos` inside it where `levels` objects
/// and lists (it and those inside it) are open; `depth` more are open around it.
#[inline]
pub(super) fn skip_rest(
    buf: &[u8],
    pos: usize,
    end: usize,
    levels: u32,
    depth: u32,
    open: usize,
) -> Result<usize, Bad> {
    let outcome = skip_levels(buf, pos, end, Levels { open: levels, around: depth });
    closed(buf, outcome, false, open)
}

fn closed(buf: &[u8], outcome: Outcome, is_list: bool, open: usize) -> Result<usize, Bad> {
    match outcome {
        Outcome::Closed(at) if (byte(buf, at) == b']') == is_list => Ok(at + 1),
        Outcome::TooDeep(at) => Err(Bad::new(at, What::TooDeep)),
        _ => Err(Bad::new(open, if is_list { What::ClosingBracket } else { What::ClosingBrace })),
    }
}

/// How many objects and lists are open at a position: those to be closed, and those around them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    /// Must be closed to be done; at least one.
    pub(super) open: u32,
    /// Only count towards [`MAX_DEPTH`].
    pub(super) around: u32,
}

impl Levels {
    pub(super) fn is_too_deep(self) -> bool {
        (self.open + self.around) as usize > MAX_DEPTH
    }
}

/// How skipping levels ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The bracket or brace at this position closed the last level.
    Closed(usize),
    /// The one at this position opened one level too many.
    TooDeep(usize),
    /// The record ended first.
    Unclosed,
}

#[inline]
fn skip_levels(buf: &[u8], pos: usize, end: usize, levels: Levels) -> Outcome {
    #[cfg(target_arch = "x86_64")]
    if let Some(outcome) = super::skip_avx2::skip_levels(buf, pos, end, levels) {
        return outcome;
    }
    skip_levels_by_byte(buf, pos, end, levels)
}

/// The reference: one byte at a time.
pub(super) fn skip_levels_by_byte(buf: &[u8], mut pos: usize, end: usize, mut levels: Levels) -> Outcome {
    while pos < end {
        match buf[pos] {
            b'"' => match string_end(buf, pos + 1, end) {
                Ok((quote, _)) => pos = quote,
                Err(_) => return Outcome::Unclosed,
            },
            b'{' | b'[' => {
                levels.open += 1;
                if levels.is_too_deep() {
                    return Outcome::TooDeep(pos);
                }
            }
            b'}' | b']' => {
                levels.open -= 1;
                if levels.open == 0 {
                    return Outcome::Closed(pos);
                }
            }
            // No JSON, but read alike on every machine: outside of strings, too, a backslash hides a quote.
            b'\\' if matches!(byte(buf, pos + 1), b'"' | b'\\') => pos += 1,
            _ => {}
        }
        pos += 1;
    }
    Outcome::Unclosed
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_are_skipped_whole() {
        for value in
            ["1", "-1.5e3", "true", "null", r#""a\"]}""#, r#"[1,[2,{"a":"]"}]]"#, r#"{"a":{"b":["}"]}}"#, "{}", "[]"]
        {
            for tail in [",1", "}", "]", " ", "\n"] {
                let text = format!(" {value}{tail}");
                assert_eq!(skip_value(text.as_bytes(), 0, text.len(), 0), Ok(value.len() + 1), "{text}");
            }
            assert_eq!(skip_value(value.as_bytes(), 0, value.len(), 0), Ok(value.len()), "{value}");
        }
    }

    #[test]
    fn what_does_not_balance_is_reported_where_it_opens() {
        let skip = |text: &str| skip_value(text.as_bytes(), 0, text.len(), 0).unwrap_err();
        assert_eq!(skip("[1,2"), Bad::new(0, What::ClosingBracket));
        assert_eq!(skip("{\"a\":[1]"), Bad::new(0, What::ClosingBrace));
        assert_eq!(skip("[1}"), Bad::new(0, What::ClosingBracket));
        assert_eq!(skip("{\"a]}"), Bad::new(0, What::ClosingBrace));
        assert_eq!(skip("\"a"), Bad::new(0, What::ClosingQuote));
        assert_eq!(skip(" x"), Bad::new(1, What::Value));
    }

    #[test]
    fn nesting_is_limited_to_the_byte() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = nested(MAX_DEPTH);
        assert_eq!(skip_container(deep.as_bytes(), 0, deep.len(), 0), Ok(deep.len()));
        assert_eq!(skip_container(deep.as_bytes(), 0, deep.len(), 1), Err(Bad::new(MAX_DEPTH - 1, What::TooDeep)));
        let deeper = nested(MAX_DEPTH + 1);
        assert_eq!(skip_container(deeper.as_bytes(), 0, deeper.len(), 0), Err(Bad::new(MAX_DEPTH, What::TooDeep)));
    }

    #[test]
    fn vectors_and_bytes_close_at_the_same_place() {
        let mut state = 0x1234_5678_9abc_def1_u64;
        for round in 0..50_000 {
            let mut next = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let len = next(400) as usize;
            let alphabet: &[u8] = match round % 3 {
                0 => b"aaaaaaaa0,:{}[]\"\\",
                1 => b"\\\\\\\"aa{}",
                _ => b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{{}]\"\"\xfb\xdb\xdd",
            };
            let buf: Vec<u8> = (0..len).map(|_| alphabet[next(alphabet.len() as u64) as usize]).collect();
            let end = len - next(len.min(70) as u64 + 1) as usize;
            let pos = next(end as u64 + 1) as usize;
            let levels = Levels { open: 1 + next(4) as u32, around: if round % 5 == 0 { 509 } else { 0 } };
            if levels.is_too_deep() {
                continue;
            }
            let expected = skip_levels_by_byte(&buf, pos, end, levels);
            let text = String::from_utf8_lossy(&buf);
            assert_eq!(skip_levels(&buf, pos, end, levels), expected, "{pos} {end} {levels:?} {text}");
        }
    }
}
