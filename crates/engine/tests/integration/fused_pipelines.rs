//! Star queries over column tables: as fused pipelines they answer what DataFusion's operators answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Database, DatabaseOptions, Session};
use thermocline_hardware::{Clock, SystemClock};

use crate::harness::{Folder, MIB, Random, error, integer, long_mode, rows, sorted_rows, try_rows};

pub(crate) fn database(folder: &Path, memory_bytes: u64) -> Arc<Database> {
    let options = DatabaseOptions {
        folder: Some(folder.join("db")),
        memory_bytes: Some(memory_bytes),
        threads: Some(3),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

async fn physical_plan(session: &Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).await.join("\n")
}

pub(crate) async fn is_fused(session: &Session, sql: &str) -> bool {
    physical_plan(session, sql).await.contains("PipelineExec")
}

/// The rows with the rule and, by DataFusion's operators, without it.
pub(crate) async fn both(session: &Session, sql: &str) -> (Vec<String>, Vec<String>) {
    rows(session, "SET thermocline.fused_pipelines = 'on'").await;
    let fused = sorted_rows(session, sql).await;
    rows(session, "SET thermocline.fused_pipelines = 'off'").await;
    let stock = sorted_rows(session, sql).await;
    rows(session, "SET thermocline.fused_pipelines = 'on'").await;
    (fused, stock)
}

/// A fact table `f`, whose rows name those of `a`, `b` and, through `a`, `c`; `m` has keys twice, `e` no rows.
pub(crate) async fn make_star(session: &Session, seed: u64, fact_rows: u64) {
    let statements = [
        format!(
            "CREATE TABLE f AS SELECT i AS id,
                CASE WHEN i % 17 = {seed} % 17 THEN NULL ELSE CAST(i * 7919 % 120 AS INT) END AS a,
                CAST(i * 104729 % 70 - 5 AS BIGINT) AS b,
                CAST(i * 31 % 50 AS SMALLINT) AS m,
                CAST(i * 13 % 11 AS TINYINT) AS tiny,
                CASE WHEN i % 9 = 2 THEN NULL ELSE CAST(i * {seed} % 1000 - 300 AS INT) END AS v,
                CAST(i * 271 % 100000 AS DECIMAL(12, 2)) / 100 AS price,
                CAST(i % 11 AS DECIMAL(4, 2)) / 100 AS discount,
                DATE '1994-01-01' + CAST(i % 700 AS INT) AS day,
                CASE WHEN i % 13 = 0 THEN NULL ELSE 'kind ' || CAST(i * 3 % 7 AS VARCHAR) END AS kind,
                'b' || CAST(i * 11 % 5 AS VARCHAR) AS town,
                CASE WHEN i % 19 = 4 THEN NULL ELSE i % 3 = 0 END AS flag,
                CASE WHEN i % 21 = 5 THEN NULL ELSE CAST(i * 37 % 4000 - 1000 AS DOUBLE) / 8 END AS share,
                CAST(i * 41 % 300 AS REAL) / 4 AS ratio,
                CAST(i % 250 AS INT UNSIGNED) AS count32, CAST(i AS BIGINT UNSIGNED) * 1000003 AS count64
             FROM (SELECT value AS i FROM generate_series(1, {fact_rows}))"
        ),
        "CREATE TABLE a AS SELECT CAST(i AS INT) AS k, CASE WHEN i % 10 = 3 THEN NULL ELSE 'a' || CAST(i % 8 AS VARCHAR) END AS name,
            CAST(i % 5 AS TINYINT) AS grp, CAST(i % 12 AS BIGINT) AS c
         FROM (SELECT value AS i FROM generate_series(0, 110)) WHERE i % 6 <> 1"
            .to_string(),
        "CREATE TABLE b AS SELECT i AS k, 'b' || CAST(i % 4 AS VARCHAR) AS name, CAST(i * 3 AS INT) AS weight
         FROM (SELECT value AS i FROM generate_series(-3, 60))"
            .to_string(),
        "CREATE TABLE c AS SELECT i AS k, CASE WHEN i < 6 THEN 'north' ELSE 'south' END AS region
         FROM (SELECT value AS i FROM generate_series(0, 10))"
            .to_string(),
        "CREATE TABLE m AS SELECT CAST(i % 40 AS SMALLINT) AS k, CAST(i AS INT) AS x
         FROM (SELECT value AS i FROM generate_series(1, 60))"
            .to_string(),
        "CREATE TABLE e AS SELECT CAST(1 AS INT) AS k, 'nothing' AS name WHERE false".to_string(),
    ];
    for statement in statements {
        rows(session, &statement).await;
    }
}

fn some<'a>(random: &mut Random, options: &[&'a str], most: u64) -> Vec<&'a str> {
    let mut chosen: Vec<&str> = Vec::new();
    for _ in 0..random.below(most + 1) {
        let option = *random.pick(options);
        if !chosen.contains(&option) {
            chosen.push(option);
        }
    }
    chosen
}

/// What a random query takes from where, and what could be made of it.
struct Star {
    groups: Vec<&'static str>,
    values: Vec<&'static str>,
    /// `FROM` and `WHERE`.
    rows: String,
}

fn star(random: &mut Random) -> Star {
    let mut groups = vec![
        "f.tiny",
        "f.kind",
        "f.day",
        "f.v",
        "f.flag",
        "f.share",
        "f.count64",
        "f.tiny % 3",
        "extract(year FROM f.day)",
        "date_part('month', f.day)",
        "extract(dow FROM f.day)",
        "CASE WHEN f.tiny < 5 THEN 1 WHEN f.flag THEN 2 END",
    ];
    let mut values = vec![
        "f.v",
        "f.price",
        "f.price * f.discount",
        "f.price * (1 - f.discount)",
        "f.v - f.tiny",
        "f.id",
        "f.share",
        "f.ratio",
        "f.share * 2",
        "f.count32",
        "f.count64",
        "f.v / (f.tiny + 1)",
        "CASE WHEN f.tiny > 4 THEN f.v ELSE 0 END",
        "CASE f.kind WHEN 'kind 1' THEN f.price WHEN 'kind 2' THEN f.price * f.discount END",
        "CASE WHEN f.kind LIKE '%3' OR f.share > 100 THEN f.share WHEN f.v IS NULL THEN 1.5 ELSE f.ratio END",
        "CAST(f.price * 100 AS DOUBLE)",
        "extract(doy FROM f.day)",
    ];
    let mut conditions = vec![
        "f.v BETWEEN -100 AND 250",
        "f.kind = 'kind 3'",
        "f.kind IN ('kind 1', 'kind 5', 'no such')",
        "f.kind IS NULL OR f.kind > 'kind 4'",
        "f.kind LIKE 'kind%'",
        "f.v IS NOT NULL",
        "f.day >= DATE '1994-06-01' AND f.day < DATE '1995-06-01'",
        "f.discount < 0.05",
        "f.price > 900",
        "f.id % 2 = 0",
        "NOT (f.tiny = 3 OR f.tiny = 5)",
        "f.v = 12345",
        "f.flag",
        "NOT f.flag AND f.share < 100.5",
        "f.share > f.ratio",
        "f.v > f.tiny OR f.kind IS NULL",
        "NOT (f.v > f.tiny AND (f.flag OR f.kind = 'kind 2'))",
        "f.kind > f.town",
        "f.count32 BETWEEN 7 AND 200 OR f.ratio >= 50",
        "f.count64 > 5000015 OR f.share IS NULL",
        "f.v + 10 < f.tiny * 3",
        "f.kind LIKE '%d 3'",
        "f.kind NOT LIKE '%2'",
        "upper(f.kind) = 'KIND 5' OR f.tiny = 2",
        "NOT (f.kind LIKE '%3' OR f.tiny = 1)",
        "length(f.town) > 1 AND substr(f.kind, 6, 1) IN ('2', '4')",
        "coalesce(f.kind, 'none') LIKE 'n%'",
        "NOT (coalesce(f.kind, 'x3') LIKE '%3')",
        "extract(year FROM f.day) = 1995 AND extract(month FROM f.day) < 7",
        "CASE WHEN f.flag THEN f.v ELSE f.tiny END > 5",
        "f.price < 0.5 * f.v",
    ];
    let mut from = "f".to_string();
    if random.below(3) > 0 {
        from.push_str(" JOIN a ON f.a = a.k");
        groups.extend(["a.name", "a.grp"]);
        values.extend(["f.v * a.grp", "a.k"]);
        conditions.extend(["a.name = 'a2'", "a.grp <> 4", "a.name IS NULL", "a.name >= 'a3' AND a.grp < 3"]);
        conditions.extend(["a.name LIKE '%3'", "f.town LIKE '%1' OR a.name LIKE '%2'", "NOT (a.name LIKE '%a%')"]);
        values.push("CASE WHEN a.name LIKE '%5' THEN f.v ELSE a.grp END");
        if random.below(2) == 0 {
            from.push_str(" JOIN c ON a.c = c.k");
            groups.push("c.region");
            conditions.push("c.region = 'north'");
        }
    }
    if random.below(2) > 0 {
        from.push_str(" JOIN b ON b.k = f.b");
        groups.extend(["b.name", "b.weight"]);
        values.extend(["b.weight", "b.k", "b.k * b.weight"]);
        conditions.extend(["b.name = 'b1'", "b.weight > 30", "b.k < 0"]);
        if random.below(3) == 0 {
            // The second equality follows from the others.
            from.push_str(" JOIN c AS near ON near.k = f.b AND near.k = b.k");
            if random.below(2) == 0 {
                // Then its table lacks keys, and rows of `b` are sieved by it.
                from.push_str(" AND near.region = 'south'");
            }
            groups.push("near.region");
            values.push("near.k");
            conditions.extend(["near.region = 'south'", "near.k + b.weight > f.v", "near.k <> 4"]);
        }
    }
    match random.below(14) {
        0 => from.push_str(" JOIN m ON f.m = m.k"),
        1 => from.push_str(" JOIN e ON f.a = e.k"),
        2 => conditions.push("f.m IN (SELECT m.k FROM m WHERE m.x > 20)"),
        3 => conditions.push("EXISTS (SELECT 1 FROM b WHERE b.k = f.b AND b.weight < 50)"),
        4 => conditions.push("f.b NOT IN (SELECT b.k FROM b WHERE b.weight < 50)"),
        5 => conditions.push("NOT EXISTS (SELECT 1 FROM m WHERE m.k = f.m AND m.x > 30)"),
        6 => from.push_str(" JOIN b AS both ON both.k = f.b AND both.name = f.town"),
        7 => conditions.push("f.town IN (SELECT b.name FROM b WHERE b.weight > 90)"),
        _ => {}
    }
    let mut rows = format!("FROM {from}");
    let conditions = some(random, &conditions, 3);
    if !conditions.is_empty() {
        let conditions: Vec<String> = conditions.iter().map(|condition| format!("({condition})")).collect();
        rows.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    Star { groups, values, rows }
}

/// A query for some columns of a star's rows, all of them in no order or the first few.
pub(crate) fn rows_query(random: &mut Random) -> String {
    let Star { groups, values, rows } = star(random);
    let mut columns = some(random, &[groups, values].concat(), 5);
    if columns.is_empty() || random.below(2) == 0 {
        columns.push("f.id");
    }
    let columns: Vec<String> =
        columns.iter().enumerate().map(|(number, column)| format!("{column} AS c{number}")).collect();
    let first = if random.below(6) == 0 { " ORDER BY f.id LIMIT 7" } else { "" };
    let distinct = if first.is_empty() && random.below(8) == 0 { "DISTINCT " } else { "" };
    format!("SELECT {distinct}{} {rows}{first}", columns.join(", "))
}

/// A query for aggregates of a star's rows.
fn star_query(random: &mut Random) -> String {
    let filters = ["f.tiny > 3", "f.kind LIKE '%1'", "f.v IS NULL OR f.flag", "f.day < DATE '1995-01-01'"];
    let Star { groups, values, rows } = star(random);
    let groups = some(random, &groups, 3);
    let mut columns: Vec<String> = groups.iter().map(|group| (*group).to_string()).collect();
    for value in some(random, &values, 3) {
        let call = match random.below(7) {
            0 => format!("count({value})"),
            1 => format!("min({value})"),
            2 => format!("max({value})"),
            3 => format!("avg({value})"),
            4 => "count(*)".to_string(),
            _ => format!("sum({value})"),
        };
        let filter =
            if random.below(5) == 0 { format!(" FILTER (WHERE {})", random.pick(&filters)) } else { String::new() };
        let column = format!("{call}{filter}");
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.len() == groups.len() {
        columns.push("count(*)".to_string());
    }
    let mut sql = format!("SELECT {} {rows}", columns.join(", "));
    if !groups.is_empty() {
        sql.push_str(&format!(" GROUP BY {}", groups.join(", ")));
    }
    sql
}

#[tokio::test(flavor = "multi_thread")]
async fn random_star_queries_answer_the_same_with_and_without_pipelines() {
    let clock = SystemClock::new();
    let end_ns = long_mode().as_nanos() as u64;
    let mut fused_count = 0;
    let mut query_count = 0;
    let mut seed = 0;
    while query_count < 500 || clock.monotonic_ns() < end_ns {
        seed += 1;
        let folder = Folder::new();
        let session = database(folder.path(), 256 * MIB).session();
        let mut random = Random::new(seed);
        make_star(&session, seed, [1, 900, 5000, 40_000][seed as usize % 4]).await;
        for _ in 0..50 {
            let sql = star_query(&mut random);
            let (fused, stock) = both(&session, &sql).await;
            assert_eq!(fused, stock, "seed {seed}: {sql}");
            fused_count += usize::from(is_fused(&session, &sql).await);
            query_count += 1;
        }
    }
    assert!(fused_count * 2 > query_count, "{fused_count} of {query_count} ran as pipelines");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_segments_and_row_groups_are_one_table() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 5, 300_000).await;
    rows(&session, "INSERT INTO f SELECT id + 300000, a, b, m, tiny, v, price, discount, day, 'new ' || kind, town, flag, share, ratio,
            count32, count64 FROM f WHERE id < 70000").await;
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
    let analyzed = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
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
        let explained = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
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
