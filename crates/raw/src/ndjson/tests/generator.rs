//! Random types, records and plans from a seed.

use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_seeded::Random;

use crate::{Column, OnError, ScanPlan, Unnest};

const NAMES: [&str; 10] = [
    "a",
    "b",
    "id",
    "l_extendedprice_of_the_item",
    "ü",
    "with \"quote\"",
    "a.b",
    "",
    "tab\t",
    "very_long_name_of_a_field_indeed",
];

pub(crate) const DECIMAL: DataType = DataType::Decimal128(12, 2);

/// A type nested at most `depth` deep.
fn any_type(random: &mut Random, depth: usize) -> DataType {
    match random.below(if depth == 0 { 8 } else { 12 }) {
        0 => DataType::Boolean,
        1 | 2 => DataType::Int64,
        3 => DataType::Float64,
        4 | 5 => DataType::Utf8,
        6 => {
            if random.one_in(3) {
                DataType::Date32
            } else {
                DataType::Int16
            }
        }
        7 => {
            if random.one_in(2) {
                DECIMAL
            } else {
                DataType::Timestamp(TimeUnit::Millisecond, None)
            }
        }
        8 | 9 => DataType::Struct(any_fields(random, depth - 1, 4)),
        _ => DataType::new_list(any_type(random, depth - 1), true),
    }
}

/// The fields of a record or a struct.
pub(crate) fn any_fields(random: &mut Random, depth: usize, most: usize) -> Fields {
    let mut fields: Vec<Arc<Field>> = Vec::new();
    for _ in 0..1 + random.below(most) {
        let name = *random.pick(&NAMES);
        if fields.iter().all(|field| field.name() != name) {
            fields.push(Arc::new(Field::new(name, any_type(random, depth), true)));
        }
    }
    fields.into()
}

fn space(random: &mut Random, out: &mut String) {
    if random.one_in(6) {
        out.push_str(random.pick::<&str>(&[" ", "  ", "\t", " \r "]));
    }
}

fn string(random: &mut Random, content: &str, out: &mut String) {
    out.push('"');
    for character in content.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' if random.one_in(2) => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '/' if random.one_in(2) => out.push_str("\\/"),
            character if character < ' ' || random.one_in(12) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            character => out.push(character),
        }
    }
    out.push('"');
}

const TEXTS: [&str; 12] = [
    "",
    "a",
    "blithely final deposits",
    "a longer text of more than thirty-two bytes, with {brackets} and [lists]",
    "\"quoted\"",
    "back\\slash\\",
    "tab\tline\n",
    "größe",
    "😀 and 漢字",
    "}",
    "],{\"a\":1",
    "a/b",
];

/// A value of `data_type` (or NULL) as JSON text.
pub(crate) fn value(random: &mut Random, data_type: &DataType, out: &mut String) {
    space(random, out);
    if random.one_in(9) {
        out.push_str("null");
    } else {
        match data_type {
            DataType::Boolean => out.push_str(random.pick::<&str>(&["true", "false"])),
            DataType::Int64 | DataType::Date32 | DataType::Int16 | DataType::Timestamp(..) => {
                let number = match random.below(12) {
                    0 if data_type == &DataType::Int64 => *random.pick(&[i64::MIN, i64::MAX, -1, 1 << 53]),
                    1 => random.below(30_000) as i64 - 15_000,
                    _ => random.below(20) as i64,
                };
                out.push_str(&number.to_string());
            }
            DataType::Float64 => match random.below(6) {
                0 => out.push_str(random.pick::<&str>(&[
                    "1e5",
                    "-2.5E-3",
                    "1.7976931348623157e308",
                    "-0.0",
                    "5e-324",
                    "0",
                ])),
                _ => out.push_str(&format!("{}.{:02}", random.below(20) as i64 - 5, random.below(100))),
            },
            DataType::Decimal128(..) => {
                let text = format!("{}.{:02}", random.below(2000), random.below(100));
                if random.one_in(3) {
                    string(random, &text, out);
                } else {
                    out.push_str(&text);
                }
            }
            DataType::Utf8 => {
                if random.one_in(12) {
                    let other = any_type(random, 2);
                    value(random, &other, out);
                } else {
                    let text = *random.pick(&TEXTS);
                    string(random, text, out);
                }
            }
            DataType::Struct(fields) => object(random, fields, out),
            DataType::List(element) => {
                out.push('[');
                let count = random.below(5);
                for at in 0..count {
                    if at > 0 {
                        out.push(',');
                    }
                    value(random, element.data_type(), out);
                }
                space(random, out);
                out.push(']');
            }
            other => panic!("no values of {other}"),
        }
    }
    space(random, out);
}

/// An object of these fields: some missing, some unknown ones added, some twice, sometimes in another order.
pub(crate) fn object(random: &mut Random, fields: &Fields, out: &mut String) {
    let mut present: Vec<Option<&Arc<Field>>> = fields.iter().map(Some).collect();
    if random.one_in(4) {
        for at in (1..present.len()).rev() {
            present.swap(at, random.below(at + 1));
        }
    }
    if random.one_in(3) {
        present.remove(random.below(present.len()));
    }
    if random.one_in(3) {
        present.insert(random.below(present.len() + 1), None);
    }
    if random.one_in(6) && !present.is_empty() {
        present.push(present[random.below(present.len())]);
    }
    out.push('{');
    for (at, field) in present.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        space(random, out);
        match field {
            Some(field) => {
                string(random, field.name(), out);
                space(random, out);
                out.push(':');
                value(random, field.data_type(), out);
            }
            None => {
                let name = format!("unknown{}", random.below(5));
                string(random, &name, out);
                out.push(':');
                let data_type = any_type(random, 2);
                value(random, &data_type, out);
            }
        }
    }
    space(random, out);
    out.push('}');
}

/// A path into these fields, through structs, and its type.
pub(crate) fn path(random: &mut Random, base: &FieldPath, fields: &Fields) -> (FieldPath, DataType) {
    let field = &fields[random.below(fields.len())];
    let here = base.child(field.name());
    match field.data_type() {
        DataType::Struct(below) if !random.one_in(4) => path(random, &here, below),
        data_type => (here, data_type.clone()),
    }
}

fn domain(random: &mut Random, data_type: &DataType) -> Domain {
    let low = random.below(16) as i128 - 2;
    let high = low + random.below(20) as i128;
    let values = match data_type {
        DataType::Boolean => Domain::point(Scalar::Boolean(random.one_in(2))),
        DataType::Float64 => Domain::interval(
            Bound::Included(Scalar::Float(low as f64)),
            if random.one_in(3) { Bound::Unbounded } else { Bound::Excluded(Scalar::Float(high as f64)) },
        ),
        DataType::Decimal128(..) => {
            Domain::interval(Bound::Included(Scalar::Int(low * 10_000)), Bound::Included(Scalar::Int(high * 10_000)))
        }
        DataType::Utf8 => {
            let text = *random.pick(&TEXTS);
            if random.one_in(2) {
                Domain::point(Scalar::Utf8(Arc::from(text))).complement()
            } else {
                Domain::interval(Bound::Included(Scalar::Utf8(Arc::from(text))), Bound::Unbounded)
            }
        }
        DataType::Struct(_) | DataType::List(_) => Domain::not_null(),
        _ if random.one_in(3) => Domain::points((0..5).map(|at| Scalar::Int(low + at * 3))),
        _ => Domain::interval(Bound::Excluded(Scalar::Int(low)), Bound::Included(Scalar::Int(high))),
    };
    match random.below(8) {
        0 => Domain::null(),
        1 => Domain::not_null(),
        2 | 3 => values.union(&Domain::null()),
        _ => values,
    }
}

/// A plan over records of these fields.
pub(crate) fn plan(random: &mut Random, fields: &Fields) -> ScanPlan {
    let root = FieldPath::new([] as [&str; 0]);
    let unnest = (0..6).map(|_| path(random, &root, fields)).find_map(|(path, data_type)| match data_type {
        DataType::List(element) => Some((path, element)),
        _ => None,
    });
    let any_path = |random: &mut Random| match &unnest {
        Some((list, element)) if random.one_in(2) => match element.data_type() {
            DataType::Struct(below) if !random.one_in(5) => path(random, list, below),
            data_type => (list.clone(), data_type.clone()),
        },
        _ => loop {
            let (path, data_type) = path(random, &root, fields);
            if unnest.as_ref().is_none_or(|(list, _)| !path.starts_with(list)) {
                break (path, data_type);
            }
            if random.one_in(20) {
                break (root.child("nowhere"), DataType::Int64);
            }
        },
    };
    let columns =
        (0..random.below(6)).map(|_| any_path(random)).map(|(path, data_type)| Column { path, data_type }).collect();
    let mut predicate = Conjunction::all();
    let mut predicate_types = Vec::new();
    for _ in 0..random.below(4) {
        let (path, data_type) = any_path(random);
        let domain = domain(random, &data_type);
        predicate = predicate.and(path.clone(), domain);
        predicate_types.push(Column { path, data_type });
    }
    let unnest = unnest.map(|(path, _)| Unnest { path, keeps_empty: random.one_in(2) });
    ScanPlan {
        columns,
        predicate,
        predicate_types,
        unnest,
        on_error: OnError::Fail,
        strict: random.one_in(3),
        positions: random.one_in(2),
        map: random.one_in(2),
    }
}
