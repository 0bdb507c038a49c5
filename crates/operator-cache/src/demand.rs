//! What is known of the columns of a source: which ones the latest queries needed together, and what they take in memory.
//!
//! **Owns**: the numbers that columns of a source are known by, the queries, a window of them, when they came, what scans
//! of what was asked for took, and how wide kept values were. **Does not own**: what follows from that (`placement::operator_cache::{demand, item_parts}`,
//! who estimates items).
//!
//! Of a field within a struct it is the column at the root that is meant, since that is what is kept or not. Sources of
//! more columns than [`MAX_COLUMNS`] tell nothing of queries that need one of those beyond.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use thermocline_placement::operator_cache::demand::{OwnScans, kept_share, rate};
use thermocline_placement::operator_cache::item_parts::{ColumnBits, MAX_COLUMNS, bit};
use thermocline_predicate::FieldPath;

use crate::cache::OperatorCache;
use crate::file_record::PinnedSource;
use crate::request::ColumnSpec;
use crate::source::SourceKey;

/// Queries that are remembered: enough to tell columns apart that one in ten needs, few enough to follow a change.
const WINDOW: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ColumnDemand {
    numbers: HashMap<Arc<str>, u32>,
    /// By number; None of structs, of which queries ask for fields.
    columns: Vec<Option<ColumnSpec>>,
    /// By number.
    last_uses: Vec<ColumnUse>,
    /// Of a value when it was kept last, by number; 0 if that is not known.
    widths_bytes: Vec<f32>,
    queries: VecDeque<ColumnBits>,
    /// When each of them came.
    ticks: VecDeque<u64>,
    own_scans: OwnScans,
}

/// When a column was last needed: the policy's mark at that time, and the logical time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ColumnUse {
    pub(crate) baseline: f64,
    pub(crate) tick: u64,
}

impl ColumnDemand {
    /// Makes columns known.
    pub(crate) fn register(&mut self, columns: &[ColumnSpec]) {
        for column in columns {
            let Some(root) = root(&column.path) else { continue };
            let next = self.numbers.len() as u32;
            if next < MAX_COLUMNS && !self.numbers.contains_key(root) {
                self.numbers.insert(Arc::clone(root), next);
                self.columns.push((column.path.len() == 1).then(|| column.clone()));
                self.last_uses.push(ColumnUse::default());
                self.widths_bytes.push(0.0);
            }
        }
    }

    /// Notes that a query needed these now.
    pub(crate) fn note(&mut self, columns: &[ColumnSpec], now: ColumnUse) {
        self.register(columns);
        if let Some(query) = self.bits(columns) {
            for (number, last) in self.last_uses.iter_mut().enumerate() {
                if query >> number & 1 == 1 {
                    *last = now;
                }
            }
            if self.queries.len() == WINDOW {
                self.queries.pop_front();
                self.ticks.pop_front();
            }
            self.queries.push_back(query);
            self.ticks.push_back(now.tick);
        }
    }

    /// Forgets a query of `tick` that needed these.
    pub(crate) fn take_back(&mut self, columns: &[ColumnSpec], tick: u64) {
        let Some(query) = self.bits(columns) else { return };
        let mut noted = self.ticks.iter().zip(&self.queries);
        if let Some(at) = noted.rposition(|noted| noted == (&tick, &query)) {
            self.ticks.remove(at);
            self.queries.remove(at);
        }
    }

    /// When its latest query came; 0 if none is remembered.
    pub(crate) fn last_tick(&self) -> u64 {
        self.ticks.back().copied().unwrap_or(0)
    }

    /// The columns as bits; None if one has no number.
    pub(crate) fn bits(&self, columns: &[ColumnSpec]) -> Option<ColumnBits> {
        columns.iter().try_fold(0, |bits, column| Some(bits | 1 << self.number(&column.path)?))
    }

    /// The number of a column.
    pub(crate) fn number(&self, path: &FieldPath) -> Option<u32> {
        self.numbers.get(root(path)?).copied()
    }

    /// Notes that a scan passed over `bytes`, of which what was asked for took so long.
    pub(crate) fn note_own_scan(&mut self, bytes: u64, ns: u64) {
        self.own_scans.note(bytes, ns);
    }

    /// What a scan takes of what a query asks for, over all threads, that passes over `bytes`.
    pub(crate) fn own_scan_ns(&self, bytes: u64) -> Option<u64> {
        self.own_scans.ns_of(bytes)
    }

    /// Notes what a value of a column takes.
    pub(crate) fn note_width(&mut self, path: &FieldPath, width_bytes: f32) {
        let number = self.number(path).filter(|_| path.len() == 1);
        if let Some(known) = number.and_then(|number| self.widths_bytes.get_mut(number as usize)) {
            *known = width_bytes;
        }
    }

    /// Bytes that a value of a column took when it was kept last.
    pub(crate) fn width_bytes(&self, path: &FieldPath) -> Option<f32> {
        let number = self.number(path).filter(|_| path.len() == 1)?;
        self.widths_bytes.get(number as usize).copied().filter(|width_bytes| *width_bytes > 0.0)
    }

    /// When one of these columns was needed last.
    pub(crate) fn last_use(&self, columns: ColumnBits) -> ColumnUse {
        let uses = self.last_uses.iter().enumerate().filter(|(number, _)| columns >> number & 1 == 1);
        uses.fold(ColumnUse::default(), |latest, (_, used)| ColumnUse {
            baseline: latest.baseline.max(used.baseline),
            tick: latest.tick.max(used.tick),
        })
    }

    /// Of the queries of all sources until `now`, the share that are of this one.
    pub(crate) fn rate(&self, now: u64) -> f64 {
        let first = self.ticks.front().copied().unwrap_or(now);
        rate(self.ticks.len(), now.saturating_sub(first) + 1)
    }

    /// Of what all columns take that the latest queries needed, the share of those `kept`.
    pub(crate) fn kept_share(&self, kept: ColumnBits) -> f64 {
        let asked = self.queries.iter().fold(0, |all, query| all | query);
        kept_share(asked, kept, &self.widths_bytes)
    }

    /// The columns that the latest queries needed, each once, without structs.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &ColumnSpec> {
        let asked = self.queries.iter().fold(0, |all, query| all | query);
        let numbered = self.columns.iter().zip(0..).filter(move |(_, number)| asked & bit(*number) != 0);
        numbered.filter_map(|(column, _)| column.as_ref())
    }

    /// How many of the latest queries needed nothing but columns that `knows` says, of how many.
    pub(crate) fn served(&self, knows: impl Fn(&str) -> bool) -> (usize, usize) {
        let known = self.numbers.iter().filter(|(root, _)| knows(root));
        let known = known.fold(0, |known, (_, number)| known | bit(*number));
        (self.queries.iter().filter(|&&query| query & !known == 0).count(), self.queries.len())
    }

    /// What each of the latest queries needed.
    pub(crate) fn queries(&self) -> Vec<ColumnBits> {
        self.queries.iter().copied().collect()
    }
}

impl OperatorCache {
    /// `columns`, and those that others asked of `source`, lately or with results that are kept: whoever keeps all rows
    /// spares their next scan too. Policies as they were published know the latter alone.
    pub fn columns_asked(
        &self,
        source: &SourceKey,
        pinned: &PinnedSource,
        columns: &Arc<[ColumnSpec]>,
    ) -> Arc<[ColumnSpec]> {
        self.catalog().with_columns_asked(self.terms(), columns, source, pinned.generation)
    }
}

fn root(path: &FieldPath) -> Option<&Arc<str>> {
    path.parts().first()
}
