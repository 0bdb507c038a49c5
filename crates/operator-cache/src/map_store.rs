//! Where positional maps outlive the process.

use std::fmt::Debug;
use std::sync::Arc;

use thermocline_medium::FileVersion;
use thermocline_raw::PositionalMap;

/// Keeps positional maps for later processes. What it can't keep or find again is only made anew, so nothing here
/// fails.
///
/// A map is asked for with the version and options that it was given with, both of which must be equal. Only versions
/// old enough to be told from later ones are given.
pub trait MapStore: Debug + Send + Sync {
    /// The map of this version of a file, read with these options ([`SourceKey::options`](crate::SourceKey)), if there
    /// is one. May block on I/O. The caller reserves its memory once it is there.
    fn load(&self, version: &FileVersion, options: &str) -> Option<PositionalMap>;

    /// Whether maps that are given outlive the process. Not so where they can be read alone; then [`save`](Self::save)
    /// does nothing.
    fn keeps(&self) -> bool {
        true
    }

    /// Keeps a map, in the place of one of the same version and options. Called at the end of a query's scan, on its
    /// thread: what takes long had better be done on another.
    fn save(&self, version: &FileVersion, options: &str, map: &Arc<PositionalMap>);
}
