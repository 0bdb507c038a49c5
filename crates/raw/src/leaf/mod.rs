//! Flat columns that grow value by value from text, shared by all raw formats.
//!
//! **Owns**: [`LeafBuilder`]: text to value by Arrow type, NULLs, taking rows back, repeating rows, testing the last
//! value against a predicate, and the exactly sized array at the end.
//!
//! **Does not own**: a format's syntax (quotes and escapes are gone before text comes here), nested columns.
//!
//! **Invariants**
//! - A value is exactly what the text says or it is not appended: never rounded to an integer, never wrapped.
//! - After a [`Mismatch`] the builder is as it was before.
//! - Appending allocates only when a vector grows; vectors keep their room across [`LeafBuilder::finish`].
//!
//! **Concurrency**: one builder, one thread.

pub(crate) mod calendar;
mod nulls;
pub(crate) mod number;
mod texts;
mod values;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_predicate::Domain;

pub(crate) use nulls::Nulls;
pub(crate) use texts::Texts;
use values::Values;

/// Why a value was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The text is no value of the column's type.
    NotOfType,
    /// The text is not UTF-8.
    NotUtf8,
    /// The column would outgrow what an Arrow array can address.
    ColumnFull,
}

/// A flat column under construction.
///
/// ```
/// use arrow::datatypes::DataType;
/// use thermocline_raw::{LeafBuilder, Mismatch};
/// let mut builder = LeafBuilder::new(&DataType::Int64).expect("Int64 is supported");
/// assert_eq!(builder.append_text(b"42"), Ok(()));
/// assert_eq!(builder.append_text(b"1.5"), Err(Mismatch::NotOfType));
/// builder.append_null();
/// assert_eq!(builder.len(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct LeafBuilder {
    data_type: DataType,
    values: Values,
    nulls: Nulls,
}

impl LeafBuilder {
    /// An empty column of this type; None for types that raw files do not hold: Boolean, the integers, floats, Utf8,
    /// Date32, Timestamp (without zone or in UTC), Decimal128 and Null are supported.
    pub fn new(data_type: &DataType) -> Option<Self> {
        let values = Values::new(data_type)?;
        Some(Self { data_type: data_type.clone(), values, nulls: Nulls::default() })
    }

    /// The Arrow type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a NULL.
    pub fn append_null(&mut self) {
        if !matches!(self.values, Values::Null(_)) {
            self.nulls.push(self.values.len());
        }
        self.values.append_default();
    }

    /// Appends the value that `text` denotes: integers and floats in decimal, `true` and `false` in any case,
    /// dates as `YYYY-MM-DD`, timestamps as RFC 3339 with `T` or a space (UTC where no offset is given), decimals
    /// without loss of digits, and any UTF-8 for Utf8.
    ///
    /// # Errors
    /// Text that is no such value: nothing is appended.
    #[inline]
    pub fn append_text(&mut self, text: &[u8]) -> Result<(), Mismatch> {
        self.values.append_text(text)
    }

    /// Like [`append_text`](Self::append_text) for text known to be UTF-8, which is then not checked again.
    ///
    /// # Errors
    /// As [`append_text`](Self::append_text).
    #[inline]
    pub fn append_str(&mut self, text: &str) -> Result<(), Mismatch> {
        self.values.append_str(text)
    }

    /// Appends a number given as one, not as text: as [`append_text`](Self::append_text), except that for Date32 it
    /// counts days and for Timestamp units since 1970-01-01.
    ///
    /// # Errors
    /// As [`append_text`](Self::append_text).
    #[inline]
    pub fn append_number(&mut self, token: &[u8]) -> Result<(), Mismatch> {
        self.values.append_number(token)
    }

    /// Appends a truth value to a Boolean column, its JSON text to a Utf8 column.
    ///
    /// # Errors
    /// The column is of another type.
    pub fn append_boolean(&mut self, value: bool) -> Result<(), Mismatch> {
        self.values.append_boolean(value)
    }

    /// The values of an Int64 column, for a caller who parses them for itself: to be added to, and what was added to be
    /// taken back. None of another type.
    #[inline]
    pub(crate) fn int64_values(&mut self) -> Option<&mut Vec<i64>> {
        match &mut self.values {
            Values::Int64(values) => Some(values),
            _ => None,
        }
    }

    /// The same of a Float64 column.
    #[inline]
    pub(crate) fn float64_values(&mut self) -> Option<&mut Vec<f64>> {
        match &mut self.values {
            Values::Float64(values) => Some(values),
            _ => None,
        }
    }

    /// The same of a Date32 column: days since 1970-01-01.
    #[inline]
    pub(crate) fn date32_values(&mut self) -> Option<&mut Vec<i32>> {
        match &mut self.values {
            Values::Date32(values) => Some(values),
            _ => None,
        }
    }

    /// The texts of a Utf8 column, to be added to.
    #[inline]
    pub(crate) fn texts(&mut self) -> Option<&mut Texts> {
        match &mut self.values {
            Values::Utf8(texts) => Some(texts),
            _ => None,
        }
    }

    /// Takes all rows from `len` on back.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.values.len() {
            self.values.truncate(len);
            self.nulls.truncate(len);
        }
    }

    /// Whether the last row is NULL.
    #[inline]
    pub fn is_last_null(&self) -> bool {
        match &self.values {
            Values::Null(count) => *count > 0,
            values => values.len().checked_sub(1).is_some_and(|row| self.nulls.is_last(row)),
        }
    }

    /// Whether the last row lies in `domain`, whose kind is the column's. False on an empty column.
    #[inline]
    pub fn test(&self, domain: &Domain) -> bool {
        if self.is_last_null() { domain.admits_null() } else { self.values.test_last(domain) }
    }

    /// All rows as an array that owns buffers of exactly their size; starts anew.
    ///
    /// # Errors
    /// Arrow's own checks; none is known to fail.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish(self.values.len());
        self.values.finish(&self.data_type, nulls)
    }

    /// Bytes held on the heap, spare room included.
    pub fn heap_bytes(&self) -> usize {
        self.values.heap_bytes() + self.nulls.heap_bytes()
    }
}
