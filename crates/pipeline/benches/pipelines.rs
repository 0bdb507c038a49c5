//! Pipelines shaped like queries of the Star Schema Benchmark beside bare loops, and kernels by instruction set.
//!
//! `cargo bench -p thermocline-pipeline --bench pipelines`; `-- ROWS THREADS` for other than 6,000,000 rows and one
//! thread; `-- ROWS THREADS NAME ROUNDS` for one of the lines alone, to profile it. Columns are uniform over the benchmark's domains at scale factor ROWS / 6,000,000, encoded and in memory.
//! The bare loop of each query is what a C programmer would write over arrays of plain codes and dense tables, one
//! thread, for this query alone.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::ops::Bound::Included;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, StringArray};
use thermocline_budget::{Budget, Purpose};
use thermocline_column_store::encode;
use thermocline_hardware::SystemClock;
use thermocline_pipeline::{
    Aggregate, BuiltTable, Expression, GroupWay, InstructionSet, MemoryPages, Operator, Outcome, Pipeline,
    PipelineBuilder, ProbeKind, RunOptions, Slot, ValueType, run,
};
use thermocline_predicate::{Domain, Scalar};

const ROW_GROUP_ROWS: usize = 1 << 18;
const ROUNDS: usize = 7;
const KERNELS: &str = "kernels";
const NAMES: [&str; 9] = [
    "lo_orderdate",
    "lo_partkey",
    "lo_suppkey",
    "lo_custkey",
    "lo_quantity",
    "lo_discount",
    "lo_extendedprice",
    "lo_revenue",
    "lo_supplycost",
];

fn scrambled(index: usize) -> u64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 32
}

struct Data {
    columns: Vec<Vec<i32>>,
    pages: MemoryPages,
    part_count: usize,
    supplier_count: usize,
    customer_count: usize,
    dates: Vec<i32>,
}

fn data(rows: usize) -> Data {
    let scale = rows as f64 / 6e6;
    let part_count = (200_000.0 * (1.0 + scale.max(1.0).log2())) as usize;
    let (supplier_count, customer_count) = ((2000.0 * scale) as usize, (30_000.0 * scale) as usize);
    let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let date = |year: i32, month: i32, day: i32| year * 10_000 + month * 100 + day;
    let dates: Vec<i32> = (1992..1999)
        .flat_map(|year| (1..13).map(move |month| (year, month)))
        .flat_map(|(year, month)| (1..=days[month as usize - 1]).map(move |day| date(year, month, day)))
        .collect();
    let column =
        |number: usize, of: &dyn Fn(u64) -> i32| (0..rows).map(|row| of(scrambled(row * 16 + number))).collect();
    let columns: Vec<Vec<i32>> = vec![
        column(0, &|random| dates[random as usize % dates.len()]),
        column(1, &|random| 1 + (random % part_count as u64) as i32),
        column(2, &|random| 1 + (random % supplier_count as u64) as i32),
        column(3, &|random| 1 + (random % customer_count as u64) as i32),
        column(4, &|random| 1 + (random % 50) as i32),
        column(5, &|random| (random % 11) as i32),
        column(6, &|random| 90_000 + (random % 10_000_000) as i32),
        column(7, &|random| 81_000 + (random % 10_000_000) as i32),
        column(8, &|random| 54_000 + (random % 72_000) as i32),
    ];
    let mut pages = MemoryPages::new();
    for start in (0..rows).step_by(ROW_GROUP_ROWS) {
        let end = (start + ROW_GROUP_ROWS).min(rows);
        let page = |column: &Vec<i32>| {
            let mut bytes = Vec::new();
            let array: ArrayRef = Arc::new(Int32Array::from_iter_values(column[start..end].iter().copied()));
            let summary = encode(&array, &mut bytes).unwrap();
            (bytes, summary)
        };
        pages.push(columns.iter().map(page).collect());
    }
    Data { columns, pages, part_count, supplier_count, customer_count, dates }
}

fn options<'a>(
    threads: usize,
    clock: &'a SystemClock,
    account: &'a thermocline_budget::Account,
    cancelled: &'a AtomicBool,
) -> RunOptions<'a> {
    RunOptions {
        thread_count: threads,
        instructions: InstructionSet::detect(),
        clock,
        account,
        cancelled,
        groups: GroupWay::Together,
    }
}

/// A table of the rows whose second column is in `domain`, with the third, a text or a number.
fn table(
    name: &str,
    keys: Vec<i32>,
    kept: impl Fn(i32) -> bool,
    payload: Vec<String>,
    options: &RunOptions<'_>,
) -> Arc<BuiltTable> {
    let flags: Vec<i32> = keys.iter().map(|key| i32::from(kept(*key))).collect();
    let arrays: [ArrayRef; 3] = [
        Arc::new(Int32Array::from(keys)),
        Arc::new(Int32Array::from(flags)),
        Arc::new(StringArray::from_iter_values(payload)),
    ];
    let mut pages = MemoryPages::new();
    for start in (0..arrays[0].len()).step_by(ROW_GROUP_ROWS) {
        let row_count = ROW_GROUP_ROWS.min(arrays[0].len() - start);
        let page = |array: &ArrayRef| {
            let mut bytes = Vec::new();
            let summary = encode(&array.slice(start, row_count), &mut bytes).unwrap();
            (bytes, summary)
        };
        pages.push(arrays.iter().map(page).collect());
    }
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int32, false).unwrap();
    let flag = builder.scan("flag", 1, ValueType::Int32, false).unwrap();
    let carried = builder.scan("payload", 2, ValueType::Text, false).unwrap();
    builder.filter(flag, Domain::point(Scalar::Int(1))).unwrap();
    let pipeline = builder.build(name, key, vec![carried]).unwrap();
    match run(&pipeline, &pages, &[], options).unwrap().0 {
        Outcome::Table(table) => table,
        Outcome::Rows { .. } => unreachable!("the sink is a table"),
    }
}

fn scan(builder: &mut PipelineBuilder, column: usize) -> Slot {
    builder.scan(NAMES[column], column, ValueType::Int32, false).unwrap()
}

fn between(low: i128, high: i128) -> Domain {
    Domain::interval(Included(Scalar::Int(low)), Included(Scalar::Int(high)))
}

/// Whether a line is wanted: all are if none is named.
fn wanted(name: &str) -> bool {
    std::env::args().nth(3).is_none_or(|wanted| wanted == name || wanted.starts_with('-'))
}

fn rounds() -> usize {
    std::env::args().nth(4).and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

fn best_ns(rows: usize, mut round: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..rounds() {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    best / rows as f64
}

fn compare(
    name: &str,
    rows: usize,
    pipeline: &Pipeline,
    data: &Data,
    tables: &[Arc<BuiltTable>],
    options: &RunOptions<'_>,
    bare: impl Fn(),
) {
    if !wanted(name) {
        return;
    }
    let (outcome, report) = run(pipeline, &data.pages, tables, options).unwrap();
    let Outcome::Rows { rowset: groups, .. } = outcome else { unreachable!("the sink is groups") };
    let fused = best_ns(rows, || drop(black_box(run(pipeline, &data.pages, tables, options).unwrap())));
    let bare = best_ns(rows, bare);
    println!(
        "{name:<8}{fused:>8.3}{bare:>8.3}{:>7.2} {:>9} rows kept {:>6} groups",
        fused / bare,
        report.rows_kept,
        groups.row_count
    );
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let rows = numbers.first().copied().unwrap_or(6_000_000);
    let threads = numbers.get(1).copied().unwrap_or(1);
    let clock = SystemClock::new();
    let account = Budget::new(4 << 30, None).account("bench", Purpose::Query);
    let cancelled = AtomicBool::new(false);
    let options = options(threads, &clock, &account, &cancelled);
    let data = data(rows);
    let column = |number: usize| data.columns[number].as_slice();

    let year_of = |date: i32| (date / 10_000).to_string();
    let dates = |kept: fn(i32) -> bool| {
        table("date", data.dates.clone(), kept, data.dates.iter().map(|date| year_of(*date)).collect(), &options)
    };
    let brand = |key: i32| scrambled(key as usize) % 1000;
    let region = |key: i32| scrambled(key as usize + 77) % 5;
    let nation = |key: i32| region(key) * 5 + scrambled(key as usize + 99) % 5;
    let keys = |count: usize| (1..=count as i32).collect::<Vec<_>>();
    let parts = table(
        "part",
        keys(data.part_count),
        |key| brand(key) < 40,
        keys(data.part_count).iter().map(|key| brand(*key).to_string()).collect(),
        &options,
    );
    let places = |name: &str, count: usize| {
        table(
            name,
            keys(count),
            |key| region(key) == 2,
            keys(count).iter().map(|key| nation(*key).to_string()).collect(),
            &options,
        )
    };
    let suppliers = places("supplier", data.supplier_count);
    let customers = places("customer", data.customer_count);

    println!("{rows} rows, {threads} threads for the pipeline\nns a row: fused, bare loop of one thread, ratio");

    let mut builder = PipelineBuilder::new();
    let [date, quantity, discount, price] = [0, 4, 5, 6].map(|column| scan(&mut builder, column));
    let years_1993 = dates(|date| date / 10_000 == 1993);
    builder.probe(years_1993.shape(), date, ProbeKind::Semi, &[]).unwrap();
    builder.filter(discount, between(1, 3)).unwrap();
    builder.filter(quantity, between(0, 24)).unwrap();
    let wide = |slot| Expression::Slot(slot).cast(ValueType::Int64);
    let product =
        builder.compute("product", Expression::binary(Operator::Multiply, wide(price), wide(discount))).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(product)]).unwrap();
    compare("Q1.1", rows, &pipeline, &data, &[years_1993], &options, || {
        let (dates, quantities, discounts, prices) = (column(0), column(4), column(5), column(6));
        let mut sum = 0i64;
        for row in 0..rows {
            let kept = dates[row] / 10_000 == 1993 && (1..=3).contains(&discounts[row]) && quantities[row] < 25;
            sum += i64::from(kept) * i64::from(prices[row]) * i64::from(discounts[row]);
        }
        black_box(sum);
    });

    let all_dates = dates(|_| true);
    let mut builder = PipelineBuilder::new();
    let [date, part, supplier, revenue] = [0, 1, 2, 7].map(|column| scan(&mut builder, column));
    let brands = builder.probe(parts.shape(), part, ProbeKind::Inner, &[0]).unwrap();
    builder.probe(suppliers.shape(), supplier, ProbeKind::Semi, &[]).unwrap();
    let years = builder.probe(all_dates.shape(), date, ProbeKind::Inner, &[0]).unwrap();
    let pipeline = builder.aggregate(vec![years[0], brands[0]], vec![Aggregate::Sum(revenue)]).unwrap();
    let tables = [Arc::clone(&parts), Arc::clone(&suppliers), Arc::clone(&all_dates)];
    let part_codes: Vec<u16> =
        (0..=data.part_count as i32).map(|key| if brand(key) < 40 { brand(key) as u16 } else { u16::MAX }).collect();
    let place_codes = |count: usize| -> Vec<u8> {
        (0..=count as i32).map(|key| if region(key) == 2 { nation(key) as u8 } else { u8::MAX }).collect()
    };
    let (supplier_codes, customer_codes) = (place_codes(data.supplier_count), place_codes(data.customer_count));
    compare("Q2.1", rows, &pipeline, &data, &tables, &options, || {
        let (dates, parts, suppliers, revenues) = (column(0), column(1), column(2), column(7));
        let mut sums = vec![0i64; 7 * 1000];
        for row in 0..rows {
            let brand = part_codes[parts[row] as usize];
            if brand != u16::MAX && supplier_codes[suppliers[row] as usize] != u8::MAX {
                sums[(dates[row] / 10_000 - 1992) as usize * 1000 + usize::from(brand)] += i64::from(revenues[row]);
            }
        }
        black_box(sums);
    });

    let years_to_1997 = dates(|date| date / 10_000 <= 1997);
    let mut builder = PipelineBuilder::new();
    let [date, customer, supplier, revenue] = [0, 3, 2, 7].map(|column| scan(&mut builder, column));
    let from = builder.probe(customers.shape(), customer, ProbeKind::Inner, &[0]).unwrap();
    let to = builder.probe(suppliers.shape(), supplier, ProbeKind::Inner, &[0]).unwrap();
    let years = builder.probe(years_to_1997.shape(), date, ProbeKind::Inner, &[0]).unwrap();
    let pipeline = builder.aggregate(vec![from[0], to[0], years[0]], vec![Aggregate::Sum(revenue)]).unwrap();
    let tables = [Arc::clone(&customers), Arc::clone(&suppliers), years_to_1997];
    compare("Q3.1", rows, &pipeline, &data, &tables, &options, || {
        let (dates, customers, suppliers, revenues) = (column(0), column(3), column(2), column(7));
        let mut sums = vec![0i64; 25 * 25 * 7];
        for row in 0..rows {
            let (from, to) = (customer_codes[customers[row] as usize], supplier_codes[suppliers[row] as usize]);
            let year = dates[row] / 10_000 - 1992;
            if from != u8::MAX && to != u8::MAX && year < 6 {
                sums[(usize::from(from) * 25 + usize::from(to)) * 7 + year as usize] += i64::from(revenues[row]);
            }
        }
        black_box(sums);
    });

    let made = |key: i32| brand(key) < 400;
    let makes = table("part", keys(data.part_count), made, vec![String::new(); data.part_count], &options);
    let mut builder = PipelineBuilder::new();
    let [date, customer, supplier, part, revenue, cost] = [0, 3, 2, 1, 7, 8].map(|column| scan(&mut builder, column));
    let from = builder.probe(customers.shape(), customer, ProbeKind::Inner, &[0]).unwrap();
    builder.probe(suppliers.shape(), supplier, ProbeKind::Semi, &[]).unwrap();
    builder.probe(makes.shape(), part, ProbeKind::Semi, &[]).unwrap();
    let years = builder.probe(all_dates.shape(), date, ProbeKind::Inner, &[0]).unwrap();
    let profit = builder.compute("profit", Expression::binary(Operator::Subtract, wide(revenue), wide(cost))).unwrap();
    let pipeline = builder.aggregate(vec![years[0], from[0]], vec![Aggregate::Sum(profit)]).unwrap();
    let tables = [Arc::clone(&customers), Arc::clone(&suppliers), makes, Arc::clone(&all_dates)];
    let is_made: Vec<bool> = (0..=data.part_count as i32).map(made).collect();
    compare("Q4.1", rows, &pipeline, &data, &tables, &options, || {
        let (dates, customers, suppliers) = (column(0), column(3), column(2));
        let (parts, revenues, costs) = (column(1), column(7), column(8));
        let mut sums = vec![0i64; 25 * 7];
        for row in 0..rows {
            let (from, to) = (customer_codes[customers[row] as usize], supplier_codes[suppliers[row] as usize]);
            if from != u8::MAX && to != u8::MAX && is_made[parts[row] as usize] {
                let group = usize::from(from) * 7 + (dates[row] / 10_000 - 1992) as usize;
                sums[group] += i64::from(revenues[row]) - i64::from(costs[row]);
            }
        }
        black_box(sums);
    });

    if !wanted(KERNELS) {
        return;
    }
    println!(
        "\nns a row by instruction set: range (one filter on 6 bits, 24 bits), set (a semi-probe, 18 bits), sum (of half of the rows, 4 bits, 24 bits)"
    );
    for instructions in InstructionSet::available() {
        let options = RunOptions { instructions, ..options };
        let timed = |number: usize, domain: Option<Domain>| {
            let mut builder = PipelineBuilder::new();
            let slot = scan(&mut builder, number);
            match domain {
                Some(domain) => builder.filter(slot, domain).unwrap(),
                None => drop(builder.probe(parts.shape(), slot, ProbeKind::Semi, &[]).unwrap()),
            }
            let pipeline = builder.aggregate(vec![], vec![]).unwrap();
            let tables: &[Arc<BuiltTable>] = if pipeline.tables().is_empty() { &[] } else { &[Arc::clone(&parts)] };
            best_ns(rows, || drop(black_box(run(&pipeline, &data.pages, tables, &options).unwrap())))
        };
        let narrow = timed(4, Some(between(20, 20)));
        let wide = timed(6, Some(between(5_000_000, 5_100_000)));
        let sum = |number: usize| {
            let mut builder = PipelineBuilder::new();
            let (quantity, slot) = (scan(&mut builder, 4), scan(&mut builder, number));
            builder.filter(quantity, between(1, 25)).unwrap();
            let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(slot)]).unwrap();
            best_ns(rows, || drop(black_box(run(&pipeline, &data.pages, &[], &options).unwrap())))
        };
        let (set, [few_bits, many_bits]) = (timed(1, None), [5, 6].map(sum));
        println!("range {narrow:.3} {wide:.3}, set {set:.3}, sum {few_bits:.3} {many_bits:.3}  {instructions:?}");
    }
}
