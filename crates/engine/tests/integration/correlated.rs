//! Subqueries that name columns of the query around them, against the same with the outer row's values written in.

use thermocline_engine::Session;
use thermocline_hardware::{Clock as _, SystemClock};

use crate::harness::{self, Random, error, rows, sorted_rows, try_rows};

/// Outer rows of `k` and `m`: of a key that is there, of none, of NULL, and one that is there twice.
const OUTER: [(Option<i64>, Option<i64>); 7] = [
    (Some(1), Some(10)),
    (Some(2), Some(20)),
    (Some(3), Some(6)),
    (Some(4), None),
    (None, Some(7)),
    (Some(1), Some(10)),
    (Some(1), Some(6)),
];

async fn session() -> Session {
    let session = harness::session();
    let value = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let outer: Vec<String> = OUTER.iter().map(|(k, m)| format!("({}, {})", value(*k), value(*m))).collect();
    for sql in [
        &format!("CREATE TABLE d AS SELECT * FROM (VALUES {}) v(k, m)", outer.join(", ")),
        "CREATE TABLE e AS SELECT * FROM (VALUES (1, 5, 'a'), (1, 6, 'b'), (1, 6, 'c'), (2, 7, 'a'), (2, 25, 'b'), \
         (NULL, 9, 'z'), (3, NULL, 'a')) v(k, v, s)",
        "CREATE TABLE g AS SELECT * FROM (VALUES (1, 6), (1, 100), (3, 7), (3, 301), (NULL, 25)) v(k, w)",
    ] {
        rows(&session, sql).await;
    }
    session
}

/// The text with an outer row's values in the places of its columns.
fn of_row(text: &str, (k, m): (Option<i64>, Option<i64>)) -> String {
    let value = |value: Option<i64>| match value {
        Some(value) => format!("CAST({value} AS BIGINT)"),
        None => "CAST(NULL AS BIGINT)".to_owned(),
    };
    text.replace("d.k", &value(k)).replace("d.m", &value(m))
}

/// Whether `sql` is answered; it says of all outer rows what `of_one` says of each.
async fn assert_same(session: &Session, sql: &str, of_one: &str, context: &str) -> bool {
    let mut expected = Vec::new();
    for row in OUTER {
        let sql = of_row(of_one, row);
        match try_rows(session, &sql).await {
            Ok(rows) => expected.extend(rows),
            Err(error) if is_refusal(&error) => return false,
            Err(error) => panic!("{context}: {sql}: {error}"),
        }
    }
    expected.sort();
    let mut found = match try_rows(session, sql).await {
        Ok(rows) => rows,
        Err(error) if is_refusal(&error) => return false,
        Err(error) => panic!("{context}: {sql}: {error}"),
    };
    found.sort();
    assert_eq!(found, expected, "{context}: {sql}");
    true
}

/// Rows of windows and limits may be others when they are asked again; and what DataFusion refuses of subqueries on rows of a
/// `LATERAL` is refused.
fn is_refusal(error: &thermocline_engine::Error) -> bool {
    let error = error.to_string();
    error.contains("put those rows into a table first")
        || error.contains("must be aggregated to return at most one row")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_an_outer_row_is_asked_of_its_own_rows() {
    let session = session().await;
    for subquery in [
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY v, s) AS n FROM e WHERE e.k = d.k) x",
        "SELECT sum(q) FROM (SELECT sum(v) OVER (PARTITION BY s) AS q FROM e WHERE e.k = d.k) x",
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY v, s) AS n FROM e WHERE e.k + 1 = d.k) x",
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY v, s) AS n FROM e WHERE e.v < d.m) x",
        "SELECT max(v) FROM (SELECT v FROM e WHERE e.k = d.k QUALIFY row_number() OVER (ORDER BY v, s) = 2) x",
        "SELECT max(c) FROM (SELECT count(*) AS c FROM e WHERE e.k = d.k) x",
        "SELECT a.c + b.c FROM (SELECT count(*) AS c FROM e WHERE e.k = d.k) a, \
         (SELECT count(*) AS c FROM g WHERE g.k = d.k) b",
        "SELECT count(*) FROM (SELECT v FROM e WHERE e.k = d.k EXCEPT SELECT w FROM g) x",
        "SELECT count(*) FROM (SELECT v FROM e EXCEPT SELECT w FROM g WHERE g.k = d.k) x",
        "SELECT count(*) FROM (SELECT v FROM e INTERSECT SELECT v FROM e WHERE e.k = d.k) x",
        "SELECT count(*) FROM e LEFT JOIN (SELECT * FROM g WHERE g.k = d.k) x ON e.k = x.k",
        "SELECT count(*) FROM e LEFT JOIN g ON e.k = g.k AND g.k = d.k",
        "SELECT count(*) FROM g RIGHT JOIN e ON e.k = g.k AND g.k = d.k",
        "SELECT count(*) FROM (SELECT * FROM e WHERE e.k = d.k) x FULL JOIN g ON x.k = g.k",
        "SELECT count(*) FROM e WHERE e.k = d.k OR e.v = d.m",
        "SELECT count(*) FROM e WHERE e.k IS NOT DISTINCT FROM d.k",
        "SELECT count(DISTINCT v) FROM e WHERE e.v > d.m",
        "SELECT string_agg(s, ',' ORDER BY s) FROM e WHERE e.v > d.m",
        "SELECT v FROM e WHERE e.k = d.k ORDER BY v DESC LIMIT 1",
        "SELECT v FROM e WHERE e.k = d.k ORDER BY v, s LIMIT 1 OFFSET 1",
        "SELECT first_value(v) OVER (ORDER BY v) FROM e WHERE e.k = d.k LIMIT 1",
        "SELECT count(*) FROM (SELECT v FROM e WHERE e.k = d.k UNION ALL SELECT w FROM g WHERE g.k = d.k) x",
        "SELECT count(*) FROM (SELECT v FROM e WHERE e.k = d.k UNION SELECT w FROM g) x",
        "SELECT max((SELECT count(*) FROM g WHERE g.k = e.k)) FROM e WHERE e.k = d.k",
        "SELECT max((SELECT count(*) FROM g WHERE g.k = d.k AND g.w > e.v)) FROM e",
        "SELECT max(v) FROM e WHERE e.k = d.k AND EXISTS (SELECT 1 FROM g WHERE g.k = d.k)",
        "SELECT count(*) FROM (SELECT DISTINCT s FROM e WHERE e.v > d.m) x",
        "SELECT x FROM (SELECT max(v) AS x FROM e WHERE e.k = d.k) y WHERE x > 6",
        "SELECT x FROM (SELECT count(*) AS x FROM e WHERE e.k = d.k) y WHERE x < 1",
        "SELECT count(*) FROM e WHERE e.k = d.k HAVING count(*) <> 2",
        "SELECT max(c) FROM (SELECT s, count(*) AS c FROM e WHERE e.v > d.m GROUP BY s) x",
        "SELECT max(x) FROM (VALUES (d.k), (d.m)) v(x)",
        "SELECT sum(x.n) FROM e, LATERAL (SELECT count(*) AS n FROM g WHERE g.w > e.v AND g.k = d.k) x",
        "SELECT sum(v) FROM (SELECT DISTINCT ON (s) s, v FROM e WHERE e.v < d.m ORDER BY s, v DESC) x",
        "SELECT d.k + d.m",
        "SELECT count(*) FROM e AS d2 WHERE d2.v > d.m AND d2.k IN (SELECT g.k FROM g WHERE g.w > d.m)",
    ] {
        assert!(
            assert_same(&session, &format!("SELECT ({subquery}) FROM d"), &format!("SELECT ({subquery})"), "value")
                .await
        );
        let condition = format!("({subquery}) >= 2");
        let (of_all, of_one) = (format!("SELECT k, m FROM d WHERE {condition}"), "SELECT d.k, d.m WHERE");
        if subquery != "SELECT string_agg(s, ',' ORDER BY s) FROM e WHERE e.v > d.m" {
            assert!(assert_same(&session, &of_all, &format!("{of_one} {condition}"), "condition").await);
        }
        let lateral = format!("LATERAL ({subquery}) x(y)");
        let (of_all, of_one) =
            (format!("SELECT d.k, x.y FROM d, {lateral}"), format!("SELECT d.k, x.y FROM {lateral}"));
        assert!(assert_same(&session, &of_all, &of_one.replacen("LATERAL ", "", 1), "lateral").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_has_one_row_for_each_outer_one() {
    let session = session().await;
    let names = "(SELECT s FROM e WHERE e.k = d.k)";
    assert_eq!(sorted_rows(&session, &format!("SELECT k, {names} FROM d WHERE k > 2")).await, ["3|a", "4|NULL"]);
    let error = error(&session, &format!("SELECT k, {names} FROM d")).await;
    assert!(error.contains("rows for a row of the query around it"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_may_be_others_the_second_time_are_refused() {
    let session = session().await;
    let asked = "(SELECT count(*) FROM e WHERE e.v > x.a)";
    for (outer, why) in [
        ("SELECT random() * 9 AS a FROM d", "are other ones each time"),
        ("SELECT avg(CAST(m AS DOUBLE)) AS a FROM d GROUP BY k", "are computed in no fixed order"),
        ("SELECT lag(m) OVER (ORDER BY k) AS a FROM d", "windows are computed of"),
    ] {
        let error = error(&session, &format!("SELECT a, {asked} FROM ({outer}) x")).await;
        assert!(error.contains(why), "{outer}: {error}");
    }
    // Of what chance leaves out the values are asked about too.
    for outer in ["SELECT m AS a FROM d LIMIT 3", "SELECT m AS a FROM d WHERE random() < 0.5"] {
        let sql = format!("SELECT count(*) FROM (SELECT a, {asked} AS n FROM ({outer}) x) y WHERE n IS NULL");
        assert_eq!(rows(&session, &sql).await, ["0"], "{outer}");
    }
    let groups = "SELECT k AS a, avg(CAST(m AS DOUBLE)) FROM d GROUP BY k";
    let found = sorted_rows(&session, &format!("SELECT a, {asked} FROM ({groups}) x")).await;
    assert_eq!(found, ["1|6", "2|6", "3|6", "4|6", "NULL|0"]);
}

/// A query of a column `v`, which names columns of `d`.
fn query(random: &mut Random, depth: u64) -> String {
    let compared = *random.pick(&[
        "e.k = d.k",
        "e.v < d.m",
        "e.k + 1 = d.k",
        "e.k = d.k OR e.v = d.m",
        "e.k IS NOT DISTINCT FROM d.k",
        "e.v > 5",
    ]);
    if depth == 0 {
        return match random.below(5) {
            0 => format!("SELECT CAST(row_number() OVER (ORDER BY v, s) AS BIGINT) AS v FROM e WHERE {compared}"),
            1 => format!("SELECT sum(v) OVER (PARTITION BY s) AS v FROM e WHERE {compared}"),
            2 => format!("SELECT e.v + d.k AS v FROM e WHERE {compared}"),
            3 => format!("SELECT count(*) AS v FROM e WHERE {compared}"),
            _ => format!("SELECT v FROM e WHERE {compared}"),
        };
    }
    let below = query(random, depth - 1);
    let number = random.below(3);
    match random.below(14) {
        0 => format!("SELECT DISTINCT v FROM ({below}) x"),
        1 => format!("SELECT v FROM ({below}) x ORDER BY v LIMIT {} OFFSET {number}", random.below(3)),
        2 => {
            let op = *random.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            let other = query(random, depth - 1);
            format!("SELECT v FROM ({below}) x {op} SELECT v FROM ({other}) y")
        }
        3 => format!("SELECT count(*) AS v FROM ({below}) x"),
        4 => format!("SELECT sum(v) AS v FROM ({below}) x GROUP BY v % 2"),
        5 => {
            let kind = *random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let more = *random.pick(&["", " AND g.k = d.k", " AND x.v < d.m"]);
            format!("SELECT coalesce(x.v, g.w) AS v FROM ({below}) x {kind} g ON x.v = g.w{more}")
        }
        6 => {
            let kind = *random.pick(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
            format!("SELECT coalesce(y.v, x.k) AS v FROM e x {kind} ({below}) y ON x.v = y.v")
        }
        7 => {
            let kind = *random.pick(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
            let other = query(random, depth - 1);
            format!("SELECT x.v + coalesce(y.v, 0) AS v FROM ({below}) x {kind} ({other}) y ON x.v = y.v + {number}")
        }
        8 => format!("SELECT x.v FROM ({below}) x WHERE EXISTS (SELECT 1 FROM g WHERE g.w > x.v AND g.w > d.m)"),
        9 => format!("SELECT x.v FROM ({below}) x WHERE x.v NOT IN (SELECT g.w FROM g WHERE g.k = d.k)"),
        10 => format!("SELECT (SELECT count(*) FROM g WHERE g.w > x.v AND g.k = d.k) AS v FROM ({below}) x"),
        11 => {
            format!("SELECT y.v FROM ({below}) x, LATERAL (SELECT count(*) AS v FROM g WHERE g.w > x.v OR g.k = d.k) y")
        }
        12 => format!("SELECT max(v) OVER (ORDER BY v) AS v FROM ({below}) x"),
        _ => format!("SELECT sum(v) AS v FROM ({below}) x HAVING count(*) <> {number}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_subqueries_say_of_each_outer_row_what_they_say_of_its_values() {
    let session = session().await;
    let (clock, end_ns) = (SystemClock::new(), harness::long_mode().as_nanos() as u64);
    let (mut asked, mut answered) = (0, 0);
    for seed in 0.. {
        if seed >= 60 && clock.monotonic_ns() >= end_ns {
            break;
        }
        let mut random = Random::new(seed);
        let depth = random.below(4);
        let query = query(&mut random, depth);
        let context = format!("seed {seed}");
        let (of_all, of_one) = match random.below(7) {
            0 => (
                format!("SELECT (SELECT sum(v) FROM ({query}) q) FROM d"),
                format!("SELECT (SELECT sum(v) FROM ({query}) q)"),
            ),
            1 => (
                format!("SELECT (SELECT v FROM ({query}) q ORDER BY v LIMIT 1) FROM d"),
                format!("SELECT (SELECT v FROM ({query}) q ORDER BY v LIMIT 1)"),
            ),
            2 => (
                format!("SELECT d.k, d.m FROM d WHERE EXISTS ({query})"),
                format!("SELECT d.k, d.m WHERE EXISTS ({query})"),
            ),
            3 => (
                format!("SELECT d.k, d.m FROM d WHERE d.m NOT IN ({query})"),
                format!("SELECT d.k, d.m WHERE d.m NOT IN ({query})"),
            ),
            4 => (format!("SELECT d.m IN ({query}) FROM d"), format!("SELECT d.m IN ({query})")),
            5 => (format!("SELECT d.k, q.v FROM d, LATERAL ({query}) q"), format!("SELECT d.k, q.v FROM ({query}) q")),
            _ => (
                format!("SELECT d.k, q.v FROM d LEFT JOIN LATERAL ({query}) q ON q.v > 2"),
                format!("SELECT d.k, q.v FROM (SELECT 1) LEFT JOIN ({query}) q ON q.v > 2"),
            ),
        };
        asked += 1;
        answered += u64::from(assert_same(&session, &of_all, &of_one, &context).await);
    }
    assert!(answered * 10 >= asked * 9, "{answered} of {asked} are answered");
}
