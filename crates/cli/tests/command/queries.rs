//! SQL over files, in every format and from every place that SQL can come from.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::run::{Finished, command, folder, run, run_with_input};

#[test]
fn a_file_is_asked_by_its_name_and_the_answer_is_a_table() {
    let folder = folder();
    let table = run(folder.path(), ["-c", "SELECT kind, size FROM 'events.ndjson' WHERE id <> 3 ORDER BY id"]).ok();
    assert_eq!(
        table,
        "\
┌───────┬──────┐
│ kind  │ size │
├───────┼──────┤
│ open  │  1.5 │
│ close │ NULL │
└───────┴──────┘
"
    );
}

#[test]
fn csv_goes_out_as_it_came_in() {
    let folder = folder();
    let csv = run(folder.path(), ["--format", "csv", "-c", "SELECT * FROM 'people.csv' ORDER BY id"]).ok();
    assert_eq!(csv, std::fs::read_to_string(folder.path().join("people.csv")).unwrap());
}

#[test]
fn nested_values_go_out_as_json() {
    let folder = folder();
    let sql = "SELECT id, items FROM 'events.ndjson' WHERE id < 3 ORDER BY id";
    let json = run(folder.path(), ["--format", "json", "-c", sql]).ok();
    assert_eq!(
        json,
        "{\"id\":1,\"items\":[{\"sku\":\"a\",\"n\":2},{\"sku\":\"b\",\"n\":5}]}\n{\"id\":2,\"items\":[]}\n"
    );
}

#[test]
fn lists_are_unnested_from_the_command_line() {
    let folder = folder();
    let sql = "SELECT e.id, i.sku AS sku FROM 'events.ndjson' AS e, UNNEST(e.items) AS i WHERE i.n > 2 ORDER BY e.id";
    let csv = run(folder.path(), ["--format", "csv", "-c", sql]).ok();
    assert_eq!(csv, "id,sku\n1,b\n3,c\n");
}

#[test]
fn markdown_can_be_pasted() {
    let folder = folder();
    let text = run(folder.path(), ["--format", "markdown", "-c", "SELECT count(*) AS n FROM 'events.ndjson'"]).ok();
    assert_eq!(text, "| n |\n| ---: |\n| 3 |\n");
}

#[test]
fn commands_and_files_run_in_the_order_given_in_one_session() {
    let folder = folder();
    std::fs::write(folder.path().join("two.sql"), "SELECT x + 1 AS two FROM t; SELECT 'three' AS three;").unwrap();
    let arguments =
        ["--format", "csv", "-c", "CREATE VIEW t AS SELECT 1 AS x", "-f", "two.sql", "-c", "SELECT 4 AS four"];
    assert_eq!(run(folder.path(), arguments).ok(), "two\n2\nthree\nthree\nfour\n4\n");
}

#[test]
fn sql_is_read_from_standard_input_when_nothing_else_is_asked() {
    let folder = folder();
    let ask = |arguments: &[&str], input: &str| run_with_input(folder.path(), arguments, input.as_bytes()).ok();
    assert_eq!(ask(&["--format", "csv"], "SELECT 1 AS a;\nSELECT 2 AS b"), "a\n1\nb\n2\n");
    assert_eq!(ask(&["--format", "csv", "-c", "SELECT 0 AS z", "-f", "-"], "SELECT 1 AS a"), "z\n0\na\n1\n");
}

#[test]
fn a_statement_of_a_pipe_runs_as_soon_as_its_semicolon_has_come() {
    let folder = folder();
    let mut child = command(folder.path()).args(["--format", "csv"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 4];
        while output.read_exact(&mut bytes).is_ok() && sender.send(bytes).is_ok() {}
    });
    let answer = || answers.recv_timeout(Duration::from_secs(20)).unwrap();
    input.write_all(b"SELECT 1 AS a;").unwrap();
    assert_eq!(&answer(), b"a\n1\n");
    input.write_all(b"\nSELECT 2 AS b; SELECT").unwrap();
    assert_eq!(&answer(), b"b\n2\n");
    input.write_all(b" 3 AS c").unwrap();
    drop(input);
    assert_eq!(&answer(), b"c\n3\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn strings_of_a_pipe_may_have_semicolons_and_lines() {
    let folder = folder();
    let sql = "SELECT $$a;\nSELECT 0;$$ AS a; SELECT E'it\\'s; ' AS b; -- none;\nSELECT $t$;$$;$t$ AS c;";
    let csv = run_with_input(folder.path(), &["--format", "csv"], sql.as_bytes()).ok();
    assert_eq!(csv, "a\n\"a;\nSELECT 0;\"\nb\nit's; \nc\n;$$;\n");
}

#[test]
fn comments_that_the_parser_reads_run_from_everywhere() {
    let folder = folder();
    let sql = "/*! SELECT 1 AS a */; SELECT 2 AS b;\n/*!50110 SELECT 3 AS c; SELECT 4 AS d */";
    let answers = "a\n1\nb\n2\nc\n3\nd\n4\n";
    assert_eq!(run_with_input(folder.path(), &["--format", "csv"], sql.as_bytes()).ok(), answers);
    assert_eq!(run(folder.path(), ["--format", "csv", "-c", sql]).ok(), answers);
}

#[test]
fn remarks_and_semicolons_of_a_pipe_ask_for_nothing() {
    let folder = folder();
    for sql in ["", " \n", ";;", "-- none", "/* none; */ ;", "/*! */;"] {
        assert_eq!(run_with_input(folder.path(), &["--timer"], sql.as_bytes()).ok(), "", "{sql}");
    }
}

#[test]
fn nothing_of_standard_input_that_is_a_file_runs_if_any_of_it_is_not_sql() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.sql"), "SELECT 1 AS a;\nSELEKT 2;").unwrap();
    let input = File::open(folder.path().join("bad.sql")).unwrap();
    let finished = Finished::from(command(folder.path()).args(["--format", "csv"]).stdin(input).output().unwrap());
    assert_eq!(finished.stdout, "");
    let message = finished.failed(1);
    assert!(message.contains("syntax error at line 2, column 1: "), "{message}");
}

#[test]
fn a_byte_order_mark_is_no_sql() {
    let folder = folder();
    std::fs::write(folder.path().join("marked.sql"), "\u{feff}SELECT 1 AS a").unwrap();
    assert_eq!(run(folder.path(), ["--format", "csv", "-f", "marked.sql"]).ok(), "a\n1\n");
    assert_eq!(run_with_input(folder.path(), &["--format", "csv"], "\u{feff}SELECT 1 AS a".as_bytes()).ok(), "a\n1\n");
}

#[test]
fn sql_of_the_command_line_may_begin_with_a_comment() {
    let folder = folder();
    assert_eq!(run(folder.path(), ["--format", "csv", "-c", "-- a\nSELECT 1 AS b"]).ok(), "b\n1\n");
}

#[test]
fn values_without_a_text_are_numbers_and_lose_no_row() {
    let folder = folder();
    let sql = "SELECT arrow_cast(v, 'Timestamp(Second, None)') AS t, [arrow_cast(v, 'Duration(Second)')] AS d, \
               [CAST('NaN' AS DOUBLE)] AS x FROM (VALUES (0), (9223372036854775807)) AS s(v) ORDER BY v";
    let ask = |format: &str| run(folder.path(), ["--format", format, "-c", sql]).ok();
    let far = "9223372036854775807";
    assert_eq!(ask("csv"), format!("t,d,x\n1970-01-01T00:00:00,\"[\"\"P0D\"\"]\",[NaN]\n{far},[{far}],[NaN]\n"));
    assert_eq!(
        ask("json"),
        format!(
            "{{\"t\":\"1970-01-01T00:00:00\",\"d\":[\"P0D\"],\"x\":[null]}}\n\
             {{\"t\":{far},\"d\":[{far}],\"x\":[null]}}\n"
        )
    );
    assert!(ask("table").contains(&format!("│ {far}")) && ask("markdown").contains(&format!("| {far} | [{far}] |")));
}

#[test]
fn a_narrower_question_is_answered_from_what_a_wider_one_left() {
    let folder = folder();
    let wide = "SELECT id, kind FROM 'events.ndjson' WHERE id BETWEEN 1 AND 3";
    let narrow = "EXPLAIN CACHE SELECT id, kind FROM 'events.ndjson' WHERE id BETWEEN 2 AND 3";
    let text = run(folder.path(), ["--format", "json", "-c", wide, "-c", narrow]).ok();
    let explained = text.lines().last().unwrap();
    assert!(explained.contains("\"decision\":\"hit\"") && explained.contains("id >= 2"), "{text}");
}

#[test]
fn a_cache_that_is_off_is_not_asked() {
    let folder = folder();
    let ask = |text: &str| {
        let sql = format!(
            "SELECT id FROM 'events.ndjson' WHERE id > 0; {text}; SELECT id FROM 'events.ndjson' WHERE id > 1; \
             SELECT count(*) AS uses FROM thermocline.decisions WHERE decision IN ('hit', 'subsume')"
        );
        run(folder.path(), ["--format", "csv", "-c", &sql]).ok()
    };
    assert!(ask("SET thermocline.cache = 'on'").ends_with("uses\n1\n"));
    assert!(ask("SET thermocline.cache = 'off'").ends_with("uses\n0\n"));
}

#[test]
fn an_output_of_many_batches_is_complete() {
    let folder = folder();
    let sql = "SELECT value FROM generate_series(1, 100000) ORDER BY value";
    let csv = run(folder.path(), ["--format", "csv", "-c", sql]).ok();
    assert_eq!(csv.lines().count(), 100_001);
    assert!(csv.ends_with("99999\n100000\n"));
}

#[test]
fn the_timer_writes_seconds_to_standard_error() {
    let folder = folder();
    let run = run(folder.path(), ["--timer", "--format", "csv", "-c", "SELECT 1 AS a"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "a\n1\n"));
    let seconds: f64 = run.stderr.strip_prefix("time: ").unwrap().strip_suffix(" s\n").unwrap().parse().unwrap();
    assert!(seconds > 0.0);
}

#[test]
fn statements_without_rows_print_nothing() {
    let folder = folder();
    assert_eq!(run(folder.path(), ["-c", "SET thermocline.cache = 'off'"]).ok(), "");
    assert_eq!(run(folder.path(), ["-c", "CREATE TABLE t AS SELECT 1 AS a"]).ok(), "");
    assert_eq!(run(folder.path(), ["-c", ""]).ok(), "");
}

#[test]
fn a_piped_run_has_no_colours_and_no_bar() {
    let folder = folder();
    let output = command(folder.path())
        .args(["-c", "SELECT NULL AS a", "-c", "SELECT nothing"])
        .env("TERM", "xterm-256color")
        .output()
        .unwrap();
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{output:?}");
}

#[test]
fn the_memory_budget_of_the_command_line_is_the_one_in_force() {
    let folder = folder();
    let text = run(
        folder.path(),
        [
            "--memory",
            "300MB",
            "--cache-memory",
            "100MB",
            "--eviction",
            "monetdb",
            "--format",
            "csv",
            "-c",
            "SHOW thermocline.memory",
            "-c",
            "SHOW thermocline.cache_memory",
            "-c",
            "SHOW thermocline.eviction",
        ],
    )
    .ok();
    assert!(text.contains("300 MB") && text.contains("100 MB") && text.contains("monetdb"), "{text}");
}

#[test]
fn hardware_is_reported_with_units() {
    let folder = folder();
    let known = run(folder.path(), ["hardware", "--no-calibrate"]).ok();
    assert!(known.contains("RAM") && known.contains("iB") && !known.contains("/s"), "{known}");
    let measured = run(folder.path(), ["hardware"]).ok();
    assert!(measured.contains("/s, one core") && measured.contains(" ns"), "{measured}");
}
