//! Many sessions on one database, many tasks in one session.

use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::datafusion::physical_plan::metrics::MetricValue;
use thermocline_engine::datafusion::physical_plan::{ExecutionPlan, collect};
use thermocline_engine::{Database, DatabaseOptions};
use thermocline_hardware::{Clock, SystemClock};
use tokio::time::timeout;

use crate::harness::{self, FIRST, Folder, MIB, Random, integer, numbered_csv, numbered_ndjson, rows, try_rows};

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn the_same_miss_in_many_sessions_is_computed_once() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 300_000));
    let database = harness::database(512 * MIB);
    // On a busy machine keeping rows may look too dear, and positions are kept before them.
    rows(&database.session(), "SET thermocline.admission = 'eager'").await;
    let sql = format!("SELECT count(*), sum(id) FROM '{}' WHERE value >= 100", path.display());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let session = database.session();
            let sql = sql.clone();
            tokio::spawn(async move { rows(&session, &sql).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let session = database.session();
    assert_eq!(integer(&session, "SELECT count(*) FROM thermocline.decisions WHERE decision = 'admit'").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn sessions_under_a_starved_budget_answer_right_and_end() {
    let folder = Folder::new();
    let files: Vec<_> = (0..3)
        .map(|index| folder.file(&format!("t{index}.csv"), numbered_csv(FIRST + index * 1000, 20_000)))
        .chain(
            (0..3).map(|index| folder.file(&format!("t{index}.ndjson"), numbered_ndjson(FIRST + index * 1000, 20_000))),
        )
        .collect();
    harness::settle();
    let files = Arc::new(files);
    let database = harness::database(64 * MIB);
    rows(&database.session(), "SET thermocline.cache_memory = '700KiB'").await;
    let (clock, long_mode_ns) = (Arc::new(SystemClock::new()), harness::long_mode().as_nanos() as u64);
    let tasks: Vec<_> = (0..8)
        .map(|seed| {
            let session = database.session();
            let (files, clock) = (Arc::clone(&files), Arc::clone(&clock));
            tokio::spawn(async move {
                let mut random = Random::new(seed + 100);
                let mut asked = 0;
                while asked < 25 || clock.monotonic_ns() < long_mode_ns {
                    asked += 1;
                    let index = random.below(6) as usize;
                    let offset = (index % 3) as u64 * 1000;
                    let low = FIRST + random.below(25_000);
                    let high = low + random.below(5000);
                    let sql = if random.below(4) == 0 {
                        format!(
                            "SELECT count(*) FROM '{a}' x JOIN '{b}' y ON x.id = y.id WHERE x.id BETWEEN {low} AND {high}",
                            a = files[index].display(),
                            b = files[(index + 3) % 6].display()
                        )
                    } else {
                        format!("SELECT count(*) FROM '{}' WHERE id BETWEEN {low} AND {high}", files[index].display())
                    };
                    let first = FIRST + offset;
                    let last = first + 19_999;
                    let expected = (high.min(last) + 1).saturating_sub(low.max(first)) as i64;
                    assert_eq!(integer(&session, &sql).await, expected, "seed {seed}: {sql}");
                }
            })
        })
        .collect();
    for task in tasks {
        let limit = Duration::from_secs(240) + harness::long_mode();
        timeout(limit, task).await.expect("a session hangs").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partitions_of_a_scan_run_side_by_side() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 300_000));
    let options = DatabaseOptions { memory_bytes: Some(512 * MIB), threads: Some(2), ..DatabaseOptions::default() };
    let session = Database::open(options).unwrap().session();
    for (cache, low) in [("off", 100), ("on", 101), ("on", 102)] {
        rows(&session, &format!("SET thermocline.cache = '{cache}'")).await;
        let sql = format!("SELECT sum(value), count(*) FROM '{}' WHERE value > {low}", path.display());
        let state = session.context().state();
        let mut busy_most = 0;
        // On a busy machine the second thread may get no processor before the first is done; not hundreds of times in a
        // row.
        for _ in 0..400 {
            if busy_most == 2 {
                break;
            }
            let logical = state.create_logical_plan(&sql).await.unwrap();
            let plan = state.create_physical_plan(&logical).await.unwrap();
            collect(Arc::clone(&plan), state.task_ctx()).await.unwrap();
            busy_most = busy_partitions(&plan);
        }
        assert_eq!(busy_most, 2, "{sql}, cache {cache}");
    }
}

/// How many partitions of the scan at the bottom of `plan` gave rows.
fn busy_partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if let Some(input) = plan.children().first() {
        return busy_partitions(input);
    }
    let metrics = plan.metrics().unwrap();
    metrics.iter().filter(|metric| matches!(metric.value(), MetricValue::OutputRows(rows) if rows.value() > 0)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_nobody_reads_holds_nobody_up() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 200_000));
    let database = harness::database(512 * MIB);
    let sql = format!("SELECT id, value FROM '{}' WHERE value >= 100", path.display());
    let idle = database.session();
    let mut unread = idle.sql(&sql).await.unwrap();
    unread.next().await.unwrap().unwrap();
    let other = database.session();
    let counted = format!("SELECT count(*) FROM ({sql})");
    assert_eq!(integer(&other, &counted).await, 200_000);
    let mut rest = 0;
    while let Some(batch) = unread.next().await {
        rest += batch.unwrap().num_rows();
    }
    assert!(rest > 0);
}

/// Partial groups go through an exchange whose batches often find no room, and are spilled by two writers at once.
#[tokio::test(flavor = "multi_thread")]
async fn aggregates_whose_exchange_spills_end() {
    let counting = "SELECT g, count(DISTINCT t) AS n FROM (
                      SELECT value % 13 AS g, repeat('x', 26) || (value % 337) AS t FROM generate_series(1, 40000)
                    ) GROUP BY g";
    let mut answered = 0;
    for memory in (4..64).step_by(4) {
        // Least memory makes both writers spill at the same time most often.
        let memory_bytes = Some(memory * MIB / 64);
        let options = DatabaseOptions { memory_bytes, threads: Some(2), ..DatabaseOptions::default() };
        let session = Database::open(options).unwrap().session();
        rows(&session, "SET datafusion.execution.batch_size = 64").await;
        for _ in 0..3 {
            match timeout(Duration::from_secs(100), try_rows(&session, counting)).await.expect("the query hangs") {
                Ok(mut answer) => {
                    answer.sort();
                    let mut expected: Vec<String> = (0..13).map(|g| format!("{g}|337")).collect();
                    expected.sort();
                    assert_eq!(answer, expected, "{memory}");
                    answered += 1;
                }
                Err(error) => assert!(error.to_string().contains("Resources exhausted"), "{memory}: {error}"),
            }
        }
    }
    assert!(answered > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_ends_with_its_last_session_whatever_tables_it_has() {
    let folder = Folder::new();
    let file = folder.file("t.csv", numbered_csv(FIRST, 100));
    for stored in [false, true] {
        let database = Database::open(DatabaseOptions {
            folder: stored.then(|| folder.path().join("db")),
            memory_bytes: Some(64 * MIB),
            threads: Some(2),
            ..DatabaseOptions::default()
        });
        let database = database.unwrap();
        let session = database.session();
        rows(&session, &format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'", file.display())).await;
        rows(&session, "CREATE VIEW of_file AS SELECT name, sum(id) AS ids FROM t GROUP BY name").await;
        let made = "CREATE TABLE made AS SELECT value AS id, 'n' || (value % 7) AS name FROM generate_series(1, 100)";
        rows(&session, made).await;
        let batches = session.sql("SELECT id, name FROM made").await.unwrap().collect().await.unwrap();
        session.register_batches("registered", batches[0].schema(), batches).unwrap();
        rows(&session, "CREATE VIEW seen AS SELECT name, count(*) AS n FROM made GROUP BY name").await;
        for table in ["made", "registered", "seen", "t", "of_file"] {
            let sql = format!("SELECT count(*), min(c) FROM (SELECT *, 1 AS c FROM {table})");
            assert_eq!(rows(&session, &sql).await.len(), 1);
        }
        assert_eq!(integer(&session, "SELECT sum(r.id) FROM registered r JOIN made m ON r.id = m.id").await, 5050);
        let database = {
            let weak = Arc::downgrade(&database);
            drop((session, database));
            weak
        };
        // Tasks of the last query may take a moment.
        harness::wait_until(&format!("the end of a database, stored: {stored}"), || database.upgrade().is_none());
    }
}
