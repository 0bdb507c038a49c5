//! Numbers from text: integers, floats and decimals, exactly or not at all.
//!
//! **Owns**: the parsing of number text that both formats share.
//!
//! **Does not own**: which texts are numbers in a format's grammar (JSON forbids `+1`, `.5` and `nan`; its scanner
//! rejects those before they come here).
//!
//! **Invariants**: no value is ever rounded to an integer, wrapped, or cut to a decimal's scale: such text does not
//! parse. A float is the nearest double; text whose magnitude exceeds the largest finite float does not parse.

/// Splits a sign off.
#[inline]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// Digits only, at least one, within 64 bits.
#[inline]
fn magnitude(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    // 19 nines fit 64 bits: no overflow check needed up to there.
    let (head, tail) = digits.split_at(digits.len().min(19));
    for &byte in head {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    for &byte in tail {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// An integer in the range of `i64`.
#[inline]
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(text);
    let value = magnitude(digits)?;
    if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// An integer in the range of `u64`.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    let (negative, digits) = sign(text);
    magnitude(digits).filter(|&value| !negative || value == 0)
}

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The nearest double. Plain `123.45` takes the exact short cut (both mantissa and power are doubles, so that one
/// division rounds once; Clinger 1990); everything else goes to `fast_float2`.
#[inline]
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, digits) = sign(text);
    if digits.len() <= 20 {
        let mut mantissa = 0_u64;
        let mut digit_count = 0;
        let mut point = None;
        for (at, &byte) in digits.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit <= 9 {
                // At most 19 digits beside a point, or 20 without: the wrap of a 20th is caught below by the count.
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                digit_count += 1;
            } else if byte == b'.' && point.is_none() {
                point = Some(at);
            } else {
                return parse_f64_slow(text);
            }
        }
        let fraction_digits = point.map_or(0, |at| digits.len() - at - 1);
        if (1..=19).contains(&digit_count) && mantissa <= 1 << 53 {
            let value = mantissa as f64 / POWERS.get(fraction_digits)?;
            return Some(if negative { -value } else { value });
        }
    }
    parse_f64_slow(text)
}

#[cold]
#[inline(never)]
fn parse_f64_slow(text: &[u8]) -> Option<f64> {
    let value = fast_float2::parse::<f64, _>(text).ok()?;
    // Of NaN there is one, whatever its sign.
    (value.is_finite() || names_infinity_or_nan(text)).then_some(if value.is_nan() { f64::NAN } else { value })
}

/// The nearest single.
pub(crate) fn parse_f32(text: &[u8]) -> Option<f32> {
    let value = fast_float2::parse::<f32, _>(text).ok()?;
    (value.is_finite() || names_infinity_or_nan(text)).then_some(if value.is_nan() { f32::NAN } else { value })
}

/// Whether text that parsed to infinity or NaN says so in letters, rather than being a number too large.
fn names_infinity_or_nan(text: &[u8]) -> bool {
    !text.iter().any(u8::is_ascii_digit)
}

/// `text · 10^scale` as an integer of at most `precision` digits; None where digits would be lost on either side.
pub(crate) fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, rest) = sign(text);
    let (rest, exponent) = match rest.iter().position(|byte| byte | 0x20 == b'e') {
        Some(at) => (rest.get(..at)?, parse_i64(rest.get(at + 1..)?)?),
        None => (rest, 0),
    };
    let mut value = 0_i128;
    // Powers of ten beyond its range are far beyond any decimal: none of them makes a value fit.
    let mut shift = i64::from(scale).saturating_add(exponent);
    let mut point_seen = false;
    let mut digit_seen = false;
    // Zeros count only once a digit follows them: any number of them may end a value that fits.
    let mut zeros = 0_u32;
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            digit_seen = true;
            shift = shift.saturating_sub(i64::from(point_seen));
            if digit == 0 {
                zeros = zeros.saturating_add(1);
                continue;
            }
            if value != 0 {
                let tens = if zeros == 0 { 10 } else { 10_i128.checked_pow(zeros.checked_add(1)?)? };
                value = value.checked_mul(tens)?;
            }
            value = value.checked_add(i128::from(digit))?;
            zeros = 0;
        } else if byte == b'.' && !point_seen {
            point_seen = true;
        } else {
            return None;
        }
    }
    if !digit_seen {
        return None;
    }
    shift = shift.saturating_add(i64::from(zeros));
    // Zero has no digits to lose; other values leave the loops once 10^38 is exceeded or a digit would be cut.
    while shift > 0 && value != 0 {
        value = value.checked_mul(10)?;
        shift -= 1;
    }
    while shift < 0 && value != 0 {
        if value % 10 != 0 {
            return None;
        }
        value /= 10;
        shift += 1;
    }
    let limit = 10_i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX);
    (value < limit).then_some(if negative { -value } else { value })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn integers_parse_exactly_up_to_their_limits() {
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_i64(b"-0"), Some(0));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"99999999999999999999999"), None);
        assert_eq!(parse_i64(b"0000000000000000000000012"), Some(12));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"-1"), None);
        for text in ["", "-", "+", "1.0", "1e3", "1 ", " 1", "0x1", "--1", "1_000"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_agree_with_the_standard_library() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let digits = next() >> (next() % 64);
            let text = match next() % 4 {
                0 => format!("{digits}"),
                1 => format!("-{}.{:0width$}", digits, next() % 1000, width = (next() % 12) as usize),
                2 => format!("{digits}e{}", (next() % 80) as i64 - 40),
                _ => format!("{}", f64::from_bits(next()).abs()),
            };
            let expected: f64 = text.parse().unwrap();
            if expected.is_finite() {
                assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(expected.to_bits()), "{text}");
            }
        }
        assert_eq!(parse_f64(b"-0").map(f64::to_bits), Some((-0.0_f64).to_bits()));
        assert_eq!(parse_f64(b"-0.00").map(f64::to_bits), Some((-0.0_f64).to_bits()));
        for text in ["", "-", ".", "1.2.3", "1e", "abc", "1e999", "-1e999", "1 "] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_f64(b"inf"), Some(f64::INFINITY));
        assert_eq!(parse_f64(b"NaN").map(f64::to_bits), Some(f64::NAN.to_bits()));
        assert_eq!(parse_f64(b"-nan").map(f64::to_bits), Some(f64::NAN.to_bits()));
        assert_eq!(parse_f32(b"-nan").map(f32::to_bits), Some(f32::NAN.to_bits()));
        assert_eq!(parse_f32(b"1e39"), None);
    }

    #[test]
    fn decimals_lose_no_digit() {
        assert_eq!(parse_decimal(b"12.34", 10, 2), Some(1234));
        assert_eq!(parse_decimal(b"-12.3", 10, 2), Some(-1230));
        assert_eq!(parse_decimal(b"12.340", 10, 2), Some(1234));
        assert_eq!(parse_decimal(b"12.345", 10, 2), None);
        assert_eq!(parse_decimal(b"1.5e2", 10, 2), Some(15000));
        assert_eq!(parse_decimal(b"150e-3", 10, 2), Some(15));
        assert_eq!(parse_decimal(b"1e999999999999", 10, 2), None);
        assert_eq!(parse_decimal(b"0e999999999999", 10, 2), Some(0));
        assert_eq!(parse_decimal(b"99.99", 4, 2), Some(9999));
        assert_eq!(parse_decimal(b"100.00", 4, 2), None);
        assert_eq!(
            parse_decimal(b"99999999999999999999999999999999999999", 38, 0),
            10_i128.checked_pow(38).map(|v| v - 1)
        );
        assert_eq!(parse_decimal(b"1200", 4, -2), Some(12));
        let zeros = "0".repeat(60);
        assert_eq!(parse_decimal(format!("1.5{zeros}").as_bytes(), 10, 2), Some(150));
        assert_eq!(parse_decimal(format!("1{zeros}e-60").as_bytes(), 10, 2), Some(100));
        assert_eq!(parse_decimal(format!("{zeros}1.05").as_bytes(), 10, 2), Some(105));
        assert_eq!(parse_decimal(format!("0.{zeros}1e61").as_bytes(), 10, 2), Some(100));
        assert_eq!(parse_decimal(format!("1.5{zeros}1").as_bytes(), 10, 2), None);
        assert_eq!(parse_decimal(format!("1{zeros}").as_bytes(), 10, 2), None);
        assert_eq!(
            parse_decimal(format!("12{}", "0".repeat(36)).as_bytes(), 38, 0),
            10_i128.checked_pow(36).map(|v| 12 * v)
        );
        assert_eq!(parse_decimal(b"0.0e-9223372036854775808", 10, 2), Some(0));
        assert_eq!(parse_decimal(b"1.5e-9223372036854775808", 10, 2), None);
        assert_eq!(parse_decimal(b"1.50e9223372036854775807", 10, 2), None);
        for text in ["", ".", "-", "1..2", "a", "1e", "1e1.5"] {
            assert_eq!(parse_decimal(text.as_bytes(), 10, 2), None, "{text}");
        }
    }
}
