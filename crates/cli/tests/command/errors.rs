//! What goes wrong is told with its place, and ends with the exit code that `--help` documents.

use std::fs::OpenOptions;
use std::path::Path;

use crate::run::{Finished, command, folder, run, run_with_input};

fn ask(folder: &Path, sql: &str) -> Finished {
    run(folder, ["--format", "csv", "-c", sql])
}

#[test]
fn a_missing_file_is_named() {
    let folder = folder();
    let message = ask(folder.path(), "SELECT * FROM 'nowhere.ndjson'").failed(1);
    assert!(message.contains("nowhere.ndjson"), "{message}");
}

#[test]
fn a_folder_or_glob_without_a_file_is_named() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for place in ["empty/", "no*.csv"] {
        let message = ask(folder.path(), &format!("SELECT * FROM '{place}'")).failed(1);
        assert!(message.contains(place.trim_end_matches('/')), "{message}");
    }
}

#[test]
fn bad_json_is_told_with_file_and_byte() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.ndjson"), "{\"a\":1}\n{\"a\":2}\n{\"a\":oops}\n{\"a\":4}\n").unwrap();
    let message = ask(folder.path(), "SELECT sum(a) FROM 'bad.ndjson'").failed(1);
    assert!(message.contains("bad.ndjson"), "{message}");
    // The third record begins at byte 16, its value at byte 21.
    assert!(["16", "21"].iter().any(|offset| message.contains(offset)), "{message}");
}

#[test]
fn a_short_csv_row_is_told_with_file_and_line() {
    let folder = folder();
    std::fs::write(folder.path().join("short.csv"), "a,b\n1,2\n3\n4,5\n").unwrap();
    let message = ask(folder.path(), "SELECT sum(a), sum(b) FROM 'short.csv'").failed(1);
    assert!(message.contains("short.csv") && message.contains("line 3"), "{message}");
}

#[test]
fn the_first_failure_ends_the_run_after_what_came_before_it() {
    let folder = folder();
    let arguments = ["--format", "csv", "-c", "SELECT 1 AS a", "-c", "SELECT nothing", "-c", "SELECT 3 AS c"];
    let run = run(folder.path(), arguments);
    assert_eq!(run.stdout, "a\n1\n");
    assert!(run.failed(1).contains("nothing"));
}

#[test]
fn text_that_is_not_sql_runs_nothing_and_is_told_with_its_place() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.sql"), "SELECT 1 AS a;\nSELEKT 2;").unwrap();
    let run = run(folder.path(), ["--format", "csv", "-f", "bad.sql"]);
    assert_eq!(run.stdout, "");
    let message = run.failed(1);
    assert!(message.contains("bad.sql: syntax error at line 2, column 1: expected "), "{message}");
}

#[test]
fn a_statement_of_a_script_that_fails_is_told_with_its_line() {
    let folder = folder();
    let script = "-- figures;\nSELECT 1 AS a;\n\n/* next\n */ SELECT nothing;\nSELECT 3 AS c;";
    std::fs::write(folder.path().join("report.sql"), script).unwrap();
    let from_file = run(folder.path(), ["--format", "csv", "-f", "report.sql"]);
    let from_pipe = run_with_input(folder.path(), &["--format", "csv"], script.as_bytes());
    for (finished, place) in [(from_file, "error: report.sql:5: "), (from_pipe, "error: line 5: ")] {
        assert_eq!(finished.stdout, "a\n1\n");
        let message = finished.failed(1);
        assert!(message.starts_with(place) && message.contains("nothing"), "{message}");
    }
}

#[test]
fn what_is_no_sql_in_a_pipe_is_told_with_its_place_in_all_of_it() {
    let folder = folder();
    let finished = run_with_input(
        folder.path(),
        &["--format", "csv"],
        b"SELECT 1 AS a;\nSELECT 2 AS b; SELEKT 3;\nSELECT 4 AS d;",
    );
    assert_eq!(finished.stdout, "a\n1\nb\n2\n");
    let message = finished.failed(1);
    assert!(message.starts_with("error: syntax error at line 2, column 16: "), "{message}");
}

#[test]
fn a_comment_without_an_end_hides_no_statement_of_a_pipe() {
    let folder = folder();
    for rest in ["/* see /* below */\nSELECT 2 AS b;\n", "/*! SELECT 2 AS b;\n", "/*"] {
        let sql = format!("SELECT 1 AS a;\n{rest}");
        let finished = run_with_input(folder.path(), &["--format", "csv"], sql.as_bytes());
        assert_eq!(finished.stdout, "a\n1\n");
        let message = finished.failed(1);
        assert!(message.contains("comment"), "{message}");
    }
}

#[test]
fn commands_of_the_shell_are_refused_in_scripts() {
    let folder = folder();
    let script = "SELECT 1 AS a;\n.tables\nSELECT 2 AS b;";
    std::fs::write(folder.path().join("dots.sql"), script).unwrap();
    let from_file = run(folder.path(), ["--format", "csv", "-f", "dots.sql"]);
    assert_eq!(from_file.stdout, "", "nothing runs");
    let from_pipe = run_with_input(folder.path(), &["--format", "csv"], script.as_bytes());
    for (finished, place) in [(from_file, "dots.sql:2"), (from_pipe, "line 2")] {
        let message = finished.failed(1);
        assert!(message.contains(&format!("{place}: `.tables` is a command of the shell: expected SQL")), "{message}");
    }
}

#[test]
fn messages_cannot_move_the_cursor() {
    let folder = folder();
    std::fs::write(folder.path().join("bell.csv"), "a\n1\n\u{1b}[2J\u{7}\n").unwrap();
    let finished = ask(folder.path(), "SELECT sum(CAST(a AS BIGINT)) FROM 'bell.csv'");
    let message = finished.failed(1);
    assert!(message.contains("u{1b}[2J"), "{message}");
    assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
}

#[test]
fn thousands_of_conditions_fit_on_the_stack() {
    let folder = folder();
    let conditions = vec!["now() IS NULL"; 1500];
    let sql = format!("SELECT 1 AS n WHERE {}", conditions.join(" OR "));
    assert_eq!(ask(folder.path(), &sql).ok(), "n\n");
}

#[test]
fn a_sql_file_that_cannot_be_read_is_named() {
    let folder = folder();
    assert!(run(folder.path(), ["-f", "nowhere.sql"]).failed(1).contains("nowhere.sql"));
    std::fs::write(folder.path().join("latin.sql"), b"SELECT '\xe9'").unwrap();
    assert!(run(folder.path(), ["-f", "latin.sql"]).failed(1).contains("latin.sql"));
}

#[test]
fn a_path_without_quotes_gets_a_hint() {
    let folder = folder();
    let message = ask(folder.path(), "SELECT * FROM events").failed(1);
    assert!(message.contains("hint: ") && message.contains("single quotes"), "{message}");
}

#[test]
fn wrong_usage_ends_with_two() {
    let folder = folder();
    let wrong: [&[&str]; 6] = [
        &["--threads", "100000", "-c", "SELECT 1"],
        &["--nothing"],
        &["--memory", "much", "-c", "SELECT 1"],
        &["--format", "xml"],
        &["demo", "-c", "x"],
        &["--db"],
    ];
    for arguments in wrong {
        let run = run(folder.path(), arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}");
    }
    assert_eq!(run(folder.path(), ["--help"]).code, Some(0));
    assert_eq!(run(folder.path(), ["--version"]).code, Some(0));
}

#[test]
fn too_little_memory_ends_with_three_and_names_the_setting() {
    let folder = folder();
    let join = "SELECT count(*) FROM generate_series(1, 4000000) AS a(x) \
                JOIN generate_series(1, 4000000) AS b(x) ON a.x = b.x";
    let message = run(folder.path(), ["--memory", "16MB", "-c", join]).failed(3);
    assert!(message.contains("thermocline.memory"), "{message}");
    assert!(message.contains("hint: "), "{message}");
}

#[test]
fn a_full_disk_under_the_output_ends_with_three() {
    let folder = folder();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(folder.path())
        .args(["--format", "csv", "-c", "SELECT * FROM 'people.csv'"])
        .stdout(full)
        .output()
        .unwrap();
    let message = Finished::from(output).failed(3);
    assert!(message.contains("standard output"), "{message}");
    assert!(message.contains("hint: free room on the disk") && !message.contains("--memory"), "{message}");
}

#[test]
fn standard_input_that_is_no_text_is_an_error() {
    let folder = folder();
    assert!(run_with_input(folder.path(), &[], b"SELECT '\xff'").failed(1).contains("standard input"));
    let finished = run_with_input(folder.path(), &["--format", "csv"], b"SELECT 1 AS a; SELECT 2\xff;");
    assert_eq!(finished.stdout, "a\n1\n", "what came before it has run");
    assert!(finished.failed(1).contains("standard input"));
    assert!(run_with_input(folder.path(), &[], b"SELECT nothing").failed(1).contains("nothing"));
}
