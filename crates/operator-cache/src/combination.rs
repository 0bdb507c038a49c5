//! Several items that answer a request together, with a scan of what none of them has.
//!
//! **Owns**: turning candidates ([`matching`](crate::matching)) into numbers for the choice, and the chosen pieces back
//! into filters. **Does not own**: the choice (`placement`'s `partial_cover`), nor the scan of the remainder, which is
//! one like any other: others can join it, and its item is kept.
//!
//! **Invariants**: all items of a combination differ from the request in the same one field, and are of one generation
//! and end, which are the request's. In that field the parts and the remainder have no value in common and together
//! have all of the request's, so that each row comes once. That what is scanned is of the same content as what was kept
//! is compared when the scan ends, as where columns are laid beside kept ones. Items are held from the plan on:
//! eviction passes them by.
//!
//! Where bad records are left out, which of them are depends on the columns that were read: nothing is combined then.
//!
//! **Paper**: beyond ReCache, whose §3.3 reuses an item only if it covers the whole range.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use thermocline_placement::operator_cache::partial_cover::{
    Estimate, FileScan, MadeItem, PartialItem, Source, Span, cover,
};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Ruler};

use crate::item::{Item, ItemSummary};
use crate::matching::Partial;
use crate::request::SelectRequest;

/// One of the items that answer a request together. Its rows are of the request's source: read it with
/// [`View::Elements`](crate::View).
#[derive(Debug, Clone)]
pub struct CombinedPart {
    /// Covers a part of the request.
    pub item: Arc<Item>,
    /// What must be checked on each row, so that those pass that are wanted and come from here.
    pub residual: Conjunction,
}

/// A part as [`explain`](crate::OperatorCache::explain) shows it.
#[derive(Debug, Clone)]
pub struct PartSummary {
    /// The item.
    pub item: ItemSummary,
    /// The filter on its rows.
    pub residual: Conjunction,
}

/// How items answer a request together, and the numbers that made the choice.
#[derive(Debug, Clone)]
pub(crate) struct Combination {
    /// At least one.
    pub(crate) parts: Vec<CombinedPart>,
    /// The rows that must be scanned.
    pub(crate) remainder: Option<Arc<Conjunction>>,
    /// About the share of the request's records that the parts have.
    covered_share: f64,
    predicted_ns: f64,
    scan_anew_ns: f64,
}

impl Combination {
    /// The cheapest combination of `candidates` if it is cheaper than a scan of the file. Whether what is scanned is of
    /// the content that was kept must be found out when the scan ends: where that can't be (`can_compare_content`), and
    /// where the scan would keep more than the request anyway, there is no remainder.
    pub(crate) fn of(request: &SelectRequest, candidates: Vec<Partial<'_>>, can_compare_content: bool) -> Option<Self> {
        let may_scan = can_compare_content && request.retain_predicate == request.predicate;
        let mut by_field: BTreeMap<&FieldPath, Vec<Arc<Item>>> = BTreeMap::new();
        for Partial { field, item } in candidates {
            by_field.entry(field).or_default().push(item);
        }
        let combinations =
            by_field.into_iter().filter_map(|(field, items)| Self::along(request, field, &items, may_scan));
        combinations.min_by(|one, other| one.predicted_ns.total_cmp(&other.predicted_ns))
    }

    /// The same of items that all cover the one field in part.
    fn along(request: &SelectRequest, field: &FieldPath, items: &[Arc<Item>], may_scan: bool) -> Option<Self> {
        let asked = request.predicate.domain(field)?;
        let known = items.iter().map(|item| item.predicate.domain(field)).collect::<Option<Vec<&Domain>>>()?;
        let ruler = Ruler::of([asked].into_iter().chain(known.iter().copied()))?;
        let spans_of =
            |domain: &Domain| ruler.spans(domain).into_iter().map(|span| span.start as i128..span.end as i128);
        let wanted: Vec<Span> = spans_of(asked).collect();
        let spans: Vec<Vec<Span>> = known.iter().map(|domain| spans_of(domain).collect()).collect();
        let made: Vec<MadeItem> = items.iter().zip(&spans).map(|(item, spans)| made_item(item, spans)).collect();
        let estimate = Estimate::of(&wanted, &made, &ruler.positions());
        let mut file = estimate.file();
        if !may_scan {
            // Beside a scan that saves nothing items are not worth reading: those that need none are left.
            file = FileScan { file_ns: file.file_ns.saturating_add(file.kept_ns), kept_ns: 0 };
        }
        let partial = items.iter().zip(spans).enumerate().map(|(at, (item, spans))| PartialItem {
            id: at as u64,
            spans,
            scan_ns: item.measurements().reuse_scan_ns,
        });
        let answer = cover(&wanted, &partial.collect::<Vec<_>>(), &file, &|span| estimate.share(span));
        if !answer.uses_items() || (answer.scans_file() && !may_scan) {
            return None;
        }
        let mut spans_of_items: Vec<Vec<Range<usize>>> = vec![Vec::new(); items.len()];
        let mut remainder = Vec::new();
        let mut covered_share = 0.0;
        for piece in &answer.pieces {
            // Ordinals are ranks of the ruler.
            let span = usize::try_from(piece.span.start).ok()?..usize::try_from(piece.span.end).ok()?;
            match piece.source {
                Source::Remainder => remainder.push(span),
                Source::Item(at) => {
                    covered_share += estimate.share(&piece.span);
                    spans_of_items.get_mut(usize::try_from(at).ok()?)?.push(span);
                }
            }
        }
        let part = |spans: Vec<Range<usize>>| request.predicate.replace(field, ruler.domain(spans));
        let remainder = (!remainder.is_empty()).then(|| Arc::new(part(remainder)));
        let parts = items.iter().zip(spans_of_items).filter(|(_, spans)| !spans.is_empty()).map(|(item, spans)| {
            CombinedPart { residual: item.predicate.residual(&part(spans)), item: Arc::clone(item) }
        });
        Some(Self {
            parts: parts.collect(),
            remainder,
            covered_share,
            predicted_ns: answer.predicted_ns,
            scan_anew_ns: answer.scan_anew_ns,
        })
    }

    /// The request for what must be scanned.
    pub(crate) fn remainder_request(&self, request: &SelectRequest) -> Option<SelectRequest> {
        let predicate = self.remainder.as_ref()?;
        let retain_predicate = Arc::clone(predicate);
        Some(SelectRequest { predicate: Arc::clone(predicate), retain_predicate, ..request.clone() })
    }

    /// The numbers that made the choice.
    pub(crate) fn numbers(&self, lookup_ns: u64) -> Vec<(&'static str, f64)> {
        vec![
            ("part_count", self.parts.len() as f64),
            ("covered_share", self.covered_share),
            ("predicted_ns", self.predicted_ns),
            ("scan_anew_ns", self.scan_anew_ns),
            ("lookup_ns", lookup_ns as f64),
        ]
    }

    /// Why, in words.
    pub(crate) fn reason(&self) -> &'static str {
        match (self.parts.len(), &self.remainder) {
            (_, None) => "items cover it together",
            (1, Some(_)) => "an item covers a part of it, and the rest is scanned",
            _ => "items cover parts of it, and the rest is scanned",
        }
    }
}

fn made_item(item: &Item, spans: &[Span]) -> MadeItem {
    let measured = item.measurements();
    MadeItem {
        spans: spans.to_vec(),
        kept_records: item.shape.record_count,
        scanned_records: item.record_count,
        made_ns: measured.execute_ns.saturating_add(measured.cache_ns),
    }
}
