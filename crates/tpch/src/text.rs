//! Numbers, dates and strings as bytes. Owns the spelling of single values; knows nothing of fields or formats' frames.

use std::fmt::Display;
use std::io::Write;
use std::sync::LazyLock;

use tpchgen::dates::{MIN_GENERATE_DATE, TOTAL_DATE_RANGE, TPCHDate};

/// "00" to "99": two digits a step halve the divisions of a number.
static DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0u8; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Every date TPC-H can draw, as `YYYY-MM-DD`, by days since 1992-01-01.
static DATES: LazyLock<Vec<[u8; 10]>> = LazyLock::new(|| {
    (0..TOTAL_DATE_RANGE)
        .map(|day| {
            let mut text = [0u8; 10];
            let mut rest = text.as_mut_slice();
            write!(rest, "{}", TPCHDate::new(MIN_GENERATE_DATE + day)).expect("a date is ten bytes");
            text
        })
        .collect()
});

/// Appends a whole number in decimal.
pub fn push_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0u8; 20]; // u64::MAX has 20
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    while rest >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&DIGIT_PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest > 0 || start == digits.len() {
        start -= 1;
        digits[start] = b'0' + rest as u8;
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a number with two decimals, given in hundredths: 5 is `0.05`.
pub fn push_hundredths(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let size = value.unsigned_abs();
    push_integer(out, (size / 100) as i64);
    out.push(b'.');
    out.extend_from_slice(&DIGIT_PAIRS[(size % 100) as usize]);
}

pub(super) fn push_date(out: &mut Vec<u8>, date: TPCHDate) {
    out.extend_from_slice(&DATES[date.into_inner() as usize]);
}

pub(super) fn push_display(out: &mut Vec<u8>, value: impl Display) {
    write!(out, "{value}").expect("a vector takes every byte");
}

/// Appends a JSON string with its quotes; what JSON forbids in one is escaped.
pub fn push_json_string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    if value.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        for c in value.chars() {
            match c {
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                '\0'..='\x1f' => push_display(out, format_args!("\\u{:04x}", c as u32)),
                _ => push_display(out, c),
            }
        }
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
}

/// A quoted CSV field; quotes inside are doubled.
pub(super) fn push_csv_quoted(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for (i, piece) in value.split('"').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(piece.as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("only text is written")
    }

    #[test]
    fn integers_read_as_the_standard_library_writes_them() {
        for value in (-1100..1100).chain([i64::MIN, i64::MAX, 99_999, 100_000, -1_000_000]) {
            assert_eq!(text(|out| push_integer(out, value)), value.to_string());
        }
    }

    #[test]
    fn hundredths_always_show_two_decimals() {
        for (value, expected) in [(0, "0.00"), (5, "0.05"), (-5, "-0.05"), (100, "1.00"), (123_456, "1234.56")] {
            assert_eq!(text(|out| push_hundredths(out, value)), expected);
        }
    }

    #[test]
    fn dates_read_as_the_generator_writes_them() {
        for day in 0..TOTAL_DATE_RANGE {
            let date = TPCHDate::new(MIN_GENERATE_DATE + day);
            assert_eq!(text(|out| push_date(out, date)), date.to_string());
        }
    }

    #[test]
    fn strings_are_escaped_only_where_their_format_asks() {
        assert_eq!(text(|out| push_json_string(out, "plain, ü")), "\"plain, ü\"");
        assert_eq!(text(|out| push_json_string(out, "a\"b\\c\nü")), r#""a\"b\\c\u000aü""#);
        assert_eq!(text(|out| push_csv_quoted(out, "a,b")), "\"a,b\"");
        assert_eq!(text(|out| push_csv_quoted(out, "say \"hi\"")), r#""say ""hi""""#);
    }
}
