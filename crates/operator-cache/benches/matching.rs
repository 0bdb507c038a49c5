//! Time to answer a request from among many items: `OperatorCache::begin` until it returns, decision record and meters
//! included. The aim is 20 µs among 10,000 items.
//!
//! `cargo bench -p thermocline-operator-cache --bench matching [-- ITEMS]`
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use thermocline_budget::Budget;
use thermocline_hardware::{Clock, SystemClock};
use thermocline_medium::{FileVersion, Stamp};
use thermocline_operator_cache::*;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: i128) -> i128 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i128::from(self.0 >> 11) % bound
    }
}

/// A file of one morsel with a row per column; what it holds does not matter here.
struct OneRow {
    column_count: usize,
    issued: std::sync::atomic::AtomicBool,
}

impl MorselSource for OneRow {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        let issued = self.issued.swap(true, std::sync::atomic::Ordering::Relaxed);
        Ok((!issued).then_some(Morsel { index: 0, start_bytes: 0, end_bytes: 1, head_end_bytes: 1, payload: None }))
    }

    fn decode(&self, _: Morsel) -> Result<Rows, SourceError> {
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let columns = vec![one; self.column_count];
        Ok(Rows {
            columns,
            elements: None,
            row_count: 1,
            record_count: 1,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    }

    fn total_bytes(&self) -> u64 {
        1
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        Ok(SourceEnd::default())
    }
}

const DOMAIN: i128 = 1 << 40;

fn closed(low: i128, high: i128) -> Domain {
    Domain::interval(Bound::Included(Scalar::Int(low)), Bound::Included(Scalar::Int(high)))
}

fn text(number: i128) -> Scalar {
    Scalar::Utf8(format!("{number:016}").into())
}

/// The predicate of item `ordinal` of `item_count`, or a narrow one as queries ask. Items widen with their number, so
/// that none is covered by those before it.
fn predicate(workload: &str, random: &mut Random, ordinal: Option<(i128, i128)>) -> Conjunction {
    let share = ordinal.map_or(0, |(number, item_count)| DOMAIN / 4 * number / item_count);
    let width = (1 << 20) + share;
    let low = random.below(DOMAIN - width);
    let range = closed(low, low + width);
    let narrow = ordinal.is_none();
    let field = |name: &str| FieldPath::root(name);
    match workload {
        "ranges of one field" => Conjunction::all().and(field("a"), range),
        "lower bounds of one field" => {
            let low = if narrow { random.below(DOMAIN) } else { DOMAIN - 4 * share };
            Conjunction::all().and(field("a"), Domain::interval(Bound::Included(Scalar::Int(low)), Bound::Unbounded))
        }
        "ranges of three fields" => {
            let second = random.below(DOMAIN / 2);
            let third = random.below(DOMAIN / 2);
            Conjunction::all()
                .and(field("a"), range)
                .and(field("b"), closed(second, second + if narrow { 1 } else { DOMAIN / 2 }))
                .and(field("c"), closed(third, third + if narrow { 1 } else { DOMAIN / 2 }))
        }
        "ranges of strings" => {
            let range = Domain::interval(Bound::Included(text(low)), Bound::Included(text(low + width)));
            Conjunction::all().and(field("t"), range)
        }
        _ => Conjunction::all().and(field("a"), Domain::points((0..4).map(|_| Scalar::Int(random.below(DOMAIN))))),
    }
}

fn main() {
    let item_count: usize = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10_000);
    let columns: Arc<[ColumnSpec]> = ["a", "b", "c", "t", "d", "e"]
        .iter()
        .map(|name| ColumnSpec { path: FieldPath::root(name), data_type: DataType::Int64 })
        .collect();
    let clock = SystemClock::new();
    println!("{item_count} items of one file; microseconds a request");
    println!("{:<28} {:>8} {:>8} {:>8} {:>9}", "workload", "mean", "median", "99 %", "answered");
    for workload in [
        "ranges of one field",
        "lower bounds of one field",
        "ranges of three fields",
        "ranges of strings",
        "lists of four numbers",
    ] {
        let budget = Budget::new(1 << 32, None);
        let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(SystemClock::new()));
        let version = FileVersion {
            path: "s3://bench/file".into(),
            size_bytes: 1,
            stamp: Stamp::Object { etag: Some("1".into()), last_modified_ns: 0 },
        };
        let pinned = cache.pin(OpenedFile::Remote(&version), AppendPolicy::Verify).expect("an object needs no check");
        let factory: SourceFactory =
            Arc::new(|spec| Ok(Arc::new(OneRow { column_count: spec.columns.len(), issued: false.into() })));
        let request = |predicate: Conjunction, wanted: &[usize]| {
            let predicate = Arc::new(predicate);
            SelectRequest {
                source: SourceKey {
                    path: Arc::clone(&version.path),
                    kind: SourceKind::Json,
                    options: "".into(),
                    unnest: None,
                },
                columns: wanted.iter().map(|index| columns[*index].clone()).collect(),
                predicate: Arc::clone(&predicate),
                retain_columns: Arc::default(),
                further_columns: Arc::default(),
                retain_expectation: Default::default(),
                retain_predicate: predicate,
                may_wait: false,
                may_skip: false,
                can_seek: true,
                can_part: false,
                can_map: false,
            }
        };
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for number in 0..item_count {
            let ordinal = Some((number as i128, item_count as i128));
            let wide = request(predicate(workload, &mut random, ordinal), &[0, 1, 2, 3, 4, 5]);
            if let Start::Scan(participant) = cache.begin(&wide, &pinned, true, Arc::clone(&factory)) {
                for rows in futures::executor::block_on_stream(participant.stream()) {
                    rows.expect("one row");
                }
            }
        }
        let queries: Vec<SelectRequest> =
            (0..20_000).map(|_| request(predicate(workload, &mut random, None), &[0, 1, 2, 3])).collect();
        let mut answered_count = 0;
        let mut times_ns: Vec<u64> = queries
            .iter()
            .map(|query| {
                let began_ns = clock.monotonic_ns();
                let start = cache.begin(query, &pinned, false, Arc::clone(&factory));
                let took_ns = clock.monotonic_ns() - began_ns;
                answered_count += u64::from(matches!(start, Start::Hit { .. }));
                took_ns
            })
            .collect();
        times_ns.sort_unstable();
        let mean_ns = times_ns.iter().sum::<u64>() as f64 / times_ns.len() as f64;
        let micros = |ns: f64| ns / 1000.0;
        println!(
            "{workload:<28} {:>8.2} {:>8.2} {:>8.2} {:>8.1}%  ({} items)",
            micros(mean_ns),
            micros(times_ns[times_ns.len() / 2] as f64),
            micros(times_ns[times_ns.len() * 99 / 100] as f64),
            answered_count as f64 * 100.0 / times_ns.len() as f64,
            cache.items().len(),
        );
    }
}
