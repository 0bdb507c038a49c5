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
