//! What queries hold beside the caches is reserved for as long as they hold it, and given back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::datafusion::physical_plan::{ExecutionPlan, collect};
use thermocline_engine::{Database, DatabaseOptions, ErrorKind, Session};

use crate::harness::{self, Folder, MIB, integer, rendered, rows, try_rows};
use crate::pipelines_and_operators::is_fused;

/// A session without caches of a database with the table `t` of numbers without an order, `row_count` of them, beside
/// texts that hardly compress where it has any.
async fn session_of(folder: &Path, row_count: u64, text: &str) -> Session {
    let options = DatabaseOptions {
        folder: Some(folder.join("db")),
        memory_bytes: Some(256 * MIB),
        threads: Some(2),
        ..DatabaseOptions::default()
    };
    let session = Database::open(options).unwrap().session();
    let make = format!(
        "CREATE TABLE t AS SELECT value * value % 1000003 * 7919 % 1000000007 AS k, {text} AS text
         FROM generate_series(1, {row_count})"
    );
    rows(&session, &make).await;
    rows(&session, "SET thermocline.cache = 'off'").await;
    session
}

async fn planned(session: &Session, sql: &str) -> Arc<dyn ExecutionPlan> {
    session.context().sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// Reserved now, and at most, by accounts of this name.
fn reserved_bytes(session: &Session, name: &str) -> (u64, u64) {
    let accounts = session.database().budget().accounts();
    let of_name = accounts.iter().filter(|account| account.name == name);
    of_name.fold((0, 0), |(now, most), account| (now + account.reserved_bytes, most + account.peak_bytes))
}

/// Whether nothing is reserved any more as soon as what has run is gone.
async fn is_given_back(session: &Session, name: &str) -> bool {
    for _ in 0..500 {
        if reserved_bytes(session, name).0 == 0 {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

async fn column_bytes(session: &Session, column: &str) -> u64 {
    let sql = format!("SELECT size_bytes FROM thermocline.columns WHERE column_name = '{column}'");
    integer(session, &sql).await as u64
}

const SCAN: &str = "scan of public.t";

#[tokio::test(flavor = "multi_thread")]
async fn pages_past_the_pool_are_reserved_while_they_are_worked_on() {
    let folder = Folder::new();
    let session = session_of(folder.path(), 100_000, "'short'").await;
    let size_bytes = column_bytes(&session, "k").await;
    assert!(size_bytes > 200_000, "{size_bytes}");
    let sql = "SELECT sum(k) FROM t WHERE k > 5";
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        assert_eq!(is_fused(&session, sql).await, fused == "on");
        let expected = rows(&session, sql).await;
        let plan = planned(&session, sql).await;
        let found = collect(Arc::clone(&plan), session.context().task_ctx()).await.unwrap();
        assert_eq!(rendered(&found), expected);
        let (_, most) = reserved_bytes(&session, SCAN);
        // At least one of the threads had its part of them.
        assert!(most >= size_bytes / 4, "pipelines {fused}: {most} of {size_bytes} were reserved");
        assert!(is_given_back(&session, SCAN).await, "pipelines {fused}");
        drop(plan);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_group_past_the_pool_that_does_not_fit_into_memory_is_an_error_that_says_so() {
    let folder = Folder::new();
    let digits =
        |factor: u64| format!("CAST(value * value % {} * {factor} % 1000000007 AS VARCHAR)", 1_000_003 + factor);
    let text = (7919..7935).map(digits).collect::<Vec<_>>().join(" || ");
    let session = session_of(folder.path(), 100_000, &text).await;
    let size_bytes = column_bytes(&session, "text").await;
    assert!(size_bytes > 4 * MIB, "{size_bytes}");
    let sql = "SELECT max(text) FROM t";
    let expected = rows(&session, sql).await;
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        rows(&session, "SET thermocline.memory = '2MiB'").await;
        let error = try_rows(&session, sql).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resources, "{error}");
        let message = error.to_string();
        assert!(message.contains(SCAN) && message.contains("thermocline.memory"), "{message}");
        assert!(is_given_back(&session, SCAN).await);
        rows(&session, "SET thermocline.memory = '256MiB'").await;
        assert_eq!(rows(&session, sql).await, expected);
    }
}

/// Three row groups, of which two do not fit together.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_ahead_past_the_pool_for_which_there_is_no_memory() {
    let folder = Folder::new();
    let session = session_of(folder.path(), 600_000, "'short'").await;
    rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
    rows(&session, "SET datafusion.execution.target_partitions = 1").await;
    let sql = "SELECT sum(k), count(*) FROM t";
    let expected = rows(&session, sql).await;
    let limit_bytes = column_bytes(&session, "k").await * 3 / 4;
    rows(&session, &format!("SET thermocline.memory = '{}KiB'", limit_bytes / 1024)).await;
    assert_eq!(rows(&session, sql).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_table_reserves_nothing_for_footers_between_queries() {
    const FOOTERS: &str = "Parquet footers in use";
    let folder = Folder::new();
    let session = harness::session();
    let file = folder.path().join("p.parquet").display().to_string();
    rows(&session, &format!("COPY (SELECT value AS i FROM generate_series(1, 1000)) TO '{file}'")).await;
    rows(&session, &format!("CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{file}'")).await;
    assert_eq!(reserved_bytes(&session, FOOTERS).0, 0, "the table has been made");
    let plan = planned(&session, "SELECT sum(i) FROM p WHERE i > 5").await;
    assert!(reserved_bytes(&session, FOOTERS).0 > 0);
    drop(plan);
    assert!(is_given_back(&session, FOOTERS).await, "the plan is gone");
    assert!(is_fused(&session, "SELECT sum(i) FROM p WHERE i > 5").await);
    assert_eq!(integer(&session, "SELECT sum(i) FROM p").await, 500_500);
    assert!(is_given_back(&session, FOOTERS).await, "the query has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_scan_reads_of_a_parquet_file_is_reserved_while_it_is_held() {
    const SCANS: &str = "Parquet scans";
    let folder = Folder::new();
    let session = harness::session();
    let path = folder.path().join("t.parquet");
    let path = path.display();
    rows(&session, "SET datafusion.execution.parquet.compression = 'uncompressed'").await;
    rows(&session, "SET datafusion.execution.parquet.dictionary_enabled = false").await;
    let select = "SELECT value AS k, repeat(CAST(value AS VARCHAR), 20) AS text FROM generate_series(1, 100000)";
    rows(&session, &format!("COPY ({select}) TO '{path}'")).await;
    rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
    for cache in ["on", "off"] {
        rows(&session, &format!("SET thermocline.cache = '{cache}'")).await;
        let plan = planned(&session, &format!("SELECT text FROM '{path}' WHERE k % 2 = 0")).await;
        let found = collect(Arc::clone(&plan), session.context().task_ctx()).await.unwrap();
        // More than ten million bytes of text in all.
        let (_, most) = reserved_bytes(&session, SCANS);
        assert!(most > MIB, "cache {cache}: {most}");
        drop((plan, found));
        assert!(is_given_back(&session, SCANS).await, "cache {cache}");
    }
}
