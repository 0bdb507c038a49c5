//! The cache's requests are recorded where the user says, and only where they may be.

use thermocline_engine::{Database, DatabaseOptions, Eviction};
use thermocline_placement::operator_cache::SourceKind;
use thermocline_placement::operator_cache::replay::{Newcomers, replay};
use thermocline_placement::operator_cache::trace::{Answered, Request, parse};

use crate::harness::{self, FIRST, Folder, MIB, numbered_csv, numbered_ndjson, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_trace_tells_what_was_asked_and_replays() {
    let folder = Folder::new();
    let json = folder.file("t.ndjson", numbered_ndjson(FIRST, 20_000));
    let csv = folder.file("t.csv", numbered_csv(FIRST, 20_000));
    harness::settle();
    let trace = folder.path().join("trace.ndjson");
    let session = harness::eager_session().await;
    let sum = |path: &std::path::Path, low: u64| {
        format!("SELECT sum(value) FROM '{}' WHERE value BETWEEN {low} AND 900", path.display())
    };
    rows(&session, &sum(&csv, 300)).await;
    assert_eq!(rows(&session, "SHOW thermocline.trace").await, ["thermocline.trace|none"]);
    rows(&session, &format!("SET thermocline.trace = '{}'", trace.display())).await;
    for (path, low) in [(&csv, 300), (&json, 200), (&json, 200), (&json, 400)] {
        rows(&session, &sum(path, low)).await;
    }
    rows(&session, "SET thermocline.trace = 'NONE'").await;
    assert_eq!(rows(&session, "SHOW thermocline.trace").await, ["thermocline.trace|none"]);
    rows(&session, &sum(&json, 500)).await;
    let requests = parse(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    let told: Vec<(SourceKind, bool)> =
        requests.iter().map(|request| (request.kind, request.answered == Answered::Missed)).collect();
    let (csv_hit, json_hit) = ((SourceKind::Csv, false), (SourceKind::Json, false));
    assert_eq!(told, [csv_hit, (SourceKind::Json, true), json_hit, json_hit]);
    assert!(requests.iter().all(|request| request.execute_ns > 0 && request.reuse_ns() > 0), "{requests:?}");
    let of_item = |request: &Request| (request.item, request.execute_ns);
    assert!(requests[2..].iter().all(|hit| of_item(hit) == of_item(&requests[1])), "of its scan: {requests:?}");
    let replayed = replay(&requests, Eviction::default().policy(), 64 * MIB, Newcomers::Weighed);
    assert_eq!((replayed.hit_count, replayed.missed_count), (2, 2), "the CSV file's item was made before");
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_are_written_only_where_sql_may_write_and_never_over_data() {
    let (allowed, outside) = (Folder::new(), Folder::new());
    let data = allowed.file("data.ndjson", "{\"a\":1}\n");
    let session = harness::session();
    let set = |path: &std::path::Path| format!("SET thermocline.trace = '{}'", path.display());
    let message = harness::error(&session, &set(&data)).await;
    assert!(message.contains("data.ndjson") && message.contains("other content"), "{message}");
    assert_eq!(std::fs::read_to_string(&data).unwrap(), "{\"a\":1}\n");
    rows(&session, &format!("SET thermocline.allowed_directories = '{}'", allowed.path().display())).await;
    let forbidden = outside.path().join("trace.ndjson");
    let message = harness::error(&session, &set(&forbidden)).await;
    assert!(message.contains("thermocline.trace") && !forbidden.exists(), "{message}");
    rows(&session, &set(&allowed.path().join("trace.ndjson"))).await;
    rows(&session, "SET thermocline.lock_configuration = true").await;
    let message = harness::error(&session, "SET thermocline.trace = 'none'").await;
    assert!(message.contains("locked"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_a_database_was_opened_with_is_shown_and_stays() {
    for name in Eviction::ALL {
        let options = DatabaseOptions { memory_bytes: Some(64 * MIB), eviction: name, ..Default::default() };
        let session = Database::open(options).unwrap().session();
        assert_eq!(rows(&session, "SHOW thermocline.eviction").await, [format!("thermocline.eviction|{name}")]);
        let message = harness::error(&session, "SET thermocline.eviction = 'lru'").await;
        assert!(message.contains("when the database is opened"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_proteus_what_came_from_csv_goes_first_though_it_was_used_last() {
    let folder = Folder::new();
    let json = folder.file("a.ndjson", numbered_ndjson(FIRST, 20_000));
    let csv = [1, 2].map(|index| folder.file(&format!("{index}.csv"), numbered_csv(FIRST, 20_000)));
    harness::settle();
    let options = DatabaseOptions {
        memory_bytes: Some(256 * MIB),
        cache_memory_bytes: Some(100_000),
        threads: Some(2),
        eviction: Eviction::Proteus,
        ..Default::default()
    };
    let session = Database::open(options).unwrap().session();
    rows(&session, "SET thermocline.admission = 'eager'").await;
    // 20,000 integers of 16 bits are 40 KB: two items fit, a third does not.
    for path in [&json, &csv[0], &csv[1]] {
        rows(&session, &format!("SELECT sum(id) FROM '{}' WHERE id > 0", path.display())).await;
    }
    let evicted = rows(&session, "SELECT path FROM thermocline.decisions WHERE decision = 'evict'").await;
    assert!(!evicted.is_empty() && evicted.iter().all(|path| path.ends_with("1.csv")), "{evicted:?}");
}
