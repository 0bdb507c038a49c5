//! Fields of nested orders as NDJSON and of lineitems as CSV: an ordinary scan, one that also makes a map, and one by
//! the map.
//!
//! `cargo bench -p thermocline-raw --bench positional_map`. Files of 60 to 200 MB in the page cache, one thread, each
//! line the best of several rounds in MB of the file a second.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::DataType;
use thermocline_medium::{Compression, PinnedFile};
use thermocline_predicate::FieldPath;
use thermocline_raw::csv::CsvFormat;
use thermocline_raw::{Column, FileScan, Format, PositionalMap, Rows, ScanPlan, Source, Unnest};
use thermocline_tpch::{DataSet, TextFormat, TpchTable, small_text, write_nested_orders, write_table};

const ROUNDS: usize = 4;
/// About 200 MB.
const SCALE: f64 = 0.08;

fn best(file: &PinnedFile, name: &str, mut round: impl FnMut() -> usize) {
    let mut best = f64::MAX;
    let mut rows = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        rows = round();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{:>7.0} MB/s  {name} ({rows} rows)", file.size_bytes() as f64 / best / 1e6);
}

fn drain(scan: &FileScan, mut each: impl FnMut(u64, Rows)) -> usize {
    let mut row_count = 0;
    while let Some(morsel) = scan.next_morsel().unwrap() {
        let index = morsel.index;
        let rows = scan.decode(morsel).unwrap();
        row_count += rows.row_count;
        each(index, black_box(rows));
    }
    row_count
}

fn column(path: &str, data_type: DataType) -> Column {
    Column { path: FieldPath::new(path.split('.')), data_type }
}

fn report(file: &Arc<PinnedFile>, format: &Format, name: &str, plan: &ScanPlan) {
    let source = || Source::Local(Arc::clone(file));
    let size_bytes = file.size_bytes();
    let scan = |plan: ScanPlan| {
        FileScan::new(source(), 0, size_bytes, format.clone(), Compression::None, plan, None, 1).unwrap()
    };
    best(file, &format!("{name}: scan"), || drain(&scan(plan.clone()), |_, _| ()));
    let mut map = None;
    best(file, &format!("{name}: scan that makes a map"), || {
        let mut builder = PositionalMap::builder(usize::MAX);
        let scan = scan(ScanPlan { map: true, ..plan.clone() });
        let rows = drain(&scan, |index, rows| builder.add(index, rows.map_piece.unwrap()));
        map = builder.finish(size_bytes);
        rows
    });
    let map = Arc::new(map.unwrap());
    println!("         {:.2} bytes of map a record", map.size_bytes() as f64 / map.records().len() as f64);
    best(file, &format!("{name}: scan by the map"), || {
        drain(&FileScan::with_map(source(), Arc::clone(&map), format.clone(), plan.clone(), None).unwrap(), |_, _| ())
    });
    for step in [1, 10] {
        let positions: Arc<_> = Arc::new(map.records().iter().step_by(step).collect());
        best(file, &format!("{name}: scan by positions of every {step}. record"), || {
            let (positions, format, plan) = (Arc::clone(&positions), format.clone(), plan.clone());
            let scan = FileScan::at_positions(source(), positions, 0, size_bytes, format, Compression::None, plan);
            drain(&scan.unwrap(), |_, _| ())
        });
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let text = small_text();
    let data = DataSet { scale: SCALE, text: &text, thread_count: 1 };
    let written = |name: &str, write: &dyn Fn(&mut BufWriter<std::fs::File>) -> u64| {
        let path = folder.path().join(name);
        let mut out = BufWriter::new(std::fs::File::create(&path).unwrap());
        write(&mut out);
        out.flush().unwrap();
        let file = Arc::new(PinnedFile::open(&path).unwrap());
        println!("{name}: {} MB", file.size_bytes() / 1_000_000);
        best(&file, "reading alone, 256 KiB at a time", || {
            let (mut buffer, mut at) = (vec![0; 256 << 10], 0);
            while at < file.size_bytes() {
                at += file.read_at(&mut buffer, at).unwrap() as u64;
                black_box(&buffer);
            }
            0
        });
        file
    };
    let orders = written("orders.ndjson", &|out| write_nested_orders(data, out).unwrap());
    let early =
        ScanPlan::all_rows(vec![column("o_custkey", DataType::Int64), column("o_totalprice", DataType::Float64)]);
    let late = ScanPlan::all_rows(vec![column("o_comment", DataType::Utf8)]);
    let items = ScanPlan {
        unnest: Some(Unnest { path: FieldPath::root("lineitems"), keeps_empty: false }),
        ..ScanPlan::all_rows(vec![column("lineitems.l_quantity", DataType::Float64)])
    };
    for (name, plan) in [("two early fields", &early), ("a late field", &late), ("unnest", &items)] {
        report(&orders, &Format::Ndjson, name, plan);
    }
    let lineitem =
        written("lineitem.csv", &|out| write_table(data, TpchTable::Lineitem, TextFormat::Csv, out).unwrap());
    let header = std::fs::read_to_string(folder.path().join("lineitem.csv")).unwrap();
    let names = header.lines().next().unwrap().split(',');
    let csv = Format::Csv(Arc::new(CsvFormat::with_columns(names)));
    let early = ScanPlan::all_rows(vec![column("l_partkey", DataType::Int64), column("l_quantity", DataType::Float64)]);
    let late = ScanPlan::all_rows(vec![column("l_shipmode", DataType::Utf8)]);
    for (name, plan) in [("two early columns", &early), ("a late column", &late)] {
        report(&lineitem, &csv, name, plan);
    }
}
