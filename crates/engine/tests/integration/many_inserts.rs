//! Many small inserts: few segments are left, and rows are what they were, in the order they came.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use thermocline_engine::{Database, DatabaseOptions};

use crate::harness::{Folder, MIB, Random, error, integer, reopen, rows};

fn open(folder: &Path) -> Arc<Database> {
    reopen(&DatabaseOptions {
        folder: Some(folder.to_path_buf()),
        memory_bytes: Some(128 * MIB),
        threads: Some(2),
        ..DatabaseOptions::default()
    })
}

const SEGMENT_COUNT: &str = "SELECT segment_count FROM thermocline.tables WHERE table_name = 't'";

#[tokio::test(flavor = "multi_thread")]
async fn single_rows_are_gathered_into_few_segments_in_their_order() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path).session();
    rows(&session, "CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR, at TIMESTAMP)").await;
    let mut expected = Vec::new();
    for id in 0..100 {
        let (name, written) = match id % 3 {
            0 => ("NULL".to_string(), "NULL".to_string()),
            _ => (format!("name {id}"), format!("'name {id}'")),
        };
        let sql = format!("INSERT INTO t VALUES ({id}, {written}, TIMESTAMP '2026-01-01 00:00:00')");
        assert_eq!(rows(&session, &sql).await, ["1"]);
        expected.push(format!("{id}|{name}|2026-01-01T00:00:00"));
        let most = u64::BITS - u64::leading_zeros(id + 1);
        assert!(integer(&session, SEGMENT_COUNT).await <= i64::from(most), "after {id}");
    }
    rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    assert_eq!(rows(&session, "SELECT * FROM t").await, expected);
    // 64 + 32 + 4 rows.
    assert_eq!(integer(&session, SEGMENT_COUNT).await, 3);
    assert_eq!(fs::read_dir(path.join("tables")).unwrap().count(), 4);
    let with_null = "INSERT INTO t (id, name) SELECT NULLIF(value, 5), 'x' FROM generate_series(1, 10)";
    assert!(error(&session, with_null).await.contains("column 'id' is NOT NULL"));
    drop(session);
    let session = open(&path).session();
    rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    assert_eq!(rows(&session, "SELECT * FROM t").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_of_all_sizes_add_up() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path).session();
    rows(&session, "CREATE TABLE t (i BIGINT)").await;
    let mut random = Random::new(7);
    let (mut count, mut sum) = (0, 0);
    for _ in 0..40 {
        let most = *random.pick(&[10, 1000, 60_000, 300_000]);
        let added = 1 + random.below(most);
        let (low, high) = (count + 1, count + added);
        assert_eq!(
            rows(&session, &format!("INSERT INTO t SELECT value FROM generate_series({low}, {high})")).await,
            [added.to_string()]
        );
        count += added;
        sum += (low + high) * added / 2;
        assert_eq!(rows(&session, "SELECT count(*), sum(i) FROM t").await, [format!("{count}|{sum}")]);
    }
    let segment_count = integer(&session, SEGMENT_COUNT).await;
    assert!(segment_count < 25, "{segment_count}");
    rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    let first = rows(&session, &format!("SELECT i FROM t LIMIT 1 OFFSET {}", count - 1)).await;
    assert_eq!(first, [count.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_beside_each_other_and_beside_replacement_lose_nothing() {
    let folder = Folder::new();
    let database = open(&folder.path().join("db"));
    let session = database.session();
    rows(&session, "CREATE TABLE t (i BIGINT)").await;
    let writers = (0..4).map(|writer| {
        let session = database.session();
        tokio::spawn(async move {
            for step in 0..25 {
                rows(&session, &format!("INSERT INTO t VALUES ({})", 100 * writer + step)).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(rows(&session, "SELECT count(*), count(DISTINCT i) FROM t").await, ["100|100"]);
    // A replacement takes all rows that are there; those that are added after it, or beside it, stay.
    let writer = {
        let session = database.session();
        tokio::spawn(async move {
            for step in 1000..1050 {
                rows(&session, &format!("INSERT INTO t VALUES ({step})")).await;
            }
        })
    };
    for _ in 0..10 {
        rows(&session, "INSERT OVERWRITE t VALUES (-1)").await;
    }
    writer.await.unwrap();
    rows(&session, "INSERT INTO t VALUES (2000)").await;
    let found =
        rows(&session, "SELECT count(*) FILTER (WHERE i = -1), count(*) = count(DISTINCT i), max(i) FROM t").await;
    assert_eq!(found, ["1|true|2000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_is_not_merged_and_keeps_nobody_from_adding_rows() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    rows(&open(&path).session(), "CREATE TABLE t AS SELECT 1 AS i").await;
    let file = path.join("tables/00000000.segment");
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    // Of the page: the footer is whole, so that the table can be opened.
    damaged[40] ^= 1;
    fs::write(&file, &damaged).unwrap();
    let session = open(&path).session();
    rows(&session, "INSERT INTO t VALUES (2)").await;
    assert!(error(&session, "SELECT i FROM t").await.contains("00000000.segment"));
    assert_eq!(fs::read(&file).unwrap(), damaged, "what can be repaired by hand is not thrown away");
    drop(session);
    fs::write(&file, whole).unwrap();
    assert_eq!(rows(&open(&path).session(), "SELECT sum(i) FROM t").await, ["3"]);
}
