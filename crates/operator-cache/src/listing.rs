//! What the cache holds, and what it would do for a request: `thermocline.cache_items` and `EXPLAIN CACHE`.

use std::sync::Arc;

use thermocline_predicate::Conjunction;

use crate::begin::MatchKind;
use crate::cache::OperatorCache;
use crate::catalog::{Catalog, Plan};
use crate::combination::{Combination, CombinedPart, PartSummary};
use crate::file_record::PinnedSource;
use crate::item::{Item, ItemId, ItemSummary};
use crate::planning::{REBUILD_REASON, scan_spec, whole_columns};
use crate::request::{ColumnSpec, SelectRequest};

/// What [`OperatorCache::begin`] would do.
#[derive(Debug, Clone)]
pub enum Explanation {
    /// Read an item.
    Hit {
        /// Which.
        item: ItemSummary,
        /// The filter on its rows.
        residual: Conjunction,
        /// Whether the item's predicate is the request's.
        kind: MatchKind,
    },
    /// Read an item and scan what its file grew by.
    Extend {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Bytes to scan.
        new_bytes: u64,
    },
    /// Scan the columns that an item lacks.
    TopUp {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// The columns to scan.
        missing: Arc<[ColumnSpec]>,
    },
    /// Read several items, and scan what they lack.
    Combine {
        /// The items, each with the filter on its rows.
        parts: Vec<PartSummary>,
        /// The rows to scan.
        remainder: Option<Arc<Conjunction>>,
    },
    /// Read an item of the file's first records, and scan the others.
    Head {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Bytes to scan.
        rest_bytes: u64,
    },
    /// Read the records again whose positions an item holds, and keep their rows.
    Promote {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Records to read.
        record_count: u64,
    },
    /// Take part in a scan that runs already.
    InFlight {
        /// The scan's predicate.
        predicate: Arc<Conjunction>,
        /// The filter on its rows.
        residual: Conjunction,
    },
    /// Wait for a scan that runs, and scan what its item will lack then.
    Wait {
        /// The scan's predicate.
        predicate: Arc<Conjunction>,
        /// The scan's columns.
        columns: Arc<[ColumnSpec]>,
    },
    /// Scan the file.
    Miss {
        /// Why.
        reason: &'static str,
        /// The positional map that the scan would go by.
        map: Option<ItemId>,
    },
}

impl OperatorCache {
    /// What [`begin`](Self::begin) would do now, and why; changes nothing.
    pub fn explain(&self, request: &SelectRequest, pinned: &PinnedSource) -> Explanation {
        let catalog = self.catalog();
        let summary = |item: &Item| self.summary(&catalog, item);
        let placed = self.placed_bet(&catalog, request, pinned);
        let request = placed.as_ref();
        match self.plan(&catalog, request, pinned) {
            Plan::Hit(found) => Explanation::Hit {
                item: summary(&found.item),
                residual: found.item.predicate.residual(&request.predicate),
                kind: if found.exact { MatchKind::Exact } else { MatchKind::Subsumed },
            },
            Plan::Join(scan) => Explanation::InFlight {
                predicate: Arc::clone(&scan.spec.predicate),
                residual: scan.spec.predicate.residual(&request.predicate),
            },
            Plan::Wait(scan) => Explanation::Wait {
                predicate: Arc::clone(&scan.spec.predicate),
                columns: Arc::clone(&scan.spec.columns),
            },
            Plan::Extend(item) => Explanation::Extend {
                item: summary(&item),
                residual: item.predicate.residual(&request.predicate),
                new_bytes: pinned.end_bytes() - item.end_bytes,
            },
            Plan::TopUp(top_up) => Explanation::TopUp {
                item: summary(&top_up.base),
                residual: top_up.base.predicate.residual(&request.predicate),
                missing: top_up.missing,
            },
            Plan::Combine(Combination { parts, remainder, .. }) => {
                let part = |part: CombinedPart| PartSummary { item: summary(&part.item), residual: part.residual };
                Explanation::Combine { parts: parts.into_iter().map(part).collect(), remainder }
            }
            Plan::Head(head) => Explanation::Head {
                item: summary(&head),
                residual: Conjunction::all().residual(&request.predicate),
                rest_bytes: head.rest_bytes(),
            },
            Plan::Promote(promotion) => Explanation::Promote {
                item: summary(&promotion.item),
                residual: promotion.predicate.residual(&request.predicate),
                record_count: promotion.positions.len() as u64,
            },
            Plan::Rebuild(columns) => {
                let whole = whole_columns(request, columns);
                let spec = scan_spec(&whole, pinned, true, false);
                let map = self.map_for(&catalog, &whole, pinned, &spec).map(|(item, _)| item.id);
                Explanation::Miss { reason: REBUILD_REASON, map }
            }
            Plan::Miss(reason) => {
                let spec = scan_spec(request, pinned, true, true);
                let map = self.map_for(&catalog, request, pinned, &spec).map(|(item, _)| item.id);
                Explanation::Miss { reason, map }
            }
        }
    }

    /// The items, for the table `thermocline.cache_items`.
    pub fn items(&self) -> Vec<ItemSummary> {
        let catalog = self.catalog();
        let mut items: Vec<ItemSummary> = catalog.items().map(|item| self.summary(&catalog, item)).collect();
        items.sort_by_key(|item| item.id);
        items
    }

    fn summary(&self, catalog: &Catalog, item: &Item) -> ItemSummary {
        let (measured, expected) = (item.measurements(), catalog.measured(self.terms(), item));
        let mirror = item.mirror.describe();
        ItemSummary {
            id: item.id,
            source: item.source.clone(),
            predicate: Arc::clone(&item.predicate),
            columns: item.listed_columns(),
            end_bytes: item.head.map_or(item.end_bytes, |head| head.end_bytes),
            file_bytes: item.end_bytes,
            row_count: item.row_count,
            is_lazy: item.is_lazy,
            is_map: item.map.is_some(),
            layout: item.layout,
            mirror_layout: mirror.map(|(layout, _)| layout),
            mirror_bytes: mirror.map_or(0, |(_, bytes)| bytes),
            chunk_count: item.chunks.len() as u64,
            size_bytes: measured.size_bytes,
            use_count: measured.use_count,
            execute_ns: measured.execute_ns,
            cache_ns: measured.cache_ns,
            reuse_scan_ns: item.meters.reuse_scan_ns().unwrap_or(0),
            lookup_ns: measured.lookup_ns,
            worth_s: self.policy().worth_s(&self.policy_state(catalog), &expected),
            score: self.policy().score(&expected),
        }
    }
}
