//! What a query asks of one file.

use std::sync::Arc;

use arrow::datatypes::DataType;
use thermocline_predicate::{Conjunction, FieldPath};

use crate::source::SourceKey;

/// A column of a request, a scan or an item; in the order of paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnSpec {
    /// Path from the record root (below the list name under `unnest`).
    pub path: FieldPath,
    /// The column's type.
    pub data_type: DataType,
}

/// What keeping more than is asked for is expected to come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Expectation {
    /// Of the item.
    pub size_bytes: u64,
    /// Of the scan, nanoseconds of one core.
    pub execute_ns: u64,
    /// Of that, the part that what is asked for would take alone; 0 if that can't be told.
    pub own_share: f64,
}

/// A select over one file.
#[derive(Debug, Clone)]
pub struct SelectRequest {
    /// The file and how it is read.
    pub source: SourceKey,
    /// Columns the query needs, including (themselves or through a struct parent) the fields of `predicate` that it
    /// wants checked against a cached result: a field that is no column can't be filtered on later, so a result that
    /// lacks it only serves queries that ask the same of that field.
    pub columns: Arc<[ColumnSpec]>,
    /// The rows the query wants.
    pub predicate: Arc<Conjunction>,
    /// The rows worth keeping when the file must be scanned: as wide as `predicate` or wider. Where it is wider in a
    /// field that is not among `columns`, or not wider at all, `predicate` is kept instead.
    pub retain_predicate: Arc<Conjunction>,
    /// The columns to keep along with `retain_predicate`, where that is wider: `columns`, and perhaps others.
    pub retain_columns: Arc<[ColumnSpec]>,
    /// Columns to add when others are added to an item of all rows, which nobody asked for yet.
    pub further_columns: Arc<[ColumnSpec]>,
    /// Of an item of those rows and columns. What is expected to be worth less than what it would displace is not
    /// begun.
    pub retain_expectation: Expectation,
    /// Whether it may wait for a scan that runs and will have some of its columns: its first rows are in no more haste
    /// than its last.
    pub may_wait: bool,
    /// Whether bad records are left out: which ones are bad then depends on the columns that are read.
    pub may_skip: bool,
    /// Whether single records of the file can be read by their position: it is not compressed.
    pub can_seek: bool,
    /// Whether the file can be read from the middle of it on ([`ScanSpec::head`](crate::ScanSpec::head)), with the rows
    /// that a scan of all of it would have there.
    pub can_part: bool,
    /// Whether records and their fields can be found by a positional map, so that what lies between them is neither
    /// looked at nor checked: the file is not compressed, a bad record ends the scan, and bytes that nobody asks for
    /// may be bad.
    pub can_map: bool,
}

impl SelectRequest {
    /// Whether the fields of a predicate are among the request's own, so that a scan for it can test them: the request
    /// tells no types of others. An item of other fields covers a request that no row can meet.
    pub(crate) fn has_fields_of(&self, predicate: &Conjunction) -> bool {
        predicate.fields().all(|(path, _)| self.predicate.domain(path).is_some())
    }
}
