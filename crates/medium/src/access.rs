//! Who may read what: the setting `allowed_directories`.
//!
//! A path is judged by where it really leads: links and `..` are resolved first, as far as the path exists. A file that
//! is opened is judged again by the path of the open descriptor ([`PinnedFile::path`](crate::PinnedFile::path)), so
//! that a link switched in between gains nothing.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::pinned_file::utf8_path;
use crate::{Location, MediumError, Result};

/// The directories and URL prefixes a session may read. The default is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    allowed: Option<Allowed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    folders: Vec<PathBuf>,
    /// Without a trailing slash, not percent-encoded.
    urls: Vec<String>,
}

impl Access {
    /// No restriction.
    pub fn everything() -> Self {
        Self { allowed: None }
    }

    /// Only what lies below one of these directories or URL prefixes; none means nothing. Directories are resolved
    /// now: a link among them means where it leads now.
    ///
    /// # Errors
    /// A location that cannot be understood, a folder that cannot be resolved.
    pub fn within<S: AsRef<str>>(locations: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut allowed = Allowed { folders: Vec::new(), urls: Vec::new() };
        for location in locations {
            // A folder over HTTP cannot be listed, but it can be allowed.
            match Location::parse_prefix(location.as_ref())? {
                Location::Local(pattern) => allowed.folders.push(resolve(pattern.path())?),
                Location::Remote(pattern) => allowed.urls.push(join_url(pattern.store_url(), pattern.key())),
            }
        }
        Ok(Self { allowed: Some(allowed) })
    }

    /// Whether anything is restricted.
    pub fn is_restricted(&self) -> bool {
        self.allowed.is_some()
    }

    /// Whether `path`, links and `..` resolved, may be read. A path that does not exist is judged as far as it does, so
    /// the answer does not tell what exists outside.
    ///
    /// # Errors
    /// [`MediumError::NotAllowed`]; failures of resolving, of an allowed path only.
    pub fn check(&self, path: &Path) -> Result<()> {
        self.checked(path).map(|_| ())
    }

    /// As [`check`](Self::check); the absolute path. Where anything is restricted it is the one that was judged, links and
    /// `..` resolved, and leads elsewhere only if links change.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn checked(&self, path: &Path) -> Result<PathBuf> {
        let Some(allowed) = &self.allowed else {
            return std::path::absolute(path).map_err(|source| MediumError::from_io(path, "resolve the path", source));
        };
        match resolve(path) {
            Ok(resolved) if allowed.folders.iter().any(|folder| resolved.starts_with(folder)) => Ok(resolved),
            _ => Err(self.refusal(&path.display().to_string())),
        }
    }

    /// Whether the object at `url` may be read: it equals an allowed prefix or lies below it, name by name.
    ///
    /// # Errors
    /// [`MediumError::NotAllowed`], also for any URL with a `.` or `..` in its path.
    pub fn check_url(&self, url: &str) -> Result<()> {
        let Some(allowed) = &self.allowed else { return Ok(()) };
        let climbs = url.split('/').any(|name| matches!(name, "." | ".."));
        let below = |prefix: &String| {
            url.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !climbs && allowed.urls.iter().any(below) { Ok(()) } else { Err(self.refusal(url)) }
    }

    fn refusal(&self, path: &str) -> MediumError {
        let mut names: Vec<String> = Vec::new();
        if let Some(allowed) = &self.allowed {
            names.extend(allowed.folders.iter().map(|folder| folder.display().to_string()));
            names.extend(allowed.urls.iter().cloned());
        }
        let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        MediumError::NotAllowed { path: path.to_owned(), allowed }
    }
}

pub(crate) fn join_url(store_url: &str, key: &str) -> String {
    if key.is_empty() { store_url.to_owned() } else { format!("{store_url}/{key}") }
}

/// The canonical form of a path that need not exist: its longest existing part is resolved, the rest appended.
///
/// A `..` after a missing name cannot be resolved and is refused.
fn resolve(path: &Path) -> Result<PathBuf> {
    let failed = |source| MediumError::from_io(path, "resolve the path", source);
    let mut existing = std::path::absolute(path).map_err(failed)?;
    let mut missing: Vec<OsString> = Vec::new();
    loop {
        match std::fs::canonicalize(&existing) {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                utf8_path(&resolved)?;
                return Ok(resolved);
            }
            // A link that leads nowhere must not pass for a missing name: what it will lead to is not known.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && existing.symlink_metadata().is_err() => {
                let Some(Component::Normal(name)) = existing.components().next_back() else {
                    return Err(failed(error));
                };
                missing.push(name.to_owned());
                existing.pop();
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests;
