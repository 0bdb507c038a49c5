//! Dates and times from text.
//!
//! **Owns**: `YYYY-MM-DD` and `YYYY-MM-DD[T ]HH:MM[:SS[.fraction]][ ][Z|±HH[[:]MM]]`, proleptic Gregorian calendar.
//!
//! **Invariants**: nothing is rounded: a fraction finer than the column's unit does not parse unless it is zero. A time
//! without an offset is UTC; one with an offset is turned into UTC. Leap seconds (`:60`) do not parse.

use arrow::datatypes::TimeUnit;

/// Exactly `count` digits at `at`.
fn digits(text: &[u8], at: usize, count: usize) -> Option<i64> {
    let mut value = 0;
    for &byte in text.get(at..at + count)? {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(value)
}

/// Days since 1970-01-01 of a civil date (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of the `YYYY-MM-DD` at the start of `text`.
fn date_prefix(text: &[u8]) -> Option<i64> {
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    let well_formed = text.get(4) == Some(&b'-') && text.get(7) == Some(&b'-');
    let in_range = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    (well_formed && in_range).then(|| days_from_civil(year, month, day))
}

/// Days since 1970-01-01.
pub(crate) fn parse_date(text: &[u8]) -> Option<i32> {
    if text.len() != 10 {
        return None;
    }
    i32::try_from(date_prefix(text)?).ok()
}

/// Units of `unit` in a second.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Seconds east of UTC of `Z`, `+HH`, `+HHMM` or `+HH:MM`.
fn offset_seconds(text: &[u8]) -> Option<i64> {
    let (east, rest) = match text {
        [b'Z' | b'z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (digits(rest, 0, 2)?, 0),
        4 => (digits(rest, 0, 2)?, digits(rest, 2, 2)?),
        5 if rest.get(2) == Some(&b':') => (digits(rest, 0, 2)?, digits(rest, 3, 2)?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(east * (hours * 3600 + minutes * 60))
}

/// Units since 1970-01-01T00:00:00Z. A date alone is its midnight.
pub(crate) fn parse_timestamp(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let mut seconds = date_prefix(text)? * 86_400;
    let mut fraction_units = 0;
    if text.len() > 10 {
        if !matches!(text.get(10), Some(b'T' | b't' | b' ')) || text.get(13) != Some(&b':') {
            return None;
        }
        let (hour, minute) = (digits(text, 11, 2)?, digits(text, 14, 2)?);
        let mut rest = text.get(16..)?;
        let mut second = 0;
        if let [b':', after @ ..] = rest {
            second = digits(after, 0, 2)?;
            rest = after.get(2..)?;
            if let [b'.', after @ ..] = rest {
                let count = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (fraction, after) = after.split_at(count);
                fraction_units = fraction_in_units(fraction, unit)?;
                rest = after;
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        seconds += hour * 3600 + minute * 60 + second;
        if let [b' ', after @ ..] = rest {
            rest = after;
            if rest.is_empty() {
                return None;
            }
        }
        if !rest.is_empty() {
            seconds -= offset_seconds(rest)?;
        }
    }
    // In i128: the nanoseconds before 1970 may lie in range although their whole seconds alone do not.
    i64::try_from(i128::from(seconds) * i128::from(per_second(unit)) + i128::from(fraction_units)).ok()
}

/// `0.fraction` seconds in units; None when it has no digits or nonzero digits finer than a unit.
fn fraction_in_units(fraction: &[u8], unit: TimeUnit) -> Option<i64> {
    let mut scale = per_second(unit);
    let mut units = 0;
    for &byte in fraction {
        let digit = i64::from(byte - b'0');
        if scale == 1 && digit != 0 {
            return None;
        }
        if scale > 1 {
            scale /= 10;
            units += digit * scale;
        }
    }
    (!fraction.is_empty()).then_some(units)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_days_since_1970() {
        assert_eq!(parse_date(b"1970-01-01"), Some(0));
        assert_eq!(parse_date(b"1969-12-31"), Some(-1));
        assert_eq!(parse_date(b"2000-02-29"), Some(11_016));
        assert_eq!(parse_date(b"0001-01-01"), Some(-719_162));
        assert_eq!(parse_date(b"9999-12-31"), Some(2_932_896));
        for text in [
            "1900-02-29",
            "2023-02-29",
            "2023-13-01",
            "2023-00-01",
            "2023-01-00",
            "2023-04-31",
            "2023-1-1",
            "2023/01/01",
            "2023-01-01 ",
            "",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        let mut expected = -719_162;
        for year in 1..=2400 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_from_civil(year, month, day), expected);
                    expected += 1;
                }
            }
        }
    }

    #[test]
    fn timestamps_are_utc_in_the_columns_unit() {
        let parse = |text: &str, unit| parse_timestamp(text.as_bytes(), unit);
        assert_eq!(parse("1970-01-01T00:00:01Z", TimeUnit::Second), Some(1));
        assert_eq!(parse("1970-01-01 00:00:01.5", TimeUnit::Millisecond), Some(1500));
        assert_eq!(parse("1970-01-01 00:00:01.5", TimeUnit::Second), None);
        assert_eq!(parse("1970-01-01 00:00:01.000", TimeUnit::Second), Some(1));
        assert_eq!(parse("1969-12-31T23:59:59.999999999", TimeUnit::Nanosecond), Some(-1));
        assert_eq!(parse("1970-01-01T02:00+02:00", TimeUnit::Second), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00-0130", TimeUnit::Second), Some(5400));
        assert_eq!(parse("1970-01-01T00:00:00 +01", TimeUnit::Second), Some(-3600));
        assert_eq!(parse("1970-01-02", TimeUnit::Microsecond), Some(86_400_000_000));
        assert_eq!(parse("1677-09-21T00:12:43.145224192", TimeUnit::Nanosecond), Some(i64::MIN));
        assert_eq!(parse("1677-09-21T00:12:43.145224191", TimeUnit::Nanosecond), None);
        assert_eq!(parse("2262-04-11T23:47:16.854775807Z", TimeUnit::Nanosecond), Some(i64::MAX));
        assert_eq!(parse("2262-04-11T23:47:16.854775808Z", TimeUnit::Nanosecond), None);
        for text in [
            "1970-01-01T",
            "1970-01-01T00",
            "1970-01-01T24:00",
            "1970-01-01T00:60",
            "1970-01-01T00:00:60",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00:00 ",
            "1970-01-01T00:00:00+1",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01X00:00",
            "1970-01-01T00:00Zx",
        ] {
            assert_eq!(parse(text, TimeUnit::Nanosecond), None, "{text}");
        }
    }
}
