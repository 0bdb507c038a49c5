//! Aggregates of many groups, and aggregates of aggregates, as pipelines: they answer what operators answer.

use crate::column_stars::{Comparison, database, make_star};
use crate::harness::{Folder, MIB, Random, rows};
use crate::pipelines_and_operators::{analyzed, both, is_fused, physical_plan};

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_caches_do_not_hold_are_those_of_the_operators() {
    let folder = Folder::new();
    let session = database(folder.path(), 512 * MIB).session();
    rows(
        &session,
        "CREATE TABLE t AS SELECT CASE WHEN value % 1000 = 7 THEN NULL ELSE value * 7919 % 90000 END AS near,
            value * 7919 % 90000 * 1000003 AS far, CAST(value % 300 AS SMALLINT) AS small,
            CASE WHEN value % 11 = 3 THEN NULL ELSE CAST(value % 977 - 400 AS INT) END AS v,
            CAST(value * 31 % 100000 AS DECIMAL(12, 2)) / 100 AS price, CAST(value % 4000 AS DOUBLE) / 8 AS share,
            CAST(value AS BIGINT UNSIGNED) * 1000003 AS count64, CAST('99999999999999999999' AS DECIMAL(30, 4)) * (value % 3) AS wide,
            DATE '1990-01-01' + CAST(value % 60000 AS INT) AS day, 'k' || (value % 5) AS kind
         FROM generate_series(1, 250000)",
    )
    .await;
    let columns = "count(*), count(v), sum(v), avg(v), min(v), max(price), sum(price), avg(price), sum(share), sum(count64), sum(wide), max(day)";
    for groups in ["near", "far", "near, small", "day, small", "small, far, v"] {
        for condition in ["v IS NULL OR v > -300", "kind LIKE '%3' AND v < 0", "v > 1000"] {
            let sql = format!("SELECT {groups}, {columns} FROM t WHERE {condition} GROUP BY {groups}");
            let analyzed = analyzed(&session, &sql).await;
            assert!(analyzed.contains("PipelineExec") && analyzed.contains("fallbacks=0"), "{sql}: {analyzed}");
            let (fused, stock) = both(&session, &sql).await;
            assert_eq!(fused, stock, "{sql}");
        }
    }
    // All rows' values, for which there is no room here.
    rows(&session, "SET thermocline.memory = '12MiB'").await;
    let sql = "SELECT count(*), sum(n) FROM (SELECT near, count(*) AS n, sum(price) FROM t GROUP BY near)";
    assert_eq!(rows(&session, sql).await, ["89911|250000"]);
}

/// A random query with an aggregate below another.
fn nested_query(random: &mut Random) -> String {
    let value = *random.pick(&["f.v", "f.price", "f.share", "f.id", "f.tiny"]);
    let call = *random.pick(&["sum", "avg", "min", "max", "count"]);
    let group = *random.pick(&["f.a", "f.b", "f.m", "f.tiny", "f.day", "f.id", "f.kind", "f.town"]);
    let condition = *random.pick(&["f.v > 0", "f.tiny < 7", "f.kind LIKE '%3'", "f.flag", "f.v = 12345", "true"]);
    let having = *random.pick(&["count(*) > 1", "sum(f.v) > 500", "min(f.price) < 100", "true"]);
    let of_a = *random.pick(&["d.grp = 2", "d.grp < 4", "d.name LIKE '%3'", "d.name = 'a2' AND d.grp <> 1", "true"]);
    let group_of_outer = *random.pick(&["g.tiny", "o.n", "o.g"]);
    let compared = *random.pick(&["<", ">=", "="]);
    let groups =
        format!("SELECT {group} AS g, {call}({value}) AS x, count(*) AS n FROM f WHERE {condition} GROUP BY {group}");
    match random.below(13) {
        0 => format!("SELECT n, count(*), max(x) FROM ({groups}) GROUP BY n"),
        1 => format!("SELECT count(*), max(x), min(g) FROM ({groups} HAVING {having})"),
        2 => format!(
            "SELECT d.name, count(*), sum(o.n), min(o.x) FROM a AS d JOIN
                (SELECT f.a AS g, {call}({value}) AS x, count(*) AS n FROM f WHERE {condition} GROUP BY f.a) o ON o.g = d.k
             WHERE {of_a} GROUP BY d.name"
        ),
        3 => format!(
            "SELECT sum(f.price), count(*) FROM f JOIN a AS d ON f.a = d.k WHERE {of_a}
                AND f.price {compared} (SELECT 0.5 * avg(i.price) FROM f i WHERE i.a = d.k)"
        ),
        4 => format!(
            "SELECT f.kind, count(*) FROM f JOIN a AS d ON f.a = d.k
             WHERE {of_a} AND d.k IN (SELECT f.a FROM f WHERE {condition} GROUP BY f.a HAVING {having}) GROUP BY f.kind"
        ),
        5 => format!(
            "SELECT count(*), sum(f.v) FROM f WHERE f.b {} (SELECT f.b FROM f WHERE {condition} GROUP BY f.b HAVING {having})",
            random.pick(&["IN", "NOT IN"])
        ),
        6 => format!(
            "SELECT f.tiny, count(*), max(o.x) FROM f JOIN
                (SELECT f.a AS g, f.m AS h, {call}({value}) AS x FROM f WHERE {condition} GROUP BY f.a, f.m) o
                ON f.a = o.g AND f.m = o.h GROUP BY f.tiny"
        ),
        7 => format!(
            "SELECT max(m), sum(c) FROM (SELECT n, min(x) AS m, count(*) AS c FROM ({groups}) GROUP BY n HAVING count(*) > 1)"
        ),
        8 => format!(
            "SELECT n, count(*), sum(x) FROM
                (SELECT e.k, count({value}) AS n, max({value}) AS x FROM b AS e LEFT JOIN f ON f.b = e.k AND {condition} GROUP BY e.k)
             GROUP BY n"
        ),
        9 => format!(
            "SELECT d.grp, count(*), count({value}), min({value}), sum(f.v), max(f.kind) FROM a AS d LEFT JOIN f ON d.k = f.a AND {condition}
             WHERE {of_a} GROUP BY d.grp"
        ),
        10 => format!(
            "SELECT g.kind, count(f.id), count(*), sum({value}) FROM f RIGHT JOIN f AS g ON g.id = f.b AND g.tiny = f.tiny AND {condition}
             GROUP BY g.kind"
        ),
        11 => format!(
            "SELECT {group_of_outer}, count(*), count(o.n), sum(o.n), max(o.x) FROM f AS g LEFT JOIN
                (SELECT f.a AS g, {call}({value}) AS x, count(*) AS n FROM f WHERE {condition} GROUP BY f.a HAVING {having}) o ON o.g = g.b
             WHERE {} GROUP BY {group_of_outer}",
            random.pick(&["o.n IS NULL", "(o.n IS NULL OR o.n > g.tiny)", "(o.g IS NULL OR g.tiny = 1)", "o.n > 2", "true"])
        ),
        _ => format!(
            "SELECT e.name, sum(f.v) FROM f, b AS e WHERE f.b = e.k AND e.weight < 60
                AND f.tiny {compared} (SELECT max(i.tiny) - 3 FROM f i WHERE i.b = e.k AND i.v > 0) GROUP BY e.name"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_aggregates_of_aggregates_answer_the_same_with_and_without_pipelines() {
    let comparison =
        Comparison { queries: 240, queries_per_star: 40, fact_rows: [1, 900, 5000, 60_000], counted: "groups of " };
    let compared = comparison.run(async |_, _| {}, nested_query).await;
    compared.tally.assert_fused(2);
    assert!(compared.counted * 3 > compared.tally.queries, "{compared:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_of_an_outer_join_s_matches_is_counted_by_key_first() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 3, 40_000).await;
    for (sql, is_grouped) in [
        ("SELECT g.tiny, count(f.v), count(*) FROM f AS g LEFT JOIN f ON f.b = g.id GROUP BY g.tiny", true),
        ("SELECT g.id, count(f.v), max(f.v) FROM f RIGHT JOIN f AS g ON f.b = g.id AND f.v > 5 GROUP BY g.id", true),
        // What would have to be told of rows without matches is not.
        ("SELECT g.tiny, count(coalesce(f.v, 1)) FROM f AS g LEFT JOIN f ON f.b = g.id GROUP BY g.tiny", false),
        (
            "SELECT g.tiny, count(*) FILTER (WHERE f.v IS NULL) FROM f AS g LEFT JOIN f ON f.b = g.id GROUP BY g.tiny",
            false,
        ),
        ("SELECT g.tiny, sum(g.v), count(f.v) FROM f AS g LEFT JOIN f ON f.b = g.id GROUP BY g.tiny", false),
        ("SELECT f.tiny, count(*) FROM f AS g LEFT JOIN f ON f.b = g.id GROUP BY f.tiny", false),
        // Groups of which there are more than rows that look for them.
        ("SELECT e.k, count(f.v) FROM b AS e LEFT JOIN f ON f.id = e.k GROUP BY e.k", false),
    ] {
        let plan = physical_plan(&session, sql).await;
        assert_eq!(plan.contains("outer probe groups of f"), is_grouped, "{sql}: {plan}");
        let (fused, stock) = both(&session, sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_few_rows_ask_for_are_made_for_these_alone() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    make_star(&session, 2, 40_000).await;
    let sql = "SELECT sum(f.v), count(*) FROM f JOIN a AS d ON f.a = d.k
               WHERE d.name = 'a2' AND f.v < (SELECT 0.5 * avg(i.v) FROM f i WHERE i.a = d.k)";
    assert!(is_fused(&session, sql).await);
    let plan = physical_plan(&session, sql).await;
    assert!(
        plan.contains("build keys of a by k; ") && plan.contains("semi-probe keys of a with a, aggregate"),
        "{plan}"
    );
    let (fused, stock) = both(&session, sql).await;
    assert_eq!(fused, stock);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_outer_join_does_not_find_is_null_whatever_it_is_computed_of() {
    let folder = Folder::new();
    let session = database(folder.path(), 256 * MIB).session();
    // Neither side's NULLs find each other.
    let without_sevens = "CASE WHEN value % 10 <> 7 THEN value END";
    rows(
        &session,
        &format!("CREATE TABLE e AS SELECT {without_sevens} AS k, value % 3 AS g FROM generate_series(1, 100)"),
    )
    .await;
    rows(
        &session,
        &format!("CREATE TABLE o AS SELECT ({without_sevens}) % 40 AS k, value AS v FROM generate_series(1, 1000)"),
    )
    .await;
    let groups = "(SELECT k, 1 AS one, CASE WHEN count(*) > 5 THEN 1 ELSE 0 END AS big, 2 * sum(v) AS twice,
                          coalesce(max(v), 7) AS most FROM o GROUP BY k)";
    for sql in [
        format!("SELECT count(e.k), count(r.twice), avg(r.twice) FROM e LEFT JOIN {groups} r ON e.k = r.k"),
        format!(
            "SELECT e.g, count(e.k), count(r.one), avg(r.big), sum(r.most)
             FROM e LEFT JOIN {groups} r ON e.k = r.k GROUP BY e.g"
        ),
        format!(
            "SELECT e.g, sum(CASE WHEN NOT (r.one IS NULL) THEN 1 ELSE 0 END),
                    sum(CASE WHEN r.one IS NULL OR r.most > 900 THEN 10 ELSE 0 END),
                    count(CASE WHEN r.one IS NOT NULL AND e.g = 1 THEN e.k END)
             FROM e LEFT JOIN {groups} r ON e.k = r.k GROUP BY e.g"
        ),
        "SELECT count(c), avg(c), min(c) FROM
            (SELECT e.k, (SELECT count(*) FROM o WHERE o.k = e.k) AS c FROM e)"
            .to_owned(),
    ] {
        let plan = physical_plan(&session, &sql).await;
        assert!(plan.contains("PipelineExec") && !plan.contains("JoinExec"), "{plan}");
        let (fused, stock) = both(&session, &sql).await;
        assert_eq!(fused, stock, "{sql}");
    }
    // Without an aggregate on top operators join what a pipeline has grouped.
    let sql = format!("SELECT e.k, r.one, r.big, r.most FROM {groups} r RIGHT JOIN e ON e.k = r.k");
    let (fused, stock) = both(&session, &sql).await;
    assert_eq!(fused, stock, "{sql}");
}
