//! The catalog at one moment: what each name stands for.
//!
//! **Owns**: the entries, and what can be said about them without files. **Does not own**: their form on disk
//! (`encode`, `decode`), how they change (`Catalog`).
//!
//! **Concurrency**: plain values; a published one is never changed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::SegmentInfo;

/// The name of a table or view. Compared byte by byte: folding of cases is for who reads SQL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryName {
    /// The schema it belongs to.
    pub schema: String,
    /// Its name there.
    pub name: String,
}

impl EntryName {
    /// The name `name` in the schema `schema`.
    pub fn new(schema: impl Into<String>, name: impl Into<String>) -> Self {
        Self { schema: schema.into(), name: name.into() }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A table in segments of this database.
    ColumnTable(ColumnTable),
    /// A table over files of others.
    ExternalTable {
        /// The SQL statement that makes it again.
        definition: String,
    },
    /// A view.
    View {
        /// The SQL statement that makes it again.
        definition: String,
    },
}

/// A table in segments of this database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnTable {
    /// Names, types, nullability and metadata of the columns. Each type must be one that column pages hold.
    pub columns: SchemaRef,
    /// The files with its rows, in the order of rows.
    pub segments: Vec<SegmentInfo>,
}

impl ColumnTable {
    /// A table without rows.
    pub fn new(columns: SchemaRef) -> Self {
        Self { columns, segments: Vec::new() }
    }

    /// A table of these segments.
    pub fn with_segments(columns: SchemaRef, segments: Vec<SegmentInfo>) -> Self {
        Self { columns, segments }
    }

    /// Whether this is the table that `columns` are of, whatever rows it has by now: one that was made in its place has
    /// columns of its own, however alike. It must be made of columns that no other table was made of, then; changes of
    /// others and of its rows leave them the same as long as the catalog is open.
    pub fn is_still(&self, columns: &SchemaRef) -> bool {
        Arc::ptr_eq(&self.columns, columns)
    }
}

/// The catalog at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What each name stands for. Tables and views share their names.
    pub entries: BTreeMap<EntryName, Entry>,
    pub(super) version: u64,
    pub(super) next_file: u64,
}

impl Manifest {
    /// Grows by one with each manifest that is written; 0 before the first.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Every number below may be taken as a segment's name, by a file that is there or that is gone.
    pub fn next_file(&self) -> u64 {
        self.next_file
    }

    /// The segments of all tables, with the tables' names.
    pub fn segments(&self) -> impl Iterator<Item = (&EntryName, &SegmentInfo)> {
        self.entries.iter().flat_map(|(name, entry)| {
            let segments = match entry {
                Entry::ColumnTable(table) => table.segments.as_slice(),
                _ => &[],
            };
            segments.iter().map(move |segment| (name, segment))
        })
    }
}
