//! Stars of tables with missing values, keys that are nowhere and keys that come twice, and random queries of them.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use thermocline_engine::{Database, Session};

use crate::column_stars;
use crate::harness::{MIB, Random, rows, sorted_rows};
use crate::pipelines_and_operators::{Tally, stock};

/// Queries of one star that are compared.
const QUERIES: usize = 30;

/// With a folder for its tables.
pub(crate) fn database(folder: &Path) -> Arc<Database> {
    column_stars::database(folder, 256 * MIB)
}

/// `f.csv` names rows of `a.csv`, `b.ndjson` and, by two columns, `p.csv`; some fields are missing, some keys come twice
/// in `b` and some are in no file. `c` is a column table.
pub(crate) async fn make_star(session: &Session, folder: &Path, random: &mut Random, fact_rows: u64) {
    let mut f = "id,a,b,p,v,share,whole,day,kind\n".to_string();
    let big = *random.pick(&[1, 1 << 20, 1 << 40]);
    for id in 0..fact_rows {
        let maybe = |random: &mut Random, value: String| if random.below(9) == 0 { String::new() } else { value };
        let a = random.below(120).to_string();
        let b = (random.below(70) as i64 - 5).to_string();
        let v = (random.below(1000) as i64 - 300).to_string();
        let share = (random.below(4000) as f64 / 8.0 - 100.0).to_string();
        let (a, b, v, share) = (maybe(random, a), maybe(random, b), maybe(random, v), maybe(random, share));
        let day = format!("1994-{:02}-{:02}", 1 + random.below(12), 1 + random.below(28));
        let (p, whole, kind) = (random.below(30), random.below(1000) * big, random.below(7));
        writeln!(f, "{id},{a},{b},{p},{v},{share},{whole},{day},kind {kind}").unwrap();
    }
    std::fs::write(folder.join("f.csv"), f).unwrap();
    let mut a = "k,grp,weight,c,name\n".to_string();
    for k in (0..110).filter(|k| k % 6 != 1) {
        writeln!(
            a,
            "{k},{},{}.5,{},a{}",
            k % 5,
            k * 3,
            if k % 10 == 3 { String::new() } else { (k % 12).to_string() },
            k % 8
        )
        .unwrap();
    }
    std::fs::write(folder.join("a.csv"), a).unwrap();
    let mut b = String::new();
    for at in 0..80i64 {
        writeln!(b, r#"{{"k": {}, "x": {}, "s": {}}}"#, at % 60 - 3, at * 7, at as f64 / 4.0).unwrap();
    }
    std::fs::write(folder.join("b.ndjson"), b).unwrap();
    let mut p = "k1,k2,cost\n".to_string();
    for k1 in 0..30 {
        for k2 in (0..120).filter(|k2| (k1 + k2) % 3 == 0) {
            writeln!(p, "{k1},{k2},{}.25", k1 * 100 + k2).unwrap();
        }
    }
    std::fs::write(folder.join("p.csv"), p).unwrap();
    for (table, file, format) in
        [("f", "f.csv", "CSV"), ("a", "a.csv", "CSV"), ("b", "b.ndjson", "NDJSON"), ("p", "p.csv", "CSV")]
    {
        let location = folder.join(file).display().to_string();
        rows(session, &format!("CREATE EXTERNAL TABLE {table} STORED AS {format} LOCATION '{location}'")).await;
    }
    let c = "CREATE TABLE c AS SELECT value AS k, CASE WHEN value < 6 THEN 'north' ELSE 'south' END AS region
             FROM generate_series(0, 10)";
    rows(session, c).await;
}

/// A star of these tables, its rows or aggregates of them; `with_texts` also groups by texts and orders them, which pipelines do not over text files.
pub(crate) fn star_query(random: &mut Random, with_texts: bool) -> String {
    let mut values = vec!["f.v", "f.share", "f.whole", "f.id", "f.day", "f.share * 2", "f.v + f.p"];
    let mut groups = Vec::new();
    if with_texts {
        groups.extend(["f.kind", "substr(f.kind, 6, 1)"]);
    }
    let mut conditions = vec![
        "f.v BETWEEN -100 AND 250",
        "f.kind = 'kind 3'",
        "f.kind IN ('kind 1', 'kind 5')",
        "f.share > 17.5",
        "f.day >= DATE '1994-06-01'",
        "f.v IS NOT NULL",
        "f.p <> 7",
        "f.v = 12345",
        "f.v > f.p",
        "f.v > (SELECT avg(b.x) FROM b)",
        "f.day > (SELECT min(o.day) FROM f AS o WHERE o.v > 100) OR f.p = (SELECT max(c.k) FROM c)",
    ];
    let mut from = "f".to_string();
    let with_a = random.below(3) > 0;
    if with_a {
        from.push_str(" JOIN a ON f.a = a.k");
        groups.push("a.grp");
        if with_texts {
            groups.push("a.name");
            conditions.push("a.name > 'a5'");
        }
        values.extend(["a.weight", "a.k", "f.v * a.grp"]);
        conditions.extend(["a.grp <> 4", "a.name = 'a2'", "a.weight < 100", "a.c IS NULL", "a.weight > f.v"]);
        if random.below(2) == 0 {
            from.push_str(" JOIN c ON a.c = c.k");
            groups.push("c.region");
            conditions.push("c.region = 'north'");
        }
        match random.below(6) {
            0 | 1 => from.push_str(" JOIN p ON f.p = p.k1 AND a.k = p.k2"),
            // The last equality follows from the others.
            2 | 3 => from.push_str(" JOIN p ON f.p = p.k1 AND f.a = p.k2 AND a.k = p.k2"),
            _ => {}
        }
        if from.contains(" JOIN p ") {
            values.extend(["p.cost", "p.k2", "p.k1 + a.k"]);
            conditions.extend(["p.cost > a.weight", "p.k2 > 40", "p.k2 < a.weight"]);
        }
    }
    if !with_a || random.below(2) == 0 {
        from.push_str(" JOIN b ON b.k = f.b");
        values.extend(["b.x", "b.s"]);
        conditions.extend(["b.x > 100", "b.k < 0"]);
    }
    match random.below(8) {
        0 => conditions.push("f.a IN (SELECT a.k FROM a WHERE a.grp = 2)"),
        1 => conditions.push("NOT EXISTS (SELECT 1 FROM b WHERE b.k = f.b AND b.x > 200)"),
        2 => conditions.push("f.b NOT IN (SELECT b.k FROM b WHERE b.x < 50)"),
        _ => {}
    }
    let are_rows = random.below(4) == 0;
    let group = (!groups.is_empty() && random.below(3) == 0).then(|| *random.pick(&groups));
    let mut columns: Vec<String> = group.iter().map(ToString::to_string).collect();
    for _ in 0..1 + random.below(3) {
        let value = random.pick(&values);
        columns.push(match random.below(6) {
            _ if are_rows => value.to_string(),
            0 => format!("count({value})"),
            1 => format!("min({value})"),
            2 => format!("max({value})"),
            3 if *value != "f.day" => format!("avg({value})"),
            _ if *value != "f.day" => format!("sum({value})"),
            _ => "count(*)".to_string(),
        });
    }
    columns.sort();
    columns.dedup();
    let mut sql = format!("SELECT {} FROM {from}", columns.join(", "));
    for at in 0..random.below(3) {
        let glue = if at == 0 { "WHERE" } else { "AND" };
        write!(sql, " {glue} ({})", random.pick(&conditions)).unwrap();
    }
    if let (Some(group), false) = (group, are_rows) {
        write!(sql, " GROUP BY {group}").unwrap();
    }
    sql
}

/// Asks [`QUERIES`] with pipelines and without, and with what is kept or without.
pub(crate) async fn compare_with_operators(
    session: &Session,
    seed: u64,
    random: &mut Random,
    query: impl Fn(&mut Random) -> String,
    tally: &mut Tally,
) {
    for _ in 0..QUERIES {
        let sql = query(random);
        if random.below(4) == 0 {
            rows(session, "SET thermocline.cache = 'off'").await;
        }
        let fused = sorted_rows(session, &sql).await;
        rows(session, "SET thermocline.cache = 'on'").await;
        assert_eq!(fused, stock(session, &sql).await, "seed {seed}: {sql}");
        tally.count(session, &sql).await;
    }
}
