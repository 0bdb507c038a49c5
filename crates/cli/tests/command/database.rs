//! `--db`: a folder that one command at a time has open.

use std::process::Stdio;
use std::time::Duration;

use crate::run::{command, folder, run};

const COUNT: [&str; 6] = ["--db", "kept.db", "--format", "csv", "-c", "SELECT count(*) AS n FROM 'events.ndjson'"];

#[test]
fn the_folder_is_made_once_and_used_again() {
    let folder = folder();
    for _ in 0..2 {
        assert_eq!(run(folder.path(), COUNT).ok(), "n\n3\n");
    }
    assert!(folder.path().join("kept.db/thermocline.format").exists());
}

#[test]
fn a_second_command_is_told_who_has_it_open_until_that_ends_however_it_does() {
    let folder = folder();
    // It opens the folder, then waits for SQL.
    let mut first = command(folder.path()).args(["--db", "kept.db"]).stdin(Stdio::piped()).spawn().unwrap();
    let holder = format!("{}\n", first.id());
    while std::fs::read_to_string(folder.path().join("kept.db/lock")).ok().as_ref() != Some(&holder) {
        assert_eq!(first.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    let message = run(folder.path(), COUNT).failed(1);
    assert!(message.contains(&format!("is open in process {}: close it there first", first.id())), "{message}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(run(folder.path(), COUNT).ok(), "n\n3\n");
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = folder();
    let message = run(folder.path(), ["--db", ".", "-c", "SELECT 1"]).failed(1);
    assert!(message.contains("holds other files and is no database"), "{message}");
}

/// What a query answers from the folder, as CSV without its header.
fn answer(folder: &std::path::Path, sql: &str) -> String {
    let text = run(folder, ["--db", "kept.db", "--format", "csv", "-c", sql]).ok();
    text.lines().skip(1).collect::<Vec<_>>().join(";")
}

#[test]
fn tables_views_and_external_tables_are_there_the_next_time() {
    let folder = folder();
    for statement in [
        "CREATE TABLE numbers AS SELECT value AS i, value % 7 AS k FROM generate_series(1, 300000)",
        "INSERT INTO numbers VALUES (0, NULL)",
        "CREATE EXTERNAL TABLE events STORED AS NDJSON LOCATION 'events.ndjson'",
        "CREATE VIEW fewer AS SELECT i FROM numbers WHERE k = 1",
    ] {
        run(folder.path(), ["--db", "kept.db", "-c", statement]).ok();
    }
    assert_eq!(answer(folder.path(), "SELECT count(*), sum(i), count(k) FROM numbers"), "300001,45000150000,300000");
    assert_eq!(answer(folder.path(), "SELECT count(*), min(i), max(i) FROM fewer"), "42858,1,300000");
    assert_eq!(answer(folder.path(), "SELECT count(*) FROM events"), "3");
    // From elsewhere too: the location was made absolute.
    let below = folder.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let text = run(&below, ["--db", "../kept.db", "--format", "csv", "-c", "SELECT count(*) AS n FROM events"]).ok();
    assert_eq!(text, "n\n3\n");
}

#[test]
fn a_command_killed_at_any_moment_loses_nothing_that_was_acknowledged() {
    let folder = folder();
    let create = "CREATE TABLE t AS SELECT 0 AS round, value AS i FROM generate_series(1, 1000)";
    run(folder.path(), ["--db", "kept.db", "-c", create]).ok();
    let change = |round: u64| {
        let rows = "value AS i FROM generate_series(1, 400000)";
        match round % 3 {
            0 => format!("INSERT INTO t SELECT {round}, {rows}"),
            1 => format!("CREATE OR REPLACE TABLE t AS SELECT {round} AS round, {rows}"),
            _ => format!("DROP TABLE t; CREATE TABLE t AS SELECT {round} AS round, {rows}"),
        }
    };
    let count = "SELECT count(*) AS n, sum(i) AS s FROM t";
    let mut known = answer(folder.path(), count);
    for round in 0..18_u64 {
        let mut writer = command(folder.path())
            .args(["--db", "kept.db", "-c", &change(round)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(60 + 37 * (round % 9)));
        let ended = writer.try_wait().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let exists =
            answer(folder.path(), "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'") == "1";
        if !exists {
            // Killed between dropping the table and making it anew, which are two statements.
            assert!(round % 3 == 2 && ended.is_none(), "round {round}");
            run(folder.path(), ["--db", "kept.db", "-c", create]).ok();
            known = answer(folder.path(), count);
            continue;
        }
        let found = answer(folder.path(), count);
        let whole = "400000,80000200000";
        let grown = match known.split_once(',') {
            Some((rows, sum)) => {
                let (rows, sum): (u64, u64) = (rows.parse().unwrap(), sum.parse().unwrap());
                format!("{},{}", rows + 400_000, sum + 80_000_200_000)
            }
            None => String::new(),
        };
        let expected = if round % 3 == 0 { grown.as_str() } else { whole };
        let is_done = found == expected;
        assert!(is_done || (ended.is_none() && found == known), "round {round}: {known} became {found}");
        known = found;
        let entries = std::fs::read_dir(folder.path().join("kept.db/tables")).unwrap();
        assert!(entries.count() < 12, "files of killed commands are removed");
    }
}
