//! Star queries over column tables: as fused pipelines they answer what DataFusion's operators answer.

use std::time::Duration;

use crate::column_stars::{Comparison, database, make_star, star_query, statement_of_several};
use crate::harness::{Folder, MIB, error, integer, rows, sorted_rows, try_rows};
use crate::pipelines_and_operators::{analyzed, both, is_fused, physical_plan};

#[tokio::test(flavor = "multi_thread")]
async fn random_star_queries_answer_the_same_with_and_without_pipelines() {
    let comparison =
        Comparison { queries: 500, queries_per_star: 50, fact_rows: [1, 900, 5000, 40_000], counted: "PipelineExec" };
    let compared = comparison.run(async |_, _| {}, star_query).await;
    compared.tally.assert_fused(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn random_statements_of_several_queries_answer_the_same_with_and_without_pipelines() {
    let comparison =
        Comparison { queries: 120, queries_per_star: 40, fact_rows: [1, 900, 5000, 20_000], counted: "pipeline_2" };
    let compared = comparison.run(async |_, _| {}, statement_of_several).await;
    compared.tally.assert_fused(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_segments_and_row_groups_are_one_table() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 5, 300_000).await;
    rows(&session, "INSERT INTO f SELECT id + 300000, a, b, m, tiny, v, price, discount, day, 'new ' || kind, town, flag, share, ratio,
            count32, count64, note FROM f WHERE id < 70000").await;
    rows(&session, "INSERT INTO a VALUES (111, 'late', 1, 3)").await;
    for sql in [
        "SELECT kind, a.name, sum(v), count(*) FROM f JOIN a ON f.a = a.k WHERE day > DATE '1994-03-01' GROUP BY kind, a.name",
        "SELECT kind, min(price), max(day) FROM f WHERE kind > 'kind 5' GROUP BY kind",
        "SELECT sum(price * discount) FROM f WHERE discount BETWEEN 0.02 AND 0.04 AND v < 100",
        "SELECT kind, sum(v) FROM f, a, b WHERE f.a = a.k AND f.b = b.k AND a.c = b.k GROUP BY kind",
        "SELECT id FROM (SELECT id, count(*) AS n FROM f WHERE v = 7 GROUP BY id) WHERE n > 1",
    ] {
        assert!(is_fused(&session, sql).await, "{sql}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
        rows(&session, "SET thermocline.cache = 'off'").await;
        assert_eq!(sorted_rows(&session, sql).await, stock, "{sql}");
        rows(&session, "SET thermocline.cache = 'on'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_repeat_multiply_rows() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 5000).await;
    let sql = "SELECT sum(m.x), count(*) FROM f JOIN m ON f.m = m.k";
    assert!(is_fused(&session, sql).await);
    let analyzed = analyzed(&session, sql).await;
    assert!(!analyzed.contains("fallbacks=1"), "{analyzed}");
    let (fused, stock) = both(&session, sql).await;
    assert_eq!(fused, stock);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_runs_as_pipelines_and_why_the_rest_does_not() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 5000).await;
    let sql = "SELECT c.region, sum(v) FROM f, a, c WHERE f.a = a.k AND a.c = c.k AND a.grp = 2 GROUP BY c.region";
    let explained = physical_plan(&session, sql).await;
    for part in [
        "public.c (row_groups=1 of 1): scan k: int64? #0, region: text? #1, build c by k with region; ",
        "probe c with c for region",
        "probe a with a for region",
        "aggregate sum(v) by region",
    ] {
        assert!(explained.contains(part), "{part}\n{explained}");
    }
    for (sql, reason) in [
        ("SELECT kind, stddev(v) FROM f GROUP BY kind", "is not computed in pipelines"),
        ("SELECT sum(v) FROM f LEFT JOIN a ON f.a = a.k", "a Left join"),
        ("SELECT sum(v) FROM f WHERE abs(v) > tiny", "abs(f.v) is not computed in pipelines"),
        // Told by statistics, without reading a row.
        ("SELECT max(v) FROM f", "PlaceholderRowExec"),
        ("SELECT sum(v) FROM f, m WHERE f.v > m.x", "m is not joined by an equality"),
        ("SELECT sum(x) FROM (SELECT x FROM m ORDER BY k LIMIT 5)", "Sort below the aggregate or join"),
    ] {
        let explained = physical_plan(&session, sql).await;
        assert!(explained.contains(reason), "{sql}: {reason}\n{explained}");
    }
    rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
    let explained = physical_plan(&session, sql).await;
    assert!(!explained.contains("PipelineExec") && !explained.contains("unfused"), "{explained}");
    assert!(error(&session, "SET thermocline.fused_pipelines = 'perhaps'").await.contains("expected 'on' or 'off'"));
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_by_texts_are_made_until_they_are_too_many() {
    let folder = Folder::new();
    let session = database(folder.path(), 512 * MIB).session();
    rows(
        &session,
        "CREATE TABLE t AS SELECT value AS v, 'a' || (value % 300) AS few, 'b' || (value / 300 % 400) AS more
         FROM generate_series(1, 1200000)",
    )
    .await;
    for (sql, fallbacks) in [
        ("SELECT few, count(*), sum(v) FROM t GROUP BY few", 0),
        // 120,000 of them.
        ("SELECT few, more, sum(v) FROM t GROUP BY few, more", 1),
    ] {
        let explained = analyzed(&session, sql).await;
        assert!(explained.contains("PipelineExec"), "{explained}");
        assert!(explained.contains(&format!("fallbacks={fallbacks}")), "{explained}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    // What is known of numbers says it beforehand.
    let explained = physical_plan(&session, "SELECT v, min(few) FROM t GROUP BY v").await;
    assert!(explained.contains("there may be too many groups"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_by_beginnings_of_many_texts_are_made_of_these() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    rows(
        &session,
        "CREATE TABLE t AS SELECT value AS v,
            CASE WHEN value % 50 = 3 THEN NULL ELSE (value % 37) || '-' || (value * 7919 % 1000003) END AS code,
            CASE WHEN value % 10 = 3 THEN 'none' ELSE CAST(value % 90 AS VARCHAR) END AS number
         FROM generate_series(1, 60000)",
    )
    .await;
    for (sql, fallbacks) in [
        ("SELECT substr(code, 1, 2), count(*), count(code), sum(v) FROM t WHERE code LIKE '1%' GROUP BY 1", 0),
        ("SELECT left(code, 1), right(code, 1), max(v) FROM t GROUP BY 1, 2", 0),
        // Each text is made a number of, also where no row is left that has it.
        ("SELECT CAST(CAST(number AS INT) + 1 AS VARCHAR), sum(v) FROM t WHERE number <> 'none' GROUP BY 1", 1),
    ] {
        let explained = analyzed(&session, sql).await;
        assert!(explained.contains(&format!("fallbacks={fallbacks}")), "{sql}\n{explained}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    // As many as went in.
    let explained = physical_plan(&session, "SELECT upper(code), sum(v) FROM t GROUP BY 1").await;
    assert!(explained.contains("too many different texts in t.code"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_of_one_value_are_parameters_of_pipelines() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 5000).await;
    std::fs::write(folder.path().join("limits.csv"), "least\n-200\n-100\n").unwrap();
    let location = folder.path().join("limits.csv").display().to_string();
    rows(&session, &format!("CREATE EXTERNAL TABLE limits STORED AS CSV LOCATION '{location}'")).await;
    // A subquery that is mentioned twice, one in another, one over files, and one without a row.
    for (sql, subqueries) in [
        ("SELECT sum(v), min(v) FROM f WHERE v > (SELECT avg(v) FROM f) OR 10 - v > (SELECT avg(v) FROM f)", 1),
        ("SELECT sum(v) FROM f WHERE v > (SELECT avg(v) FROM f WHERE tiny < (SELECT max(grp) FROM a))", 1),
        (
            "SELECT kind, max(v) FROM f, a WHERE f.a = a.k AND v BETWEEN (SELECT min(least) FROM limits) AND (SELECT max(weight) FROM b) GROUP BY kind",
            2,
        ),
        ("SELECT count(*), sum(v) FROM f WHERE v > (SELECT v FROM f WHERE id = -1) OR tiny = 3", 1),
        ("SELECT id, name FROM f JOIN a ON f.a = a.k WHERE price > (SELECT avg(price) FROM f WHERE flag)", 1),
        (
            "SELECT n FROM (SELECT a, count(*) AS n FROM f GROUP BY a) AS g JOIN a ON g.a = a.k WHERE n > (SELECT avg(grp) FROM a)",
            1,
        ),
    ] {
        let explained = analyzed(&session, sql).await;
        assert!(explained.contains(&format!("subqueries={subqueries}")), "{sql}\n{explained}");
        assert!(!explained.contains("ScalarSubqueryExec") && !explained.contains("fallbacks=1"), "{sql}\n{explained}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    let explained = physical_plan(&session, "SELECT sum(v) FROM f WHERE v + 1 > (SELECT max(weight) FROM b)").await;
    assert!(explained.contains("filter (int64(v) + int64 1) > int64 $0"), "{explained}");
    // Texts and lists are no parameters.
    for sql in [
        "SELECT count(*) FROM f WHERE kind > (SELECT min(name) FROM b)",
        "SELECT count(*) FROM f WHERE tiny > array_length((SELECT array_agg(grp) FROM a WHERE k < 7))",
    ] {
        let explained = physical_plan(&session, sql).await;
        assert!(explained.contains("holds a subquery"), "{explained}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    // What a subquery meets is said in the operators' words.
    for sql in [
        "SELECT sum(v) FROM f WHERE v > (SELECT x FROM m)",
        "SELECT sum(v) FROM f WHERE v > (SELECT sum(1 / (weight - weight)) FROM b)",
        "SELECT sum(v / (SELECT min(c) FROM a)) FROM f",
    ] {
        assert!(is_fused(&session, sql).await, "{sql}");
        let fused = error(&session, sql).await;
        rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
        assert_eq!(fused, error(&session, sql).await, "{sql}");
        rows(&session, "SET thermocline.fused_pipelines = 'on'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_texts_go_by_the_sessions_settings() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    let stamps = "CREATE TABLE t AS SELECT value AS v, '2024-05-0' || (1 + value % 9) || 'T0' || (value % 10) || ':30:00' AS stamp
                  FROM generate_series(1, 2000)";
    rows(&session, stamps).await;
    let sql = "SELECT count(*), sum(v) FROM t WHERE CAST(to_timestamp(stamp) AS VARCHAR) LIKE '%T03%' AND v > 0";
    assert!(is_fused(&session, sql).await);
    let mut answers = Vec::new();
    for zone in ["+00:00", "+09:00"] {
        rows(&session, &format!("SET datafusion.execution.time_zone = '{zone}'")).await;
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{zone}");
        answers.push(fused);
    }
    assert_ne!(answers[0], answers[1], "the zone makes no difference to this query");
}

#[tokio::test(flavor = "multi_thread")]
async fn overflows_are_those_of_the_operators() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    let limit = "99999999999999999999999999999999999999";
    rows(
        &session,
        &format!(
            "CREATE TABLE t AS SELECT i AS k, CAST(2147483647 - i AS INT) AS whole, 9223372036854775807 - i AS big,
                CAST({limit} AS DECIMAL(38, 0)) AS wide
             FROM (SELECT value AS i FROM generate_series(0, 9))"
        ),
    )
    .await;
    for sql in [
        "SELECT sum(whole * whole), sum(whole + whole) FROM t WHERE k >= 0",
        "SELECT k, sum(big) FROM t GROUP BY k",
        "SELECT sum(big) FROM t WHERE k >= 0",
        "SELECT avg(wide) FROM t WHERE k >= 0",
        "SELECT sum(wide * wide) FROM t WHERE k >= 0",
        "SELECT sum(wide) FROM t WHERE k >= 0",
    ] {
        assert!(is_fused(&session, sql).await, "{sql}");
        let fused = try_rows(&session, sql).await.map_err(|error| error.to_string());
        rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
        let stock = try_rows(&session, sql).await.map_err(|error| error.to_string());
        rows(&session, "SET thermocline.fused_pipelines = 'on'").await;
        let sorted = |mut rows: Vec<String>| {
            rows.sort();
            rows
        };
        assert_eq!(fused.map(sorted), stock.map(sorted), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_no_answer() {
    let folder = Folder::new();
    let database = database(folder.path(), 256 * MIB);
    let session = database.session();
    make_star(&session, 9, 400_000).await;
    let sql = "SELECT id, b.name, sum(v) FROM f JOIN b ON f.b = b.k GROUP BY id, b.name";
    let few = "SELECT kind, sum(v) FROM f JOIN b ON f.b = b.k WHERE b.weight > 0 GROUP BY kind";
    assert!(is_fused(&session, sql).await && is_fused(&session, few).await);
    let (expected, expected_few) = (sorted_rows(&session, sql).await, sorted_rows(&session, few).await);
    for memory in ["1GiB", "64MiB", "16MiB"] {
        rows(&session, &format!("SET thermocline.memory = '{memory}'")).await;
        assert_eq!(sorted_rows(&session, few).await, expected_few, "{memory}");
        // What does not fit is refused by pipelines, then by operators; what is answered is right.
        match try_rows(&session, sql).await {
            Ok(mut rows) => {
                rows.sort();
                assert_eq!(rows, expected, "{memory}");
            }
            Err(error) => assert!(error.to_string().contains("memory"), "{memory}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_nobody_waits_for_ends() {
    let folder = Folder::new();
    let database = database(folder.path(), 256 * MIB);
    let session = database.session();
    make_star(&session, 4, 600_000).await;
    // Reads take so long that the query would run for a quarter of a minute.
    rows(&session, "SET thermocline.simulated_bandwidth = '256KiB'").await;
    let asked = session.clone();
    let query =
        tokio::spawn(async move { try_rows(&asked, "SELECT kind, sum(id) FROM f WHERE v > 0 GROUP BY kind").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    query.abort();
    assert!(query.await.is_err_and(|error| error.is_cancelled()));
    rows(&session, "SET thermocline.simulated_bandwidth = 'none'").await;
    let mut waits = 0;
    while integer(&session, "SELECT count(*) FROM thermocline.pipelines WHERE is_running").await > 0 {
        assert!(waits < 1500, "it goes on");
        waits += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_zeros_are_equal_in_comparisons_of_columns() {
    let folder = Folder::new();
    let session = database(folder.path(), 64 * MIB).session();
    rows(
        &session,
        "CREATE TABLE z AS SELECT CASE WHEN value % 2 = 0 THEN -0.0 ELSE 0.0 END AS x,
            CASE WHEN value % 3 = 0 THEN -0.0 WHEN value % 3 = 1 THEN 0.0 ELSE 1.5 END AS y FROM generate_series(1, 600)",
    )
    .await;
    for condition in ["x = y", "x <> y", "x < y", "x >= y", "x + 0.0 = y", "NOT x > y"] {
        let sql = format!("SELECT count(*), count(CASE WHEN x = y THEN 1 END) FROM z WHERE {condition}");
        assert!(is_fused(&session, &sql).await, "{sql}");
        let (fused, stock) = both(&session, &sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn averages_of_long_decimals_are_those_of_the_operators() {
    let folder = Folder::new();
    let session = database(folder.path(), 64 * MIB).session();
    rows(
        &session,
        "CREATE TABLE d AS SELECT value % 3 AS g, CAST('0.9' AS DECIMAL(38, 38)) AS long,
            CAST('9999999999999999999999999999.99' AS DECIMAL(30, 2)) AS wide FROM generate_series(1, 4000)",
    )
    .await;
    for sql in [
        "SELECT avg(long), avg(wide) FROM d",
        "SELECT g, avg(long) FROM d GROUP BY g",
        "SELECT g, avg(wide) FROM d GROUP BY g",
    ] {
        assert!(is_fused(&session, sql).await, "{sql}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
}

/// The threads of a run work out a condition level by level, and have the room for that.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_of_hundreds_of_parts_run_in_pipelines() {
    let folder = Folder::new();
    let session = database(folder.path(), 128 * MIB).session();
    rows(&session, "CREATE TABLE t AS SELECT value AS a, value % 1000 AS b FROM generate_series(0, 99999)").await;
    let chain = (0..500).map(|part| format!("(a = {part} AND b = {part})")).collect::<Vec<_>>().join(" OR ");
    let sum = format!("{} > 0", vec!["a + b"; 400].join(" + "));
    for (condition, expected) in [(chain, "500"), (sum, "99999")] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(plan.contains("PipelineExec"), "{plan}");
        assert_eq!(rows(&session, &sql).await, [expected]);
    }
}
