//! Names of segment files: a number that is given once, in decimal, at least eight digits long.

const SUFFIX: &str = ".segment";

/// The name of the segment `number`.
pub(super) fn name_of(number: u64) -> String {
    format!("{number:08}{SUFFIX}")
}

/// The number of the segment `name`; `None` for names that no segment has.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_name() {
        for number in [0, 7, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        assert_eq!(name_of(7), "00000007.segment");
        for other in ["", ".segment", "7.segment", "+0000007.segment", "000000007.segment", "00000007.segment.new"] {
            assert_eq!(number_of(other), None, "{other}");
        }
        assert_eq!(number_of("99999999999999999999.segment"), None);
    }
}
