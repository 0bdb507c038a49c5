//! No answer is ever stale: files change in every way a file can, between two runs of one query.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use std::time::SystemTime;

use crate::harness::{self, FIRST, Folder, integer, numbered_csv, numbered_ndjson, rows, session};
use thermocline_engine::Session;

/// Ways to name one file in SQL.
async fn names(session: &Session, path: &Path, format: &str) -> Vec<String> {
    let table = format!("registered_{format}");
    rows(session, &format!("CREATE EXTERNAL TABLE {table} STORED AS {format} LOCATION '{}'", path.display())).await;
    rows(session, &format!("CREATE VIEW view_{format} AS SELECT * FROM '{}'", path.display())).await;
    vec![format!("'{}'", path.display()), table, format!("view_{format}")]
}

/// `count(*)` and `sum(id)` through every name, asked twice so that a cached answer would show.
async fn check(session: &Session, names: &[String], expected: (i64, i64), what: &str) {
    for _ in 0..2 {
        for name in names {
            let count = integer(session, &format!("SELECT count(*) FROM {name} WHERE id >= 0")).await;
            let sum = integer(session, &format!("SELECT coalesce(sum(id), 0) FROM {name} WHERE id >= 0")).await;
            assert_eq!((count, sum), expected, "after {what}, through {name}");
        }
    }
}

fn sums(from: u64, count: u64) -> (i64, i64) {
    (count as i64, (from..from + count).sum::<u64>() as i64)
}

fn text(format: &str, from: u64, count: u64) -> Vec<u8> {
    match format {
        "ndjson" => numbered_ndjson(from, count).into_bytes(),
        "csv" => numbered_csv(from, count).into_bytes(),
        _ => parquet(from, count),
    }
}

fn parquet(from: u64, count: u64) -> Vec<u8> {
    use std::sync::Arc;
    use thermocline_engine::arrow::array::{Int64Array, RecordBatch};
    use thermocline_engine::datafusion::parquet::arrow::ArrowWriter;
    let ids = Int64Array::from_iter_values(from as i64..(from + count) as i64);
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

async fn every_change(format: &str, wait: bool) {
    let folder = Folder::new();
    let path = folder.file(&format!("data.{format}"), text(format, FIRST, 5000));
    let settle = || {
        if wait {
            harness::settle();
        }
    };
    settle();
    let session = session();
    let names = names(&session, &path, format).await;
    check(&session, &names, sums(FIRST, 5000), "creation").await;

    fs::write(&path, text(format, FIRST + 7, 5000)).unwrap();
    check(&session, &names, sums(FIRST + 7, 5000), "overwriting").await;

    settle();
    check(&session, &names, sums(FIRST + 7, 5000), "waiting").await;
    #[allow(clippy::disallowed_methods, reason = "a file's real stamp is what is tested")]
    let touched = FileTimes::new().set_modified(SystemTime::now());
    File::options().write(true).open(&path).unwrap().set_times(touched).unwrap();
    check(&session, &names, sums(FIRST + 7, 5000), "touching").await;

    fs::write(&path, text(format, FIRST + 3, 100)).unwrap();
    check(&session, &names, sums(FIRST + 3, 100), "truncating to a shorter file").await;

    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&text(format, FIRST + 11, 9000)).unwrap();
    drop(file);
    check(&session, &names, sums(FIRST + 11, 9000), "rewriting longer in place").await;

    settle();
    let other = folder.file("other", text(format, FIRST + 20, 9000));
    fs::rename(other, &path).unwrap();
    check(&session, &names, sums(FIRST + 20, 9000), "replacing by rename").await;

    settle();
    check(&session, &names, sums(FIRST + 20, 9000), "waiting again").await;
    let before = fs::metadata(&path).unwrap();
    let content = text(format, FIRST + 21, 9000);
    if content.len() as u64 != before.len() {
        // Parquet compresses as it likes; there the size tells.
        assert_eq!(format, "parquet");
    }
    let mut file = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    file.write_all(&content).unwrap();
    file.set_times(FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
    drop(file);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before.modified().unwrap());
    check(&session, &names, sums(FIRST + 21, 9000), "restoring size and modification time").await;

    fs::remove_file(&path).unwrap();
    for name in &names {
        let message = harness::error(&session, &format!("SELECT count(*) FROM {name}")).await;
        assert!(message.contains("no such file"), "{message}");
    }
}

macro_rules! staleness_tests {
    ($($young:ident, $settled:ident: $format:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $young() {
            every_change($format, false).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $settled() {
            every_change($format, true).await;
        }
    )*};
}

staleness_tests! {
    ndjson_answers_follow_every_change_of_a_young_file, ndjson_answers_follow_every_change_of_a_settled_file: "ndjson";
    csv_answers_follow_every_change_of_a_young_file, csv_answers_follow_every_change_of_a_settled_file: "csv";
    parquet_answers_follow_every_change_of_a_young_file, parquet_answers_follow_every_change_of_a_settled_file: "parquet";
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_listed_anew_for_each_query() {
    let folder = Folder::new();
    folder.file("a.ndjson", numbered_ndjson(FIRST, 10));
    let session = session();
    let sql = format!("SELECT count(*) FROM '{}/'", folder.path().display());
    let glob = format!("SELECT count(*) FROM '{}/*.ndjson'", folder.path().display());
    assert_eq!(integer(&session, &sql).await, 10);
    let added = folder.file("b.ndjson", numbered_ndjson(FIRST, 5));
    assert_eq!(integer(&session, &sql).await, 15);
    assert_eq!(integer(&session, &glob).await, 15);
    fs::remove_file(added).unwrap();
    assert_eq!(integer(&session, &sql).await, 10);
    assert_eq!(integer(&session, &glob).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_table_follows_a_change_of_its_schema_unless_columns_were_declared() {
    let folder = Folder::new();
    let path = folder.file("t.ndjson", "{\"a\":1}\n");
    let session = session();
    let location = path.display();
    rows(&session, &format!("CREATE EXTERNAL TABLE inferred STORED AS NDJSON LOCATION '{location}'")).await;
    rows(&session, &format!("CREATE EXTERNAL TABLE declared (a BIGINT) STORED AS NDJSON LOCATION '{location}'")).await;
    rows(&session, "CREATE VIEW seen AS SELECT a FROM inferred").await;
    assert_eq!(rows(&session, "SELECT a FROM inferred").await, ["1"]);
    fs::write(&path, "{\"a\":\"text\",\"b\":2}\n").unwrap();
    assert_eq!(rows(&session, "SELECT a, b FROM inferred").await, ["text|2"]);
    let message = harness::error(&session, "SELECT a FROM declared").await;
    assert!(message.contains("t.ndjson") && message.contains("column a"), "{message}");
    assert_eq!(rows(&session, "SELECT a FROM seen").await, ["text"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_sees_tables_as_they_are_when_it_is_executed() {
    let folder = Folder::new();
    for session in [session(), crate::column_stars::database(folder.path(), 64 * harness::MIB).session()] {
        rows(&session, "CREATE TABLE t AS SELECT value % 5 AS k, value AS v FROM generate_series(1, 1000)").await;
        rows(&session, "PREPARE all_of(BIGINT) AS SELECT k, count(*) FROM t WHERE k = $1 GROUP BY k").await;
        assert_eq!(rows(&session, "EXECUTE all_of(3)").await, ["3|200"]);
        rows(&session, "INSERT INTO t VALUES (3, 1)").await;
        assert_eq!(rows(&session, "EXECUTE all_of(3)").await, ["3|201"]);
        rows(&session, "DROP TABLE t").await;
        let gone = harness::error(&session, "EXECUTE all_of(3)").await;
        assert!(gone.contains("not found"), "{gone}");
        rows(&session, "CREATE TABLE t AS SELECT 3 AS k").await;
        assert_eq!(rows(&session, "EXECUTE all_of(3)").await, ["3|1"]);
        assert_eq!(rows(&session, "EXECUTE all_of(4)").await, [""; 0]);
        rows(&session, "DEALLOCATE all_of").await;
        assert!(harness::error(&session, "EXECUTE all_of(3)").await.contains("does not exist"));
    }
}
