//! A range that items cover in part: which of them to read, and what to scan anew.
//!
//! A scan of the file reads all of it whatever range is missing, so that reading items beside a scan saves only what
//! the scan need not parse and keep: it pays where that costs more than scanning the items. Several items that cover
//! the whole range together need no scan at all, which is the large gain. Both are decided by numbers:
//!
//! ```text
//! cost = Σ item's scan  (+ file_ns + kept_ns · share of the request's rows in the remainder, if there is one)
//! ```
//!
//! and the least of it over all sets of items is compared with scanning everything anew, `file_ns + kept_ns`. An item
//! is scanned as a whole, with a filter, whatever part of it is wanted, so that its cost is paid once. Rows that lie in
//! two of the chosen items are to be read from one only: the answer says which sub-range comes from where, and the
//! sub-ranges are disjoint and make up the request.
//!
//! **Owns** that choice for one field. **Does not own** the values behind the numbers: ends are ordinals, any numbers
//! in the order of the field's values, such as the ranks of all ends that occur, with one of its own for NULL where
//! that is asked for. Nor whether items agree in the other fields; the caller offers only items that do. Pure.
//!
//! **How.** All ends cut the request into segments, and an item covers runs of segments. Items of one run are chosen by
//! dynamic programming from left to right: the least cost to have everything up to a segment's end is one of: the
//! remainder took the segment, or an item's run ended there, and had begun at or before the place that was reached
//! until then. Items of several runs (a union of ranges) can be paid for on the left and used on the right, which makes
//! the choice one of set cover; the widest [`MAX_SCATTERED_ITEMS`] of them (fewer where there are many segments) are
//! tried in all combinations, of the others only the widest run is used. The answer is then still right and still no
//! worse than scanning anew, but may not be the cheapest. Cost: for each combination, segments times items.
//!
//! Paper: beyond ReCache, whose §3.3 reuses an item only if it covers the whole range.

mod cheapest;
mod estimate;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::single_range_in_vec_init)]
mod tests;

pub use cheapest::MAX_SCATTERED_ITEMS;
pub use estimate::{Estimate, MadeItem};

use std::ops::Range;

/// A contiguous range of ordinals: the first, and the one after the last. Nothing if they are equal or in the wrong
/// order.
pub type Span = Range<i128>;

/// An item that covers part of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialItem {
    /// The cache's name for the item.
    pub id: u64,
    /// What it covers of the field, in any order, also outside of the request.
    pub spans: Vec<Span>,
    /// Scanning it, its filter included.
    pub scan_ns: u64,
}

/// What a scan of the file costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileScan {
    /// Reading the file and finding its records: whatever is kept.
    pub file_ns: u64,
    /// Parsing and keeping the rows of the whole request; of a part of them, in proportion.
    pub kept_ns: u64,
}

/// Where the rows of a sub-range are to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From this item, with a filter on the sub-range.
    Item(u64),
    /// From the file.
    Remainder,
}

/// A sub-range of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which.
    pub span: Span,
    /// From where.
    pub source: Source,
}

/// How to answer the request. A decision, not yet done.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialCover {
    /// Disjoint, in ascending order, together the request; neighbours from one source are one piece unless the request
    /// has a gap between them. A single remainder of the whole: scan everything anew.
    pub pieces: Vec<Piece>,
    /// What that is predicted to take, in nanoseconds.
    pub predicted_ns: f64,
    /// What scanning everything anew is predicted to take.
    pub scan_anew_ns: f64,
}

impl PartialCover {
    /// Whether any item is read.
    pub fn uses_items(&self) -> bool {
        self.pieces.iter().any(|piece| piece.source != Source::Remainder)
    }

    /// Whether the file is scanned.
    pub fn scans_file(&self) -> bool {
        self.pieces.iter().any(|piece| piece.source == Source::Remainder)
    }
}

/// Finds the cheapest way to answer `request`, a field's domain as spans in any order; overlapping ones count once.
///
/// `share` is the estimated share of the request's rows that lie in a span within the request, at least 0; as of an
/// [`Estimate`]. Of equally cheap ways one that scans anew is preferred, then one with fewer items.
pub fn cover(request: &[Span], items: &[PartialItem], file: &FileScan, share: &dyn Fn(&Span) -> f64) -> PartialCover {
    let segments = Segments::cut(request, items, share);
    let scan_anew_ns = file.file_ns as f64 + file.kept_ns as f64;
    let cheapest = cheapest::cheapest(&segments, items, file);
    let (sources, predicted_ns) = if cheapest.predicted_ns < scan_anew_ns || segments.spans.is_empty() {
        (cheapest.sources, cheapest.predicted_ns)
    } else {
        (vec![Source::Remainder; segments.spans.len()], scan_anew_ns)
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for (span, source) in segments.spans.into_iter().zip(sources) {
        match pieces.last_mut() {
            Some(last) if last.source == source && last.span.end == span.start => last.span.end = span.end,
            _ => pieces.push(Piece { span, source }),
        }
    }
    PartialCover { pieces, predicted_ns, scan_anew_ns }
}

/// The spans in ascending order, those that touch joined and empty ones left out.
fn disjoint(spans: &[Span]) -> Vec<Span> {
    let mut sorted: Vec<Span> = spans.iter().filter(|span| span.start < span.end).cloned().collect();
    sorted.sort_unstable_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Span> = Vec::with_capacity(sorted.len());
    for span in sorted {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

/// The request, cut at every end of an item.
struct Segments {
    /// Disjoint and ascending.
    spans: Vec<Span>,
    /// Share of the request's rows in each.
    shares: Vec<f64>,
    /// For each item the runs of segments it covers, as ranges of positions.
    runs: Vec<Vec<Range<usize>>>,
}

impl Segments {
    fn cut(request: &[Span], items: &[PartialItem], share: &dyn Fn(&Span) -> f64) -> Self {
        let covered: Vec<Vec<Span>> = items.iter().map(|item| disjoint(&item.spans)).collect();
        let mut cuts: Vec<i128> = covered.iter().flatten().flat_map(|span| [span.start, span.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut spans = Vec::new();
        for wanted in disjoint(request) {
            let mut start = wanted.start;
            let first_inside = cuts.partition_point(|cut| *cut <= start);
            for cut in cuts.iter().skip(first_inside).copied().take_while(|cut| *cut < wanted.end) {
                spans.push(start..cut);
                start = cut;
            }
            spans.push(start..wanted.end);
        }
        let shares = spans.iter().map(|span| share(span).max(0.0)).collect();
        let runs = covered.iter().map(|covered| runs(covered, &spans)).collect();
        Self { spans, shares, runs }
    }
}

/// Which of `segments` lie in `covered`, both disjoint and ascending, as runs of neighbours. A gap of the request
/// between two segments doesn't part them.
fn runs(covered: &[Span], segments: &[Span]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for span in covered {
        let start = segments.partition_point(|segment| segment.start < span.start);
        let end = segments.partition_point(|segment| segment.end <= span.end);
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end.max(last.end),
            _ if start < end => runs.push(start..end),
            _ => {}
        }
    }
    runs
}
