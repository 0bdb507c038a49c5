//! The interactive shell, behind a pseudo-terminal.
#![allow(unsafe_code, reason = "terminals have no safe form in the standard library")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::interrupts::ENDLESS;
use crate::run::{command, folder, interrupt};

/// How long an answer may take before the test fails: a hang, not a slow machine.
const BOUND: Duration = Duration::from_secs(20);

/// A shell and the terminal it believes to be in.
struct Shell {
    child: Child,
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
}

impl Shell {
    fn start(folder: &Path) -> Self {
        Self::start_with_output(folder, None)
    }

    /// One whose answers go to a file; the terminal is that of its process group then, as with a user's.
    fn start_with_output(folder: &Path, output: Option<File>) -> Self {
        let (mut primary, mut secondary) = (0, 0);
        let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the two out-pointers and the size are valid for the call; the other two pointers may be null.
        let outcome =
            unsafe { libc::openpty(&mut primary, &mut secondary, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: openpty has just opened both, and nobody else owns them.
        let (primary, secondary) = unsafe { (OwnedFd::from_raw_fd(primary), OwnedFd::from_raw_fd(secondary)) };
        let mut command = command(folder);
        if output.is_some() {
            let take_over = || {
                // SAFETY: both calls are allowed between fork and exec, and take nothing but numbers.
                let has_failed = unsafe { libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 };
                if has_failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
            };
            // SAFETY: it does nothing but those calls.
            unsafe { command.pre_exec(take_over) };
        }
        let child = command
            .env("XDG_STATE_HOME", folder.join("state"))
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::from(secondary.try_clone().unwrap()))
            .stdout(output.map_or_else(|| Stdio::from(secondary.try_clone().unwrap()), Stdio::from))
            .stderr(Stdio::from(secondary))
            .spawn()
            .unwrap();
        let mut reader = File::from(primary.try_clone().unwrap());
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut kept = Vec::new();
            // A terminal whose other side is closed reads as an error.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                kept.extend_from_slice(&bytes[..length]);
                // A character may arrive in two pieces.
                let whole = match std::str::from_utf8(&kept) {
                    Ok(_) => kept.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text: Vec<u8> = kept.drain(..whole).collect();
                if sender.send(String::from_utf8(text).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut shell = Self { child, keyboard: File::from(primary), screen, seen: String::new() };
        shell.expect("thermocline> ");
        shell
    }

    fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for `expected` on the screen and forgets everything up to it.
    #[track_caller]
    fn expect(&mut self, expected: &str) {
        loop {
            if let Some(at) = self.seen.find(expected) {
                self.seen.drain(..at + expected.len());
                return;
            }
            match self.screen.recv_timeout(BOUND) {
                Ok(text) => self.seen.push_str(&text),
                Err(_) => {
                    let _ = self.child.kill();
                    panic!("expected {expected:?}, the screen says {:?}", self.seen);
                }
            }
        }
    }

    /// Leaves by Ctrl-D.
    fn leave(mut self) -> Option<i32> {
        self.type_in("\u{4}");
        self.child.wait().unwrap().code()
    }
}

#[test]
fn statements_of_several_lines_run_at_their_semicolon() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("SELECT count(*) AS events\r");
    shell.type_in("FROM 'events.ndjson';\r");
    shell.expect("│ events │");
    shell.expect("│      3 │");
    shell.expect("1 row");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
    let history = std::fs::read_to_string(folder.path().join("state/thermocline/history")).unwrap();
    assert!(history.contains("events.ndjson"), "{history}");
}

#[test]
fn an_error_is_told_and_the_session_goes_on() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("CREATE VIEW v AS SELECT 41 AS x;\r");
    shell.expect("thermocline> ");
    shell.type_in("SELECT nothing;\r");
    shell.expect("error: ");
    shell.expect("thermocline> ");
    shell.type_in("SELECT x + 1 AS answer FROM v;\r");
    shell.expect("│     42 │");
    shell.expect("thermocline> ");
    shell.type_in(".nothing\r");
    shell.expect("there is no command `.nothing`");
    shell.expect("thermocline> ");
    shell.type_in(".quit\r");
    assert_eq!(shell.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_error_drops_what_was_entered_behind_it() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    for line in ["SELEC 1; SELECT 2 AS b", "SELECT nothing; SELECT 2 AS b"] {
        shell.type_in(&format!("{line}\r"));
        shell.expect("error: ");
        shell.expect("thermocline> ");
        shell.type_in("SELECT 3 AS c;\r");
        shell.expect("│ 3 │");
        shell.expect("thermocline> ");
    }
    assert_eq!(shell.leave(), Some(0));
    let history = std::fs::read_to_string(folder.path().join("state/thermocline/history")).unwrap();
    assert!(history.contains("SELEC 1; SELECT 2 AS b") && history.contains("nothing; SELECT 2 AS b"), "{history}");
}

#[test]
fn comments_that_the_parser_reads_are_statements() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("/*! SELECT 42 AS answer */;\r");
    shell.expect("│     42 │");
    shell.expect("thermocline> ");
    shell.type_in("/*! SELECT 43 AS answer */\r");
    shell.expect("        ...> ");
    shell.type_in(";\r");
    shell.expect("│     43 │");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn ctrl_c_cancels_the_query_and_leaves_the_session_usable() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("CREATE VIEW v AS SELECT 41 AS x;\r");
    shell.expect("thermocline> ");
    // Ctrl-C counts from the first statement of an entry on.
    shell.type_in(&format!("SELECT 'begun' AS b; {ENDLESS};\r"));
    shell.expect("│ begun │");
    // For the second to run by then, of which the test proves more.
    thread::sleep(Duration::from_millis(200));
    interrupt(shell.child.id());
    shell.expect("interrupted");
    shell.expect("thermocline> ");
    shell.type_in("SELECT x + 1 AS answer FROM v;\r");
    shell.expect("│     42 │");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("SELECT nonsense");
    shell.expect("nonsense");
    shell.type_in("\u{3}");
    shell.expect("thermocline> ");
    shell.type_in("SELECT 7 AS seven;\r");
    shell.expect("│     7 │");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn tab_completes_files_and_dot_commands_change_the_shell() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in(".format csv\r");
    shell.expect("format: csv");
    shell.expect("thermocline> ");
    shell.type_in("SELECT name FROM 'peo\t' WHERE id = 1;\r");
    shell.expect("name\r\nAda");
    shell.expect("thermocline> ");
    shell.type_in(".timer on\r");
    shell.expect("thermocline> ");
    shell.type_in("SELECT 1;\r");
    shell.expect("time: ");
    shell.expect("thermocline> ");
    shell.type_in(".memory\r");
    shell.expect("private memory of the process");
    shell.expect("thermocline> ");
    shell.type_in("CREATE VIEW quite_special AS SELECT 1 AS x;\r");
    shell.expect("thermocline> ");
    shell.type_in(".tables\r");
    shell.expect("public,quite_special,VIEW");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn a_statement_that_goes_on_has_a_prompt_of_its_own_and_ctrl_d_drops_it() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("SELECT nonsense\r");
    shell.expect("        ...> ");
    shell.type_in("\u{4}");
    shell.expect("thermocline> ");
    shell.type_in("SELECT\r");
    shell.expect("        ...> ");
    shell.type_in("\u{3}");
    shell.expect("thermocline> ");
    shell.type_in("SELECT $$one;\r");
    shell.expect("        ...> ");
    shell.type_in("two;$$ AS lines;\r");
    shell.expect("│ one;  │");
    shell.expect("│ two;  │");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn words_of_other_shells_are_understood() {
    for word in ["exit", "quit;", "\\q"] {
        let folder = folder();
        let mut shell = Shell::start(folder.path());
        shell.type_in("help\r");
        shell.expect("SQL ends with a semicolon");
        shell.expect("thermocline> ");
        shell.type_in(&format!("{word}\r"));
        assert_eq!(shell.child.wait().unwrap().code(), Some(0), "{word}");
    }
}

#[test]
fn sql_and_commands_that_are_pasted_run_in_turn() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    let text = ".format csv\nSELECT 1 AS a;\nSELECT 2\nAS b; SELECT 3 AS c;\n.format json\nSELECT 4 AS d;";
    shell.type_in(&format!("\u{1b}[200~{text}\u{1b}[201~\r"));
    shell.expect("format: csv");
    shell.expect("a\r\n1\r\nb\r\n2\r\nc\r\n3\r\n");
    shell.expect("format: json");
    shell.expect("{\"d\":4}");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
}

#[test]
fn answers_that_go_to_a_file_have_no_prompts_among_them() {
    let folder = folder();
    let path = folder.path().join("out.txt");
    let mut shell = Shell::start_with_output(folder.path(), Some(File::create(&path).unwrap()));
    shell.type_in("SELECT 1 AS a;\r");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "┌───┐\n│ a │\n├───┤\n│ 1 │\n└───┘\n");
}

#[test]
fn a_history_with_a_line_that_is_no_text_is_kept_on() {
    let folder = folder();
    let path = folder.path().join("state/thermocline/history");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, b"#V2\nSELECT 'old';\nSELECT '\xe9';\n").unwrap();
    let mut shell = Shell::start(folder.path());
    shell.type_in("SELECT 'new';\r");
    shell.expect("1 row");
    shell.expect("thermocline> ");
    assert_eq!(shell.leave(), Some(0));
    let history = std::fs::read_to_string(path).unwrap();
    assert!(history.contains("'old'") && history.contains("'new'"), "{history}");
}
