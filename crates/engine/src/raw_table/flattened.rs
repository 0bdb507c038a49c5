//! A table's columns, and the fields of structs among them as columns of their own.
//!
//! **Invariants**: the table's own columns come first, under their numbers in its schema; a field is NULL where a struct
//! that it lies in is.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use thermocline_predicate::FieldPath;

/// See the module. Fields of structs are named by their path, and left out where a column has that name.
#[derive(Debug)]
pub(crate) struct Flattened {
    schema: SchemaRef,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    path: FieldPath,
    /// The number of the struct that it is a field of.
    parent: Option<usize>,
}

impl Flattened {
    /// Of columns that lie at these paths.
    pub(crate) fn of(own: impl IntoIterator<Item = (FieldPath, FieldRef)>) -> Self {
        let (paths, mut fields): (Vec<FieldPath>, Vec<FieldRef>) = own.into_iter().unzip();
        let mut columns: Vec<Column> = paths.into_iter().map(|path| Column { path, parent: None }).collect();
        let mut names: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
        let mut next = 0;
        while next < columns.len() {
            let of = Arc::clone(&fields[next]);
            if let DataType::Struct(children) = of.data_type() {
                for child in children {
                    let path = columns[next].path.child(child.name());
                    let name = path.to_string();
                    if !names.insert(name.clone()) {
                        continue;
                    }
                    let is_nullable = of.is_nullable() || child.is_nullable();
                    fields.push(Arc::new(Field::new(name, child.data_type().clone(), is_nullable)));
                    columns.push(Column { path, parent: Some(next) });
                }
            }
            next += 1;
        }
        Self { schema: Arc::new(Schema::new(fields)), columns }
    }

    /// All columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Where a column lies in the records, and its field.
    pub(crate) fn column(&self, number: usize) -> (FieldPath, FieldRef) {
        (self.columns[number].path.clone(), Arc::clone(&self.schema.fields()[number]))
    }

    /// The column that is field `name` of a struct.
    pub(crate) fn child(&self, of: usize, name: &str) -> Option<usize> {
        let is_child = |column: &Column| {
            column.parent == Some(of) && column.path.parts().last().is_some_and(|part| part.as_ref() == name)
        };
        self.columns.iter().position(is_child)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fields_of_structs_are_columns_behind_the_tables_own() {
        let number = |name: &str, is_nullable| Field::new(name, DataType::Int64, is_nullable);
        let within = |name: &str, fields: Vec<Field>, is_nullable| {
            Field::new(name, DataType::Struct(fields.into()), is_nullable)
        };
        let inner = within("c", vec![number("d", false), number("e", true)], false);
        let own = [within("a", vec![number("b", false), inner], false), within("n", vec![number("b", false)], true)];
        let own = own.into_iter().chain([number("a.b", false)]);
        let own = own.map(|field| (FieldPath::root(field.name()), Arc::new(field)));
        let flattened = Flattened::of(own);
        let named = |number: usize| {
            let (path, field) = flattened.column(number);
            (path.to_string(), field.name().clone(), field.is_nullable())
        };
        let all: Vec<_> = (0..flattened.schema().fields().len()).map(named).collect();
        let expected = [
            ("a", "a", false),
            ("n", "n", true),
            // A column of that name hides the field.
            ("\"a.b\"", "a.b", false),
            ("a.c", "a.c", false),
            ("n.b", "n.b", true),
            ("a.c.d", "a.c.d", false),
            ("a.c.e", "a.c.e", true),
        ];
        let expected = expected.map(|(path, name, is_nullable)| (path.to_owned(), name.to_owned(), is_nullable));
        assert_eq!(all, expected);
        assert_eq!(flattened.child(0, "c"), Some(3));
        assert_eq!(flattened.child(3, "e"), Some(6));
        assert_eq!(flattened.child(0, "b"), None);
        assert_eq!(flattened.child(4, "b"), None);
    }
}
