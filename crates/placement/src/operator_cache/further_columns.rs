//! Whether a scan that adds columns to those that are kept of a CSV file reads further ones too, for which nobody asked
//! yet.
//!
//! A file that was scanned for some columns and is scanned again for others may well be scanned for yet others. Each
//! such scan passes over the whole text, finding the ends of fields that it has no use for; against that, parsing and
//! keeping a few more numbers of each record is little. Owns how many; not which, nor the estimates. Pure.
//!
//! The rule, derived: let a pass over the text take `T`, and keeping a further column `v`. As for
//! [whole columns](super::widening), paying up to the price of one more pass at most doubles the one scan after which
//! nobody asks again, and spares all scans to come: so many columns are added as cost `T` together. It is done once a
//! file, for afterwards no columns are left that it could be done with, but for those that were too dear: so bets that
//! are lost do not add up.
//!
//! Nobody asked for these columns, so they must displace nothing: they take free space alone, and no more than a
//! quarter of it. Texts are left out, whose memory is not foreseen, and so are types that nobody asked for.
//!
//! Paper: beyond ReCache, which caches what was asked for.

/// Of free space, what further columns of one file may take.
const FREE_SHARE: f64 = 0.25;

/// What is known when the choice is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FurtherInputs {
    /// Passing over the text, nanoseconds of one core.
    pub pass_ns: u64,
    /// Parsing and keeping the values of one column.
    pub column_ns: u64,
    /// What caches may still take without evicting anything.
    pub free_bytes: u64,
}

/// How many of the columns to add that nobody asked for, of which each takes so many bytes: the first ones.
pub fn further_column_count(inputs: &FurtherInputs, sizes_bytes: impl IntoIterator<Item = u64>) -> usize {
    let most_bytes = (inputs.free_bytes as f64 * FREE_SHARE) as u64;
    let most_columns = usize::try_from(inputs.pass_ns / inputs.column_ns.max(1)).unwrap_or(usize::MAX);
    let taken_bytes = sizes_bytes.into_iter().scan(0u64, |taken_bytes, size_bytes| {
        *taken_bytes = taken_bytes.saturating_add(size_bytes);
        Some(*taken_bytes)
    });
    taken_bytes.take(most_columns).take_while(|taken_bytes| *taken_bytes <= most_bytes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: FurtherInputs = FurtherInputs { pass_ns: 460, column_ns: 48, free_bytes: 1 << 40 };

    #[test]
    fn further_columns_cost_no_more_than_another_pass() {
        assert_eq!(further_column_count(&PLENTY, [8; 5]), 5);
        assert_eq!(further_column_count(&PLENTY, [8; 50]), 9);
        assert_eq!(further_column_count(&FurtherInputs { column_ns: 461, ..PLENTY }, [8; 50]), 0);
        assert_eq!(further_column_count(&FurtherInputs { column_ns: 0, ..PLENTY }, [8; 50]), 50);
    }

    #[test]
    fn they_take_no_more_than_a_quarter_of_what_is_free() {
        assert_eq!(further_column_count(&FurtherInputs { free_bytes: 400, ..PLENTY }, [40, 50, 10, 1]), 3);
        assert_eq!(further_column_count(&FurtherInputs { free_bytes: 0, ..PLENTY }, [1, 1]), 0);
        assert_eq!(further_column_count(&PLENTY, [8, u64::MAX, u64::MAX]), 1);
    }
}
