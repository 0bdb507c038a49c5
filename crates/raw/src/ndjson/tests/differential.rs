//! Random records and plans: the decoder and the oracle give the same rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use thermocline_seeded::Random;

use super::generator::{any_fields, object, plan};
use super::oracle::{cells, expected};
use crate::ndjson::{InferOptions, NdjsonDecoder, infer};
use crate::{Column, Decoder, OnError, Sample, ScanPlan};

/// Lines of records, some blank, with line ends of both kinds.
fn text(random: &mut Random, fields: &arrow::datatypes::Fields, records: usize) -> String {
    let mut text = String::new();
    for _ in 0..records {
        if random.one_in(15) {
            text.push_str(random.pick::<&str>(&["\n", " \r\n", "\t\n"]));
        }
        object(random, fields, &mut text);
        text.push_str(random.pick::<&str>(&["\n", "\n", "\r\n", " \n"]));
    }
    if random.one_in(4) {
        text.truncate(text.trim_end().len());
    }
    text
}

/// Decodes in pieces of random numbers of lines, finishing now and then.
fn decode(
    random: &mut Random,
    decoder: &mut NdjsonDecoder,
    plan: &ScanPlan,
    text: &str,
) -> (Vec<Vec<super::oracle::Cell>>, u64, u64) {
    let mut rows = Vec::new();
    let (mut records, mut skipped) = (0, 0);
    let mut start = 0;
    while start < text.len() {
        let mut end = start;
        for _ in 0..=random.below(4) {
            end += text[end..].find('\n').map_or(text.len() - end, |at| at + 1);
        }
        decoder.decode(&text.as_bytes()[start..end], start as u64).unwrap();
        start = end;
        if random.one_in(3) || start >= text.len() {
            let piece = decoder.finish().unwrap();
            rows.extend(cells(&piece, plan));
            records += piece.record_count;
            skipped += piece.skipped_count;
        }
    }
    (rows, records, skipped)
}

#[test]
fn random_plans_over_random_records_give_the_oracles_rows() {
    let mut kept = 0;
    for seed in 1..=3000 {
        let random = &mut Random::new(seed);
        let fields = any_fields(random, 3, 7);
        let count = random.below(12);
        let text = text(random, &fields, count);
        let lines: Vec<&str> = text.split('\n').collect();
        for _ in 0..4 {
            let plan = plan(random, &fields);
            let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
            let found = decode(random, &mut decoder, &plan, &text);
            kept += found.0.len();
            assert_eq!(found, expected(&lines, &plan), "seed {seed}\nplan {plan:#?}\n{text}");
        }
    }
    assert!(kept > 10_000, "the plans select next to nothing: {kept}");
}

#[test]
fn whole_records_as_nested_columns_give_the_oracles_rows() {
    for seed in 1..=500 {
        let random = &mut Random::new(seed);
        let fields = any_fields(random, 4, 8);
        let text = text(random, &fields, 10);
        let columns = fields.iter().map(|field| Column {
            path: thermocline_predicate::FieldPath::root(field.name()),
            data_type: field.data_type().clone(),
        });
        let plan = ScanPlan::all_rows(columns.collect());
        let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
        let found = decode(random, &mut decoder, &plan, &text);
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(found, expected(&lines, &plan), "seed {seed}\n{text}");
    }
}

#[test]
fn inferred_schemas_decode_every_sampled_record() {
    for seed in 1..=500 {
        let random = &mut Random::new(seed);
        let (fields, others) = (any_fields(random, 3, 6), any_fields(random, 3, 6));
        let mut all = text(random, &fields, 6).trim_end().to_owned() + "\n";
        all.push_str(&text(random, &others, 6));
        let sample = Sample { file: Arc::from("f"), bytes: all.as_bytes(), is_whole: true };
        let Ok(schema) = infer([sample], &InferOptions::default()) else { continue };
        let columns = schema.fields().iter().map(|field| Column {
            path: thermocline_predicate::FieldPath::root(field.name()),
            data_type: field.data_type().clone(),
        });
        let plan = ScanPlan::all_rows(columns.collect());
        let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
        let found = decode(random, &mut decoder, &plan, &all);
        let lines: Vec<&str> = all.split('\n').collect();
        assert_eq!(found, expected(&lines, &plan), "seed {seed}\n{all}");
    }
}

#[test]
fn skipping_bad_records_keeps_exactly_the_good_ones() {
    let mut skipped = 0;
    for seed in 1..=1500 {
        let random = &mut Random::new(seed);
        let fields = any_fields(random, 3, 6);
        let text = text(random, &fields, 10);
        // Break some lines: a byte gone, a byte changed, cut off, or a value of another type.
        let broken: Vec<String> = text
            .split('\n')
            .map(|line| {
                let mut line = line.to_owned();
                if random.one_in(3) && !line.is_empty() {
                    let at = (0..line.len())
                        .cycle()
                        .skip(random.below(line.len()))
                        .find(|&at| line.is_char_boundary(at))
                        .unwrap();
                    match random.below(4) {
                        0 => drop(line.remove(at)),
                        1 => line.insert_str(
                            at,
                            random.pick::<&str>(&["\"", "{", "}", "]", "[", ",", ":", "\\", "x", "1", "\t", "\u{1}"]),
                        ),
                        2 => line.truncate(at),
                        _ => line = line.replacen(|c: char| c.is_ascii_digit(), "\"x\"", 1),
                    }
                }
                line
            })
            .collect();
        let text = broken.join("\n");
        let lines: Vec<&str> = text.split('\n').collect();
        for _ in 0..3 {
            let mut plan = plan(random, &fields);
            // A predicate that fails early keeps later faults from being noticed, by design.
            plan.predicate = Default::default();
            plan.predicate_types.clear();
            plan.strict = true;
            plan.on_error = OnError::Skip;
            let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
            let (rows, records, bad) = decode(random, &mut decoder, &plan, &text);
            let (expected_rows, expected_records, expected_bad) = expected(&lines, &plan);
            skipped += bad;
            assert_eq!(rows, expected_rows, "seed {seed}\nplan {plan:#?}\n{text}");
            // A record without elements is done with before its other columns are read, by design too.
            if plan.unnest.is_none() {
                assert_eq!((records, bad), (expected_records, expected_bad), "seed {seed}\nplan {plan:#?}\n{text}");
            }
        }
    }
    assert!(skipped > 1000, "next to nothing was broken: {skipped}");
}

#[test]
fn no_line_makes_the_decoder_run_away() {
    let alphabet: Vec<&str> = vec![
        "{", "}", "[", "]", "\"", "\\", ":", ",", "a", "1", "-", ".", "e", "null", "true", " ", "\n", "\\u12",
        "{\"a\":", "ü",
    ];
    for seed in 1..=20_000 {
        let random = &mut Random::new(seed);
        let text: String = (0..random.below(40)).map(|_| *random.pick(&alphabet)).collect();
        let mut plan = ScanPlan::all_rows(vec![Column {
            path: thermocline_predicate::FieldPath::root("a"),
            data_type: if random.one_in(2) { DataType::Utf8 } else { DataType::new_list(DataType::Int64, true) },
        }]);
        plan.on_error = OnError::Skip;
        let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
        decoder.decode(text.as_bytes(), 0).unwrap();
        let lenient = cells(&decoder.finish().unwrap(), &plan);
        plan.strict = true;
        let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
        decoder.decode(text.as_bytes(), 0).unwrap();
        let strict = decoder.finish().unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(
            (cells(&strict, &plan), strict.record_count, strict.skipped_count),
            expected(&lines, &plan),
            "seed {seed} {text:?}"
        );
        assert!(lenient.len() >= strict.row_count);
    }
}
