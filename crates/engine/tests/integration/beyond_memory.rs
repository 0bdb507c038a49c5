//! Sorts, joins and first rows that are larger than the memory that queries have.

use thermocline_engine::{Database, DatabaseOptions, Session};

use crate::harness::{Folder, MIB, rows};

/// A session of two threads over a table of half a million rows, which take twice 16 MB in a sort.
async fn session(folder: &Folder) -> Session {
    let options = DatabaseOptions {
        folder: Some(folder.path().to_owned()),
        memory_bytes: Some(512 * MIB),
        threads: Some(2),
        ..Default::default()
    };
    let session = Database::open(options).unwrap().session();
    let columns = "value AS id, value % 50 AS k, (value * 7919) % 100003 AS v, (value * 104729) % 99991 AS price";
    rows(&session, &format!("CREATE TABLE f AS SELECT {columns} FROM range(0, 500000)")).await;
    rows(&session, "CREATE TABLE d AS SELECT value AS k, value * 3 AS weight FROM range(0, 50)").await;
    session
}

/// The plan's operators.
async fn plan(session: &Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).await.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_larger_than_memory_is_answered_from_the_disk() {
    let folder = Folder::new();
    let session = session(&folder).await;
    for fused in ["true", "false"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = {fused}")).await;
        for sql in [
            "SELECT id, v, price FROM f ORDER BY price, id",
            "SELECT CAST(v AS VARCHAR) || 'a text behind it' AS t, id FROM f ORDER BY t, id",
            "SELECT f.id, f.v, d.weight FROM f JOIN d ON f.k = d.k ORDER BY f.price, f.id",
            "SELECT sum(id * r) FROM (SELECT id, row_number() OVER (PARTITION BY k ORDER BY price, id) AS r FROM f)",
            "SELECT sum(id * r) FROM (SELECT id, rank() OVER (ORDER BY price, id) AS r FROM f)",
            "SELECT v, count(*) AS n FROM f GROUP BY v ORDER BY n DESC, v LIMIT 10",
            "SELECT id, v, k, price FROM f ORDER BY price, id LIMIT 5 OFFSET 450000",
            "SELECT count(*), sum(a.v - b.price) FROM f a JOIN f b ON a.id = b.id + 1 AND a.price < b.v",
            "SELECT count(*), sum(a.v), count(b.id) FROM f a LEFT JOIN f b ON a.id = 2 * b.id",
            "SELECT count(*), sum(v) FROM f WHERE EXISTS (SELECT 1 FROM f g WHERE g.id = f.id + 3 AND g.v > f.price)",
            "SELECT count(*), sum(v) FROM f WHERE id NOT IN (SELECT id * 2 FROM f)",
        ] {
            rows(&session, "SET thermocline.memory = '512MiB'").await;
            let expected = rows(&session, sql).await;
            rows(&session, "SET thermocline.memory = '24MiB'").await;
            assert!(rows(&session, sql).await == expected, "{sql}, fused: {fused}");
        }
    }
}

/// Were what a sort holds counted by the batches that its rows were once part of, it would write a file for a few of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_sort_counts_the_rows_that_it_holds() {
    let folder = Folder::new();
    let session = session(&folder).await;
    rows(&session, "SET thermocline.memory = '24MiB'").await;
    for sql in [
        "SELECT id, v, price FROM f ORDER BY price, id",
        "SELECT f.id, f.v, d.weight FROM f JOIN d ON f.k = d.k ORDER BY f.price, f.id",
    ] {
        let analyzed = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await.concat();
        let counts = analyzed.split("spill_count=").skip(1);
        let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().map(str::parse::<u64>);
        let runs: u64 = counts.filter_map(number).map(Result::unwrap).sum();
        // Twelve million bytes, which take as many again for their keys.
        assert!((2..=12).contains(&runs), "{sql}: {runs}\n{analyzed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_spill_is_planned_where_there_is_memory_for_it() {
    let folder = Folder::new();
    let session = session(&folder).await;
    rows(&session, "SET thermocline.fused_pipelines = false").await;
    let join = |key: &str| format!("SELECT a.v, b.price FROM f a JOIN f b ON a.{key} = b.id + 1");
    let first = |fetch: usize| format!("SELECT * FROM f ORDER BY price, id LIMIT {fetch}");
    for (memory, is_enough) in [("512MiB", true), ("24MiB", false)] {
        rows(&session, &format!("SET thermocline.memory = '{memory}'")).await;
        let plans = [plan(&session, &join("id")).await, plan(&session, &first(400_000)).await];
        assert_eq!(plans[0].contains("HashJoinExec"), is_enough, "{}", plans[0]);
        assert_eq!(plans[0].contains("SortMergeJoin"), !is_enough, "{}", plans[0]);
        assert_eq!(plans[1].contains("TopK(fetch="), is_enough, "{}", plans[1]);
        // A small table, few rows, and keys whose zeros a merge would tell apart.
        let small = plan(&session, "SELECT f.v, d.weight FROM f JOIN d ON f.k = d.k").await;
        assert!(small.contains("HashJoinExec"), "{small}");
        let few = plan(&session, &first(10)).await;
        assert!(few.contains("TopK(fetch="), "{few}");
        let floats = plan(&session, "SELECT a.v FROM f a JOIN f b ON a.id * 0.5e0 = b.id * 1e0").await;
        assert!(floats.contains("HashJoinExec"), "{floats}");
    }
}
