//! Rowsets: rows that left a pipeline, column by column, texts as codes.

use std::fmt;
use std::sync::Arc;

use crate::ir::ColumnShape;

/// A value by itself, for people and for comparisons.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// No value.
    Null,
    /// A whole number: also of dates and of decimals.
    Integer(i128),
    /// A text.
    Text(Arc<str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The values of a column. Where they are NULL they mean nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum RowsetValues {
    /// Whole numbers of up to 64 bits.
    Integers(Vec<i64>),
    /// Whole numbers behind decimals.
    Wide(Vec<i128>),
    /// Texts.
    Texts {
        /// The number of each row's text.
        codes: Vec<u32>,
        /// The texts, each once, in no order. There may be some that no row has.
        dictionary: Arc<[Arc<str>]>,
    },
}

/// A column of a rowset.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsetColumn {
    /// Name and type.
    pub shape: ColumnShape,
    /// Its values: [`RowsetValues::Wide`] for all decimals, and for no other type.
    pub values: RowsetValues,
    /// Which values are not NULL; `None` if all.
    pub valid: Option<Vec<bool>>,
}

impl RowsetColumn {
    /// The value of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn value(&self, row: usize) -> Value {
        if self.valid.as_ref().is_some_and(|valid| !valid[row]) {
            return Value::Null;
        }
        match &self.values {
            RowsetValues::Integers(values) => Value::Integer(values[row].into()),
            RowsetValues::Wide(values) => Value::Integer(values[row]),
            RowsetValues::Texts { codes, dictionary } => Value::Text(Arc::clone(&dictionary[codes[row] as usize])),
        }
    }
}

/// Rows as columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Rowset {
    /// The columns, all of as many values.
    pub columns: Vec<RowsetColumn>,
    /// How many rows there are: also known without columns.
    pub row_count: usize,
}

impl Rowset {
    /// Memory that the values take, shared dictionaries included.
    pub fn size_bytes(&self) -> u64 {
        /// A reference and two counts.
        const TEXT_BYTES: usize = 32;
        let column = |column: &RowsetColumn| {
            let values = match &column.values {
                RowsetValues::Integers(values) => values.len() * 8,
                RowsetValues::Wide(values) => values.len() * 16,
                RowsetValues::Texts { codes, dictionary } => {
                    codes.len() * 4 + dictionary.iter().map(|text| text.len() + TEXT_BYTES).sum::<usize>()
                }
            };
            (values + column.valid.as_ref().map_or(0, Vec::len)) as u64
        };
        self.columns.iter().map(column).sum()
    }

    /// The rows as values, sorted: what answers are compared by.
    pub fn sorted_rows(&self) -> Vec<Vec<Value>> {
        let mut rows: Vec<Vec<Value>> =
            (0..self.row_count).map(|row| self.columns.iter().map(|column| column.value(row)).collect()).collect();
        rows.sort_unstable();
        rows
    }
}
