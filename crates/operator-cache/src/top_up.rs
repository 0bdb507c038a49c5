//! Columns for an item that lacks them: only these are parsed, and the kept ones are laid beside them.
//!
//! **Owns**: which items can be topped up for a request, and the source that joins kept and fresh columns. The scan
//! that runs over this source is like any other: shared, bounded by memory, and its result is an item that makes the
//! old one superfluous; or one beside it, of the elements of another of the records' lists ([`siblings`](crate::siblings)).
//!
//! **Which records are read**: where it is known where the item's records lie, those; else all, to find them again.
//!
//! **Invariants**: morsels are numbered by file and range alone ([`MorselSource`]), and which rows of one pass depends
//! on the predicate alone; of a scan by positions, each position is that of one entry. So morsel `i` of the fresh
//! columns has exactly the rows of morsel `i` of the kept ones, in the same records; a source that says otherwise read
//! another content, which is an error; so are hashes of the content that are not those of the scan that made the item,
//! compared when the scan ends. That is not so where bad records are left out, since a record may be bad for one column
//! and good for another: requests say whether they leave any out ([`SelectRequest::may_skip`]).
//!
//! **Paper**: beyond ReCache, which fetches the tuples that an item lacks anew from the raw file.

use std::ops::Range;
use std::sync::Arc;

use thermocline_hardware::Clock;
use thermocline_predicate::{Conjunction, FieldPath};
use thermocline_raw::RecordPositions;

use crate::error::SourceError;
use crate::item::{Chunk, Item, Lent};
use crate::request::{ColumnSpec, SelectRequest};
use crate::rows::{ColumnRoute, Elements, Rows, element_columns};
use crate::source::{Fetch, Morsel, MorselSource, ScanSpec, SourceEnd, SourceFactory};

/// What a top-up scans and delivers.
#[derive(Debug, Clone)]
pub(crate) struct TopUp {
    /// The item that has the other columns.
    pub(crate) base: Arc<Item>,
    /// The list whose elements the rows are. Where it is not that of `base`, this one stays, and lends what its records
    /// have.
    list: Option<FieldPath>,
    /// All columns, the kept ones among them, sorted by path.
    pub(crate) columns: Arc<[ColumnSpec]>,
    /// The columns that the item lacks.
    pub(crate) missing: Arc<[ColumnSpec]>,
    /// Where the item's records lie, if that is known: then no others are read.
    pub(crate) positions: Option<Arc<RecordPositions>>,
}

/// An item's rows, by the morsels of a scan that is laid beside them.
#[derive(Debug)]
pub(crate) struct KeptRows {
    base: Arc<Item>,
    /// Of the item's entries, if they alone are read.
    positions: Option<Arc<RecordPositions>>,
    /// Entries of the item before each of its chunks.
    chunk_starts: Vec<u64>,
    /// By column of the result, which of the item's it is.
    columns: Vec<Option<usize>>,
    /// The same of those that need not be copied where they lie in arrays: those of records, which are cut by record.
    lendable: Vec<Option<usize>>,
    /// Whether the rows are elements of the same list as the item's.
    is_same_list: bool,
}

impl TopUp {
    /// How `base` is completed for `request`, whose rows it holds. None when there is nothing in it for the request, or
    /// no way to align what is added.
    pub(crate) fn of(base: &Arc<Item>, request: &SelectRequest) -> Option<Self> {
        let positions = base.positions.clone().filter(|_| request.can_seek);
        let is_aligned = base.morsel_ends.is_some() || positions.is_some();
        if base.chunks.is_empty() || !is_aligned || !request.has_fields_of(&base.predicate) {
            return None;
        }
        let missing = missing_columns(&base.columns, &base.predicate, request)?;
        // Beside rows that are all there, what is to be kept of all rows is laid even if it shares nothing with them: one
        // item answers what two could not, and grows instead of being doubled.
        let is_of_all = base.predicate.is_all() && request.retain_predicate.is_all();
        if missing.len() == request.columns.len() && !is_of_all {
            return None;
        }
        Some(Self {
            base: Arc::clone(base),
            list: base.source.unnest.clone(),
            columns: united(&base.columns, &missing),
            missing: missing.into(),
            positions,
        })
    }

    /// How `columns` of all records, and of the elements of `list`, are read beside what `base` has of the same records.
    /// None where it has none of them, or there is no way to align the others.
    pub(crate) fn beside(
        base: &Arc<Item>,
        list: Option<&FieldPath>,
        columns: &Arc<[ColumnSpec]>,
        can_seek: bool,
    ) -> Option<Self> {
        if !Self::can_be_beside(base, can_seek) || Self::lent_count(base, list, columns) == 0 {
            return None;
        }
        let missing = columns.iter().filter(|column| !is_lent(base, list, column)).cloned();
        Some(Self {
            base: Arc::clone(base),
            list: list.cloned(),
            columns: Arc::clone(columns),
            missing: missing.collect(),
            positions: base.positions.clone().filter(|_| can_seek && base.morsel_ends.is_none()),
        })
    }

    /// Whether there is a way to align further columns of all of an item's records.
    pub(crate) fn can_be_beside(base: &Item, can_seek: bool) -> bool {
        let is_aligned = base.morsel_ends.is_some() || can_seek && base.positions.is_some();
        is_aligned && !base.chunks.is_empty()
    }

    /// How many of `columns` it has of its records, if these are of the elements of `list`.
    pub(crate) fn lent_count(base: &Item, list: Option<&FieldPath>, columns: &[ColumnSpec]) -> usize {
        columns.iter().filter(|column| is_lent(base, list, column)).count()
    }

    /// Whether the result takes the place of the item.
    pub(crate) fn completes(&self) -> bool {
        self.list == self.base.source.unnest
    }

    /// The same with `others` too, as far as the item lacks them.
    pub(crate) fn with<'a>(mut self, others: impl IntoIterator<Item = &'a ColumnSpec>) -> Self {
        let mut missing = self.missing.to_vec();
        for column in others {
            let is_there = ColumnRoute::find(&self.base.columns, &column.path)
                .or_else(|| ColumnRoute::find(&missing, &column.path))
                .is_some();
            let is_above = self.columns.iter().chain(&missing).any(|other| other.path.starts_with(&column.path));
            if !is_there && !is_above {
                missing.push(column.clone());
            }
        }
        self.columns = united(&self.base.columns, &missing);
        self.missing = missing.into();
        self
    }

    /// About what the completed item takes, the base's bytes among them.
    pub(crate) fn completed_bytes(&self) -> u64 {
        let column_count = self.base.columns.len().max(1) as u64;
        self.base.size_bytes.saturating_mul(self.columns.len() as u64) / column_count
    }

    /// About what of the base's bytes is not held a second time for the completed item.
    pub(crate) fn lent_bytes(&self) -> u64 {
        let is_lent = |(_, column): &(usize, &ColumnSpec)| is_of_records(&self.base, None, &column.path);
        let lent: Vec<usize> = self.base.columns.iter().enumerate().filter(is_lent).map(|(index, _)| index).collect();
        let lenders = self.base.chunks.iter();
        lenders.map(|chunk| chunk.column_bytes(lent.iter().copied(), chunk.content().entry_count())).sum()
    }

    /// All that the item has of its records; more of it need be neither read nor held, if it lies in arrays.
    pub(crate) fn with_all_of_records(mut self) -> Self {
        if !self.base.holds_arrays() {
            return self;
        }
        let (base, list) = (&self.base, self.list.as_ref());
        let mut columns = self.columns.to_vec();
        for column in base.columns.iter().filter(|column| is_of_records(base, list, &column.path)) {
            let is_there = ColumnRoute::find(&columns, &column.path).is_some();
            let is_above = |other: &FieldPath| other.starts_with(&column.path);
            if !is_there && !columns.iter().map(|other| &other.path).chain(list).any(is_above) {
                columns.push(column.clone());
            }
        }
        columns.sort_by(|left, right| left.path.cmp(&right.path));
        self.columns = columns.into();
        self
    }

    /// The rows that are there.
    pub(crate) fn kept_rows(&self) -> KeptRows {
        let mut entry_count = 0;
        let chunk_starts = self.base.chunks.iter().map(|chunk| {
            let start = entry_count;
            entry_count += chunk.content().entry_count() as u64;
            start
        });
        let is_missing = |wanted: &&ColumnSpec| self.missing.contains(wanted);
        let kept = |wanted: &ColumnSpec| {
            let of_base = || self.base.columns.iter().position(|column| column == wanted);
            Some(wanted).filter(|wanted| !is_missing(wanted)).and_then(|_| of_base())
        };
        let columns: Vec<Option<usize>> = self.columns.iter().map(kept).collect();
        let is_of_records = |index: &usize| is_of_records(&self.base, None, &self.base.columns[*index].path);
        KeptRows {
            chunk_starts: chunk_starts.collect(),
            base: Arc::clone(&self.base),
            positions: self.positions.clone(),
            lendable: columns.iter().map(|column| column.filter(is_of_records)).collect(),
            columns,
            is_same_list: self.completes(),
        }
    }

    /// Opens a source that delivers all columns, given the factory for those that are missing.
    pub(crate) fn open(
        &self,
        spec: &ScanSpec,
        kept: &Arc<KeptRows>,
        fresh: &SourceFactory,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn MorselSource>, SourceError> {
        let spec = ScanSpec { columns: Arc::clone(&self.missing), ..spec.clone() };
        Ok(Arc::new(TopUpSource::new(self, Arc::clone(kept), fresh(&spec)?, Arc::clone(clock))))
    }
}

/// Whether an item has this column of its records, also if these are of the elements of `list`.
fn is_lent(base: &Item, list: Option<&FieldPath>, column: &ColumnSpec) -> bool {
    is_of_records(base, list, &column.path) && base.columns.contains(column)
}

/// Whether a column has a value for each record, both of those of `item` and where `list` is unnested.
fn is_of_records(item: &Item, list: Option<&FieldPath>, path: &FieldPath) -> bool {
    ![item.source.unnest.as_ref(), list].into_iter().flatten().any(|list| path.starts_with(list))
}

impl KeptRows {
    /// By column of the result, which of the item's it is, if it need not be copied; None of one that is read.
    pub(crate) fn lendable(&self) -> &[Option<usize>] {
        &self.lendable
    }

    /// What is not held a second time when the rows of a morsel are kept with its fresh columns. None where that is
    /// nothing: the rows are not in one chunk, or not there as arrays.
    pub(crate) fn lent(&self, index: usize, bytes: &Range<u64>) -> Option<(Lent, &Arc<Chunk>)> {
        let entries = self.entries(index, bytes)?;
        let chunk_at = self.chunk_of(entries.start)?;
        let lender = self.base.chunks.get(chunk_at).filter(|chunk| chunk.content().as_arrays().is_some())?;
        let start = self.chunk_starts[chunk_at];
        let range = (entries.start - start) as usize..(entries.end - start) as usize;
        let is_within = !range.is_empty() && range.end <= lender.content().entry_count();
        is_within.then(|| (Lent { lender: Arc::downgrade(lender), range }, lender))
    }

    /// The chunk that an entry is in, or beyond which it is.
    fn chunk_of(&self, entry: u64) -> Option<usize> {
        self.chunk_starts.partition_point(|&first| first <= entry).checked_sub(1)
    }

    /// The entries of a morsel of this number and range. None if there is none of that number.
    fn entries(&self, index: usize, bytes: &Range<u64>) -> Option<Range<u64>> {
        if let Some(positions) = &self.positions {
            return Some(positions.count_below(bytes.start) as u64..positions.count_below(bytes.end) as u64);
        }
        let ends = self.base.morsel_ends.as_deref().unwrap_or_default();
        let &end = ends.get(index)?;
        Some(index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0)..end)
    }

    /// The rows of a morsel. None if there is none of that number.
    fn rows(&self, index: usize, bytes: &Range<u64>, clock: &dyn Clock) -> Result<Option<Rows>, SourceError> {
        let Some(Range { mut start, end }) = self.entries(index, bytes) else { return Ok(None) };
        let mut parts = Vec::new();
        while start < end {
            let Some(chunk_at) = self.chunk_of(start) else { return Ok(None) };
            let content = self.base.chunks[chunk_at].content();
            let first = (start - self.chunk_starts[chunk_at]) as usize;
            let count = content.entry_count().saturating_sub(first).min((end - start) as usize);
            if count == 0 {
                return Ok(None);
            }
            parts.push(Arc::new(content.to_rows(first, count, clock)?));
            start += count as u64;
        }
        Ok(match parts.as_slice() {
            [] => match self.base.chunks.first() {
                Some(chunk) => Some(chunk.content().to_rows(0, 0, clock)?),
                None => None,
            },
            [single] => Some(single.as_ref().clone()),
            // Of morsels that the item's scan did not have.
            several => Some(Rows::concat(several)?),
        })
    }
}

/// The columns of `request` that are not among `columns`, if rows of `predicate` with these and those answer it. None
/// where nothing is missing, or nothing to be aligned.
pub(crate) fn missing_columns(
    columns: &[ColumnSpec],
    predicate: &Conjunction,
    request: &SelectRequest,
) -> Option<Vec<ColumnSpec>> {
    let lacks = |column: &&ColumnSpec| ColumnRoute::find_typed(columns, column).is_none();
    let missing: Vec<ColumnSpec> = request.columns.iter().filter(lacks).cloned().collect();
    // Two columns of one path and different types could not be told apart by path.
    let is_ambiguous = missing.iter().any(|column| columns.iter().any(|kept| kept.path == column.path));
    if request.may_skip || is_ambiguous || missing.is_empty() {
        return None;
    }
    let is_there = |path: &FieldPath| [columns, &missing].iter().any(|some| ColumnRoute::find(some, path).is_some());
    let can_filter = predicate.residual(&request.predicate).fields().all(|(path, _)| is_there(path));
    can_filter.then_some(missing)
}

/// Columns and further ones, sorted by path.
fn united(columns: &[ColumnSpec], others: &[ColumnSpec]) -> Arc<[ColumnSpec]> {
    let mut all: Vec<ColumnSpec> = columns.iter().chain(others).cloned().collect();
    all.sort_by(|left, right| left.path.cmp(&right.path));
    all.into()
}

/// A scan read other rows than those that were kept: what is kept of the file is not to be trusted any more.
#[derive(Debug, thiserror::Error)]
#[error("{path}: its content is not what was read before, though nothing else tells that it changed; ask again")]
pub(crate) struct Differs {
    pub(crate) path: Arc<str>,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy)]
enum Place {
    Kept(usize),
    Fresh(usize),
}

struct TopUpSource {
    fresh: Arc<dyn MorselSource>,
    kept: Arc<KeptRows>,
    places: Vec<Place>,
    /// By column of the result, where a list is unnested: whether it belongs to the elements.
    is_element: Option<Arc<[bool]>>,
    clock: Arc<dyn Clock>,
}

impl TopUpSource {
    fn new(top_up: &TopUp, kept: Arc<KeptRows>, fresh: Arc<dyn MorselSource>, clock: Arc<dyn Clock>) -> Self {
        let is_fresh = |wanted: &ColumnSpec| top_up.missing.iter().position(|column| column == wanted);
        let places = top_up.columns.iter().zip(&kept.columns);
        let places = places.filter_map(|(column, kept)| match kept {
            Some(index) => Some(Place::Kept(*index)),
            None => is_fresh(column).map(Place::Fresh),
        });
        let is_element = top_up.list.as_ref().map(|list| element_columns(&top_up.columns, list));
        Self { fresh, places: places.collect(), kept, is_element, clock }
    }

    fn differs(&self) -> SourceError {
        Box::new(Differs { path: Arc::clone(&self.kept.base.source.path) })
    }
}

impl MorselSource for TopUpSource {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        self.fresh.next_morsel()
    }

    fn fetch(self: Arc<Self>, morsel: Morsel) -> Fetch {
        Arc::clone(&self.fresh).fetch(morsel)
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        let (index, bytes) = (usize::try_from(morsel.index)?, morsel.start_bytes..morsel.end_bytes);
        let fresh = self.fresh.decode(morsel)?;
        let Some(kept) = self.kept.rows(index, &bytes, &*self.clock)? else { return Err(self.differs()) };
        let is_aligned = match (&kept.elements, &fresh.elements) {
            _ if !self.kept.is_same_list => kept.entry_count() == fresh.entry_count(),
            (Some(kept), Some(fresh)) => kept.is_same_shape(fresh),
            (None, None) => kept.row_count == fresh.row_count,
            _ => false,
        };
        if !is_aligned {
            return Err(self.differs());
        }
        let elements = fresh
            .elements
            .as_ref()
            .zip(self.is_element.as_ref())
            .map(|(fresh, is_element)| Elements { offsets: fresh.offsets.clone(), is_element: Arc::clone(is_element) });
        let columns = self.places.iter().filter_map(|place| match *place {
            Place::Kept(column) => kept.columns.get(column).cloned(),
            Place::Fresh(column) => fresh.columns.get(column).cloned(),
        });
        Ok(Rows { columns: columns.collect(), elements, ..fresh })
    }

    fn total_bytes(&self) -> u64 {
        self.fresh.total_bytes()
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        self.fresh.finish()
    }
}
