//! Files that grow while they are queried: the old part is checked, not parsed; only the new part is parsed.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::harness::{self, FIRST, Folder, csv_rows, integer, numbered_csv, numbered_ndjson, rows, session};
use thermocline_engine::Session;

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Bytes that the last query parsed.
async fn parsed_bytes(session: &Session, sql: &str) -> (Vec<String>, u64) {
    let result = session.sql(sql).await.unwrap();
    let progress = result.progress();
    let rows = harness::rendered(&result.collect().await.unwrap());
    (rows, progress.done_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_appending_one_percent_about_one_percent_is_parsed() {
    let folder = Folder::new();
    let path = folder.settled_file("log.ndjson", numbered_ndjson(FIRST, 80_000));
    let size = std::fs::metadata(&path).unwrap().len();
    let session = session();
    // Whether keeping rows pays is measured; on a busy machine it may seem not to.
    rows(&session, "SET thermocline.admission = 'eager'").await;
    let sql = format!("SELECT count(*), sum(id) FROM '{}' WHERE value >= 0", path.display());
    let (_, parsed) = parsed_bytes(&session, &sql).await;
    assert_eq!(parsed, size);
    append(&path, &numbered_ndjson(FIRST + 80_000, 800));
    let (answer, parsed) = parsed_bytes(&session, &sql).await;
    let count = 80_800;
    let sum: u64 = (FIRST..FIRST + count).sum();
    assert_eq!(answer, [format!("{count}|{sum}")]);
    assert!(parsed <= size / 50, "{parsed} of {size} bytes were parsed after appending 1 %");
    assert!(parsed > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn appending_again_and_again_keeps_answers_right() {
    for format in ["ndjson", "csv"] {
        let folder = Folder::new();
        let start = if format == "ndjson" { numbered_ndjson(FIRST, 1000) } else { numbered_csv(FIRST, 1000) };
        let path = folder.file(&format!("log.{format}"), start);
        let session = session();
        let mut count = 1000;
        for step in 0..12 {
            if step == 6 {
                harness::settle();
            }
            let sql = format!("SELECT count(*) FROM '{}' WHERE id >= {FIRST}", path.display());
            assert_eq!(integer(&session, &sql).await, count as i64, "{format}, step {step}");
            let more =
                if format == "ndjson" { numbered_ndjson(FIRST + count, 100) } else { csv_rows(FIRST + count, 100) };
            append(&path, &more);
            count += 100;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_of_a_file_that_grows_by_a_record_at_a_time_lie_in_few_chunks() {
    for layout in ["nested", "flat", "striped", "row"] {
        let folder = Folder::new();
        let path = folder.file("log.ndjson", numbered_ndjson(FIRST, 100));
        let session = harness::eager_session().await;
        rows(&session, &format!("SET thermocline.layout = '{layout}'")).await;
        let sql = format!(
            "SELECT count(*), sum(id), sum(i['n']) FROM (SELECT id, unnest(items) AS i FROM '{}') WHERE id > 0",
            path.display()
        );
        for count in 100..160 {
            let ids = FIRST..FIRST + count;
            let (sum, n): (u64, u64) = (ids.clone().sum(), ids.map(|id| id % 5 + id % 3).sum());
            assert_eq!(rows(&session, &sql).await, [format!("{}|{}|{n}", 2 * count, 2 * sum)], "{layout}");
            append(&path, &numbered_ndjson(FIRST + count, 1));
        }
        let items = session.database().cache().items();
        let chunk_counts: Vec<u64> = items.iter().filter(|item| !item.is_map).map(|item| item.chunk_count).collect();
        assert!(!chunk_counts.is_empty() && chunk_counts.iter().all(|count| *count < 15), "{layout}: {chunk_counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unterminated_last_line_may_become_longer() {
    let folder = Folder::new();
    let path = folder.settled_file("log.csv", "id,value\n1,10\n2,2");
    let session = session();
    let sql = format!("SELECT id, value FROM '{}' WHERE id > 0 ORDER BY id", path.display());
    assert_eq!(rows(&session, &sql).await, ["1|10", "2|2"]);
    assert_eq!(rows(&session, &sql).await, ["1|10", "2|2"]);
    append(&path, "5\n3,30\n");
    assert_eq!(rows(&session, &sql).await, ["1|10", "2|25", "3|30"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_with_a_changed_prefix_is_noticed() {
    let folder = Folder::new();
    let path = folder.settled_file("log.ndjson", numbered_ndjson(FIRST, 5000));
    let session = session();
    let sql = format!("SELECT count(*), sum(id) FROM '{}' WHERE id > 0", path.display());
    rows(&session, &sql).await;
    // Same length, one byte of one record differs, and more records behind.
    let changed =
        numbered_ndjson(FIRST, 5000).replacen("\"id\":12345", "\"id\":92345", 1) + &numbered_ndjson(FIRST + 5000, 10);
    std::fs::write(&path, changed).unwrap();
    let sum: u64 = (FIRST..FIRST + 5010).sum::<u64>() + 80_000;
    assert_eq!(rows(&session, &sql).await, [format!("5010|{sum}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trusting_appends_skips_the_check_by_the_users_choice() {
    let folder = Folder::new();
    let path = folder.settled_file("log.ndjson", numbered_ndjson(FIRST, 5000));
    let session = session();
    rows(&session, "SET thermocline.append = 'trust'").await;
    let sql = format!("SELECT count(*) FROM '{}' WHERE id > 0", path.display());
    assert_eq!(integer(&session, &sql).await, 5000);
    append(&path, &numbered_ndjson(FIRST + 5000, 10));
    assert_eq!(integer(&session, &sql).await, 5010);
}
