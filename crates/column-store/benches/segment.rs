//! What loading a column table takes: row groups of columns as those of the Star Schema Benchmark's `lineorder`,
//! encoded from batches of 8,192 rows and written to a segment in memory.
//!
//! `cargo bench -p thermocline-column-store --bench segment [-- part of a column's name]`. One thread, each line the
//! best of several rounds.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use thermocline_column_store::{EncodedRowGroup, ROW_GROUP_ROWS, Segment, SegmentWriter};
use thermocline_medium::{Medium, MemoryMedium};

const BATCH_ROWS: usize = 8192;
const ROUNDS: usize = 7;

/// A number that only `of` and `salt` determine.
fn scrambled(of: usize, salt: u64) -> u64 {
    let mixed = (of as u64 ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 20
}

/// The order of a row: four rows each on average, 1 to 7 in truth; and the row's number within it.
fn order_of(row: usize) -> (usize, usize) {
    const LENGTHS: [usize; 7] = [4, 1, 7, 3, 5, 2, 6];
    let mut rest = row % 28;
    for (index, length) in LENGTHS.into_iter().enumerate() {
        if rest < length {
            return (row / 28 * 7 + index, rest + 1);
        }
        rest -= length;
    }
    (0, 0)
}

/// One of 2,556 days, mostly ascending, as a number of the form yyyymmdd.
fn date_key(order: usize, later: u64) -> i64 {
    let day = (order as u64 / 26 + scrambled(order, 3) % 9 + later) % 2556;
    let (year, day) = (1992 + day / 365, day % 365);
    (year * 10_000 + (day / 31 + 1) * 100 + day % 31 + 1) as i64
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
    const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
    let rows = || 0..ROW_GROUP_ROWS;
    let numbers = |of: &dyn Fn(usize, usize) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows().map(|row| of(row, order_of(row).0))))
    };
    let texts = |of: &dyn Fn(usize) -> String| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows().map(of))) };
    let views =
        |of: &dyn Fn(usize) -> String| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(rows().map(of))) };
    let priority = |row: usize| PRIORITIES[scrambled(order_of(row).0, 7) as usize % 5].to_owned();
    let mode = |row: usize| MODES[scrambled(row, 8) as usize % 7].to_owned();
    let price = |row: usize| (scrambled(row, 9) % 50 + 1) as i64 * (90_000 + scrambled(row, 4) as i64 % 110_000) / 10;
    vec![
        ("orderkey", numbers(&|_, order| (order / 8 * 32 + order % 8 + 1) as i64)),
        ("linenumber", numbers(&|row, _| order_of(row).1 as i64)),
        ("custkey", numbers(&|_, order| (scrambled(order, 1) % 300_000) as i64 + 1)),
        ("partkey", numbers(&|row, _| (scrambled(row, 4) % 800_000) as i64 + 1)),
        ("suppkey", numbers(&|row, _| (scrambled(row, 5) % 20_000) as i64 + 1)),
        ("orderdate", numbers(&|_, order| date_key(order, 0))),
        ("orderpriority", views(&priority)),
        ("shippriority", views(&|_| "0".to_owned())),
        ("quantity", numbers(&|row, _| (scrambled(row, 9) % 50) as i64 + 1)),
        ("extendedprice", numbers(&|row, _| price(row))),
        ("ordtotalprice", numbers(&|_, order| (scrambled(order, 10) % 40_000_000) as i64)),
        ("discount", numbers(&|row, _| (scrambled(row, 11) % 11) as i64)),
        ("revenue", numbers(&|row, _| price(row) * (100 - (scrambled(row, 11) % 11) as i64) / 100)),
        ("supplycost", numbers(&|row, _| (scrambled(row, 4) % 110_000) as i64 * 6 / 10 + 54_000)),
        ("tax", numbers(&|row, _| (scrambled(row, 12) % 9) as i64)),
        ("commitdate", numbers(&|row, order| date_key(order, 30 + scrambled(row, 13) % 61))),
        ("shipmode", views(&mode)),
        // Not of this table: the same and others in other types.
        (
            "quantity, 32 bits",
            Arc::new(Int32Array::from_iter_values(rows().map(|row| (scrambled(row, 9) % 50) as i32))),
        ),
        (
            "price, decimal",
            Arc::new(
                Decimal128Array::from_iter_values(rows().map(|row| i128::from(price(row))))
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
        ),
        ("price, float", Arc::new(Float64Array::from_iter_values(rows().map(|row| price(row) as f64 / 100.0)))),
        (
            "price, NULLs",
            Arc::new(Int64Array::from_iter(
                rows().map(|row| (!scrambled(row, 14).is_multiple_of(9)).then(|| price(row))),
            )),
        ),
        ("priority, Utf8", texts(&priority)),
        ("shipmode, Utf8", texts(&mode)),
        ("1,000 brands", views(&|row| format!("MFGR#{}", scrambled(row, 15) % 1000 + 1000))),
        ("250 cities", views(&|row| format!("UNITED KI{}", scrambled(row, 16) % 250))),
        ("customer names", texts(&|row| format!("Customer#{:09}", scrambled(row, 1) % 300_000))),
        (
            "phones",
            texts(&|row| {
                let number = scrambled(row, 17);
                format!(
                    "{}-{}-{}-{}",
                    number % 25 + 10,
                    number / 25 % 900 + 100,
                    number >> 20 & 511,
                    number >> 30 & 8191
                )
            }),
        ),
    ]
}

fn batches(columns: &[(&'static str, ArrayRef)]) -> (SchemaRef, Vec<RecordBatch>) {
    let fields = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = (0..ROW_GROUP_ROWS).step_by(BATCH_ROWS).map(|row| {
        let values = columns.iter().map(|(_, values)| values.slice(row, BATCH_ROWS)).collect();
        RecordBatch::try_new(Arc::clone(&schema), values).unwrap()
    });
    let batches = batches.collect();
    (schema, batches)
}

fn best_seconds(mut round: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let columns = columns();
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str()));
    println!("column              M values/s  B a value  encoding");
    for column in columns.iter().filter(|(name, _)| is_wanted(name)) {
        let (schema, batches) = batches(std::slice::from_ref(column));
        let seconds = best_seconds(|| drop(black_box(EncodedRowGroup::encode(&schema, &batches).unwrap())));
        let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
        let mut writer = SegmentWriter::create(Arc::clone(&medium), "s", Arc::clone(&schema)).unwrap();
        writer.append(&EncodedRowGroup::encode(&schema, &batches).unwrap()).unwrap();
        let info = writer.finish().unwrap();
        let segment = Segment::open(medium.as_ref(), &info, &schema).unwrap();
        let page = segment.row_groups()[0].page(0);
        println!(
            "{:<18}{:>12.1}{:>11.2}  {:?}",
            column.0,
            ROW_GROUP_ROWS as f64 / seconds / 1e6,
            page.size_bytes() as f64 / ROW_GROUP_ROWS as f64,
            page.encoding()
        );
    }

    if wanted.is_some() {
        return;
    }
    let (schema, batches) = batches(&columns[..17]);
    let mut size_bytes = 0;
    let seconds = best_seconds(|| {
        let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
        let mut writer = SegmentWriter::create(medium, "s", Arc::clone(&schema)).unwrap();
        for _ in 0..2 {
            writer.append(&EncodedRowGroup::encode(&schema, &batches).unwrap()).unwrap();
        }
        size_bytes = writer.finish().unwrap().size_bytes;
    });
    let row_count = 2.0 * ROW_GROUP_ROWS as f64;
    println!(
        "\nlineorder: {:.2} M rows/s ({:.1} M values/s), {:.1} B a row, 60 M rows in {:.1} s",
        row_count / seconds / 1e6,
        17.0 * row_count / seconds / 1e6,
        size_bytes as f64 / row_count,
        60e6 / row_count * seconds
    );
}
