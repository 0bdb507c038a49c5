//! The folder of a database: what outlives the process.
//!
//! ```text
//! DIR/
//!   thermocline.format    one line: what this folder is, and the version of its format
//!   lock                  held while a process has the database open; tells which one
//!   maps/                 positional maps of raw files (docs/formats/positional-map.md)
//!   tables/               the manifest (docs/formats/manifest.md) and segments of column tables (docs/formats/column-segments.md)
//! ```
//!
//! **Owns**: making, recognising and locking the folder; the maps in it (`maps`).
//!
//! **Does not own**: what maps are good for (`operator-cache`), their bytes (`raw`); the tables (`column_table`).
//!
//! **Invariants**: one process at a time, and in it one database. A folder that holds something else is neither written to nor
//! taken for a database. Maps may be deleted at any time but while it is open: they only save time.
//!
//! **Concurrency**: any number of threads.

mod maps;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_medium::FileVersion;
use thermocline_operator_cache::MapStore;
use thermocline_raw::PositionalMap;

use crate::error::{Error, ErrorKind, Result};
use maps::MapFiles;

/// What the folder is and the version of its format.
const FORMAT_FILE: &str = "thermocline.format";
const FORMAT_NAME: &str = "thermocline database, format ";
/// Version 1 had no tables.
const FORMAT_VERSION: u32 = 2;
const LOCK_FILE: &str = "lock";
const MAPS_FOLDER: &str = "maps";
const TABLES_FOLDER: &str = "tables";

/// A database's folder, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    tables_path: PathBuf,
    maps: MapFiles,
    /// Locked; the system unlocks it when the process ends, however it does.
    _lock: File,
}

impl Folder {
    /// Opens the folder, and makes it if its parent is there.
    ///
    /// # Errors
    /// When it holds something else than a database of this format, is open elsewhere, or can't be written.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |what: &str, error: io::Error| failure(path, what, &error);
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failed("the folder cannot be made", error))?,
        }
        let path = path.canonicalize().map_err(|error| failed("the folder cannot be opened", error))?;
        check_format(&path)?;
        let lock = locked(&path)?;
        write_format(&path).map_err(|error| failure(&path, "the folder cannot be written", &error))?;
        let maps = MapFiles::open(path.join(MAPS_FOLDER))
            .map_err(|error| failure(&path, "the folder of positional maps cannot be made", &error))?;
        let tables_path = path.join(TABLES_FOLDER);
        match fs::create_dir(&tables_path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failure(&path, "the folder of tables cannot be made", &error))?,
        }
        Ok(Self { path, tables_path, maps, _lock: lock })
    }

    /// Where tables are kept.
    pub(crate) fn tables_path(&self) -> &Path {
        &self.tables_path
    }

    /// Its canonical path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Maps are saved for as long as the folder is locked: whoever holds this holds the lock.
impl MapStore for Folder {
    fn load(&self, version: &FileVersion, options: &str) -> Option<PositionalMap> {
        self.maps.load(version, options)
    }

    fn save(&self, version: &FileVersion, options: &str, map: &Arc<PositionalMap>) {
        self.maps.save(version, options, map);
    }
}

fn failure(path: &Path, what: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Resources,
        _ => ErrorKind::Input,
    };
    Error::new(kind, format!("database '{}': {what}: {error}", path.display()))
}

/// Refuses what is no database, or one of another format.
fn check_format(path: &Path) -> Result<()> {
    let refused = |what: String| Err(Error::input(format!("database '{}': {what}", path.display())));
    let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(path).map_err(|error| failure(path, "the folder cannot be read", &error))?;
            // One that was killed before it wrote its format has its lock already.
            let is_foreign = entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != LOCK_FILE));
            return match is_foreign {
                true => refused(
                    "the folder holds other files and is no database: expected a database, an empty folder or none"
                        .into(),
                ),
                false => Ok(()),
            };
        }
        Err(error) => return Err(failure(path, "its format cannot be read", &error)),
    };
    match text.trim_end().strip_prefix(FORMAT_NAME).map(str::parse::<u32>) {
        Some(Ok(1..=FORMAT_VERSION)) => Ok(()),
        Some(Ok(version)) => refused(format!(
            "it is of format {version}, and this Thermocline knows format {FORMAT_VERSION}: use the version that wrote it"
        )),
        _ => refused(format!("{FORMAT_FILE} says {text:?}; expected \"{FORMAT_NAME}{FORMAT_VERSION}\"")),
    }
}

/// The lock file, locked.
fn locked(path: &Path) -> Result<File> {
    let lock_path = path.join(LOCK_FILE);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(lock_path);
    let mut lock = opened.map_err(|error| failure(path, "its lock cannot be opened", &error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            lock.read_to_string(&mut holder).ok();
            let who = match holder.trim().parse::<u32>() {
                Ok(id) if id == std::process::id() => "in this process already: use another session of it".to_string(),
                Ok(id) => format!("in process {id}: close it there first"),
                Err(_) => "in another process: close it there first".to_string(),
            };
            return Err(Error::input(format!("database '{}' is open {who}", path.display())));
        }
        Err(TryLockError::Error(error)) => return Err(failure(path, "it cannot be locked", &error)),
    }
    let told = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    told.map_err(|error| failure(path, "its lock cannot be written", &error))?;
    Ok(lock)
}

fn write_format(path: &Path) -> io::Result<()> {
    let file = path.join(FORMAT_FILE);
    let text = format!("{FORMAT_NAME}{FORMAT_VERSION}\n");
    if fs::read_to_string(&file).is_ok_and(|found| found == text) {
        return Ok(());
    }
    // Under its name it is whole.
    let new = path.join(LOCK_FILE).with_extension("new");
    let mut written = File::create(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(new, file)?;
    // Tables are kept for as long as their folder is known for what it is.
    File::open(path)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        Folder::open(path).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_made_once_and_opened_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("orders.db");
        for _ in 0..2 {
            let folder = Folder::open(&path).unwrap();
            assert_eq!(folder.path(), path.canonicalize().unwrap());
            let format = fs::read_to_string(path.join(FORMAT_FILE)).unwrap();
            assert_eq!(format, "thermocline database, format 2\n");
        }
        assert!(refusal(&parent.path().join("no/such/parent")).contains("cannot be made"));
    }

    #[test]
    fn a_second_opening_is_refused_until_the_first_is_closed() {
        let parent = tempfile::tempdir().unwrap();
        let first = Folder::open(parent.path()).unwrap();
        let message = refusal(parent.path());
        assert!(message.contains("in this process already"), "{message}");
        fs::write(parent.path().join(LOCK_FILE), "1\n").unwrap();
        let message = refusal(parent.path());
        assert!(message.contains("in process 1: close it there"), "{message}");
        drop(first);
        Folder::open(parent.path()).unwrap();
    }

    #[test]
    fn a_folder_of_something_else_is_refused_and_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("letters.txt"), "dear").unwrap();
        let message = refusal(parent.path());
        assert!(message.contains("holds other files and is no database"), "{message}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        let file = parent.path().join("letters.txt");
        assert!(refusal(&file).contains("letters.txt"));
    }

    #[test]
    fn a_folder_of_another_format_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        for (text, expected) in
            [("thermocline database, format 3\n", "it is of format 3"), ("sqlite\n", "says \"sqlite\\n\"; expected")]
        {
            fs::write(parent.path().join(FORMAT_FILE), text).unwrap();
            let message = refusal(parent.path());
            assert!(message.contains(expected), "{message}");
            assert_eq!(fs::read_to_string(parent.path().join(FORMAT_FILE)).unwrap(), text);
        }
    }

    #[test]
    fn a_lock_that_a_killed_process_left_is_no_obstacle() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join(LOCK_FILE), "12345\n").unwrap();
        Folder::open(parent.path()).unwrap();
        let holder = fs::read_to_string(parent.path().join(LOCK_FILE)).unwrap();
        assert_eq!(holder, format!("{}\n", std::process::id()));
    }
}
