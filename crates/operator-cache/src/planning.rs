//! How a request is answered, where that depends on memory.
//!
//! **Owns**: what of a request is not even tried because it would find no room; what a scan reads that answers a
//! request. **Does not own**: which items there are
//! and what they answer ([`Catalog::plan`]), what is worth keeping ([`admit`](admit())), whether an item is completed
//! or made anew ([`CompletionRule`]).
//!
//! Expectations are compared with the items' measurements as they are now; nothing is reserved, evicted or remembered.

use std::borrow::Cow;
use std::sync::Arc;

use thermocline_placement::operator_cache::ItemMeasurements;
use thermocline_placement::operator_cache::admission::{Admission, admit};
use thermocline_placement::operator_cache::admission_rule::AdmissionMode;
use thermocline_placement::operator_cache::heads::admit_head;
use thermocline_placement::operator_cache::top_up::{Completion, CompletionInputs, CompletionRule};
use thermocline_predicate::FieldPath;

use crate::cache::OperatorCache;
use crate::candidates::Candidate;
use crate::catalog::{Catalog, Plan};
use crate::file_record::PinnedSource;
use crate::item::{Item, predicted_scan_ns};
use crate::request::{ColumnSpec, Expectation, SelectRequest};
use crate::rows::ColumnRoute;
use crate::source::ScanSpec;

/// Why all columns are read anew.
pub(crate) const REBUILD_REASON: &str = "an item lacks columns or rows, and is made anew: there is no room for both, or \
    what can be kept serves more queries";

/// Why the columns that an item has, or all rows, are not read along with what is asked for.
const UNREADABLE_REASON: &str = "something in the file can't be read, so that no more is read than is asked for";

/// Whether the columns of the rows of an item are more than is asked for.
fn reads_more(item: &Item, request: &SelectRequest) -> bool {
    item.keeps_empty || item.columns != request.columns || item.predicate != request.predicate
}

impl OperatorCache {
    /// How a request is answered: as the catalog has it, but that an item of whole columns that lacks some is made anew
    /// where there is no room for both it and the completed one.
    pub(crate) fn plan(&self, catalog: &Catalog, request: &SelectRequest, pinned: &PinnedSource) -> Plan {
        match catalog.plan(request, pinned) {
            Plan::Extend(base) if pinned.has_unreadable() && reads_more(&base, request) => {
                Plan::Miss(UNREADABLE_REASON)
            }
            Plan::Head(head) if !pinned.has_unreadable() && self.is_outgrown(catalog, &head) => {
                Plan::Rebuild(Arc::clone(&head.columns))
            }
            Plan::TopUp(top_up)
                if pinned.has_unreadable()
                    && (top_up.base.keeps_empty || top_up.base.predicate != request.predicate) =>
            {
                Plan::Miss(UNREADABLE_REASON)
            }
            Plan::TopUp(top_up) if top_up.base.predicate.is_all() => {
                let scan_count = pinned.earlier(request.source.unnest.as_ref()).scan_count;
                let in_part = self.better_in_part(catalog, request, &top_up, scan_count);
                if let Some(columns) = in_part.filter(|_| !pinned.has_unreadable()) {
                    return Plan::Rebuild(columns);
                }
                let mut inputs = CompletionInputs {
                    completed_bytes: top_up.completed_bytes(),
                    lent_bytes: top_up.lent_bytes(),
                    free_bytes: self.budget().cache_room_bytes(),
                    others_bytes: 0,
                    limit_bytes: self.limit_bytes(),
                };
                let others = self.rivals(catalog, inputs.added_bytes(), inputs.free_bytes).into_iter();
                let others = others.filter(|other| Candidate::of(other.id).item != top_up.base.id);
                inputs.others_bytes = others.map(|item| item.size_bytes).sum();
                match CompletionRule::default().decide(&inputs) {
                    Completion::Beside => Plan::TopUp(top_up),
                    Completion::InPlace => Plan::Rebuild(top_up.columns),
                }
            }
            plan => plan,
        }
    }

    /// The request, with no more to be kept than is asked for where rows are not to be kept at all, where there is
    /// something in the file that can't be read, or where the item of more can't be expected to be admitted: a scan whose
    /// rows are refused once it runs keeps none.
    pub(crate) fn placed_bet<'a>(
        &self,
        catalog: &Catalog,
        request: &'a SelectRequest,
        pinned: &PinnedSource,
    ) -> Cow<'a, SelectRequest> {
        let is_bet = request.retain_predicate != request.predicate;
        let is_lazy = self.admission_rule().mode == AdmissionMode::Lazy;
        let is_barred = is_lazy || pinned.has_unreadable();
        if !is_bet || (!is_barred && self.may_widen(catalog, request, pinned)) {
            return Cow::Borrowed(request);
        }
        Cow::Owned(SelectRequest { retain_predicate: Arc::clone(&request.predicate), ..request.clone() })
    }

    fn may_widen(&self, catalog: &Catalog, request: &SelectRequest, pinned: &PinnedSource) -> bool {
        let Expectation { size_bytes, execute_ns, own_share } = request.retain_expectation;
        let free_bytes = self.budget().cache_room_bytes();
        if size_bytes <= free_bytes {
            return true;
        }
        let newcomer = ItemMeasurements {
            id: u64::MAX,
            kind: request.source.kind,
            use_count: catalog
                .expected_uses(self.terms(), &request.source, &request.retain_columns, size_bytes)
                .unwrap_or(1 + u64::from(pinned.earlier(request.source.unnest.as_ref()).scan_count)),
            execute_ns: match catalog.own_scan_ns(self.terms(), &request.source, pinned.end_bytes()) {
                Some(own_ns) => own_ns,
                None if self.divides_items() && own_share > 0.0 => (execute_ns as f64 * own_share) as u64,
                None => execute_ns,
            },
            cache_ns: 0,
            reuse_scan_ns: predicted_scan_ns(size_bytes),
            lookup_ns: 0,
            size_bytes,
            baseline: 0.0,
            last_use: self.tick(),
        };
        let (state, items) = (self.policy_state(catalog), catalog.displaceable(self.terms()));
        let verdict = admit(self.policy(), state, &items, &newcomer, free_bytes, self.limit_bytes());
        let admits_head = || {
            request.can_part
                && catalog.is_mostly_asked(&request.source, &request.retain_columns)
                && admit_head(self.policy(), state, &items, &newcomer, free_bytes, self.limit_bytes()).is_some()
        };
        matches!(verdict, Admission::Admit { .. }) || admits_head()
    }
}

/// The request for all rows of these columns.
pub(crate) fn whole_columns(request: &SelectRequest, columns: Arc<[ColumnSpec]>) -> SelectRequest {
    SelectRequest { columns, predicate: Arc::default(), ..request.clone() }
}

/// The scan that answers a request that nothing kept answers, of more rows if `is_widened` and the request says so.
pub(crate) fn scan_spec(request: &SelectRequest, pinned: &PinnedSource, retain: bool, is_widened: bool) -> ScanSpec {
    let wide = &request.retain_predicate;
    let is_usable = retain
        && is_widened
        && wide.covers(&request.predicate)
        && wide
            .residual(&request.predicate)
            .fields()
            .all(|(path, _)| ColumnRoute::find(&request.columns, path).is_some());
    let (predicate, columns) = match is_usable && wide != &request.predicate {
        true => (wide, &request.retain_columns),
        false => (&request.predicate, &request.columns),
    };
    let is_of_records = |list: &FieldPath| !predicate.fields().any(|(path, _)| path.starts_with(list));
    ScanSpec {
        start_bytes: 0,
        end_bytes: pinned.end_bytes(),
        head: None,
        columns: Arc::clone(columns),
        predicate: Arc::clone(predicate),
        // What their other fields are is nobody's question.
        keeps_empty: retain
            && !request.may_skip
            && !pinned.has_unreadable()
            && request.source.unnest.as_ref().is_some_and(is_of_records),
        hashes: pinned.hashes.clone(),
        // Positions of all records would spare the next scan nothing.
        notes_positions: retain && !predicate.is_all() && request.can_seek && !request.may_skip,
        positions: None,
        record_bytes: 0,
        map: None,
        makes_map: false,
    }
}
