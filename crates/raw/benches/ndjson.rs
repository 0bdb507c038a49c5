//! GB/s of the NDJSON scanner on TPC-H-like orders with their lineitems: one thread, content in memory.
//!
//! `cargo bench -p thermocline-raw --bench ndjson`. Each line is the best of several rounds. An argument that is a file
//! is scanned through `FileScan` instead, with as many threads as there are cores; any other selects plans by name.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::fmt::Write;
use std::hint::black_box;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::DataType;
use thermocline_medium::{Compression, HashRecorder, PinnedFile};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_raw::ndjson::{InferOptions, NdjsonDecoder, infer};
use thermocline_raw::{Column, Decoder, FileScan, Format, Sample, ScanPlan, Source, Unnest};

const ROUNDS: usize = 5;
/// What a scan hands to a decoder at once.
const WINDOW_BYTES: usize = 1 << 20;
/// Beyond the second-level cache, so that a window is read from further away, as after a read of the file.
const CONTENT_BYTES: usize = 64 << 20;

/// Orders of about 1.6 KB: nine fields and one to seven lineitems of sixteen.
fn orders() -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % limit
    };
    const WORDS: [&str; 8] = ["carefully", "final", "deposits", "sleep", "among", "the", "quickly", "requests"];
    let mut text = String::with_capacity(CONTENT_BYTES + 8192);
    let mut order = 0;
    while text.len() < CONTENT_BYTES {
        order += 1;
        write!(
            text,
            "{{\"o_orderkey\":{order},\"o_custkey\":{},\"o_orderstatus\":\"O\",\"o_totalprice\":{}.{:02},\"o_orderdate\":\"1996-{:02}-{:02}\",\
             \"o_orderpriority\":\"5-LOW\",\"o_clerk\":\"Clerk#{:09}\",\"o_shippriority\":0,\"o_comment\":\"{} {} {}\",\"lineitems\":[",
            below(150_000), below(500_000), below(100), 1 + below(12), 1 + below(28), below(1000),
            WORDS[below(8) as usize], WORDS[below(8) as usize], WORDS[below(8) as usize],
        )
        .unwrap();
        for line in 0..1 + below(7) {
            write!(
                text,
                "{}{{\"l_orderkey\":{order},\"l_partkey\":{},\"l_suppkey\":{},\"l_linenumber\":{},\"l_quantity\":{}.0,\"l_extendedprice\":{}.{:02},\
                 \"l_discount\":0.0{},\"l_tax\":0.0{},\"l_returnflag\":\"N\",\"l_linestatus\":\"O\",\"l_shipdate\":\"1996-{:02}-{:02}\",\
                 \"l_commitdate\":\"1996-02-12\",\"l_receiptdate\":\"1996-03-22\",\"l_shipinstruct\":\"DELIVER IN PERSON\",\"l_shipmode\":\"TRUCK\",\
                 \"l_comment\":\"{} {}\"}}",
                if line > 0 { "," } else { "" },
                below(200_000), below(10_000), line + 1, 1 + below(50), 1000 + below(90_000), below(100), below(10), below(9), 1 + below(12),
                1 + below(28), WORDS[below(8) as usize], WORDS[below(8) as usize],
            )
            .unwrap();
        }
        text.push_str("]}\n");
    }
    text
}

/// Users of about 1 KB, most of it the names of 40 others each.
fn users() -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut name = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{:022}", state)
    };
    let mut text = String::with_capacity(CONTENT_BYTES + 8192);
    while text.len() < CONTENT_BYTES {
        let friends: Vec<String> = (0..40).map(|_| format!("\"{}\"", name())).collect();
        writeln!(text, "{{\"id\":\"{}\",\"friends\":[{}],\"fans\":3}}", name(), friends.join(",")).unwrap();
    }
    text
}

fn column(path: &str, data_type: DataType) -> Column {
    Column { path: FieldPath::new(path.split('.')), data_type }
}

fn between(low: f64, high: f64) -> Domain {
    Domain::interval(Bound::Included(Scalar::Float(low)), Bound::Included(Scalar::Float(high)))
}

fn and(mut plan: ScanPlan, path: &str, domain: Domain) -> ScanPlan {
    plan.predicate = plan.predicate.and(FieldPath::new(path.split('.')), domain);
    plan.predicate_types.push(column(path, DataType::Float64));
    plan
}

fn unnested(list: &str, columns: Vec<Column>) -> ScanPlan {
    let unnest = Some(Unnest { path: FieldPath::root(list), keeps_empty: false });
    ScanPlan { unnest, predicate: Conjunction::all(), ..ScanPlan::all_rows(columns) }
}

fn plans(text: &[u8]) -> Vec<(&'static str, ScanPlan)> {
    let flat =
        || ScanPlan::all_rows(vec![column("o_custkey", DataType::Int64), column("o_totalprice", DataType::Float64)]);
    let items = || {
        unnested(
            "lineitems",
            vec![
                column("lineitems.l_extendedprice", DataType::Float64),
                column("lineitems.l_quantity", DataType::Float64),
            ],
        )
    };
    let late = unnested(
        "lineitems",
        vec![column("lineitems.l_quantity", DataType::Float64), column("lineitems.l_shipmode", DataType::Utf8)],
    );
    let sample = Sample { file: Arc::from("bench"), bytes: &text[..1 << 20], is_whole: false };
    let schema = infer([sample], &InferOptions::default()).unwrap();
    let everything = schema.fields().iter().map(|field| column(field.name(), field.data_type().clone())).collect();
    vec![
        ("count", ScanPlan::all_rows(vec![])),
        ("two early fields", flat()),
        ("two early fields, a fifth passes", and(flat(), "o_totalprice", between(100_000.0, 200_000.0))),
        ("unnest, two fields of sixteen", items()),
        ("unnest, a quarter passes outside, two fifths inside", {
            and(
                and(items(), "o_totalprice", between(120_000.0, 245_000.0)),
                "lineitems.l_quantity",
                between(10.0, 30.0),
            )
        }),
        ("unnest, a late string", late),
        ("strict, two early fields", ScanPlan { strict: true, ..flat() }),
        ("every column, nested", ScanPlan::all_rows(everything)),
    ]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let (files, names): (Vec<String>, Vec<String>) =
        arguments.into_iter().partition(|argument| Path::new(argument).is_file());
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
    if let Some(path) = files.first() {
        return scan_file(path, is_wanted);
    }
    let text = orders();
    for (name, plan) in plans(text.as_bytes()).into_iter().filter(|plan| is_wanted(plan.0)) {
        measure(name, &plan, text.as_bytes());
    }
    let friends = unnested("friends", vec![column("friends", DataType::Utf8)]);
    for (name, plan) in [("unnest, a list of texts", friends)].into_iter().filter(|plan| is_wanted(plan.0)) {
        measure(name, &plan, users().as_bytes());
    }
}

fn measure(name: &str, plan: &ScanPlan, text: &[u8]) {
    let mut decoder = NdjsonDecoder::new(plan, Arc::from("bench")).unwrap();
    let mut best = f64::MAX;
    let mut rows = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        rows = 0;
        let mut at = 0;
        while at < text.len() {
            let window = &text[at..text.len().min(at + WINDOW_BYTES)];
            let end = memchr::memrchr(b'\n', window).unwrap() + 1;
            decoder.decode(&window[..end], at as u64).unwrap();
            at += end;
            if decoder.row_count() > 20_000 || at == text.len() {
                rows += black_box(decoder.finish().unwrap()).row_count;
            }
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:>6.2} GB/s  {name} ({rows} rows)", text.len() as f64 / best / 1e9);
}

fn scan_file(path: &str, is_wanted: impl Fn(&str) -> bool) {
    let threads = std::thread::available_parallelism().unwrap().get();
    let file = Arc::new(PinnedFile::open(Path::new(path)).unwrap());
    let mut head = vec![0; 4 << 20];
    let length = file.read_at(&mut head, 0).unwrap();
    let compression = Compression::from_path(path);
    let size_bytes = file.size_bytes();
    for (name, plan) in plans(&head[..length]).into_iter().filter(|plan| is_wanted(plan.0)) {
        for is_hashed in [false, true] {
            let mut best = f64::MAX;
            let mut rows = 0;
            for _ in 0..ROUNDS {
                let recorder = is_hashed.then(|| Arc::new(HashRecorder::new()));
                let source = Source::Local(Arc::clone(&file));
                let start = Instant::now();
                let scan =
                    FileScan::new(source, 0, size_bytes, Format::Ndjson, compression, plan.clone(), recorder, threads)
                        .unwrap();
                rows = std::thread::scope(|scope| {
                    let worker = || {
                        let mut rows = 0;
                        while let Some(morsel) = scan.next_morsel().unwrap() {
                            rows += black_box(scan.decode(morsel).unwrap()).row_count;
                        }
                        rows
                    };
                    let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
                    workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
                });
                best = best.min(start.elapsed().as_secs_f64());
            }
            let hashed = if is_hashed { ", hashed" } else { "" };
            println!(
                "{:>6.2} GB/s  {best:.3} s  {threads} threads: {name}{hashed} ({rows} rows)",
                size_bytes as f64 / best / 1e9
            );
        }
    }
}
