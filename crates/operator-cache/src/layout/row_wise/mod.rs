//! The row layout: rows one after the other, each of a fixed stride, so that all fields of a row share cache lines.
//!
//! **Owns**: where each field lies in a row, writing rows ([`build`]), and reading a column of all or some rows back
//! ([`gather`]). **Does not own**: which rows are wanted.
//!
//! A row is its fixed-width values at their natural width, the widest first, and behind them its bits: a bit for each
//! field that holds a NULL anywhere in the block, and one for each Boolean. A string is its offset and length (u32
//! each, counted as one value of 8 bytes) in the block's heap, where strings lie in the order of rows, then columns; of
//! strings that are codes it is the code, and their dictionary lies beside the rows. A struct is its fields, and a bit if
//! it can be NULL.
//!
//! **Invariants**
//! - The stride is a multiple of the widest value, or of 8 if that is wider: a value of at most 8 bytes lies in one
//!   cache line.
//! - Offsets and lengths lie within the heap, on the borders of characters.
//!
//! **Concurrency**: never changes once built; shared between threads.
//!
//! **Paper**: ReCache (PVLDB 2017), §4.3. Deviation: lists, whose rows have no common width, stay in Arrow arrays
//! beside the rows, addressed by row number, with whatever is in them.

mod build;
mod gather;
#[cfg(test)]
mod tests;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Fields};
use arrow::error::ArrowError;

/// Rows one after the other, each of a fixed stride.
#[derive(Debug)]
pub(crate) struct RowBlock {
    row_count: usize,
    stride_bytes: usize,
    /// `row_count · stride_bytes` bytes, on a border of 64.
    rows: Buffer,
    /// The bytes of all strings.
    heap: Vec<u8>,
    columns: Vec<Field>,
    size_bytes: u64,
}

/// Where the values of one column or field lie.
#[derive(Debug)]
struct Field {
    data_type: DataType,
    /// The bit in each row that is set where the value is not NULL; None if none is.
    validity_bit: Option<usize>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A value of the type's width, or a string's offset and length, at this byte of each row.
    Value { offset_bytes: usize },
    /// The code of a text, at this byte of each row.
    Code { offset_bytes: usize, key: DataType, dictionary: ArrayRef },
    /// A Boolean: this bit of each row.
    Bit(usize),
    /// A struct's fields.
    Fields { fields: Fields, children: Vec<Field> },
    /// A list for each row, NULLs included.
    Beside(ArrayRef),
}

impl RowBlock {
    /// Rows of the given columns, each of `row_count` values.
    ///
    /// # Errors
    /// A column of another length; types that are not Boolean, a fixed-width number, date, time or decimal of at most
    /// 16 bytes, Utf8 or codes of it, List, or a Struct of these; strings of more than 4 GiB together.
    pub(crate) fn from_columns(columns: &[ArrayRef], row_count: usize) -> Result<Self, ArrowError> {
        let mut block = build::build(columns, row_count)?;
        let structures_bytes = size_of::<Self>() + block.columns.capacity() * size_of::<Field>();
        let columns_bytes: usize = block.columns.iter().map(Field::heap_bytes).sum();
        block.size_bytes = (block.rows.capacity() + block.heap.capacity() + structures_bytes + columns_bytes) as u64;
        Ok(block)
    }

    /// Column `index` of all rows, or of the rows `selected` (ascending), as an Arrow array equal to the one the block
    /// was made of.
    ///
    /// # Errors
    /// No such column or row; more than 2 GiB of strings.
    pub(crate) fn column(&self, index: usize, selected: Option<&[u32]>) -> Result<ArrayRef, ArrowError> {
        let column = self.columns.get(index).ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!("no column {index} among {}", self.columns.len()))
        })?;
        if let Some(&last) = selected.and_then(|selected| selected.iter().max())
            && last as usize >= self.row_count
        {
            return Err(ArrowError::InvalidArgumentError(format!("no row {last} among {}", self.row_count)));
        }
        gather::Gather::new(self, selected).field(column)
    }

    /// Rows in the block.
    pub(crate) fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes held: rows, strings, lists beside the rows, and the structures around them.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

impl Field {
    /// Bytes of what is below it, itself not included.
    fn heap_bytes(&self) -> usize {
        match &self.place {
            Place::Value { .. } | Place::Bit(_) => 0,
            Place::Code { dictionary, .. } => dictionary.get_array_memory_size(),
            Place::Fields { children, .. } => {
                children.capacity() * size_of::<Self>() + children.iter().map(Self::heap_bytes).sum::<usize>()
            }
            Place::Beside(lists) => lists.get_array_memory_size(),
        }
    }
}

/// Bytes that a value of this type takes in a row; None if it has no place of its own there.
fn width_bytes(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Utf8 => Some(size_of::<[u32; 2]>()),
        _ => data_type.primitive_width().filter(|width| matches!(width, 1 | 2 | 4 | 8 | 16)),
    }
}
