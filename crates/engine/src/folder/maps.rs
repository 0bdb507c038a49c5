//! Positional maps as files, one for each raw file and way of reading it.
//!
//! **Owns**: their names, how much room they take, and dropping the oldest; a map takes the place of one of another
//! version of its file. **Does not own**: when one is saved or asked for.
//!
//! A map only saves time, so nothing here fails: what cannot be written is not kept, what cannot be read is not there.
//! Files are put in place by renaming and are not forced to the disk: one that a power cut tears is refused by its
//! checksum.

use std::fs::{self, DirEntry};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use thermocline_medium::{FileVersion, require_file_size};
use thermocline_operator_cache::MapStore;
use thermocline_raw::PositionalMap;
use xxhash_rust::xxh3::xxh3_128;

/// All maps together. One takes some bytes a record: this is room for those of a hundred million records.
const LIMIT_BYTES: u64 = 512 << 20;

const EXTENSION: &str = "map";

/// The maps in a folder.
#[derive(Debug)]
pub(crate) struct MapFiles {
    path: PathBuf,
    /// Nothing is saved, nor removed.
    is_read_only: bool,
    limit_bytes: u64,
    /// Held while room is made.
    room: Mutex<()>,
    /// Names of files that are being written.
    numbers: AtomicU64,
}

impl MapFiles {
    /// The maps in the folder `path`, which is made if missing; what an earlier process left half written goes.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        for entry in fs::read_dir(&path)?.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "new") {
                fs::remove_file(entry.path()).ok();
            }
        }
        Ok(Self::new(path, false))
    }

    /// The maps in the folder `path`, if it is there, to be read alone.
    pub(super) fn open_read_only(path: PathBuf) -> Self {
        Self::new(path, true)
    }

    fn new(path: PathBuf, is_read_only: bool) -> Self {
        Self { path, is_read_only, limit_bytes: LIMIT_BYTES, room: Mutex::default(), numbers: AtomicU64::new(0) }
    }

    fn path_of(&self, file: &FileVersion, options: &str) -> PathBuf {
        // The lengths keep the two texts apart.
        let name = xxh3_128(format!("{} {}{options}", file.path.len(), file.path).as_bytes());
        self.path.join(format!("{name:032x}.{EXTENSION}"))
    }

    /// Drops the maps written longest ago until so much more finds room.
    fn make_room(&self, incoming_bytes: u64) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let described = |entry: DirEntry| {
            let metadata = entry.metadata().ok()?;
            let is_map = entry.path().extension().is_some_and(|extension| extension == EXTENSION);
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            is_map.then(|| (written, metadata.len(), entry.path()))
        };
        let mut maps: Vec<_> = entries.flatten().filter_map(described).collect();
        maps.sort();
        let mut held_bytes: u64 = maps.iter().map(|(_, size_bytes, _)| size_bytes).sum();
        for (_, size_bytes, path) in maps {
            if held_bytes.saturating_add(incoming_bytes) <= self.limit_bytes {
                return;
            }
            if fs::remove_file(path).is_ok() {
                held_bytes -= size_bytes;
            }
        }
    }
}

impl MapStore for MapFiles {
    fn load(&self, file: &FileVersion, options: &str) -> Option<PositionalMap> {
        let path = self.path_of(file, options);
        let bytes = fs::read(&path).ok()?;
        let map = PositionalMap::from_bytes(&bytes, file, options);
        if map.is_err() && !self.is_read_only {
            // Damaged, or of a version that will not come back.
            fs::remove_file(path).ok();
        }
        map.ok()
    }

    fn save(&self, file: &FileVersion, options: &str, map: &Arc<PositionalMap>) {
        if self.is_read_only {
            return;
        }
        let bytes = map.to_bytes(file, options);
        let path = self.path_of(file, options);
        let new = path.with_extension(format!("{}.new", self.numbers.fetch_add(1, Ordering::Relaxed)));
        if bytes.len() as u64 > self.limit_bytes || require_file_size(0, bytes.len()).is_err() {
            return;
        }
        let _room = self.room.lock();
        self.make_room(bytes.len() as u64);
        if fs::write(&new, bytes).and_then(|()| fs::rename(&new, path)).is_err() {
            fs::remove_file(new).ok();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use thermocline_medium::{Compression, PinnedFile};
    use thermocline_raw::{FileScan, Format, ScanPlan, Source};

    use super::*;

    /// A file of so many records, its version, and a map of it.
    fn mapped(folder: &Path, name: &str, record_count: usize) -> (FileVersion, Arc<PositionalMap>) {
        let path = folder.join(name);
        fs::write(&path, "{\"a\":1}\n".repeat(record_count)).unwrap();
        map_of(&path)
    }

    fn map_of(path: &Path) -> (FileVersion, Arc<PositionalMap>) {
        let file = Arc::new(PinnedFile::open(path).unwrap());
        let (version, size_bytes) = (file.version().clone(), file.size_bytes());
        let plan = ScanPlan { map: true, ..ScanPlan::all_rows(Vec::new()) };
        let source = Source::Local(file);
        let scan = FileScan::new(source, 0, size_bytes, Format::Ndjson, Compression::None, plan, None, 1).unwrap();
        let mut builder = PositionalMap::builder(usize::MAX);
        while let Some(morsel) = scan.next_morsel().unwrap() {
            let index = morsel.index;
            builder.add(index, scan.decode(morsel).unwrap().map_piece.unwrap());
        }
        (version, Arc::new(builder.finish(size_bytes).unwrap()))
    }

    fn file_names(maps: &MapFiles) -> usize {
        fs::read_dir(&maps.path).unwrap().count()
    }

    #[test]
    fn a_map_is_found_by_its_file_version_and_options_only() {
        let folder = tempfile::tempdir().unwrap();
        let (version, map) = mapped(folder.path(), "a.ndjson", 1000);
        let path = folder.path().join("maps");
        MapFiles::open(path.clone()).unwrap().save(&version, "ndjson", &map);
        let maps = MapFiles::open(path).unwrap();
        assert_eq!(maps.load(&version, "ndjson").as_ref(), Some(&*map));
        assert_eq!(maps.load(&version, "csv"), None);
        let (other, map) = mapped(folder.path(), "b.ndjson", 1000);
        assert_eq!(maps.load(&other, "ndjson"), None);
        // Another version under the same name takes the place of the old one.
        let newer = FileVersion { size_bytes: other.size_bytes + 1, ..version.clone() };
        maps.save(&newer, "ndjson", &map);
        assert_eq!((maps.load(&version, "ndjson"), file_names(&maps)), (None, 0));
    }

    #[test]
    fn a_damaged_map_is_none_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (version, map) = mapped(folder.path(), "a.ndjson", 1000);
        let maps = MapFiles::open(folder.path().join("maps")).unwrap();
        maps.save(&version, "", &map);
        let path = maps.path_of(&version, "");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!((maps.load(&version, ""), file_names(&maps)), (None, 0));
    }

    #[test]
    fn maps_that_are_only_read_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (version, map) = mapped(folder.path(), "a.ndjson", 1000);
        let path = folder.path().join("maps");
        let written = MapFiles::open(path.clone()).unwrap();
        written.save(&version, "", &map);
        let damaged = written.path_of(&version, "damaged");
        fs::write(&damaged, "no map").unwrap();
        let maps = MapFiles::open_read_only(path);
        assert_eq!(maps.load(&version, "").as_ref(), Some(&*map));
        assert_eq!(maps.load(&version, "damaged"), None);
        maps.save(&version, "more", &map);
        assert_eq!((file_names(&maps), damaged.exists()), (2, true));
        let nowhere = MapFiles::open_read_only(folder.path().join("nowhere"));
        assert_eq!(nowhere.load(&version, ""), None);
    }

    #[test]
    fn the_oldest_maps_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let (version, map) = mapped(folder.path(), "a.ndjson", 1000);
        let size_bytes = map.to_bytes(&version, "1").len() as u64;
        let mut maps = MapFiles::open(folder.path().join("maps")).unwrap();
        maps.limit_bytes = 2 * size_bytes;
        for options in ["1", "2", "3"] {
            maps.save(&version, options, &map);
            // File times are as coarse as the kernel's tick.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let kept = ["1", "2", "3"].map(|options| maps.load(&version, options).is_some());
        assert_eq!(kept, [false, true, true]);
        maps.limit_bytes = size_bytes - 1;
        maps.save(&version, "4", &map);
        assert_eq!(file_names(&maps), 2, "what is larger than all room displaces nothing");
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (version, map) = mapped(folder.path(), "a.ndjson", 10);
        let maps = MapFiles::open(folder.path().join("maps")).unwrap();
        fs::write(maps.path.join("left.0.new"), "half").unwrap();
        MapFiles::open(maps.path.clone()).unwrap();
        assert_eq!(file_names(&maps), 0, "what was left half written");
        fs::remove_dir(&maps.path).unwrap();
        maps.save(&version, "", &map);
        assert_eq!(maps.load(&version, ""), None);
    }

    /// In a process of its own: the limit is one of the whole process, and the signal that it sends ends it.
    #[test]
    fn a_map_larger_than_the_system_allows_is_not_kept() {
        const LIMITED_IN: &str = "THERMOCLINE_TEST_LIMITED_IN";
        if let Some(folder) = std::env::var_os(LIMITED_IN).map(PathBuf::from) {
            let (version, map) = map_of(&folder.join("a.ndjson"));
            let maps = MapFiles::open(folder.join("maps")).unwrap();
            maps.save(&version, "", &map);
            assert_eq!((maps.load(&version, ""), file_names(&maps)), (None, 0));
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        mapped(folder.path(), "a.ndjson", 1000);
        let name = "folder::maps::tests::a_map_larger_than_the_system_allows_is_not_kept";
        let script = format!("ulimit -f 0; exec \"$0\" --exact {name}");
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(LIMITED_IN, folder.path());
        let output = limited.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{}\n{shown}", output.status);
    }
}
