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
    /// column: that of the path itself, or the deepest struct around it. What lies in an unnested list is found in
    /// columns of its elements alone, what lies in records in those of records.
    pub fn type_of(&self, path: &FieldPath) -> Option<&DataType> {
        let known = self.predicate_types.iter().find(|column| &column.path == path);
        let is_of_element =
            |path: &FieldPath| self.unnest.as_ref().is_some_and(|unnest| path.starts_with(&unnest.path));
        let columns = self.columns.iter().filter(|column| is_of_element(&column.path) == is_of_element(path));
        let within = columns.filter_map(|column| Some((column.path.len(), field_type(column, path)?)));
        let within = || within.max_by_key(|(depth, _)| *depth).map(|(_, data_type)| data_type);
        known.map(|column| &column.data_type).or_else(within)
    }
}

/// The type of the field at `path`, if it is the column or leads from it through structs.
fn field_type<'a>(column: &'a Column, path: &FieldPath) -> Option<&'a DataType> {
    let rest = path.starts_with(&column.path).then(|| path.parts().get(column.path.len()..)).flatten()?;
    rest.iter().try_fold(&column.data_type, |data_type, name| match data_type {
        DataType::Struct(fields) => fields.find(name).map(|(_, field)| field.data_type()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Fields};

    use super::*;

    fn column(path: &[&str], data_type: DataType) -> Column {
        Column { path: FieldPath::new(path.iter().copied()), data_type }
    }

    fn parent(name: &str, data_type: DataType) -> DataType {
        DataType::Struct(Fields::from(vec![Field::new(name, data_type, true)]))
    }

    #[test]
    fn a_field_within_a_struct_has_its_type_there() {
        let plan = ScanPlan {
            predicate_types: vec![column(&["s", "p"], DataType::Utf8)],
            ..ScanPlan::all_rows(vec![
                column(&["s"], parent("x", parent("y", DataType::Int64))),
                column(&["s", "x", "y"], DataType::Int32),
            ])
        };
        let type_of = |path: &[&str]| plan.type_of(&FieldPath::new(path.iter().copied())).cloned();
        assert_eq!(type_of(&["s", "p"]), Some(DataType::Utf8));
        assert_eq!(type_of(&["s", "x"]), Some(parent("y", DataType::Int64)));
        assert_eq!(type_of(&["s", "x", "y"]), Some(DataType::Int32));
        assert_eq!(type_of(&["s", "q"]), None);
        assert_eq!(type_of(&["x"]), None);
    }

    #[test]
    fn types_of_elements_and_of_records_stay_apart() {
        let item = Field::new_list_field(parent("q", DataType::Int64), true);
        let records = column(&["s"], parent("items", DataType::List(item.into())));
        let unnest = Some(Unnest { path: FieldPath::new(["s", "items"]), keeps_empty: false });
        let element = FieldPath::new(["s", "items"]);
        let q = FieldPath::new(["s", "items", "q"]);
        let plan = ScanPlan { unnest, ..ScanPlan::all_rows(vec![records.clone()]) };
        assert_eq!((plan.type_of(&element), plan.type_of(&q)), (None, None));
        let of_elements = column(&["s", "items"], parent("q", DataType::Int64));
        let plan = ScanPlan { columns: vec![records, of_elements.clone()], ..plan };
        assert_eq!(plan.type_of(&element), Some(&of_elements.data_type));
        assert_eq!(plan.type_of(&q), Some(&DataType::Int64));
    }
}
