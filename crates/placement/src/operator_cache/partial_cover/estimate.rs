//! What a scan of the file would take, and how a request's records are spread, from the items that cover parts of it.
//!
//! **The model.** A scan reads the file and finds its records, which takes `f` whatever is kept, and parses and keeps
//! what its predicate admits. That all records are kept is taken to cost as much again, so that an item of `kept`
//! records out of `scanned` took `f · (1 + kept / scanned)`. Each item gives an `f`, and the least of them is believed:
//! one that was extended or completed took more than one scan. The share is a constant since no scan tells its two
//! parts apart; it is about what a narrow and a wide scan of the same NDJSON file differ by.
//!
//! **Spread.** An item's records are taken to lie evenly over what it covers, by the positions of the ends, the records
//! of a segment to be the mean of what its items say, and where there is no item the mean of all. Where an item's other
//! fields are wider than the request's that is too many, of every segment that it covers.
//!
//! Pure.

use super::{FileScan, Span};

/// An item that covers part of a request, as it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeItem {
    /// What it covers of the field; ordinals count from 0.
    pub spans: Vec<Span>,
    /// Records it holds.
    pub kept_records: u64,
    /// Records that were read to make it.
    pub scanned_records: u64,
    /// What making it took, nanoseconds.
    pub made_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// About the records up to each ordinal.
    records_before: Vec<f64>,
    wanted_records: f64,
    file: FileScan,
}

impl Estimate {
    /// `positions` says about where each ordinal lies, ascending, from ordinal 0 on.
    pub fn of(request: &[Span], items: &[MadeItem], positions: &[f64]) -> Self {
        let widths: Vec<f64> = positions.windows(2).map(|ends| (ends[1] - ends[0]).max(0.0)).collect();
        let (mut sums, mut counts) = (vec![0.0; widths.len()], vec![0_u32; widths.len()]);
        let mut all = (0.0, 0_u32);
        for item in items {
            let segments = || item.spans.iter().flat_map(|span| ordinals(span, widths.len()));
            let width: f64 = segments().map(|segment| widths[segment]).sum();
            let density = if width > 0.0 { item.kept_records as f64 / width } else { 0.0 };
            for segment in segments() {
                sums[segment] += density;
                counts[segment] += 1;
            }
            all = (all.0 + density, all.1 + 1);
        }
        let mean = |(sum, count): (f64, u32)| if count == 0 { 0.0 } else { sum / f64::from(count) };
        let mut records_before = vec![0.0];
        let mut before = 0.0;
        for ((width, sum), count) in widths.iter().zip(sums).zip(counts) {
            before += width * mean(if count == 0 { all } else { (sum, count) });
            records_before.push(before);
        }
        let mut estimate = Self { records_before, wanted_records: 0.0, file: FileScan { file_ns: 0, kept_ns: 0 } };
        estimate.wanted_records = super::disjoint(request).iter().map(|span| estimate.records(span)).sum();
        estimate.file = estimate.file_scan(items);
        estimate
    }

    /// What a scan of the file takes that keeps the request.
    pub fn file(&self) -> FileScan {
        self.file
    }

    /// The share of the request's records that lie in `span`, which lies in it.
    pub fn share(&self, span: &Span) -> f64 {
        if self.wanted_records > 0.0 { self.records(span) / self.wanted_records } else { 0.0 }
    }

    fn records(&self, span: &Span) -> f64 {
        let before = |ordinal: i128| {
            let place = usize::try_from(ordinal.max(0)).unwrap_or(usize::MAX).min(self.records_before.len() - 1);
            self.records_before[place]
        };
        (before(span.end) - before(span.start)).max(0.0)
    }

    fn file_scan(&self, items: &[MadeItem]) -> FileScan {
        let kept_share = |item: &MadeItem| (item.kept_records as f64 / item.scanned_records.max(1) as f64).min(1.0);
        let file_ns = items.iter().map(|item| item.made_ns as f64 / (1.0 + kept_share(item)));
        let file_ns = file_ns.min_by(f64::total_cmp).unwrap_or(0.0);
        let scanned_records = items.iter().map(|item| item.scanned_records).max().unwrap_or(0).max(1) as f64;
        let kept_ns = file_ns * (self.wanted_records / scanned_records).min(1.0);
        FileScan { file_ns: file_ns.round() as u64, kept_ns: kept_ns.round() as u64 }
    }
}

/// The segments of a span that there are.
fn ordinals(span: &Span, segment_count: usize) -> std::ops::Range<usize> {
    let place = |ordinal: i128| usize::try_from(ordinal.max(0)).unwrap_or(usize::MAX).min(segment_count);
    place(span.start)..place(span.end)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, clippy::reversed_empty_ranges)]
mod tests {
    use super::*;

    fn item(spans: &[Span], kept_records: u64, made_ns: u64) -> MadeItem {
        MadeItem { spans: spans.to_vec(), kept_records, scanned_records: 1000, made_ns }
    }

    #[test]
    fn the_least_of_what_the_items_took_is_split_into_reading_and_keeping() {
        // A tenth of the records and a half of them were kept; the second was extended, and took two scans.
        let items = [item(&[0..1], 100, 1100), item(&[1..2], 500, 3000)];
        let estimate = Estimate::of(&[0..2], &items, &[0.0, 10.0, 60.0]);
        assert_eq!(estimate.file(), FileScan { file_ns: 1000, kept_ns: 600 });
        assert_eq!((estimate.share(&(0..1)), estimate.share(&(1..2))), (100.0 / 600.0, 500.0 / 600.0));
    }

    #[test]
    fn where_there_is_no_item_records_lie_as_densely_as_elsewhere() {
        let items = [item(&[0..1], 100, 1), item(&[0..2], 600, 1)];
        // 10 and 15 a unit in the first segment, 15 in the second, the mean of 10 and 15 in the third.
        let estimate = Estimate::of(&[0..3], &items, &[0.0, 10.0, 40.0, 50.0]);
        let records = 125.0 + 450.0 + 125.0;
        for (span, expected) in [(0..1, 125.0), (1..2, 450.0), (2..3, 125.0), (0..3, records), (2..9, 125.0)] {
            assert!((estimate.share(&span) - expected / records).abs() < 1e-9, "{span:?}");
        }
    }

    #[test]
    fn items_without_records_width_or_time_say_nothing_and_break_nothing() {
        for items in [vec![], vec![item(&[0..1], 0, 0)], vec![item(&[1..1, 7..3, -3..9], 5, 5)]] {
            let estimate = Estimate::of(&[0..2], &items, &[0.0, 0.0, 1.0]);
            assert!((0.0..=1.0).contains(&estimate.share(&(0..1))), "{items:?}");
            assert!(estimate.share(&(-5..100)).is_finite());
        }
        assert_eq!(Estimate::of(&[], &[], &[]).file(), FileScan { file_ns: 0, kept_ns: 0 });
    }
}
