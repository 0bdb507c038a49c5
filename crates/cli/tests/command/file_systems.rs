//! File systems that are full, that can only be read, or that let files grow so far: real ones, where the system lets a
//! test make them.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::interrupts::wait_for;
use crate::run::{Finished, command, folder, run};

const BIN: &str = env!("CARGO_BIN_EXE_thermocline");

/// A table that takes megabytes, for its values have no order.
const LARGE: &str = "SELECT random() AS r, value AS i FROM generate_series(1, 600000)";

/// Whether a folder has what `COPY` writes before it is put in place.
fn has_staged_files(folder: &Path) -> bool {
    let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.any(|name| name.to_string_lossy().starts_with(".thermocline-copy-"))
}

/// Runs a shell script in a namespace of its own, with a file system of two megabytes at `small`. `None` where that is
/// not permitted.
fn with_small_file_system(folder: &Path, script: &str) -> Option<Finished> {
    std::fs::create_dir(folder.join("small")).unwrap();
    let shell = |script: &str| {
        let script = format!("mount -t tmpfs -o size=2m tmpfs small || exit 99\n{script}");
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).current_dir(folder).stdin(Stdio::null()).output()
    };
    if !shell("").is_ok_and(|output| output.status.success()) {
        return None;
    }
    Some(shell(script).unwrap().into())
}

#[test]
fn a_full_disk_fails_the_statement_and_leaves_the_tables_that_there_were() {
    let folder = folder();
    let script = format!(
        r#"
        sql() {{ "{BIN}" --db small/kept.db --format csv -c "$1"; }}
        sql "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)" || exit 1
        ls small/kept.db/tables > before
        for statement in "CREATE TABLE u AS {LARGE}" "CREATE OR REPLACE TABLE t AS {LARGE}" \
            "INSERT INTO t SELECT CAST(r * 1e18 AS BIGINT) FROM ({LARGE})"; do
            sql "$statement" 2> message
            echo "code $?: $(cat message)" >> messages
            ls small/kept.db/tables > after
            cmp before after || exit 2
            test "$(sql 'SELECT sum(i) FROM t' | tail -1)" = 500500 || exit 3
        done
        sql "INSERT INTO t VALUES (0)" || exit 4
        cat messages
        "#
    );
    let Some(finished) = with_small_file_system(folder.path(), &script) else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let messages: Vec<&str> = finished.stdout.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!((finished.code, messages.len()), (Some(0), 3), "{finished:?}");
    for message in messages {
        assert!(message.starts_with("code 3: error: ") && message.contains("No space left on device"), "{message}");
        assert!(message.contains("small/kept.db/tables/") && message.contains("free some space there"), "{message}");
    }
}

#[test]
fn a_full_disk_fails_a_copy_and_leaves_its_target_as_it_was() {
    let folder = folder();
    let script = format!(
        r#"
        echo "what was there" > small/kept.csv
        for target in "kept.csv'" "new.parquet'" "new/' STORED AS CSV"; do
            "{BIN}" -c "COPY ({LARGE}) TO 'small/$target" 2> message
            echo "code $?: $(cat message)"
            test "$(ls -A small)" = kept.csv || exit 2
        done
        test "$(cat small/kept.csv)" = "what was there" || exit 3
        "#
    );
    let Some(finished) = with_small_file_system(folder.path(), &script) else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let messages: Vec<&str> = finished.stdout.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!((finished.code, messages.len()), (Some(0), 3), "{finished:?}");
    for message in messages {
        assert!(message.starts_with("code 3: error: ") && message.contains("No space left on device"), "{message}");
        assert!(message.contains("small/") && message.contains("free some space there"), "{message}");
    }
}

#[test]
fn a_database_is_read_from_a_file_system_that_cannot_be_written() {
    let folder = folder();
    let script = format!(
        r#"
        sql() {{ "{BIN}" --db small/kept.db --format csv "$@"; }}
        sql -c "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)" || exit 1
        echo "half a segment" > small/kept.db/tables/00000001.segment
        mount -o remount,ro small || exit 98
        sql --read-only -c "SELECT sum(i) FROM t" || exit 2
        sql --read-only -c "SELECT count(*) FROM 'events.ndjson'" || exit 3
        sql --read-only -c "DROP TABLE t" && exit 4
        sql -c "SELECT sum(i) FROM t" && exit 5
        exit 0
        "#
    );
    let Some(finished) = with_small_file_system(folder.path(), &script) else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("500500") && finished.stdout.contains("\n3\n"), "{finished:?}");
    let mut messages = finished.stderr.lines().filter(|line| line.starts_with("error: "));
    let refused = messages.next().unwrap();
    assert!(
        refused.contains("public.t cannot be made, changed or dropped") && refused.contains("read-only"),
        "{refused}"
    );
    let unwritable = messages.next().unwrap();
    assert!(unwritable.contains("Read-only file system"), "{unwritable}");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end_of_the_process() {
    let folder = folder();
    let path = folder.path();
    run(path, ["--db", "kept.db", "-c", "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)"]).ok();
    let limited = |sql: &str| -> Finished {
        // In blocks of 512 or 1024 bytes, by shell.
        let script = format!("ulimit -f 512; exec \"{BIN}\" --db kept.db -c \"{sql}\"");
        Command::new("sh").args(["-c", &script]).current_dir(path).stdin(Stdio::null()).output().unwrap().into()
    };
    let message = limited(&format!("CREATE TABLE u AS {LARGE}")).failed(3);
    assert!(message.contains(".segment: cannot write ") && message.contains("ulimit -f"), "{message}");
    assert!(message.contains("raise the limit on the size of files"), "{message}");
    std::fs::write(path.join("large.csv"), "what was there").unwrap();
    let message = limited(&format!("COPY ({LARGE}) TO 'large.csv'")).failed(3);
    assert!(message.contains("large.csv: cannot write at byte ") && message.contains("ulimit -f"), "{message}");
    assert!(message.contains("raise the limit on the size of files"), "{message}");
    assert!(message.contains("free room on the disk") && !message.contains("--memory"), "{message}");
    assert_eq!(std::fs::read_to_string(path.join("large.csv")).unwrap(), "what was there");
    assert!(!has_staged_files(path));
    assert_eq!(std::fs::read_dir(path.join("kept.db/tables")).unwrap().count(), 2);
    let count = ["--db", "kept.db", "--format", "csv", "-c", "SELECT sum(i) AS s FROM t"];
    assert_eq!(run(path, count).ok(), "s\n500500\n");
}

#[test]
fn commands_read_a_folder_side_by_side_and_one_that_would_change_it_is_told_who_they_are() {
    let folder = folder();
    let path = folder.path();
    let create = "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)";
    run(path, ["--db", "kept.db", "-c", create]).ok();
    let sum = ["--db", "kept.db", "--read-only", "--format", "csv", "-c", "SELECT sum(i) AS s FROM t"];
    // Each answers a question, by which the folder is open to it, then waits for SQL that does not come.
    let arguments = ["--db", "kept.db", "--read-only", "-c", "SELECT 1", "-f", "-"];
    let mut readers =
        [(); 2].map(|()| command(path).args(arguments).stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap());
    for reader in &mut readers {
        let mut first_byte = [0];
        reader.stdout.as_mut().unwrap().read_exact(&mut first_byte).unwrap();
    }
    let message = run(path, ["--db", "kept.db", "-c", "SELECT 1"]).failed(1);
    assert!(message.contains("is open for reading in ") && message.contains("close it there first"), "{message}");
    // Who they are is told where the system tells of locks.
    if !message.contains("in another process:") {
        assert!(readers.iter().all(|reader| message.contains(&reader.id().to_string())), "{message}");
    }
    assert_eq!(run(path, sum).ok(), "s\n500500\n");
    for reader in &mut readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    run(path, ["--db", "kept.db", "-c", "INSERT INTO t VALUES (0)"]).ok();
}

#[test]
fn a_command_that_is_killed_leaves_no_file_of_what_it_had_no_memory_for() {
    let folder = folder();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let sorted = "SELECT value, repeat('x', 50) AS text FROM generate_series(1, 1000000000) ORDER BY -value";
    let arguments = ["--memory", "32MB", "-c", sorted];
    let mut child = command(folder.path()).env("TMPDIR", &temporary).args(arguments).spawn().unwrap();
    let open_files = format!("/proc/{}/fd", child.id());
    wait_for("a file in the temporary folder", || {
        let links =
            std::fs::read_dir(&open_files).ok()?.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.into_iter().find(|link| link.starts_with(&temporary))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}
