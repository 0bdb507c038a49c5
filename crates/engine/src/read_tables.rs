//! Which rows of the database's own tables a statement was planned to read.
//!
//! Whoever overwrites a table by rows of its own must not lose those that others have added since. Scans take note of what
//! they read, wherever in the plan they are: not all of them are below the node that writes.

use parking_lot::Mutex;
use thermocline_column_store::{EntryName, SegmentInfo};

use crate::column_table::OpenTable;
use crate::session::Version;

/// What the scans of one statement have noted.
#[derive(Debug, Default)]
pub(crate) struct ReadTables {
    segments: Mutex<Vec<(EntryName, Vec<SegmentInfo>)>>,
    versions: Mutex<Vec<Version>>,
}

impl ReadTables {
    /// Takes note of a column table as it was opened.
    pub(crate) fn note_segments(&self, table: &OpenTable) {
        let segments = table.segment_infos().cloned().collect();
        self.segments.lock().push((table.name.clone(), segments));
    }

    /// Takes note of the rows of a table in memory.
    pub(crate) fn note_version(&self, version: Version) {
        self.versions.lock().push(version);
    }

    /// The segments of the column table `name`, by each scan of it: a view may have opened it at another time than the
    /// statement itself.
    pub(crate) fn segments(&self, name: &EntryName) -> Vec<Vec<SegmentInfo>> {
        let of_table = |(other, segments): &(EntryName, Vec<SegmentInfo>)| (other == name).then(|| segments.clone());
        self.segments.lock().iter().filter_map(of_table).collect()
    }

    /// What was read of tables in memory.
    pub(crate) fn versions(&self) -> Vec<Version> {
        self.versions.lock().clone()
    }
}
