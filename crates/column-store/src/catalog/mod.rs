//! The catalog of a database's own tables, and external tables and views, in a manifest that is replaced as a whole.
//!
//! **Owns**: which names there are and what they stand for ([`Manifest`]); the manifest's bytes
//! (`docs/formats/manifest.md`); the names of segment files, and removing those that nothing names any more. **Does not
//! own**: what is in segments (`segment`), what definitions mean, who may have the database open (one catalog that
//! makes changes, or any number that read; its folder's lock is `engine`'s).
//!
//! **Invariants**
//! - A change that was acknowledged survives every crash, one that was not is there whole or not at all, and there is
//!   nothing in between two changes. The segments that a manifest names are safe before it is.
//! - A change that fails leaves everything as it was. If the medium fails when the new manifest is put in place, it
//!   cannot be known which of the two a crash would leave: the catalog goes on with the old one, keeps the files of
//!   both, and refuses changes until it is opened again, which settles it.
//! - A damaged manifest is an error, and so is one that is missing beside segments; neither is ever an empty database.
//! - A catalog that is opened to read alone changes nothing on its medium, not even what a crash has left.
//!
//! **Concurrency**: snapshots are taken at any time and never change. Changes are made one after the other. Dropping a
//! table removes its files at once: who has opened them reads on, who has not finds them gone.

mod decode;
mod encode;
mod error;
mod manifest;
mod manifest_file;
mod pending_segment;
mod quoted;
mod segment_names;
mod shared;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_medium::Medium;

pub use error::CatalogError;
pub use manifest::{ColumnTable, Entry, EntryName, Manifest};
pub use manifest_file::NAME as MANIFEST_FILE;
pub use pending_segment::PendingSegment;
use segment_names::number_of;
use shared::Shared;

/// The catalog of one database.
///
/// ```
/// use std::sync::Arc;
///
/// use thermocline_column_store::{Catalog, CatalogError, Entry, EntryName};
/// use thermocline_medium::MemoryMedium;
///
/// # fn main() -> Result<(), CatalogError> {
/// let medium = Arc::new(MemoryMedium::new());
/// let catalog = Catalog::open(medium.clone())?;
/// let name = EntryName::new("public", "answer");
/// catalog.commit(|manifest| {
///     manifest.entries.insert(name.clone(), Entry::View { definition: "SELECT 42".to_owned() });
///     Ok::<_, CatalogError>(())
/// })?;
///
/// let again = Catalog::open(medium)?;
/// assert!(again.snapshot().entries.contains_key(&name));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Catalog {
    shared: Arc<Shared>,
}

impl Catalog {
    /// Reads the manifest, if there is one, and removes segments that it does not name, which a crash has left; none if
    /// some that it names are missing, since it may not be that of these files. Files of other names are left alone.
    ///
    /// There may be one such catalog of a medium at a time, and none that reads beside it.
    ///
    /// # Errors
    /// Failures of the medium; a manifest that is damaged, of a newer version, missing or not that of these segments.
    /// Then nothing is changed.
    pub fn open(medium: Arc<dyn Medium>) -> Result<Self, CatalogError> {
        Self::open_locked(medium, Arc::new(()))
    }

    /// Like [`open`](Self::open), for who holds a lock that keeps other catalogs from the medium: it is held for as
    /// long as this one, or one of its [`PendingSegment`]s, may still write or remove a file.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_locked(medium: Arc<dyn Medium>, lock: Arc<dyn Any + Send + Sync>) -> Result<Self, CatalogError> {
        let Found { names, manifest, is_new } = Found::on(medium.as_ref())?;
        if !is_new {
            // Who put this manifest in place may have had no time to make that safe. Before it is, an older one may
            // come back, which names other segments.
            medium.sync_namespace()?;
        }
        let named: BTreeSet<&str> = manifest.segments().map(|(_, segment)| segment.name.as_str()).collect();
        let found: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let is_whole = named.is_subset(&found);
        let is_left = |name: &&String| is_whole && number_of(name).is_some() && !named.contains(name.as_str());
        for name in names.iter().filter(is_left) {
            // One that can't be removed takes room and does no harm.
            let _ = medium.remove(name);
        }
        if names.iter().any(|name| name == manifest_file::NEW_NAME) {
            manifest_file::discard(medium.as_ref());
        }
        Ok(Self { shared: Arc::new(Shared::new(medium, lock, manifest)) })
    }

    /// Reads the manifest, if there is one, and touches nothing: what a crash has left stays for who opens the medium
    /// to change it. Changes are refused.
    ///
    /// There may be any number of such catalogs of a medium, while there is none that makes changes. A change that was
    /// being acknowledged when the machine lost power may be read here and yet be lost in the next such loss.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_read_only(medium: Arc<dyn Medium>) -> Result<Self, CatalogError> {
        let Found { manifest, .. } = Found::on(medium.as_ref())?;
        Ok(Self { shared: Arc::new(Shared::read_only(medium, manifest)) })
    }

    /// The catalog as it is now. Costs no I/O and waits for none.
    pub fn snapshot(&self) -> Arc<Manifest> {
        self.shared.published()
    }

    /// A name for a new segment, which no other ever had or will have: not in this process, nor in another one, nor
    /// after a crash. The first one of a process, and then one in about a thousand, has a manifest written.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn new_segment(&self) -> Result<PendingSegment, CatalogError> {
        let name = self.shared.give_name()?;
        Ok(PendingSegment::new(name, Arc::clone(&self.shared)))
    }

    /// Makes a change: `edit` is given the entries as they are, and what it makes of them is written. When this
    /// returns, the change survives crashes, snapshots have it, and the segments that nothing names any more are
    /// removed. If `edit` fails or changes nothing, nothing is written.
    ///
    /// Segments that are named for the first time must be those of [`PendingSegment`]s that live, and their data must
    /// be synced; their names need not be.
    ///
    /// Other changes wait until this one is made, so `edit` should take no time, and may not call `commit`, which would
    /// wait for itself.
    ///
    /// # Errors
    /// What `edit` says; an edit that cannot be kept; failures of the medium. All leave the catalog as it was, and it
    /// can be tried again; but after [`CatalogError::InDoubt`] changes are [`Refused`](CatalogError::Refused) until the
    /// catalog is opened again.
    pub fn commit<R, E: From<CatalogError>>(&self, edit: impl FnOnce(&mut Manifest) -> Result<R, E>) -> Result<R, E> {
        let _turn = self.shared.turn();
        self.shared.require_changeable()?;
        let mut edited = Manifest::clone(&self.snapshot());
        let result = edit(&mut edited)?;
        self.shared.commit(edited)?;
        Ok(result)
    }
}

/// What a medium has when a catalog of it is opened.
struct Found {
    /// All its files.
    names: Vec<String>,
    manifest: Manifest,
    /// Whether it has no manifest yet.
    is_new: bool,
}

impl Found {
    fn on(medium: &dyn Medium) -> Result<Self, CatalogError> {
        let names = medium.list()?;
        let found = manifest_file::read(medium)?;
        let is_new = found.is_none();
        let manifest = found.unwrap_or_default();
        let segments = names.iter().filter_map(|name| Some((number_of(name)?, name.as_str())));
        if let Some((number, segment)) = segments.clone().max()
            && number >= manifest.next_file
        {
            let segment = segment.to_owned();
            return Err(if is_new {
                CatalogError::Missing { segment, segment_count: segments.count() }
            } else {
                CatalogError::Older { segment, next_file: manifest.next_file }
            });
        }
        Ok(Self { names, manifest, is_new })
    }
}

#[cfg(test)]
mod tests;
