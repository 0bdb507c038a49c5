//! Which local files a location names now.
//!
//! Order is by path, byte by byte. Folders are read recursively without their hidden names and those that start with
//! `_` (marker and staging files of other engines). Links to files are followed; links to folders are followed when a
//! pattern names that level, but not by `**` or a folder's recursion, so that no file is found twice by a way around
//! and no circle is walked.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::glob_pattern::{GlobPattern, Progress, literal_prefix};
use crate::pinned_file::{require_regular, utf8_path};
use crate::{Access, FileVersion, Location, MediumError, Result};

/// A file that a listing found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The path as listed (absolute, links not resolved), or the URL. Open this.
    pub path: Arc<str>,
    /// Length when listed.
    pub size_bytes: u64,
    /// Version when listed, under the canonical path.
    pub version: FileVersion,
}

/// Lists the files that `location` names: one file, the matches of a glob, or a folder's files whose names end in one
/// of `suffixes` (such as `.csv` or `.ndjson.gz`, letters in any case; `None` takes all). At least one, sorted by path.
///
/// # Errors
/// A missing file; a folder or glob without a match; no permission to read a folder on the way; outside of `access`;
/// not a regular file; a remote location (list it with [`list_remote`](crate::list_remote)).
pub fn list_local(location: &Location, suffixes: Option<&[&str]>, access: &Access) -> Result<Vec<ListedFile>> {
    let pattern = match location {
        Location::Local(pattern) => pattern,
        Location::Remote(pattern) => {
            return Err(MediumError::InvalidLocation {
                location: pattern.store_url().to_owned(),
                reason: "is a remote location, expected a local one".to_owned(),
            });
        }
    };
    let path = std::path::absolute(pattern.path())
        .map_err(|source| MediumError::from_io(pattern.path(), "resolve the path", source))?;
    let listing = Listing { access, suffixes };
    let mut found = Vec::new();
    // A file with such characters in its name is that file, not a pattern.
    if pattern.is_glob() && path.symlink_metadata().is_err() {
        let text = pattern.glob_text(&path)?;
        let glob = GlobPattern::parse(&text)?;
        listing.match_all(literal_prefix(&text), &glob, &mut found)?;
        if found.is_empty() {
            return Err(MediumError::NoMatch { pattern: text });
        }
    } else {
        access.check(&path)?;
        let metadata = metadata_of(&path)?;
        if metadata.is_dir() {
            listing.walk(&path, &mut found)?;
            if found.is_empty() {
                return Err(MediumError::EmptyFolder { path: path.display().to_string(), kinds: kinds(suffixes) });
            }
        } else {
            listing.push(&path, &metadata, &mut found)?;
        }
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

/// The kinds of files looked for, as words of an error.
pub(crate) fn kinds(suffixes: Option<&[&str]>) -> String {
    suffixes.map_or_else(|| "file".to_owned(), |suffixes| format!("file ending in {}", suffixes.join(", ")))
}

/// Whether a name ends in one of the suffixes and is more than that; letters in any case.
pub(crate) fn has_suffix(name: &str, suffixes: Option<&[&str]>) -> bool {
    suffixes.is_none_or(|suffixes| {
        suffixes.iter().any(|suffix| {
            name.len() > suffix.len()
                && name.as_bytes()[name.len() - suffix.len()..].eq_ignore_ascii_case(suffix.as_bytes())
        })
    })
}

struct Listing<'a> {
    access: &'a Access,
    suffixes: Option<&'a [&'a str]>,
}

impl Listing<'_> {
    /// All files below `folder`.
    fn walk(&self, folder: &Path, found: &mut Vec<ListedFile>) -> Result<()> {
        for entry in read_folder(folder)? {
            if entry.name.starts_with(['.', '_']) {
                continue;
            }
            if entry.is_folder {
                self.walk(&entry.path, found)?;
            } else if has_suffix(&entry.name, self.suffixes)
                && let Some(metadata) = metadata_if_there(&entry.path)?
                && metadata.is_file()
            {
                self.push(&entry.path, &metadata, found)?;
            }
        }
        Ok(())
    }

    /// The files that match; `prefix` is the pattern up to its first name with a wildcard.
    fn match_all(&self, prefix: &str, glob: &GlobPattern, found: &mut Vec<ListedFile>) -> Result<()> {
        let folder = PathBuf::from(format!("{prefix}/"));
        // Before it is looked up, so that the answer does not tell what exists outside.
        self.access.check(&folder)?;
        let names = prefix.split('/').filter(|name| !name.is_empty());
        let progress = names.fold(glob.start(), |progress, name| glob.step(&progress, name, true));
        match metadata_if_there(&folder)? {
            Some(metadata) if metadata.is_dir() => self.match_below(&folder, glob, &progress, found),
            _ => Ok(()),
        }
    }

    /// The files below `folder` that match; `progress` is what the names down to it have matched.
    fn match_below(
        &self,
        folder: &Path,
        glob: &GlobPattern,
        progress: &Progress,
        found: &mut Vec<ListedFile>,
    ) -> Result<()> {
        // Literal names are looked up in allowed folders only too: a `..` behind a wildcard may lead out.
        self.access.check(folder)?;
        if let Some(names) = glob.next_literals(progress) {
            for name in names {
                let path = folder.join(name);
                let progress = glob.step(progress, name, true);
                // What a literal part names may be missing: then nothing matches.
                match metadata_if_there(&path)? {
                    Some(metadata) if metadata.is_dir() => self.match_below(&path, glob, &progress, found)?,
                    Some(metadata) if metadata.is_file() && glob.is_match(&progress) => {
                        self.push(&path, &metadata, found)?;
                    }
                    _ => {}
                }
            }
            return Ok(());
        }
        for entry in read_folder(folder)? {
            let progress = glob.step(progress, &entry.name, entry.is_folder);
            if progress.is_dead() {
                continue;
            }
            if entry.is_folder {
                self.match_below(&entry.path, glob, &progress, found)?;
                continue;
            }
            match metadata_if_there(&entry.path)? {
                Some(metadata) if metadata.is_dir() => self.match_below(&entry.path, glob, &progress, found)?,
                Some(metadata) if metadata.is_file() && glob.is_match(&progress) => {
                    self.push(&entry.path, &metadata, found)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn push(&self, path: &Path, metadata: &Metadata, found: &mut Vec<ListedFile>) -> Result<()> {
        self.access.check(path)?;
        require_regular(path, metadata)?;
        let canonical =
            std::fs::canonicalize(path).map_err(|source| MediumError::from_io(path, "resolve the path", source))?;
        let version = FileVersion::of_local(utf8_path(&canonical)?, metadata);
        found.push(ListedFile { path: utf8_path(path)?, size_bytes: version.size_bytes, version });
        Ok(())
    }
}

struct Entry {
    path: PathBuf,
    name: String,
    /// A folder itself, not a link to one.
    is_folder: bool,
}

fn read_folder(folder: &Path) -> Result<Vec<Entry>> {
    let failed = |source| MediumError::from_io(folder, "list the folder", source);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        // A name that is not UTF-8 is kept, lossy, so that it can match; opening it then says what is wrong.
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push(Entry { path: entry.path(), name, is_folder: kind.is_dir() });
    }
    Ok(entries)
}

/// The metadata of what a path leads to; `None` where that is nothing, as for a link that leads nowhere or for what was
/// deleted since its folder was read.
fn metadata_if_there(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if leads_nowhere(&error) => Ok(None),
        Err(error) => Err(MediumError::from_io(path, "read the metadata", error)),
    }
}

/// Whether nothing is there: no such name, a file where a folder is named, links in a circle.
fn leads_nowhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) || error.raw_os_error() == Some(libc::ELOOP)
}

fn metadata_of(path: &Path) -> Result<Metadata> {
    std::fs::metadata(path).map_err(|source| MediumError::from_io(path, "read the metadata", source))
}

#[cfg(test)]
mod tests;
