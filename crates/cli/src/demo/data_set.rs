//! The demo's files: where they are, how they are made, when they are gone.
//!
//! TPC-H orders with their lineitems nested, one JSON object a line, and orders and lineitems as CSV. A temporary
//! folder is removed when [`Folder`] is dropped, so on success, failure and Ctrl-C alike; one that the user named
//! stays.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use thermocline_hardware::Clock;
use thermocline_tpch::{DataSet, TextFormat, TpchTable, small_text, write_nested_orders, write_table};

use crate::failure::{Failure, Result};

/// The folder that the files are in.
pub(super) enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    /// The folder the user named, made if missing, or a new temporary one.
    pub(super) fn make(keep: Option<&Path>) -> Result<Self> {
        match keep {
            Some(path) => {
                let fail = |error| Failure::File { path: path.to_owned(), error };
                std::fs::create_dir_all(path).map_err(fail)?;
                Ok(Self::Kept(path.canonicalize().map_err(fail)?))
            }
            None => tempfile::Builder::new()
                .prefix("thermocline-demo-")
                .tempdir()
                .map(Self::Temporary)
                .map_err(|error| Failure::File { path: std::env::temp_dir(), error }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }

    /// Whether it is still there after the demo.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// A file of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DemoFile {
    NestedOrders,
    Orders,
    Lineitem,
}

impl DemoFile {
    pub(super) const ALL: [Self; 3] = [Self::NestedOrders, Self::Orders, Self::Lineitem];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NestedOrders => "orders.ndjson",
            Self::Orders => "orders.csv",
            Self::Lineitem => "lineitem.csv",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::NestedOrders => "orders, each with a list of its lineitems",
            Self::Orders => "the orders alone",
            Self::Lineitem => "the lineitems alone",
        }
    }
}

/// One file that was written.
pub(super) struct Written {
    pub(super) size_bytes: u64,
    pub(super) elapsed_ns: u64,
}

const ALREADY_THERE: &str = "is there already and stays as it is, perhaps from a run that was interrupted: \
    remove it, or name another folder with --keep";

/// Writes `file` into `folder`. Takes seconds: to be called where waiting is allowed. Ends early with an error once
/// `stop` is set.
pub(super) fn write(
    file: DemoFile,
    folder: &Path,
    scale: f64,
    thread_count: usize,
    clock: &Arc<dyn Clock>,
    stop: &Arc<AtomicBool>,
) -> Result<Written> {
    let path = folder.join(file.name());
    let started_ns = clock.monotonic_ns();
    let text = small_text();
    let data = DataSet { scale, text: &text, thread_count };
    let fail = |error| Failure::File { path: path.clone(), error };
    refuse_if(stop).map_err(fail)?;
    // A file that is there already is the user's, and stays.
    let target = File::create_new(&path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => fail(io::Error::new(error.kind(), ALREADY_THERE)),
        _ => fail(error),
    })?;
    let mut out = Stoppable { target, stop: Arc::clone(stop) };
    let written = match file {
        DemoFile::NestedOrders => write_nested_orders(data, &mut out),
        DemoFile::Orders => write_table(data, TpchTable::Orders, TextFormat::Csv, &mut out),
        DemoFile::Lineitem => write_table(data, TpchTable::Lineitem, TextFormat::Csv, &mut out),
    };
    let size_bytes = written.map_err(|error| {
        // Half a file is of no use to anyone, and would be in the way of the next run.
        let _ = std::fs::remove_file(&path);
        fail(error)
    })?;
    Ok(Written { size_bytes, elapsed_ns: clock.monotonic_ns().saturating_sub(started_ns) })
}

/// Not `Interrupted`, after which writers try again.
fn refuse_if(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(io::Error::other("stopped by the user")) } else { Ok(()) }
}

/// A file whose writer can be told to stop.
struct Stoppable {
    target: File,
    stop: Arc<AtomicBool>,
}

impl Write for Stoppable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        refuse_if(&self.stop)?;
        self.target.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use thermocline_hardware::ManualClock;

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(ManualClock::new(0))
    }

    #[test]
    fn a_temporary_folder_goes_with_its_files_and_a_kept_one_stays() {
        let temporary = Folder::make(None).unwrap();
        let path = temporary.path().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let written = write(DemoFile::Orders, &path, 0.0002, 1, &clock(), &stop).unwrap();
        assert_eq!(std::fs::metadata(path.join("orders.csv")).unwrap().len(), written.size_bytes);
        assert!(written.size_bytes > 0);
        drop(temporary);
        assert!(!path.exists());

        let outer = tempfile::tempdir().unwrap();
        let kept = Folder::make(Some(&outer.path().join("a/b"))).unwrap();
        let path = kept.path().to_owned();
        assert!(kept.is_kept());
        drop(kept);
        assert!(path.is_dir());
    }

    #[test]
    fn a_file_of_the_users_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("orders.csv"), "mine").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let failure = write(DemoFile::Orders, folder.path(), 0.0002, 1, &clock(), &stop).err().unwrap();
        let message = failure.to_string();
        assert!(message.contains("orders.csv: is there already") && message.contains("remove it"), "{message}");
        assert_eq!(std::fs::read_to_string(folder.path().join("orders.csv")).unwrap(), "mine");
    }

    #[test]
    fn a_writer_that_is_told_to_stop_stops() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Arc::new(AtomicBool::new(true));
        assert!(write(DemoFile::NestedOrders, folder.path(), 0.001, 2, &clock(), &stop).is_err());
        assert!(!folder.path().join("orders.ndjson").exists());
    }
}
