//! Which bytes a name stood for: the version of a file or object.
//!
//! A version is compared for equality before anything derived from a file is used again. It is as good as its stamp.
//! A local stamp has the change time, which no program can set, so restoring size and modification time is noticed.
//! Two things can still hide a write: the clock that stamps writes advances only once a tick (up to 10 ms; 1 s or 2 s
//! on coarse file systems), so a write right after the version was taken may bear the same stamp; and a clock set back.
//! [`FileVersion::is_young`] finds both, at the time the bytes were *read*: what was read from a young version must be
//! checked by content when it is used again, however much later that is.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// A version younger than this is not trusted by its metadata: the coarsest file system in use (FAT) steps by 2 s.
const YOUNG_NS: i64 = 2_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// One version of a file or object. Equal versions mean equal bytes, unless [`is_young`](Self::is_young).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Canonical path (absolute, links resolved), or URL.
    pub path: Arc<str>,
    /// Length of the content.
    pub size_bytes: u64,
    /// When and what.
    pub stamp: Stamp,
}

/// What distinguishes versions of the same name and size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Stamp {
    /// A file of this machine.
    Local {
        /// Modification time since the epoch.
        mtime_ns: i64,
        /// Change time since the epoch; set by the kernel alone.
        ctime_ns: i64,
        /// The device that holds the file.
        device: u64,
        /// The file's number on that device.
        inode: u64,
    },
    /// An object in a store.
    Object {
        /// The store's tag for this content, when it gives one.
        etag: Option<Arc<str>>,
        /// Modification time since the epoch; 0 when the store does not tell.
        last_modified_ns: i64,
    },
}

impl FileVersion {
    pub(crate) fn of_local(path: Arc<str>, metadata: &Metadata) -> Self {
        let ns = |seconds: i64, nanos: i64| seconds.saturating_mul(SECOND_NS).saturating_add(nanos);
        Self {
            path,
            size_bytes: metadata.len(),
            stamp: Stamp::Local {
                mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
                ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
                device: metadata.dev(),
                inode: metadata.ino(),
            },
        }
    }

    /// Whether a later write could bear the same version, seen at `wall_now_ns`.
    ///
    /// True when the stamp is less than 2 s old, lies in the future, or (local files) both of its times are whole
    /// seconds, as a coarse file system gives. An object with an ETag is never young: the tag changes with the content.
    /// A weak one (`W/"…"`) only says what its server holds to be equivalent, and web servers make tags of time and
    /// size, so that the time counts for both; an object without tag and time is young for ever. Ask with the time just *before* the bytes were read; then check by
    /// content before using what was derived.
    pub fn is_young(&self, wall_now_ns: i64) -> bool {
        let recent = |stamp_ns: i64| wall_now_ns.saturating_sub(stamp_ns) < YOUNG_NS;
        match &self.stamp {
            Stamp::Local { mtime_ns, ctime_ns, .. } => {
                let coarse = mtime_ns % SECOND_NS == 0 && ctime_ns % SECOND_NS == 0;
                coarse || recent(*mtime_ns) || recent(*ctime_ns)
            }
            Stamp::Object { etag: Some(etag), last_modified_ns } if !is_weak(etag) => {
                let is_web = self.path.starts_with("http://") || self.path.starts_with("https://");
                is_web && recent(*last_modified_ns)
            }
            Stamp::Object { last_modified_ns, .. } => *last_modified_ns == 0 || recent(*last_modified_ns),
        }
    }

    /// What tells `now` from this version, as the end of a sentence; `None` when they are equal.
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self == now {
            return None;
        }
        if self.size_bytes != now.size_bytes {
            return Some(format!("its size went from {} to {} bytes", self.size_bytes, now.size_bytes));
        }
        let what = match (&self.stamp, &now.stamp) {
            _ if self.path != now.path => "it is another file",
            (Stamp::Local { device, inode, .. }, Stamp::Local { device: device_now, inode: inode_now, .. })
                if (device, inode) != (device_now, inode_now) =>
            {
                "another file took its name"
            }
            (Stamp::Local { mtime_ns, .. }, Stamp::Local { mtime_ns: mtime_now_ns, .. })
                if mtime_ns != mtime_now_ns =>
            {
                "its modification time moved"
            }
            (Stamp::Local { .. }, Stamp::Local { .. }) => {
                "its change time moved (a write, rename, link or mode change)"
            }
            _ => "the store holds another object under this name",
        };
        Some(what.to_owned())
    }

    /// Bytes on the heap, the shared path counted in full.
    pub fn heap_bytes(&self) -> usize {
        let etag_bytes = match &self.stamp {
            Stamp::Object { etag: Some(etag), .. } => etag.len(),
            _ => 0,
        };
        self.path.len() + etag_bytes
    }
}

/// Whether a tag promises equivalent content only, not equal bytes.
pub(crate) fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/")
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, ", self.path, self.size_bytes)?;
        match &self.stamp {
            Stamp::Local { mtime_ns, ctime_ns, device, inode } => {
                write!(f, "mtime {mtime_ns} ns, ctime {ctime_ns} ns, device {device}, inode {inode})")
            }
            Stamp::Object { etag: Some(etag), .. } => write!(f, "ETag {etag})"),
            Stamp::Object { etag: None, last_modified_ns } => write!(f, "last modified {last_modified_ns} ns)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: i64 = 1_800_000_000_000_000_000;

    fn local(mtime_ns: i64, ctime_ns: i64) -> FileVersion {
        FileVersion {
            path: "/a".into(),
            size_bytes: 1,
            stamp: Stamp::Local { mtime_ns, ctime_ns, device: 1, inode: 2 },
        }
    }

    fn object(etag: Option<&str>, last_modified_ns: i64) -> FileVersion {
        let stamp = Stamp::Object { etag: etag.map(Into::into), last_modified_ns };
        FileVersion { path: "s3://b/a".into(), size_bytes: 1, stamp }
    }

    #[test]
    fn a_stamp_within_two_seconds_or_in_the_future_is_young() {
        let old_ns = NOW_NS - 5_000_000_001;
        assert!(!local(old_ns, old_ns).is_young(NOW_NS));
        assert!(local(NOW_NS - 1_999_999_999, old_ns).is_young(NOW_NS));
        assert!(local(old_ns, NOW_NS - 1_999_999_999).is_young(NOW_NS));
        assert!(!local(old_ns, NOW_NS - 2_000_000_001).is_young(NOW_NS));
        assert!(local(NOW_NS + 1, old_ns).is_young(NOW_NS));
        assert!(local(i64::MAX, i64::MIN + 1).is_young(NOW_NS));
    }

    #[test]
    fn stamps_of_whole_seconds_are_young_at_any_age() {
        let old_ns = NOW_NS - 3_600 * SECOND_NS;
        assert!(local(old_ns, old_ns).is_young(NOW_NS));
        assert!(!local(old_ns, old_ns + 1).is_young(NOW_NS), "restored mtime, fine ctime");
        assert!(!local(old_ns + 1, old_ns).is_young(NOW_NS));
    }

    #[test]
    fn an_object_with_a_tag_of_its_content_is_never_young() {
        assert!(!object(Some("x"), NOW_NS).is_young(NOW_NS));
        assert!(object(None, NOW_NS - SECOND_NS).is_young(NOW_NS));
        assert!(!object(None, NOW_NS - 3 * SECOND_NS).is_young(NOW_NS));
        assert!(object(Some("W/\"x\""), NOW_NS - SECOND_NS).is_young(NOW_NS), "a weak tag leaves it to the time");
        assert!(!object(Some("W/\"x\""), NOW_NS - 3 * SECOND_NS).is_young(NOW_NS));
        let web = |last_modified_ns| FileVersion { path: "http://h/a".into(), ..object(Some("x"), last_modified_ns) };
        assert!(web(NOW_NS - SECOND_NS).is_young(NOW_NS), "its tag may be made of time and size");
        assert!(!web(NOW_NS - 3 * SECOND_NS).is_young(NOW_NS));
        assert!(object(None, 0).is_young(NOW_NS) && object(Some("W/\"x\""), 0).is_young(NOW_NS), "no time at all");
    }

    #[test]
    fn a_difference_says_what_changed() {
        let version = local(1, 1);
        assert_eq!(version.difference(&version.clone()), None);
        let longer = FileVersion { size_bytes: 9, ..version.clone() };
        assert_eq!(version.difference(&longer).as_deref(), Some("its size went from 1 to 9 bytes"));
        assert_eq!(version.difference(&local(2, 2)).as_deref(), Some("its modification time moved"));
        assert!(version.difference(&local(1, 2)).is_some_and(|text| text.starts_with("its change time moved")));
        let stamp = Stamp::Local { mtime_ns: 1, ctime_ns: 1, device: 1, inode: 3 };
        let other = FileVersion { stamp, ..version.clone() };
        assert_eq!(version.difference(&other).as_deref(), Some("another file took its name"));
    }

    #[test]
    fn versions_print_what_they_are_made_of() {
        assert_eq!(local(3, 4).to_string(), "/a (1 bytes, mtime 3 ns, ctime 4 ns, device 1, inode 2)");
        assert_eq!(object(Some("\"t\""), 4).to_string(), "s3://b/a (1 bytes, ETag \"t\")");
    }
}
