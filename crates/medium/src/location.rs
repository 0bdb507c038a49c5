//! What a user wrote where a table is: a path, a URL, a glob, a folder.
//!
//! Local: `a/b.csv`, `/a/b.csv`, `~/b.csv`, `file:///a/b%20c.csv`. Remote: `s3://bucket/key`, `https://host/path`,
//! `memory://…` and whatever other scheme the engine has a store for. In both, `?`, `*`, `[…]` match within one name and
//! `**` any number of folders; a trailing slash (or, locally, a folder that exists) means all files below. A local file
//! that exists under a name with such characters is that file. Over HTTP there is no listing, hence no glob and no folder.

use std::path::{Path, PathBuf};

use crate::glob_pattern::is_glob;
use crate::pinned_file::utf8_path;
use crate::{MediumError, Result};

/// A parsed location. Nothing was looked up yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// Files of this machine.
    Local(LocalPattern),
    /// Objects of a store.
    Remote(RemotePattern),
}

/// A local path, possibly a glob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LocalPattern {
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
}

impl LocalPattern {
    /// The path as written, home resolved; may hold glob characters.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path holds glob characters.
    pub fn is_glob(&self) -> bool {
        self.path.to_str().is_some_and(is_glob)
    }

    /// The glob over absolute paths, with a trailing slash written out as all files below.
    pub(crate) fn glob_text(&self, absolute: &Path) -> Result<String> {
        let text = utf8_path(absolute)?;
        Ok(if self.is_folder { format!("{}/**", text.trim_end_matches('/')) } else { text.to_string() })
    }
}

/// A store and what to read in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemotePattern {
    pub(crate) store_url: String,
    pub(crate) key: String,
    pub(crate) is_folder: bool,
}

impl RemotePattern {
    /// Scheme and authority without a trailing slash: `s3://bucket`, `https://host:8080`, `memory://`.
    pub fn store_url(&self) -> &str {
        &self.store_url
    }

    /// The object's key, prefix of a folder, or glob over keys; without a slash at either end, not percent-encoded.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the key is a glob; never over HTTP.
    pub fn is_glob(&self) -> bool {
        !is_http(&self.store_url) && is_glob(&self.key)
    }

    /// The glob over keys, with a trailing slash written out as all objects below.
    pub(crate) fn glob_text(&self) -> String {
        if self.is_folder { format!("{}/**", self.key) } else { self.key.clone() }
    }

    /// Whether a trailing slash (or an empty key) asked for a folder.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }
}

impl Location {
    /// Understands `text`; does not touch the file system.
    ///
    /// # Errors
    /// [`MediumError::InvalidLocation`]: empty, a NUL, `file://` with a host, bad percent encoding, `~` without a home,
    /// a URL without a host or key or with an empty name between slashes, a glob, folder, query string or encoded slash
    /// over HTTP.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid =
            |reason: &str| Err(MediumError::InvalidLocation { location: text.to_owned(), reason: reason.to_owned() });
        if text.is_empty() {
            return invalid("the location is empty, expected a path, a glob or a URL");
        }
        if text.contains('\0') {
            return invalid("the location has a NUL character, which no file name has");
        }
        let Some((scheme, rest)) = split_scheme(text) else { return parse_local(text, text) };
        if scheme == "file" {
            let path = match rest.find('/') {
                Some(0) => rest,
                Some(slash) if &rest[..slash] == "localhost" => &rest[slash..],
                _ => return invalid("a file URL has three slashes before an absolute path: file:///folder/file"),
            };
            return match percent_decode(path) {
                Some(path) => parse_local(text, &path),
                None => invalid("the percent encoding is broken, expected %XX of UTF-8 bytes"),
            };
        }
        let pattern = parse_remote(text, &scheme, rest)?;
        if is_http(&pattern.store_url) && (pattern.is_folder || rest.contains('*')) {
            return invalid("HTTP has no listing: name each file in full, without globs or a trailing slash");
        }
        Ok(Self::Remote(pattern))
    }

    /// Understands `text` as what begins other locations: over HTTP, which has no listing, it may be a folder too.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub(crate) fn parse_prefix(text: &str) -> Result<Self> {
        match split_scheme(text) {
            Some((scheme, rest)) if scheme != "file" && !text.contains('\0') => {
                parse_remote(text, &scheme, rest).map(Self::Remote)
            }
            _ => Self::parse(text),
        }
    }
}

/// The rest of a URL behind `scheme://`. No two URLs are read as the same object: names are taken as they are or refused.
fn parse_remote(text: &str, scheme: &str, rest: &str) -> Result<RemotePattern> {
    let invalid =
        |reason: &str| Err(MediumError::InvalidLocation { location: text.to_owned(), reason: reason.to_owned() });
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() && scheme != "memory" {
        return invalid("the URL names no host or bucket after '://'");
    }
    let store_url = format!("{scheme}://{host}");
    let key = path.strip_suffix('/').unwrap_or(path);
    let is_folder = path.is_empty() || path.ends_with('/');
    if path.split('/').rev().skip(1).any(str::is_empty) {
        return invalid("the URL has an empty name between two slashes, which cannot be asked for; write one slash");
    }
    if !is_http(&store_url) {
        return Ok(RemotePattern { store_url, key: key.to_owned(), is_folder });
    }
    if key.contains(['?', '#']) {
        return invalid("query strings and fragments are not supported: the URL must be a plain path");
    }
    if key.to_ascii_lowercase().contains("%2f") {
        return invalid("a slash within a name (%2F) cannot be asked for: names are told apart by slashes");
    }
    match percent_decode(key) {
        Some(key) => Ok(RemotePattern { store_url, key, is_folder }),
        None => invalid("the percent encoding is broken, expected %XX of UTF-8 bytes"),
    }
}

fn parse_local(text: &str, path: &str) -> Result<Location> {
    let is_folder = path.ends_with('/');
    let path = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else {
                let reason = "'~' cannot be resolved: the variable HOME is not set".to_owned();
                return Err(MediumError::InvalidLocation { location: text.to_owned(), reason });
            };
            Path::new(&home).join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    };
    Ok(Location::Local(LocalPattern { path, is_folder }))
}

/// A scheme is at least two letters, so that a drive letter is none; `C:\x` stays a local name.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let valid = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    valid.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn is_http(store_url: &str) -> bool {
    store_url.starts_with("http://") || store_url.starts_with("https://")
}

fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn local(text: &str) -> LocalPattern {
        match Location::parse(text).unwrap() {
            Location::Local(pattern) => pattern,
            other => panic!("{text} gave {other:?}"),
        }
    }

    fn remote(text: &str) -> (String, String, bool, bool) {
        match Location::parse(text).unwrap() {
            Location::Remote(pattern) => {
                let (is_glob, is_folder) = (pattern.is_glob(), pattern.is_folder());
                (pattern.store_url, pattern.key, is_glob, is_folder)
            }
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn plain_paths_stay_as_written() {
        for path in ["a.csv", "./a/b.csv", "/a/b c.csv", "../x", "C:/x.csv", "~user/x", "a%20b"] {
            assert_eq!(local(path).path(), Path::new(path));
            assert!(!local(path).is_glob() && !local(path).is_folder);
        }
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        let home = std::env::var_os("HOME").unwrap();
        assert_eq!(local("~/a.csv").path(), Path::new(&home).join("a.csv"));
        assert_eq!(local("~").path(), Path::new(&home));
    }

    #[test]
    fn a_trailing_slash_is_a_folder_and_wildcards_are_globs() {
        assert!(local("logs/").is_folder && !local("logs").is_folder);
        for glob in ["*.csv", "a?.csv", "a[0-9].csv", "logs/**/x.csv"] {
            assert!(local(glob).is_glob(), "{glob}");
        }
    }

    #[test]
    fn file_urls_are_decoded() {
        assert_eq!(local("file:///a/b%20c.csv").path(), Path::new("/a/b c.csv"));
        assert_eq!(local("FILE://localhost/a.csv").path(), Path::new("/a.csv"));
        for bad in ["file://a.csv", "file://host/a.csv", "file:///a%2", "file:///a%zz", "file:///%ff", "file:///%00"] {
            assert!(matches!(Location::parse(bad), Err(MediumError::InvalidLocation { .. })), "{bad}");
        }
    }

    #[test]
    fn urls_split_into_store_and_key() {
        let parts = |store: &str, key: &str, glob, folder| (store.to_owned(), key.to_owned(), glob, folder);
        assert_eq!(remote("s3://bucket/a/b.csv"), parts("s3://bucket", "a/b.csv", false, false));
        assert_eq!(remote("S3://bucket/a/*.csv"), parts("s3://bucket", "a/*.csv", true, false));
        assert_eq!(remote("s3://bucket/a/"), parts("s3://bucket", "a", false, true));
        assert_eq!(remote("s3://bucket"), parts("s3://bucket", "", false, true));
        assert_eq!(remote("memory:///a.csv"), parts("memory://", "a.csv", false, false));
        assert_eq!(remote("https://h:80/a%20b[1].csv"), parts("https://h:80", "a b[1].csv", false, false));
        assert_eq!(remote("s3://bucket/a%20b.csv").1, "a%20b.csv", "keys of buckets are literal");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        for bad in [
            "",
            "a\0b",
            "s3:///key",
            "https://h/",
            "https://h/a/",
            "https://h/a*.csv",
            "https://h/a.csv?x=1",
            "https://h/a%2",
            "s3://bucket/a\0",
        ] {
            let error = Location::parse(bad).unwrap_err();
            assert!(matches!(error, MediumError::InvalidLocation { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn no_two_urls_are_read_as_the_same_object() {
        for bad in [
            "s3://bucket//a.csv",
            "s3://bucket/a//b.csv",
            "s3://bucket/a//",
            "s3://bucket//",
            "s3://bucket/a//*.csv",
            "https://h//a.csv",
            "https://h/a//b.csv",
        ] {
            let error = Location::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(bad) && error.contains("an empty name between two slashes"), "{error}");
        }
        for bad in ["https://h/a%2Fb.csv", "https://h/a%2fb.csv"] {
            let error = Location::parse(bad).unwrap_err().to_string();
            assert!(error.contains("%2F"), "{error}");
        }
        assert_eq!(remote("s3://bucket/a%2Fb.csv").1, "a%2Fb.csv", "keys of buckets are literal");
    }
}
