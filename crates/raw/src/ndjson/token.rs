//! Single JSON tokens: numbers, literals and strings with escapes.
//!
//! **Owns**: the grammar of RFC 8259 for scalars that somebody asked for.
//!
//! **Does not own**: values of numbers (`leaf`), skipping (`skip`).

use super::bad::{Bad, What};
use super::byte_scan::{byte, is_delimiter};

/// Whether a JSON value can begin with this byte.
pub(super) fn begins_value(byte: u8) -> bool {
    matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}

/// The position behind the number at `pos`, which a delimiter must follow.
#[inline]
pub(super) fn number_end(buf: &[u8], pos: usize) -> Result<usize, Bad> {
    let digits = |mut at: usize| {
        let start = at;
        while byte(buf, at).is_ascii_digit() {
            at += 1;
        }
        (at > start).then_some(at)
    };
    let bad = Bad::new;
    let first = pos + usize::from(byte(buf, pos) == b'-');
    let mut at = digits(first).ok_or_else(|| bad(pos, What::Number))?;
    if byte(buf, first) == b'0' && at > first + 1 {
        return Err(bad(pos, What::Number));
    }
    if byte(buf, at) == b'.' {
        at = digits(at + 1).ok_or_else(|| bad(pos, What::Number))?;
    }
    if byte(buf, at) | 0x20 == b'e' {
        at += 1 + usize::from(matches!(byte(buf, at + 1), b'+' | b'-'));
        at = digits(at).ok_or_else(|| bad(pos, What::Number))?;
    }
    if is_delimiter(byte(buf, at)) { Ok(at) } else { Err(bad(pos, What::Number)) }
}

/// `true`, `false` or `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    True,
    False,
    Null,
}

/// The literal at `pos`, which a delimiter must follow, and the position behind it.
#[inline]
pub(super) fn literal(buf: &[u8], pos: usize) -> Result<(Literal, usize), Bad> {
    let (word, literal): (&[u8], _) = match byte(buf, pos) {
        b't' => (b"true", Literal::True),
        b'f' => (b"false", Literal::False),
        _ => (b"null", Literal::Null),
    };
    let end = pos + word.len();
    if buf.get(pos..end) == Some(word) && is_delimiter(byte(buf, end)) {
        Ok((literal, end))
    } else {
        Err(Bad::new(pos, What::Literal))
    }
}

/// Replaces `text` by a string's content without its escapes. Positions of faults count from the content's start.
pub(super) fn unescape(content: &[u8], text: &mut String) -> Result<(), Bad> {
    text.clear();
    let mut pos = 0;
    while pos < content.len() {
        let plain = memchr::memchr(b'\\', &content[pos..]).map_or(content.len(), |at| pos + at);
        let run = std::str::from_utf8(&content[pos..plain])
            .map_err(|error| Bad::new(pos + error.valid_up_to(), What::Utf8))?;
        text.push_str(run);
        if plain == content.len() {
            break;
        }
        pos = plain + 2;
        text.push(match byte(content, plain + 1) {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (character, end) = unicode_escape(content, plain)?;
                pos = end;
                character
            }
            _ => return Err(Bad::new(plain, What::Escape)),
        });
    }
    Ok(())
}

/// The character of the `\u` escape (or the pair of them) whose backslash is at `at`, and the position behind it.
pub(super) fn unicode_escape(content: &[u8], at: usize) -> Result<(char, usize), Bad> {
    let high = four_digits(content, at)?;
    let second = at + 6;
    if !(0xd800..0xe000).contains(&high) {
        return char::from_u32(high).map(|c| (c, second)).ok_or_else(|| Bad::new(at, What::Surrogate));
    }
    if high >= 0xdc00 || content.get(second..second + 2) != Some(b"\\u") {
        return Err(Bad::new(at, What::Surrogate));
    }
    let low = four_digits(content, second)?;
    if !(0xdc00..0xe000).contains(&low) {
        return Err(Bad::new(at, What::Surrogate));
    }
    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    char::from_u32(code).map(|c| (c, second + 6)).ok_or_else(|| Bad::new(at, What::Surrogate))
}

fn four_digits(content: &[u8], at: usize) -> Result<u32, Bad> {
    let digits = content.get(at + 2..at + 6).ok_or_else(|| Bad::new(at, What::Escape))?;
    let mut value = 0;
    for &digit in digits {
        let digit = char::from(digit).to_digit(16).ok_or_else(|| Bad::new(at, What::Escape))?;
        value = value << 4 | digit;
    }
    Ok(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_grammar() {
        for number in ["0", "-0", "1", "-12", "1.5", "0.5", "1e5", "1E+5", "1.25e-3", "123456789012345678901234567890"]
        {
            for tail in ["", ",", "}", "]", " ", "\r"] {
                let text = format!("{number}{tail}");
                assert_eq!(number_end(text.as_bytes(), 0), Ok(number.len()), "{text}");
            }
        }
        for text in ["-", "01", "-01", "1.", ".5", "1e", "1e+", "1x", "1.5.5", "--1", "+1", "1\"", "1:"] {
            assert_eq!(number_end(text.as_bytes(), 0), Err(Bad::new(0, What::Number)), "{text}");
        }
    }

    #[test]
    fn literals_are_exact() {
        assert_eq!(literal(b"true,", 0), Ok((Literal::True, 4)));
        assert_eq!(literal(b"false", 0), Ok((Literal::False, 5)));
        assert_eq!(literal(b" null}", 1), Ok((Literal::Null, 5)));
        for text in ["tru", "True", "truex", "nul", "none", "falsee"] {
            assert_eq!(literal(text.as_bytes(), 0), Err(Bad::new(0, What::Literal)), "{text}");
        }
    }

    #[test]
    fn escapes_become_characters() {
        let mut text = String::new();
        let content = r#"a\"\\\/\b\f\n\r\tü\u00e4\ud83d\ude00z"#;
        assert_eq!(unescape(content.as_bytes(), &mut text), Ok(()));
        assert_eq!(text, "a\"\\/\u{8}\u{c}\n\r\tüä😀z");
        for (content, at, what) in [
            (&br"ab\x"[..], 2, What::Escape),
            (br"\u12g4", 0, What::Escape),
            (br"\u12", 0, What::Escape),
            (br"a\ud83d", 1, What::Surrogate),
            (br"\ud83dx\ude00", 0, What::Surrogate),
            (br"\ud83d\u0041", 0, What::Surrogate),
            (br"\ude00", 0, What::Surrogate),
            (b"\\n\xff", 2, What::Utf8),
            (b"a\\", 1, What::Escape),
        ] {
            assert_eq!(unescape(content, &mut text), Err(Bad::new(at, what)), "{}", String::from_utf8_lossy(content));
        }
    }
}
