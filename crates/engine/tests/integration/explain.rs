//! The user can always ask why.

use crate::harness::{self, FIRST, Folder, numbered_ndjson, rows};

#[tokio::test(flavor = "multi_thread")]
async fn explain_cache_names_the_item_and_the_residual_filter() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 20_000));
    let session = harness::eager_session().await;
    let sql = |low: u64| format!("SELECT sum(id) FROM '{}' WHERE value BETWEEN {low} AND 800", path.display());
    let before = rows(&session, &format!("EXPLAIN CACHE {}", sql(200))).await.join("\n");
    assert!(before.contains("miss"), "{before}");
    rows(&session, &sql(200)).await;
    let after = rows(&session, &format!("EXPLAIN CACHE {}", sql(300))).await.join("\n");
    assert!(after.contains("hit") && after.contains("value >= 300"), "{after}");
    let items = rows(&session, "SELECT id FROM thermocline.cache_items").await;
    assert_eq!(items.len(), 1);
    assert!(after.contains(&format!("item {}", items[0])), "{after}");
    let misses = rows(&session, "SELECT count(*) FROM thermocline.decisions WHERE decision = 'hit'").await;
    assert_eq!(misses, ["0"], "asking changed something");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_scan_and_what_was_pushed_into_it() {
    let folder = Folder::new();
    let path = folder.settled_file("t.ndjson", numbered_ndjson(FIRST, 100));
    let session = harness::session();
    let sql = format!(
        "EXPLAIN SELECT sum(i['n']) FROM (SELECT value, unnest(items) AS i FROM '{}') WHERE i['n'] > 1 AND value > 150",
        path.display()
    );
    let plan = rows(&session, &sql).await.join("\n");
    assert!(plan.contains("RawScanExec") && plan.contains("unnest=items"), "{plan}");
    assert!(plan.contains("predicate=") && plan.contains("items.n"), "{plan}");
    assert!(!plan.contains("UnnestExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_unnests_is_guessed_to_give_more_rows_than_records() {
    let folder = Folder::new();
    let path = folder.file("t.ndjson", numbered_ndjson(FIRST, 1000));
    let session = harness::session();
    rows(&session, "SET datafusion.explain.show_statistics = true").await;
    let mut guesses = Vec::new();
    for select in ["id", "unnest(items)"] {
        let plan = rows(&session, &format!("EXPLAIN SELECT {select} FROM '{}'", path.display())).await.join("\n");
        let line = plan.lines().find(|line| line.contains("RawScanExec")).unwrap_or_else(|| panic!("{plan}"));
        let (_, guess) = line.split_once("Rows=Inexact(").unwrap_or_else(|| panic!("{plan}"));
        guesses.push(guess.split(')').next().unwrap().parse::<u64>().unwrap());
    }
    assert!(guesses[1] >= 2 * guesses[0], "{guesses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_computed_of_a_field_reads_that_field_alone_of_its_struct() {
    let folder = Folder::new();
    let records = (0..100).map(|id| match id % 10 {
        9 => format!("{{\"id\":{id}}}\n"),
        size => format!("{{\"id\":{id},\"s\":{{\"size\":{size},\"deep\":{{\"x\":{id}}},\"text\":\"t{id}\"}}}}\n"),
    });
    let path = folder.settled_file("t.ndjson", records.collect::<String>());
    let session = harness::session();
    for (select, columns, first, last) in [
        ("s['size'] + 1", "s.size", "1", "NULL"),
        ("id, s['size'] + id, s['size'] * 2", "id, s.size", "0|0|0", "99|NULL|NULL"),
        ("s['deep']['x'] + 1, upper(s['text'])", "s.deep.x, s.text", "1|T0", "NULL|NULL"),
        ("CASE WHEN s['size'] > 3 THEN s['deep']['x'] ELSE -1 END", "s.deep.x, s.size", "-1", "-1"),
        ("s['size'] AS a, s['size'] AS b", "s.size", "0|0", "NULL|NULL"),
        ("s['size'] + 1, s IS NULL", "s", "1|false", "NULL|true"),
    ] {
        let sql = format!("SELECT {select} FROM '{}'", path.display());
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        let (_, scanned) = plan.split_once("columns=[").unwrap_or_else(|| panic!("{plan}"));
        let mut scanned: Vec<&str> = scanned.split(']').next().unwrap().split(", ").collect();
        scanned.sort_unstable();
        assert_eq!(scanned.join(", "), columns, "{plan}");
        for _ in 0..2 {
            let found = rows(&session, &sql).await;
            assert_eq!((found.len(), found[0].as_str(), found[99].as_str()), (100, first, last), "{sql}");
        }
    }
}
