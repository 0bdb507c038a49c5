//! Bad records: what is said, and where.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit};
use std::ops::Bound;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

use crate::error::MAX_RECORD_BYTES;
use crate::ndjson::NdjsonDecoder;
use crate::{Column, Decoder, OnError, RawError, Rows, ScanPlan, Unnest};

fn column(path: &str, data_type: DataType) -> Column {
    Column { path: FieldPath::new(path.split('.')), data_type }
}

fn run(plan: &ScanPlan, text: &[u8], offset: u64) -> Result<Rows, RawError> {
    let mut decoder = NdjsonDecoder::new(plan, Arc::from("/data/f.ndjson")).unwrap();
    decoder.decode(text, offset)?;
    decoder.finish()
}

/// Offset, column, what was seen and expected.
fn fault(columns: Vec<Column>, text: &str) -> (u64, Option<String>, String, String) {
    let error = run(&ScanPlan::all_rows(columns), text.as_bytes(), 1000).unwrap_err();
    let fault = error.fault().unwrap_or_else(|| panic!("{error}")).clone();
    assert!(error.to_string().starts_with(&format!("/data/f.ndjson, byte {}", fault.offset_bytes)), "{error}");
    assert_eq!(error.to_string().contains("sample_rows"), matches!(error, RawError::Mismatch(_)), "{error}");
    (fault.offset_bytes - 1000, fault.column, fault.seen, fault.expected)
}

#[test]
fn a_value_of_another_type_names_column_place_and_sample_rows() {
    let ints = || vec![column("a", DataType::Int64)];
    let found = |at, column: &str, seen: &str, expected: &str| {
        (at, Some(column.to_owned()), seen.to_owned(), expected.to_owned())
    };
    let good = "{\"a\":1}\n";
    assert_eq!(fault(ints(), &format!("{good}{{\"a\":1.5,\"b\":2}}\n")), found(13, "a", "'1.5'", "Int64"));
    assert_eq!(fault(ints(), "{\"a\":\"12\"}\n"), found(5, "a", "'\"12\"'", "Int64"));
    assert_eq!(fault(ints(), "{\"a\": {\"b\":1}}\n"), found(6, "a", "'{\"b\":1}'", "Int64"));
    assert_eq!(fault(ints(), "{\"a\":true}\n"), found(5, "a", "'true'", "Int64"));
    assert_eq!(fault(ints(), "{\"a\":9223372036854775808}\n"), found(5, "a", "'9223372036854775808'", "Int64"));
    assert_eq!(fault(vec![column("a", DataType::Float64)], "{\"a\":1e999}\n"), found(5, "a", "'1e999'", "Float64"));
    assert_eq!(fault(vec![column("a", DataType::Boolean)], "{\"a\":0}\n"), found(5, "a", "'0'", "Boolean"));
    assert_eq!(fault(vec![column("a.b", DataType::Int64)], "{\"a\":5}\n"), found(5, "a", "'5'", "an object"));
    let list = DataType::new_list(DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into()), true);
    assert_eq!(fault(vec![column("l", list.clone())], "{\"l\":{}}\n"), found(5, "l", "'{}'", "a list"));
    assert_eq!(fault(vec![column("l", list.clone())], "{\"l\":[{},7]}\n"), found(9, "l", "'7'", "an object"));
    assert_eq!(fault(vec![column("l", list)], "{\"l\":[{\"x\":\"\"}]}\n"), found(11, "l.x", "'\"\"'", "Int64"));
}

#[test]
fn where_no_value_begins_the_record_is_malformed_whatever_the_column() {
    let structure = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    let list = DataType::new_list(structure.clone(), true);
    let nested = |data_type: &DataType| vec![column("s", data_type.clone())];
    let unnested = |text: &str| {
        let mut plan = ScanPlan::all_rows(vec![column("s.x", DataType::Int64)]);
        plan.unnest = Some(Unnest { path: FieldPath::root("s"), keeps_empty: false });
        run(&plan, text.as_bytes(), 0).unwrap_err()
    };
    for (text, at) in [("{\"s\":}\n", 5), ("{\"s\":x}\n", 5), ("{\"s\":,\"t\":1}\n", 5), ("{\"s\": +1}\n", 6)] {
        for columns in [nested(&structure), nested(&list), vec![column("s.x", DataType::Int64)]] {
            let (found_at, column, _, expected) = fault(columns, text);
            assert_eq!((found_at, column, expected.as_str()), (at, None, "a JSON value"), "{text}");
        }
        assert!(matches!(unnested(text), RawError::Malformed(fault) if fault.offset_bytes == at), "{text}");
    }
    let (at, _, _, expected) = fault(nested(&list), "{\"s\":[{\"x\":1},]}\n");
    assert_eq!((at, expected.as_str()), (14, "a JSON value"));
}

#[test]
fn malformed_records_name_the_byte() {
    let ints = || vec![column("a", DataType::Int64)];
    let at = |text: &str| {
        let (at, _, seen, expected) = fault(ints(), text);
        (at, seen, expected)
    };
    let found = |at, seen: &str, expected: &str| (at, seen.to_owned(), expected.to_owned());
    assert_eq!(at("{\"a\":1}\n[1]\n"), found(8, "'[1]'", "a JSON object, one a line, beginning with '{'"));
    assert_eq!(at(" x\n"), found(1, "'x'", "a JSON object, one a line, beginning with '{'"));
    assert_eq!(
        at("{\"a\":1,\n\"b\":2}\n"),
        found(7, "the end of the line after '{\"a\":1,'", "a JSON object that ends on the same line with '}'")
    );
    assert_eq!(at("{\"a\" 1}\n"), found(5, "'1}'", "a colon after the field name"));
    assert_eq!(at("{a:1}\n"), found(1, "'a:1}'", "a field name in double quotes"));
    assert_eq!(at("{\"b\":1 \"a\":1}\n"), found(7, "'\"a\":1}'", "a comma or a closing brace"));
    assert_eq!(at("{\"a\":01}\n"), found(5, "'01}'", "a JSON number"));
    assert_eq!(at("{\"a\":nul}\n"), found(5, "'nul}'", "true, false or null"));
    assert_eq!(at("{\"a\":}\n"), found(5, "'}'", "a JSON value"));
    assert_eq!(at("{\"b\":\"x}\n"), found(5, "'\"x}'", "a closing quote for the string that begins here"));
    assert_eq!(at("{\"b\":[1}\n"), found(5, "'[1}'", "a closing bracket for the list that begins here"));
    assert_eq!(at("{\"b\":1}}\n"), found(7, "'}'", "the end of the line after the object"));
}

#[test]
fn wanted_strings_are_valid_utf8_with_sound_escapes() {
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Utf8)]);
    let error = |text: &[u8]| run(&plan, text, 0).unwrap_err().fault().unwrap().clone();
    let invalid = error(b"{\"a\":\"x\xff\"}\n");
    assert_eq!((invalid.offset_bytes, invalid.expected.as_str()), (7, "valid UTF-8"));
    assert_eq!(invalid.seen, "'\\xff\"}'");
    assert_eq!(error(b"{\"a\": [1,\"\xc3\"]}\n").offset_bytes, 10);
    assert_eq!(error(b"{\"a\":\"\\n\xff\"}\n").offset_bytes, 8);
    assert_eq!(error(b"{\"a\":\"ab\\x\"}\n").offset_bytes, 8);
    assert_eq!(error(b"{\"a\":\"\\ud800\"}\n").offset_bytes, 6);
    assert_eq!(error(b"{\"abcd\\q\":1,\"a\":1}\n").offset_bytes, 6);
}

#[test]
fn a_last_line_without_newline_counts_if_it_is_whole() {
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64)]);
    assert_eq!(run(&plan, b"{\"a\":1}\n{\"a\":2,\"b\":{}}", 0).unwrap().row_count, 2);
    // Ends with a brace, but not its own: only the whole grammar tells.
    let error = run(&plan, b"{\"a\":1}\n{\"a\":2,\"b\":{}", 0).unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!(fault.offset_bytes, 21);
    assert!(fault.expected.ends_with("(the file ends in this record)"), "{error}");
    assert!(run(&plan, b"{\"a\":2,\"b\":{}\n", 0).is_ok());
    let error = run(&plan, b"{\"a\":1}\n{\"a\":2", 0).unwrap_err();
    assert_eq!(error.fault().unwrap().offset_bytes, 14, "{error}");
    let skipping = ScanPlan { on_error: OnError::Skip, ..plan };
    let rows = run(&skipping, b"{\"a\":1}\n{\"a\":2", 0).unwrap();
    assert_eq!((rows.row_count, rows.record_count, rows.skipped_count), (1, 1, 1));
}

#[test]
fn nesting_and_lines_have_limits() {
    let nested = |depth: usize| format!("{{\"b\":{}{},\"a\":1}}\n", "[".repeat(depth), "]".repeat(depth));
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64)]);
    assert!(run(&plan, nested(511).as_bytes(), 0).is_ok());
    let error = run(&plan, nested(512).as_bytes(), 0).unwrap_err();
    assert!(matches!(&error, RawError::TooDeep(fault) if fault.offset_bytes == 5 + 511), "{error}");
    assert!(error.to_string().contains("512"), "{error}");
    let text = ScanPlan::all_rows(vec![column("b", DataType::Utf8)]);
    assert!(run(&text, nested(511).as_bytes(), 0).is_ok());
    assert!(matches!(run(&text, nested(512).as_bytes(), 0), Err(RawError::TooDeep(_))));
    let strict = ScanPlan { strict: true, ..plan.clone() };
    assert!(run(&strict, nested(511).as_bytes(), 0).is_ok());
    assert!(matches!(run(&strict, nested(512).as_bytes(), 0), Err(RawError::TooDeep(_))));

    let mut long = b"{\"a\":1}\n{\"a\":2,\"b\":\"".to_vec();
    long.resize(8 + MAX_RECORD_BYTES, b'x');
    long.extend_from_slice(b"\"}\n");
    let error = run(&ScanPlan { on_error: OnError::Skip, ..plan }, &long, 7).unwrap_err();
    assert!(matches!(&error, RawError::RecordTooLong { offset_bytes: 15, .. }), "{error}");
}

#[test]
fn duplicate_fields_count_once_the_first_wins() {
    let plan = ScanPlan::all_rows(vec![
        column("a", DataType::Int64),
        column("s.x", DataType::Int64),
        column("z", DataType::Int64),
    ]);
    let rows =
        run(&plan, b"{\"a\":1,\"a\":2,\"s\":{\"x\":3,\"x\":4},\"s\":{\"x\":5},\"\\u0061\":6,\"z\":null,\"z\":7}\n", 0)
            .unwrap();
    let value = |at: usize| rows.columns[at].as_primitive::<Int64Type>();
    assert_eq!((value(0).value(0), value(1).value(0)), (1, 3));
    assert!(value(2).is_null(0));
}

#[test]
fn a_byte_order_mark_blank_lines_and_carriage_returns_are_no_records() {
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64)]);
    let text = b"\xef\xbb\xbf{\"a\":1}\r\n\r\n \n\n{\"a\":2}\r\n";
    let rows = run(&plan, text, 0).unwrap();
    assert_eq!((rows.row_count, rows.record_count), (2, 2));
    assert!(run(&plan, text, 1).is_err());
    assert_eq!(run(&plan, b"", 0).unwrap().row_count, 0);
    assert_eq!(run(&plan, b"\xef\xbb\xbf", 0).unwrap().row_count, 0);
}

#[test]
fn skipped_records_leave_no_trace_in_any_column() {
    let list = DataType::new_list(DataType::Int64, true);
    let mut plan =
        ScanPlan::all_rows(vec![column("l", list), column("s", DataType::Utf8), column("a", DataType::Int64)]);
    plan.on_error = OnError::Skip;
    let text = b"{\"l\":[1,2],\"s\":\"x\",\"a\":1}\n{\"l\":[3,4],\"s\":\"y\",\"a\":\"bad\"}\n{\"l\":[5,\"bad\"]}\n{\"l\":[6],\"a\":2}\n";
    let rows = run(&plan, text, 0).unwrap();
    assert_eq!((rows.row_count, rows.record_count, rows.skipped_count), (2, 2, 2));
    assert_eq!(rows.columns[0].as_list::<i32>().values().as_primitive::<Int64Type>().values(), &[1, 2, 6]);
}

#[test]
fn after_an_error_the_rows_before_it_can_be_had() {
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64), column("b", DataType::Int64)]);
    let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
    assert!(decoder.decode(b"{\"a\":1,\"b\":1}\n{\"a\":2,\"b\":\"\"}\n{\"a\":3}\n", 0).is_err());
    assert_eq!(decoder.finish().unwrap().row_count, 1);
    decoder.decode(b"{\"a\":3}\n", 0).unwrap();
    assert_eq!(decoder.finish().unwrap().row_count, 1);
}

#[test]
fn unnesting_tells_each_records_elements_and_drops_records_without() {
    let mut plan = ScanPlan::all_rows(vec![
        column("id", DataType::Int64),
        column("items.q", DataType::Float64),
        column("note", DataType::Utf8),
        column("items.part", DataType::Struct(vec![Field::new("n", DataType::Int64, true)].into())),
    ]);
    plan.unnest = Some(Unnest { path: FieldPath::root("items"), keeps_empty: false });
    plan.predicate = Conjunction::all()
        .and(
            FieldPath::root("items").child("q"),
            Domain::interval(Bound::Included(Scalar::Float(2.0)), Bound::Unbounded),
        )
        .and(FieldPath::root("late"), Domain::not_null());
    plan.predicate_types = vec![column("late", DataType::Boolean)];
    let text = br#"{"id":1,"items":[{"q":1},{"q":2,"part":{"n":7}},{"part":{},"q":3.5}],"note":"n1","late":true}
{"id":2,"items":[{"q":5}],"late":null}
{"id":3,"items":[],"late":true}
{"id":4,"items":null,"late":true}
{"id":5,"late":true}
{"late":false,"items":[null,{"q":9}],"id":6}
"#;
    let rows = run(&plan, text, 0).unwrap();
    assert_eq!(rows.record_count, 6);
    assert_eq!(rows.row_count, 3);
    assert_eq!(rows.element_offsets.as_ref().unwrap().as_ref(), &[0, 2, 3]);
    assert_eq!(rows.columns[0].as_primitive::<Int64Type>().values(), &[1, 6]);
    assert_eq!(rows.columns[1].as_primitive::<Float64Type>().values(), &[2.0, 3.5, 9.0]);
    let notes: Vec<Option<&str>> = rows.columns[2].as_string::<i32>().iter().collect();
    assert_eq!(notes, [Some("n1"), None]);
    let parts = rows.columns[3].as_struct();
    assert_eq!((parts.is_null(0), parts.is_null(1), parts.is_null(2)), (false, false, true));

    plan.unnest = Some(Unnest { path: FieldPath::root("items"), keeps_empty: true });
    let rows = run(&plan, text, 0).unwrap();
    assert_eq!(rows.row_count, 3);
    assert_eq!(
        rows.element_offsets.as_ref().unwrap().as_ref(),
        &[0, 2, 2, 2, 2, 3],
        "record 2 fails, 3 to 5 have no element"
    );
    assert_eq!(rows.columns[0].as_primitive::<Int64Type>().values(), &[1, 3, 4, 5, 6]);
}

#[test]
fn plans_that_cannot_be_carried_out_are_refused_with_the_column() {
    let message = |plan: &ScanPlan| NdjsonDecoder::new(plan, Arc::from("f")).unwrap_err().to_string();
    let of = |data_type| message(&ScanPlan::all_rows(vec![column("a.b", data_type)]));
    assert!(of(DataType::Binary).starts_with("column a.b: type Binary"), "{}", of(DataType::Binary));
    assert!(of(DataType::Struct(Vec::<Field>::new().into())).contains("at least one field"));
    assert!(of(DataType::new_list(DataType::Int64, false)).contains("NOT NULL"));
    let twice = vec![Field::new("x", DataType::Int64, true), Field::new("x", DataType::Utf8, true)];
    assert!(of(DataType::Struct(twice.into())).contains("\"x\""));
    assert!(of(DataType::Timestamp(TimeUnit::Second, Some(Arc::from("Europe/Berlin")))).contains("cannot be read"));
    let mut untyped = ScanPlan::all_rows(vec![]);
    untyped.predicate = Conjunction::all().and(FieldPath::root("p"), Domain::not_null());
    assert!(message(&untyped).contains("column p"), "{}", message(&untyped));
}
