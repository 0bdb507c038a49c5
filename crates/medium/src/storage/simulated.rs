//! A medium whose machine loses power and whose disk fails, at the operation that a test names.
//!
//! **Owns:** a simulated disk in memory ([`disk`]): what is synced, what is not, and which images a crash can leave;
//! the counting of operations, and the plan of when to stop or fail; the driver that tries all of them
//! ([`Exploration`]).
//!
//! **What a crash may do** is what POSIX allows, and more than a journalling file system does, so that code that passes
//! relies on nothing but [`Medium`]'s promises. Of the writes to a file since its last sync any subset is kept, each
//! torn at multiples of a sector (or of eight bytes, for memory); the length of the file may be kept without them, and
//! what lies in between is then zeros or noise. Changes of names since the last sync of the namespace are each kept
//! whole or lost, in any combination but one: of changes to one name a later one is kept only with the earlier ones.
//! Syncing a file does not save its name, nor the reverse. After a failed sync of data, what was written before is
//! never made safe by a later sync, as on Linux; changes of names are, since file systems that fail there take no more
//! of them.
//!
//! **Invariants:** everything that happens is determined by the calls, the plan and the seed. An operation that the
//! machine stops at is issued and not acknowledged: a crash may keep it or not.
//!
//! **Concurrency:** may be shared by threads, but only calls from one thread have the same numbers each time.

mod disk;
mod explore;

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::medium::{name_taken, no_such_file, read_only, require_name, require_within};
use super::pending_read::length_bytes;
use super::{Medium, MediumFile};
use crate::{MediumError, Result};
use disk::{Disk, FileId};
pub use explore::{Exploration, Explored, Finding};

/// What an operation fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error. Of a write nothing is done.
    InputOutput,
    /// The device is full. Of a write the first half is done.
    NoSpace,
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::InputOutput => io::Error::from_raw_os_error(libc::EIO),
            Self::NoSpace => io::Error::from_raw_os_error(libc::ENOSPC),
        }
    }
}

/// A medium in memory that can be stopped, made to fail and crashed.
///
/// Operations are calls that change something: create, remove, rename, write, and both syncs. They are counted from 0;
/// reads are counted apart.
///
/// ```
/// use thermocline_medium::{Medium, SimulatedMedium};
/// # fn main() -> thermocline_medium::Result<()> {
/// let medium = SimulatedMedium::new(512);
/// let file = medium.create("manifest")?;
/// medium.write_at(&file, 0, b"one")?;
/// medium.sync_data(&file)?;
/// // The name was not made safe, so a crash may lose the file.
/// assert!(medium.crash(0).list()?.is_empty());
/// medium.sync_namespace()?;
/// assert_eq!(medium.crash(0).list()?, ["manifest"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SimulatedMedium {
    machine: Arc<Mutex<Machine>>,
}

#[derive(Debug)]
struct Machine {
    disk: Disk,
    torn_bytes: usize,
    operations: Vec<String>,
    read_count: u64,
    stop_at: Option<u64>,
    fail_at: Option<(u64, Fault)>,
    fail_read_at: Option<u64>,
    is_stopped: bool,
}

/// What a handle stands for.
struct SimulatedFile {
    machine: Arc<Mutex<Machine>>,
    file: FileId,
    is_writable: bool,
}

/// How an operation goes.
#[derive(Clone, Copy)]
enum Course {
    Done,
    /// It is issued, and then the machine stops.
    Stopped,
    Failed(Fault),
}

fn stopped(name: &str, action: &str) -> MediumError {
    MediumError::from_io(Path::new(name), action, io::Error::other("the simulated machine has stopped"))
}

impl Machine {
    fn new(disk: Disk, torn_bytes: usize) -> Self {
        Self {
            disk,
            torn_bytes,
            operations: Vec::new(),
            read_count: 0,
            stop_at: None,
            fail_at: None,
            fail_read_at: None,
            is_stopped: false,
        }
    }

    fn require_running(&self, name: &str, action: &str) -> Result<()> {
        if self.is_stopped { Err(stopped(name, action)) } else { Ok(()) }
    }

    /// Counts an operation and tells how it goes.
    fn begin(&mut self, name: &str, action: &str) -> Result<Course> {
        self.require_running(name, action)?;
        let index = self.operations.len() as u64;
        self.operations.push(format!("{action}: {name}"));
        if self.stop_at == Some(index) {
            self.is_stopped = true;
            return Ok(Course::Stopped);
        }
        match self.fail_at {
            Some((at, fault)) if at == index => Ok(Course::Failed(fault)),
            _ => Ok(Course::Done),
        }
    }

    /// An operation that is whole or not at all.
    fn change(&mut self, name: &str, action: &str, change: impl FnOnce(&mut Disk)) -> Result<()> {
        let course = self.begin(name, action)?;
        if !matches!(course, Course::Failed(_)) {
            change(&mut self.disk);
        }
        course.end(name, action)
    }
}

impl Course {
    fn end(self, name: &str, action: &str) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Stopped => Err(stopped(name, action)),
            Self::Failed(fault) => Err(MediumError::from_io(Path::new(name), action, fault.error())),
        }
    }
}

impl SimulatedMedium {
    /// An empty disk that writes `torn_bytes` at once: 512 for disks, 8 for memory.
    pub fn new(torn_bytes: usize) -> Self {
        Self::with(Machine::new(Disk::default(), torn_bytes))
    }

    fn with(machine: Machine) -> Self {
        Self { machine: Arc::new(Mutex::new(machine)) }
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the machine at this operation: it and every later call fail.
    pub fn stop_at(&self, operation_index: u64) {
        self.lock().stop_at = Some(operation_index);
    }

    /// Makes one operation fail; later ones succeed.
    pub fn fail_at(&self, operation_index: u64, fault: Fault) {
        self.lock().fail_at = Some((operation_index, fault));
    }

    /// Makes one read fail with an error of the device; later ones succeed.
    pub fn fail_read_at(&self, read_index: u64) {
        self.lock().fail_read_at = Some(read_index);
    }

    /// Whether the machine has stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// The operations so far, each as what was done to which name.
    pub fn operations(&self) -> Vec<String> {
        self.lock().operations.clone()
    }

    /// How many operations there were.
    pub fn operation_count(&self) -> u64 {
        self.lock().operations.len() as u64
    }

    /// How many reads there were.
    pub fn read_count(&self) -> u64 {
        self.lock().read_count
    }

    /// The medium as it is found after a crash at this moment, with counts and plan anew. This one is not changed.
    ///
    /// Seeds 0 to 3 are the extremes: nothing that was not synced is kept; everything; changes of names alone; writes
    /// alone. Any other one stands for some subset.
    pub fn crash(&self, seed: u64) -> Self {
        let machine = self.lock();
        Self::with(Machine::new(machine.disk.after_crash(seed, machine.torn_bytes), machine.torn_bytes))
    }

    /// The same disk as it is, in a machine of its own.
    fn copy(&self) -> Self {
        let machine = self.lock();
        Self::with(Machine::new(machine.disk.clone(), machine.torn_bytes))
    }

    fn handle(&self, name: &str, file: FileId, is_writable: bool) -> MediumFile {
        MediumFile::new(name, Arc::new(SimulatedFile { machine: Arc::clone(&self.machine), file, is_writable }))
    }

    /// The file of a handle, if it is one of this machine and not of the one before a crash.
    fn state<'a>(&self, file: &'a MediumFile) -> Result<&'a SimulatedFile> {
        let state = file.state::<SimulatedFile>()?;
        if Arc::ptr_eq(&state.machine, &self.machine) {
            Ok(state)
        } else {
            Err(MediumError::ForeignFile { path: file.name().to_owned() })
        }
    }

    fn open_existing(&self, name: &str, is_writable: bool) -> Result<MediumFile> {
        require_name(name)?;
        let machine = self.lock();
        machine.require_running(name, "open the file")?;
        let file = machine.disk.find(name).ok_or_else(|| no_such_file(name))?;
        drop(machine);
        Ok(self.handle(name, file, is_writable))
    }
}

impl Medium for SimulatedMedium {
    fn describe(&self) -> String {
        format!("files in memory that crash on request, torn at {} bytes (simulated)", self.lock().torn_bytes)
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        require_name(name)?;
        let mut machine = self.lock();
        if machine.disk.find(name).is_some() {
            return Err(name_taken(name));
        }
        let mut file = 0;
        machine.change(name, "create the file", |disk| file = disk.create(name))?;
        drop(machine);
        Ok(self.handle(name, file, true))
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        self.open_existing(name, false)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        self.open_existing(name, true)
    }

    fn remove(&self, name: &str) -> Result<()> {
        require_name(name)?;
        let mut machine = self.lock();
        machine.disk.find(name).ok_or_else(|| no_such_file(name))?;
        machine.change(name, "remove the file", |disk| disk.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        require_name(from)?;
        require_name(to)?;
        let mut machine = self.lock();
        let file = machine.disk.find(from).ok_or_else(|| no_such_file(from))?;
        machine.change(from, &format!("rename the file to {to}"), |disk| disk.rename(file, from, to))
    }

    fn list(&self) -> Result<Vec<String>> {
        let machine = self.lock();
        machine.require_running("the medium", "list the files")?;
        Ok(machine.disk.names())
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        let state = self.state(file)?;
        let machine = self.lock();
        machine.require_running(file.name(), "read the metadata")?;
        Ok(machine.disk.content(state.file).len() as u64)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_vectored_at(file, offset_bytes, &mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored_at(&self, file: &MediumFile, offset_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        let state = self.state(file)?;
        let length_bytes = length_bytes(parts);
        let action = || format!("read {length_bytes} bytes at byte {offset_bytes}");
        let mut machine = self.lock();
        machine.require_running(file.name(), "read")?;
        let index = machine.read_count;
        machine.read_count += 1;
        if machine.fail_read_at == Some(index) {
            return Err(MediumError::from_io(Path::new(file.name()), action(), Fault::InputOutput.error()));
        }
        let content = machine.disk.content(state.file);
        require_within(file.name(), offset_bytes, length_bytes, content.len() as u64)?;
        let mut next = offset_bytes as usize;
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            let end = next + part.len();
            part.copy_from_slice(&content[next..end]);
            next = end;
        }
        Ok(())
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let state = self.state(file)?;
        if !state.is_writable {
            return Err(read_only(file.name()));
        }
        let mut machine = self.lock();
        let action = format!("write {} bytes at byte {offset_bytes}", bytes.len());
        let course = machine.begin(file.name(), &action)?;
        let written = match course {
            Course::Done | Course::Stopped => bytes,
            Course::Failed(Fault::NoSpace) => &bytes[..bytes.len() / 2],
            Course::Failed(Fault::InputOutput) => &[],
        };
        machine.disk.write(state.file, offset_bytes as usize, written);
        course.end(file.name(), &action)
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        let state = self.state(file)?;
        let mut machine = self.lock();
        let course = machine.begin(file.name(), "flush its data")?;
        match course {
            Course::Done => machine.disk.sync(state.file),
            Course::Stopped => {}
            Course::Failed(_) => machine.disk.fail_sync(state.file),
        }
        course.end(file.name(), "flush its data")
    }

    fn sync_namespace(&self) -> Result<()> {
        let mut machine = self.lock();
        let course = machine.begin("the medium", "flush the names")?;
        if matches!(course, Course::Done) {
            machine.disk.sync_names();
        }
        course.end("the medium", "flush the names")
    }
}

#[cfg(test)]
mod tests;
