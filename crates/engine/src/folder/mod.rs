//! The folder of a database: what outlives the process.
//!
//! ```text
//! DIR/
//!   thermocline.format    one line: what this folder is, and the version of its format
//!   lock                  held while a process has the database open; tells which one may change it
//!   maps/                 positional maps of raw files (docs/formats/positional-map.md)
//!   tables/               the manifest (docs/formats/manifest.md) and segments of column tables (docs/formats/column-segments.md)
//! ```
//!
//! **Owns**: making, recognising and locking (`lock`) the folder; the maps in it (`maps`).
//!
//! **Does not own**: what maps are good for (`operator-cache`), their bytes (`raw`); the tables (`column_table`).
//!
//! **Invariants**: there is one database, in one process, that may change the folder, or there are any number that read
//! it; these change nothing, not even what a crash has left. A folder that holds something else is neither written to
//! nor taken for a database. Maps may be deleted at any time but while it is open: they only save time.
//!
//! **Concurrency**: any number of threads.

mod lock;
mod maps;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_column_store::MANIFEST_FILE;
use thermocline_medium::FileVersion;
use thermocline_operator_cache::MapStore;
use thermocline_raw::PositionalMap;

use crate::error::{Error, ErrorKind, Result};
use lock::{FolderLock, LOCK_FILE};
use maps::MapFiles;

/// What the folder is and the version of its format.
const FORMAT_FILE: &str = "thermocline.format";
/// The same until it is whole.
const NEW_FORMAT_FILE: &str = "lock.new";
const FORMAT_NAME: &str = "thermocline database, format ";
/// Version 1 had no tables.
const FORMAT_VERSION: u32 = 2;
const MAPS_FOLDER: &str = "maps";
const TABLES_FOLDER: &str = "tables";

/// A database's folder, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    tables_path: PathBuf,
    maps: MapFiles,
    is_read_only: bool,
    /// The system takes it back when the process ends, however it does. A folder that is read may have none.
    _lock: Option<FolderLock>,
}

impl Folder {
    /// Opens the folder, and makes it if its parent is there.
    ///
    /// # Errors
    /// When it holds something else than a database of this format, is open elsewhere, or can't be written.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |what: &str, error: io::Error| failure(path, what, &error);
        let is_new = make_folder(path).map_err(|error| failed("the folder cannot be made", error))?;
        let path = path.canonicalize().map_err(|error| failed("the folder cannot be opened", error))?;
        found_format(&path)?;
        let lock = lock::for_changes(&path)?;
        write_format(&path).map_err(|error| failure(&path, "the folder cannot be written", &error))?;
        let maps = MapFiles::open(path.join(MAPS_FOLDER))
            .map_err(|error| failure(&path, "the folder of positional maps cannot be made", &error))?;
        let tables_path = path.join(TABLES_FOLDER);
        make_folder(&tables_path).map_err(|error| failure(&path, "the folder of tables cannot be made", &error))?;
        for within in unsynced(&path, &tables_path) {
            match File::open(within).and_then(|folder| folder.sync_all()) {
                // Who may not list it has been given a folder there.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_new => {}
                synced => synced.map_err(|error| failure(&path, "the folder cannot be made to last", &error))?,
            }
        }
        Ok(Self { path, tables_path, maps, is_read_only: false, _lock: Some(lock) })
    }

    /// Opens the folder to read it beside others who do. Nothing in it is written.
    ///
    /// # Errors
    /// When there is none, or it holds something else than a database of this format whose making was finished; when it
    /// is open for changes elsewhere, or can't be read.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self> {
        let path = path.canonicalize().map_err(|error| {
            failure(path, "the folder cannot be opened, and is not made where it is to be read alone", &error)
        })?;
        let lock = lock::for_reading(&path)?;
        let tables_path = path.join(TABLES_FOLDER);
        // Format 1 had no tables, and whoever makes a database is done when they have their folder.
        if found_format(&path)?.is_none() || !tables_path.is_dir() {
            return Err(Error::input(format!(
                "database '{}': it has no folder of tables yet: open it once for changes, which makes one",
                path.display()
            )));
        }
        let maps = MapFiles::open_read_only(path.join(MAPS_FOLDER));
        Ok(Self { path, tables_path, maps, is_read_only: true, _lock: lock })
    }

    /// Whether it was opened to be read alone.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
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

    fn keeps(&self) -> bool {
        !self.is_read_only
    }

    fn save(&self, version: &FileVersion, options: &str, map: &Arc<PositionalMap>) {
        self.maps.save(version, options, map);
    }
}

/// The folders whose names of a database's folders may not be safe yet. What is acknowledged survives a loss of power
/// only if the folders that it is in do. Who made them may have been stopped before that was seen to; whoever wrote a
/// manifest had seen to it.
fn unsynced<'p>(path: &'p Path, tables_path: &Path) -> Vec<&'p Path> {
    match tables_path.join(MANIFEST_FILE).exists() {
        true => Vec::new(),
        false => path.parent().into_iter().chain([path]).collect(),
    }
}

/// Whether the folder was not there.
fn make_folder(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

fn failure(path: &Path, what: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Resources,
        _ => ErrorKind::Input,
    };
    Error::new(kind, format!("database '{}': {what}: {error}", path.display()))
}

/// The version of the database's format; `None` for an empty folder. Refuses what is no database, or one of another
/// format.
fn found_format(path: &Path) -> Result<Option<u32>> {
    let refused = |what: String| Err(Error::input(format!("database '{}': {what}", path.display())));
    let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(path).map_err(|error| failure(path, "the folder cannot be read", &error))?;
            // Who was killed before the format was there, or is about to write it, has made these already.
            let begun = [LOCK_FILE, NEW_FORMAT_FILE];
            let is_foreign =
                entries.any(|entry| entry.is_ok_and(|entry| begun.iter().all(|name| entry.file_name() != *name)));
            return match is_foreign {
                true => refused(
                    "the folder holds other files and is no database: expected a database, an empty folder or none"
                        .into(),
                ),
                false => Ok(None),
            };
        }
        Err(error) => return Err(failure(path, "its format cannot be read", &error)),
    };
    match text.trim_end().strip_prefix(FORMAT_NAME).map(str::parse::<u32>) {
        Some(Ok(version @ 1..=FORMAT_VERSION)) => Ok(Some(version)),
        Some(Ok(version)) => refused(format!(
            "it is of format {version}, and this Thermocline knows format {FORMAT_VERSION}: use the version that wrote it"
        )),
        _ => refused(format!("{FORMAT_FILE} says {text:?}; expected \"{FORMAT_NAME}{FORMAT_VERSION}\"")),
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let file = path.join(FORMAT_FILE);
    let text = format!("{FORMAT_NAME}{FORMAT_VERSION}\n");
    if fs::read_to_string(&file).is_ok_and(|found| found == text) {
        return Ok(());
    }
    // Under its name it is whole.
    let new = path.join(NEW_FORMAT_FILE);
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
    fn a_folder_whose_making_was_cut_short_is_made_anew() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join(LOCK_FILE), "1\n").unwrap();
        fs::write(parent.path().join(NEW_FORMAT_FILE), "thermo").unwrap();
        assert!(found_format(parent.path()).unwrap().is_none());
        Folder::open(parent.path()).unwrap();
        assert_eq!(found_format(parent.path()).unwrap(), Some(FORMAT_VERSION));
        assert!(!parent.path().join(NEW_FORMAT_FILE).exists());
    }

    #[test]
    fn folders_are_made_to_last_until_there_is_something_in_them() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("orders.db");
        let tables_path = path.join(TABLES_FOLDER);
        // As a making leaves it that is cut short at its last step.
        drop(Folder::open(&path).unwrap());
        assert_eq!(unsynced(&path, &tables_path), [parent.path(), &path]);
        fs::write(tables_path.join("manifest.new"), "half").unwrap();
        assert_eq!(unsynced(&path, &tables_path), [parent.path(), &path]);
        fs::write(tables_path.join("manifest"), "whole").unwrap();
        assert!(unsynced(&path, &tables_path).is_empty());
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

    fn reading_refusal(path: &Path) -> String {
        Folder::open_read_only(path).unwrap_err().to_string()
    }

    #[test]
    fn many_read_or_one_changes() {
        let parent = tempfile::tempdir().unwrap();
        drop(Folder::open(parent.path()).unwrap());
        let readers = [(); 3].map(|()| Folder::open_read_only(parent.path()).unwrap());
        let message = refusal(parent.path());
        assert!(message.contains("is open for reading in ") && message.contains("close it"), "{message}");
        drop(readers);
        let changing = Folder::open(parent.path()).unwrap();
        let message = reading_refusal(parent.path());
        assert!(message.contains("is open for changes in this process already"), "{message}");
        drop(changing);
        Folder::open_read_only(parent.path()).unwrap();
    }

    /// All below a folder: names, bytes and times.
    fn everything(path: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            match path.is_dir() {
                true => {
                    found.extend(everything(&path));
                    found.push((path, Vec::new(), changed));
                }
                false => found.push((path.clone(), fs::read(&path).unwrap(), changed)),
            }
        }
        found.sort();
        found
    }

    #[test]
    fn reading_changes_nothing_and_needs_no_lock_file() {
        let parent = tempfile::tempdir().unwrap();
        drop(Folder::open(parent.path()).unwrap());
        fs::write(parent.path().join("maps/left.0.new"), "half").unwrap();
        for file in [LOCK_FILE, MAPS_FOLDER] {
            let before = everything(parent.path());
            let folder = Folder::open_read_only(parent.path()).unwrap();
            assert!(folder.is_read_only());
            drop(folder);
            assert_eq!(everything(parent.path()), before);
            let path = parent.path().join(file);
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
        }
        Folder::open_read_only(parent.path()).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_a_whole_database_is_not_read_and_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let missing = parent.path().join("orders.db");
        let message = reading_refusal(&missing);
        assert!(message.contains("orders.db': the folder cannot be opened, and is not made"), "{message}");
        assert!(!missing.exists());
        assert!(reading_refusal(parent.path()).contains("no folder of tables yet"));
        fs::write(parent.path().join(FORMAT_FILE), "thermocline database, format 1\n").unwrap();
        assert!(reading_refusal(parent.path()).contains("no folder of tables yet"));
        fs::write(parent.path().join(FORMAT_FILE), "thermocline database, format 3\n").unwrap();
        assert!(reading_refusal(parent.path()).contains("it is of format 3"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
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
