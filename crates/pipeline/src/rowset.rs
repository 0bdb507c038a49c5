//! Rowsets: rows that left a pipeline, column by column, texts as codes.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::ir::{ColumnShape, ValueType};
use crate::{TextList, ordinal};

/// A value by itself, for people and for comparisons.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// A whole number: also of dates and of decimals; of truth values 0 or 1.
    Integer(i128),
    /// A floating-point number, by total order.
    Float(f64),
    /// A text.
    Text(Arc<str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        let kind = |value: &Self| match value {
            Self::Null => 0,
            Self::Integer(_) => 1,
            Self::Float(_) => 2,
            Self::Text(_) => 3,
        };
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.cmp(right),
            (Self::Float(left), Self::Float(right)) => left.total_cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            _ => kind(self).cmp(&kind(other)),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

/// The values of a column. Where they are NULL they mean nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum RowsetValues {
    /// Whole numbers that signed ones of 64 bits hold; truth values as 0 and 1.
    Integers(Vec<i64>),
    /// Unsigned whole numbers of 64 bits.
    Unsigned(Vec<u64>),
    /// Floating-point numbers of both widths.
    Floats(Vec<f64>),
    /// Whole numbers behind decimals.
    Wide(Vec<i128>),
    /// Texts.
    Texts {
        /// The number of each row's text.
        codes: Vec<u32>,
        /// The texts in no order, of groups each once. There may be some that no row has.
        dictionary: Arc<TextList>,
    },
}

impl RowsetValues {
    /// Values of a type, which is not a text, of their ordinals.
    pub(crate) fn of_ordinals(value_type: ValueType, ordinals: Vec<i64>) -> Self {
        match value_type {
            ValueType::Decimal { .. } => Self::Wide(ordinals.into_iter().map(i128::from).collect()),
            ValueType::Float32 | ValueType::Float64 => {
                Self::Floats(ordinals.into_iter().map(ordinal::to_float).collect())
            }
            ValueType::UInt64 => Self::Unsigned(ordinals.into_iter().map(ordinal::to_unsigned).collect()),
            _ => Self::Integers(ordinals),
        }
    }
}

impl Value {
    /// A value of a type, which is not a text, of its ordinal.
    pub(crate) fn of_ordinal(value_type: ValueType, ordinal: i64) -> Self {
        match value_type {
            ValueType::Float32 | ValueType::Float64 => Self::Float(ordinal::to_float(ordinal)),
            ValueType::UInt64 => Self::Integer(ordinal::to_unsigned(ordinal).into()),
            _ => Self::Integer(ordinal.into()),
        }
    }
}

/// A column of a rowset.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsetColumn {
    /// Name and type.
    pub shape: ColumnShape,
    /// Its values: [`RowsetValues::Wide`] for all decimals, [`RowsetValues::Unsigned`] for [`ValueType::UInt64`],
    /// [`RowsetValues::Floats`] for floats of both widths, and each for no other type.
    pub values: RowsetValues,
    /// Which values are not NULL; `None` if all.
    pub valid: Option<Vec<bool>>,
}

impl RowsetColumn {
    /// Memory that the values take, room that was left for more of them included; of a dictionary what the caller says.
    fn allocated_bytes(&self, dictionary_bytes: impl Fn(&Arc<TextList>) -> usize) -> usize {
        let values = match &self.values {
            RowsetValues::Integers(values) => values.capacity() * 8,
            RowsetValues::Unsigned(values) => values.capacity() * 8,
            RowsetValues::Floats(values) => values.capacity() * 8,
            RowsetValues::Wide(values) => values.capacity() * 16,
            RowsetValues::Texts { codes, dictionary } => codes.capacity() * 4 + dictionary_bytes(dictionary),
        };
        values + self.valid.as_ref().map_or(0, Vec::capacity)
    }

    /// The same with the dictionary.
    pub(crate) fn size_bytes(&self) -> usize {
        self.allocated_bytes(|dictionary| dictionary.allocated_bytes())
    }

    /// Bytes of the texts themselves, as often as they come; 0 of numbers.
    pub fn text_bytes(&self) -> u64 {
        let is_valid = |row: usize| self.valid.as_ref().is_none_or(|valid| valid[row]);
        match &self.values {
            RowsetValues::Texts { codes, dictionary } => {
                let valid = codes.iter().enumerate().filter(|(row, _)| is_valid(*row));
                valid.map(|(_, code)| dictionary.len_of(*code as usize) as u64).sum()
            }
            _ => 0,
        }
    }

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
            RowsetValues::Unsigned(values) => Value::Integer(values[row].into()),
            RowsetValues::Floats(values) => Value::Float(values[row]),
            RowsetValues::Wide(values) => Value::Integer(values[row]),
            RowsetValues::Texts { codes, dictionary } => {
                dictionary.get(codes[row] as usize).map_or(Value::Null, |text| Value::Text(text.into()))
            }
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
    /// Memory that the values take, room that was left for more of them and shared dictionaries included.
    pub fn size_bytes(&self) -> u64 {
        self.bytes_with(|dictionary| dictionary.allocated_bytes())
    }

    /// Memory that the values take, without dictionaries that others have too: those reserve them.
    pub fn unshared_bytes(&self) -> u64 {
        self.bytes_with(|dictionary| if Arc::strong_count(dictionary) == 1 { dictionary.allocated_bytes() } else { 0 })
    }

    /// Most bytes that a row takes, without what its texts are.
    pub(crate) fn row_bytes(&self) -> usize {
        let of_column = |column: &RowsetColumn| match &column.values {
            RowsetValues::Integers(_) | RowsetValues::Unsigned(_) | RowsetValues::Floats(_) => 9,
            RowsetValues::Wide(_) => 17,
            RowsetValues::Texts { .. } => 5,
        };
        self.columns.iter().map(of_column).sum()
    }

    fn bytes_with(&self, dictionary_bytes: impl Fn(&Arc<TextList>) -> usize) -> u64 {
        self.columns.iter().map(|column| column.allocated_bytes(&dictionary_bytes) as u64).sum()
    }

    /// Adds the rows of another one of the same columns, whose texts are those of the same dictionaries.
    pub(crate) fn append(&mut self, other: Self) {
        for (column, more) in self.columns.iter_mut().zip(other.columns) {
            if column.valid.is_some() || more.valid.is_some() {
                let valid = column.valid.get_or_insert_with(|| vec![true; self.row_count]);
                valid.extend(more.valid.unwrap_or_else(|| vec![true; other.row_count]));
            }
            match (&mut column.values, more.values) {
                (RowsetValues::Integers(values), RowsetValues::Integers(more)) => values.extend(more),
                (RowsetValues::Unsigned(values), RowsetValues::Unsigned(more)) => values.extend(more),
                (RowsetValues::Floats(values), RowsetValues::Floats(more)) => values.extend(more),
                (RowsetValues::Wide(values), RowsetValues::Wide(more)) => values.extend(more),
                (RowsetValues::Texts { codes, .. }, RowsetValues::Texts { codes: more, .. }) => codes.extend(more),
                (_, _) => debug_assert!(false, "columns of different types"),
            }
        }
        self.row_count += other.row_count;
    }

    /// The rows as values, sorted: what answers are compared by.
    pub fn sorted_rows(&self) -> Vec<Vec<Value>> {
        let mut rows: Vec<Vec<Value>> =
            (0..self.row_count).map(|row| self.columns.iter().map(|column| column.value(row)).collect()).collect();
        rows.sort_unstable();
        rows
    }
}
