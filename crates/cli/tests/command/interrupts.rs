//! Ctrl-C, and readers that leave.
//!
//! The bounds are generous: a test that fails tells of a hang, not of a slow machine.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::run::{Finished, command, folder, interrupt};

/// 10^12 rows: days.
pub(crate) const ENDLESS: &str = "SELECT sum(a.x * b.x) FROM generate_series(1, 1000000) AS a(x) \
                                  CROSS JOIN generate_series(1, 1000000) AS b(x)";
/// More rows than any pipe holds.
const LONG: [&str; 4] = ["--format", "csv", "-c", "SELECT value FROM generate_series(1, 1000000000)"];

/// How long an end may take.
const BOUND: Duration = Duration::from_secs(20);

/// The end of `child`, if it comes in time.
pub(crate) fn end_in_time(mut child: Child) -> Finished {
    let process_id = child.id();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait().unwrap()));
    let Ok(status) = receiver.recv_timeout(BOUND) else {
        let _ = Command::new("kill").args(["-KILL", &process_id.to_string()]).status();
        panic!("still running after {BOUND:?}");
    };
    let mut finished = Finished { code: status.code(), stdout: String::new(), stderr: String::new() };
    if let Some(mut pipe) = stdout {
        pipe.read_to_string(&mut finished.stdout).unwrap();
    }
    if let Some(mut pipe) = stderr {
        pipe.read_to_string(&mut finished.stderr).unwrap();
    }
    finished
}

/// What `sign` finds, as soon as it does.
pub(crate) fn wait_for<T>(what: &str, mut sign: impl FnMut() -> Option<T>) -> T {
    for _ in 0..2_000 {
        if let Some(found) = sign() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not seen");
}

/// How long what comes after an answer has to begin before Ctrl-C. It is seen before too, but proves less then.
const HEAD_START: Duration = Duration::from_millis(200);

/// Waits for the beginning of an answer, from which on signals are the command's own and statements run.
fn begun(child: &mut Child) {
    let mut first_byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first_byte).unwrap();
    thread::sleep(HEAD_START);
}

#[test]
fn ctrl_c_ends_a_long_query_at_once_with_130() {
    let folder = folder();
    let arguments = ["--format", "csv", "-c", "SELECT 1 AS a", "-c", ENDLESS];
    let mut child = command(folder.path()).args(arguments).spawn().unwrap();
    begun(&mut child);
    interrupt(child.id());
    let finished = end_in_time(child);
    assert_eq!(finished.code, Some(130), "{finished:?}");
    // The first byte of the first answer was read before.
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("\n1\n", "interrupted\n"));
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_its_input() {
    let folder = folder();
    let mut child = command(folder.path()).args(["--format", "csv"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut still_open = child.stdin.take().unwrap();
    still_open.write_all(b"SELECT 1 AS a;\n").unwrap();
    begun(&mut child);
    interrupt(child.id());
    assert_eq!(end_in_time(child).code, Some(130));
    drop(still_open);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_was_started_to_ignore_ctrl_c_goes_on() {
    let folder = folder();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$0\" --format csv", env!("CARGO_BIN_EXE_thermocline")])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"SELECT 1 AS a;\n").unwrap();
    begun(&mut child);
    interrupt(child.id());
    input.write_all(b"SELECT 2 AS b;\n").unwrap();
    drop(input);
    let finished = end_in_time(child);
    // The first byte of the first answer was read before.
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "\n1\nb\n2\n"), "{finished:?}");
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_a_script() {
    let folder = folder();
    assert!(Command::new("mkfifo").arg(folder.path().join("script.sql")).status().unwrap().success());
    let child = command(folder.path()).args(["-f", "script.sql"]).spawn().unwrap();
    // Opening a pipe to write without waiting fails until somebody has it open to read.
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    let _writer = wait_for("the script's reader", || options.open(folder.path().join("script.sql")).ok());
    interrupt(child.id());
    assert_eq!(end_in_time(child).code, Some(130));
}

#[test]
fn ctrl_c_ends_a_run_whose_reader_does_not_read() {
    let folder = folder();
    let mut child = command(folder.path()).args(LONG).spawn().unwrap();
    begun(&mut child);
    // Open, and not read to its end.
    let _unread = child.stdout.take();
    interrupt(child.id());
    assert_eq!(end_in_time(child).code, Some(130));
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    let folder = folder();
    let mut child = command(folder.path()).args(LONG).spawn().unwrap();
    let mut head = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"value\n");
    let finished = end_in_time(child);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_leaves_before_the_last_statement_is_told_by_the_exit_code() {
    let folder = folder();
    let leave_early = |mut child: Child| {
        let mut head = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut head).unwrap();
        let finished = end_in_time(child);
        assert_eq!(finished.stderr, "");
        finished.code
    };
    let two = ["-c", "CREATE TABLE t AS SELECT 1 AS a"];
    assert_eq!(leave_early(command(folder.path()).args(LONG).args(two).spawn().unwrap()), Some(141));
    assert_eq!(leave_early(command(folder.path()).args(two).args(LONG).spawn().unwrap()), Some(0));
    for (rest, code) in [("; \n-- no more\n", 0), (";\nSELECT 2;\n", 141)] {
        let mut child = command(folder.path()).args(["--format", "csv"]).stdin(Stdio::piped()).spawn().unwrap();
        let sql = format!("{}{rest}", LONG[3]);
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        assert_eq!(leave_early(child), Some(code), "{sql}");
    }
}

#[test]
fn a_run_whose_reader_left_does_not_wait_for_its_writer() {
    let folder = folder();
    let mut child = command(folder.path()).args(["--format", "csv"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut still_open = child.stdin.take().unwrap();
    still_open.write_all(format!("{};", LONG[3]).as_bytes()).unwrap();
    let mut head = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let finished = end_in_time(child);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(141), ""));
    drop(still_open);
}
