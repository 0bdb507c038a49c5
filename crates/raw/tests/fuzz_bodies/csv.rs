//! Arbitrary bytes as a CSV file.

use std::sync::Arc;

use thermocline_raw::csv::{BigIntegers, CsvDecoder, CsvFormat, CsvOptions, InferOptions, Sample, Splitter, infer};
use thermocline_raw::{OnError, ScanPlan};

use super::{Choices, Outcome, assert_same, decode, plan};

/// Bytes at the front of the input that steer.
pub const CHOICE_BYTES: usize = 24;

/// Any bytes are a table or an error; pieces give what the whole gives; strictness only refuses.
pub fn run(input: &[u8]) {
    let (mut choices, content) = Choices::split(input, CHOICE_BYTES);
    let options = InferOptions {
        csv: CsvOptions {
            delimiter: [None, Some(b','), Some(b';'), Some(b'\t')][usize::from(choices.below(4))],
            quote: [Some(b'"'), Some(b'"'), Some(b'\''), None][usize::from(choices.below(4))],
            escape: choices.one_in(3).then_some(b'\\'),
            has_header: [None, Some(true), Some(false)][usize::from(choices.below(3))],
            null_text: Arc::from(if choices.one_in(3) { "NA" } else { "" }),
        },
        sample_rows: usize::from(choices.byte()),
        big_integers: if choices.one_in(2) { BigIntegers::Utf8 } else { BigIntegers::Float64 },
        on_error: if choices.one_in(2) { OnError::Skip } else { OnError::Fail },
    };
    let sample = Sample { file: Arc::from("t.csv"), bytes: content, is_whole: !choices.one_in(3) };
    let Ok((schema, format)) = infer([sample], &options) else { return };
    assert_eq!(schema.fields().len(), format.column_names.len());
    let mut plan = plan(&mut choices, &schema);
    let whole = decode_whole(content, &plan, &format);
    let pieces = piece_ends(&mut choices, content, &format);
    let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).expect("a plan over inferred columns");
    assert_same(&whole, &decode(&mut decoder, content, &pieces), "pieces");
    if plan.on_error == OnError::Skip && !format.has_header {
        assert_eq!(whole.1, None, "skipping fails on nothing but a header");
    }
    // What passes strictly reads the same otherwise.
    plan.strict = true;
    let strict = decode_whole(content, &plan, &format);
    if strict.1.is_none() && strict.0.skipped_count == 0 {
        plan.strict = false;
        assert_same(&strict, &decode_whole(content, &plan, &format), "strict");
    }
}

fn decode_whole(content: &[u8], plan: &ScanPlan, format: &CsvFormat) -> Outcome {
    let mut decoder = CsvDecoder::new(plan, format, Arc::from("t.csv")).expect("a plan over inferred columns");
    decode(&mut decoder, content, &[])
}

/// The record ends a splitter finds in pieces of a few bytes.
fn piece_ends(choices: &mut Choices<'_>, content: &[u8], format: &CsvFormat) -> Vec<usize> {
    let mut splitter = Splitter::new(format, 0);
    let mut ends = Vec::new();
    let piece_bytes = usize::from(choices.byte()) + 1;
    let mut start = 0;
    for piece in content.chunks(piece_bytes) {
        let end = splitter.last_record_end(piece);
        if end > 0 {
            ends.push(start + end);
        }
        start += piece.len();
    }
    ends
}
