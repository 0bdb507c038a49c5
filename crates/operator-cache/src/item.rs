//! Items: the kept rows of one select over one file, the positions of their records, or a positional map of the whole
//! file; and their meters.
//!
//! **Memory**: every chunk carries the reservations of its bytes, of arrays one for each column, and the item that of
//! its own structure. Items of the same rows share the columns that both have. All goes with the last reference, not with
//! eviction: while a query still reads an evicted item, its bytes count as the cache's.
//! Arrays cut out of it may share its buffers, so who keeps an array must keep the item until the array is gone
//! (or account for it, as the operators above a scan do).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_hardware::Clock;
use thermocline_placement::operator_cache::ItemMeasurements;
use thermocline_placement::operator_cache::layout::rule::LayoutHistory;
use thermocline_placement::operator_cache::layout::{ItemShape, Layout};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Span};
use thermocline_raw::RecordPositions;

use crate::cut::{Cut, CutPieces, View};
use crate::heads::Border;
use crate::layout::{Content, Reading};
use crate::maps::KeptMap;
use crate::mirrors::MirrorSlot;
use crate::request::ColumnSpec;
use crate::rows::Rows;
use crate::source::{Head, SourceKey};

/// Number of an item, unique in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId(pub u64);

/// Kept rows with the reservations of their memory.
#[derive(Debug)]
pub(crate) struct Chunk {
    content: Content,
    memory: ChunkMemory,
    /// Of that, what goes with this chunk and nothing else.
    own_bytes: u64,
    lent: Option<Lent>,
    /// By column, found when something is first asked of it; none of columns that spans are not found of. Some tens of
    /// thousands of rows are fine enough: one for each piece would take four times the room.
    spans: Box<[OnceLock<Option<Span>>]>,
}

#[derive(Debug)]
enum ChunkMemory {
    Whole(Reservation),
    /// Of arrays: each column may be another chunk's too, or go alone.
    ByColumn {
        frame: Arc<ColumnMemory>,
        columns: Vec<Arc<ColumnMemory>>,
    },
}

/// What is reserved for a column of some entries.
#[derive(Debug)]
pub(crate) struct ColumnMemory {
    reservation: Reservation,
    entry_count: usize,
}

impl ColumnMemory {
    /// Reserved bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.reservation.size_bytes()
    }

    /// The part that so many of the entries are.
    pub(crate) fn share_bytes(&self, entry_count: usize) -> u64 {
        let whole = u128::from(self.size_bytes());
        (whole * entry_count as u128 / self.entry_count.max(1) as u128) as u64
    }
}

/// Which entries of another chunk a chunk's rows are, whose arrays it shares: no byte is reserved twice.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    /// There as long as the scan that laid columns beside its own.
    pub(crate) lender: Weak<Chunk>,
    pub(crate) range: Range<usize>,
}

impl Lent {
    /// Whether these are all of the lender's entries.
    pub(crate) fn is_whole(&self) -> bool {
        self.lender.upgrade().is_some_and(|lender| self.range == (0..lender.content.entry_count()))
    }

    /// A column of the lender, with its memory.
    pub(crate) fn column(&self, lender: &Chunk, index: usize) -> Option<(ArrayRef, Arc<ColumnMemory>)> {
        let (array, memory) = lender.column(index)?;
        Some((array.slice(self.range.start, self.range.len()), memory))
    }
}

impl Chunk {
    /// Rows in their layout. What is reserved is theirs alone.
    pub(crate) fn new(content: Content, reservation: Reservation) -> Self {
        match content {
            Content::Arrays(rows) => Self::beside(None, rows, &[], reservation),
            content => {
                let (own_bytes, spans) = (reservation.size_bytes(), unknown_spans(&content));
                Self { content, memory: ChunkMemory::Whole(reservation), own_bytes, lent: None, spans }
            }
        }
    }

    /// Rows of which some columns are entries of another chunk; `places` are their numbers there, and what is reserved
    /// is that of the others.
    pub(crate) fn beside(
        lent: Option<Lent>,
        rows: Arc<Rows>,
        places: &[Option<usize>],
        reservation: Reservation,
    ) -> Self {
        let own_bytes = reservation.size_bytes();
        let entry_count = rows.entry_count();
        let lender = lent.as_ref().and_then(|lent| lent.lender.upgrade());
        let memory_of = |(index, column): (usize, &ArrayRef)| {
            let place = places.get(index).copied().flatten();
            match lender.as_ref().zip(place).and_then(|(lender, place)| lender.column(place)) {
                Some((_, memory)) => memory,
                None => {
                    let reservation = reservation.split(column.get_array_memory_size() as u64);
                    Arc::new(ColumnMemory { reservation, entry_count })
                }
            }
        };
        let columns = rows.columns.iter().enumerate().map(memory_of).collect();
        let frame = Arc::new(ColumnMemory { reservation, entry_count });
        let content = Content::Arrays(rows);
        let spans = unknown_spans(&content);
        Self { content, memory: ChunkMemory::ByColumn { frame, columns }, own_bytes, lent, spans }
    }

    /// The same entries with other columns, each with its memory. None of rows that are no arrays, or of elements.
    pub(crate) fn with_columns(&self, columns: Vec<(ArrayRef, Arc<ColumnMemory>)>) -> Option<Self> {
        let (Content::Arrays(rows), ChunkMemory::ByColumn { frame, .. }) = (&self.content, &self.memory) else {
            return None;
        };
        if rows.elements.is_some() {
            return None;
        }
        let (arrays, memory) = columns.into_iter().unzip();
        let content = Content::Arrays(Arc::new(rows.with_columns(arrays)));
        let memory = ChunkMemory::ByColumn { frame: Arc::clone(frame), columns: memory };
        let spans = unknown_spans(&content);
        Some(Self { content, memory, own_bytes: 0, lent: None, spans })
    }

    /// With what is known of the values of a chunk of the same entries.
    pub(crate) fn knowing_spans_of(self, other: &Self) -> Self {
        Self { spans: other.spans.clone(), ..self }
    }

    /// Whether a value of a column may lie in the domain. If not, none of the chunk's does.
    pub(crate) fn may_hold(&self, column: usize, domain: &Domain) -> bool {
        let Some((kind, known)) = domain.kind().zip(self.spans.get(column)) else { return true };
        let span = known.get_or_init(|| {
            let values = self.content.values(column)?;
            Span::of(&values.array, kind).map(|span| span.or_null(values.lacks_some))
        });
        span.is_none_or(|span| span.may_hold(domain))
    }

    /// Bytes of the structure of one with so many columns, in an item's list of them.
    pub(crate) fn structure_bytes(column_count: usize) -> usize {
        size_of::<Arc<Self>>() + size_of::<Self>() + column_count * size_of::<OnceLock<Option<Span>>>()
    }

    /// A column's array and memory; None of rows that are no arrays.
    pub(crate) fn column(&self, index: usize) -> Option<(ArrayRef, Arc<ColumnMemory>)> {
        let memory = self.column_memory(index)?;
        let array = self.content.as_arrays()?.columns.get(index)?;
        Some((Arc::clone(array), Arc::clone(memory)))
    }

    /// A column's memory, which other chunks may share; None of rows that are no arrays.
    pub(crate) fn column_memory(&self, index: usize) -> Option<&Arc<ColumnMemory>> {
        let ChunkMemory::ByColumn { columns, .. } = &self.memory else { return None };
        columns.get(index)
    }

    /// Which entries of another it is beside.
    pub(crate) fn lent(&self) -> Option<&Lent> {
        self.lent.as_ref()
    }

    /// Reserved bytes that went with it and nothing else when it was made.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.own_bytes
    }

    /// The rows in their layout.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The rows of a chunk that a running scan keeps.
    pub(crate) fn scanned(&self) -> &Arc<Rows> {
        self.content.as_arrays().expect("other layouts are given to finished items alone")
    }

    /// Of these columns' bytes the part that so many of its entries are; 0 of rows that are no arrays.
    pub(crate) fn column_bytes(&self, columns: impl Iterator<Item = usize>, entry_count: usize) -> u64 {
        columns.filter_map(|column| self.column_memory(column)).map(|memory| memory.share_bytes(entry_count)).sum()
    }

    /// Reserved bytes, its share of what others hold too among them.
    pub(crate) fn size_bytes(&self) -> u64 {
        match &self.memory {
            ChunkMemory::Whole(reservation) => reservation.size_bytes(),
            ChunkMemory::ByColumn { frame, columns } => {
                let entry_count = self.content.entry_count();
                columns.iter().chain([frame]).map(|memory| memory.share_bytes(entry_count)).sum()
            }
        }
    }
}

fn unknown_spans(content: &Content) -> Box<[OnceLock<Option<Span>>]> {
    (0..content.column_count()).map(|_| OnceLock::new()).collect()
}

/// A part of an item that is read at once.
#[derive(Debug, Clone)]
pub struct Piece {
    chunk: usize,
    range: Range<usize>,
}

/// Time to scan an item of this size before anybody did: at 4 GB/s, what one thread filters at about.
pub(crate) fn predicted_scan_ns(size_bytes: u64) -> u64 {
    size_bytes / 4
}

/// What was measured of an item: the letters of the ReCache paper, §5.1.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// t: reading, parsing and filtering the file, summed over threads.
    pub(crate) execute_ns: AtomicU64,
    /// Of the scans that made the item the longest: what it takes to have one of its columns again.
    pub(crate) longest_scan_ns: AtomicU64,
    /// c: reserving and merging.
    pub(crate) cache_ns: AtomicU64,
    /// n: 1 for the query that made the item, and one for each that was answered from it.
    pub(crate) use_count: AtomicU64,
    /// l, summed over reuses: finding the item.
    pub(crate) lookup_total_ns: AtomicU64,
    /// s, summed over the reuses that reported it.
    pub(crate) reuse_total_ns: AtomicU64,
    pub(crate) reuse_report_count: AtomicU64,
    /// s, as foretold when the item was made; 0: by its size.
    pub(crate) predicted_scan_ns: AtomicU64,
    /// Tick of the latest use.
    pub(crate) used_tick: AtomicU64,
    /// The policy's baseline at the latest use, as the bits of a double (Greedy-Dual's `L(p)`).
    pub(crate) baseline_bits: AtomicU64,
}

impl Meters {
    /// The same as of now. How long a reuse takes is not known of another layout.
    fn snapshot(&self) -> Self {
        let copy = |meter: &AtomicU64| AtomicU64::new(meter.load(Ordering::Relaxed));
        Self {
            execute_ns: copy(&self.execute_ns),
            longest_scan_ns: copy(&self.longest_scan_ns),
            cache_ns: copy(&self.cache_ns),
            use_count: copy(&self.use_count),
            lookup_total_ns: copy(&self.lookup_total_ns),
            reuse_total_ns: AtomicU64::default(),
            reuse_report_count: AtomicU64::default(),
            predicted_scan_ns: AtomicU64::default(),
            used_tick: copy(&self.used_tick),
            baseline_bits: copy(&self.baseline_bits),
        }
    }

    /// Makes them those of a part.
    pub(crate) fn scale_costs(&mut self, share: f64) {
        for ns in [&mut self.execute_ns, &mut self.longest_scan_ns, &mut self.cache_ns, &mut self.predicted_scan_ns] {
            *ns.get_mut() = (*ns.get_mut() as f64 * share) as u64;
        }
    }

    /// What a reuse is foretold to take before one was measured, nanoseconds.
    fn predicted_scan_ns(&self, size_bytes: u64) -> u64 {
        match self.predicted_scan_ns.load(Ordering::Relaxed) {
            0 => predicted_scan_ns(size_bytes),
            known => known,
        }
    }

    /// Mean lookup time of a reuse, nanoseconds.
    pub(crate) fn lookup_ns(&self) -> u64 {
        let reuse_count = self.use_count.load(Ordering::Relaxed).saturating_sub(1);
        self.lookup_total_ns.load(Ordering::Relaxed).checked_div(reuse_count).unwrap_or(0)
    }

    /// Mean time to scan the item, nanoseconds; None until a reader reported one.
    pub(crate) fn reuse_scan_ns(&self) -> Option<u64> {
        let report_count = self.reuse_report_count.load(Ordering::Relaxed);
        self.reuse_total_ns.load(Ordering::Relaxed).checked_div(report_count)
    }
}

/// The kept rows of one select over one file, or where their records lie. Immutable but for its meters.
#[derive(Debug)]
pub struct Item {
    pub(crate) id: ItemId,
    pub(crate) source: SourceKey,
    pub(crate) generation: u64,
    pub(crate) end_bytes: u64,
    pub(crate) growable: bool,
    /// Whether records without elements are among its entries, so that all that can be asked of records is there.
    pub(crate) keeps_empty: bool,
    pub(crate) predicate: Arc<Conjunction>,
    pub(crate) columns: Arc<[ColumnSpec]>,
    pub(crate) chunks: Vec<Arc<Chunk>>,
    /// Whether it holds the positions of its records, and no rows.
    pub(crate) is_lazy: bool,
    /// Where the records of its entries lie in the file, one for each; None when that is not known.
    pub(crate) positions: Option<Arc<RecordPositions>>,
    /// Where all the file's records lie, and some of their fields; then it has no rows.
    pub(crate) map: Option<KeptMap>,
    /// The records whose rows it has, if these are not all; then it is not one that answers requests alone.
    pub(crate) head: Option<Head>,
    /// Where it can be parted, ascending; none if it can't be.
    pub(crate) borders: Arc<[Border]>,
    pub(crate) layout: Layout,
    /// Entries up to the end of each morsel of the scan that made it; None when several scans did.
    pub(crate) morsel_ends: Option<Arc<[u64]>>,
    pub(crate) row_count: u64,
    pub(crate) record_count: u64,
    pub(crate) skipped_count: u64,
    pub(crate) size_bytes: u64,
    pub(crate) meters: Meters,
    /// What the layout rules are told of it.
    pub(crate) shape: ItemShape,
    /// Of a value of each column.
    pub(crate) widths_bytes: Arc<[u32]>,
    pub(crate) layouts: Mutex<LayoutHistory>,
    pub(crate) is_converting: AtomicBool,
    /// The same rows in another layout.
    pub(crate) mirror: Arc<MirrorSlot>,
    /// Whether it was laid beside another that stays, or another one beside it: they may hold columns together.
    pub(crate) may_share: AtomicBool,
    pub(crate) structure: Arc<Reservation>,
}

impl Item {
    /// Bytes of its structure if it had so many chunks.
    pub(crate) fn structure_bytes(&self, chunk_count: usize) -> u64 {
        let per_chunk = Chunk::structure_bytes(self.columns.len()) as u64;
        (self.structure.size_bytes() + chunk_count as u64 * per_chunk)
            .saturating_sub(self.chunks.len() as u64 * per_chunk)
    }

    /// The same item in another layout.
    pub(crate) fn with_layout(
        &self,
        id: ItemId,
        chunks: Vec<Arc<Chunk>>,
        structure: Reservation,
        layout: Layout,
    ) -> Self {
        let mut shape = self.shape;
        shape.size_bytes[layout.index()] = chunks.iter().map(|chunk| chunk.size_bytes()).sum();
        let layouts = Mutex::new(self.layouts.lock().clone());
        let columns = (Arc::clone(&self.columns), Arc::clone(&self.widths_bytes));
        Self { id, layout, shape, layouts, ..self.of_chunks(columns, chunks, Arc::new(structure)) }
    }

    /// An item of the same rows and number in other chunks, with these columns, whose values take so many bytes.
    pub(crate) fn of_chunks(
        &self,
        (columns, widths_bytes): (Arc<[ColumnSpec]>, Arc<[u32]>),
        chunks: Vec<Arc<Chunk>>,
        structure: Arc<Reservation>,
    ) -> Self {
        Self {
            id: self.id,
            source: self.source.clone(),
            generation: self.generation,
            end_bytes: self.end_bytes,
            growable: self.growable,
            keeps_empty: self.keeps_empty,
            predicate: Arc::clone(&self.predicate),
            columns,
            size_bytes: structure.size_bytes() + chunks.iter().map(|chunk| chunk.size_bytes()).sum::<u64>(),
            chunks,
            is_lazy: self.is_lazy,
            positions: self.positions.clone(),
            // It has no rows to be laid out.
            map: None,
            head: self.head,
            borders: Arc::clone(&self.borders),
            layout: self.layout,
            morsel_ends: self.morsel_ends.clone(),
            row_count: self.row_count,
            record_count: self.record_count,
            skipped_count: self.skipped_count,
            meters: self.meters.snapshot(),
            shape: self.shape,
            widths_bytes,
            layouts: Mutex::default(),
            is_converting: AtomicBool::new(false),
            mirror: Arc::default(),
            may_share: AtomicBool::new(self.may_share.load(Ordering::Relaxed)),
            structure,
        }
    }

    /// Its number.
    pub fn id(&self) -> ItemId {
        self.id
    }

    /// What it is a result of.
    pub fn source(&self) -> &SourceKey {
        &self.source
    }

    /// The file's generation that it belongs to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// It holds the rows of the file's bytes `[0, end_bytes)`, or of the first records of these.
    pub fn end_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Every row of that prefix that satisfies this is here, and no other.
    pub fn predicate(&self) -> &Arc<Conjunction> {
        &self.predicate
    }

    /// The columns of its rows.
    pub fn columns(&self) -> &Arc<[ColumnSpec]> {
        &self.columns
    }

    /// How the rows lie in memory: as most of its chunks have them.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// All that it holds, in file order.
    pub fn pieces(&self) -> Vec<Piece> {
        let pieces_of =
            |(chunk, content): (usize, &Content)| content.pieces().into_iter().map(move |range| Piece { chunk, range });
        self.chunks.iter().map(|chunk| chunk.content()).enumerate().flat_map(pieces_of).collect()
    }

    /// Cuts what a query wants out of a piece, and adds what that took and did: nothing where its chunk is known to have
    /// no such values.
    ///
    /// # Errors
    /// A piece or a cut of another item; Arrow's limits.
    pub fn read(
        &self,
        piece: &Piece,
        cut: &Cut,
        clock: &dyn Clock,
        reading: &mut Reading,
    ) -> Result<CutPieces, ArrowError> {
        let other = || ArrowError::InvalidArgumentError("a piece of another item".to_owned());
        let chunk = self.chunks.get(piece.chunk).ok_or_else(other)?;
        if cut.asks_for_none_of(chunk) {
            reading.passed_over_count += 1;
            return Ok(CutPieces::none());
        }
        cut.read(chunk.content(), piece.range.clone(), clock, reading)
    }

    /// Rows in all chunks.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Records that were read to make it.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    /// About the bytes of a record of its file; 0 where it is not known, for those at its positions alone were read to
    /// make it.
    pub(crate) fn record_bytes(&self) -> u64 {
        let position_count = self.positions.as_ref().map_or(0, |positions| positions.len() as u64);
        if self.record_count > position_count { self.end_bytes / self.record_count } else { 0 }
    }

    /// Bad records that were left out when it was made.
    pub fn skipped_count(&self) -> u64 {
        self.skipped_count
    }

    /// Reserved bytes: chunks and structure.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How the columns at `outputs` are cut out of its chunks' rows, of those that pass `residual`. None when it lacks
    /// one.
    pub fn cut(&self, view: View, residual: &Conjunction, outputs: &[FieldPath]) -> Option<Cut> {
        Cut::new(&self.columns, self.source.unnest.as_ref(), view, residual, outputs)
    }

    /// Its columns; of a map the fields, without their types.
    pub(crate) fn listed_columns(&self) -> Arc<[ColumnSpec]> {
        match &self.map {
            None => Arc::clone(&self.columns),
            Some(kept) => {
                let fields = kept.map.paths();
                fields.map(|path| ColumnSpec { path: path.clone(), data_type: DataType::Null }).collect()
            }
        }
    }

    pub(crate) fn measurements(&self) -> ItemMeasurements {
        ItemMeasurements {
            id: self.id.0,
            kind: self.source.kind,
            use_count: self.meters.use_count.load(Ordering::Relaxed),
            execute_ns: self.meters.execute_ns.load(Ordering::Relaxed),
            cache_ns: self.meters.cache_ns.load(Ordering::Relaxed),
            reuse_scan_ns: self
                .meters
                .reuse_scan_ns()
                .unwrap_or_else(|| self.meters.predicted_scan_ns(self.size_bytes)),
            lookup_ns: self.meters.lookup_ns(),
            size_bytes: self.own_bytes(),
            baseline: f64::from_bits(self.meters.baseline_bits.load(Ordering::Relaxed)),
            last_use: self.meters.used_tick.load(Ordering::Relaxed),
        }
    }

    /// Whether it has rows of whatever range is asked for: all of the file's, or of its head.
    pub(crate) fn keeps_all_ranges(&self) -> bool {
        self.predicate.is_all() && self.map.is_none() && !self.is_lazy
    }

    /// Of the scans that made it the longest: about what a query is spared.
    pub(crate) fn longest_scan_ns(&self) -> u64 {
        match self.meters.longest_scan_ns.load(Ordering::Relaxed) {
            0 => self.meters.execute_ns.load(Ordering::Relaxed),
            longest_ns => longest_ns,
        }
    }

    pub(crate) fn record_use(&self, tick: u64, lookup_ns: u64, baseline: f64) {
        self.meters.use_count.fetch_add(1, Ordering::Relaxed);
        self.meters.lookup_total_ns.fetch_add(lookup_ns, Ordering::Relaxed);
        self.meters.used_tick.store(tick, Ordering::Relaxed);
        self.meters.baseline_bits.store(baseline.to_bits(), Ordering::Relaxed);
    }

    /// Notes the time it took to scan it all, nanoseconds over all threads.
    pub(crate) fn record_reuse(&self, reuse_scan_ns: u64) {
        self.meters.reuse_total_ns.fetch_add(reuse_scan_ns, Ordering::Relaxed);
        self.meters.reuse_report_count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A row of the table `thermocline.cache_items`.
#[derive(Debug, Clone)]
pub struct ItemSummary {
    /// Number of the item.
    pub id: ItemId,
    /// What it is a result of.
    pub source: SourceKey,
    /// Its predicate.
    pub predicate: Arc<Conjunction>,
    /// Its columns.
    pub columns: Arc<[ColumnSpec]>,
    /// It covers the file's bytes `[0, end_bytes)`.
    pub end_bytes: u64,
    /// The file's size when it was made.
    pub file_bytes: u64,
    /// Rows held.
    pub row_count: u64,
    /// Whether it holds the positions of its records instead of rows.
    pub is_lazy: bool,
    /// Whether it holds a positional map of the file instead of rows; its columns are then the fields that the map
    /// knows, without their types.
    pub is_map: bool,
    /// How its rows lie in memory.
    pub layout: Layout,
    /// The second layout that they are held in while nobody needs the memory.
    pub mirror_layout: Option<Layout>,
    /// Bytes that this takes beside the item's own.
    pub mirror_bytes: u64,
    /// Chunks held.
    pub chunk_count: u64,
    /// Reserved bytes that go with it: without the columns that other items hold too.
    pub size_bytes: u64,
    /// n: uses, the one that made it included.
    pub use_count: u64,
    /// t: reading, parsing and filtering, nanoseconds over all threads.
    pub execute_ns: u64,
    /// c: reserving and merging, nanoseconds.
    pub cache_ns: u64,
    /// s: scanning it when reused, mean, nanoseconds; 0 until a reader reported.
    pub reuse_scan_ns: u64,
    /// l: finding it, mean, nanoseconds.
    pub lookup_ns: u64,
    /// Query time it is still expected to save, seconds.
    pub worth_s: f64,
    /// The eviction policy's score, in its own unit; the least goes first.
    pub score: f64,
}
