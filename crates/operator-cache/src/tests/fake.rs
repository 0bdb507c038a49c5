//! A file that exists in the test alone: row `i` has `b = i`, `a` a hash of it below 1000, and a struct `s` with a
//! nullable child `z` (NULL where `a` is a multiple of 7; the struct itself is NULL where it is one of 11). Where its
//! list `l` is unnested, record `i` has `i % 4` elements, whose `e` is ten times `i` plus their number; `n` is NULL where
//! that is a multiple of 3, and the struct `o` where it is one of 5. Records and elements have a text `t` of a few.

use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Fields};
use futures::FutureExt;
use parking_lot::Mutex;
use thermocline_budget::Budget;
use thermocline_hardware::{Clock, ManualClock};
use thermocline_medium::{FileVersion, Stamp};
use thermocline_narrow::widen;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_raw::RecordPositions;

use crate::*;

pub(super) const RECORD_BYTES: u64 = 10;

pub(super) fn a_of(row: u64) -> i64 {
    ((row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 1000) as i64
}

pub(super) struct Fake {
    pub(super) morsel_records: u64,
    /// Polls that a fetch needs; 0 for a source without fetches.
    pub(super) fetch_polls: u64,
    pub(super) fail_at: Option<u64>,
    pub(super) panic_at: Option<u64>,
    /// Values that can't be read: of this column in this record.
    pub(super) bad_values: Mutex<Vec<(&'static str, u64)>>,
    pub(super) number_gap_at: Option<u64>,
    pub(super) finish_fails: AtomicBool,
    pub(super) growable: bool,
    /// Whether the list is unnested.
    pub(super) unnests: bool,
    /// A morsel that gives no positions.
    pub(super) no_positions_at: Option<u64>,
    pub(super) decode_counts: Mutex<HashMap<u64, u64>>,
    pub(super) open_count: AtomicU64,
    /// A record that is not there, though its bytes are.
    pub(super) lacks_record: Option<u64>,
    pub(super) specs: Mutex<Vec<ScanSpec>>,
    /// Called within the source, where another thread might do something.
    pub(super) interrupt: Mutex<Option<Interrupt>>,
}

/// Where a source can be interrupted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Seam {
    Claim,
    Decode,
    /// A bad value was found.
    Bad,
    Finish,
}

pub(super) type Interrupt = Box<dyn FnMut(Seam) + Send>;

impl Default for Fake {
    fn default() -> Self {
        Self {
            morsel_records: 16,
            fetch_polls: 0,
            fail_at: None,
            panic_at: None,
            bad_values: Mutex::default(),
            number_gap_at: None,
            finish_fails: AtomicBool::new(false),
            growable: true,
            unnests: false,
            no_positions_at: None,
            decode_counts: Mutex::default(),
            open_count: AtomicU64::new(0),
            lacks_record: None,
            specs: Mutex::default(),
            interrupt: Mutex::default(),
        }
    }
}

impl Fake {
    pub(super) fn factory(self: &Arc<Self>) -> SourceFactory {
        let fake = Arc::clone(self);
        Arc::new(move |spec| {
            fake.open_count.fetch_add(1, Ordering::Relaxed);
            fake.specs.lock().push(spec.clone());
            Ok(Arc::new(FakeSource { fake: Arc::clone(&fake), spec: spec.clone(), next: AtomicU64::new(0) }))
        })
    }

    fn interrupt(&self, seam: Seam) {
        // Taken out meanwhile, for it may itself lead here.
        let interrupt = self.interrupt.lock().take();
        if let Some(mut interrupt) = interrupt {
            interrupt(seam);
            *self.interrupt.lock() = Some(interrupt);
        }
    }

    pub(super) fn most_decodes(&self) -> u64 {
        self.decode_counts.lock().values().copied().max().unwrap_or(0)
    }
}

struct FakeSource {
    fake: Arc<Fake>,
    spec: ScanSpec,
    next: AtomicU64,
}

impl MorselSource for FakeSource {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        self.fake.interrupt(Seam::Claim);
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(positions) = &self.spec.positions {
            return Ok(self.morsel_of(positions, index));
        }
        let morsel_bytes = self.fake.morsel_records * RECORD_BYTES;
        let first_bytes = self.spec.head.map_or(self.spec.start_bytes, |head| head.end_bytes);
        let start_bytes = first_bytes + index * morsel_bytes;
        if start_bytes >= self.spec.end_bytes {
            return Ok(None);
        }
        let skewed = self.fake.number_gap_at.is_some_and(|at| index >= at);
        let end_bytes = (start_bytes + morsel_bytes).min(self.spec.end_bytes);
        Ok(Some(Morsel {
            index: index + u64::from(skewed),
            start_bytes,
            end_bytes,
            head_end_bytes: end_bytes,
            payload: None,
        }))
    }

    fn fetch(self: Arc<Self>, morsel: Morsel) -> Fetch {
        let mut polls_left = self.fake.fetch_polls;
        if polls_left == 0 {
            return Fetch::Ready(morsel);
        }
        let mut morsel = Some(morsel);
        Fetch::Pending(
            poll_fn(move |context| {
                polls_left = polls_left.saturating_sub(1);
                if polls_left > 0 {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let mut morsel = morsel.take().unwrap();
                morsel.payload = Some(Box::new("fetched"));
                Poll::Ready(Ok(morsel))
            })
            .boxed(),
        )
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        assert_eq!(morsel.payload.is_some(), self.fake.fetch_polls > 0, "decoded without being fetched");
        self.fake.interrupt(Seam::Decode);
        *self.fake.decode_counts.lock().entry(morsel.start_bytes).or_default() += 1;
        if self.fake.fail_at == Some(morsel.index) {
            return Err(format!("bad record in morsel {}", morsel.index).into());
        }
        assert_ne!(self.fake.panic_at, Some(morsel.index), "told to");
        let within = morsel.start_bytes..morsel.end_bytes;
        let records: Vec<u64> = match &self.spec.positions {
            Some(positions) => positions.iter().filter(|at| within.contains(at)).map(|at| at / RECORD_BYTES).collect(),
            None => (morsel.start_bytes / RECORD_BYTES..morsel.end_bytes / RECORD_BYTES).collect(),
        };
        let records: Vec<u64> = records.into_iter().filter(|record| self.fake.lacks_record != Some(*record)).collect();
        self.check_values(&records)?;
        let record_count = records.len() as u64;
        let notes = self.spec.notes_positions && self.fake.no_positions_at != Some(morsel.index);
        if self.fake.unnests {
            let (rows, kept) = self.decode_elements(&records);
            let positions = notes.then(|| kept.into_iter().map(|record| record * RECORD_BYTES).collect());
            return Ok(Rows { positions, ..rows });
        }
        let columns: Vec<ArrayRef> = self.spec.columns.iter().map(|spec| column(&records, &spec.path)).collect();
        let fields: HashMap<FieldPath, ArrayRef> =
            self.spec.predicate.fields().map(|(path, _)| (path.clone(), column(&records, path))).collect();
        let passing = self.spec.predicate.evaluate(record_count as usize, &|path| fields.get(path).cloned())?;
        let passes = |index: usize| passing.as_ref().is_none_or(|passing| passing.value(index));
        let positions = notes.then(|| {
            let kept = records.iter().enumerate().filter(|(index, _)| passes(*index));
            kept.map(|(_, record)| record * RECORD_BYTES).collect()
        });
        let (columns, row_count) = match passing {
            None => (columns, record_count as usize),
            Some(passing) => {
                let kept = columns.iter().map(|column| filter(column, &passing)).collect::<Result<Vec<_>, _>>()?;
                (kept, passing.true_count())
            }
        };
        Ok(Rows { columns, elements: None, row_count, record_count, skipped_count: 1, positions, map_piece: None })
    }

    fn total_bytes(&self) -> u64 {
        self.spec.end_bytes - self.spec.start_bytes
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        self.fake.interrupt(Seam::Finish);
        if self.fake.finish_fails.load(Ordering::Relaxed) {
            return Err("the file changed while it was read".into());
        }
        Ok(SourceEnd { covered_end_bytes: self.fake.growable.then_some(self.spec.end_bytes), ..SourceEnd::default() })
    }
}

impl FakeSource {
    /// Fails if a column has a bad value in one of `records` that passes.
    fn check_values(&self, records: &[u64]) -> Result<(), SourceError> {
        let passes = |record| {
            self.passes("a", a_of(record))
                && (!self.fake.unnests || self.spec.keeps_empty || elements_of(record).any(|e| self.passes("l.e", e)))
        };
        let bad_values = self.fake.bad_values.lock().clone();
        let mut read = bad_values.iter().filter(|(name, record)| {
            self.spec.columns.iter().any(|column| path(name).starts_with(&column.path))
                && records.contains(record)
                && passes(*record)
        });
        let Some((name, record)) = read.next() else { return Ok(()) };
        self.fake.interrupt(Seam::Bad);
        Err(format!("bad {name} in record {record}").into())
    }

    fn passes(&self, name: &str, value: i64) -> bool {
        self.spec.predicate.domain(&path(name)).is_none_or(|domain| domain.contains_int(value.into()))
    }

    /// The `index`th sixteen, or whatever makes a morsel, of positions.
    fn morsel_of(&self, positions: &RecordPositions, index: u64) -> Option<Morsel> {
        let count = self.fake.morsel_records as usize;
        let mut offsets = positions.iter().skip(index as usize * count);
        let start_bytes = offsets.next()?;
        let end_bytes = offsets.nth(count - 1).unwrap_or(self.spec.end_bytes);
        Some(Morsel { index, start_bytes, end_bytes, head_end_bytes: end_bytes, payload: None })
    }

    /// Those of `records` with elements that pass, and which these are.
    fn decode_elements(&self, read: &[u64]) -> (Rows, Vec<u64>) {
        let (record_count, list) = (read.len() as u64, path("l"));
        let (mut records, mut elements, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        for record in read.iter().copied().filter(|&record| self.passes("a", a_of(record))) {
            let before = elements.len();
            elements.extend(elements_of(record).filter(|&element| self.passes("l.e", element)));
            if elements.len() > before || self.spec.keeps_empty {
                records.push(record);
                offsets.push(elements.len() as i32);
            }
        }
        let is_element = element_columns(&self.spec.columns, &list);
        let columns = self.spec.columns.iter().map(|spec| match spec.path.starts_with(&list) {
            true => element_column(&elements, &spec.path),
            false => column(&records, &spec.path),
        });
        let rows = Rows {
            columns: columns.collect(),
            elements: Some(Elements { offsets: OffsetBuffer::new(offsets.into()), is_element }),
            row_count: elements.len(),
            record_count,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        };
        (rows, records)
    }
}

/// Texts that tell numbers apart by their remainder.
fn text(numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    let texts = numbers.map(|number| number.map(|number| format!("text {}", number % TEXTS)));
    Arc::new(texts.collect::<arrow::array::StringArray>())
}

pub(super) const TEXTS: i64 = 17;

/// The number in the `t` of a record; NULL where `a` is a multiple of 7.
pub(super) fn t_of(record: u64) -> Option<i64> {
    (a_of(record) % 7 != 0).then_some(a_of(record) % TEXTS)
}

/// The `n` of the element with this `e`.
pub(super) fn n_of(e: i64) -> Option<i64> {
    (e % 3 != 0).then_some(e * 3)
}

/// The `o` of the element with this `e`, and its `m`.
pub(super) fn o_of(e: i64) -> Option<Option<i64>> {
    (e % 5 != 0).then(|| (e % 2 != 0).then_some(e + 1))
}

fn element_column(elements: &[i64], path: &FieldPath) -> ArrayRef {
    let elements = elements.iter().copied();
    match path.to_string().as_str() {
        "l.e" => Arc::new(elements.map(Some).collect::<Int64Array>()),
        "l.n" => Arc::new(elements.map(n_of).collect::<Int64Array>()),
        "l.t" => text(elements.map(Some)),
        "l.o" => {
            let nulls: NullBuffer = elements.clone().map(|e| o_of(e).is_some()).collect();
            let m: Int64Array = elements.map(|e| o_of(e).flatten()).collect();
            Arc::new(StructArray::new(o_fields(), vec![Arc::new(m)], Some(nulls)))
        }
        other => panic!("no column {other}"),
    }
}

pub(super) fn o_fields() -> Fields {
    Fields::from(vec![Field::new("m", DataType::Int64, true)])
}

pub(super) fn elements_of(record: u64) -> impl Iterator<Item = i64> {
    (0..record % 4).map(move |element| (record * 10 + element) as i64)
}

fn column(records: &[u64], path: &FieldPath) -> ArrayRef {
    let rows = records.iter().copied();
    let z = || -> Int64Array { rows.clone().map(|row| (a_of(row) % 7 != 0).then_some(a_of(row) * 2)).collect() };
    match path.to_string().as_str() {
        "a" => Arc::new(rows.map(a_of).map(Some).collect::<Int64Array>()),
        "b" => Arc::new(rows.map(|row| Some(row as i64)).collect::<Int64Array>()),
        "s" => {
            let nulls: NullBuffer = rows.clone().map(|row| a_of(row) % 11 != 0).collect();
            Arc::new(StructArray::new(s_fields(), vec![Arc::new(z())], Some(nulls)))
        }
        "s.z" => Arc::new(
            z().iter().zip(rows.clone()).map(|(z, row)| z.filter(|_| a_of(row) % 11 != 0)).collect::<Int64Array>(),
        ),
        "t" => text(rows.map(|row| t_of(row).map(|_| a_of(row)))),
        // Wider and wider.
        "v" => Arc::new(arrow::array::StringArray::from_iter_values(
            rows.map(|row| format!("{row:0>width$}", width = 10 + row as usize / 1000)),
        )),
        "w" => Arc::new(arrow::array::StringArray::from_iter_values(rows.map(|row| format!("{row:0>1000}")))),
        other => panic!("no column {other}"),
    }
}

pub(super) fn s_fields() -> Fields {
    Fields::from(vec![Field::new("z", DataType::Int64, true)])
}

pub(super) fn path(text: &str) -> FieldPath {
    FieldPath::new(text.split('.'))
}

pub(super) fn columns(names: &[&str]) -> Arc<[ColumnSpec]> {
    names
        .iter()
        .map(|name| ColumnSpec {
            path: path(name),
            data_type: match *name {
                "s" => DataType::Struct(s_fields()),
                "l.o" => DataType::Struct(o_fields()),
                "v" | "w" | "t" | "l.t" => DataType::Utf8,
                _ => DataType::Int64,
            },
        })
        .collect()
}

/// `low <= a <= high`
pub(super) fn between(low: i64, high: i64) -> Arc<Conjunction> {
    let bound = |value: i64| Bound::Included(Scalar::Int(value.into()));
    Arc::new(Conjunction::all().and(path("a"), Domain::interval(bound(low), bound(high))))
}

pub(super) fn source(name: &str) -> SourceKey {
    SourceKey { path: Arc::from(name), kind: SourceKind::Json, options: Arc::from("fake"), unnest: None }
}

pub(super) fn request(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    SelectRequest {
        source: source("f"),
        columns: columns(names),
        predicate: Arc::clone(predicate),
        retain_predicate: Arc::clone(predicate),
        retain_columns: columns(names),
        further_columns: Arc::default(),
        retain_expectation: Expectation::default(),
        may_wait: false,
        may_skip: false,
        can_seek: true,
        can_part: true,
        can_map: true,
    }
}

/// An object of this content and length; equal tags are equal contents.
pub(super) fn object(name: &str, tag: &str, record_count: u64) -> FileVersion {
    FileVersion {
        path: Arc::from(name),
        size_bytes: record_count * RECORD_BYTES,
        stamp: Stamp::Object { etag: Some(Arc::from(tag)), last_modified_ns: 0 },
    }
}

pub(super) fn cache(limit_bytes: u64) -> (Arc<OperatorCache>, Budget) {
    let budget = Budget::new(limit_bytes, None);
    let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(ManualClock::new(0)));
    (cache, budget)
}

pub(super) fn told(cache: &OperatorCache, mode: AdmissionMode) {
    cache.set_admission_rule(AdmissionRule { mode, ..AdmissionRule::default() });
}

pub(super) fn pin(cache: &OperatorCache, version: &FileVersion) -> PinnedSource {
    cache.pin(OpenedFile::Remote(version), AppendPolicy::Verify).unwrap()
}

/// The `b` of rows that pass the residual, of rows with the given columns.
pub(super) fn surviving(rows: &Rows, columns: &[ColumnSpec], residual: &Conjunction) -> Vec<i64> {
    let find = |path: &FieldPath| ColumnRoute::find(columns, path)?.extract(rows);
    let b = find(&path("b")).unwrap();
    let passing = residual.evaluate(rows.row_count, &find).unwrap();
    let b = passing.map_or(Arc::clone(&b), |passing| filter(&b, &passing).unwrap());
    longs(&b).values().to_vec()
}

/// Numbers in whichever form; of texts the numbers in them.
pub(super) fn longs(array: &ArrayRef) -> Int64Array {
    if let Ok(texts) = widen(array, &DataType::Utf8) {
        return texts.as_string::<i32>().iter().map(|text| text?.strip_prefix("text ")?.parse().ok()).collect();
    }
    widen(array, &DataType::Int64).unwrap().as_primitive().clone()
}

/// The `b` of rows that were delivered to a participant who asked for columns and a predicate.
pub(super) fn delivered(participant: &Participant, rows: &Delivered) -> Vec<i64> {
    let (columns, residual) = match rows.is_own {
        true => (&participant.asked.columns, &Conjunction::all()),
        false => (participant.columns(), participant.residual()),
    };
    surviving(rows.rows(), columns, residual)
}

pub(super) fn expected(record_count: u64, predicate: &Conjunction) -> Vec<i64> {
    let domain = predicate.domain(&path("a"));
    (0..record_count)
        .filter(|&row| domain.is_none_or(|domain| domain.contains_int(a_of(row).into())))
        .map(|row| row as i64)
        .collect()
}

/// What a hit delivers, in file order.
pub(super) fn read(item: &Item, residual: &Conjunction) -> Vec<i64> {
    let cut = as_kept_at_times(item.cut(View::Elements, residual, &[path("b")]).unwrap(), item.row_count());
    let (clock, mut reading) = (ManualClock::new(0), Reading::default());
    let pieces = item.pieces().into_iter();
    let b = pieces.flat_map(|piece| item.read(&piece, &cut, &clock, &mut reading).unwrap()).flat_map(|rows| {
        let CutRows { columns, row_count, selected } = rows.unwrap();
        let b = longs(&columns[0]).values().to_vec();
        assert_eq!(b.len(), row_count);
        let is_selected = move |row: usize| selected.as_ref().is_none_or(|selected| selected.value(row));
        b.into_iter().enumerate().filter(move |(row, _)| is_selected(*row)).map(|(_, b)| b)
    });
    b.collect()
}

/// The cut, which leaves rows as they are kept if `number` is odd.
pub(super) fn as_kept_at_times(cut: Cut, number: u64) -> Cut {
    if number % 2 == 1 { cut.as_kept() } else { cut }
}

/// Runs a request to its end on this thread, with as many streams; sorted.
pub(super) fn answer(start: Start, stream_count: usize) -> Result<Vec<i64>, CacheError> {
    let mut found = match start {
        Start::Hit { item, residual, .. } => read(&item, &residual),
        Start::Combine { parts, remainder } => {
            let mut found: Vec<i64> = parts.iter().flat_map(|part| read(&part.item, &part.residual)).collect();
            if let Some(participant) = remainder {
                found.extend(drain(&participant, stream_count)?);
            }
            found
        }
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => drain(&participant, stream_count)?,
    };
    found.sort_unstable();
    Ok(found)
}

fn drain(participant: &Arc<Participant>, stream_count: usize) -> Result<Vec<i64>, CacheError> {
    let streams = futures::stream::select_all((0..stream_count).map(|_| participant.stream()));
    let mut found = Vec::new();
    for rows in futures::executor::block_on_stream(streams) {
        found.extend(delivered(participant, &rows?));
    }
    Ok(found)
}

/// A clock that moves by 10 microseconds whenever somebody looks: what is done takes time, the same in every run.
#[derive(Debug, Default)]
pub(super) struct SteppingClock(AtomicU64);

impl Clock for SteppingClock {
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(10_000, Ordering::Relaxed)
    }

    fn wall_ns(&self) -> i64 {
        0
    }
}

/// A cache whose scans take time, and keep rows although as much passes while they are kept.
pub(super) fn timed_cache(limit_bytes: u64) -> (Arc<OperatorCache>, Budget) {
    let budget = Budget::new(limit_bytes, None);
    let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(SteppingClock::default()));
    told(&cache, AdmissionMode::Eager);
    (cache, budget)
}

/// Runs `work` on threads of its own; a test that hangs fails and names its seed.
pub(super) fn within_a_minute(seed: u64, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match waiting.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => {}
        Err(error) => panic!("seed {seed}: {error}"),
    }
}
