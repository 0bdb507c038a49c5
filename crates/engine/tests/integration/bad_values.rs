//! A value that is not of its column's type fails the queries that look at it, and no others, whatever is cached; where
//! bad records are left out, they are those that are bad for the query.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use thermocline_engine::Session;

use crate::harness::{self, Folder, Random, rows, try_rows};

const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];

/// The values of a record; None where one can't be read. `a` is always good.
type Record = [Option<i64>; 4];

fn records(random: &mut Random, from: usize, count: usize) -> Vec<Record> {
    let mut value = |is_bad: bool| (!is_bad).then(|| random.below(100) as i64);
    let mut records: Vec<Record> =
        (from..from + count).map(|id| [Some(id as i64), value(false), value(false), value(false)]).collect();
    for _ in 0..random.below(4) {
        let (row, column) = (random.below(count as u64) as usize, 1 + random.below(3) as usize);
        records[row][column] = None;
    }
    records
}

fn text(records: &[Record], format: &str) -> String {
    let mut text = String::new();
    for record in records {
        let values = record.map(|value| value.map_or_else(|| "oops".to_owned(), |value| value.to_string()));
        if format == "csv" {
            text += &(values.join(",") + "\n");
        } else {
            let quoted = |value: &String| if value == "oops" { "\"oops\"".to_owned() } else { value.clone() };
            let fields = COLUMNS.iter().zip(&values).map(|(name, value)| format!("\"{name}\":{}", quoted(value)));
            text += &format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","));
        }
    }
    text
}

/// A random query over records: the column that is summed up, and what is asked of `a` and perhaps of another column.
struct Query {
    summed: usize,
    range: (i64, i64),
    least: Option<(usize, i64)>,
}

impl Query {
    fn any(random: &mut Random, record_count: usize) -> Self {
        let low = random.below(record_count as u64) as i64;
        let range = (low, low + random.below(record_count as u64 / 2) as i64);
        let range = if random.below(4) == 0 { (0, record_count as i64) } else { range };
        let least = (random.below(3) == 0).then(|| (1 + random.below(3) as usize, random.below(100) as i64));
        Self { summed: 1 + random.below(3) as usize, range, least }
    }

    fn sql(&self) -> String {
        let least = self.least.map(|(column, value)| format!(" AND {} >= {value}", COLUMNS[column]));
        let (low, high) = self.range;
        format!(
            "SELECT count(*), sum({}) FROM t WHERE a BETWEEN {low} AND {high}{}",
            COLUMNS[self.summed],
            least.unwrap_or_default()
        )
    }

    /// The answer; None where a value that it needs is bad.
    fn expected(&self, records: &[Record]) -> Option<String> {
        let (mut count, mut sum) = (0, None);
        for record in records.iter().filter(|record| record[0].is_some_and(|a| self.range.0 <= a && a <= self.range.1))
        {
            if let Some((column, least)) = self.least
                && record[column]? < least
            {
                continue;
            }
            count += 1;
            *sum.get_or_insert(0) += record[self.summed]?;
        }
        Some(format!("{count}|{}", sum.map_or(String::new(), |sum| sum.to_string())))
    }
}

/// A session that reads the table.
async fn session(path: &Path, format: &str, on_error: &str) -> Session {
    let session = harness::session();
    let options = if format == "csv" { ", 'format.has_header' 'false'" } else { "" };
    let table = format!(
        "CREATE EXTERNAL TABLE t (a BIGINT, b BIGINT, c BIGINT, d BIGINT) STORED AS {format} LOCATION '{}' \
         OPTIONS ('on_error' '{on_error}'{options})",
        path.display()
    );
    rows(&session, &table).await;
    session
}

/// A file, by its seed.
struct Case {
    seed: u64,
    format: &'static str,
    random: Random,
    records: Vec<Record>,
    folder: Folder,
}

fn cases(seeds: std::ops::RangeInclusive<u64>) -> Vec<Case> {
    let cases = seeds.map(|seed| {
        let format = if seed % 2 == 0 { "csv" } else { "ndjson" };
        let mut random = Random::new(seed);
        let records = records(&mut random, 0, 20_000);
        let folder = Folder::new();
        folder.file("t", text(&records, format));
        Case { seed, format, random, records, folder }
    });
    let cases = cases.collect();
    harness::settle();
    cases
}

/// How the answers compare that come with and without the cache, of a file that grows in between.
async fn compare(case: Case, on_error: &str) -> (usize, usize) {
    let (mut answered_count, mut failed_count) = (0, 0);
    let Case { seed, format, mut random, records: mut all, folder } = case;
    let random = &mut random;
    let path = folder.path().join("t");
    let cached = session(&path, format, on_error).await;
    let cache_memory = random.pick(&["100MiB", "100MiB", "400KiB"]);
    rows(&cached, &format!("SET thermocline.cache_memory = '{cache_memory}'")).await;
    let plain = session(&path, format, on_error).await;
    rows(&plain, "SET thermocline.cache = 'off'").await;
    for round in 0..30 {
        if round == 15 {
            let more = records(random, all.len(), 2000);
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(text(&more, format).as_bytes()).unwrap();
            drop(file);
            all.extend(more);
        }
        let queries = [Query::any(random, all.len()), Query::any(random, all.len())];
        let sql = [queries[0].sql(), queries[1].sql()];
        let (first, second) = tokio::join!(try_rows(&cached, &sql[0]), try_rows(&cached, &sql[1]));
        for ((query, sql), answer) in queries.iter().zip(&sql).zip([first, second]) {
            let context = format!("seed {seed} {format} {on_error} round {round}: {sql}");
            match (try_rows(&plain, sql).await, answer, query.expected(&all)) {
                (Ok(plain), Ok(cached), expected) => {
                    assert_eq!(cached, plain, "{context}");
                    assert!(on_error == "skip" || Some(&cached[0]) == expected.as_ref(), "{context}: {expected:?}");
                    answered_count += 1;
                }
                // What is kept was read for queries that did not look at what is bad.
                (Err(_), Ok(cached), Some(expected)) => assert_eq!(cached, [expected], "{context}"),
                (Err(plain), Err(cached), _) => {
                    let (plain, cached) = (plain.to_string(), cached.to_string());
                    assert!(cached.contains("oops"), "{context}: {plain}; {cached}");
                    failed_count += 1;
                }
                (Ok(_), Err(error), _) => panic!("{context}: it fails with the cache alone: {error}"),
                (Err(error), Ok(_), None) => panic!("{context}: with the cache it is passed over: {error}"),
            }
        }
    }
    (answered_count, failed_count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_value_fails_whoever_looks_at_it_and_no_one_else() {
    let (mut answered_count, mut failed_count) = (0, 0);
    for case in cases(1..=12) {
        let (answered, failed) = compare(case, "fail").await;
        (answered_count, failed_count) = (answered_count + answered, failed_count + failed);
    }
    assert!(answered_count > 100 && failed_count > 100, "{answered_count} answered, {failed_count} failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_reads_more_than_is_asked_for_is_given_up_once() {
    let folder = Folder::new();
    let record =
        |a: u64| format!("{a},{},{}\n", if a == 60_000 { "oops".to_owned() } else { (a % 7).to_string() }, a % 5);
    let path = folder.settled_file("t", "a,b,c\n".to_owned() + &(0..100_000).map(record).collect::<String>());
    let session = harness::session();
    let options = "OPTIONS ('format.has_header' 'true')";
    let table = format!("CREATE EXTERNAL TABLE t STORED AS csv LOCATION '{}' {options}", path.display());
    rows(&session, &table).await;
    let sum = |column: &str, most: u64| format!("SELECT sum({column}) FROM t WHERE a < {most}");
    assert_eq!(rows(&session, &sum("a", 1000)).await, ["499500"]);
    // The column would be read of all rows, to be laid beside the one that is kept of them.
    assert_eq!(rows(&session, &sum("b", 700)).await, ["2100"]);
    assert_eq!(rows(&session, &sum("c", 500)).await, ["1000"]);
    let decided = |what: &str| format!("SELECT count(*) FROM thermocline.decisions WHERE {what}");
    assert_eq!(harness::integer(&session, &decided("reason = 'a value could not be read'")).await, 1);
    assert_eq!(harness::integer(&session, &decided("reason LIKE 'something in the file can''t be read%'")).await, 1);
    let message = harness::error(&session, &sum("b", 70_000)).await;
    assert!(message.contains("line 60002") && message.contains("oops"), "{message}");
}

/// A table of `a` and `b` over NDJSON.
async fn create_pairs(session: &Session, path: &Path) {
    let table = format!("CREATE EXTERNAL TABLE t (a BIGINT, b BIGINT) STORED AS ndjson LOCATION '{}'", path.display());
    rows(session, &table).await;
}

const SUM_OF_PAIRS: &str = "SELECT count(*), sum(b) FROM t WHERE a = 1";

/// One stream may come to the end of a scan of what was asked for while another has yet to find the second bad value.
#[tokio::test(flavor = "multi_thread")]
async fn bad_values_in_two_places_that_are_not_asked_for_cost_no_rows() {
    let folder = Folder::new();
    let bad = |padding: usize| format!("{{\"a\":2,\"b\":\"oops\",\"pad\":\"{}\"}}\n", "x".repeat(padding));
    let good = "{\"a\":1,\"b\":1}\n";
    // The first record is one morsel, the others, up to the border that the last one lies across, are another.
    let first = bad(1 << 20);
    let count = ((2 << 20) - 20 - first.len()) / good.len();
    let path = folder.settled_file("t", first + &good.repeat(count) + &bad(100));
    for _ in 0..5 {
        let session = harness::session();
        create_pairs(&session, &path).await;
        assert_eq!(rows(&session, SUM_OF_PAIRS).await, [format!("{count}|{count}")]);
    }
}

#[tokio::test]
async fn a_file_that_grows_under_a_scan_that_is_given_up_is_read_as_it_was_opened() {
    let folder = Folder::new();
    // Padded so that looking at all records is little beside reading them.
    let record = |a: u64, b: &str| format!("{{\"a\":{a},\"b\":{b},\"pad\":\"{}\"}}\n", "x".repeat(170));
    let path = folder.settled_file("t", record(1, "1").repeat(6000) + &record(2, "\"oops\""));
    let session = harness::eager_session().await;
    create_pairs(&session, &path).await;
    let result = session.sql(SUM_OF_PAIRS).await.unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(record(1, "1").as_bytes()).unwrap();
    assert_eq!(harness::rendered(&result.collect().await.unwrap()), ["6000|6000"]);
    let given_up = "SELECT count(*) FROM thermocline.decisions WHERE reason = 'a value could not be read'";
    assert_eq!(harness::integer(&session, given_up).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_that_are_left_out_are_those_that_are_bad_for_the_query() {
    for case in cases(1..=6) {
        let (_, failed_count) = compare(case, "skip").await;
        assert_eq!(failed_count, 0);
    }
}

/// What two sessions answer, one of which caches, whichever of the queries come first.
async fn answer_in_turn(path: &Path, columns: &str, on_error: &str, queries: &[(&str, &[&str])]) {
    for first in 0..queries.len() {
        let cached = harness::eager_session().await;
        let plain = harness::session();
        rows(&plain, "SET thermocline.cache = 'off'").await;
        for session in [&plain, &cached] {
            let table = format!(
                "CREATE EXTERNAL TABLE t ({columns}) STORED AS ndjson LOCATION '{}' OPTIONS ('on_error' '{on_error}')",
                path.display()
            );
            rows(session, &table).await;
        }
        for turn in 0..2 * queries.len() {
            let (sql, expected) = queries[(first + turn) % queries.len()];
            for (session, which) in [(&plain, "without a cache"), (&cached, "with a cache")] {
                assert_eq!(
                    harness::sorted_rows(session, sql).await,
                    expected,
                    "{which}, turn {turn} from {first}: {sql}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_left_out_by_queries_that_read_its_bad_element_alone() {
    let folder = Folder::new();
    let text = "{\"id\":1,\"items\":[{\"q\":5,\"p\":1}]}\n\
        {\"id\":2,\"items\":[{\"q\":7,\"p\":2},{\"q\":1,\"p\":\"bad\"}]}\n\
        {\"id\":3,\"items\":[{\"q\":9,\"p\":\"bad\"},{\"q\":2,\"p\":3}]}\n";
    let path = folder.settled_file("t", text);
    let columns = "id BIGINT, items STRUCT<q BIGINT, p BIGINT>[]";
    let queries: [(&str, &[&str]); 4] = [
        ("SELECT t.id, i.q, i.p FROM t, UNNEST(t.items) AS i", &["1|5|1"]),
        ("SELECT t.id, i.p FROM t, UNNEST(t.items) AS i WHERE i.q > 3", &["1|1", "2|2"]),
        ("SELECT t.id, i.p FROM t, UNNEST(t.items) AS i WHERE i.q > 6", &["2|2"]),
        ("SELECT t.id, i.p FROM t, UNNEST(t.items) AS i WHERE i.q < 6 AND t.id > 1", &["3|3"]),
    ];
    answer_in_turn(&path, columns, "skip", &queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_value_beside_an_empty_list_fails_no_unnest() {
    let folder = Folder::new();
    let text = "{\"items\":[{\"q\":1}],\"id\":1}\n{\"items\":[],\"id\":\"x\"}\n{\"id\":3}\n";
    let path = folder.settled_file("t", text);
    let columns = "id BIGINT, items STRUCT<q BIGINT>[]";
    let queries: [(&str, &[&str]); 2] = [
        ("SELECT t.id, i.q FROM t, UNNEST(t.items) AS i", &["1|1"]),
        ("SELECT i.q FROM t, UNNEST(t.items) AS i", &["1"]),
    ];
    answer_in_turn(&path, columns, "fail", &queries).await;
    let session = harness::session();
    rows(&session, &format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS ndjson LOCATION '{}'", path.display()))
        .await;
    let message = harness::error(&session, "SELECT id FROM t").await;
    assert!(message.contains("id"), "{message}");
}
