//! What the fuzz targets do with arbitrary bytes: infer, derive a plan, decode whole and in pieces, compare.
//!
//! `fuzz/` runs these bodies under libFuzzer; `mutations.rs` runs them over seeded mutations of a small corpus, in
//! every test run. They use the public interface only and fail by panicking.
#![allow(dead_code)]

pub mod csv;
pub mod ndjson;

use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use thermocline_predicate::{Domain, FieldPath, Scalar};
use thermocline_raw::{Column, Decoder, OnError, RawError, Rows, ScanPlan};

/// The bytes that steer a run, taken from the front of the input; zeros when it is used up.
pub struct Choices<'a> {
    left: &'a [u8],
}

impl<'a> Choices<'a> {
    /// The first `len` bytes steer, the rest is content.
    pub fn split(input: &'a [u8], len: usize) -> (Self, &'a [u8]) {
        let (left, content) = input.split_at(len.min(input.len()));
        (Self { left }, content)
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first
    }

    pub fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    pub fn one_in(&mut self, count: u8) -> bool {
        self.below(count) == count - 1
    }
}

/// A domain of the kind of a type; none for types that predicates do not reach.
fn domain(choices: &mut Choices<'_>, data_type: &DataType) -> Option<Domain> {
    let value = match data_type {
        DataType::Int64 => Scalar::Int(i128::from(choices.byte()) - 100),
        DataType::Date32 => Scalar::Int(i128::from(choices.byte()) * 100),
        DataType::Timestamp(..) => Scalar::Int(i128::from(choices.byte()) * 10_000_000_000_000),
        DataType::Float64 => Scalar::Float(f64::from(choices.byte()) / 4.0),
        DataType::Boolean => Scalar::Boolean(choices.one_in(2)),
        DataType::Utf8 => Scalar::Utf8(Arc::from(["", "a", "b", "\u{fc}"][usize::from(choices.below(4))])),
        _ => return None,
    };
    let domain = match choices.below(4) {
        0 => Domain::interval(Bound::Included(value), Bound::Unbounded),
        1 => Domain::interval(Bound::Unbounded, Bound::Excluded(value)),
        2 => Domain::point(value).complement(),
        _ => Domain::not_null(),
    };
    Some(if choices.one_in(4) { domain.union(&Domain::null()) } else { domain })
}

/// A plan over a flat selection of a schema's top-level columns, some under a type that was not inferred.
fn plan(choices: &mut Choices<'_>, schema: &SchemaRef) -> ScanPlan {
    let mut plan = ScanPlan::all_rows(Vec::new());
    for field in schema.fields() {
        if choices.one_in(3) {
            continue;
        }
        let data_type = match choices.below(12) {
            0 => DataType::Int64,
            1 => DataType::Utf8,
            2 => DataType::Boolean,
            _ => field.data_type().clone(),
        };
        plan.columns.push(Column { path: FieldPath::root(field.name()), data_type });
    }
    for _ in 0..choices.below(3) {
        let Some(field) = schema.fields().get(usize::from(choices.below(4))) else { break };
        let path = FieldPath::root(field.name());
        if let Some(domain) = domain(choices, field.data_type()) {
            plan.predicate_types.push(Column { path: path.clone(), data_type: field.data_type().clone() });
            plan.predicate = plan.predicate.and(path, domain);
        }
    }
    plan.on_error = if choices.one_in(2) { OnError::Skip } else { OnError::Fail };
    plan.strict = choices.one_in(2);
    plan
}

/// What decoding gave: the rows, and the message if it failed.
type Outcome = (Rows, Option<String>);

/// Decodes `content`, `ends` being ends of records in it.
fn decode(decoder: &mut dyn Decoder, content: &[u8], ends: &[usize]) -> Outcome {
    let mut start = 0;
    let mut failure: Option<RawError> = None;
    for end in ends.iter().copied().chain([content.len()]) {
        if let Err(error) = decoder.decode(&content[start..end], start as u64) {
            failure = Some(error);
            break;
        }
        start = end;
    }
    let row_count = decoder.row_count();
    let rows = decoder.finish().expect("small columns are built");
    assert_eq!(rows.row_count, row_count);
    let record_count = rows.element_offsets.as_ref().map_or(row_count, |offsets| offsets.len() - 1);
    for column in &rows.columns {
        assert!(column.len() == row_count || column.len() == record_count);
        column.to_data().validate_full().expect("valid arrays");
    }
    (rows, failure.map(|error| error.to_string()))
}

fn assert_same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(one.1, other.1, "{what}");
    assert_eq!(one.0.row_count, other.0.row_count, "{what}");
    assert_eq!(one.0.record_count, other.0.record_count, "{what}");
    assert_eq!(one.0.skipped_count, other.0.skipped_count, "{what}");
    assert_eq!(one.0.element_offsets, other.0.element_offsets, "{what}");
    for (one, other) in one.0.columns.iter().zip(&other.0.columns) {
        // NaN is not equal to itself, its bits are.
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{what}");
    }
}
