//! The interactive shell, behind a pseudo-terminal.
#![allow(unsafe_code, reason = "openpty has no safe form in the standard library")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
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
        let (mut primary, mut secondary) = (0, 0);
        let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the two out-pointers and the size are valid for the call; the other two pointers may be null.
        let outcome =
            unsafe { libc::openpty(&mut primary, &mut secondary, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: openpty has just opened both, and nobody else owns them.
        let (primary, secondary) = unsafe { (OwnedFd::from_raw_fd(primary), OwnedFd::from_raw_fd(secondary)) };
        let child = command(folder)
            .env("XDG_STATE_HOME", folder.join("state"))
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::from(secondary.try_clone().unwrap()))
            .stdout(Stdio::from(secondary.try_clone().unwrap()))
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
fn ctrl_c_cancels_the_query_and_leaves_the_session_usable() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    shell.type_in("CREATE VIEW v AS SELECT 41 AS x;\r");
    shell.expect("thermocline> ");
    shell.type_in(&format!("{ENDLESS};\r"));
    thread::sleep(Duration::from_millis(700));
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
