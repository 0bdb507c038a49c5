//! Which items have which columns, as bits.
//!
//! Columns of the items of one source are numbered as they come; an item's columns are a set of bits, so that a
//! candidate is tested in a few instructions, without comparing paths and types.

use std::collections::HashMap;

use thermocline_predicate::FieldPath;

use crate::request::ColumnSpec;
use crate::rows::ColumnRoute;

/// A set of column numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnSet(Box<[u64]>);

impl ColumnSet {
    fn of(numbers: &[usize]) -> Self {
        let words = numbers.iter().max().map_or(0, |greatest| greatest / 64 + 1);
        let mut set = vec![0; words].into_boxed_slice();
        for number in numbers {
            set[number / 64] |= 1 << (number % 64);
        }
        Self(set)
    }

    /// Whether the two have a number in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(own, others)| own & others != 0)
    }
}

/// The numbers of the columns seen so far.
#[derive(Debug, Default)]
pub(crate) struct ColumnNumbers {
    columns: Vec<ColumnSpec>,
    by_path: HashMap<FieldPath, Vec<usize>>,
}

impl ColumnNumbers {
    /// The set of an item's columns; new ones get the next numbers.
    pub(crate) fn register(&mut self, columns: &[ColumnSpec]) -> ColumnSet {
        let mut numbers = Vec::with_capacity(columns.len());
        for column in columns {
            let known = self.by_path.entry(column.path.clone()).or_default();
            let number = known.iter().copied().find(|&number| self.columns[number].data_type == column.data_type);
            numbers.push(number.unwrap_or_else(|| {
                known.push(self.columns.len());
                self.columns.push(column.clone());
                self.columns.len() - 1
            }));
        }
        ColumnSet::of(&numbers)
    }

    /// The columns out of which `wanted` can be taken: itself, or structs above it. Empty when there are none.
    pub(crate) fn suppliers(&self, wanted: &ColumnSpec) -> ColumnSet {
        self.suppliers_where(&wanted.path, |column| {
            ColumnRoute::find_typed(std::slice::from_ref(column), wanted).is_some()
        })
    }

    /// The columns out of which the field at `path` can be taken, whatever its type.
    pub(crate) fn suppliers_of_field(&self, path: &FieldPath) -> ColumnSet {
        self.suppliers_where(path, |column| ColumnRoute::find(std::slice::from_ref(column), path).is_some())
    }

    fn suppliers_where(&self, path: &FieldPath, supplies: impl Fn(&ColumnSpec) -> bool) -> ColumnSet {
        let parts = path.parts();
        let mut numbers = Vec::new();
        for length in 1..=parts.len() {
            // Most paths are one part long and are looked up as they are.
            let known = if length == parts.len() {
                self.by_path.get(path)
            } else {
                self.by_path.get(&FieldPath::new(parts[..length].iter().cloned()))
            };
            numbers.extend(known.into_iter().flatten().copied().filter(|&number| supplies(&self.columns[number])));
        }
        ColumnSet::of(&numbers)
    }
}
