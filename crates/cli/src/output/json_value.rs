//! One value as JSON, to any depth.
//!
//! Numbers, booleans, strings and binary (as hexadecimal) are Arrow's; what holds other values is put together here,
//! and so is what has no JSON form of its own: dates, times, intervals and unions are their text, as strings, and those
//! dates and times that have no text the number that is stored. Objects name their NULL fields: the type of a value
//! does not change from row to row. Keys of maps are their text. Fields and keys that are there twice get a suffix (`x`,
//! `x_1`), as an object with a name twice is read differently by every reader.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use thermocline_engine::arrow::array::{Array, AsArray, ListLikeArray};
use thermocline_engine::arrow::buffer::NullBuffer;
use thermocline_engine::arrow::datatypes::{DataType, FieldRef, Int16Type, Int32Type, Int64Type, RunEndIndexType};
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::json::writer::{EncoderOptions, NullableEncoder, make_encoder};

use super::cells::Cells;
use super::display::{Displayed, Shown};

static ENCODER_OPTIONS: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// What becomes of numbers that JSON lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotFinite {
    /// `null`, where the text has to be JSON.
    Null,
    /// `NaN`, `inf` and `-inf`, where people read it: there they must not look like a value that is missing.
    Word,
}

/// The values of one array, ready to be rendered row by row.
pub(super) struct JsonValue<'a> {
    nulls: Option<NullBuffer>,
    form: Form<'a>,
}

enum Form<'a> {
    Native(NullableEncoder<'a>),
    /// Floats, and how those are displayed that JSON lacks.
    Float(NullableEncoder<'a>, Displayed<'a>),
    Text(Displayed<'a>),
    List(Box<dyn Fn(usize) -> Range<usize> + 'a>, Box<JsonValue<'a>>),
    /// What stands before each value, `{"a":` and so on, and the values.
    Object(Vec<(Vec<u8>, JsonValue<'a>)>),
    Map {
        entries: &'a [i32],
        keys: Box<Cells<'a>>,
        values: Box<JsonValue<'a>>,
    },
    /// Dictionaries and run lengths: where each row's value is.
    Placed(Vec<usize>, Box<JsonValue<'a>>),
}

impl<'a> JsonValue<'a> {
    /// `field` is that of the column, whatever `array` within it is meant.
    pub(super) fn new(field: &'a FieldRef, array: &'a dyn Array, not_finite: NotFinite) -> Result<Self, ArrowError> {
        let within = |values: &'a dyn Array| Ok::<_, ArrowError>(Box::new(Self::new(field, values, not_finite)?));
        let native = || make_encoder(field, array, &ENCODER_OPTIONS);
        let form = match array.data_type() {
            DataType::List(_) => list_form(array.as_list::<i32>(), within)?,
            DataType::LargeList(_) => list_form(array.as_list::<i64>(), within)?,
            DataType::ListView(_) => list_form(array.as_list_view::<i32>(), within)?,
            DataType::LargeListView(_) => list_form(array.as_list_view::<i64>(), within)?,
            DataType::FixedSizeList(..) => list_form(array.as_fixed_size_list(), within)?,
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                let names = openings(fields.iter().map(|field| field.name().as_str()));
                let mut members = Vec::with_capacity(fields.len());
                for (opening, column) in names.into_iter().zip(columns) {
                    members.push((opening, Self::new(field, column, not_finite)?));
                }
                Form::Object(members)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Form::Map {
                    entries: map.offsets(),
                    keys: Box::new(Cells::new(field, map.keys())?),
                    values: within(map.values())?,
                }
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                // Without values every row is NULL.
                let places = if values.is_empty() { Vec::new() } else { dictionary.normalized_keys() };
                Form::Placed(places, within(values)?)
            }
            DataType::RunEndEncoded(..) => {
                let places = run_places::<Int16Type>(array)
                    .or_else(|| run_places::<Int32Type>(array))
                    .or_else(|| run_places::<Int64Type>(array))
                    .unwrap_or_default();
                Form::Placed(places, within(array.as_any_ree().values())?)
            }
            DataType::Union(..) => Form::Text(Displayed::new(array)?),
            data_type if data_type.is_temporal() => Form::Text(Displayed::new(array)?),
            data_type if data_type.is_floating() && not_finite == NotFinite::Word => {
                Form::Float(native()?, Displayed::new(array)?)
            }
            _ => Form::Native(native()?),
        };
        Ok(Self { nulls: array.logical_nulls(), form })
    }

    /// Appends the JSON of a value, `null` included.
    pub(super) fn push(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &mut self.form {
            Form::Native(encoder) => encoder.encode(row, out),
            Form::Float(encoder, displayed) => {
                let start = out.len();
                encoder.encode(row, out);
                if &out[start..] == b"null" {
                    out.truncate(start);
                    out.extend_from_slice(displayed.show(row)?.text().as_bytes());
                }
            }
            Form::Text(displayed) => match displayed.show(row)? {
                Shown::Text(text) => push_json_string(text, out),
                Shown::Number(number) => out.extend_from_slice(number.as_bytes()),
            },
            Form::List(range, items) => {
                out.push(b'[');
                for (index, item) in range(row).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    items.push(item, out)?;
                }
                out.push(b']');
            }
            Form::Object(members) => {
                if members.is_empty() {
                    out.push(b'{');
                }
                for (opening, member) in members {
                    out.extend_from_slice(opening);
                    member.push(row, out)?;
                }
                out.push(b'}');
            }
            Form::Map { entries, keys, values } => {
                out.push(b'{');
                let range = entries[row] as usize..entries[row + 1] as usize;
                let texts = range.clone().map(|entry| key_text(keys, entry)).collect::<Result<Vec<_>, _>>()?;
                for (entry, key) in range.clone().zip(distinct(texts.iter().map(String::as_str))) {
                    if entry > range.start {
                        out.push(b',');
                    }
                    push_json_string(&key, out);
                    out.push(b':');
                    values.push(entry, out)?;
                }
                out.push(b'}');
            }
            Form::Placed(places, values) => values.push(places[row], out)?,
        }
        Ok(())
    }
}

fn key_text(keys: &mut Cells<'_>, entry: usize) -> Result<String, ArrowError> {
    if keys.is_null(entry) {
        return Err(ArrowError::InvalidArgumentError("a map has a key that is NULL".to_owned()));
    }
    let mut text = Vec::new();
    keys.push(entry, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn list_form<'a, L: ListLikeArray + 'a>(
    list: &'a L,
    items: impl FnOnce(&'a dyn Array) -> Result<Box<JsonValue<'a>>, ArrowError>,
) -> Result<Form<'a>, ArrowError> {
    let items = items(list.values().as_ref())?;
    Ok(Form::List(Box::new(move |row| list.element_range(row)), items))
}

fn run_places<R: RunEndIndexType>(array: &dyn Array) -> Option<Vec<usize>> {
    let runs = array.as_run_opt::<R>()?;
    Some((0..runs.len()).map(|row| runs.get_physical_index(row)).collect())
}

/// What stands before each value of an object with these fields: `{"a":`, then `,"b":` and so on.
pub(super) fn openings<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<Vec<u8>> {
    distinct(names)
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let mut opening = vec![if index == 0 { b'{' } else { b',' }];
            push_json_string(&name, &mut opening);
            opening.push(b':');
            opening
        })
        .collect()
}

/// The names, later ones with the first free suffix where they would be there twice.
fn distinct<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<Cow<'n, str>> {
    let originals: HashSet<&str> = names.clone().collect();
    if originals.len() == names.clone().count() {
        return names.map(Cow::Borrowed).collect();
    }
    let mut made: HashSet<String> = HashSet::new();
    // The last suffix of each name, from which the search for the next goes on; zero is none.
    let mut suffixes: HashMap<&str, usize> = HashMap::new();
    names
        .map(|name| {
            let Some(suffix) = suffixes.get_mut(name) else {
                suffixes.insert(name, 0);
                return Cow::Borrowed(name);
            };
            loop {
                *suffix += 1;
                let candidate = format!("{name}_{suffix}");
                if !originals.contains(candidate.as_str()) && made.insert(candidate.clone()) {
                    return Cow::Owned(candidate);
                }
            }
        })
        .collect()
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
