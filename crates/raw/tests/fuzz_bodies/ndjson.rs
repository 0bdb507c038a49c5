//! Arbitrary bytes as an NDJSON file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use thermocline_predicate::FieldPath;
use thermocline_raw::ndjson::{InferOptions, NdjsonDecoder, infer};
use thermocline_raw::{BigIntegers, Column, OnError, Sample, ScanPlan, Unnest};

use super::{Choices, Outcome, assert_same, decode, plan};

/// Bytes at the front of the input that steer.
pub const CHOICE_BYTES: usize = 32;

/// Any bytes are a table or an error; pieces give what the whole gives; strictness only refuses.
pub fn run(input: &[u8]) {
    let (mut choices, content) = Choices::split(input, CHOICE_BYTES);
    let options = InferOptions {
        sample_rows: usize::from(choices.byte()),
        big_integers: if choices.one_in(2) { BigIntegers::Utf8 } else { BigIntegers::Float64 },
        on_error: if choices.one_in(2) { OnError::Skip } else { OnError::Fail },
        threads: 1,
    };
    let sample = Sample { file: Arc::from("t.ndjson"), bytes: content, is_whole: !choices.one_in(3) };
    let Ok(schema) = infer([sample], &options) else { return };
    let mut plan = plan(&mut choices, &schema);
    for field in schema.fields() {
        nest(&mut choices, &FieldPath::root(field.name()), field, &mut plan);
    }
    // A plan may be refused, for instance for a path through what it reads as text.
    let Ok(mut decoder) = NdjsonDecoder::new(&plan, Arc::from("t.ndjson")) else { return };
    let whole = decode(&mut decoder, content, &[]);
    let pieces = piece_ends(&mut choices, content);
    assert_same(&whole, &decode(&mut decoder, content, &pieces), "pieces");
    if plan.on_error == OnError::Skip {
        assert_eq!(whole.1, None, "skipping fails on nothing");
    }
    // What passes strictly reads the same otherwise.
    plan.strict = true;
    let strict = decode_whole(content, &plan);
    if strict.1.is_none() && strict.0.skipped_count == 0 {
        plan.strict = false;
        assert_same(&strict, &decode_whole(content, &plan), "strict");
    }
}

/// Adds paths below a struct to the plan, and unnests a list now and then.
fn nest(choices: &mut Choices<'_>, path: &FieldPath, field: &Field, plan: &mut ScanPlan) {
    match field.data_type() {
        DataType::Struct(fields) => {
            for field in fields {
                let path = path.child(field.name());
                if choices.one_in(2) {
                    let data_type = field.data_type().clone();
                    plan.columns.push(Column { path: path.clone(), data_type });
                }
                nest(choices, &path, field, plan);
            }
        }
        DataType::List(element) if plan.unnest.is_none() && choices.one_in(2) => {
            plan.unnest = Some(Unnest { path: path.clone(), keeps_empty: choices.one_in(2) });
            // The list itself can no longer be a column beside its elements.
            plan.columns.retain(|column| !column.path.starts_with(path));
            plan.columns.push(Column { path: path.clone(), data_type: element.data_type().clone() });
            nest(choices, path, element, plan);
        }
        _ => {}
    }
}

fn decode_whole(content: &[u8], plan: &ScanPlan) -> Outcome {
    let mut decoder = NdjsonDecoder::new(plan, Arc::from("t.ndjson")).expect("the plan was accepted before");
    decode(&mut decoder, content, &[])
}

/// Some of the newlines.
fn piece_ends(choices: &mut Choices<'_>, content: &[u8]) -> Vec<usize> {
    let every = usize::from(choices.below(4)) + 1;
    let newlines = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(at, _)| at + 1).step_by(every).collect()
}
