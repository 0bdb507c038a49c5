//! One value as text.
//!
//! Scalars as Arrow displays them (dates and timestamps in ISO 8601, binary in hexadecimal), strings as they are,
//! nested values as JSON. Quoting belongs to the formats.

use std::io::Write;
use std::sync::LazyLock;

use thermocline_engine::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use thermocline_engine::arrow::buffer::NullBuffer;
use thermocline_engine::arrow::datatypes::{DataType, FieldRef};
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::json::writer::{EncoderOptions, NullableEncoder, make_encoder};
use thermocline_engine::arrow::record_batch::RecordBatch;
use thermocline_engine::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Objects inside values name their NULL fields: the type of a value does not change from row to row.
static ENCODER_OPTIONS: LazyLock<EncoderOptions> =
    LazyLock::new(|| EncoderOptions::default().with_explicit_nulls(true));

/// A value that cannot be displayed is an error, not a piece of text that looks like data.
const FORMAT_OPTIONS: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

/// One column of one batch, ready to be rendered row by row.
pub(super) struct Cells<'a> {
    nulls: Option<NullBuffer>,
    text: CellText<'a>,
}

enum CellText<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Scalar(ArrayFormatter<'a>),
    Nested(NullableEncoder<'a>),
}

/// The columns of `batch`.
pub(super) fn columns(batch: &RecordBatch) -> Result<Vec<Cells<'_>>, ArrowError> {
    let fields = batch.schema_ref().fields();
    fields.iter().zip(batch.columns()).map(|(field, array)| Cells::new(field, array)).collect()
}

impl<'a> Cells<'a> {
    fn new(field: &'a FieldRef, array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let text = match array.data_type() {
            DataType::Utf8 => CellText::Utf8(array.as_string()),
            DataType::LargeUtf8 => CellText::LargeUtf8(array.as_string()),
            DataType::Utf8View => CellText::Utf8View(array.as_string_view()),
            data_type if is_json(data_type) => CellText::Nested(make_encoder(field, array, &ENCODER_OPTIONS)?),
            _ => CellText::Scalar(ArrayFormatter::try_new(array, &FORMAT_OPTIONS)?),
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
            CellText::Scalar(formatter) => write!(out, "{}", formatter.value(row))
                .map_err(|_| ArrowError::CastError(format!("the value in row {row} cannot be displayed")))?,
            CellText::Nested(encoder) => encoder.encode(row, out),
        }
        Ok(())
    }
}

/// Lists, structs and maps, under a dictionary or run-length encoding too.
fn is_json(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_json(values),
        DataType::RunEndEncoded(_, values) => is_json(values.data_type()),
        DataType::Union(..) => false,
        other => other.is_nested(),
    }
}

/// One column of one batch, ready to be rendered as JSON row by row.
pub(super) struct JsonCells<'a> {
    nulls: Option<NullBuffer>,
    value: JsonValue<'a>,
}

enum JsonValue<'a> {
    Native(NullableEncoder<'a>),
    /// Types without a JSON form (intervals, unions): their text, as a string.
    Text(ArrayFormatter<'a>, Vec<u8>),
}

/// The columns of `batch`, as JSON.
pub(super) fn json_columns(batch: &RecordBatch) -> Result<Vec<JsonCells<'_>>, ArrowError> {
    let fields = batch.schema_ref().fields();
    fields.iter().zip(batch.columns()).map(|(field, array)| JsonCells::new(field, array)).collect()
}

impl<'a> JsonCells<'a> {
    fn new(field: &'a FieldRef, array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let value = match array.data_type() {
            DataType::Union(..) | DataType::Interval(_) => {
                JsonValue::Text(ArrayFormatter::try_new(array, &FORMAT_OPTIONS)?, Vec::new())
            }
            _ => JsonValue::Native(make_encoder(field, array, &ENCODER_OPTIONS)?),
        };
        Ok(Self { nulls: array.logical_nulls(), value })
    }

    /// Appends the JSON of a value, `null` included.
    pub(super) fn push(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &mut self.value {
            JsonValue::Native(encoder) => encoder.encode(row, out),
            JsonValue::Text(formatter, text) => {
                text.clear();
                write!(text, "{}", formatter.value(row))
                    .map_err(|_| ArrowError::CastError(format!("the value in row {row} cannot be displayed")))?;
                push_json_string(&String::from_utf8_lossy(text), out);
            }
        }
        Ok(())
    }
}

/// Appends `text` as a JSON string.
pub(super) fn push_json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control @ 0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.push(b'0' + (control >> 4));
                out.push(b"0123456789abcdef"[usize::from(control & 15)]);
            }
            other => out.push(other),
        }
    }
    out.push(b'"');
}
