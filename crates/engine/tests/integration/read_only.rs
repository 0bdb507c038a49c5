//! Databases that are only read: by any number at once, whatever a crash has left in the folder, and without a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_engine::{Database, DatabaseOptions, Result, Session};

use crate::harness::{FIRST, Folder, MIB, error, integer, numbered_ndjson, reopen, rows};

fn options(folder: &Path, read_only: bool) -> DatabaseOptions {
    DatabaseOptions {
        folder: Some(folder.to_path_buf()),
        read_only,
        memory_bytes: Some(128 * MIB),
        threads: Some(2),
        ..DatabaseOptions::default()
    }
}

fn open(folder: &Path, read_only: bool) -> Result<Arc<Database>> {
    Database::open(options(folder, read_only))
}

fn reader(folder: &Path) -> Session {
    reopen(&options(folder, true)).session()
}

fn writer(folder: &Path) -> Arc<Database> {
    reopen(&options(folder, false))
}

/// All files below a folder with their bytes.
fn everything(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(everything(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

/// A database with a table of the numbers up to 1000, a view of it, and an external table.
async fn made(folder: &Folder) -> PathBuf {
    let path = folder.path().join("kept.db");
    let ndjson = folder.file("t.ndjson", numbered_ndjson(FIRST, 500));
    let session = writer(&path).session();
    for statement in [
        "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)".to_string(),
        "CREATE VIEW v AS SELECT i FROM t WHERE i <= 10".to_string(),
        format!("CREATE EXTERNAL TABLE e STORED AS NDJSON LOCATION '{}'", ndjson.display()),
    ] {
        rows(&session, &statement).await;
    }
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn any_number_read_a_folder_that_nobody_may_change_meanwhile() {
    let folder = Folder::new();
    let path = made(&folder).await;
    let before = everything(&path);
    let readers = [(); 3].map(|()| reader(&path));
    for session in &readers {
        assert_eq!(integer(session, "SELECT sum(i) FROM t").await, 500_500);
        assert_eq!(integer(session, "SELECT sum(i) FROM v").await, 55);
        assert_eq!(integer(session, "SELECT count(*) FROM e").await, 500);
        // The second scan makes a map, which stays in memory.
        assert_eq!(rows(session, "SELECT count(*), max(id) FROM e WHERE id > 100").await.len(), 1);
    }
    let refused = open(&path, false).unwrap_err().to_string();
    assert!(refused.contains("is open for reading in "), "{refused}");
    drop(readers);
    assert_eq!(everything(&path), before);
    let changing = writer(&path);
    let refused = open(&path, true).unwrap_err().to_string();
    assert!(refused.contains("is open for changes in this process already"), "{refused}");
    rows(&changing.session(), "INSERT INTO t VALUES (0)").await;
    drop(changing);
    assert_eq!(integer(&reader(&path), "SELECT count(*) FROM t").await, 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_change_the_folder_is_refused_and_what_is_in_memory_works() {
    let folder = Folder::new();
    let path = made(&folder).await;
    let before = everything(&path);
    let session = reader(&path);
    assert!(session.database().is_read_only());
    for statement in [
        "CREATE TABLE u AS SELECT 1 AS i",
        "CREATE TABLE u (i BIGINT)",
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS i",
        "INSERT INTO t VALUES (1)",
        "INSERT OVERWRITE t VALUES (1)",
        "CREATE VIEW w AS SELECT 1 AS i",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS i",
        "CREATE EXTERNAL TABLE f STORED AS NDJSON LOCATION 'nowhere.ndjson'",
        "DROP TABLE t",
        "DROP TABLE IF EXISTS e",
        "DROP VIEW v",
    ] {
        let message = error(&session, statement).await;
        let is_refused = message.contains("cannot be made, changed or dropped") && message.contains("open read-only");
        assert!(is_refused || message.contains("nowhere.ndjson"), "{statement}: {message}");
        assert!(!is_refused || message.contains("kept.db"), "{statement}: {message}");
    }
    // Nothing to change.
    rows(&session, "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS i").await;
    rows(&session, "DROP TABLE IF EXISTS nothing").await;
    rows(&session, "SET thermocline.page_policy = 'lru'").await;
    rows(&session, "SET thermocline.page_policy = 'os'").await;
    let batches = session.sql("SELECT 7 AS i").await.unwrap().collect().await.unwrap();
    session.register_batches("frame", batches[0].schema(), batches).unwrap();
    assert_eq!(integer(&session, "SELECT t.i FROM t JOIN frame USING (i)").await, 7);
    rows(&session, "DROP TABLE frame").await;
    let copy = folder.path().join("copy.csv");
    assert_eq!(rows(&session, &format!("COPY v TO '{}'", copy.display())).await, ["10"]);
    assert_eq!(integer(&session, "SELECT count(*) FROM thermocline.tables").await, 3);
    drop(session);
    assert_eq!(everything(&path), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_has_left_is_read_right_and_stays() {
    let folder = Folder::new();
    let path = made(&folder).await;
    // A load and a change of the manifest that were killed.
    fs::write(path.join("tables/00000001.segment"), "half a segment").unwrap();
    fs::write(path.join("tables/manifest.new"), "half a manifest").unwrap();
    fs::write(path.join("maps/0.new"), "half a map").unwrap();
    let before = everything(&path);
    assert_eq!(integer(&reader(&path), "SELECT sum(i) FROM t").await, 500_500);
    assert_eq!(everything(&path), before);
    assert_eq!(integer(&writer(&path).session(), "SELECT sum(i) FROM t").await, 500_500);
    assert!(!path.join("tables/00000001.segment").exists() && !path.join("tables/manifest.new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_folder_with_a_database_can_be_read() {
    let folder = Folder::new();
    let path = made(&folder).await;
    let missing = folder.path().join("missing.db");
    let refused = open(&missing, true).unwrap_err().to_string();
    assert!(refused.contains("missing.db") && refused.contains("not made where it is to be read"), "{refused}");
    assert!(!missing.exists());
    let nowhere = DatabaseOptions { read_only: true, ..DatabaseOptions::default() };
    assert!(Database::open(nowhere).unwrap_err().to_string().contains("needs a folder"));
    fs::write(path.join("thermocline.format"), "thermocline database, format 99\n").unwrap();
    assert!(open(&path, true).unwrap_err().to_string().contains("it is of format 99"));
    fs::write(path.join("thermocline.format"), "thermocline database, format 2\n").unwrap();
    let manifest = fs::read(path.join("tables/manifest")).unwrap();
    fs::write(path.join("tables/manifest"), &manifest[..manifest.len() - 3]).unwrap();
    assert!(open(&path, true).unwrap_err().to_string().contains("damaged"));
    fs::remove_file(path.join("tables/manifest")).unwrap();
    assert!(open(&path, true).unwrap_err().to_string().contains("no such file, expected one beside the"));
}
