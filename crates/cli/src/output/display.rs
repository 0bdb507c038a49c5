//! Values as Arrow displays them; dates, times and durations that it cannot display as the number that is stored.
//!
//! Calendars end: a timestamp of 64 bits reaches some 300 thousand million years, the calendar in use some 262 thousand.
//! What lies beyond is a value all the same, and its row must neither vanish nor carry the text of an error: what is
//! printed is the whole number that the value is stored as, which counts the units of the column's type.

use std::fmt::Write;

use thermocline_engine::arrow::array::{Array, AsArray};
use thermocline_engine::arrow::compute::cast;
use thermocline_engine::arrow::datatypes::{DataType, Field, Int64Type};
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::util::display::{
    ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult,
};

/// A value that cannot be displayed is an error, not a piece of text that looks like data.
const FORMAT_OPTIONS: FormatOptions<'static> =
    FormatOptions::new().with_display_error(false).with_formatter_factory(Some(&StoredNumbers));

/// What Arrow takes for the text of a duration that has none.
const NO_DURATION: &str = "<invalid>";

/// One column, ready to be displayed row by row.
pub(super) struct Displayed<'a> {
    array: &'a dyn Array,
    formatter: ArrayFormatter<'a>,
    text: String,
}

/// A value on display.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown<'t> {
    Text(&'t str),
    /// The number that is stored where there is no text.
    Number(&'t str),
}

impl<'t> Shown<'t> {
    pub(super) fn text(self) -> &'t str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
        }
    }
}

impl<'a> Displayed<'a> {
    pub(super) fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(Self { array, formatter: ArrayFormatter::try_new(array, &FORMAT_OPTIONS)?, text: String::new() })
    }

    /// The value in `row`, which is not NULL.
    pub(super) fn show(&mut self, row: usize) -> Result<Shown<'_>, ArrowError> {
        self.text.clear();
        let outcome = self.formatter.value(row).write(&mut self.text);
        let is_time = scalar_type(self.array.data_type()).is_temporal();
        match outcome {
            Ok(()) if is_time && self.text == NO_DURATION => {}
            Ok(()) => return Ok(Shown::Text(&self.text)),
            Err(_) if is_time => {}
            Err(error) => return Err(error),
        }
        self.text = stored_number(self.array, row)?;
        Ok(Shown::Number(&self.text))
    }
}

/// The type of the values behind dictionaries and run lengths.
pub(super) fn scalar_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => scalar_type(values),
        DataType::RunEndEncoded(_, values) => scalar_type(values.data_type()),
        other => other,
    }
}

fn stored_number(array: &dyn Array, row: usize) -> Result<String, ArrowError> {
    let number = cast(&array.slice(row, 1), &DataType::Int64)?;
    Ok(number.as_primitive::<Int64Type>().value(0).to_string())
}

/// Does for times within other values (the members of unions) what [`Displayed`] does for columns.
#[derive(Debug)]
struct StoredNumbers;

impl ArrayFormatterFactory for StoredNumbers {
    fn create_array_formatter<'f>(
        &self,
        array: &'f dyn Array,
        options: &FormatOptions<'f>,
        _: Option<&'f Field>,
    ) -> Result<Option<ArrayFormatter<'f>>, ArrowError> {
        if !array.data_type().is_temporal() {
            return Ok(None);
        }
        let time = Time { array, formatter: ArrayFormatter::try_new(array, options)? };
        Ok(Some(ArrayFormatter::new(Box::new(time), options.safe())))
    }
}

struct Time<'a> {
    array: &'a dyn Array,
    formatter: ArrayFormatter<'a>,
}

impl DisplayIndex for Time<'_> {
    fn write(&self, row: usize, out: &mut dyn Write) -> FormatResult {
        let text = match self.formatter.value(row).try_to_string() {
            Ok(text) if text != NO_DURATION => text,
            _ => stored_number(self.array, row)?,
        };
        Ok(out.write_str(&text)?)
    }
}
