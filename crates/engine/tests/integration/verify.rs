//! `thermocline.verify`: what it compares, and what it takes for a difference.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{self, FIRST, Folder, csv_rows, numbered_csv, rows, try_rows};

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shown_though_they_are_others_in_each_run() {
    let session = harness::session();
    rows(&session, "SET thermocline.verify = true").await;
    assert_eq!(rows(&session, "SHOW thermocline.cache").await, ["thermocline.cache|on"]);
    assert!(rows(&session, "SHOW ALL").await.len() > 50);
    rows(&session, "CREATE VIEW seen AS SELECT * FROM information_schema.df_settings").await;
    let settings = "SELECT value FROM seen WHERE name = 'thermocline.fused_pipelines'";
    assert_eq!(rows(&session, settings).await, ["on"]);
    let within = "SELECT 1 AS one WHERE 'on' IN (SELECT value FROM information_schema.df_settings)";
    assert_eq!(rows(&session, within).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_add_between_the_runs_is_no_difference() {
    let folder = Folder::new();
    let path = folder.file("t.csv", numbered_csv(FIRST, 100));
    let session = harness::session();
    rows(&session, "CREATE TABLE t AS SELECT value FROM generate_series(1, 1000)").await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = {
        let (session, path, is_over) = (session.database().session(), path.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut next = FIRST + 100;
            while !is_over.load(Ordering::Relaxed) {
                rows(&session, "INSERT INTO t VALUES (1)").await;
                OpenOptions::new().append(true).open(&path).unwrap().write_all(csv_rows(next, 1).as_bytes()).unwrap();
                next += 1;
            }
        })
    };
    rows(&session, "SET thermocline.verify = true").await;
    for _ in 0..15 {
        for sql in
            ["SELECT count(*), sum(value) FROM t".to_owned(), format!("SELECT count(*) FROM '{}'", path.display())]
        {
            if let Err(error) = try_rows(&session, &sql).await {
                // A file that is written to while it is read may be refused.
                assert!(!error.to_string().contains("thermocline.verify"), "{error}");
            }
        }
    }
    is_over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_that_cancel_and_values_that_are_no_numbers_are_no_difference() {
    let session = harness::session();
    rows(&session, "SET thermocline.verify = true").await;
    rows(&session, "CREATE TABLE t AS SELECT value % 7 AS k, sin(value) * 10 AS x FROM generate_series(1, 20000)")
        .await;
    rows(&session, "INSERT INTO t SELECT k, -x FROM t").await;
    rows(&session, "INSERT INTO t VALUES (8, 'NaN'::DOUBLE), (9, 'Infinity'::DOUBLE)").await;
    assert_eq!(rows(&session, "SELECT k, sum(x) FROM t GROUP BY k").await.len(), 9);
    assert_eq!(
        rows(&session, "SELECT k, named_struct('s', sum(x), 'l', make_array(avg(x))) FROM t GROUP BY k").await.len(),
        9
    );
}
