//! What a scan is asked for: columns, predicate, unnesting, and what to do with bad records.
//!
//! **Owns**: the description of a scan, the same for every raw format.
//!
//! **Does not own**: how a format finds the columns (each decoder compiles the plan for itself), types (the table's
//! schema was inferred or declared before), files.
//!
//! **Concurrency**: plain values.

use arrow::datatypes::DataType;
use thermocline_predicate::{Conjunction, FieldPath};

/// A column of a scan: a field of the record by path, and the type it is read as.
///
/// A path of several names leads through structs; the column is NULL where any of its parents is NULL or missing.
/// Under [`Unnest`], a path that starts with the list's path addresses the list's elements: the list's own path is
/// the element, and names below it are fields of the element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Where the value is found in a record.
    pub path: FieldPath,
    /// The Arrow type that values are read as; a value of another type is an error, never a cast.
    pub data_type: DataType,
}

/// What a scan does with a record that it cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnError {
    /// The scan fails with an error that names file and place.
    #[default]
    Fail,
    /// The record is left out and counted in [`Rows::skipped_count`](crate::Rows::skipped_count).
    Skip,
}

/// One output row for each element of a list; records whose list is missing, NULL or empty give none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unnest {
    /// Path of the list, through structs only.
    pub path: FieldPath,
    /// Whether records without an element that passes are part of the answer, as records: they have values in the
    /// columns of the record and no row.
    pub keeps_empty: bool,
}

/// What a scan is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanPlan {
    /// The columns of the answer, in order. Empty: only rows are counted.
    pub columns: Vec<Column>,
    /// Rows that fail it are left out. Its fields need not be columns.
    pub predicate: Conjunction,
    /// Path and type of each of the predicate's fields.
    pub predicate_types: Vec<Column>,
    /// The list to unnest, if any.
    pub unnest: Option<Unnest>,
    /// What to do with records that cannot be read.
    pub on_error: OnError,
    /// Check every byte of every record against the format's grammar. Otherwise what no column needs is only
    /// checked as far as skipping it takes.
    pub strict: bool,
    /// Note where the records are that gave rows, in [`Rows::positions`](crate::Rows::positions).
    pub positions: bool,
    /// Note where all records are, and where in them the fields that the plan reads, in
    /// [`Rows::map_piece`](crate::Rows::map_piece).
    pub map: bool,
}

impl ScanPlan {
    /// A plan that reads `columns` of every record and fails on the first bad one.
    pub fn all_rows(columns: Vec<Column>) -> Self {
        Self {
            columns,
            predicate: Conjunction::all(),
            predicate_types: Vec::new(),
            unnest: None,
            on_error: OnError::Fail,
            strict: false,
            positions: false,
            map: false,
        }
    }

    /// The type of the predicate's field `path`, from [`predicate_types`](Self::predicate_types) or else from a
    /// column of the same path.
    pub fn type_of(&self, path: &FieldPath) -> Option<&DataType> {
        self.predicate_types
            .iter()
            .chain(&self.columns)
            .find(|column| &column.path == path)
            .map(|column| &column.data_type)
    }
}
