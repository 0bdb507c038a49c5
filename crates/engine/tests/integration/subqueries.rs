//! Conditions that ask subqueries: what SQL says of NULLs and of aggregates without groups.

use thermocline_engine::Session;

use crate::harness::{self, Folder, error, integer, rows, sorted_rows};

/// `t` of `a` and `g`, and `u` of `b` and `h`: of `g` 1 and 3 there is nothing in `u`.
async fn session() -> Session {
    let session = harness::session();
    for sql in [
        "CREATE TABLE t AS SELECT * FROM (VALUES (5, 1), (9, 2), (0, 3), (NULL, 4)) v(a, g)",
        "CREATE TABLE u AS SELECT * FROM (VALUES (9, 2), (7, 2), (NULL, 4)) v(b, h)",
    ] {
        rows(&session, sql).await;
    }
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_of_no_rows_is_a_row() {
    let session = session().await;
    let max = "SELECT max(b) FROM u WHERE u.h = t.g";
    let count = "SELECT count(*) FROM u WHERE u.h = t.g";
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for (condition, expected) in [
            (format!("a NOT IN ({max})"), vec![]),
            (format!("a + 1 NOT IN ({max})"), vec!["2"]),
            (format!("a IN ({max})"), vec!["2"]),
            (format!("(a IN ({max})) IS NULL"), vec!["1", "3", "4"]),
            (format!("g = 1 OR a NOT IN ({max})"), vec!["1"]),
            (format!("a NOT IN ({count})"), vec!["1", "2"]),
            (format!("a IN ({count})"), vec!["3"]),
            (format!("g = 1 OR a IN ({count})"), vec!["1", "3"]),
            (format!("(a IN ({count})) IS NULL"), vec!["4"]),
            (format!("a NOT IN ({count} ORDER BY 1 LIMIT 1)"), vec!["1", "2"]),
            ("a NOT IN (SELECT DISTINCT count(*) FROM u WHERE u.h = t.g)".to_owned(), vec!["1", "2"]),
            (format!("a > ALL ({count})"), vec!["1", "2"]),
            (format!("EXISTS ({max})"), vec!["1", "2", "3", "4"]),
            (format!("NOT EXISTS ({max})"), vec![]),
            (format!("g = 1 OR NOT EXISTS ({max})"), vec!["1"]),
        ] {
            let sql = format!("SELECT g FROM t WHERE {condition} ORDER BY g");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_having_is_asked_of_an_aggregate_of_no_rows() {
    let session = session().await;
    let max = "SELECT max(b) FROM u WHERE u.h = t.g HAVING";
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for (condition, expected) in [
            ("EXISTS (SELECT 1 FROM u WHERE u.h = t.g HAVING count(*) > 1)".to_owned(), vec!["2"]),
            ("NOT EXISTS (SELECT 1 FROM u WHERE u.h = t.g HAVING count(*) > 1)".to_owned(), vec!["1", "3", "4"]),
            (format!("EXISTS ({max} count(*) = 0)"), vec!["1", "3"]),
            (format!("EXISTS ({max} max(b) IS NULL)"), vec!["1", "3", "4"]),
            (format!("a NOT IN ({max} count(*) > 1)"), vec!["1", "3", "4"]),
            (format!("a IN ({max} count(*) > 1)"), vec!["2"]),
            (format!("(a IN ({max} count(*) < 2)) IS NULL"), vec!["1", "3", "4"]),
        ] {
            let sql = format!("SELECT g FROM t WHERE {condition} ORDER BY g");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_are_null_of_columns_that_are_not_are_in_no_list() {
    let session = harness::session();
    let five = "(SELECT value FROM generate_series(5, 6))";
    for (condition, expected) in [
        (format!("nullif(a, 1) NOT IN {five}"), 2),
        (format!("CASE WHEN a > 1 THEN a END NOT IN {five}"), 2),
        (format!("TRY_CAST(CASE WHEN a = 2 THEN 'x' ELSE '1' END AS BIGINT) NOT IN {five}"), 2),
        ("nullif(a, 1) NOT IN (SELECT value FROM generate_series(5, 6) WHERE value > 9)".to_owned(), 3),
        ("a NOT IN (SELECT nullif(value, 5) FROM generate_series(5, 6))".to_owned(), 0),
        ("a + 1 NOT IN (SELECT value FROM generate_series(3, 6))".to_owned(), 1),
    ] {
        let sql = format!("SELECT count(*) FROM generate_series(1, 3) AS t(a) WHERE {condition}");
        assert_eq!(integer(&session, &sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subquery_beside_an_or_may_name_its_value_as_what_it_is_made_of() {
    let session = harness::session();
    for sql in [
        "CREATE TABLE f AS SELECT * FROM (VALUES (0.5, 1), (2.0, 2), (4.0, 3)) v(d, g)",
        "CREATE TABLE p AS SELECT * FROM (VALUES (0.5), (7.25)) v(n)",
    ] {
        rows(&session, sql).await;
    }
    for condition in [
        "d IN (SELECT CAST(n AS DECIMAL(10, 2)) AS n FROM p)",
        "g IN (SELECT CAST(n * 2 AS INT) AS n FROM p)",
        "d NOT IN (SELECT CAST(n * 4 AS DECIMAL(10, 2)) AS n FROM p) AND g <> 3",
    ] {
        let sql = format!("SELECT g FROM f WHERE g = 2 OR {condition} ORDER BY g");
        assert_eq!(rows(&session, &sql).await, ["1", "2"], "{sql}");
    }
}

/// While it runs, the join above tells the scans beneath the range of its keys.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_a_key_do_not_come_to_another_column_of_its_name() {
    let folder = Folder::new();
    let session = harness::session();
    let file = |name: &str| format!("'{}'", folder.path().join(format!("{name}.parquet")).display());
    for (name, query) in [
        ("x", "SELECT 5 AS k"),
        ("l", "SELECT 5 AS a, 10 AS c UNION ALL SELECT 6, 10"),
        ("few", "SELECT 5 AS b, 1 AS a"),
        ("many", "SELECT value AS b, 1 AS a FROM generate_series(5, 50)"),
    ] {
        rows(&session, &format!("COPY ({query}) TO {}", file(name))).await;
    }
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for r in ["few", "many"] {
            let sql = format!(
                "SELECT count(*) FROM {} x JOIN (SELECT l.a FROM {} l WHERE EXISTS \
                 (SELECT 1 FROM {} r WHERE r.b = l.a AND r.a < l.c)) s ON x.k = s.a",
                file("x"),
                file("l"),
                file(r)
            );
            assert_eq!(integer(&session, &sql).await, 1, "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_may_be_asked_among_what_is_selected() {
    let session = session().await;
    for (asked, expected) in [
        ("a IN (SELECT b FROM u)", ["-", "true", "-", "-"]),
        ("t.a IN (SELECT b FROM u)", ["-", "true", "-", "-"]),
        ("a IN (SELECT b FROM u WHERE b > 0)", ["false", "true", "false", "-"]),
        ("a NOT IN (SELECT b FROM u WHERE b > 8 ORDER BY b)", ["true", "false", "true", "-"]),
        ("a + 4 IN (SELECT max(b) FROM u)", ["true", "false", "false", "-"]),
        ("a IN (SELECT b FROM u WHERE b > 100)", ["false"; 4]),
        ("t.a IN (SELECT b FROM u WHERE u.h = t.g)", ["false", "true", "false", "-"]),
        ("EXISTS (SELECT 1 FROM u WHERE u.h = t.g)", ["false", "true", "false", "true"]),
        ("NOT EXISTS (SELECT * FROM u WHERE h = g)", ["true", "false", "true", "false"]),
        ("EXISTS (SELECT max(b) FROM u WHERE b > 100)", ["true"; 4]),
        ("EXISTS (SELECT b FROM u WHERE b > 100 LIMIT 1) OR a IN (VALUES (9), (0))", ["false", "true", "true", "-"]),
        ("EXISTS (SELECT b FROM u |> LIMIT 0)", ["false"; 4]),
        ("EXISTS (SELECT b AS h FROM u WHERE u.h = t.g LIMIT 1)", ["false", "true", "false", "true"]),
        ("EXISTS (SELECT max(b) FROM u WHERE u.h = t.g)", ["true"; 4]),
        ("a IN (SELECT max(b) FROM u WHERE u.h = t.g)", ["-", "true", "-", "-"]),
        ("a IN (SELECT count(*) FROM u WHERE u.h = t.g)", ["false", "false", "true", "-"]),
        ("a IN (SELECT b AS h FROM u WHERE u.h = t.g)", ["false", "true", "false", "-"]),
        ("a IN (SELECT max(b) FROM u GROUP BY h)", ["-", "true", "-", "-"]),
        ("a IN (SELECT b FROM u ORDER BY b LIMIT 1)", ["false", "false", "false", "-"]),
        ("5 NOT IN (SELECT b FROM u WHERE b > 0)", ["true"; 4]),
        ("(SELECT max(a) FROM t) IN (SELECT b FROM u)", ["true"; 4]),
        (
            "a IN (SELECT a FROM t WHERE a IN (SELECT b FROM u) OR EXISTS (SELECT 1 FROM u WHERE b = g))",
            ["false", "true", "false", "-"],
        ),
    ] {
        let sql = format!("SELECT coalesce(CAST(({asked}) AS VARCHAR), '-') FROM t ORDER BY g");
        assert_eq!(rows(&session, &sql).await, expected, "{asked}");
    }
    let named =
        session.sql("SELECT a IN (SELECT b FROM u), EXISTS (SELECT 1 FROM u) AS e FROM t").await.unwrap().schema();
    assert_eq!(named.field(0).name(), "a IN (SELECT b FROM u)");
    // Names that a subquery would take for its own.
    for (asked, expected) in [
        ("t.a IN (SELECT b FROM u AS t WHERE b > 0)", ["false", "true", "false", "-"]),
        ("t.a IN (SELECT t.g FROM t WHERE t.g > 1)", ["false", "false", "false", "-"]),
        ("a IN (SELECT a FROM t WHERE a > 5)", ["false", "true", "false", "-"]),
    ] {
        let sql = format!("SELECT coalesce(CAST(({asked}) AS VARCHAR), '-') FROM t ORDER BY g");
        assert_eq!(rows(&session, &sql).await, expected, "{asked}");
    }
    // Of what is known of many rows, and behind what other queries ask.
    for (sql, expected) in [
        ("SELECT max(a) IN (SELECT b FROM u), min(a) IN (SELECT b FROM u WHERE b > 0) FROM t", vec!["true|false"]),
        (
            "SELECT g > 2, count(*), (g > 2) IN (SELECT b > 8 FROM u WHERE b > 8) FROM t GROUP BY g > 2 ORDER BY 1",
            vec!["false|2|false", "true|2|true"],
        ),
        ("SELECT count(CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 END) FROM t", vec!["4"]),
        ("SELECT count(*) FILTER (WHERE a IN (SELECT b FROM u)), count(*) FROM t", vec!["1|4"]),
        ("SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.h = t.g) THEN g ELSE 0 END) AS s FROM t", vec!["6"]),
        (
            "SELECT a IN (SELECT b FROM u) AS m, count(*), sum(g) FROM t GROUP BY 1 ORDER BY 1",
            vec!["true|1|2", "NULL|3|8"],
        ),
        (
            "SELECT g, a IN (SELECT 9) AS m, count(*) FROM t GROUP BY ROLLUP (g, a IN (SELECT 9)) HAVING g > 2 ORDER BY 1, 2",
            vec!["3|false|1", "3|NULL|1", "4|NULL|1", "4|NULL|1"],
        ),
        (
            "SELECT g, sum(CASE WHEN NOT EXISTS (SELECT 1 FROM u WHERE u.h = t.g) THEN 1 END) OVER (ORDER BY g) AS s FROM t ORDER BY g",
            vec!["1|1", "2|1", "3|2", "4|2"],
        ),
        (
            "SELECT rank() OVER (ORDER BY a) IN (SELECT 2) FROM t WHERE a IS NOT NULL ORDER BY a",
            vec!["false", "true", "false"],
        ),
        ("SELECT count(*) FROM (SELECT i FROM (SELECT 5 IN (SELECT b FROM u) AS i)) WHERE i IS NULL", vec!["1"]),
    ] {
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
    }
    let of_value = "SELECT value IN (SELECT 1) FROM range(0, 3) ORDER BY value";
    assert_eq!(rows(&session, of_value).await, ["false", "true", "false"]);
    // As conditions have them.
    let nested = "SELECT sum(i) FROM (SELECT CASE WHEN a IN (SELECT b FROM u WHERE b IN (SELECT 9)) THEN 1 ELSE 0 END AS i FROM t)";
    assert_eq!(rows(&session, nested).await, ["1"]);
}

/// Of the first day there are events at two times, of the second one, of the third none.
#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_is_grouped_by_what_is_compared() {
    let session = harness::session();
    for sql in [
        "CREATE TABLE days AS SELECT DATE '2024-01-01' + CAST(value AS INT) AS day, value AS n FROM range(0, 3)",
        "CREATE TABLE ev AS SELECT CAST(t AS TIMESTAMP) AS time, k, code FROM (VALUES \
         ('2024-01-01 01:00:00', 1, '1'), ('2024-01-01 02:00:00', 1, '01'), ('2024-01-01 02:00:00', 2, 'x'), \
         ('2024-01-02 05:00:00', 2, '2')) v(t, k, code)",
    ] {
        rows(&session, sql).await;
    }
    let of_day = "FROM ev e WHERE CAST(e.time AS DATE) = d.day";
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for (selected, expected) in [
            (format!("EXISTS (SELECT 1 {of_day})"), ["true", "true", "false"]),
            (format!("EXISTS (SELECT 1 {of_day} AND e.k = d.n + 1)"), ["true", "true", "false"]),
            ("d.day IN (SELECT CAST(e.time AS DATE) FROM ev e)".to_owned(), ["true", "true", "false"]),
            ("d.day NOT IN (SELECT CAST(e.time AS DATE) FROM ev e WHERE k = 1)".to_owned(), ["false", "true", "true"]),
            (format!("(SELECT count(*) {of_day})"), ["3", "1", "0"]),
            (format!("(SELECT count(*) + 1 {of_day} AND k = 1)"), ["3", "1", "1"]),
            (format!("coalesce((SELECT max(k) {of_day} HAVING count(*) > 1), 0)"), ["2", "0", "0"]),
            (
                "(SELECT count(*) FROM ev e WHERE d.day = TRY_CAST(e.time AS DATE) AND k = 2)".to_owned(),
                ["1", "1", "0"],
            ),
            (
                "(SELECT count(*) FROM (SELECT k FROM ev WHERE date_trunc('day', time) = d.day))".to_owned(),
                ["3", "1", "0"],
            ),
            (
                "(SELECT count(*) FROM ev e JOIN ev f ON e.k = f.k WHERE CAST(f.time AS DATE) = d.day)".to_owned(),
                ["6", "2", "0"],
            ),
            // Behind the names of tables.
            (
                "(SELECT count(*) FROM (SELECT * FROM ev WHERE CAST(time AS DATE) = d.day) AS s)".to_owned(),
                ["3", "1", "0"],
            ),
            (
                "(SELECT max(s.c) FROM (SELECT k AS c FROM ev WHERE CAST(time AS DATE) = d.day AND k < 2) AS s)"
                    .to_owned(),
                ["1", "NULL", "NULL"],
            ),
            (
                "EXISTS (SELECT 1 FROM (SELECT k FROM ev WHERE CAST(time AS DATE) = d.day) AS s WHERE s.k > 1)"
                    .to_owned(),
                ["true", "true", "false"],
            ),
            ("(SELECT sum(k) FROM ev e WHERE e.k = 1e0 * d.n GROUP BY e.k)".to_owned(), ["NULL", "2", "4"]),
            (
                "(SELECT max(s) FROM (SELECT sum(k) AS s FROM ev e WHERE e.k = 1e0 * d.n GROUP BY e.k))".to_owned(),
                ["NULL", "2", "4"],
            ),
            (format!("(SELECT max(s) FROM (SELECT count(*) AS s {of_day} GROUP BY e.k))"), ["2", "1", "NULL"]),
            // Types are made alike by a cast. What other conditions leave out is not cast.
            (
                "(SELECT count(*) FROM ev e WHERE CAST(e.code AS INT) = d.n AND e.code <> 'x')".to_owned(),
                ["0", "2", "1"],
            ),
            ("(SELECT count(*) FROM ev e WHERE CAST(e.k AS SMALLINT) = d.n)".to_owned(), ["0", "2", "2"]),
            (
                "(SELECT count(*) FROM ev e WHERE e.time = CAST(d.day AS TIMESTAMP) + INTERVAL '2 hours')".to_owned(),
                ["2", "0", "0"],
            ),
        ] {
            let sql = format!("SELECT {selected} FROM days d ORDER BY d.day");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
        for (condition, expected) in [
            (format!("(SELECT count(*) {of_day}) > 1"), vec!["0"]),
            (format!("EXISTS (SELECT k {of_day} GROUP BY k HAVING count(*) > 1)"), vec!["0"]),
            (format!("2 NOT IN (SELECT count(*) {of_day} GROUP BY k)"), vec!["1", "2"]),
            (format!("n IN (SELECT count(*) - 2 {of_day})"), vec![]),
            (format!("n + 3 IN (SELECT count(*) {of_day})"), vec!["0"]),
        ] {
            let sql = format!("SELECT n FROM days d WHERE {condition} ORDER BY n");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
        for (lateral, expected) in
            [("count(*)", vec!["0|3", "1|1", "2|0"]), ("DISTINCT e.k", vec!["0|1", "0|2", "1|2"])]
        {
            let sql =
                format!("SELECT d.n, l.x FROM days d, LATERAL (SELECT {lateral} AS x {of_day}) AS l ORDER BY 1, 2");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
    }
    let prepared = format!("PREPARE p AS SELECT (SELECT count(*) {of_day}) FROM days d WHERE n > $1 ORDER BY d.day");
    rows(&session, &prepared).await;
    assert_eq!(rows(&session, "EXECUTE p(-1)").await, ["3", "1", "0"]);
    assert_eq!(rows(&session, "EXECUTE p(0)").await, ["1", "0"]);
    let several = error(&session, &format!("SELECT (SELECT max(k) {of_day} GROUP BY e.time) FROM days d")).await;
    assert!(several.contains("where there may be one at most"), "{several}");
}

/// A struct's field is named like a column of a table, and a subquery may have a struct of the table's name.
#[tokio::test(flavor = "multi_thread")]
async fn the_value_of_a_selected_in_is_none_of_the_subquerys() {
    let folder = Folder::new();
    let today = folder.file("today.ndjson", "{\"customer\":{\"city\":\"A\"}}\n");
    let old = folder.file("old.ndjson", "{\"customer\":{\"city\":\"B\"},\"t\":{\"a\":\"B\"}}\n");
    let session = harness::session();
    rows(&session, "CREATE TABLE t AS SELECT 'A' AS a").await;
    let (today, old) = (today.display(), old.display());
    for sql in [
        format!("SELECT customer.city IN (SELECT o.customer.city FROM '{old}' o) FROM '{today}'"),
        format!("SELECT n.customer.city IN (SELECT customer.city FROM '{old}') FROM '{today}' n"),
        format!("SELECT t.a IN (SELECT o.customer.city FROM '{old}' o) FROM t"),
        format!("SELECT a IN (SELECT o.t.a FROM '{old}' o) FROM t"),
    ] {
        assert_eq!(rows(&session, &sql).await, ["false"], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_within_each_other_grow_to_a_bound() {
    let session = session().await;
    let nest = format!("SELECT {}a > 1{} FROM t", "(a > 1) IN (SELECT ".repeat(10), " FROM t)".repeat(10));
    let conditions =
        format!("SELECT a FROM t {}{}", "WHERE g = 1 OR a NOT IN (SELECT a FROM t ".repeat(10), ")".repeat(10));
    for sql in [nest, conditions] {
        let refused = error(&session, &sql).await;
        assert!(refused.contains("within each other"), "{refused}");
    }
    for value in ["true", "EXISTS (SELECT 1)", "(SELECT max(b) > 1 FROM u WHERE h = g)"] {
        let refused = error(&session, &format!("SELECT {value}{} FROM t", " IN (SELECT true)".repeat(35))).await;
        assert!(refused.contains("name the value first"), "{value}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_that_look_alike_are_told_apart_by_what_they_are_of() {
    let folder = Folder::new();
    let csv = folder.path().join("u.csv");
    std::fs::write(&csv, "b,h\n9,2\n7,2\n1,4\n").unwrap();
    let session = session().await;
    rows(&session, &format!("CREATE EXTERNAL TABLE f STORED AS CSV LOCATION '{}'", csv.display())).await;
    let count = |condition: &str| format!("(SELECT count(*) FROM u WHERE {condition})");
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        let [two, none, one, all] = ["b > 0", "b > 100", "b > 8", "true"].map(count);
        let of_file = "(SELECT count(*) FROM f WHERE h = 2 AND b > 8)";
        let of_other = "(SELECT count(*) FROM t WHERE g > 1)";
        assert_eq!(
            rows(&session, &format!("SELECT {two}, {none}, {one}, {two}, {all}, {of_file}, {of_other}")).await,
            ["2|0|1|2|3|1|3"]
        );
        // Within conditions of an aggregate that is fused itself, below another one, and in branches that simplify.
        assert_eq!(
            rows(&session, &format!("SELECT sum(g), {none}, {one} FROM t WHERE g > {one} AND g < 2 + {two}")).await,
            ["5|0|1"]
        );
        let branches = format!(
            "SELECT CASE WHEN g = {one} THEN {two} WHEN g = {two} THEN {none} ELSE {all} END FROM t ORDER BY g"
        );
        assert_eq!(rows(&session, &branches).await, ["2", "0", "3", "3"]);
        let joined = "SELECT x.n, y.n FROM (SELECT count(*) AS n FROM u WHERE b > 0) x, (SELECT count(*) AS n FROM u WHERE b > 8) y";
        assert_eq!(rows(&session, joined).await, ["2|1"]);
        let sets = "SELECT count(*) AS n FROM u WHERE b > 0 UNION SELECT count(*) AS n FROM u WHERE b > 8 ORDER BY n";
        assert_eq!(rows(&session, sets).await, ["1", "2"]);
        let correlated = "SELECT (SELECT max(b) FROM u WHERE u.h = t.g AND b < 9), (SELECT max(b) FROM u WHERE u.h = t.g AND b > 7) FROM t WHERE g = 2";
        assert_eq!(rows(&session, correlated).await, ["7|9"]);
    }
}

/// A key that a join has repeated is none of the groups that are by it and others.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_a_joined_key_are_told_apart_by_all_that_they_are_of() {
    let session = harness::session();
    rows(&session, "CREATE TABLE e AS SELECT * FROM (VALUES (1, 5), (1, 6), (1, 6), (2, 7), (2, 26)) v(k, v)").await;
    let parts = "(SELECT d.k, e.v % 2 AS p, count(*) AS n FROM (SELECT DISTINCT k FROM e) d JOIN e ON d.k = e.k \
                 GROUP BY d.k, e.v % 2) x";
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for (sql, expected) in [
            (format!("SELECT DISTINCT k FROM {parts}"), vec!["1", "2"]),
            (format!("SELECT k FROM {parts} GROUP BY k"), vec!["1", "2"]),
            (format!("SELECT k, count(*) FROM {parts} GROUP BY k, p"), vec!["1|1", "1|1", "2|1", "2|1"]),
            (format!("SELECT k, max(n) FROM {parts} GROUP BY k"), vec!["1|2", "2|1"]),
            (format!("SELECT k, p FROM {parts} ORDER BY k, p"), vec!["1|0", "1|1", "2|0", "2|1"]),
        ] {
            assert_eq!(sorted_rows(&session, &sql).await, expected, "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_value_of_a_subquery_without_rows_is_null() {
    let session = session().await;
    for value in [
        "SELECT 1 WHERE false",
        "SELECT value FROM range(0, 3) WHERE value > 5",
        "SELECT row_number() OVER () FROM t WHERE g > 5",
        "SELECT count(*) FROM t WHERE g > 5 GROUP BY g",
        "SELECT count(*) FROM t HAVING count(*) > 9",
        "SELECT 1 LIMIT 0",
    ] {
        assert_eq!(rows(&session, &format!("SELECT ({value})")).await, ["NULL"], "{value}");
        assert_eq!(rows(&session, &format!("SELECT 1 WHERE ({value}) IS NULL")).await, ["1"], "{value}");
        assert_eq!(rows(&session, &format!("SELECT count(*) FROM t WHERE ({value}) IS NULL")).await, ["4"], "{value}");
        // Whoever asks about the value knows that it may be.
        let named = format!("FROM (SELECT ({value}) AS x FROM t) y");
        let asked = format!("SELECT count(*) {named} WHERE EXISTS (SELECT 1 FROM u WHERE y.x IS NULL)");
        assert_eq!(rows(&session, &asked).await, ["4"], "{value}");
        if !value.contains("LIMIT") {
            let counted = format!("SELECT (SELECT count(*) FROM u WHERE b > y.x OR y.x IS NULL) {named}");
            assert_eq!(rows(&session, &counted).await, ["3", "3", "3", "3"], "{value}");
        }
    }
}
