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
