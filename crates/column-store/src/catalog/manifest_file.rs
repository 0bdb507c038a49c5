//! The file that the manifest is kept in, and how it is replaced.
//!
//! **Owns**: its name, and the order of writes, syncs and the rename. **Does not own**: what a failure means for the
//! catalog.
//!
//! **Invariant**: under the name [`NAME`] there is never anything but a whole manifest whose bytes are safe.

use thermocline_medium::{Medium, MediumError};

use super::encode::require_size;
use super::{CatalogError, Manifest};

/// The manifest's file.
pub const NAME: &str = "manifest";

/// The manifest that is to take its place.
pub(super) const NEW_NAME: &str = "manifest.new";

/// The manifest of a medium; `None` if it has none.
pub(super) fn read(medium: &dyn Medium) -> Result<Option<Manifest>, CatalogError> {
    let file = match medium.open(NAME) {
        Err(MediumError::NotFound { .. }) => return Ok(None),
        file => file?,
    };
    let size_bytes = medium.size_bytes(&file)?;
    require_size(size_bytes)?;
    let mut bytes = vec![0; size_bytes as usize];
    medium.read_at(&file, 0, &mut bytes)?;
    Manifest::from_bytes(&bytes).map(Some)
}

/// Writes the bytes beside the manifest, safe but for their name. On failure nothing of them stays, as far as the
/// medium allows that.
///
/// # Errors
/// Those of the medium.
pub(super) fn write_beside(medium: &dyn Medium, bytes: &[u8]) -> Result<(), MediumError> {
    // One whose sync failed may not be written to again: it goes, and a new file takes its name.
    match medium.remove(NEW_NAME) {
        Err(MediumError::NotFound { .. }) => {}
        removed => removed?,
    }
    let file = medium.create(NEW_NAME)?;
    medium
        .write_at(&file, 0, bytes)
        .and_then(|()| medium.sync_data(&file))
        // A full disk needs the room.
        .inspect_err(|_| discard(medium))
}

/// Gives up what was written beside the manifest.
pub(super) fn discard(medium: &dyn Medium) {
    // The next writer, or who opens the database next, tries again.
    let _ = medium.remove(NEW_NAME);
}

/// Makes what was written beside the manifest the manifest. All names so far are safe then too.
///
/// # Errors
/// Those of the medium. Either manifest may then be found, now or after a crash.
pub(super) fn put_in_place(medium: &dyn Medium) -> Result<(), MediumError> {
    medium.rename(NEW_NAME, NAME)?;
    medium.sync_namespace()
}
