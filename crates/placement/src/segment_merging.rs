//! Which segments of a table are written anew together with rows that are added to it.
//!
//! **Owns**: the rule by which many small inserts do not leave as many small segments. **Does not own**: rows, files,
//! commits.
//!
//! The logarithmic method of Bentley and Saxe (Decomposable searching problems I, J. Algorithms 1980), as
//! log-structured merges use it: rows that are added take those of the last segments with them as long as these are
//! fewer than twice what is on its way already. So the small segments at a table's end are each at least twice as large
//! as the one behind it: there are at most as many as the binary logarithm of a full one's rows, and one. A row that is
//! written again is in a segment half as large again afterwards, so that this happens at most as often as the logarithm
//! to 1.5 says. Only neighbours at the end are merged, which keeps the order of rows. Segments that are full stay as
//! they are, and so does the end of a table that gets a full one.

/// How many of a table's last segments, whose rows are `row_counts`, are to be written anew together with `added_rows`.
/// Segments of `full_rows` and more are left alone.
pub fn merged_segment_count(row_counts: &[u64], added_rows: u64, full_rows: u64) -> usize {
    let mut together_rows = added_rows;
    let is_taken = |row_count: &&u64| {
        let is_taken =
            **row_count < together_rows.saturating_mul(2) && together_rows < full_rows && **row_count < full_rows;
        together_rows = together_rows.saturating_add(**row_count);
        is_taken
    };
    match added_rows {
        0 => 0,
        _ => row_counts.iter().rev().take_while(is_taken).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 1 << 10;

    /// Adds rows, and returns how many were written again.
    fn add(segments: &mut Vec<u64>, added_rows: u64) -> u64 {
        let kept = segments.len() - merged_segment_count(segments, added_rows, FULL);
        let again_rows: u64 = segments.drain(kept..).sum();
        segments.push(again_rows + added_rows);
        again_rows
    }

    #[test]
    fn one_row_at_a_time_counts_in_binary() {
        let mut segments = Vec::new();
        for row in 1..=7 {
            add(&mut segments, 1);
            assert_eq!(segments.len() as u32, u64::count_ones(row));
        }
        assert_eq!(segments, [4, 2, 1]);
        add(&mut segments, 1);
        assert_eq!(segments, [8]);
    }

    #[test]
    fn few_small_segments_are_left_and_no_row_is_written_often() {
        for (seed, most_rows) in [(1_u64, 1), (2, 3), (3, 50), (4, 900), (5, 3000)] {
            // Of 1024 rows: log2 and one; log1.5.
            let (mut segments, mut random) = (Vec::new(), seed);
            let (mut added, mut again) = (0, 0);
            for _ in 0..20_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let rows = 1 + (random >> 33) % most_rows;
                added += rows;
                again += add(&mut segments, rows);
                let small = segments.iter().rev().take_while(|&&rows| rows < FULL).count();
                assert!(small <= 11, "at most {most_rows} rows: {small} small segments");
            }
            assert!(again <= 17 * added, "at most {most_rows} rows: {added} were written {again} times again");
            assert_eq!(segments.iter().sum::<u64>(), added);
            // Two full ones are never merged, nor one with what would make it another row group.
            assert!(segments.iter().all(|&rows| rows < 2 * FULL + most_rows));
        }
    }

    #[test]
    fn what_is_full_and_what_is_larger_stays() {
        assert_eq!(merged_segment_count(&[12, 6], 3, FULL), 0);
        assert_eq!(merged_segment_count(&[5, 4], 3, FULL), 2);
        assert_eq!(merged_segment_count(&[FULL, 4], 4, FULL), 1);
        assert_eq!(merged_segment_count(&[4], FULL, FULL), 0);
        assert_eq!(merged_segment_count(&[FULL - 1, FULL - 1], FULL - 1, FULL), 1);
        assert_eq!(merged_segment_count(&[], 1, FULL), 0);
        assert_eq!(merged_segment_count(&[0, 0], 1, FULL), 2);
        assert_eq!(merged_segment_count(&[1], 0, FULL), 0);
    }
}
