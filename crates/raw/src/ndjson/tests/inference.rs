//! Types from samples.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::ndjson::{InferOptions, infer};
use crate::{BigIntegers, OnError, RawError, Sample};

fn schema_with(text: &str, options: &InferOptions) -> Result<Vec<(String, DataType)>, RawError> {
    let sample = Sample { file: Arc::from("f.ndjson"), bytes: text.as_bytes(), is_whole: true };
    let schema = infer([sample], options)?;
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
    Ok(schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect())
}

fn type_of(values: &[&str]) -> DataType {
    let text: String = values.iter().map(|value| format!("{{\"a\":{value}}}\n")).collect();
    let schema = schema_with(&text, &InferOptions::default()).unwrap();
    assert_eq!(schema.len(), 1);
    schema[0].1.clone()
}

fn structure(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect())
}

#[test]
fn types_widen_by_the_documented_rule() {
    let list = |element| DataType::new_list(element, true);
    assert_eq!(type_of(&["1", "null", "-5"]), DataType::Int64);
    assert_eq!(type_of(&["1", "2.5"]), DataType::Float64);
    assert_eq!(type_of(&["1e3", "2"]), DataType::Float64);
    assert_eq!(type_of(&["1", "9223372036854775808"]), DataType::Float64);
    assert_eq!(type_of(&["1", "1e999"]), DataType::Utf8);
    assert_eq!(type_of(&["null", "true"]), DataType::Boolean);
    assert_eq!(type_of(&["true", "1"]), DataType::Utf8);
    assert_eq!(type_of(&["1", "\"x\""]), DataType::Utf8);
    assert_eq!(type_of(&["\"2024-01-01\""]), DataType::Utf8);
    assert_eq!(type_of(&["null"]), DataType::Utf8);
    assert_eq!(type_of(&["[]"]), list(DataType::Utf8));
    assert_eq!(type_of(&["[]", "[null,1]", "[2.5]"]), list(DataType::Float64));
    assert_eq!(type_of(&["[1,\"x\"]"]), list(DataType::Utf8));
    assert_eq!(type_of(&["[[1],[]]"]), list(list(DataType::Int64)));
    assert_eq!(type_of(&["[1]", "1"]), DataType::Utf8);
    assert_eq!(type_of(&["{\"x\":1}", "[1]"]), DataType::Utf8);
    assert_eq!(type_of(&["{}"]), DataType::Utf8);
    assert_eq!(
        type_of(&["{\"x\":1}", "null", "{\"y\":{\"z\":true},\"x\":1.5}"]),
        structure(&[("x", DataType::Float64), ("y", structure(&[("z", DataType::Boolean)]))])
    );
    assert_eq!(
        type_of(&["[{\"x\":1},{\"y\":\"\"}]"]),
        list(structure(&[("x", DataType::Int64), ("y", DataType::Utf8)]))
    );
}

#[test]
fn big_integers_are_strings_by_option() {
    let options = InferOptions { big_integers: BigIntegers::Utf8, ..InferOptions::default() };
    let schema = schema_with("{\"a\":1,\"b\":1}\n{\"a\":18446744073709551616,\"b\":2.5}\n", &options).unwrap();
    assert_eq!(schema, [("a".to_owned(), DataType::Utf8), ("b".to_owned(), DataType::Float64)]);
}

#[test]
fn fields_keep_the_order_of_first_appearance_and_duplicates_count_once() {
    let schema =
        schema_with("{\"b\":1,\"\\u0061\":2,\"b\":\"x\"}\n{\"c\":1,\"a\":3}\n", &InferOptions::default()).unwrap();
    let names: Vec<&str> = schema.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(schema[0].1, DataType::Int64);
}

#[test]
fn only_so_many_rows_and_only_whole_ones_are_sampled() {
    let options = InferOptions { sample_rows: 1, ..InferOptions::default() };
    assert_eq!(schema_with("\n{\"a\":1}\n{\"a\":\"x\"}\n", &options).unwrap()[0].1, DataType::Int64);
    let cut = Sample { file: Arc::from("f"), bytes: b"{\"a\":1}\n{\"a\":1.", is_whole: false };
    assert_eq!(infer([cut], &InferOptions::default()).unwrap().field(0).data_type(), &DataType::Int64);
    let first = Sample { file: Arc::from("f"), bytes: b"\xef\xbb\xbf{\"a\":1}", is_whole: true };
    let second = Sample { file: Arc::from("g"), bytes: b"{\"a\":1.5}\r\n", is_whole: true };
    assert_eq!(infer([first, second], &InferOptions::default()).unwrap().field(0).data_type(), &DataType::Float64);
}

#[test]
fn nothing_to_infer_says_so() {
    let message = |text| schema_with(text, &InferOptions::default()).unwrap_err().to_string();
    assert!(message("").contains("f.ndjson") && message("").contains("the file is empty"), "{}", message(""));
    assert!(message("\n \n").contains("no whole record"), "{}", message("\n"));
    assert!(message("{}\n").contains("no whole record with a field"), "{}", message("{}\n"));
    assert!(infer([], &InferOptions::default()).is_err());
}

#[test]
fn bad_records_in_the_sample_are_errors_with_their_place_or_left_out() {
    let text = "{\"a\":1}\n{\"a\":}\n{\"b\":[tru]}\n";
    let error = schema_with(text, &InferOptions::default()).unwrap_err();
    assert_eq!(error.fault().map(|fault| fault.offset_bytes), Some(13), "{error}");
    let options = InferOptions { on_error: OnError::Skip, ..InferOptions::default() };
    assert_eq!(schema_with(text, &options).unwrap(), [("a".to_owned(), DataType::Int64)]);
}

/// Records of every shape, among them ones that contradict each other and fields that come late.
fn mixed_records(seed: u64, record_count: usize) -> String {
    let mut state = seed | 1;
    let mut next = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let values = [
        "null",
        "1",
        "-2.5",
        "true",
        "\"x\"",
        "{\"p\":1}",
        "{\"q\":[1.5]}",
        "[]",
        "[{\"r\":null}]",
        "18446744073709551616",
    ];
    let padding = "x".repeat(100);
    let mut text = String::new();
    for record in 0..record_count {
        // Few values a field, so that most fields have a type of their own.
        let late = if record > record_count / 2 { next(30) } else { next(20) };
        let value = values[((late + next(50) / 49) % values.len() as u64) as usize];
        text.push_str(&format!("{{\"id\":{record},\"f{late}\":{value},\"padding\":\"{padding}\"}}\n"));
        if next(50) == 0 {
            text.push_str(" \n");
        }
    }
    text
}

#[test]
fn a_large_sample_gives_the_same_on_one_thread_and_on_many() {
    for seed in 1..=6 {
        let text = mixed_records(seed, 40_000);
        assert!(text.len() > 4 << 20);
        for sample_rows in [100, 25_000, usize::MAX] {
            let schema = |threads| {
                let options = InferOptions { sample_rows, threads, ..InferOptions::default() };
                schema_with(&text, &options).unwrap()
            };
            let alone = schema(1);
            assert!(alone.len() > 10);
            for threads in [2, 3, 7] {
                assert_eq!(schema(threads), alone, "seed {seed}, {sample_rows} rows, {threads} threads");
            }
        }
    }
}

#[test]
fn the_first_of_several_faults_is_told_whoever_finds_it() {
    let mut text = mixed_records(9, 40_000);
    for share in [0.9, 0.6] {
        let at = (text.len() as f64 * share) as usize;
        let line = at + text[at..].find('\n').unwrap() + 1;
        text.insert_str(line, "{\"a\":tru}\n");
    }
    let message = |threads| {
        let options = InferOptions { sample_rows: usize::MAX, threads, ..InferOptions::default() };
        schema_with(&text, &options).unwrap_err().to_string()
    };
    assert_eq!(message(4), message(1));
    let skipping =
        |threads| InferOptions { sample_rows: 39_999, on_error: OnError::Skip, threads, ..InferOptions::default() };
    assert_eq!(schema_with(&text, &skipping(4)).unwrap(), schema_with(&text, &skipping(1)).unwrap());
}

#[test]
fn a_long_first_file_leaves_rows_to_those_behind_it() {
    let long = "{\"a\":1}\n".repeat(100);
    let sample = |bytes| Sample { file: Arc::from("f"), bytes, is_whole: true };
    let samples = || [sample(long.as_bytes()), sample(b"{\"b\":1}\n"), sample(b"{}\n{\"c\":1}\n")];
    let names = |sample_rows| {
        let options = InferOptions { sample_rows, ..InferOptions::default() };
        let schema = infer(samples(), &options).unwrap();
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(100), ["a", "b", "c"]);
    assert_eq!(names(4), ["a", "b"]);
    assert_eq!(names(1), ["a"]);
}

#[test]
fn an_object_with_very_many_fields_is_text() {
    let map = |count: usize| {
        let fields: Vec<String> = (0..count).map(|field| format!("\"k{field}\":{field}")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let is_struct = |data_type| matches!(data_type, DataType::Struct(_));
    assert!(is_struct(type_of(&[&map(1000)])));
    assert_eq!(type_of(&[&map(1001)]), DataType::Utf8);
    assert_eq!(type_of(&[&format!("[{},{{\"x\":1}}]", map(1000))]), DataType::new_list(DataType::Utf8, true));
    // The record itself is none of them.
    assert_eq!(schema_with(&map(1001), &InferOptions::default()).unwrap().len(), 1001);
}
