//! Stars of column tables, and random queries of them that pipelines and operators answer.

use std::path::Path;
use std::sync::Arc;

use thermocline_engine::{Database, DatabaseOptions, Session};
use thermocline_hardware::{Clock, SystemClock};

use crate::harness::{Folder, MIB, Random, long_mode, rows};
use crate::pipelines_and_operators::{Tally, both};

pub(crate) fn database(folder: &Path, memory_bytes: u64) -> Arc<Database> {
    let options = DatabaseOptions {
        folder: Some(folder.join("db")),
        memory_bytes: Some(memory_bytes),
        threads: Some(3),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

/// How many queries are compared, of which stars.
pub(crate) struct Comparison<'a> {
    /// Queries at least: as many stars are made as that takes, and more in long mode.
    pub(crate) queries: usize,
    pub(crate) queries_per_star: usize,
    /// Rows of the stars' fact tables, one after the other.
    pub(crate) fact_rows: [u64; 4],
    /// A part of plans that is counted.
    pub(crate) counted: &'a str,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) tally: Tally,
    /// Queries whose plans have the part that is counted.
    pub(crate) counted: usize,
    pub(crate) rows: usize,
}

impl Comparison<'_> {
    /// Asks random queries of random stars with pipelines and without; the answers must be the same. `prepare` adds
    /// tables to a star.
    pub(crate) async fn run(
        &self,
        prepare: impl AsyncFn(&Session, &mut Random),
        query: impl Fn(&mut Random) -> String,
    ) -> Compared {
        let clock = SystemClock::new();
        let end_ns = long_mode().as_nanos() as u64;
        let (mut compared, mut seed) = (Compared::default(), 0);
        while compared.tally.queries < self.queries || clock.monotonic_ns() < end_ns {
            seed += 1;
            let folder = Folder::new();
            let session = database(folder.path(), 256 * MIB).session();
            let mut random = Random::new(seed);
            make_star(&session, seed, self.fact_rows[seed as usize % 4]).await;
            prepare(&session, &mut random).await;
            for _ in 0..self.queries_per_star {
                let sql = query(&mut random);
                let (fused, stock) = both(&session, &sql).await;
                let first = fused.iter().zip(&stock).find(|(fused, stock)| fused != stock);
                let lengths = (fused.len(), stock.len());
                assert!(fused == stock, "seed {seed}: {sql}\n{lengths:?} rows, the first that differ are {first:?}");
                let plan = compared.tally.count(&session, &sql).await;
                compared.rows += stock.len();
                compared.counted += usize::from(plan.contains(self.counted));
            }
        }
        compared
    }
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
                CAST(i % 250 AS INT UNSIGNED) AS count32, CAST(i AS BIGINT UNSIGNED) * 1000003 AS count64,
                CASE WHEN i % 23 = 9 THEN NULL ELSE 'note ' || (i * 7919 % 100003) || repeat(' and so on', CAST(i % 4 AS INT)) END AS note
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
        "substr(f.kind, 6, 1)",
        "upper(f.town)",
        "left(f.kind, 3)",
        "nullif(f.kind, 'kind 2')",
        "f.kind || f.town",
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
        "f.v - (SELECT max(b.weight) FROM b)",
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
        "f.v > (SELECT avg(o.v) FROM f AS o)",
        "f.price < (SELECT avg(o.price) FROM f AS o WHERE o.tiny = 3) OR f.kind IS NULL",
        "f.day > (SELECT min(o.day) FROM f AS o JOIN a ON o.a = a.k WHERE a.grp = 2)",
        "NOT (f.tiny = (SELECT max(a.grp) FROM a) OR f.flag)",
        "f.v < 2 * (SELECT min(e.k) FROM e) OR f.tiny > 2",
        "f.kind > (SELECT min(o.kind) FROM f AS o)",
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
    let mut columns = some(random, &[groups, values, vec!["f.note", "f.note"]].concat(), 5);
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
pub(crate) fn star_query(random: &mut Random) -> String {
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

/// A query for one number of a star's rows.
fn number_query(random: &mut Random) -> String {
    let Star { rows, .. } = star(random);
    let call = match random.below(4) {
        0 => "count",
        1 => "min",
        2 => "max",
        _ => "sum",
    };
    let value = random.pick(&["f.v", "f.tiny", "f.id", "f.price", "f.v - f.tiny", "f.m"]);
    format!("SELECT {call}({value}) AS n {rows}")
}

/// A statement of several queries of a star's rows, which give columns of the same names.
pub(crate) fn statement_of_several(random: &mut Random) -> String {
    let numbers: Vec<String> = (0..2 + random.below(3)).map(|_| number_query(random)).collect();
    let [first, second] = [&numbers[0], &numbers[1]];
    let group = *random.pick(&["f.tiny", "f.kind", "f.town", "f.flag"]);
    let mut groups = || {
        let Star { rows, .. } = star(random);
        format!("SELECT {group} AS g, count(*) AS n, sum(f.v) AS s {rows} GROUP BY {group}")
    };
    let [left, right] = [groups(), groups()];
    let listed = |before: &str, after: &str, between: &str| -> String {
        let all = numbers.iter().enumerate();
        all.map(|(at, number)| format!("{before}({number}){after}").replace('#', &at.to_string()))
            .collect::<Vec<_>>()
            .join(between)
    };
    match random.below(7) {
        0 => format!("SELECT {}", listed("", " AS n#", ", ")),
        1 => format!("SELECT * FROM {}", listed("", " AS x#", ", ")),
        2 => listed("", "", " UNION ALL "),
        3 => format!(
            "SELECT f.tiny, count(*), sum(f.v), ({second}) AS n FROM f WHERE f.v > ({first}) OR f.id < ({second}) GROUP BY f.tiny"
        ),
        4 => format!("SELECT x.g, x.n, x.s, y.n, y.s FROM ({left}) x LEFT JOIN ({right}) y ON x.g = y.g"),
        5 => format!(
            "WITH w AS ({left}) SELECT x.g, x.n, y.s, ({first}) AS m FROM w x JOIN w y ON x.g = y.g WHERE y.n > ({second}) OR x.n > 3"
        ),
        _ => format!(
            "SELECT f.id, CASE WHEN f.v > ({first}) THEN ({second}) ELSE ({first}) END AS n FROM f WHERE f.tiny < 2"
        ),
    }
}
