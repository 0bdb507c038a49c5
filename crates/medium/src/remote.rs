//! Objects of a store: one version each, read by ranges, listed by prefix and glob.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::access::join_url;
use crate::glob_pattern::{GlobPattern, literal_prefix};
use crate::listing::{has_suffix, kinds};
use crate::version::is_weak;
use crate::{Access, FileVersion, ListedFile, MediumError, RemotePattern, Result, Stamp};

/// Objects of no bytes that a listing asks about at once: as many as a few connections carry.
const ASKED_AT_ONCE: usize = 16;

/// One version of an object. Reading it after the store holds another one is an error.
#[derive(Clone)]
pub struct RemoteFile {
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    version: FileVersion,
}

impl RemoteFile {
    /// Asks the store for the object at `path` and takes its version. `store_url` (such as `s3://bucket`) begins the
    /// URL by which errors and versions name it.
    ///
    /// # Errors
    /// A missing object, no permission, failures of the store.
    pub async fn open(store: Arc<dyn ObjectStore>, store_url: &str, path: ObjectPath) -> Result<Self> {
        let url = join_url(store_url, path.as_ref());
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = store.get_opts(&path, options).await;
        let meta = found.map_err(|source| MediumError::from_store(&url, "read the metadata", source))?.meta;
        Ok(Self { store, path, version: version_of(url.into(), &meta) })
    }

    /// The object that a listing of the same store found, without asking the store again.
    ///
    /// # Errors
    /// A file that is not below `store_url`.
    pub fn from_listed(store: Arc<dyn ObjectStore>, store_url: &str, listed: &ListedFile) -> Result<Self> {
        let url = &listed.version.path;
        let key = url.strip_prefix(store_url).and_then(|rest| rest.strip_prefix('/'));
        let path = key.map(|key| object_path(url, key)).transpose()?.ok_or_else(|| MediumError::InvalidLocation {
            location: url.to_string(),
            reason: format!("is not an object of the store {store_url}"),
        })?;
        Ok(Self { store, path, version: listed.version.clone() })
    }

    /// The version that reads are bound to.
    pub fn version(&self) -> &FileVersion {
        &self.version
    }

    /// Length of the object.
    pub fn size_bytes(&self) -> u64 {
        self.version.size_bytes
    }

    /// Reads `range`, which is cut off at the object's end.
    ///
    /// # Errors
    /// [`MediumError::Changed`] when the store holds another version by now or none, or sends fewer bytes than it has;
    /// failures of the store, which has retried what can be retried.
    pub async fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let end = range.end.min(self.size_bytes());
        if range.start >= end {
            return Ok(Bytes::new());
        }
        let url = &self.version.path;
        let action = || format!("read bytes {} to {end}", range.start);
        let if_match = match &self.version.stamp {
            // A weak tag equals none under If-Match, not even itself.
            Stamp::Object { etag: Some(etag), .. } if !is_weak(etag) => Some(etag.to_string()),
            _ => None,
        };
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.start..end)), if_match, ..GetOptions::default() };
        let result = self.store.get_opts(&self.path, options).await.map_err(|source| match source {
            object_store::Error::NotFound { .. } => self.changed("it was deleted".to_owned()),
            source => MediumError::from_store(url, action(), source),
        })?;
        // Stores that ignore the condition, and those without tags, still tell what they sent.
        let now = version_of(Arc::clone(url), &result.meta);
        if let Some(difference) = difference(&self.version, &now) {
            return Err(self.changed(difference));
        }
        let bytes = result.bytes().await.map_err(|source| MediumError::from_store(url, action(), source))?;
        if bytes.len() as u64 != end - range.start {
            let difference = format!("the store sent {} of {} bytes", bytes.len(), end - range.start);
            return Err(self.changed(difference));
        }
        Ok(bytes)
    }

    fn changed(&self, difference: String) -> MediumError {
        MediumError::Changed { path: self.version.path.to_string(), difference }
    }
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFile").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Lists the objects that `pattern` names in `store`: one object, the matches of a glob, or all below a folder whose
/// names end in one of `suffixes` (`None` takes all). At least one, sorted by URL; markers of folders are left out, for
/// which each object of no bytes is asked about.
///
/// # Errors
/// A missing object; a folder or glob without a match; outside of `access`; failures of the store.
pub async fn list_remote(
    store: &Arc<dyn ObjectStore>,
    pattern: &RemotePattern,
    suffixes: Option<&[&str]>,
    access: &Access,
) -> Result<Vec<ListedFile>> {
    let url = join_url(pattern.store_url(), pattern.key());
    if !pattern.is_glob() && !pattern.is_folder() {
        access.check_url(&url)?;
        let path = object_path(&url, pattern.key())?;
        let file = RemoteFile::open(Arc::clone(store), pattern.store_url(), path).await?;
        return Ok(vec![listed(file.version)]);
    }
    let literal_prefix = if pattern.is_glob() { literal_prefix(pattern.key()) } else { pattern.key() };
    access.check_url(&join_url(pattern.store_url(), literal_prefix))?;
    let glob = if pattern.is_glob() { Some(GlobPattern::parse(&pattern.glob_text())?) } else { None };
    let prefix = object_path(&url, literal_prefix)?;
    let prefix_names = prefix.parts().count();
    let wanted = |path: &ObjectPath| {
        let key = path.as_ref();
        match &glob {
            Some(glob) => glob.matches_key(key),
            None => {
                let mut below = key.split('/').skip(prefix_names);
                !below.any(|name| name.starts_with(['.', '_'])) && has_suffix(path.filename().unwrap_or(key), suffixes)
            }
        }
    };
    let mut found: Vec<ListedFile> = store
        .list((!prefix.is_root()).then_some(&prefix))
        .try_filter(|meta| futures::future::ready(wanted(&meta.location)))
        .map_ok(|meta| without_marker(store, meta))
        .try_buffered(ASKED_AT_ONCE)
        .try_filter_map(|meta| {
            let file = |meta: ObjectMeta| {
                listed(version_of(join_url(pattern.store_url(), meta.location.as_ref()).into(), &meta))
            };
            futures::future::ready(Ok(meta.map(file)))
        })
        .try_collect()
        .await
        .map_err(|source| MediumError::from_store(&url, "list the objects", source))?;
    if found.is_empty() {
        return Err(if pattern.is_glob() {
            MediumError::NoMatch { pattern: url }
        } else {
            MediumError::EmptyFolder { path: url, kinds: kinds(suffixes) }
        });
    }
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

/// `None` for what consoles make to stand for a folder: an object of no bytes whose key ends in a slash. Listings name it
/// without the slash, under which nothing can be asked for, or another object, which is listed itself.
async fn without_marker(store: &Arc<dyn ObjectStore>, meta: ObjectMeta) -> object_store::Result<Option<ObjectMeta>> {
    if meta.size > 0 {
        return Ok(Some(meta));
    }
    match store.head(&meta.location).await {
        Ok(found) => Ok((found.size == 0).then_some(meta)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn listed(version: FileVersion) -> ListedFile {
    ListedFile { path: Arc::clone(&version.path), size_bytes: version.size_bytes, version }
}

fn object_path(url: &str, key: &str) -> Result<ObjectPath> {
    ObjectPath::parse(key).map_err(|error| MediumError::InvalidLocation {
        location: url.to_owned(),
        reason: format!("the store cannot name this object: {error}"),
    })
}

fn version_of(url: Arc<str>, meta: &ObjectMeta) -> FileVersion {
    // In whole seconds, which is what stores answer requests with; some list parts of them. Beyond the year 2262
    // nanoseconds overflow; such a stamp is only compared, so any fixed value serves.
    let last_modified_ns = meta.last_modified.timestamp().saturating_mul(1_000_000_000);
    let stamp = Stamp::Object { etag: meta.e_tag.as_deref().map(Arc::from), last_modified_ns };
    FileVersion { path: url, size_bytes: meta.size, stamp }
}

/// What tells two versions of an object apart: size, then the tags where both have one (stores round the time
/// differently in listings and in answers), otherwise the time; weak tags together with the time.
fn difference(expected: &FileVersion, now: &FileVersion) -> Option<String> {
    if expected.size_bytes != now.size_bytes {
        return expected.difference(now);
    }
    let same = match (&expected.stamp, &now.stamp) {
        (Stamp::Object { etag: Some(tag), .. }, Stamp::Object { etag: Some(tag_now), .. })
            if !is_weak(tag) || !is_weak(tag_now) =>
        {
            tag == tag_now
        }
        (
            Stamp::Object { etag, last_modified_ns },
            Stamp::Object { etag: etag_now, last_modified_ns: last_modified_now_ns },
        ) => {
            let are_tags_equal = etag.is_none() || etag_now.is_none() || etag == etag_now;
            are_tags_equal && last_modified_ns == last_modified_now_ns
        }
        _ => expected == now,
    };
    if same { None } else { expected.difference(now) }
}

#[cfg(test)]
mod tests;
