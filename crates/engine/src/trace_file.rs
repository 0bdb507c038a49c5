//! The file in which the requests of the operator cache are recorded (setting `thermocline.trace`).
//!
//! Owns opening, appending and giving up; the format is `docs/formats/cache-trace.md`, the text `placement`'s. Whether
//! a path may be written is checked by who sets it.
//!
//! **Concurrency**: one lock around the file; a line is one write, so that what several processes append does not mix.
//! A file that can't be written any more is given up: no query fails for the sake of a trace, and the setting says why.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thermocline_operator_cache::Recorder;
use thermocline_placement::operator_cache::trace::{Request, header};

/// Where requests go, if anywhere.
#[derive(Debug, Default)]
pub(crate) struct TraceFile {
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Off,
    On(PathBuf, File),
    /// Could not be written any more, and why.
    GivenUp(String),
}

impl TraceFile {
    /// Appends to the trace at `path` from now on; made if missing. On failure everything stays as it was.
    ///
    /// # Errors
    /// When the file can't be opened, or holds something else than a trace.
    pub(crate) fn open(&self, path: &Path) -> Result<(), String> {
        let file = open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        *self.state.lock() = State::On(path.to_path_buf(), file);
        self.is_on.store(true, Ordering::Release);
        Ok(())
    }

    /// Records nothing from now on.
    pub(crate) fn close(&self) {
        self.is_on.store(false, Ordering::Release);
        *self.state.lock() = State::Off;
    }

    /// The setting's value: the path, `none`, or `none` and why no more is recorded.
    pub(crate) fn describe(&self) -> String {
        match &*self.state.lock() {
            State::Off => "none".to_string(),
            State::On(path, _) => path.display().to_string(),
            State::GivenUp(why) => format!("none ({why})"),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let found = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    if !file.metadata()?.is_file() {
        return Err(found("expected a file to append to, found something else"));
    }
    let header = header() + "\n";
    if file.metadata()?.len() == 0 {
        file.write_all(header.as_bytes())?;
        return Ok(file);
    }
    let mut beginning = Vec::new();
    (&mut file).take(header.len() as u64).read_to_end(&mut beginning)?;
    if beginning != header.as_bytes() {
        return Err(found("expected a cache trace of this version or no file, found a file of other content"));
    }
    // A process that was killed may have left half a line behind.
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

impl Recorder for TraceFile {
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    fn record(&self, request: &Request) {
        let line = format!("{request}\n");
        let mut state = self.state.lock();
        if let State::On(path, file) = &mut *state
            && let Err(error) = file.write_all(line.as_bytes())
        {
            let why = format!("{}: {error}", path.display());
            *state = State::GivenUp(why);
            self.is_on.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use thermocline_operator_cache::SourceKind;
    use thermocline_placement::operator_cache::trace::{Answered, parse};

    use super::*;

    fn request(item: u64) -> Request {
        Request {
            wall_ns: 1,
            answered: Answered::Hit,
            source: Arc::from("f"),
            kind: SourceKind::Csv,
            item,
            asked: item,
            size_bytes: 2,
            execute_ns: 3,
            cache_ns: 4,
            reuse_scan_ns: 5,
            lookup_ns: 6,
        }
    }

    #[test]
    fn requests_are_appended_across_openings_and_after_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.ndjson");
        let trace = TraceFile::default();
        trace.record(&request(0));
        assert!(!trace.is_on() && trace.describe() == "none");
        for item in [1, 2] {
            trace.open(&path).unwrap();
            trace.record(&request(item));
        }
        assert_eq!(trace.describe(), path.display().to_string());
        trace.close();
        trace.record(&request(3));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(parse(&text).unwrap(), [request(1), request(2)]);
        std::fs::write(&path, text.trim_end()).unwrap();
        trace.open(&path).unwrap();
        trace.record(&request(4));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(parse(&text).unwrap(), [request(1), request(2), request(4)]);
    }

    #[test]
    fn a_file_of_other_content_is_neither_appended_to_nor_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.ndjson");
        std::fs::write(&path, "{\"a\":1}\n").unwrap();
        let trace = TraceFile::default();
        let message = trace.open(&path).unwrap_err();
        assert!(message.contains("data.ndjson") && message.contains("other content"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n");
        assert!(trace.open(folder.path()).is_err() && !trace.is_on());
    }

    #[test]
    fn a_full_disk_ends_the_trace_and_says_so() {
        let trace = TraceFile::default();
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        *trace.state.lock() = State::On("/dev/full".into(), full);
        trace.is_on.store(true, Ordering::Release);
        trace.record(&request(1));
        assert!(!trace.is_on());
        assert!(trace.describe().starts_with("none (/dev/full"), "{}", trace.describe());
    }
}
