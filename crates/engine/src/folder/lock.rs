//! The lock of a database's folder: for one process that may change it, or for any number that only read.
//!
//! It is the system's on a file (`flock`), so that it goes with its holder however that ends. Who may change the folder
//! writes its number into the file, for the message of who comes next. Readers write nothing: they may lack the
//! permission, and the file system may be mounted to be read. They are found among the locks that the system tells of,
//! where it does.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::failure;
use crate::error::{Error, Result};

/// The file's name within the folder.
pub(super) const LOCK_FILE: &str = "lock";

/// Locks a folder for changes.
///
/// # Errors
/// When another process, or this one, has it open; when the lock's file cannot be written.
pub(super) fn for_changes(folder: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(LOCK_FILE));
    let mut lock = opened.map_err(|error| failure(folder, "its lock cannot be opened", &error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            // Whoever can share it is kept out by readers alone.
            let is_read = lock.try_lock_shared().is_ok();
            let who = if is_read { readers(&lock) } else { changer(&mut lock) };
            return Err(Error::input(format!("database '{}' is open {who}", folder.display())));
        }
        Err(TryLockError::Error(error)) => return Err(failure(folder, "it cannot be locked", &error)),
    }
    let told = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    told.map_err(|error| failure(folder, "its lock cannot be written", &error))?;
    Ok(lock)
}

/// Locks a folder to read it. `None` where there is no file to lock, as in a copy that leaves it out: nobody has
/// changed such a folder at this place, and who begins to do so takes files away but never puts others in their place.
///
/// # Errors
/// When a process has it open that may change it; when the lock's file cannot be read.
pub(super) fn for_reading(folder: &Path) -> Result<Option<File>> {
    let mut lock = match File::open(folder.join(LOCK_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failure(folder, "its lock cannot be opened", &error))?,
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => {
            let who = changer(&mut lock);
            Err(Error::input(format!("database '{}' is open for changes {who}", folder.display())))
        }
        Err(TryLockError::Error(error)) => Err(failure(folder, "it cannot be locked", &error)),
    }
}

/// Where the database is open for changes, as its file says.
fn changer(lock: &mut File) -> String {
    let mut holder = String::new();
    lock.read_to_string(&mut holder).ok();
    match holder.trim().parse::<u32>() {
        Ok(id) if id == std::process::id() => "in this process already: use another session of it".to_string(),
        Ok(id) => format!("in process {id}: close it there first"),
        Err(_) => "in another process: close it there first".to_string(),
    }
}

/// Where it is open to be read.
fn readers(lock: &File) -> String {
    let own_id = std::process::id();
    let mut ids = match (lock.metadata(), fs::read_to_string("/proc/locks")) {
        (Ok(metadata), Ok(locks)) => holders(&locks, &metadata),
        _ => Vec::new(),
    };
    // This one has just shared the lock itself, by which it is listed once.
    if let Some(own) = ids.iter().position(|&id| id == own_id) {
        ids.remove(own);
    }
    ids.sort_unstable();
    ids.dedup();
    let listed: Vec<String> = ids.iter().map(ToString::to_string).collect();
    match ids.as_slice() {
        [] => "for reading in another process: close it there first".to_string(),
        [id] if *id == own_id => "for reading in this process already: close it first".to_string(),
        [id] => format!("for reading in process {id}: close it there first"),
        _ => format!("for reading in processes {}: close it there first", listed.join(", ")),
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
    use super::*;

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
