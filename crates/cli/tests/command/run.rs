//! Runs the command and keeps what it said.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a finished run left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Finished {
    /// The output of a run that went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stderr, "", "{}", self.stdout);
        self.stdout
    }

    /// The message of a run that ended with `code`.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        self.stderr
    }
}

/// The command in `folder`, not yet started.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it with `arguments`.
pub(crate) fn run(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Finished {
    command(folder).args(arguments).output().unwrap().into()
}

/// Runs it with `input` as its standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &[u8]) -> Finished {
    let mut child = command(folder).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Sends SIGINT, as Ctrl-C does.
pub(crate) fn interrupt(process_id: u32) {
    send("-INT", process_id);
}

/// Sends a signal, such as `-TERM`.
pub(crate) fn send(signal: &str, process_id: u32) {
    assert!(Command::new("kill").args([signal, &process_id.to_string()]).status().unwrap().success());
}

/// Three events with nested fields, as NDJSON.
const EVENTS: &str = "\
{\"id\":1,\"kind\":\"open\",\"size\":1.5,\"items\":[{\"sku\":\"a\",\"n\":2},{\"sku\":\"b\",\"n\":5}]}
{\"id\":2,\"kind\":\"close\",\"size\":null,\"items\":[]}
{\"id\":3,\"kind\":\"say \\\"hi\\\"\",\"size\":7.25,\"items\":[{\"sku\":\"c\",\"n\":9}]}
";

const PEOPLE: &str = "id,name,born\n1,Ada,1815-12-10\n2,\"Hopper, Grace\",1906-12-09\n";

/// A folder with `events.ndjson` and `people.csv`.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("events.ndjson"), EVENTS).unwrap();
    std::fs::write(folder.path().join("people.csv"), PEOPLE).unwrap();
    folder
}
