//! A medium that forgets: tests of crashes are worth something only if they notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_medium::{Medium, MediumFile, Result};

/// A medium that leaves out one sync and says that it is done.
#[derive(Debug)]
pub(super) struct Forgetful {
    medium: Arc<dyn Medium>,
    left_out: u64,
    sync_count: AtomicU64,
}

impl Forgetful {
    pub(super) fn new(medium: &Arc<dyn Medium>, left_out: u64) -> Arc<Self> {
        Arc::new(Self { medium: Arc::clone(medium), left_out, sync_count: AtomicU64::new(0) })
    }

    /// How many syncs there were.
    pub(super) fn sync_count(&self) -> u64 {
        self.sync_count.load(Ordering::Relaxed)
    }

    fn remembers(&self) -> bool {
        self.sync_count.fetch_add(1, Ordering::Relaxed) != self.left_out
    }
}

impl Medium for Forgetful {
    fn describe(&self) -> String {
        self.medium.describe()
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        self.medium.create(name)
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        self.medium.open(name)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        self.medium.open_writable(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.medium.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.medium.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.medium.list()
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        self.medium.size_bytes(file)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.medium.read_at(file, offset_bytes, buffer)
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.medium.write_at(file, offset_bytes, bytes)
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        if self.remembers() { self.medium.sync_data(file) } else { Ok(()) }
    }

    fn sync_namespace(&self) -> Result<()> {
        if self.remembers() { self.medium.sync_namespace() } else { Ok(()) }
    }
}
