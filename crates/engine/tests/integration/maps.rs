//! Scans by positional maps give what ordinary scans give, in this process and in the next, and never what a file was
//! before.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::harness::{self, FIRST, Folder, MIB, Random, integer, numbered_csv, numbered_ndjson, rows};
use thermocline_engine::{Database, DatabaseOptions, Session};

/// A database that keeps its maps in a folder, or nowhere.
fn database(folder: Option<&Path>) -> Arc<Database> {
    let (memory_bytes, threads) = (Some(256 * MIB), Some(4));
    let folder = folder.map(Path::to_path_buf);
    harness::reopen(&DatabaseOptions { folder, memory_bytes, threads, ..DatabaseOptions::default() })
}

fn map_files(folder: &Path) -> usize {
    fs::read_dir(folder.join("maps")).unwrap().count()
}

async fn decided(session: &Session, kind: &str) -> i64 {
    integer(session, &format!("SELECT count(*) FROM thermocline.decisions WHERE decision = '{kind}'")).await
}

fn random_query(random: &mut Random, ndjson: &str, csv: &str) -> String {
    let low = random.below(1000);
    let high = low + random.below(200);
    let condition = match random.below(6) {
        0 => format!("value BETWEEN {low} AND {high}"),
        1 => format!("value > {low}"),
        2 => format!("id >= {} AND value < {high}", FIRST + low),
        3 => format!("name = 'n{}'", low % 7),
        4 => format!("name IN ('n1', 'n{}') AND value >= {low}", low % 7),
        _ => format!("NOT (value > {high}) OR value < {low}"),
    };
    let columns = *random.pick(&["count(*)", "count(*), sum(id)", "min(value), max(name)", "sum(value), count(name)"]);
    match random.below(4) {
        0 => format!("SELECT {columns} FROM '{csv}' WHERE {condition}"),
        1 => format!("SELECT count(*), sum(i.n), sum(id) FROM '{ndjson}' t, UNNEST(t.items) AS i WHERE {condition}"),
        2 => format!("SELECT sum(i.n), max(name) FROM '{ndjson}' t, UNNEST(t.items) AS i WHERE i.n > {}", low % 4),
        _ => format!("SELECT {columns} FROM '{ndjson}' WHERE {condition}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_answer_the_same_with_and_without_maps_at_any_budget() {
    let folder = Folder::new();
    let ndjson = folder.file("t.ndjson", numbered_ndjson(FIRST, 20_000)).display().to_string();
    let csv = folder.settled_file("t.csv", numbered_csv(FIRST, 20_000)).display().to_string();
    let kept = folder.path().join("kept.db");
    let mut used_count = 0;
    for (seed, cache_memory) in [(1, "none"), (2, "64KiB"), (3, "300KiB"), (4, "1MiB"), (5, "1MiB"), (6, "4MiB")] {
        let mut random = Random::new(seed);
        let database = database((seed % 2 == 0).then_some(&kept));
        let cached = database.session();
        let plain = harness::database(256 * MIB).session();
        rows(&cached, &format!("SET thermocline.cache_memory = '{cache_memory}'")).await;
        rows(&plain, "SET thermocline.cache = 'off'").await;
        for step in 0..50 {
            let sql = random_query(&mut random, &ndjson, &csv);
            assert_eq!(rows(&cached, &sql).await, rows(&plain, &sql).await, "seed {seed}, step {step}: {sql}");
            let limit = database.budget().cache_limit_bytes().unwrap_or(256 * MIB);
            let held = database.budget().cache_reserved_bytes();
            assert!(held <= limit, "{held} bytes are cached, {limit} allowed");
        }
        used_count += decided(&cached, "map_used").await;
    }
    assert!(used_count > 20, "{used_count} scans went by a map");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_serves_the_next_process_until_its_file_changes() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 5_000));
    let kept = folder.path().join("kept.db");
    let sql = format!("SELECT count(*), sum(id) FROM '{}' WHERE value > 500", path.display());
    let first = database(Some(&kept)).session();
    let expected = rows(&first, &sql).await;
    assert_eq!((decided(&first, "map_made").await, map_files(&kept)), (1, 1));
    let listed = rows(&first, "SELECT layout, columns, row_count FROM thermocline.cache_items WHERE layout = 'map'");
    assert_eq!(listed.await, ["map|id, value|0"]);

    drop(first);

    let second = database(Some(&kept)).session();
    assert_eq!(rows(&second, &sql).await, expected);
    assert_eq!((decided(&second, "map_loaded").await, decided(&second, "map_used").await), (1, 1));
    let mut second = Some(second);
    for change in [1, 2] {
        // The first time the map of the file as it was is held, the second time it lies in the folder.
        fs::write(&path, numbered_ndjson(FIRST + change, 5_000)).unwrap();
        harness::settle();
        let plain = harness::database(256 * MIB).session();
        let changed = rows(&plain, &sql).await;
        assert_ne!(changed, expected);
        let session = second.take().unwrap_or_else(|| database(Some(&kept)).session());
        let used_count = decided(&session, "map_used").await;
        assert_eq!(rows(&session, &sql).await, changed);
        assert_eq!(decided(&session, "map_used").await, used_count);
        assert_eq!(map_files(&kept), 1, "the map of the file as it is takes the place of the other");
    }
}

/// On one thread nothing is read until the query is waited for.
#[tokio::test]
async fn records_are_counted_by_the_map_of_the_file_as_it_was_opened() {
    let folder = Folder::new();
    let text = numbered_ndjson(FIRST, 5_000);
    let paths = ["grows.ndjson", "is_replaced.ndjson"].map(|name| folder.file(name, &text));
    harness::settle();
    let kept = folder.path().join("kept.db");
    let count = |path: &Path| format!("SELECT count(*) FROM '{}'", path.display());
    let first = database(Some(&kept)).session();
    for path in &paths {
        assert_eq!(integer(&first, &count(path)).await, 5_000);
    }
    assert_eq!(map_files(&kept), 2);
    drop(first);

    let other = folder.file("other", numbered_ndjson(FIRST, 10));
    for path in &paths {
        let second = database(Some(&kept)).session();
        let result = second.sql(&count(path)).await.unwrap();
        if path.ends_with("grows.ndjson") {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(numbered_ndjson(FIRST, 1).as_bytes()).unwrap();
        } else {
            fs::rename(&other, path).unwrap();
        }
        assert_eq!(harness::rendered(&result.collect().await.unwrap()), ["5000"], "{}", path.display());
        assert_eq!(decided(&second, "map_used").await, 1, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_cache_names_the_map_that_a_scan_would_go_by() {
    let folder = Folder::new();
    let ndjson = folder.file("t.ndjson", numbered_ndjson(FIRST, 5_000));
    let csv = folder.settled_file("t.csv", numbered_csv(FIRST, 5_000));
    for path in [ndjson, csv] {
        let session = database(None).session();
        // Whole columns would leave nothing to scan.
        rows(&session, "SET thermocline.admission = 'lazy'").await;
        let sql =
            |low: u64| format!("SELECT sum(id) FROM '{}' WHERE value > {low} AND value < {}", path.display(), low + 20);
        for low in [100, 200] {
            rows(&session, &sql(low)).await;
        }
        let explained = rows(&session, &format!("EXPLAIN CACHE {}", sql(600))).await.join("\n");
        assert!(explained.contains("by the positional map, item"), "{explained}");
        assert_eq!(decided(&session, "map_used").await, 0);
        rows(&session, &sql(600)).await;
        assert_eq!(decided(&session, "map_used").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_map_cannot_answer_for_is_scanned_without() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 3_000));
    let kept = folder.path().join("kept.db");
    let session = database(Some(&kept)).session();
    for (name, options) in [("strict", "strict 'true'"), ("skipping", "on_error 'skip'")] {
        let location = path.display();
        let sql = format!("CREATE EXTERNAL TABLE {name} STORED AS ndjson LOCATION '{location}' OPTIONS ({options})");
        rows(&session, &sql).await;
        for low in [100, 200, 300] {
            rows(&session, &format!("SELECT sum(id) FROM {name} WHERE value > {low} AND value < {low} + 20")).await;
        }
    }
    assert_eq!((decided(&session, "map_made").await, map_files(&kept)), (0, 0));
}
