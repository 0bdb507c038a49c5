//! What a simulated disk holds for certain, what it may lose, and what a crash makes of that.

use std::collections::{BTreeMap, BTreeSet};

use crate::storage::seeded::Seeded;

/// Number of a file on the disk; stays when its name changes.
pub(super) type FileId = usize;

/// Seeds below this stand for the extremes, see [`Survival`].
pub(super) const EXTREME_SEED_COUNT: u64 = 4;

/// Files and names, as programs see them and as they are safe.
#[derive(Debug, Default, Clone)]
pub(super) struct Disk {
    files: Vec<DiskFile>,
    names: BTreeMap<String, FileId>,
    safe_names: BTreeMap<String, FileId>,
    /// Changes of names since the last sync of the namespace, in order. Each is whole or not at all.
    changes: Vec<NameChange>,
}

/// The names that a change touches, with the file that each means afterwards.
type NameChange = Vec<(String, Option<FileId>)>;

#[derive(Debug, Default, Clone)]
struct DiskFile {
    content: Vec<u8>,
    safe_content: Vec<u8>,
    /// Writes not folded into the safe content, in order.
    writes: Vec<Write>,
}

#[derive(Debug, Clone)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
    fate: Fate,
}

/// What is known about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not synced.
    Open,
    /// Synced. Not folded in, for there is one in doubt before it.
    Safe,
    /// A sync failed. No later one will save it.
    InDoubt,
}

/// What a crash keeps of what was not synced.
#[derive(Debug)]
struct Survival {
    seeded: Seeded,
    /// All or nothing of the writes; none for any subset.
    writes: Option<bool>,
    /// The same for changes of names.
    names: Option<bool>,
    torn_bytes: usize,
}

impl Survival {
    fn new(seed: u64, torn_bytes: usize) -> Self {
        let (writes, names) = match seed {
            0 => (Some(false), Some(false)),
            1 => (Some(true), Some(true)),
            2 => (Some(false), Some(true)),
            3 => (Some(true), Some(false)),
            _ => (None, None),
        };
        Self { seeded: Seeded::new(seed), writes, names, torn_bytes: torn_bytes.max(1) }
    }

    /// For each part of a write at `offset` whether it is kept. Parts end at multiples of what is written at once.
    fn parts(&mut self, offset: usize, length: usize) -> Vec<(usize, usize, bool)> {
        let whole = self.writes.or_else(|| match self.seeded.below(3) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        });
        let mut parts = Vec::new();
        let mut start = offset;
        while start < offset + length {
            let end = ((start / self.torn_bytes + 1) * self.torn_bytes).min(offset + length);
            let is_kept = whole.unwrap_or_else(|| self.seeded.below(2) == 0);
            parts.push((start - offset, end - offset, is_kept));
            start = end;
        }
        parts
    }
}

impl DiskFile {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        overwrite(&mut self.content, offset, bytes);
        self.writes.push(Write { offset, bytes: bytes.to_vec(), fate: Fate::Open });
    }

    fn sync(&mut self) {
        if self.writes.iter().all(|write| write.fate == Fate::Open) {
            self.safe_content.clone_from(&self.content);
            self.writes.clear();
        }
        self.settle(Fate::Safe);
    }

    fn settle(&mut self, fate: Fate) {
        for write in self.writes.iter_mut().filter(|write| write.fate == Fate::Open) {
            write.fate = fate;
        }
    }

    fn after_crash(&self, survival: &mut Survival) -> Self {
        let mut content = self.safe_content.clone();
        // What lies within a file's new length but was never written: zeros on most file systems, anything on some.
        let filler = if survival.seeded.below(2) == 0 { 0 } else { survival.seeded.next() as u8 };
        for Write { offset, bytes, fate } in &self.writes {
            if *fate == Fate::Safe {
                overwrite(&mut content, *offset, bytes);
                continue;
            }
            let parts = survival.parts(*offset, bytes.len());
            let end = offset + bytes.len();
            // The length may be there without the bytes.
            let keeps_length = survival.writes.is_none() && survival.seeded.below(3) == 0;
            if keeps_length || parts.iter().any(|&(_, _, is_kept)| is_kept) {
                content.resize(content.len().max(*offset), 0);
            }
            for (start, end, _) in parts.into_iter().filter(|&(_, _, is_kept)| is_kept) {
                content.resize(content.len().max(offset + start), filler);
                overwrite(&mut content, offset + start, &bytes[start..end]);
            }
            if keeps_length {
                content.resize(content.len().max(end), filler);
            }
        }
        Self { safe_content: content.clone(), content, writes: Vec::new() }
    }
}

/// Writes into a file's bytes, growing them with zeros.
fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    content.resize(content.len().max(end), 0);
    content[offset..end].copy_from_slice(bytes);
}

impl Disk {
    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    pub(super) fn content(&self, file: FileId) -> &[u8] {
        &self.files[file].content
    }

    /// A new file under a name that is free.
    pub(super) fn create(&mut self, name: &str) -> FileId {
        self.files.push(DiskFile::default());
        let file = self.files.len() - 1;
        self.change_names(vec![(name.to_owned(), Some(file))]);
        file
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change_names(vec![(name.to_owned(), None)]);
    }

    pub(super) fn rename(&mut self, file: FileId, from: &str, to: &str) {
        if from != to {
            self.change_names(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
        }
    }

    fn change_names(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    pub(super) fn write(&mut self, file: FileId, offset: usize, bytes: &[u8]) {
        self.files[file].write(offset, bytes);
    }

    pub(super) fn sync(&mut self, file: FileId) {
        self.files[file].sync();
    }

    /// A sync that failed.
    pub(super) fn fail_sync(&mut self, file: FileId) {
        self.files[file].settle(Fate::InDoubt);
    }

    pub(super) fn sync_names(&mut self) {
        self.safe_names.clone_from(&self.names);
        self.changes.clear();
    }

    /// The disk after a crash: what is safe, and of the rest what the seed says. Changes of one name are kept in order,
    /// that is up to one of them; those of different names in any combination.
    pub(super) fn after_crash(&self, seed: u64, torn_bytes: usize) -> Self {
        let survival = &mut Survival::new(seed, torn_bytes);
        let mut names = self.safe_names.clone();
        let mut lost = BTreeSet::new();
        for change in &self.changes {
            let is_kept = survival.names.unwrap_or_else(|| survival.seeded.below(2) == 0);
            if is_kept && !change.iter().any(|(name, _)| lost.contains(name)) {
                apply(&mut names, change);
            } else {
                lost.extend(change.iter().map(|(name, _)| name));
            }
        }
        let files = self.files.iter().map(|file| file.after_crash(survival)).collect();
        Self { files, safe_names: names.clone(), names, changes: Vec::new() }
    }
}

fn apply(names: &mut BTreeMap<String, FileId>, change: &NameChange) {
    for (name, file) in change {
        match file {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}

#[cfg(test)]
mod tests;
