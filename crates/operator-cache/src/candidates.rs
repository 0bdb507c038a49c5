//! What a policy may evict, and taking it out: items, and parts of items.
//!
//! **Owns**: which items and parts there are to choose from, what is measured of a part, and the numbers that policies
//! know them by. **Does not own**: the choice, the parts' order (both `placement`), giving back what was taken out (the
//! caller, who drops it without the catalog's lock).
//!
//! A part is an item to a policy: it was used as often as the latest queries needed it, was last used when one did, and
//! takes a scan of the file to have again.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

use thermocline_placement::operator_cache::demand::{credited_share, expected_uses, may_hold_all};
use thermocline_placement::operator_cache::heads::{is_full_grown, tail_parts};
use thermocline_placement::operator_cache::item_parts::{ColumnBits, ColumnSize, ItemPart, MAX_COLUMNS, bit, parts};
use thermocline_placement::operator_cache::map_making::{is_spared, scan_by_map_ns};
use thermocline_placement::operator_cache::{EvictionPolicy, ItemMeasurements, Victim};
use thermocline_predicate::FieldPath;

use crate::catalog::Catalog;
use crate::demand::ColumnUse;
use crate::item::{Item, ItemId};
use crate::request::{ColumnSpec, SelectRequest};
use crate::source::SourceKey;
use crate::top_up::TopUp;

/// Sources whose queries are remembered: some kilobytes each, beside the budget.
const DEMANDED_SOURCES: usize = 512;

/// What a policy is asked about, under a number: an item, or a part of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) item: ItemId,
    part: Option<u8>,
}

/// What the worth of items depends on beside them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) policy: &'a dyn EvictionPolicy,
    /// What caches may hold in all.
    pub(crate) limit_bytes: u64,
}

/// Parts of rows are numbered from here on, those of columns below.
const FIRST_OF_ROWS: u8 = MAX_COLUMNS as u8;

/// What goes of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Going {
    Whole,
    Columns(ColumnBits),
    /// So many of its parts, the last rows first.
    Rows(usize),
}

/// An item of which something goes.
#[derive(Debug)]
pub(crate) struct Resolved<'a> {
    pub(crate) item: ItemId,
    pub(crate) going: Going,
    /// The candidates that make that up.
    pub(crate) victims: Vec<&'a Victim>,
}

#[cfg(test)]
thread_local! {
    /// How often the parts of an item were looked for.
    pub(crate) static PARTED_COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Candidate {
    /// An item that goes as a whole, of which this was measured.
    fn whole(item: &Item, measured: ItemMeasurements) -> ItemMeasurements {
        ItemMeasurements { id: Self { item: item.id, part: None }.id(), ..measured }
    }

    /// Its number.
    fn id(self) -> u64 {
        self.item.0 << u8::BITS | self.part.map_or(0, |part| u64::from(part) + 1)
    }

    /// The candidate of this number.
    pub(crate) fn of(id: u64) -> Self {
        let part = u8::try_from(id & u64::from(u8::MAX)).ok().and_then(|number| number.checked_sub(1));
        Self { item: ItemId(id >> u8::BITS), part }
    }
}

impl Going {
    /// Both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Columns(one), Self::Columns(other)) => Self::Columns(one | other),
            (Self::Rows(one), Self::Rows(other)) => Self::Rows(one + other),
            _ => Self::Whole,
        }
    }
}

impl Catalog {
    /// What may be given up for a query's memory: items that nobody reads, so that evicting them frees their memory at
    /// once, in parts where they have some.
    pub(crate) fn evictable(&self, terms: Terms<'_>) -> Vec<ItemMeasurements> {
        let unread = self.items().filter(|item| Arc::strong_count(item) == 1);
        unread.flat_map(|item| self.candidates_of(terms, item)).collect()
    }

    /// What newcomers may displace: items as a whole, without maps that are spared. Heads, and items that are not to be
    /// given further columns, go in parts if the policy divides items.
    pub(crate) fn displaceable(&self, terms: Terms<'_>) -> Vec<ItemMeasurements> {
        let maps_bytes = self.maps().map(|map| map.size_bytes).sum();
        let unread = self.items().filter(|item| Arc::strong_count(item) == 1);
        let is_spared = |item: &Item| {
            let served_share = || self.expected_of_map(terms, item).map_or(1.0, |expected| expected.served_share);
            item.map.is_some() && is_spared(maps_bytes, terms.limit_bytes, served_share())
        };
        let displaceable = unread.filter(|item| !is_spared(item));
        let mut candidates = Vec::new();
        for item in displaceable {
            let whole = Candidate::whole(item, self.measured(terms, item));
            let is_divided = terms.policy.divides_items() && (item.head.is_some() || self.is_full_grown(terms, item));
            let sizes_bytes = if is_divided { item.part_sizes_bytes() } else { Vec::new() };
            match sizes_bytes.as_slice() {
                [] | [_] => candidates.push(whole),
                parts => {
                    let number = |part: usize| Candidate { item: item.id, part: Some(FIRST_OF_ROWS + part as u8) };
                    candidates.extend(tail_parts(&whole, parts, |part| number(part).id()));
                }
            }
        }
        candidates
    }

    /// What a policy is told of an item: of one of all rows what is expected of it, and the longest scan that it spares; of
    /// a map the same, and that it spares a part of each.
    /// Policies that don't look at what is expected are told of the longest scan too: what it takes to have it again.
    pub(crate) fn measured(&self, terms: Terms<'_>, item: &Item) -> ItemMeasurements {
        let whole = item.measurements();
        if let Some(expected) = self.expected_of_map(terms, item) {
            let execute_ns = expected.scan_ns.unwrap_or(whole.execute_ns);
            let reuse_scan_ns = scan_by_map_ns(execute_ns);
            return ItemMeasurements { use_count: expected.use_count, execute_ns, reuse_scan_ns, ..whole };
        }
        // Of ranges there are many, and theirs are not looked at.
        let expected = || self.expected_uses(terms, &item.source, &item.columns, item.all_rows_bytes());
        match item.keeps_all_ranges().then(expected).flatten() {
            Some(use_count) => ItemMeasurements { use_count, execute_ns: self.spared_ns(terms, item), ..whole },
            None if !terms.policy.divides_items() => ItemMeasurements { execute_ns: item.longest_scan_ns(), ..whole },
            None => whole,
        }
    }

    /// Uses to come of all rows of these columns, which take `all_rows_bytes`; None if the policy counts those that were,
    /// or nothing is known.
    pub(crate) fn expected_uses(
        &self,
        terms: Terms<'_>,
        source: &SourceKey,
        columns: &[ColumnSpec],
        all_rows_bytes: u64,
    ) -> Option<u64> {
        let demand = self.demands.get(source).filter(|_| terms.policy.divides_items())?;
        let kept_share = self.kept_share(source, columns)?;
        let may_hold_all = may_hold_all(all_rows_bytes, kept_share, terms.limit_bytes);
        let share = credited_share(kept_share, self.answered_share(source, columns), may_hold_all);
        Some(expected_uses(demand.rate(self.demanded_tick), share))
    }

    /// Of what all columns take that the latest queries of a source needed, the share of these; None if that can't be
    /// told.
    pub(crate) fn kept_share(&self, source: &SourceKey, columns: &[ColumnSpec]) -> Option<f64> {
        let demand = self.demands.get(source)?;
        Some(demand.kept_share(demand.bits(columns)?))
    }

    /// Whether it has all rows, and enough columns not to need more, or can't be given them.
    fn is_full_grown(&self, terms: Terms<'_>, item: &Item) -> bool {
        if !item.keeps_all_ranges() {
            return false;
        }
        let may_hold_all = self
            .kept_share(&item.source, &item.columns)
            .is_none_or(|kept_share| may_hold_all(item.all_rows_bytes(), kept_share, terms.limit_bytes));
        is_full_grown(self.answered_share(&item.source, &item.columns), may_hold_all)
    }

    /// What a policy is asked about instead of an item.
    fn candidates_of(&self, terms: Terms<'_>, item: &Item) -> Vec<ItemMeasurements> {
        let whole = Candidate::whole(item, self.measured(terms, item));
        let Some((parts, demand)) = self.parts_of(item).zip(self.demands.get(&item.source)) else {
            return vec![whole];
        };
        if parts.is_empty() {
            // Others hold all of its columns too, such as items that were completed from the same one: unless each can go,
            // none ever has them alone. With this one goes its structure.
            return vec![ItemMeasurements { size_bytes: item.structure.size_bytes(), ..whole }];
        }
        let asked_count = demand.queries().len();
        let spared_ns = self.spared_ns(terms, item);
        let measured = parts.iter().enumerate().map(|(index, part)| {
            let uses = whole.use_count as f64 * part.lost_count / asked_count.max(1) as f64;
            let share = part.size_bytes as f64 / item.size_bytes.max(1) as f64;
            let of_whole = |ns: u64| (ns as f64 * share) as u64;
            let last_use = demand.last_use(bit(part.number));
            // Columns that no query needs save nothing.
            let is_needed = part.lost_count > 0.0;
            ItemMeasurements {
                id: Candidate { item: item.id, part: Some(index as u8) }.id(),
                use_count: uses.round() as u64,
                execute_ns: if is_needed { spared_ns } else { 0 },
                cache_ns: if is_needed { of_whole(whole.cache_ns) } else { 0 },
                reuse_scan_ns: of_whole(whole.reuse_scan_ns),
                size_bytes: part.size_bytes,
                baseline: last_use.baseline,
                last_use: last_use.tick,
                ..whole
            }
        });
        measured.collect()
    }

    /// The parts that an item can be evicted in, if it has more than one column that somebody could ask for.
    fn parts_of(&self, item: &Item) -> Option<Vec<ItemPart>> {
        #[cfg(test)]
        PARTED_COUNT.set(PARTED_COUNT.get() + 1);
        if !item.is_divisible() {
            return None;
        }
        let demand = self.demands.get(&item.source)?;
        let kept = demand.bits(&item.columns)?;
        let sizes = item.columns.iter().enumerate().map(|(index, column)| {
            Some(ColumnSize { number: demand.number(&column.path)?, size_bytes: item.removable_bytes(index) })
        });
        let removable = sizes.collect::<Option<Vec<_>>>()?.into_iter().filter(|column| column.size_bytes > 0);
        Some(parts(&demand.queries(), kept, &removable.collect::<Vec<_>>()))
    }

    /// What of which items the victims are, each item once, in the order of the first victim of each.
    pub(crate) fn resolve<'a>(&self, victims: &'a [Victim]) -> Vec<Resolved<'a>> {
        let mut places: HashMap<ItemId, usize> = HashMap::new();
        let mut by_item: Vec<(ItemId, Vec<&Victim>)> = Vec::new();
        for victim in victims {
            let item = Candidate::of(victim.id).item;
            let place = *places.entry(item).or_insert(by_item.len());
            match by_item.get_mut(place) {
                Some((_, others)) => others.push(victim),
                None => by_item.push((item, vec![victim])),
            }
        }
        let resolved = by_item.into_iter().map(|(item, victims)| {
            let going = self.going(item, victims.iter().map(|victim| Candidate::of(victim.id).part));
            Resolved { item, going, victims }
        });
        resolved.collect()
    }

    /// These parts of an item together.
    fn going(&self, id: ItemId, parts: impl Iterator<Item = Option<u8>>) -> Going {
        // To find them is work: once for all of an item, and not for its rows.
        let columns = LazyCell::new(|| self.item(id).and_then(|item| self.parts_of(item)).unwrap_or_default());
        let each = parts.map(|part| match part {
            Some(part) if part >= FIRST_OF_ROWS => Going::Rows(1),
            Some(part) => columns.get(usize::from(part)).map_or(Going::Whole, |part| Going::Columns(bit(part.number))),
            None => Going::Whole,
        });
        each.reduce(Going::and).unwrap_or(Going::Whole)
    }

    /// Takes columns out of an item, or the item if it has no others. What is returned holds their memory.
    fn evict_columns(&mut self, id: ItemId, columns: ColumnBits) -> Vec<Arc<Item>> {
        let Some(item) = self.item(id) else { return Vec::new() };
        let Some(demand) = self.demands.get(&item.source) else { return Vec::new() };
        let is_kept = |path: &FieldPath| demand.number(path).is_none_or(|number| columns >> number & 1 == 0);
        let numbered = item.columns.iter().enumerate();
        let kept: Vec<usize> = numbered.filter(|(_, column)| is_kept(&column.path)).map(|(index, _)| index).collect();
        match item.with_columns(&kept) {
            Some(rest) => self.replace(rest),
            None => self.evict(id).into_iter().collect(),
        }
    }

    /// Takes out what goes. What is returned holds its memory.
    pub(crate) fn evict_going(&mut self, id: ItemId, going: Going) -> Vec<Arc<Item>> {
        match going {
            Going::Whole => self.evict(id).into_iter().collect(),
            Going::Columns(columns) => self.evict_columns(id, columns),
            Going::Rows(count) => self.evict_parts(id, count),
        }
    }

    /// What a query is spared that an item of all rows answers, over all threads: a scan of what it asks for, as far as
    /// that is known.
    fn spared_ns(&self, terms: Terms<'_>, item: &Item) -> u64 {
        let bytes = item.head.map_or(item.end_bytes, |head| head.end_bytes);
        self.own_scan_ns(terms, &item.source, bytes).unwrap_or_else(|| item.longest_scan_ns())
    }

    /// What a scan takes of what a query asks for that passes over `bytes`; None if that is not known, or is nothing that
    /// the policy looks at.
    pub(crate) fn own_scan_ns(&self, terms: Terms<'_>, source: &SourceKey, bytes: u64) -> Option<u64> {
        self.demands.get(source).filter(|_| terms.policy.divides_items())?.own_scan_ns(bytes)
    }

    /// Of the latest queries of a source the share that can be answered with these columns; all if none is known.
    pub(crate) fn answered_share(&self, source: &SourceKey, columns: &[ColumnSpec]) -> f64 {
        let Some(demand) = self.demands.get(source).filter(|demand| !demand.queries().is_empty()) else { return 1.0 };
        // More columns than are told apart.
        let Some(kept) = demand.bits(columns) else { return 1.0 };
        let queries = demand.queries();
        queries.iter().filter(|&&query| query & !kept == 0).count() as f64 / queries.len() as f64
    }

    /// Notes about how wide columns are that were not kept: of all rows they would take so much together.
    pub(crate) fn note_widths_of_missing(&mut self, top_up: &TopUp, added_bytes: u64) {
        let value_count = top_up.base.row_count() * top_up.missing.len() as u64;
        let is_of_all = top_up.base.predicate.is_all() && value_count > 0;
        if let Some(demand) = self.demands.get_mut(&top_up.base.source).filter(|_| is_of_all) {
            for column in top_up.missing.iter() {
                demand.note_width(&column.path, added_bytes as f32 / value_count as f32);
            }
        }
    }

    /// Notes what a scan that ended took for what was asked for.
    pub(crate) fn note_own_scan(&mut self, source: &SourceKey, bytes: u64, ns: u64) {
        if let Some(demand) = self.demands.get_mut(source) {
            demand.note_own_scan(bytes, ns);
        }
    }

    /// Notes that a query of `tick` ended before it had what it needed.
    pub(crate) fn take_back_demand(&mut self, source: &SourceKey, columns: &[ColumnSpec], tick: u64) {
        if let Some(demand) = self.demands.get_mut(source) {
            demand.take_back(columns, tick);
        }
    }

    /// Notes which columns a query needs. Of too many sources the one that was asked longest ago is forgotten.
    pub(crate) fn note_demand(&mut self, policy: &dyn EvictionPolicy, request: &SelectRequest, tick: u64) {
        let baseline = policy.baseline_on_use(&self.policy_state);
        self.demanded_tick = tick;
        let now = ColumnUse { baseline, tick };
        if let Some(demand) = self.demands.get_mut(&request.source) {
            return demand.note(&request.columns, now);
        }
        if self.demands.len() >= DEMANDED_SOURCES
            && let Some(oldest) = self.demands.iter().min_by_key(|(_, demand)| demand.last_tick()).map(|(key, _)| key)
        {
            let oldest = oldest.clone();
            self.demands.remove(&oldest);
        }
        self.demands.entry(request.source.clone()).or_default().note(&request.columns, now);
    }
}
