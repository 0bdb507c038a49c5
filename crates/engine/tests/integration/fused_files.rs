//! Stars over raw files, and over files and column tables together: as fused pipelines they answer what DataFusion's
//! operators answer.

use std::fmt::Write;
use std::time::Duration;

use thermocline_engine::{Database, DatabaseOptions};
use thermocline_hardware::{Clock, SystemClock};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::harness::{Folder, MIB, Random, error, long_mode, rows, session, sorted_rows, try_rows};
use crate::pipelines_and_operators::{Tally, is_fused, stock};
use crate::stars::{compare_with_operators, database, make_star, star_query};

#[tokio::test(flavor = "multi_thread")]
async fn random_stars_over_files_answer_the_same_with_and_without_pipelines() {
    let clock = SystemClock::new();
    let end_ns = long_mode().as_nanos() as u64;
    let (mut tally, mut seed) = (Tally::default(), 0);
    while tally.queries < 150 || clock.monotonic_ns() < end_ns {
        seed += 1;
        let folder = Folder::new();
        let session = database(folder.path()).session();
        let mut random = Random::new(seed);
        make_star(&session, folder.path(), &mut random, [3, 500, 20_000][seed as usize % 3]).await;
        let query = |random: &mut Random| star_query(random, false);
        compare_with_operators(&session, seed, &mut random, query, &mut tally).await;
    }
    tally.assert_fused(2);
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
                // What a query held that failed is let go by its threads, maybe after the next one has begun.
                if memory_bytes == 256 * MIB {
                    assert!(is_fused(&session, &dividing).await);
                }
                let is_exhausted =
                    |error: &str| error.contains("Resources exhausted") || error.contains("memory budget");
                let may_be_too_much = |error: &str| memory_bytes < 256 * MIB && is_exhausted(error);
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
        // Groups of one file; texts that are joined; many groups; joins that keep rows without a partner.
        "SELECT a, sum(v) FROM f GROUP BY a",
        "SELECT max(a.name) FROM f JOIN a ON f.a = a.k",
        "SELECT f.kind, count(*) FROM f JOIN a ON f.a = a.k GROUP BY f.kind",
        "SELECT sum(v) FROM f LEFT JOIN a ON f.a = a.k",
    ] {
        assert!(!is_fused(&session, sql).await, "{sql}");
        assert_eq!(sorted_rows(&session, sql).await, stock(&session, sql).await, "{sql}");
    }
}

/// Its threads would stand beside those that other queries share.
#[tokio::test(flavor = "multi_thread")]
async fn one_file_is_left_to_operators_while_another_query_runs() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    make_star(&session, folder.path(), &mut Random::new(1), 2000).await;
    let sql = "SELECT sum(v), max(v) FROM f";
    assert!(is_fused(&session, sql).await);
    let answer = rows(&session, sql).await;
    // Whose rows nobody has taken yet.
    let running = session.sql("SELECT v FROM f").await.unwrap();
    assert!(!is_fused(&session, sql).await);
    assert_eq!(rows(&session, sql).await, answer);
    drop(running);
    assert!(is_fused(&session, sql).await);
}

/// Pipelines wait for reads, which the runtime's blocking threads do: those must not be waiting themselves.
#[test]
fn as_many_pipelines_over_files_as_the_runtime_has_blocking_threads_end() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("f.csv"), "k,v\n1,10\n2,20\n3,30\n2,5\n").unwrap();
    std::fs::write(path("d.csv"), "k,w\n1,1\n2,2\n").unwrap();
    let copy = format!("COPY (SELECT * FROM '{}') TO '{}' STORED AS PARQUET", path("f.csv"), path("f.parquet"));
    Runtime::new().unwrap().block_on(rows(&session(), &copy));
    let queries = [
        (format!("SELECT k, sum(v) FROM '{}' GROUP BY k", path("f.parquet")), vec!["1|10", "2|25", "3|30"]),
        (
            format!(
                "SELECT sum(f.v * d.w), count(*) FROM '{}' f JOIN '{}' d ON f.k = d.k",
                path("f.csv"),
                path("d.csv")
            ),
            vec!["60|3"],
        ),
    ];
    for (sql, expected) in queries {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
        let session = session();
        let outcome = runtime.block_on(async {
            assert!(is_fused(&session, &sql).await, "{sql}");
            timeout(Duration::from_secs(20), sorted_rows(&session, &sql)).await
        });
        // Whose threads are lost would be waited for.
        runtime.shutdown_background();
        assert_eq!(outcome.expect("its reads wait for the query"), expected, "{sql}");
    }
}

/// Of texts that lie in slices of few rows, the first ones by a dictionary that is soon full, the others as they are.
#[tokio::test(flavor = "multi_thread")]
async fn long_texts_of_parquet_files_are_tested_in_pipelines() {
    let folder = Folder::new();
    let session = database(folder.path()).session();
    let path = folder.path().join("long.parquet").display().to_string();
    let long = "concat(repeat('x', 3000), CAST(value AS VARCHAR))";
    let made = format!("SELECT value AS i, CASE WHEN value % 5 > 0 THEN {long} END AS s FROM generate_series(1, 8000)");
    rows(&session, &format!("COPY ({made}) TO '{path}'")).await;
    for (condition, expected) in
        [("LIKE '%7'", "800|3201600"), ("LIKE '%x100_'", "8|8040"), ("IS NULL", "1600|6404000")]
    {
        let sql = format!("SELECT count(*), sum(i) FROM '{path}' WHERE s {condition}");
        assert!(is_fused(&session, &sql).await, "{sql}");
        assert_eq!(rows(&session, &sql).await, [expected], "{sql}");
    }
}

/// Records with structs and lists, of which any may be missing, as NDJSON.
fn random_records(random: &mut Random, count: u64) -> String {
    let mut records = String::new();
    let text = |random: &mut Random, different: u64| format!("\"{}th text\"", random.below(different));
    for _ in 0..count {
        let mut fields = vec![format!("\"a\":{}", random.below(1000)), format!("\"u\":{}", text(random, 1 << 40))];
        let mut field = |random: &mut Random, value: String| {
            if random.below(8) > 0 {
                fields.push(value);
            }
        };
        let value = format!("\"x\":{}.{:02}", random.below(3000), random.below(100));
        field(random, value);
        let value = format!("\"t\":{}", text(random, 20));
        field(random, value);
        let inner = match random.below(4) {
            0 => "null".to_owned(),
            _ => format!("{{\"w\":-{}.5}}", random.below(90)),
        };
        let value = format!("\"s\":{{\"y\":{},\"z\":{inner}}}", random.below(50_000));
        field(random, value);
        let element = |random: &mut Random| match random.below(9) {
            0 => "null".to_owned(),
            1 => format!("{{\"p\":{}}}", random.below(100)),
            _ => format!(
                "{{\"p\":{},\"q\":{}.{},\"r\":{},\"o\":{{\"m\":{}}}}}",
                random.below(100),
                random.below(40),
                random.below(10),
                text(random, 30),
                random.below(7)
            ),
        };
        let elements: Vec<String> = (0..random.below(6)).map(|_| element(random)).collect();
        field(random, format!("\"l\":[{}]", elements.join(",")));
        writeln!(records, "{{{}}}", fields.join(",")).unwrap();
    }
    records
}

/// An aggregate over records, or over the elements of their lists.
fn query_of_one_file(random: &mut Random) -> String {
    let of_elements = random.below(2) == 0;
    let (numbers, floats, texts): (&[&str], &[&str], &[&str]) = match of_elements {
        true => (&["t.a", "e.p", "e.o.m", "t.s.y"], &["e.q", "t.x"], &["e.r", "t.t", "t.u"]),
        false => (&["t.a", "t.s.y"], &["t.x", "t.s.z.w"], &["t.t", "t.u"]),
    };
    let mut aggregates = vec!["count(*)".to_owned()];
    for _ in 0..random.below(4) {
        aggregates.push(match random.below(8) {
            0 => format!("sum({})", random.pick(numbers)),
            // Sums of floats differ by the order in which they are added.
            1 => format!("CAST(round(sum({}) * 10) AS BIGINT)", random.pick(floats)),
            2 => format!("CAST(round(avg({}) * 10) AS BIGINT)", random.pick(floats)),
            3 => format!("sum({} * 2 + {})", random.pick(numbers), random.pick(numbers)),
            4 => format!("min({})", random.pick(texts)),
            5 => format!("max({})", random.pick(texts)),
            6 => format!("count({})", random.pick(texts)),
            _ => format!("min({0}), max({0})", random.pick(&[numbers, floats].concat())),
        });
    }
    let mut conditions = Vec::new();
    for _ in 0..random.below(3) {
        let low = random.below(100);
        conditions.push(match random.below(5) {
            0 => format!("t.a BETWEEN {low} AND {}", low + random.below(1000)),
            1 => format!("t.x > {low}.5"),
            2 if of_elements => format!("e.p < {low}"),
            3 if of_elements => format!("e.q <= {}.3 AND e.o.m <> 3", low % 40),
            2 => format!("t.s.y >= {low}00"),
            3 => "t.s.z.w IS NOT NULL".to_owned(),
            _ => "t.t >= '12th text'".to_owned(),
        });
    }
    let lists = if of_elements { ", UNNEST(t.l) AS e" } else { "" };
    let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    format!("SELECT {} FROM t{lists}{filter}", aggregates.join(", "))
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_over_one_file_and_its_lists_are_pipelines_in_every_layout() {
    let mut tally = Tally::default();
    for seed in 0..8 {
        let folder = Folder::new();
        let session = database(folder.path()).session();
        let mut random = Random::new(seed);
        let path = folder.file("t.ndjson", random_records(&mut random, [3, 400, 30_000][seed as usize % 3]));
        let location = path.display();
        rows(&session, &format!("CREATE EXTERNAL TABLE t STORED AS NDJSON LOCATION '{location}'")).await;
        for layout in ["auto", "flat", "nested", "striped", "row"] {
            rows(&session, &format!("SET thermocline.layout = '{layout}'")).await;
            for _ in 0..12 {
                let sql = query_of_one_file(&mut random);
                tally.count(&session, &sql).await;
                let fused = sorted_rows(&session, &sql).await;
                assert_eq!(fused, stock(&session, &sql).await, "seed {seed}, {layout}: {sql}");
                rows(&session, "SET thermocline.cache = 'off'").await;
                let uncached = sorted_rows(&session, &sql).await;
                rows(&session, "SET thermocline.cache = 'on'").await;
                assert_eq!(fused, uncached, "seed {seed}, {layout}: {sql}");
            }
        }
    }
    tally.assert_fused(2);
}
