//! GB/s of the CSV scanner on TPC-H-like lineitem rows: one thread, content in memory.
//!
//! `cargo bench -p thermocline-raw --bench csv`. Each line is the best of several rounds.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::fmt::Write;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::DataType;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_raw::csv::{CsvDecoder, CsvFormat, InferOptions, Sample, Splitter, infer};
use thermocline_raw::{Column, Decoder, ScanPlan};

const ROUNDS: usize = 7;
/// Beyond the last-level cache of most machines, so that memory is read as in a scan.
const CONTENT_BYTES: usize = 256 << 20;
/// What a scan hands to a decoder at once.
const WINDOW_BYTES: usize = 1 << 20;

const COLUMNS: [(&str, DataType); 16] = [
    ("l_orderkey", DataType::Int64),
    ("l_partkey", DataType::Int64),
    ("l_suppkey", DataType::Int64),
    ("l_linenumber", DataType::Int64),
    ("l_quantity", DataType::Float64),
    ("l_extendedprice", DataType::Float64),
    ("l_discount", DataType::Float64),
    ("l_tax", DataType::Float64),
    ("l_returnflag", DataType::Utf8),
    ("l_linestatus", DataType::Utf8),
    ("l_shipdate", DataType::Date32),
    ("l_commitdate", DataType::Date32),
    ("l_receiptdate", DataType::Date32),
    ("l_shipinstruct", DataType::Utf8),
    ("l_shipmode", DataType::Utf8),
    ("l_comment", DataType::Utf8),
];

/// Rows like lineitem's; with `is_quoted` every text is in quotes and every tenth comment holds a comma.
fn lineitem(is_quoted: bool) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % limit
    };
    const WORDS: [&str; 8] = ["carefully", "final", "deposits", "sleep", "among", "the", "quickly", "requests"];
    let mut text = String::with_capacity(CONTENT_BYTES + 1024);
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    text.push_str(&names.join(","));
    text.push('\n');
    let quote = if is_quoted { "\"" } else { "" };
    let mut order = 0;
    while text.len() < CONTENT_BYTES {
        order += 1;
        for line in 1..=below(7) + 1 {
            let mut date = || format!("19{}-{:02}-{:02}", 92 + below(7), 1 + below(12), 1 + below(28));
            let (ship, commit, receipt) = (date(), date(), date());
            let comment: Vec<&str> = (0..2 + below(4)).map(|_| WORDS[below(8) as usize]).collect();
            let comma = if is_quoted && below(10) == 0 { "," } else { "" };
            writeln!(
                text,
                "{order},{},{},{line},{},{}.{:02},0.{:02},0.0{},{quote}{}{quote},{quote}O{quote},{ship},{commit},\
                 {receipt},{quote}DELIVER IN PERSON{quote},{quote}TRUCK{quote},{quote}{}{comma}{quote}",
                below(200_000),
                below(10_000),
                1 + below(50),
                900 + below(104_000),
                below(100),
                below(11),
                below(9),
                ["N", "R", "A"][below(3) as usize],
                comment.join(" "),
            )
            .unwrap();
        }
    }
    text
}

fn report(name: &str, content: &[u8], mut round: impl FnMut() -> usize) {
    let mut best = f64::INFINITY;
    let mut count = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        count = black_box(round());
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:<44} {:>7.2} GB/s {:>9.1} ms {count:>9}", content.len() as f64 / best / 1e9, best * 1e3);
}

fn column(position: usize) -> Column {
    let (name, data_type) = COLUMNS[position].clone();
    Column { path: FieldPath::root(name), data_type }
}

fn decode(content: &[u8], plan: &ScanPlan) -> usize {
    let format = CsvFormat::with_columns(COLUMNS.iter().map(|(name, _)| *name));
    let mut decoder = CsvDecoder::new(plan, &format, Arc::from("lineitem.csv")).unwrap();
    let mut rows = 0;
    let mut at = 0;
    let mut splitter = Splitter::new(&format, 0);
    while at < content.len() {
        let piece = &content[at..(at + WINDOW_BYTES).min(content.len())];
        // Pieces start at records, so a fresh splitter stands right.
        splitter.clone_from(&Splitter::new(&format, 0));
        let end = splitter.last_record_end(piece);
        decoder.decode(&piece[..end], at as u64).unwrap();
        at += end;
        // Morsels of 16 pieces.
        if at % (16 * WINDOW_BYTES) < WINDOW_BYTES {
            rows += decoder.finish().unwrap().row_count;
        }
    }
    rows + decoder.finish().unwrap().row_count
}

fn main() {
    for is_quoted in [false, true] {
        let text = lineitem(is_quoted);
        let content = text.as_bytes();
        let rows = memchr::memchr_iter(b'\n', content).count();
        println!(
            "lineitem{}: {} MB, {} bytes a row",
            if is_quoted { ", text quoted" } else { "" },
            content.len() / 1_000_000,
            content.len() / rows
        );
        report("memchr of newlines", content, || memchr::memchr_iter(b'\n', content).count());
        let format = CsvFormat::with_columns(["a"]);
        report("splitter", content, || {
            let mut splitter = Splitter::new(&format, 0);
            content.chunks(WINDOW_BYTES).map(|piece| splitter.last_record_end(piece)).sum()
        });
        let plan = |positions: &[usize]| ScanPlan::all_rows(positions.iter().map(|at| column(*at)).collect());
        report("count only", content, || decode(content, &plan(&[])));
        report("1 early column (orderkey)", content, || decode(content, &plan(&[0])));
        report("1 late column (comment)", content, || decode(content, &plan(&[15])));
        report("4 columns (key, quantity, price, shipdate)", content, || decode(content, &plan(&[0, 4, 5, 10])));
        let mut filtered = plan(&[0, 4, 5, 10]);
        let few = Domain::interval(Bound::Unbounded, Bound::Excluded(Scalar::Float(3.0)));
        filtered.predicate = Conjunction::all().and(FieldPath::root("l_quantity"), few);
        report("the same where quantity < 3 (4 %)", content, || decode(content, &filtered));
        filtered.columns = (0..16).map(column).collect();
        report("16 columns where quantity < 3", content, || decode(content, &filtered));
        report("16 columns", content, || decode(content, &plan(&(0..16).collect::<Vec<_>>())));
        let head = &content[..10 << 20];
        report("infer, 10 MB sample", head, || {
            let sample = Sample { file: Arc::from("lineitem.csv"), bytes: head, is_whole: false };
            let options = InferOptions { sample_rows: usize::MAX, ..InferOptions::default() };
            infer([sample], &options).unwrap().0.fields().len()
        });
    }
}
