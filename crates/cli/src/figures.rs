//! Bytes, durations, counts and ratios as people read them, with three significant digits.

/// `1,234,567`.
pub(crate) fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `258 MB`: decimal units, as disks and networks are sold.
pub(crate) fn bytes_text(bytes: u64) -> String {
    scaled(bytes as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// `4.10 ms`.
pub(crate) fn duration_text(ns: u64) -> String {
    if ns >= 100_000_000_000 {
        let seconds = (ns + 500_000_000) / 1_000_000_000;
        return format!("{} min {:02} s", seconds / 60, seconds % 60);
    }
    scaled(ns as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

/// `76 ×`: how many times faster `after_ns` is than `before_ns`.
pub(crate) fn ratio_text(before_ns: u64, after_ns: u64) -> String {
    let ratio = before_ns as f64 / after_ns.max(1) as f64;
    let digits = match ratio {
        ratio if ratio < 1.0 => 2,
        ratio if ratio < 9.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$} ×")
}

/// Three significant digits and the unit in which there are one to three before the point.
fn scaled(mut figure: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 of a unit would be printed as 1000: it is 1.00 of the next.
    while figure >= step - 0.5 && unit + 1 < units.len() {
        figure /= step;
        unit += 1;
    }
    let digits = match figure {
        _ if unit == 0 => 0,
        figure if figure < 9.995 => 2,
        figure if figure < 99.95 => 1,
        _ => 0,
    };
    format!("{figure:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(count_text(0), "0");
        assert_eq!(count_text(999), "999");
        assert_eq!(count_text(1_234), "1,234");
        assert_eq!(count_text(1_234_567), "1,234,567");
    }

    #[test]
    fn sizes_and_durations_keep_three_digits() {
        assert_eq!(bytes_text(0), "0 B");
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1_000), "1.00 kB");
        assert_eq!(bytes_text(258_123_456), "258 MB");
        assert_eq!(bytes_text(999_600_000), "1.00 GB");
        assert_eq!(duration_text(412), "412 ns");
        assert_eq!(duration_text(4_100_000), "4.10 ms");
        assert_eq!(duration_text(31_249_000), "31.2 ms");
        assert_eq!(duration_text(2_500_000_000), "2.50 s");
        assert_eq!(duration_text(125_000_000_000), "2 min 05 s");
    }

    #[test]
    fn a_loss_is_not_rounded_into_a_draw() {
        assert_eq!(ratio_text(760, 10), "76 ×");
        assert_eq!(ratio_text(97, 100), "0.97 ×");
        assert_eq!(ratio_text(100, 100), "1.0 ×");
        assert_eq!(ratio_text(33, 10), "3.3 ×");
        assert_eq!(ratio_text(5, 0), "5.0 ×");
    }
}
