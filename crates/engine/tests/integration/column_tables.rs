//! Tables in a database's folder: they hold what was written, in this process and the next, and change as a whole or
//! not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_engine::{Database, DatabaseOptions, Session};

use crate::harness::{
    self, FIRST, Folder, MIB, Random, error, integer, numbered_csv, numbered_ndjson, rows, sorted_rows,
};

fn database_of(folder: &Path, memory_bytes: u64) -> Arc<Database> {
    let options = DatabaseOptions {
        folder: Some(folder.to_path_buf()),
        memory_bytes: Some(memory_bytes),
        threads: Some(4),
        ..DatabaseOptions::default()
    };
    harness::reopen(&options)
}

/// A session of a database that nobody else has.
fn open(folder: &Path) -> Session {
    database_of(folder, 256 * MIB).session()
}

fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| !path.ends_with("manifest")).collect();
    files.sort();
    files
}

/// A query that makes rows of every type that tables can hold, with NULLs, from numbers `from` on.
fn rows_of_all_types(from: u64, count: u64) -> String {
    format!(
        "SELECT CASE WHEN i % 7 = 0 THEN NULL ELSE i END AS big,
                CAST(i % 100 AS TINYINT) AS tiny,
                CAST(CASE WHEN i % 11 = 3 THEN NULL ELSE i % 1000 END AS SMALLINT UNSIGNED) AS small,
                CAST(i AS INT) AS whole,
                CAST(i AS BIGINT UNSIGNED) * 1000003 AS positive,
                CASE WHEN i % 13 = 1 THEN 'NaN'::DOUBLE ELSE CAST(i AS DOUBLE) / 3 END AS fraction,
                CAST(i AS REAL) / 8 AS real_number,
                i % 3 = 0 AS flag,
                CASE WHEN i % 5 = 0 THEN NULL ELSE 'name ' || CAST(i % 17 AS VARCHAR) END AS name,
                repeat('long text ', CAST(i % 9 AS INT)) AS text,
                CAST(i AS DECIMAL(20, 3)) / 7 AS price,
                DATE '1992-01-01' + CAST(i % 2556 AS INT) AS day,
                to_timestamp(i * 1000) AS moment,
                CAST('b' || CAST(i AS VARCHAR) AS BYTEA) AS bytes
         FROM (SELECT value AS i FROM generate_series({from}, {}))",
        from + count - 1
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_has_the_rows_it_was_made_of_in_this_process_and_the_next() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let source = rows_of_all_types(1, 20_000);
    let session = open(&path);
    let expected = sorted_rows(&session, &source).await;
    rows(&session, &format!("CREATE TABLE t AS {source}")).await;
    assert_eq!(sorted_rows(&session, "SELECT * FROM t").await, expected);
    drop(session);
    let session = open(&path);
    assert_eq!(sorted_rows(&session, "SELECT * FROM t").await, expected);
    rows(&session, "SET thermocline.cache = 'off'").await;
    assert_eq!(sorted_rows(&session, "SELECT * FROM t").await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_come_in_order_stay_in_order() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(&session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 700000) ORDER BY value % 1000, value")
        .await;
    rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    let first = rows(&session, "SELECT i FROM t LIMIT 3").await;
    assert_eq!(first, ["1000", "2000", "3000"]);
    assert_eq!(
        rows(&session, "SELECT count(*), sum(i), min(i), max(i) FROM t").await,
        ["700000|245000350000|1|700000"]
    );
}

/// Queries with all kinds of filters, over the columns of [`rows_of_all_types`].
fn random_query(random: &mut Random) -> String {
    let low = random.below(600_000);
    let high = low + random.below(300_000);
    let condition = match random.below(9) {
        0 => format!("big BETWEEN {low} AND {high}"),
        1 => format!("big > {low} AND tiny < 50"),
        2 => format!("name = 'name {}' OR name IS NULL", low % 19),
        3 => format!("day < DATE '1992-01-01' + CAST({} AS INT)", low % 2600),
        4 => format!("fraction >= {low}.5 OR big IS NULL"),
        5 => format!("name LIKE 'name 1%' AND whole <> {low}"),
        6 => format!("NOT flag AND price < {high}"),
        7 => format!("whole IN ({low}, {high}, {})", low + 1),
        _ => "big IS NOT NULL".to_string(),
    };
    let columns = *random.pick(&[
        "count(*), sum(whole)",
        "count(big), min(name), max(name)",
        "sum(price), min(day), max(moment)",
        "count(DISTINCT name), sum(CASE WHEN flag THEN 1 ELSE 0 END)",
        "min(whole), max(whole), count(*)",
        "min(real_number), max(bytes)",
    ]);
    format!("SELECT {columns} FROM t WHERE {condition}")
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_answer_as_over_a_table_in_memory_at_any_budget() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    // Three row groups, ascending, so that some are left out; pages that do not all fit.
    let source = format!("{} ORDER BY i", rows_of_all_types(1, 600_000));
    let plain = harness::database(2048 * MIB).session();
    rows(&plain, &format!("CREATE TABLE t AS {source}")).await;
    rows(&open(&path), &format!("CREATE TABLE t AS {source}")).await;
    for (seed, memory_bytes) in [(1, MIB), (2, 16 * MIB), (3, 256 * MIB)] {
        let mut random = Random::new(seed);
        // What queries need for themselves is not the subject: the caches alone are starved.
        let session = database_of(&path, 256 * MIB).session();
        rows(&session, &format!("SET thermocline.cache_memory = '{}KiB'", memory_bytes / 1024)).await;
        for step in 0..60 {
            let sql = random_query(&mut random);
            assert_eq!(rows(&session, &sql).await, rows(&plain, &sql).await, "seed {seed}, step {step}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inserted_rows_are_added_and_overwriting_puts_them_in_the_place_of_the_others() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path);
    rows(&session, "CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR)").await;
    assert_eq!(integer(&session, "SELECT count(*) FROM t").await, 0);
    assert_eq!(rows(&session, "INSERT INTO t VALUES (1, 'one'), (2, NULL)").await, ["2"]);
    rows(&session, "INSERT INTO t (id) SELECT value FROM generate_series(3, 1000)").await;
    assert_eq!(rows(&session, "SELECT count(*), count(name), sum(id) FROM t").await, ["1000|1|500500"]);
    error(&session, "INSERT INTO t VALUES (NULL, 'none')").await;
    let message = error(&session, "INSERT INTO t SELECT NULLIF(value, 5), 'none' FROM generate_series(1, 10)").await;
    assert!(message.contains("column 'id' is NOT NULL, and a row has NULL there"), "{message}");
    assert_eq!(integer(&session, "SELECT count(*) FROM t").await, 1000);
    rows(&session, "INSERT OVERWRITE t VALUES (7, 'seven')").await;
    assert_eq!(rows(&session, "SELECT * FROM t").await, ["7|seven"]);
    assert_eq!(segment_files(&path).len(), 1);
    drop(session);
    assert_eq!(rows(&open(&path), "SELECT * FROM t").await, ["7|seven"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_inserts_from_itself_sees_itself_as_it_was() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(&session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)").await;
    rows(&session, "INSERT INTO t SELECT i + 1000 FROM t").await;
    assert_eq!(rows(&session, "SELECT count(*), sum(i) FROM t").await, ["2000|2001000"]);
    rows(&session, "CREATE OR REPLACE TABLE t AS SELECT i FROM t WHERE i <= 10").await;
    assert_eq!(rows(&session, "SELECT count(*), sum(i) FROM t").await, ["10|55"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_there_is_replaced_only_when_asked_to() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path);
    rows(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
    assert!(error(&session, "CREATE TABLE t AS SELECT 2 AS i").await.contains("already exists"));
    rows(&session, "CREATE TABLE IF NOT EXISTS t AS SELECT 2 AS i").await;
    assert_eq!(integer(&session, "SELECT i FROM t").await, 1);
    rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 'two' AS name").await;
    assert_eq!(rows(&session, "SELECT * FROM t").await, ["two"]);
    assert_eq!(segment_files(&path).len(), 1);
    rows(&session, "DROP TABLE t").await;
    assert!(error(&session, "SELECT * FROM t").await.contains("public.t' not found"));
    assert!(error(&session, "DROP TABLE t").await.contains("does not exist"));
    rows(&session, "DROP TABLE IF EXISTS t").await;
    assert_eq!(segment_files(&path), Vec::<PathBuf>::new());
    drop(session);
    assert!(error(&open(&path), "SELECT * FROM t").await.contains("public.t' not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_fails_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path);
    rows(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
    let failing = "SELECT 10 / (value - 399999) AS i FROM generate_series(1, 400000)";
    for statement in [
        format!("CREATE TABLE u AS {failing}"),
        format!("CREATE OR REPLACE TABLE t AS {failing}"),
        format!("INSERT INTO t {failing}"),
        format!("INSERT OVERWRITE t {failing}"),
    ] {
        let message = error(&session, &statement).await;
        assert!(message.to_lowercase().contains("divide by zero"), "{message}");
        assert_eq!(integer(&session, "SELECT i FROM t").await, 1);
        assert_eq!(segment_files(&path).len(), 1, "{statement}");
    }
    assert!(error(&session, "SELECT * FROM u").await.contains("public.u' not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_table_cannot_hold_is_refused_with_the_columns_name() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    for (query, expected) in [
        ("SELECT [1, 2] AS list", "'list'"),
        ("SELECT NULL AS nothing", "'nothing'"),
        ("SELECT struct(1, 2) AS pair", "'pair'"),
    ] {
        let message = error(&session, &format!("CREATE TABLE t AS {query}")).await;
        assert!(message.contains(expected), "{message}");
    }
    for statement in ["CREATE TABLE t (id BIGINT PRIMARY KEY)", "CREATE TEMPORARY TABLE t AS SELECT 1 AS i"] {
        error(&session, statement).await;
    }
    assert!(error(&session, "SELECT * FROM t").await.contains("public.t' not found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_reads_its_table_to_the_end_though_it_is_dropped_meanwhile() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path);
    rows(&session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1200000)").await;
    rows(&session, "SET thermocline.cache_memory = '1MiB'").await;
    let mut result = session.sql("SELECT i FROM t").await.unwrap();
    let mut row_count = result.next().await.unwrap().unwrap().num_rows();
    rows(&session, "DROP TABLE t").await;
    rows(&session, "CREATE TABLE t AS SELECT 5 AS i").await;
    while let Some(batch) = result.next().await {
        row_count += batch.unwrap().num_rows();
    }
    assert_eq!(row_count, 1_200_000);
    assert_eq!(integer(&session, "SELECT i FROM t").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_external_tables_are_kept_and_follow_what_they_are_made_of() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let csv = folder.file("t.csv", numbered_csv(FIRST, 100));
    let session = open(&path);
    rows(
        &session,
        &format!(
            "CREATE EXTERNAL TABLE raw STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            csv.display()
        ),
    )
    .await;
    rows(&session, "CREATE VIEW few AS SELECT id, value FROM raw WHERE value > 150").await;
    rows(&session, "CREATE VIEW fewer (number) AS SELECT id FROM few").await;
    drop(session);
    let session = open(&path);
    let before = integer(&session, "SELECT count(number) FROM fewer").await;
    assert!(before > 0);
    fs::write(&csv, numbered_csv(FIRST, 1000)).unwrap();
    harness::settle();
    assert!(integer(&session, "SELECT count(number) FROM fewer").await > before);
    assert!(error(&session, "CREATE VIEW few AS SELECT 1 AS x").await.contains("already exists"));
    assert!(error(&session, "DROP TABLE few").await.contains("is a view"));
    assert!(error(&session, "DROP VIEW raw").await.contains("is a table"));
    rows(&session, "CREATE OR REPLACE VIEW few AS SELECT 1 AS id").await;
    assert_eq!(integer(&session, "SELECT number FROM fewer").await, 1);
    rows(&session, "DROP VIEW few").await;
    assert!(error(&session, "SELECT * FROM fewer").await.contains("few"));
    let names = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(rows(&session, names).await, ["fewer|VIEW", "raw|BASE TABLE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_view_is_defined_by_itself() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
    rows(&session, "CREATE VIEW a AS SELECT * FROM t").await;
    rows(&session, "CREATE VIEW b AS SELECT * FROM a").await;
    for statement in ["CREATE OR REPLACE VIEW a AS SELECT * FROM a", "CREATE OR REPLACE VIEW a AS SELECT * FROM b"] {
        let message = error(&session, statement).await;
        assert!(message.contains("defined by"), "{message}");
    }
    assert_eq!(integer(&session, "SELECT i FROM b").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_files_become_tables_once_they_are_flat() {
    let folder = Folder::new();
    let ndjson = folder.file("t.ndjson", numbered_ndjson(FIRST, 500)).display().to_string();
    let session = open(&folder.path().join("db"));
    let flat = format!("SELECT t.id, i['n'] AS n FROM '{ndjson}' t, UNNEST(t.items) AS i");
    rows(&session, &format!("CREATE TABLE flat AS {flat}")).await;
    assert_eq!(sorted_rows(&session, "SELECT * FROM flat").await, sorted_rows(&session, &flat).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_an_error_that_names_the_table_and_the_file() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    rows(&open(&path), "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 100000)").await;
    let file = segment_files(&path).remove(0);
    rows(&open(&path), "CREATE TABLE other AS SELECT 1 AS j").await;
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    damaged[1000] ^= 4;
    let name = file.file_name().unwrap().to_str().unwrap();
    for bytes in [damaged, whole[..whole.len() / 2].to_vec()] {
        fs::write(&file, bytes).unwrap();
        let message = error(&open(&path), "SELECT sum(i) FROM t").await;
        assert!(message.contains("t") && message.contains(name), "{message}");
    }
    // What else is there can be listed.
    let listed = rows(&open(&path), "SELECT column_name, why FROM thermocline.columns ORDER BY 1").await;
    assert!(listed[0].contains("cannot be read") && listed[0].contains(name), "{listed:?}");
    assert!(listed[1].starts_with("j|") && !listed[1].contains("cannot"), "{listed:?}");
    fs::remove_file(&file).unwrap();
    let message = error(&open(&path), "SELECT sum(i) FROM t").await;
    assert!(message.contains(name), "{message}");
    fs::write(&file, whole).unwrap();
    assert_eq!(integer(&open(&path), "SELECT sum(i) FROM t").await, 5_000_050_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_registers_neither_hides_nor_drops_a_kept_table() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
    let batches = session.sql("SELECT 2 AS i").await.unwrap().collect().await.unwrap();
    let schema = batches[0].schema();
    let refusal = session.register_batches("t", schema.clone(), batches.clone()).unwrap_err().to_string();
    assert!(refusal.contains("kept in the database's folder"), "{refusal}");
    assert!(session.deregister("t").is_err());
    session.register_batches("u", schema, batches).unwrap();
    assert_eq!(rows(&session, "SELECT t.i, u.i FROM t, u").await, ["1|2"]);
    rows(&session, "CREATE OR REPLACE TABLE u AS SELECT 3 AS i").await;
    assert_eq!(rows(&session, "SELECT t.i, u.i FROM t, u").await, ["1|3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_other_schemas_are_kept_too() {
    let folder = Folder::new();
    let path = folder.path().join("db");
    let session = open(&path);
    rows(&session, "CREATE SCHEMA s").await;
    rows(&session, "CREATE TABLE s.t AS SELECT 1 AS i").await;
    rows(&session, "CREATE TABLE t AS SELECT 2 AS i").await;
    assert!(error(&session, "CREATE TABLE nowhere.t AS SELECT 1 AS i").await.contains("nowhere"));
    drop(session);
    assert_eq!(rows(&open(&path), "SELECT a.i, b.i AS j FROM s.t AS a, t AS b").await, ["1|2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_copied_out_can_be_read_again() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(
        &session,
        "CREATE TABLE t AS SELECT value AS i, 'n' || CAST(value AS VARCHAR) AS s FROM generate_series(1, 100)",
    )
    .await;
    for file in ["t.parquet", "t.csv", "t.json", "t.ndjson", "t.jsonl"] {
        let path = folder.path().join(file).display().to_string();
        assert_eq!(rows(&session, &format!("COPY t TO '{path}'")).await, ["100"]);
        let read = rows(&session, &format!("SELECT count(*), sum(i), min(s) FROM '{path}'")).await;
        assert_eq!(read, ["100|5050|n1"], "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn system_tables_and_explain_cache_tell_what_is_held_and_why() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(
        &session,
        "CREATE TABLE t AS SELECT value AS i, value % 1000 AS k FROM generate_series(1, 600000) ORDER BY value",
    )
    .await;
    rows(&session, "CREATE VIEW v AS SELECT i FROM t").await;
    let tables = "SELECT table_name, kind, row_count, segment_count FROM thermocline.tables ORDER BY 1";
    assert_eq!(rows(&session, tables).await, ["t|column table|600000|1", "v|view|0|0"]);
    let columns = "SELECT column_name, share_held, why, hit_count, miss_count FROM thermocline.columns ORDER BY 1";
    let untouched = "no query has read it lately|0|0";
    assert_eq!(rows(&session, columns).await, [format!("i|0.0|{untouched}"), format!("k|0.0|{untouched}")]);
    let explain = "EXPLAIN CACHE SELECT sum(k) FROM t WHERE k < 500";
    let before = rows(&session, explain).await.join("\n");
    assert!(before.contains("public.t|read|") && before.contains("0 B of"), "{before}");
    for _ in 0..2 {
        assert_eq!(rows(&session, "SELECT sum(k) FROM t WHERE k < 500").await, ["74850000"]);
    }
    let found = rows(&session, columns).await;
    assert!(found[0].ends_with(untouched), "{found:?}");
    assert!(found[1].starts_with("k|1.0|") && found[1].ends_with("|3|3"), "{found:?}");
    let after = rows(&session, explain).await.join("\n");
    assert!(after.contains("public.t|hit|") && after.contains("predicted to take"), "{after}");
    let pipelines = rows(&session, "SELECT pipeline, read_bytes > 0, predicted_s > 0 FROM thermocline.pipelines").await;
    assert_eq!(pipelines, ["public.t (k)|true|NULL", "public.t (k)|false|true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_do_not_depend_on_the_page_policy_or_the_speed_of_storage() {
    let folder = Folder::new();
    let session = open(&folder.path().join("db"));
    rows(&session, "CREATE TABLE t AS SELECT value AS i, value % 1000 AS k FROM generate_series(1, 600000)").await;
    rows(&session, "SET thermocline.cache_memory = '1MiB'").await;
    rows(&session, "SET thermocline.simulated_bandwidth = '200MB'").await;
    for policy in ["lru", "mru", "2q", "lfu", "os", "proportional"] {
        rows(&session, &format!("SET thermocline.page_policy = '{policy}'")).await;
        for _ in 0..3 {
            assert_eq!(rows(&session, "SELECT count(*), sum(i), max(k) FROM t").await, ["600000|180000300000|999"]);
        }
    }
    assert!(error(&session, "SET thermocline.page_policy = 'best'").await.contains("best"));
    let without_folder = harness::session();
    let message = error(&session, "SET thermocline.simulated_bandwidth = '0'").await;
    assert!(message.contains("expected bytes a second or 'none', found '0'"), "{message}");
    let message = error(&without_folder, "SET thermocline.simulated_bandwidth = '1GB'").await;
    assert!(message.contains("no folder"), "{message}");
    rows(&without_folder, "SET thermocline.page_policy = 'lru'").await;
    assert_eq!(rows(&without_folder, "SHOW thermocline.page_policy").await, ["thermocline.page_policy|lru"]);
}
