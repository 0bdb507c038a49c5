//! Queries that end early, and files that change while they are read.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use thermocline_engine::Result;
use tokio::sync::oneshot;

use crate::harness::{self, FIRST, Folder, integer, numbered_ndjson};

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_result_leaves_the_session_and_the_caches_usable() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 200_000));
    let session = harness::session();
    let sql = format!("SELECT * FROM '{}' WHERE value > 0", path.display());
    for _ in 0..5 {
        let mut result = session.sql(&sql).await.unwrap();
        result.next().await.unwrap().unwrap();
        drop(result);
    }
    assert_eq!(integer(&session, &format!("SELECT count(*) FROM ({sql})")).await, 200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_query_ends_at_once() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 400_000));
    let session = harness::session();
    // All pairs with a million: hours.
    let sql = format!("SELECT sum(a.value + b.value) FROM '{}' a CROSS JOIN range(0, 1000000) b", path.display());
    let result = session.sql(&sql).await.unwrap();
    let progress = result.progress();
    let running = tokio::spawn(result.collect());
    // This thread is none of the workers, and may block.
    harness::wait_until("the query's first bytes", || progress.done_bytes() > 0);
    running.abort();
    harness::wait_until("the query's end", || running.is_finished());
    assert!(running.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(integer(&session, &format!("SELECT count(*) FROM '{}'", path.display())).await, 400_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_truncated_during_its_scan_fails_the_query_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 400_000));
    let session = harness::session();
    let mut result = session.sql(&format!("SELECT id FROM '{}' WHERE value > 0", path.display())).await.unwrap();
    result.next().await.unwrap().unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let mut outcome = Ok(());
    while let Some(batch) = result.next().await {
        if let Err(error) = batch {
            outcome = Err(error);
            break;
        }
    }
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("t.ndjson") && message.contains("chang"), "{message}");
    assert_eq!(integer(&session, "SELECT count(*) FROM thermocline.cache_items").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_replaced_by_rename_during_its_scan_is_read_to_its_end() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 400_000));
    let session = harness::session();
    let mut result = session.sql(&format!("SELECT id FROM '{}' WHERE value > 0", path.display())).await.unwrap();
    let mut count = result.next().await.unwrap().unwrap().num_rows();
    let other = folder.file("other", numbered_ndjson(FIRST, 10));
    std::fs::rename(other, &path).unwrap();
    while let Some(batch) = result.next().await {
        count += batch.unwrap().num_rows();
    }
    assert_eq!(count, 400_000);
    assert_eq!(integer(&session, &format!("SELECT count(*) FROM '{}' WHERE value > 0", path.display())).await, 10);
}

/// The answer of a query that was begun before `change` and read its file after it. (On one thread nothing is read until
/// the query is waited for.)
async fn answer_across(path: &Path, change: impl FnOnce(&Path)) -> Result<Vec<String>> {
    let session = harness::session();
    let result = session.sql(&format!("SELECT id FROM '{}'", path.display())).await?;
    // So that the file's times move.
    std::thread::sleep(Duration::from_millis(50));
    change(path);
    Ok(harness::rendered(&result.collect().await?))
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_file_that_is_rewritten_before_its_scan_begins_fails_the_query() {
    let folder = Folder::new();
    for (before, after) in [
        ("id\n1\n2\n", "id\n111111\n222222\n"),
        ("id\n1\n2\n", "id\n3\n4\n"),
        ("id\n1\n2\n", "id\n3\n"),
        // What looks like a row of the old file may be the beginning of a longer one.
        ("id\n1\n2", "id\n1\n25\n"),
    ] {
        let path = folder.file("t.csv", before);
        let outcome = answer_across(&path, |path| std::fs::write(path, after).unwrap()).await;
        let message = outcome.expect_err("neither version was to be answered from").to_string();
        assert!(message.contains("t.csv: ") && message.contains("changed"), "{before:?}: {message}");
    }
}

#[tokio::test]
async fn a_file_that_grows_or_is_replaced_before_its_scan_begins_is_read_as_it_was_opened() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "id\n1\n2\n");
    assert_eq!(answer_across(&path, |path| append(path, "3\n4")).await.unwrap(), ["1", "2"]);
    let path = folder.file("t.csv", "id\n1\n2");
    assert_eq!(answer_across(&path, |path| append(path, "\n3\n4")).await.unwrap(), ["1", "2"]);
    let path = folder.file("t.csv", "id\n1\n2\n");
    let other = folder.file("other", "id\n3\n4\n");
    assert_eq!(answer_across(&path, |path| std::fs::rename(other, path).unwrap()).await.unwrap(), ["1", "2"]);
}

/// What an earlier query has hashed tells a rewrite that ends lines where the old content did.
#[tokio::test]
async fn a_longer_file_with_another_beginning_is_not_taken_for_one_that_grew() {
    let folder = Folder::new();
    let path = folder.settled_file("t.csv", "id,value\n1,10\n2,20\n");
    let session = harness::session();
    // All of it is read, and nothing kept that would answer instead of the file.
    harness::rows(&session, "SET thermocline.admission = 'lazy'").await;
    harness::rows(&session, &format!("SELECT id FROM '{}' WHERE id > 0", path.display())).await;
    let result = session.sql(&format!("SELECT value FROM '{}'", path.display())).await.unwrap();
    std::fs::write(&path, "id,value\n1,30\n2,40\n3,50\n").unwrap();
    let error = result.collect().await.expect_err("its values were to come from the file alone").to_string();
    assert!(error.contains("t.csv: changed while it was read"), "{error}");
}

/// Joins that would take minutes: all pairs of a million rows, put out or thrown away.
const LONG_JOINS: [&str; 7] = [
    "SELECT sum(a.value + b.value) FROM range(0, 1000000) a CROSS JOIN range(0, 1000000) b",
    "SELECT count(*) FROM range(0, 1000000) a JOIN range(0, 1000000) b ON a.value + b.value < 0",
    "SELECT count(*) FROM range(0, 1000000) a LEFT JOIN range(0, 1000000) b ON a.value < b.value AND a.value > b.value",
    "SELECT count(*) FROM range(0, 1000000) a WHERE EXISTS (SELECT 1 FROM range(0, 1000000) b WHERE a.value + b.value < 0)",
    "SELECT count(*) FROM range(0, 1000000) a JOIN range(0, 1000000) b \
     ON a.value % 3 = b.value % 3 AND a.value + b.value < 0",
    "SELECT count(*) FROM range(0, 1000000) a WHERE a.value % 3 IN (SELECT b.value % 3 FROM range(0, 3000000) b)",
    "SELECT a.value % 7 AS k, sum(b.value) FROM range(0, 1000000) a JOIN range(0, 1000000) b ON a.value > b.value GROUP BY k",
];

/// How long the workers of a cancelled query may go on: far more than it takes on a busy machine, a fraction of what it
/// would take.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_cancelled_join_frees_its_workers() {
    for sql in LONG_JOINS {
        for drops_result in [false, true] {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let session = harness::session();
            // Whoever waits on workers must not be one, nor be told the time by them.
            let (stop, stopped) = oneshot::channel();
            let query = runtime.spawn({
                let session = session.clone();
                async move {
                    let mut result = session.sql(sql).await.unwrap();
                    let has_ended = tokio::select! {
                        _ = result.next() => true,
                        _ = stopped => false,
                    };
                    drop(result);
                    assert!(!has_ended, "{sql}\nhas ended");
                }
            });
            // For the join to be under way.
            std::thread::sleep(Duration::from_millis(200));
            if drops_result {
                stop.send(()).unwrap();
            } else {
                query.abort();
            }
            let (sender, answer) = mpsc::channel();
            runtime.spawn(async move { sender.send(integer(&session, "SELECT 1").await) });
            assert_eq!(answer.recv_timeout(PATIENCE), Ok(1), "{sql}");
            let mut waits = 0;
            while runtime.metrics().num_alive_tasks() > 0 {
                assert!(waits < PATIENCE.as_millis() / 10, "{sql}\ngoes on");
                std::thread::sleep(Duration::from_millis(10));
                waits += 1;
            }
            let ended = runtime.block_on(query);
            if drops_result {
                ended.unwrap();
            } else {
                assert!(ended.is_err_and(|error| error.is_cancelled()), "{sql}");
            }
            runtime.shutdown_background();
        }
    }
}
