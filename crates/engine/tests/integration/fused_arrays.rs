//! Stars over Parquet files and over tables in memory: as fused pipelines they answer what DataFusion's operators
//! answer, which decode files by themselves.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use thermocline_engine::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use thermocline_engine::datafusion::parquet::arrow::ArrowWriter;
use thermocline_engine::datafusion::parquet::basic::{Compression, Encoding};
use thermocline_engine::datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use thermocline_engine::{Database, DatabaseOptions, Session};
use thermocline_hardware::{Clock, SystemClock};

use crate::harness::{self, Folder, MIB, Random, long_mode, rows, sorted_rows, try_rows};
use crate::pipelines_and_operators::{Tally, is_fused, stock};
use crate::stars::{compare_with_operators, database, make_star, star_query};

/// A file of these rows as some writer may have made it.
fn parquet(batch: &RecordBatch, random: &mut Random) -> Vec<u8> {
    let statistics = [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page];
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(*random.pick(&[700, 9_000, 1 << 20])))
        .set_data_page_row_count_limit(*random.pick(&[100, 1_000, 20_000]))
        .set_write_batch_size(*random.pick(&[64, 1_000]))
        .set_dictionary_enabled(random.below(4) > 0)
        .set_dictionary_page_size_limit(*random.pick(&[200, 1 << 20]))
        .set_statistics_enabled(*random.pick(&statistics))
        .set_writer_version(*random.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]))
        .set_compression(*random.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]))
        .build();
    written(batch, properties)
}

fn written(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// Cut at random places, so that some pieces may be empty.
fn pieces(batches: &[RecordBatch], random: &mut Random) -> Vec<RecordBatch> {
    let mut pieces = Vec::new();
    for batch in batches {
        let cut = random.below(batch.num_rows() as u64 + 1) as usize;
        pieces.extend([batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)]);
    }
    pieces
}

/// Has the star's tables lie in Parquet files or in memory from now on, with other types.
async fn move_star(session: &Session, folder: &Path, random: &mut Random) {
    let cast = |random: &mut Random, column: &str, types: &[&str]| {
        format!("arrow_cast({column}, '{}') AS {column}", random.pick(types))
    };
    let texts = ["Utf8", "LargeUtf8", "Utf8View"];
    let mut columns = vec!["id".to_owned()];
    columns.push(cast(random, "a", &["Int64", "Int32", "Decimal128(9, 0)"]));
    columns.push(cast(random, "b", &["Int64", "Int8"]));
    columns.push(cast(random, "p", &["Int64", "UInt16", "UInt32"]));
    columns.push(cast(random, "v", &["Int64", "Int16", "Decimal128(12, 2)", "Decimal128(30, 1)"]));
    columns.push(cast(random, "share", &["Float64", "Float32", "Decimal128(18, 3)"]));
    columns.push(cast(random, "whole", &["Int64", "UInt64", "Decimal128(20, 0)"]));
    columns.push(cast(random, "day", &["Date32", "Timestamp(Microsecond, None)"]));
    columns.push(cast(random, "kind", &texts));
    let facts = format!("SELECT {} FROM f", columns.join(", "));
    let others = cast(random, "name", &[texts.as_slice(), &["Dictionary(Int32, Utf8)"]].concat());
    let others = format!("SELECT k, grp, weight, c, {others} FROM a");
    for (table, sql) in [("f", facts.as_str()), ("a", &others), ("b", "SELECT * FROM b"), ("p", "SELECT * FROM p")] {
        let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
        let schema = batches[0].schema();
        let batches = pieces(&batches, random);
        rows(session, &format!("DROP TABLE {table}")).await;
        if random.below(3) == 0 {
            session.register_batches(table, schema, batches).unwrap();
            continue;
        }
        let location = folder.join(table);
        fs::create_dir(&location).unwrap();
        for (number, batch) in batches.iter().enumerate() {
            fs::write(location.join(format!("{number}.parquet")), parquet(batch, random)).unwrap();
        }
        let location = location.display();
        rows(session, &format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'")).await;
    }
}

/// Without a join.
fn query_of_facts(random: &mut Random) -> String {
    let values = ["v", "share", "whole", "id", "day", "kind"];
    let value = random.pick(&values);
    let outputs = ["count(*)", "count(v), sum(v)", "min(share), max(whole)", "sum(v * p)", "avg(share)", "max(b)"];
    let condition = match random.below(6) {
        0 => format!("{value} IS NULL"),
        1 => "v BETWEEN -100 AND 250".to_owned(),
        2 => "kind IN ('kind 1', 'kind 5') AND p < 20".to_owned(),
        3 => "day >= DATE '1994-06-01' OR b = 7".to_owned(),
        4 => "v > p".to_owned(),
        _ => "true".to_owned(),
    };
    let outputs = random.pick(&outputs);
    match random.below(3) {
        0 => format!("SELECT kind, {outputs} FROM f WHERE {condition} GROUP BY kind"),
        1 => format!("SELECT p, {outputs} FROM f WHERE {condition} GROUP BY p"),
        _ => format!("SELECT {outputs} FROM f WHERE {condition}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_answer_the_same_with_and_without_pipelines() {
    let clock = SystemClock::new();
    let end_ns = long_mode().as_nanos() as u64;
    let (mut tally, mut seed) = (Tally::default(), 0);
    while tally.queries < 240 || clock.monotonic_ns() < end_ns {
        seed += 1;
        let folder = Folder::new();
        let session = database(folder.path()).session();
        let mut random = Random::new(seed);
        make_star(&session, folder.path(), &mut random, [3, 500, 20_000][seed as usize % 3]).await;
        move_star(&session, folder.path(), &mut random).await;
        let query = |random: &mut Random| match random.below(2) {
            0 => query_of_facts(random),
            _ => star_query(random, true),
        };
        compare_with_operators(&session, seed, &mut random, query, &mut tally).await;
    }
    tally.assert_fused(3);
}

/// A table of one file, whose numbers are `first` and the following.
fn numbers(first: i64, row_count: usize, properties: WriterProperties) -> Vec<u8> {
    let numbers = || (first..).take(row_count);
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("v", Arc::new(Int64Array::from_iter_values(numbers().map(|number| number % 1000)))),
        ("kind", Arc::new(StringArray::from_iter_values(numbers().map(|number| format!("kind {}", number % 4))))),
    ];
    written(&RecordBatch::try_from_iter(columns).unwrap(), properties)
}

async fn create(session: &Session, table: &str, location: &Path) {
    let location = location.display();
    rows(session, &format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_or_vanish_are_seen() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    let plain = WriterProperties::default;
    fs::create_dir(folder.path().join("t")).unwrap();
    let path = folder.settled_file("t/1.parquet", numbers(0, 1000, plain()));
    create(&session, "t", &folder.path().join("t")).await;
    let sql = "SELECT kind, count(*), sum(k), max(v) FROM t GROUP BY kind";
    assert!(is_fused(&session, sql).await);
    for _ in 0..2 {
        assert_eq!(rows(&session, "SELECT count(*), sum(k) FROM t WHERE v >= 0").await, ["1000|499500"]);
        assert_eq!(sorted_rows(&session, sql).await, stock(&session, sql).await);
    }
    // Another of the same size, and one more.
    fs::write(&path, numbers(1000, 1000, plain())).unwrap();
    assert_eq!(rows(&session, "SELECT count(*), sum(k) FROM t WHERE v >= 0").await, ["1000|1499500"]);
    folder.file("t/2.parquet", numbers(2000, 10, plain()));
    assert_eq!(rows(&session, "SELECT count(*), min(k), max(k) FROM t WHERE v >= 0").await, ["1010|1000|2009"]);
    assert_eq!(sorted_rows(&session, sql).await, stock(&session, sql).await);
    // With pages of another encoding, which is known when the query is planned.
    let delta = WriterProperties::builder().set_dictionary_enabled(false);
    let delta = delta.set_column_encoding("v".into(), Encoding::DELTA_BINARY_PACKED);
    fs::write(&path, numbers(5000, 1000, delta.build())).unwrap();
    assert!(!is_fused(&session, sql).await);
    assert_eq!(sorted_rows(&session, sql).await, stock(&session, sql).await);
    assert!(is_fused(&session, "SELECT kind, sum(k) FROM t GROUP BY kind").await);
    fs::remove_file(&path).unwrap();
    assert_eq!(rows(&session, "SELECT count(*), min(k) FROM t WHERE v >= 0").await, ["10|2000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_may_lack_a_column_or_have_it_otherwise() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    fs::create_dir(folder.path().join("t")).unwrap();
    folder.file("t/1.parquet", numbers(0, 10, WriterProperties::default()));
    let columns: [(&str, ArrayRef); 2] =
        [("v", Arc::new(Int32Array::from(vec![0, 1]))), ("k", Arc::new(Int64Array::from(vec![None, Some(7)])))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    folder.file("t/2.parquet", written(&batch, WriterProperties::default()));
    let location = folder.path().join("t").display().to_string();
    let create = "CREATE EXTERNAL TABLE t (k BIGINT, v BIGINT, kind VARCHAR) STORED AS PARQUET LOCATION";
    rows(&session, &format!("{create} '{location}'")).await;
    for (sql, answer) in [
        ("SELECT sum(k), count(k), count(*) FROM t WHERE k >= 0 OR k IS NULL", "52|11|12"),
        ("SELECT sum(v), count(v) FROM t WHERE v >= 0", "46|12"),
        ("SELECT count(kind), count(*) FROM t WHERE k >= 0 OR k IS NULL", "10|12"),
        ("SELECT max(kind) FROM t", "kind 3"),
    ] {
        assert_eq!(rows(&session, sql).await, [answer], "{sql}");
        assert_eq!(stock(&session, sql).await, [answer], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_take_over_where_memory_is_too_little() {
    let folder = Folder::new();
    // Row groups of 8 MB and more, of numbers without order.
    let spread = |of: i64| (of * 7_368_787) % 1_000_003;
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values((0..1_000_003).map(spread)))),
        ("v", Arc::new(Int64Array::from_iter_values((0..1_000_003).map(|of| of << 20)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path =
        folder.file("t.parquet", written(&batch, WriterProperties::builder().set_dictionary_enabled(false).build()));
    for (memory_bytes, sure) in [(6 * MIB, false), (20 * MIB, false), (256 * MIB, true)] {
        let options =
            DatabaseOptions { memory_bytes: Some(memory_bytes), threads: Some(3), ..DatabaseOptions::default() };
        let session = Database::open(options).unwrap().session();
        create(&session, "t", &path).await;
        let all = "SELECT sum(k), max(v) FROM t WHERE k >= 0";
        let joined = "SELECT count(*), sum(t.k) FROM t JOIN t AS u ON t.k = u.k WHERE u.v >= 0";
        for (sql, answer) in [(all, "500002500003|1048578097152"), (joined, "1000003|500002500003")] {
            assert!(is_fused(&session, sql).await);
            match try_rows(&session, sql).await {
                Ok(found) => assert_eq!(found, [answer], "{memory_bytes}"),
                Err(error) => assert!(!sure && error.to_string().contains("Resources exhausted"), "{error}"),
            }
        }
    }
}

/// Bytes of pages are what a file has most of; wherever one is flipped there is an answer or an error that names the file.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_are_errors_that_name_them() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    let mut random = Random::new(5);
    let mut error_count = 0;
    for number in 0..60 {
        let compression = *random.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]);
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut content = numbers(0, 3000, properties);
        let place = 4 + random.below(content.len() as u64 / 2) as usize;
        content[place] ^= 1 << random.below(8);
        let path = folder.file(&format!("{number}.parquet"), content);
        let sql = format!("SELECT kind, count(*), sum(k), sum(v) FROM '{}' GROUP BY kind", path.display());
        if let Err(error) = try_rows(&session, &sql).await {
            let error = error.to_string();
            assert!(error.contains(&format!("{number}.parquet")) && error.contains("column '"), "{error}");
            error_count += 1;
        }
    }
    assert!(error_count > 10, "{error_count} errors");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_memory_are_read_as_they_are_when_a_query_begins() {
    let session = harness::session();
    rows(&session, "CREATE TABLE t (k BIGINT, g BIGINT)").await;
    rows(&session, "INSERT INTO t SELECT value, value % 3 FROM generate_series(1, 10) AS s(value)").await;
    let sql = "SELECT g, count(*), sum(k) FROM t GROUP BY g ORDER BY g";
    assert!(is_fused(&session, sql).await);
    assert_eq!(rows(&session, sql).await, ["0|3|18", "1|4|22", "2|3|15"]);
    rows(&session, "INSERT INTO t VALUES (100, 0), (NULL, 5), (7, NULL)").await;
    let expected = ["0|4|118", "1|4|22", "2|3|15", "5|1|NULL", "NULL|1|7"];
    assert_eq!(rows(&session, sql).await, expected);
    rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 1 AS k, 2 AS g").await;
    assert_eq!(rows(&session, sql).await, ["2|1|1"]);
}
