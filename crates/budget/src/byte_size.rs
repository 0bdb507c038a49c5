//! Amounts of memory as users write and read them.
//!
//! `KB`, `MB`, `GB`, `TB` (also `K`, `M`, `G`, `T`) are powers of 1000; `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024;
//! letters in any case. A fraction is allowed and cut down to whole bytes; `%` is a part of what the caller says is
//! all.

use crate::{BudgetError, Result};

const DECIMAL_UNITS: [(&str, u64); 5] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)];
const BINARY_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
/// More digits of a fraction than this are below one byte of a terabyte.
const FRACTION_DIGIT_COUNT: usize = 12;

/// Reads an amount such as `4GB`, `512MiB`, `1.5 GB` or `50%` (of `ram_bytes`). `0` needs no unit, anything else does.
///
/// ```
/// use thermocline_budget::parse_bytes;
/// assert_eq!(parse_bytes("1.5 GB", 0)?, 1_500_000_000);
/// assert_eq!(parse_bytes("512MiB", 0)?, 512 << 20);
/// assert_eq!(parse_bytes("25%", 8 << 30)?, 2 << 30);
/// # Ok::<(), thermocline_budget::BudgetError>(())
/// ```
///
/// # Errors
/// [`BudgetError::InvalidSize`]: no number, no or an unknown unit, more than 100 %, more than 64 bits of bytes.
pub fn parse_bytes(text: &str, ram_bytes: u64) -> Result<u64> {
    let invalid = |reason: String| Err(BudgetError::InvalidSize { text: text.to_owned(), reason });
    let trimmed = text.trim();
    let number_bytes =
        trimmed.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..number_bytes], trimmed[number_bytes..].trim_start());
    let Some((whole, fraction)) = parse_number(number) else {
        return invalid("expected a number with a unit, such as 4GB, 512MiB or 50%".to_owned());
    };
    let unit_bytes = match unit {
        "" if whole == 0 && fraction == 0 => 1,
        "" => return invalid(format!("the unit is missing, expected {number}GB, {number}MiB or {number}%")),
        "%" => {
            if whole > 100 || (whole == 100 && fraction > 0) {
                return invalid("a part of the memory is at most 100%".to_owned());
            }
            let millionths = u128::from(whole) * 1_000_000 + u128::from(fraction) / 1_000_000;
            return Ok((u128::from(ram_bytes) * millionths / 100_000_000) as u64);
        }
        unit => {
            let known = DECIMAL_UNITS.iter().chain(&BINARY_UNITS).find(|(name, _)| {
                name.eq_ignore_ascii_case(unit)
                    || name.strip_suffix('B').is_some_and(|short| short.len() == 1 && short.eq_ignore_ascii_case(unit))
            });
            match known {
                Some(&(_, unit_bytes)) => unit_bytes,
                None => {
                    let reason = format!(
                        "unknown unit '{unit}', expected B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024) or %"
                    );
                    return invalid(reason);
                }
            }
        }
    };
    let unit_bytes = u128::from(unit_bytes);
    let bytes =
        u128::from(whole) * unit_bytes + u128::from(fraction) * unit_bytes / 10_u128.pow(FRACTION_DIGIT_COUNT as u32);
    match u64::try_from(bytes) {
        Ok(bytes) => Ok(bytes),
        Err(_) => invalid("it is more than 64 bits of bytes, no machine has that much".to_owned()),
    }
}

/// Whole part, and fraction in units of 10^-12 (further digits are dropped).
fn parse_number(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (text, "0"),
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let padded = format!("{fraction:0<FRACTION_DIGIT_COUNT$}");
    Some((whole.parse().ok()?, padded[..FRACTION_DIGIT_COUNT].parse().ok()?))
}

/// Prints an amount for people: `256 MB` when it is a whole number of a decimal unit, otherwise `1.5 GiB`, rounded to
/// one digit after the point.
///
/// ```
/// use thermocline_budget::format_bytes;
/// assert_eq!(format_bytes(4_000_000_000), "4 GB");
/// assert_eq!(format_bytes(3 << 29), "1.5 GiB");
/// assert_eq!(format_bytes(17), "17 B");
/// ```
pub fn format_bytes(bytes: u64) -> String {
    let decimal =
        DECIMAL_UNITS.iter().find(|&&(_, unit_bytes)| bytes >= unit_bytes && bytes.is_multiple_of(unit_bytes));
    match decimal {
        Some(&(unit, unit_bytes)) if unit_bytes > 1 => return format!("{} {unit}", bytes / unit_bytes),
        _ => {}
    }
    // 1023.95 MiB and more would be printed as 1024.0 MiB: it is 1.0 GiB then.
    let unit =
        BINARY_UNITS.iter().find(|&&(_, unit_bytes)| u128::from(bytes) * 10_000 >= u128::from(unit_bytes) * 9_999);
    match unit {
        Some(&(unit, unit_bytes)) if unit_bytes > 1 => {
            let shown = format!("{:.1}", bytes as f64 / unit_bytes as f64);
            format!("{} {unit}", shown.strip_suffix(".0").unwrap_or(&shown))
        }
        _ => format!("{bytes} B"),
    }
}

/// Prints an amount to the byte, in the greatest unit of which it is a whole number, those of 1000 first: what
/// [`parse_bytes`] reads back as it was.
///
/// ```
/// use thermocline_budget::exact_bytes;
/// assert_eq!(exact_bytes(4_000_000_000), "4 GB");
/// assert_eq!(exact_bytes(3 << 29), "1536 MiB");
/// assert_eq!(exact_bytes((3 << 29) + 1), "1610612737 B");
/// ```
pub fn exact_bytes(bytes: u64) -> String {
    let units = DECIMAL_UNITS.iter().chain(&BINARY_UNITS).filter(|(_, unit_bytes)| *unit_bytes > 1);
    let mut whole = units.filter(|(_, unit_bytes)| bytes >= *unit_bytes && bytes.is_multiple_of(*unit_bytes));
    match whole.next() {
        Some((unit, unit_bytes)) => format!("{} {unit}", bytes / unit_bytes),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const RAM_BYTES: u64 = 24 << 30;

    #[test]
    fn units_of_a_thousand_and_of_1024_are_told_apart() {
        for (text, bytes) in [
            ("4GB", 4_000_000_000),
            ("4 gb", 4_000_000_000),
            ("  4G ", 4_000_000_000),
            ("512MiB", 512 << 20),
            ("1KB", 1_000),
            ("1KiB", 1_024),
            ("1kib", 1_024),
            ("2TB", 2_000_000_000_000),
            ("2TiB", 2 << 40),
            ("123B", 123),
            ("1.5 GB", 1_500_000_000),
            ("0.5KiB", 512),
            ("1.0009KB", 1_000),
            ("0", 0),
            ("0MB", 0),
            ("50%", 12 << 30),
            ("12.5 %", 3 << 30),
            ("100%", RAM_BYTES),
            ("18446744073709551615B", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text, RAM_BYTES).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_amount_is_refused_with_what_was_expected() {
        for (text, expected) in [
            ("", "expected a number with a unit"),
            ("GB", "expected a number with a unit"),
            ("-4GB", "expected a number with a unit"),
            ("1.GB", "expected a number with a unit"),
            (".5GB", "expected a number with a unit"),
            ("1.2.3GB", "expected a number with a unit"),
            ("4", "expected 4GB, 4MiB or 4%"),
            ("4 XB", "unknown unit 'XB'"),
            ("4 GB s", "unknown unit 'GB s'"),
            ("101%", "at most 100%"),
            ("100.1%", "at most 100%"),
            ("99999999TB", "64 bits"),
            ("4e3GB", "unknown unit 'e3GB'"),
            ("٤GB", "expected a number with a unit"),
        ] {
            let error = parse_bytes(text, RAM_BYTES).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(&format!("'{text}'")), "{text}: {error}");
        }
    }

    #[test]
    fn amounts_are_printed_as_they_were_written_where_possible() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1 KB"),
            (1_024, "1 KiB"),
            (256_000_000, "256 MB"),
            (256 << 20, "256 MiB"),
            (1_234_567, "1.2 MiB"),
            ((1 << 30) - 1, "1 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }

    #[test]
    fn what_is_printed_to_the_byte_reads_back_as_it_was() {
        let near = |bytes: u64| [bytes - 1, bytes, bytes + 1];
        let units = DECIMAL_UNITS.iter().chain(&BINARY_UNITS);
        let amounts =
            units.flat_map(|(_, unit_bytes)| [1, 3, 512, 1500].map(|count| count * unit_bytes)).flat_map(near);
        for bytes in amounts.chain([0, 1_127_428_915, u64::MAX]) {
            let text = exact_bytes(bytes);
            assert_eq!(parse_bytes(&text, 0).unwrap(), bytes, "{text}");
        }
        for (bytes, text) in [(0, "0 B"), (512 << 20, "512 MiB"), (300_000_000, "300 MB"), (1025, "1025 B")] {
            assert_eq!(exact_bytes(bytes), text);
        }
    }

    #[test]
    fn what_is_printed_reads_back_within_a_digit() {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        for round in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let bytes = state >> (state % 60);
            let text = format_bytes(bytes);
            let back = parse_bytes(&text, 0).unwrap_or(u64::MAX);
            assert!(back.abs_diff(bytes) as f64 <= bytes as f64 * 0.06, "round {round}: {bytes} → {text} → {back}");
        }
    }
}
