//! Which type a field's text could have, and the type that holds two kinds of text.
//!
//! Owns: [`ValueKind`], the recognition of values, and the widening rule of CSV inference. Does not own: parsing into
//! arrays (`leaf`), which accepts every text recognised here for the type it is recognised as.
//!
//! | text | kind |
//! |---|---|
//! | `true`, `false` in any case | Boolean |
//! | `-12`, `007` within 64 bits | Int64 |
//! | digits beyond 64 bits | Float64, or Utf8 by option; beyond the doubles Utf8 |
//! | `1.5`, `.5`, `5.`, `1e9`, `NaN`, `nan`, `inf`, `-inf` | Float64 |
//! | `2026-01-31`, a day that exists | Date32 |
//! | `2026-01-31 12:34[:56[.123456]]` or with `T` | Timestamp(µs) |
//! | the same with `Z`, `+02`, `+0200` or `+02:00` | Timestamp(µs, UTC) |
//! | either with 7 to 9 digits of fraction | nanoseconds instead of µs |
//! | anything else; blanks count | Utf8 |
//!
//! Widening: NULL with anything is that; Int64 with Float64 is Float64; Date32 with a timestamp without a zone is that
//! timestamp (midnight); µs with ns is ns, unless a value lies outside the years 1677 to 2262 that ns can hold; every
//! other mixture is Utf8. A column of NULLs is Utf8.

use arrow::datatypes::{DataType, TimeUnit};

use crate::leaf::calendar::{parse_date, parse_timestamp};
use crate::leaf::number::{parse_f64, parse_i64};

/// The type of columns with integers beyond 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BigIntegers {
    /// The nearest double.
    #[default]
    Float64,
    /// Their text.
    Utf8,
}

/// What a field's text could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// No value yet.
    Null,
    /// `true` or `false`.
    Boolean,
    /// Within 64 bits.
    Integer,
    /// With a fraction or an exponent, or an integer beyond 64 bits.
    Float,
    /// A calendar day.
    Date {
        /// Whether nanoseconds cannot hold its midnight.
        exceeds_nanoseconds: bool,
    },
    /// A day and a time of day.
    Timestamp {
        /// Whether it names its distance from UTC.
        is_zoned: bool,
        /// Whether it needs more than microseconds.
        is_nanoseconds: bool,
        /// Whether nanoseconds cannot hold it.
        exceeds_nanoseconds: bool,
    },
    /// None of these.
    Text,
}

impl ValueKind {
    /// The narrowest kind of a text that is not NULL.
    pub(crate) fn of(text: &[u8], big_integers: BigIntegers) -> Self {
        match text {
            [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => day(text),
            [b'-' | b'.' | b'0'..=b'9', ..] => number(text, big_integers),
            _ if text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false") => Self::Boolean,
            b"NaN" | b"nan" | b"inf" => Self::Float,
            _ => Self::Text,
        }
    }

    /// The narrowest kind that holds both.
    pub(crate) fn widen(self, other: Self) -> Self {
        use ValueKind::{Date, Float, Integer, Null, Text, Timestamp};
        match (self, other) {
            (a, b) if a == b => a,
            (Null, kind) | (kind, Null) => kind,
            (Integer, Float) | (Float, Integer) => Float,
            (Date { exceeds_nanoseconds: a }, Date { exceeds_nanoseconds: b }) => Date { exceeds_nanoseconds: a || b },
            (
                Date { exceeds_nanoseconds: a },
                Timestamp { is_zoned: false, is_nanoseconds, exceeds_nanoseconds: b },
            )
            | (
                Timestamp { is_zoned: false, is_nanoseconds, exceeds_nanoseconds: b },
                Date { exceeds_nanoseconds: a },
            ) => timestamp(false, is_nanoseconds, a || b),
            (
                Timestamp { is_zoned: a, is_nanoseconds: fine_a, exceeds_nanoseconds: far_a },
                Timestamp { is_zoned: b, is_nanoseconds: fine_b, exceeds_nanoseconds: far_b },
            ) if a == b => timestamp(a, fine_a || fine_b, far_a || far_b),
            _ => Text,
        }
    }

    /// The column type.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Null | Self::Text => DataType::Utf8,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Date { .. } => DataType::Date32,
            Self::Timestamp { is_zoned, is_nanoseconds, .. } => DataType::Timestamp(
                if is_nanoseconds { TimeUnit::Nanosecond } else { TimeUnit::Microsecond },
                is_zoned.then(|| "UTC".into()),
            ),
        }
    }
}

fn number(text: &[u8], big_integers: BigIntegers) -> ValueKind {
    if text == b"-inf" {
        return ValueKind::Float;
    }
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    if rest.is_empty() {
        return if whole.is_empty() {
            ValueKind::Text
        } else if parse_i64(text).is_some() {
            ValueKind::Integer
        } else if big_integers == BigIntegers::Float64 {
            float(text)
        } else {
            ValueKind::Text
        };
    }
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => split_digits(rest),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return ValueKind::Text;
    }
    let exponent = match rest {
        [] => return float(text),
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => digits,
        _ => return ValueKind::Text,
    };
    let (digits, rest) = split_digits(exponent);
    if digits.is_empty() || !rest.is_empty() { ValueKind::Text } else { float(text) }
}

/// A number beyond the doubles is text: it would become infinity.
fn float(text: &[u8]) -> ValueKind {
    if parse_f64(text).is_some() { ValueKind::Float } else { ValueKind::Text }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn day(text: &[u8]) -> ValueKind {
    let exceeds_nanoseconds = parse_timestamp(text, TimeUnit::Nanosecond).is_none();
    if parse_date(text).is_some() {
        return ValueKind::Date { exceeds_nanoseconds };
    }
    let exceeds_microseconds = parse_timestamp(text, TimeUnit::Microsecond).is_none();
    if exceeds_nanoseconds && exceeds_microseconds {
        return ValueKind::Text;
    }
    let is_zoned = text.iter().skip(10).any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    timestamp(is_zoned, exceeds_microseconds, exceeds_nanoseconds)
}

fn timestamp(is_zoned: bool, is_nanoseconds: bool, exceeds_nanoseconds: bool) -> ValueKind {
    if is_nanoseconds && exceeds_nanoseconds {
        return ValueKind::Text;
    }
    ValueKind::Timestamp { is_zoned, is_nanoseconds, exceeds_nanoseconds }
}
