//! The lock of a database's folder: for one process that may change it, or for any number that only read.
//!
//! It is the system's on a file (`flock`), so that it goes with its holder however that ends. Who may change the folder
//! writes its number into the file, for the message of who comes next. Readers write nothing: they may lack the
//! permission, and the file system may be mounted to be read. They are found among the locks that the system tells of,
//! where it does.
//!
//! A lock that this process holds itself may be about to go: the tasks of a query hold the database, and where one was
//! cancelled, or the last rows were fetched, they may live for a moment longer than its last session. So whoever opens
//! the folder anew waits for that moment ([`ASKED_TIMES`]) before being told that it is open.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::failure;
use crate::error::{Error, Result};

/// The file's name within the folder.
pub(super) const LOCK_FILE: &str = "lock";

/// How long to wait until a lock of this process is asked for again: the system wakes nobody up within a time.
const ASKED_EVERY: Duration = Duration::from_millis(2);
/// How often, in two seconds: tasks end where they next wait for something, or at the end of a batch.
const ASKED_TIMES: u32 = 1000;

/// Bytes of a process's number, and the end of its line.
const MOST_DIGITS: u64 = 11;

/// A folder's lock, until this is dropped.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: File,
    process_id: u32,
}

impl FolderLock {
    fn new(file: File) -> Self {
        Self { file, process_id: std::process::id() }
    }
}

impl Drop for FolderLock {
    /// Children that were forked meanwhile have the file open too, and would keep it locked. They must not unlock it for
    /// their parent either.
    fn drop(&mut self) {
        if self.process_id == std::process::id() {
            // It goes with the file otherwise.
            self.file.unlock().ok();
        }
    }
}

/// Who keeps a folder from being locked.
struct Holder {
    /// Whether it is this process, or has just gone.
    may_be_gone_soon: bool,
    /// Where it is open, and what to do about it.
    place: String,
}

impl Holder {
    fn own_process(place: &str) -> Self {
        Self { may_be_gone_soon: true, place: place.to_string() }
    }

    fn other_process(place: String) -> Self {
        Self { may_be_gone_soon: false, place }
    }
}

/// Takes a lock, or tells who has it; asks again while that may be gone soon.
fn take(
    lock: &mut File,
    try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    holder: impl Fn(&mut File) -> Holder,
) -> io::Result<std::result::Result<(), Holder>> {
    let mut asked = 0;
    loop {
        match try_lock(lock) {
            Ok(()) => return Ok(Ok(())),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let holder = holder(lock);
        asked += 1;
        if !holder.may_be_gone_soon || asked >= ASKED_TIMES {
            return Ok(Err(holder));
        }
        std::thread::sleep(ASKED_EVERY);
    }
}

/// Locks a folder for changes. Waits for up to two seconds where this process itself has it open.
///
/// # Errors
/// When another process, or this one, has it open; when the lock's file cannot be opened to be written.
pub(super) fn for_changes(folder: &Path) -> Result<FolderLock> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(LOCK_FILE));
    let mut lock = opened.map_err(|error| failure(folder, "its lock cannot be opened", &error))?;
    take(&mut lock, File::try_lock, reader_or_changer)
        .map_err(|error| failure(folder, "it cannot be locked", &error))?
        .map_err(|holder| Error::input(format!("database '{}' is open {}", folder.display(), holder.place)))?;
    // Asking who held it before has read the file.
    let emptied = lock.set_len(0).and_then(|()| lock.rewind());
    // It is for messages alone: on a disk that is full the database can be opened too, to drop tables of it.
    emptied.and_then(|()| writeln!(lock, "{}", std::process::id())).ok();
    Ok(FolderLock::new(lock))
}

/// Locks a folder to read it, and waits as [`for_changes`] does. `None` where there is no file to lock, as in a copy that
/// leaves it out: nobody has changed such a folder at this place, and who begins to do so takes files away but never puts
/// others in their place.
///
/// # Errors
/// When a process has it open that may change it; when the lock's file cannot be read.
pub(super) fn for_reading(folder: &Path) -> Result<Option<FolderLock>> {
    let mut lock = match File::open(folder.join(LOCK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failure(folder, "its lock cannot be opened", &error))?,
    };
    take(&mut lock, File::try_lock_shared, changer)
        .map_err(|error| failure(folder, "it cannot be locked", &error))?
        .map_err(|holder| {
            Error::input(format!("database '{}' is open for changes {}", folder.display(), holder.place))
        })?;
    Ok(Some(FolderLock::new(lock)))
}

/// Who keeps out whoever wants to change it.
fn reader_or_changer(lock: &mut File) -> Holder {
    // Whoever can share it is kept out by readers alone.
    if lock.try_lock_shared().is_err() {
        return changer(lock);
    }
    let readers = readers(lock);
    // Asking again begins without a lock; an error would be met there too.
    lock.unlock().ok();
    readers
}

/// Who has it open for changes, as its file says.
fn changer(lock: &mut File) -> Holder {
    let mut id = String::new();
    if lock.rewind().is_ok() {
        lock.take(MOST_DIGITS).read_to_string(&mut id).ok();
    }
    match id.trim().parse::<u32>() {
        Ok(id) if id == std::process::id() => Holder::own_process("in this process already: use another session of it"),
        Ok(id) if has_ended(id) => Holder::other_process(format!(
            "by a child of process {id}, which has ended itself, or in another container: end that process first"
        )),
        Ok(id) => Holder::other_process(format!("in process {id}: close it there first")),
        Err(_) => Holder::other_process("in another process: close it there first".to_string()),
    }
}

/// Whether there is no process of that number any more, as far as the system tells of processes.
fn has_ended(id: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{id}")).exists()
}

/// Who has it open to be read.
fn readers(lock: &File) -> Holder {
    let own_id = std::process::id();
    let mut ids = match (lock.metadata(), fs::read_to_string("/proc/locks")) {
        (Ok(metadata), Ok(locks)) => holders(&locks, &metadata),
        _ => Vec::new(),
    };
    // This one has just shared the lock itself, by which it is listed once.
    let own = ids.iter().position(|&id| id == own_id);
    if let Some(own) = own {
        ids.remove(own);
    }
    ids.sort_unstable();
    ids.dedup();
    let listed: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match ids.as_slice() {
        // Where locks are listed, whoever had it when it was asked for has gone since.
        [] => Holder {
            may_be_gone_soon: own.is_some(),
            place: "for reading in another process: close it there first".to_string(),
        },
        [id] if *id == own_id => Holder::own_process("for reading in this process already: close it first"),
        [id] => Holder::other_process(format!("for reading in process {id}: close it there first")),
        _ => Holder::other_process(format!("for reading in processes {}: close it there first", listed.join(", "))),
    }
}

/// The processes that hold a lock on a file, once for each, as Linux lists them:
/// `1: FLOCK ADVISORY READ 4711 08:02:393218 0 EOF`, with the device in hexadecimal digits. Some file systems name
/// another device there than in a file's metadata; then none is found.
fn holders(locks: &str, file: &Metadata) -> Vec<u32> {
    let device = file.dev();
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_file = lines.filter(|words| words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&place.as_str()));
    // Those of other containers have no number here.
    of_file.filter_map(|words| words.get(4)?.parse().ok()).filter(|&id| id > 0).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use thermocline_hardware::{Clock, SystemClock};

    use super::*;

    #[test]
    fn a_lock_of_this_process_is_waited_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let for_a_moment = |held: Option<FolderLock>| {
            assert!(held.is_some());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                drop(held);
            })
        };
        for_a_moment(Some(for_changes(path).unwrap()));
        for_a_moment(Some(for_changes(path).unwrap()));
        for_a_moment(for_reading(path).unwrap());
        let held = for_changes(path).unwrap();

        let clock = SystemClock::new();
        let begun_ns = clock.monotonic_ns();
        let refused = for_reading(path).unwrap_err().to_string();
        assert!(refused.contains("is open for changes in this process already"), "{refused}");
        let waited = Duration::from_nanos(clock.monotonic_ns() - begun_ns);
        assert!(waited >= ASKED_EVERY * (ASKED_TIMES - 1), "{waited:?}");
        drop(held);
    }

    #[test]
    fn a_copy_of_the_file_in_a_child_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let held = for_changes(folder.path()).unwrap();
        // Shares its lock, as what a child inherits does.
        let inherited = held.file.try_clone().unwrap();
        drop(held);
        let probe = File::open(folder.path().join(LOCK_FILE)).unwrap();
        assert!(probe.try_lock().is_ok(), "what the child has open keeps it locked");
        drop(probe);
        let again = for_changes(folder.path()).unwrap();
        drop(FolderLock { process_id: again.process_id + 1, file: inherited });
        drop(FolderLock { process_id: again.process_id + 1, file: again.file.try_clone().unwrap() });
        let probe = File::open(folder.path().join(LOCK_FILE)).unwrap();
        assert!(probe.try_lock_shared().is_err(), "a child unlocked it for its parent");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_that_is_full_keeps_nobody_from_locking() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(LOCK_FILE)).unwrap();
        for_changes(folder.path()).unwrap();
    }

    #[test]
    fn who_has_gone_since_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let lock = File::create(folder.path().join(LOCK_FILE)).unwrap();
        // As it is when the holder goes between the try and the look at who it was.
        lock.lock_shared().unwrap();
        assert!(readers(&lock).may_be_gone_soon);
        lock.unlock().unwrap();
        assert!(!readers(&lock).may_be_gone_soon, "no locks of the file are listed");
    }

    #[test]
    fn holders_are_found_by_the_file_they_lock() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join(LOCK_FILE)).unwrap();
        let metadata = file.metadata().unwrap();
        let device = metadata.dev();
        let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & !0xff);
        let inode = metadata.ino();
        let locks = format!(
            "1: FLOCK  ADVISORY  READ 12 {major:02x}:{minor:02x}:{inode} 0 EOF\n\
             2: POSIX  ADVISORY  WRITE 13 {major:02x}:{minor:02x}:{inode} 0 EOF\n\
             3: FLOCK  ADVISORY  READ 14 {major:02x}:{minor:02x}:{} 0 EOF\n\
             3: -> FLOCK  ADVISORY  READ 15 {major:02x}:{minor:02x}:{inode} 0 EOF\n\
             4: FLOCK  ADVISORY  READ 0 {major:02x}:{minor:02x}:{inode} 0 EOF\n\
             4: FLOCK  ADVISORY  READ 16 {major:02x}:{minor:02x}:{inode} 0 EOF\n",
            inode + 1
        );
        assert_eq!(holders(&locks, &metadata), [12, 16]);
        assert_eq!(holders("", &metadata), [0_u32; 0]);
    }
}
