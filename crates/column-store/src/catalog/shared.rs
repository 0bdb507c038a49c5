//! What a catalog and the segments in the making have in common: the published manifest, which files may not be
//! removed, and the way from one manifest to the next.
//!
//! **Invariants**
//! - A file that the manifest on disk may name is never removed; nor one that is being written.
//! - A number is given as a name only after a manifest that counts it as taken is safe. So a segment without a
//!   manifest, or with one that does not know its number, can only be the work of somebody who moved files.
//! - What is published is safe. After a failure that leaves open which manifest is safe, nothing is written or removed
//!   any more.
//! - Whoever can write or remove a file holds this, and by it the lock that keeps others from doing so.
//!
//! **Concurrency**: `turn` is held from reading the published manifest to publishing its successor, `files` while
//! something is written; always in this order. `published` is held for moments, so that readers wait for no I/O.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use thermocline_medium::{Medium, MediumError};

use super::segment_names::name_of;
use super::{CatalogError, Manifest, manifest_file};
use crate::SegmentInfo;

/// How many numbers a manifest takes at once. The last ones that a process took are lost when it ends, which costs
/// nothing; a manifest must be written for the first load of a process, and for every so many segments.
const RESERVED_COUNT: u64 = 1024;

#[derive(Debug)]
pub(super) struct Shared {
    medium: Arc<dyn Medium>,
    _lock: Arc<dyn Any + Send + Sync>,
    published: RwLock<Arc<Manifest>>,
    turn: Mutex<()>,
    files: Mutex<Files>,
}

/// Which files there are beside those that the published manifest names.
#[derive(Debug)]
struct Files {
    /// The next number to be given. At the published manifest's bound all that it takes are given.
    next_number: u64,
    /// Names that were given, and neither named by a manifest nor given up.
    pending: BTreeSet<String>,
    /// Why nothing may be written, or nothing more.
    refusal: Option<Refusal>,
}

/// Why a catalog takes no changes.
#[derive(Debug)]
enum Refusal {
    /// It was opened to read alone.
    ReadOnly,
    /// What failed when it could not be known whether a change was saved.
    Doubt(String),
}

impl Files {
    fn require_changeable(&self) -> Result<(), CatalogError> {
        match &self.refusal {
            None => Ok(()),
            Some(Refusal::ReadOnly) => Err(CatalogError::ReadOnly),
            Some(Refusal::Doubt(reason)) => Err(CatalogError::Refused { reason: reason.clone() }),
        }
    }
}

impl Shared {
    pub(super) fn new(medium: Arc<dyn Medium>, lock: Arc<dyn Any + Send + Sync>, manifest: Manifest) -> Self {
        Self::with(medium, lock, manifest, None)
    }

    /// One that takes no changes.
    pub(super) fn read_only(medium: Arc<dyn Medium>, manifest: Manifest) -> Self {
        Self::with(medium, Arc::new(()), manifest, Some(Refusal::ReadOnly))
    }

    fn with(
        medium: Arc<dyn Medium>,
        lock: Arc<dyn Any + Send + Sync>,
        manifest: Manifest,
        refusal: Option<Refusal>,
    ) -> Self {
        let files = Files { next_number: manifest.next_file, pending: BTreeSet::new(), refusal };
        let published = RwLock::new(Arc::new(manifest));
        Self { medium, _lock: lock, published, turn: Mutex::new(()), files: Mutex::new(files) }
    }

    pub(super) fn published(&self) -> Arc<Manifest> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Held by the one who makes a change. A panic in an edit leaves nothing half done, so that poison means nothing.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn require_changeable(&self) -> Result<(), CatalogError> {
        self.files().require_changeable()
    }

    /// A name that was never given before, for a segment that is pending from now on.
    pub(super) fn give_name(&self) -> Result<String, CatalogError> {
        let mut files = self.files();
        files.require_changeable()?;
        let published = self.published();
        if files.next_number >= published.next_file {
            let mut reserving = Manifest::clone(&published);
            let found = files.next_number;
            reserving.next_file =
                found.checked_add(RESERVED_COUNT).ok_or(CatalogError::Exhausted { what: "next-file", found })?;
            self.replace(&mut files, reserving, false)?;
        }
        let name = name_of(files.next_number);
        files.next_number += 1;
        files.pending.insert(name.clone());
        Ok(name)
    }

    /// Removes a segment that no manifest names. Does nothing for one that was committed.
    pub(super) fn give_up(&self, name: &str) {
        let mut files = self.files();
        let may_remove = files.refusal.is_none();
        if files.pending.remove(name) && may_remove {
            drop(files);
            self.remove(name);
        }
    }

    /// Whether the file is there or not, nobody names it. What cannot be removed now is when the database is opened
    /// next.
    fn remove(&self, name: &str) {
        let _ = self.medium.remove(name);
    }

    /// Makes `edited` what is published and safe. Its caller holds the turn. Without a difference nothing is written.
    pub(super) fn commit(&self, edited: Manifest) -> Result<(), CatalogError> {
        let mut files = self.files();
        // An edit may have taken so long that names were reserved meanwhile. Entries only change with the turn.
        let published = self.published();
        files.require_changeable()?;
        if edited.entries == published.entries {
            return Ok(());
        }
        let added = check_edit(&published, &edited, &files)?;
        let next = Manifest { entries: edited.entries, ..Manifest::clone(&published) };
        let dropped = names_only_in(&published, &next);
        self.replace(&mut files, next, !added.is_empty())?;
        for name in &added {
            files.pending.remove(name);
        }
        drop(files);
        for name in &dropped {
            self.remove(name);
        }
        Ok(())
    }

    /// Writes the manifest with the next version, and publishes it.
    fn replace(&self, files: &mut Files, mut next: Manifest, adds_segments: bool) -> Result<(), CatalogError> {
        let found = next.version;
        next.version = found.checked_add(1).ok_or(CatalogError::Exhausted { what: "version", found })?;
        let bytes = next.to_bytes()?;
        let medium = self.medium.as_ref();
        manifest_file::write_beside(medium, &bytes)?;
        if adds_segments {
            // A rename may be safe before the names of the segments that the manifest names.
            medium.sync_namespace().inspect_err(|_| manifest_file::discard(medium))?;
        }
        manifest_file::put_in_place(medium).map_err(|source| doubt(files, source))?;
        *self.published.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(())
    }
}

fn doubt(files: &mut Files, source: MediumError) -> CatalogError {
    files.refusal = Some(Refusal::Doubt(source.to_string()));
    CatalogError::InDoubt { source }
}

/// The names of the segments that are new. They must be pending, the others as they were; none may be there twice.
fn check_edit(before: &Manifest, after: &Manifest, files: &Files) -> Result<Vec<String>, CatalogError> {
    let known: BTreeMap<&str, &SegmentInfo> =
        before.segments().map(|(_, segment)| (segment.name.as_str(), segment)).collect();
    let mut seen = BTreeSet::new();
    let mut added = Vec::new();
    for (entry, segment) in after.segments() {
        let name = segment.name.as_str();
        let reason = match known.get(name) {
            _ if !seen.insert(name) => "is named twice, expected once",
            Some(&as_before) if as_before == segment => continue,
            Some(_) => "is described otherwise than before, expected unchanged",
            None if files.pending.contains(name) => {
                added.push(name.to_owned());
                continue;
            }
            None => "is unknown, expected a name that the catalog gave and that was not given up since",
        };
        return Err(CatalogError::Segment { entry: entry.clone(), segment: segment.name.clone(), reason });
    }
    Ok(added)
}

fn names_only_in(before: &Manifest, after: &Manifest) -> Vec<String> {
    let kept: BTreeSet<&str> = after.segments().map(|(_, segment)| segment.name.as_str()).collect();
    before
        .segments()
        .filter(|(_, segment)| !kept.contains(segment.name.as_str()))
        .map(|(_, s)| s.name.clone())
        .collect()
}
