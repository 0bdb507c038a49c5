//! Stars over raw files, and over files and column tables together: as fused pipelines they answer what DataFusion's
//! operators answer.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::{Database, DatabaseOptions, Session};
use thermocline_hardware::{Clock, SystemClock};
use tokio::time::timeout;

use crate::harness::{Folder, MIB, Random, error, long_mode, rows, sorted_rows, try_rows};

fn database(folder: &Path) -> Arc<Database> {
    let options = DatabaseOptions {
        folder: Some(folder.join("db")),
        memory_bytes: Some(256 * MIB),
        threads: Some(3),
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap()
}

async fn is_fused(session: &Session, sql: &str) -> bool {
    rows(session, &format!("EXPLAIN {sql}")).await.join("\n").contains("PipelineExec")
}

async fn stock(session: &Session, sql: &str) -> Vec<String> {
    rows(session, "SET thermocline.fused_pipelines = 'off'").await;
    let stock = sorted_rows(session, sql).await;
    rows(session, "SET thermocline.fused_pipelines = 'on'").await;
    stock
}

/// `f.csv` names rows of `a.csv`, `b.ndjson` and, by two columns, `p.csv`; some fields are missing, some keys come twice
/// in `b` and some are in no file. `c` is a column table.
async fn make_star(session: &Session, folder: &Path, random: &mut Random, fact_rows: u64) {
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

fn star_query(random: &mut Random) -> String {
    let mut values = vec!["f.v", "f.share", "f.whole", "f.id", "f.day", "f.share * 2", "f.v + f.p"];
    let mut groups = Vec::new();
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
    ];
    let mut from = "f".to_string();
    let with_a = random.below(3) > 0;
    if with_a {
        from.push_str(" JOIN a ON f.a = a.k");
        groups.push("a.grp");
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
    let group = (!groups.is_empty() && random.below(3) == 0).then(|| *random.pick(&groups));
    let mut columns: Vec<String> = group.iter().map(ToString::to_string).collect();
    for _ in 0..1 + random.below(3) {
        let value = random.pick(&values);
        columns.push(match random.below(6) {
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
    if let Some(group) = group {
        write!(sql, " GROUP BY {group}").unwrap();
    }
    sql
}

#[tokio::test(flavor = "multi_thread")]
async fn random_stars_over_files_answer_the_same_with_and_without_pipelines() {
    let clock = SystemClock::new();
    let end_ns = long_mode().as_nanos() as u64;
    let (mut fused_count, mut query_count, mut seed) = (0, 0, 0);
    while query_count < 150 || clock.monotonic_ns() < end_ns {
        seed += 1;
        let folder = Folder::new();
        let session = database(folder.path()).session();
        let mut random = Random::new(seed);
        make_star(&session, folder.path(), &mut random, [3, 500, 20_000][seed as usize % 3]).await;
        for _ in 0..30 {
            let sql = star_query(&mut random);
            // With and without what is kept, and the other way round.
            if random.below(4) == 0 {
                rows(&session, "SET thermocline.cache = 'off'").await;
            }
            let fused = sorted_rows(&session, &sql).await;
            rows(&session, "SET thermocline.cache = 'on'").await;
            assert_eq!(fused, stock(&session, &sql).await, "seed {seed}: {sql}");
            fused_count += usize::from(is_fused(&session, &sql).await);
            query_count += 1;
        }
    }
    assert!(fused_count * 2 > query_count, "{fused_count} of {query_count} ran as pipelines");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_or_are_broken_are_seen_by_pipelines() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("f.csv"), "k,v\n1,10\n2,20\n3,30\n2,5\n").unwrap();
    std::fs::write(path("d.csv"), "k,w\n1,1\n2,2\n").unwrap();
    for name in ["f", "d"] {
        let location = path(&format!("{name}.csv")).display().to_string();
        rows(&session, &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{location}'")).await;
    }
    let sql = "SELECT sum(f.v * d.w), count(*) FROM f JOIN d ON f.k = d.k";
    assert!(is_fused(&session, sql).await);
    assert_eq!(rows(&session, sql).await, ["60|3"]);
    std::fs::write(path("d.csv"), "k,w\n1,1\n2,2\n3,100\n").unwrap();
    assert_eq!(rows(&session, sql).await, ["3060|4"]);
    std::fs::write(path("f.csv"), "k,v\n1,10\n2,20\nthree,30\n2,5\n").unwrap();
    let wrong = error(&session, sql).await;
    rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
    assert_eq!(wrong, error(&session, sql).await);
    rows(&session, "SET thermocline.fused_pipelines = 'on'").await;
    std::fs::remove_file(path("f.csv")).unwrap();
    assert!(error(&session, sql).await.contains("f.csv"));
}

/// In the middle of files of several partitions, whose scans have begun by then.
#[tokio::test(flavor = "multi_thread")]
async fn operators_take_over_when_pipelines_fail_over_files() {
    let folder = Folder::new();
    let (mut f, mut d) = ("k,v\n".to_string(), "k,w\n".to_string());
    // Far more than a scan reads ahead of whoever takes its rows.
    for at in 0..2_000_000 {
        writeln!(f, "{at},{}", 1000 + at % 1000).unwrap();
    }
    for at in 0..400_000u64 {
        writeln!(d, "{},{at}", at * 7 % 400_000).unwrap();
    }
    std::fs::write(folder.path().join("f.csv"), f).unwrap();
    std::fs::write(folder.path().join("d.csv"), d).unwrap();
    let ask = |columns: &str| format!("SELECT {columns} FROM f JOIN d ON f.k = d.k");
    // The table of `d` does not fit into the lesser memory; pipelines leave errors of arithmetic to operators.
    let (counting, dividing) = (ask("count(*), max(d.w)"), ask("sum(f.v / d.w)"));
    for memory_bytes in [6 * MIB, 9 * MIB, 12 * MIB, 256 * MIB] {
        let database = Database::open(DatabaseOptions {
            memory_bytes: Some(memory_bytes),
            threads: Some(3),
            ..DatabaseOptions::default()
        });
        let session = database.unwrap().session();
        for name in ["f", "d"] {
            let location = folder.path().join(format!("{name}.csv")).display().to_string();
            rows(&session, &format!("CREATE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{location}'")).await;
        }
        for cache in ["off", "on", "on"] {
            rows(&session, &format!("SET thermocline.cache = '{cache}'")).await;
            let asked = async {
                assert!(is_fused(&session, &dividing).await);
                let may_be_too_much = |error: &str| memory_bytes < 256 * MIB && error.contains("Resources exhausted");
                match try_rows(&session, &counting).await {
                    Ok(counted) => assert_eq!(counted, ["400000|399999"], "{memory_bytes}"),
                    Err(error) => assert!(may_be_too_much(&error.to_string()), "{memory_bytes}: {error}"),
                }
                let divided = error(&session, &dividing).await;
                let is_expected = divided.contains("Divide by zero") || may_be_too_much(&divided);
                assert!(is_expected, "{memory_bytes}: {divided}");
            };
            timeout(Duration::from_secs(100), asked).await.expect("operators took over and hang");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_scans_of_files_count_is_seen_below_pipelines() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    make_star(&session, folder.path(), &mut Random::new(1), 2000).await;
    let analyzed = rows(&session, "EXPLAIN ANALYZE SELECT sum(v) FROM f JOIN a ON f.a = a.k").await.join("\n");
    let scans: Vec<&str> = analyzed.lines().filter(|line| line.contains("RawScanExec")).collect();
    assert_eq!(scans.len(), 2, "{analyzed}");
    assert!(scans.iter().all(|scan| scan.contains("output_rows=") && !scan.contains("output_rows=0")), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pipelines_do_not_do_over_files_is_left_to_operators() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    make_star(&session, folder.path(), &mut Random::new(1), 2000).await;
    for sql in [
        // Nothing to join; texts of files; many groups; joins that keep rows without a partner.
        "SELECT sum(v) FROM f",
        "SELECT max(a.name) FROM f JOIN a ON f.a = a.k",
        "SELECT f.kind, count(*) FROM f JOIN a ON f.a = a.k GROUP BY f.kind",
        "SELECT sum(v) FROM f LEFT JOIN a ON f.a = a.k",
    ] {
        assert!(!is_fused(&session, sql).await, "{sql}");
        assert_eq!(sorted_rows(&session, sql).await, stock(&session, sql).await, "{sql}");
    }
}
