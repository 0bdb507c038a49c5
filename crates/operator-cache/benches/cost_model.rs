//! How far the costs that the layouts' model predicts are from those measured (Figure 7 of ReCache, PVLDB 2017, §4.2:
//! within 10 % for 90 % of queries, within 30 % for 98 %).
//!
//! Nested orders in each layout are asked the same queries; what the cache predicted of each for every layout, before
//! it had measured it, is held against what it took there. Rows are the layouts that readings were learned from. The
//! last line is the floor: a second pass against the first.
//!
//! `cargo bench -p thermocline-operator-cache --bench cost_model [-- RECORDS [QUERIES]]`
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int64Type};
use thermocline_budget::Budget;
use thermocline_hardware::SystemClock;
use thermocline_medium::{FileVersion, Stamp};
use thermocline_operator_cache::*;
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::prediction_error::ErrorSummary;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn unit(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }
}

/// What the values of a column are.
#[derive(Clone, Copy)]
enum Values {
    /// Numbers in the order of records.
    Ascending,
    /// Whole numbers below this, at random.
    Whole(u64),
    /// Fractions between 0 and 1, at random.
    Fraction,
    /// One of a few texts of ten bytes or so.
    Text,
}

/// Path, and values.
const COLUMNS: [(&str, Values); 12] = [
    ("orderkey", Values::Ascending),
    ("custkey", Values::Whole(150_000)),
    ("shippriority", Values::Whole(1)),
    ("totalprice", Values::Fraction),
    ("orderstatus", Values::Text),
    ("lineitems.orderkey", Values::Ascending),
    ("lineitems.partkey", Values::Whole(200_000)),
    ("lineitems.quantity", Values::Whole(50)),
    ("lineitems.extendedprice", Values::Fraction),
    ("lineitems.discount", Values::Fraction),
    ("lineitems.tax", Values::Fraction),
    ("lineitems.shipmode", Values::Text),
];
const RECORD_COLUMNS: usize = 5;
const MORSEL_RECORDS: u64 = 50_000;

fn path(name: &str) -> FieldPath {
    FieldPath::new(name.split('.'))
}

fn columns() -> Arc<[ColumnSpec]> {
    let of = |(name, values): &(&str, Values)| {
        let data_type = match values {
            Values::Ascending | Values::Whole(_) => DataType::Int64,
            Values::Fraction => DataType::Float64,
            Values::Text => DataType::Utf8,
        };
        ColumnSpec { path: path(name), data_type }
    };
    COLUMNS.iter().map(of).collect()
}

/// Orders of one to seven lineitems each.
struct Orders {
    record_count: u64,
    next: AtomicU64,
}

impl MorselSource for Orders {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let start_bytes = index * MORSEL_RECORDS;
        let end_bytes = (start_bytes + MORSEL_RECORDS).min(self.record_count);
        Ok((start_bytes < end_bytes).then_some(Morsel {
            index,
            start_bytes,
            end_bytes,
            head_end_bytes: end_bytes,
            payload: None,
        }))
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (morsel.index + 1));
        let keys: Vec<u64> = (morsel.start_bytes..morsel.end_bytes).collect();
        let lengths: Vec<usize> = keys.iter().map(|_| 1 + random.below(7) as usize).collect();
        let repeated: Vec<u64> =
            keys.iter().zip(&lengths).flat_map(|(key, length)| std::iter::repeat_n(*key, *length)).collect();
        let columns = COLUMNS.iter().enumerate().map(|(index, (_, values))| {
            let keys = if index < RECORD_COLUMNS { &keys } else { &repeated };
            let column: ArrayRef = match values {
                Values::Ascending => Arc::new(keys.iter().map(|key| *key as i64).collect::<Int64Array>()),
                Values::Whole(end) => Arc::new(keys.iter().map(|_| random.below(*end) as i64).collect::<Int64Array>()),
                Values::Fraction => Arc::new(keys.iter().map(|_| random.unit()).collect::<Float64Array>()),
                Values::Text => {
                    let texts = ["REG AIR", "TRUCK", "DELIVER IN PERSON", "MAIL"];
                    Arc::new(keys.iter().map(|_| Some(texts[random.below(4) as usize])).collect::<StringArray>())
                }
            };
            column
        });
        Ok(Rows {
            columns: columns.collect(),
            elements: Some(Elements {
                offsets: OffsetBuffer::from_lengths(lengths.iter().copied()),
                is_element: element_columns(&self::columns(), &path("lineitems")),
            }),
            row_count: repeated.len(),
            record_count: keys.len() as u64,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    }

    fn total_bytes(&self) -> u64 {
        self.record_count
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        Ok(SourceEnd { covered_end_bytes: Some(self.record_count), ..SourceEnd::default() })
    }
}

/// One to three columns of those that match one or two ranges.
struct Query {
    reads_elements: bool,
    outputs: Vec<FieldPath>,
    residual: Conjunction,
}

impl Query {
    fn random(random: &mut Random, record_count: u64, with_text: bool) -> Self {
        let pool = if random.below(2) == 0 { 0..COLUMNS.len() } else { 0..RECORD_COLUMNS };
        let is_text = |index: usize| matches!(COLUMNS[index].1, Values::Text);
        let pool: Vec<usize> = pool.filter(|index| with_text || !is_text(*index)).collect();
        let numbers: Vec<usize> = pool.iter().copied().filter(|index| !is_text(*index)).collect();
        let drawn = |random: &mut Random, pool: &[usize], most: u64| -> Vec<usize> {
            (0..1 + random.below(most)).map(|_| pool[random.below(pool.len() as u64) as usize]).collect()
        };
        let (mut outputs, mut ranged) = (drawn(random, &pool, 3), drawn(random, &numbers, 2));
        for drawn in [&mut outputs, &mut ranged] {
            drawn.sort_unstable();
            drawn.dedup();
        }
        let mut residual = Conjunction::all();
        for index in &ranged {
            let (a, b) = (random.unit(), random.unit());
            let bounds = [a.min(b), a.max(b)].map(|share| match COLUMNS[*index].1 {
                Values::Ascending => Scalar::Int((share * record_count as f64) as i128),
                Values::Whole(end) => Scalar::Int((share * end as f64) as i128),
                _ => Scalar::Float(share),
            });
            let [low, high] = bounds.map(Bound::Included);
            residual = residual.and(path(COLUMNS[*index].0), Domain::interval(low, high));
        }
        Self {
            reads_elements: outputs.iter().chain(&ranged).any(|index| *index >= RECORD_COLUMNS),
            outputs: outputs.iter().map(|index| path(COLUMNS[*index].0)).collect(),
            residual,
        }
    }
}

/// What a query took in a layout, and was predicted to take in each; nanoseconds.
struct Measured {
    reads_elements: bool,
    took_ns: f64,
    predicted_ns: [f64; 4],
}

/// The orders in a layout.
fn filled(record_count: u64, layout: Layout) -> (Arc<OperatorCache>, Arc<Item>) {
    let budget = Budget::new(8 << 30, None);
    let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(SystemClock::new()));
    cache.set_layout_rule(LayoutRule::Fixed(layout));
    let version = FileVersion {
        path: "s3://bench/orders".into(),
        size_bytes: record_count,
        stamp: Stamp::Object { etag: Some("1".into()), last_modified_ns: 0 },
    };
    let pinned = cache.pin(OpenedFile::Remote(&version), AppendPolicy::Verify).expect("an object needs no check");
    let factory: SourceFactory = Arc::new(move |_| Ok(Arc::new(Orders { record_count, next: AtomicU64::new(0) })));
    let everything = Arc::new(Conjunction::all());
    let request = SelectRequest {
        source: SourceKey {
            path: Arc::clone(&version.path),
            kind: SourceKind::Json,
            options: "".into(),
            unnest: Some(path("lineitems")),
        },
        columns: columns(),
        predicate: Arc::clone(&everything),
        retain_predicate: everything,
        retain_columns: columns(),
        further_columns: Arc::default(),
        retain_expectation: Expectation::default(),
        may_wait: false,
        may_skip: false,
        can_seek: false,
        can_part: false,
        can_map: false,
    };
    loop {
        match cache.begin(&request, &pinned, true, Arc::clone(&factory)) {
            Start::Hit { item, .. } if item.layout() == layout => return (cache, item),
            Start::Hit { item, view, residual, .. } => {
                let cut = item.cut(view, &residual, &[path("lineitems.tax")]).expect("a column of the item");
                let conversion = cache.finish_reading(&item, item.layout(), &cut, &Reading::default());
                cache.convert(conversion.expect("the item has another layout than the rule's"));
            }
            Start::Scan(participant) => {
                for rows in futures::executor::block_on_stream(participant.stream()) {
                    rows.expect("orders");
                }
            }
            Start::Combine { .. } | Start::Wait(_) => unreachable!("there is one item at most, and one query"),
        }
    }
}

/// Asks all queries of the item in turn.
fn asked(cache: &Arc<OperatorCache>, item: &Arc<Item>, queries: &[Query]) -> Vec<Measured> {
    let clock = SystemClock::new();
    let ask = |query: &Query| {
        let view = if query.reads_elements { View::Elements } else { View::Records };
        let cut = item.cut(view, &query.residual, &query.outputs).expect("columns of the item");
        let mut reading = Reading::default();
        let mut sum = 0;
        for piece in item.pieces() {
            for rows in item.read(&piece, &cut, &clock, &mut reading).expect("a piece of the item") {
                // Whoever asked looks at the values.
                for column in &rows.expect("rows of the piece").columns {
                    let numbers = column.as_primitive_opt::<Int64Type>();
                    sum += numbers.map_or(0, |numbers| numbers.values().iter().fold(0_i64, |sum, value| sum ^ value));
                }
            }
        }
        std::hint::black_box(sum);
        cache.finish_reading(item, item.layout(), &cut, &reading);
        let decisions = cache.decisions();
        let numbers = &decisions.last().expect("a reading is a decision").numbers;
        let number = |name: &str| numbers.iter().find(|(of, _)| *of == name).expect("a number of a reading").1;
        Measured {
            reads_elements: query.reads_elements,
            took_ns: number("data_ns") + number("compute_ns"),
            predicted_ns: Layout::ALL.map(|layout| number(&format!("{layout}_ns"))),
        }
    };
    queries.iter().map(ask).collect()
}

fn shares(errors: &ErrorSummary) -> String {
    let [within_10, within_30] = [errors.share_within_10_percent(), errors.share_within_30_percent()];
    format!("{:>9.0} /{:>3.0} %", within_10 * 100.0, within_30 * 100.0)
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let record_count = numbers.first().copied().unwrap_or(500_000);
    let query_count = numbers.get(1).copied().unwrap_or(300);
    for with_text in [false, true] {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let queries: Vec<Query> =
            (0..query_count).map(|_| Query::random(&mut random, record_count, with_text)).collect();
        let mut passes: Vec<[Vec<Measured>; 2]> = Vec::new();
        for layout in Layout::ALL {
            let (cache, item) = filled(record_count, layout);
            passes.push([0; 2].map(|_| asked(&cache, &item, &queries)));
        }
        let columns = if with_text { "numbers and texts" } else { "numbers" };
        for reads_elements in [true, false] {
            let rows = if reads_elements { "elements" } else { "records" };
            println!("{query_count} queries of {record_count} orders, {columns}; those on {rows}, within 10 % / 30 %");
            println!("{:<12}{}", "read in", Layout::ALL.map(|layout| format!("{:>16}", layout.name())).concat());
            let of_kind = |query: &&Measured| query.reads_elements == reads_elements;
            for from in Layout::ALL {
                let to = Layout::ALL.map(|to| {
                    let mut errors = ErrorSummary::default();
                    let measured = passes[to.index()][0].iter().filter(of_kind);
                    for (predicted, measured) in passes[from.index()][0].iter().filter(of_kind).zip(measured) {
                        errors.add(predicted.predicted_ns[to.index()], measured.took_ns);
                    }
                    shares(&errors)
                });
                println!("{:<12}{}", from.name(), to.concat());
            }
            let floor = Layout::ALL.map(|layout| {
                let [first, second] = &passes[layout.index()];
                let mut errors = ErrorSummary::default();
                for (first, second) in first.iter().filter(of_kind).zip(second.iter().filter(of_kind)) {
                    errors.add(second.took_ns, first.took_ns);
                }
                shares(&errors)
            });
            let median = |layout: Layout| {
                let mut times: Vec<f64> =
                    passes[layout.index()][0].iter().filter(of_kind).map(|query| query.took_ns).collect();
                times.sort_unstable_by(f64::total_cmp);
                format!("{:>13.2} ms", times[times.len() / 2] / 1e6)
            };
            println!("{:<12}{}", "second pass", floor.concat());
            println!("{:<12}{}\n", "median", Layout::ALL.map(median).concat());
        }
    }
}
