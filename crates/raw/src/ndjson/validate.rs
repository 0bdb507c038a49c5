//! Whether a record is JSON, every byte of it.
//!
//! **Owns**: the full grammar of RFC 8259, UTF-8 included, for strict scans, for samples, and for a last line that
//! lacks its newline and may be cut off.
//!
//! **Invariants**: nothing is allocated, nothing recurses: the kinds of the open objects and lists are bits.

use super::bad::{Bad, What};
use super::byte_scan::{byte, skip_space, string_end};
use super::token::{literal, number_end, unicode_escape};
use crate::error::MAX_DEPTH;

/// Open objects and lists, innermost last; a set bit is an object.
struct Open {
    bits: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Open {
    fn push(&mut self, is_object: bool, pos: usize) -> Result<(), Bad> {
        if self.depth == MAX_DEPTH {
            return Err(Bad::new(pos, What::TooDeep));
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.bits[self.depth / 64];
        *word = if is_object { *word | bit } else { *word & !bit };
        self.depth += 1;
        Ok(())
    }

    fn is_object(&self) -> bool {
        let at = self.depth - 1;
        self.bits[at / 64] >> (at % 64) & 1 == 1
    }
}

/// Checks that `buf[start..end]` is one object and nothing else.
pub(super) fn validate_record(buf: &[u8], start: usize, end: usize) -> Result<(), Bad> {
    if byte(buf, start) != b'{' {
        return Err(Bad::new(start, What::RecordStart));
    }
    if let Err(error) = std::str::from_utf8(&buf[start..end]) {
        return Err(Bad::new(start + error.valid_up_to(), What::Utf8));
    }
    let mut open = Open { bits: [0; MAX_DEPTH / 64], depth: 0 };
    let mut pos = start;
    loop {
        // At a value.
        pos = skip_space(buf, pos);
        match byte(buf, pos) {
            b'{' => {
                open.push(true, pos)?;
                pos = skip_space(buf, pos + 1);
                if byte(buf, pos) != b'}' {
                    pos = key(buf, pos, end)?;
                    continue;
                }
            }
            b'[' => {
                open.push(false, pos)?;
                pos = skip_space(buf, pos + 1);
                if byte(buf, pos) != b']' {
                    continue;
                }
            }
            b'"' => pos = string(buf, pos, end)?,
            b'-' | b'0'..=b'9' => pos = number_end(buf, pos)?,
            b't' | b'f' | b'n' => pos = literal(buf, pos)?.1,
            _ => return Err(Bad::new(pos, What::Value)),
        }
        // Behind a value, or at the end of an empty object or list.
        loop {
            pos = skip_space(buf, pos);
            match (open.is_object(), byte(buf, pos)) {
                (true, b',') => {
                    pos = key(buf, skip_space(buf, pos + 1), end)?;
                    break;
                }
                (false, b',') => {
                    pos += 1;
                    break;
                }
                (true, b'}') | (false, b']') => {
                    open.depth -= 1;
                    pos += 1;
                    if open.depth == 0 {
                        return if skip_space(buf, pos) >= end { Ok(()) } else { Err(trailing(buf, pos)) };
                    }
                }
                (true, _) => return Err(Bad::new(pos, What::CommaOrBrace)),
                (false, _) => return Err(Bad::new(pos, What::CommaOrBracket)),
            }
        }
    }
}

fn trailing(buf: &[u8], pos: usize) -> Bad {
    Bad::new(skip_space(buf, pos), What::TrailingContent)
}

/// The position behind the colon of the key at `pos`.
fn key(buf: &[u8], pos: usize, end: usize) -> Result<usize, Bad> {
    if byte(buf, pos) != b'"' {
        return Err(Bad::new(pos, What::Key));
    }
    let colon = skip_space(buf, string(buf, pos, end)?);
    if byte(buf, colon) == b':' { Ok(colon + 1) } else { Err(Bad::new(colon, What::Colon)) }
}

/// The position behind the string that begins with the quote at `pos`.
fn string(buf: &[u8], pos: usize, end: usize) -> Result<usize, Bad> {
    let (quote, has_escape) = string_end(buf, pos + 1, end)?;
    let content = &buf[pos + 1..quote];
    // Without an early exit, so that it is done in vectors.
    if content.iter().fold(false, |found, &byte| found | (byte < b' '))
        && let Some(at) = content.iter().position(|&byte| byte < b' ')
    {
        return Err(Bad::new(pos + 1 + at, What::ControlCharacter));
    }
    if has_escape {
        let mut at = 0;
        while let Some(backslash) = memchr::memchr(b'\\', &content[at..]).map(|found| at + found) {
            let fault = |what| Bad::new(pos + 1 + backslash, what);
            at = match byte(content, backslash + 1) {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => backslash + 2,
                b'u' => unicode_escape(content, backslash).map_err(|bad| fault(bad.what()))?.1,
                _ => return Err(fault(What::Escape)),
            };
        }
    }
    Ok(quote + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), Bad> {
        validate_record(text.as_bytes(), 0, text.len())
    }

    #[test]
    fn json_objects_pass() {
        for text in [
            "{}",
            "{ }",
            r#"{"a":1}"#,
            r#" {"a" : [ ] , "b":{ "c" : [1 , 2.5e3,-0,"x",true,false,null] }, "":[[[]]]} "#.trim(),
            r#"{"a":1,"a":2,"ü\u00fc":"\"\\\/\b\f\n\r\t\ud83d\ude00 ü"}"#,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn faults_are_found_at_their_byte() {
        for (text, at, what) in [
            ("[]", 0, What::RecordStart),
            (r#"{"a":1"#, 6, What::CommaOrBrace),
            (r#"{"a":[1"#, 7, What::CommaOrBracket),
            (r#"{"a":[1}"#, 7, What::CommaOrBracket),
            (r#"{"a":[1]]"#, 8, What::CommaOrBrace),
            (r#"{"a":1,}"#, 7, What::Key),
            (r#"{a:1}"#, 1, What::Key),
            (r#"{"a" 1}"#, 5, What::Colon),
            (r#"{"a":}"#, 5, What::Value),
            (r#"{"a":[1,]}"#, 8, What::Value),
            (r#"{"a":01}"#, 5, What::Number),
            (r#"{"a":1.}"#, 5, What::Number),
            (r#"{"a":nul}"#, 5, What::Literal),
            (r#"{"a":"x}"#, 5, What::ClosingQuote),
            (r#"{"a":"x\y"}"#, 7, What::Escape),
            (r#"{"a":"\ud800"}"#, 6, What::Surrogate),
            ("{\"a\":\"x\ty\"}", 7, What::ControlCharacter),
            (r#"{"a":1} {"b":2}"#, 8, What::TrailingContent),
            (r#"{"a":1}x"#, 7, What::TrailingContent),
            (r#"{"a":"#, 5, What::Value),
            (r#"{"#, 1, What::Key),
        ] {
            assert_eq!(check(text), Err(Bad::new(at, what)), "{text}");
        }
        assert_eq!(validate_record(b"{\"a\":\"\xff\"}", 0, 9), Err(Bad::new(6, What::Utf8)));
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |lists: usize| format!("{{\"a\":{}{}}}", "[".repeat(lists), "]".repeat(lists));
        assert_eq!(check(&nested(MAX_DEPTH - 1)), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH)), Err(Bad::new(5 + MAX_DEPTH - 1, What::TooDeep)));
    }
}
