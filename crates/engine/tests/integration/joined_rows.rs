//! Joins without an aggregate on top: as fused pipelines they give the rows that DataFusion's operators give.

use std::time::Duration;

use crate::column_stars::{Comparison, database, make_star, rows_query};
use crate::harness::{self, Folder, MIB, integer, rows, sorted_rows, try_rows};
use crate::pipelines_and_operators::{analyzed, both, is_fused, physical_plan};

#[tokio::test(flavor = "multi_thread")]
async fn random_joins_give_the_same_rows_with_and_without_pipelines() {
    let comparison =
        Comparison { queries: 300, queries_per_star: 50, fact_rows: [1, 900, 5000, 20_000], counted: "materialise " };
    let compared = comparison.run(async |_, _| {}, rows_query).await;
    compared.tally.assert_fused(2);
    let query_count = compared.tally.queries;
    assert!(compared.counted * 3 > query_count && compared.rows > 100 * query_count, "{compared:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_may_have_the_names_that_others_of_one_name_are_told_apart_by() {
    let session = harness::session();
    rows(&session, "CREATE TABLE a AS SELECT 1 AS k, 1 AS x").await;
    rows(&session, "CREATE TABLE b AS SELECT 1 AS k, 10 AS x, 20 AS \"x#1\", 30 AS \"x#3\"").await;
    let grouped = "SELECT a.x, b.x, b.\"x#1\", count(*) FROM a JOIN b ON a.k = b.k GROUP BY 1, 2, 3";
    for (sql, expected) in [
        (grouped, "1|10|20|1"),
        ("SELECT * FROM a JOIN b ON a.k = b.k", "1|1|1|10|20|30"),
        (
            "SELECT a.x, max(o.\"x#1\"), count(*) FROM a JOIN
                (SELECT b.x, c.x AS \"x#1\", count(*) AS n FROM b JOIN b c ON b.k = c.k GROUP BY b.x, c.x) o
                ON a.x = o.n GROUP BY a.x",
            "1|10|1",
        ),
    ] {
        assert_eq!(both(&session, sql).await, (vec![expected.to_owned()], vec![expected.to_owned()]), "{sql}");
    }
    assert!(is_fused(&session, grouped).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_given_out_while_the_pipeline_runs() {
    let folder = Folder::new();
    let database = database(folder.path(), 256 * MIB);
    let session = database.session();
    make_star(&session, 7, 600_000).await;
    let sql = "SELECT id, v, price, day, kind, note, b.name, b.weight FROM f JOIN b ON f.b = b.k AND b.weight > -100";
    // Two parts in three have one, which is more than is held back.
    let (fused, stock) = both(&session, sql).await;
    assert!(fused.len() > 400_000 && fused == stock, "{} and {} rows", fused.len(), stock.len());
    let shown = analyzed(&session, sql).await;
    assert!(
        shown.contains("materialise id, v, price, day, kind, note, name, weight") && shown.contains("fallbacks=0"),
        "{shown}"
    );
    // Who asks for no more ends it; nothing is left of it.
    let mut result = session.sql(sql).await.unwrap();
    assert!(result.next().await.unwrap().unwrap().num_rows() > 0);
    drop(result);
    let mut waits = 0;
    while integer(&session, "SELECT count(*) FROM thermocline.pipelines WHERE is_running").await > 0 {
        assert!(waits < 500, "it goes on");
        waits += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Nor does it go on when there are enough.
    let whole = physical_plan(&session, "SELECT id, note, b.name FROM f JOIN b ON f.b = b.k").await;
    assert!(whole.contains("too many different texts in f.note"), "{whole}");
    let limited = format!("{sql} WHERE f.tiny = 3 LIMIT 3");
    assert_eq!(rows(&session, &limited).await.len(), 3);
    let explained = physical_plan(&session, &limited).await;
    let pipeline = explained.lines().find(|line| line.contains("PipelineExec"));
    assert!(pipeline.is_some_and(|line| line.ends_with(", fetch=3")), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_computed_may_fail_only_where_operators_would() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 5, 600_000).await;
    // Whole numbers are divided: by zero, if a row has one.
    let few = "SELECT id, v, b.name FROM f JOIN b ON f.b = b.k WHERE 100 / b.weight > 30";
    let sound = "SELECT id, v, b.name FROM f JOIN b ON f.b = b.k WHERE b.weight > 0 AND id / b.weight > 3000";
    let many = "SELECT id, v, price, day, b.name FROM f JOIN b ON f.b = b.k WHERE id / (b.weight + 100) >= 0";
    for (sql, fallbacks) in [(few, None), (sound, Some(0)), (many, Some(1))] {
        assert!(is_fused(&session, sql).await, "{sql}");
        let fused = try_rows(&session, sql).await.map_err(|error| error.to_string());
        rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
        let stock = try_rows(&session, sql).await.map_err(|error| error.to_string());
        rows(&session, "SET thermocline.fused_pipelines = 'on'").await;
        let sorted = |mut rows: Vec<String>| {
            rows.sort();
            rows
        };
        assert_eq!(fused.is_ok(), fallbacks.is_some(), "{sql}");
        assert!(fused.map(sorted) == stock.map(sorted), "{sql}");
        if let Some(fallbacks) = fallbacks {
            let shown = analyzed(&session, sql).await;
            assert!(shown.contains(&format!("fallbacks={fallbacks}")), "{sql}\n{shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_below_what_is_left_to_operators_are_fused_but_none_below_another_join() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 5000).await;
    for (sql, parts) in [
        ("SELECT b.name, median(f.v) FROM f JOIN b ON f.b = b.k GROUP BY b.name", vec!["materialise v, name"]),
        ("SELECT f.id, f.v + b.weight, b.name FROM f JOIN b ON f.b = b.k", vec!["materialise id, v, name, weight"]),
        ("SELECT f.id, f.b, b.k FROM f JOIN b ON f.b = b.k WHERE f.v > 3", vec!["materialise id, b"]),
        (
            "SELECT x.id, row_number() OVER (ORDER BY x.v) FROM (SELECT f.id, f.v FROM f JOIN b ON f.b = b.k) AS x",
            vec!["materialise id, v"],
        ),
        (
            "SELECT f.id, g.n FROM f JOIN (SELECT k, count(*) AS n FROM m GROUP BY k) AS g ON f.m = g.k WHERE g.n > 1",
            vec!["aggregate count(*) by k", "materialise id, count(Int64(1))"],
        ),
        (
            "SELECT f.id FROM f WHERE f.v > (SELECT avg(m.x) FROM m WHERE m.k = f.m)",
            vec!["aggregate wide_sum(x), count(x) by k", "materialise id"],
        ),
        // The upper join is by more than equalities, so the lower one is its own matter.
        (
            "SELECT f.id FROM f JOIN b ON f.b = b.k LEFT JOIN a ON f.a = a.k AND a.grp > f.v",
            vec!["unfused=[a Left join"],
        ),
        ("SELECT f.id, abs(f.v) FROM f WHERE f.v < 3", vec!["ColumnScanExec"]),
    ] {
        let explained = physical_plan(&session, sql).await;
        for part in &parts {
            assert!(explained.contains(part), "{sql}: {part}\n{explained}");
        }
        let has_pipeline = parts.iter().any(|part| part.starts_with("materialise"));
        assert_eq!(explained.contains("PipelineExec"), has_pipeline, "{sql}\n{explained}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
        // Operators that take over would have the same rows.
        assert!(!analyzed(&session, sql).await.contains("fallbacks=1"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_compared_with_their_group_s_aggregate_wherever_they_are_looked_for() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 5000).await;
    let of_group = "SELECT b.k FROM b WHERE b.weight > (SELECT 0.5 * sum(m.x) FROM m WHERE m.k = b.k)";
    let sql = format!("SELECT f.id, f.b FROM f WHERE f.b IN ({of_group})");
    let all = "SELECT f.id, f.b FROM f WHERE f.b IN (SELECT b.k FROM b JOIN m ON m.k = b.k)";
    let explained = physical_plan(&session, &sql).await;
    assert!(explained.contains("materialise id, b") && explained.contains("groups of m"), "{explained}");
    let (fused, stock) = both(&session, &sql).await;
    assert_eq!(fused, stock);
    let row_count = sorted_rows(&session, all).await.len();
    assert!(!fused.is_empty() && fused.len() < row_count, "{} of {row_count}", fused.len());
    // Where the group's values are not wanted the join is one for rows that have such a group.
    let groups = "(SELECT k, sum(x) AS s FROM m GROUP BY k) AS g ON f.m = g.k";
    let sql = format!("SELECT f.id FROM f LEFT SEMI JOIN {groups} AND f.v < 5 * g.s");
    let explained = physical_plan(&session, &sql).await;
    assert!(explained.contains("materialise id"), "{explained}");
    let (fused, stock) = both(&session, &sql).await;
    assert_eq!(fused, stock);
    let row_count = sorted_rows(&session, &format!("SELECT f.id FROM f LEFT SEMI JOIN {groups}")).await.len();
    assert!(!fused.is_empty() && fused.len() < row_count, "{} of {row_count}", fused.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_no_row() {
    let folder = Folder::new();
    let database = database(folder.path(), 256 * MIB);
    let session = database.session();
    make_star(&session, 9, 300_000).await;
    let sql = "SELECT id, price, f.kind, b.name FROM f JOIN b ON f.b = b.k WHERE f.v > 0";
    assert!(is_fused(&session, sql).await);
    let expected = sorted_rows(&session, sql).await;
    for memory in ["1GiB", "64MiB", "24MiB"] {
        rows(&session, &format!("SET thermocline.memory = '{memory}'")).await;
        match try_rows(&session, sql).await {
            Ok(mut rows) => {
                rows.sort();
                assert!(rows == expected, "{memory}");
            }
            Err(error) => assert!(error.to_string().contains("memory"), "{memory}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_come_several_times_in_a_joined_table_are_compared_as_texts() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    let table = |name: &str, texts: u32, rows: u32| {
        format!(
            "CREATE TABLE {name} AS SELECT value AS k, 't' || (value * 7919 % {texts}) AS t FROM generate_series(1, {rows})"
        )
    };
    rows(&session, &table("f", 700, 30_000)).await;
    rows(&session, &table("a", 699, 2000)).await;
    for compared in ["<>", "=", "<"] {
        let sql = format!("SELECT f.k FROM f JOIN a ON f.k = a.k WHERE f.t {compared} a.t");
        assert!(is_fused(&session, &sql).await, "{sql}");
        let (fused, stock) = both(&session, &sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_fails_on_a_late_text_is_left_to_operators() {
    let folder = Folder::new();
    let session = database(folder.path(), 512 * MIB).session();
    rows(
        &session,
        "CREATE TABLE f AS SELECT value AS id, value % 50 AS k, 'a text that takes some room, number ' || (value % 900) AS pad,
            CASE WHEN value < 590000 THEN CAST(value % 800 AS VARCHAR) ELSE 'none' END AS t FROM generate_series(1, 600000)",
    )
    .await;
    rows(&session, "CREATE TABLE a AS SELECT value AS k, value * 3 AS w FROM generate_series(1, 50)").await;
    let sql = "SELECT f.id, f.pad, a.w FROM f JOIN a ON f.k = a.k WHERE TRY_CAST(f.t AS INT) > 5";
    assert!(is_fused(&session, sql).await);
    let (fused, stock) = both(&session, sql).await;
    assert!(fused.len() > 500_000 && fused == stock, "{} and {} rows", fused.len(), stock.len());
    // What is true or false of every text is given out as it is found.
    let sql = "SELECT f.id, f.pad, a.w FROM f JOIN a ON f.k = a.k WHERE upper(f.t) LIKE '%1%'";
    let shown = analyzed(&session, sql).await;
    assert!(shown.contains("PipelineExec") && shown.contains("fallbacks=0"), "{shown}");
}
