//! One value as text.
//!
//! Scalars as Arrow displays them (dates and timestamps in ISO 8601, binary in hexadecimal), strings as they are,
//! nested values as JSON, but for infinities and NaN within them, which are words. Quoting belongs to the formats.

use thermocline_engine::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use thermocline_engine::arrow::buffer::NullBuffer;
use thermocline_engine::arrow::datatypes::{DataType, FieldRef};
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::display::{Displayed, scalar_type};
use super::json_value::{JsonValue, NotFinite};

/// One column of one batch, ready to be rendered row by row.
pub(super) struct Cells<'a> {
    nulls: Option<NullBuffer>,
    text: CellText<'a>,
}

enum CellText<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Scalar(Displayed<'a>),
    Nested(JsonValue<'a>),
}

/// The columns of `batch`.
pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Cells<'_>>, ArrowError> {
    let fields = batch.schema_ref().fields();
    fields.iter().zip(batch.columns()).map(|(field, array)| Cells::new(field, array)).collect()
}

impl<'a> Cells<'a> {
    /// `field` is that of the column, whatever `array` within it is meant.
    pub(super) fn new(field: &'a FieldRef, array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let text = match array.data_type() {
            DataType::Utf8 => CellText::Utf8(array.as_string()),
            DataType::LargeUtf8 => CellText::LargeUtf8(array.as_string()),
            DataType::Utf8View => CellText::Utf8View(array.as_string_view()),
            data_type if is_json(data_type) => CellText::Nested(JsonValue::new(field, array, NotFinite::Word)?),
            _ => CellText::Scalar(Displayed::new(array)?),
        };
        Ok(Self { nulls: array.logical_nulls(), text })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the text of a value that is not NULL.
    pub(super) fn push(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match &mut self.text {
            CellText::Utf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            CellText::LargeUtf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            CellText::Utf8View(array) => out.extend_from_slice(array.value(row).as_bytes()),
            CellText::Scalar(displayed) => out.extend_from_slice(displayed.show(row)?.text().as_bytes()),
            CellText::Nested(value) => value.push(row, out)?,
        }
        Ok(())
    }
}

/// Lists, structs and maps, under a dictionary or run-length encoding too.
fn is_json(data_type: &DataType) -> bool {
    match scalar_type(data_type) {
        DataType::Union(..) => false,
        other => other.is_nested(),
    }
}
