//! Lists whose elements are rows as they are; of texts the plain ones are read many at once.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Int64Type};
use thermocline_predicate::{Conjunction, FieldPath};
use thermocline_seeded::Random;

use crate::ndjson::NdjsonDecoder;
use crate::{Column, Decoder, OnError, RawError, Rows, ScanPlan, Unnest};

fn column(path: &str, data_type: DataType) -> Column {
    Column { path: FieldPath::root(path), data_type }
}

fn unnested() -> ScanPlan {
    let unnest = Some(Unnest { path: FieldPath::root("l"), keeps_empty: true });
    ScanPlan { unnest, predicate: Conjunction::all(), ..ScanPlan::all_rows(vec![column("l", DataType::Utf8)]) }
}

fn nested() -> ScanPlan {
    ScanPlan::all_rows(vec![column("l", DataType::new_list(DataType::Utf8, true))])
}

fn run(plan: &ScanPlan, text: &[u8]) -> Result<Rows, RawError> {
    let mut decoder = NdjsonDecoder::new(plan, Arc::from("f")).unwrap();
    decoder.decode(text, 0)?;
    decoder.finish()
}

/// The lists that a scan finds, unnested and as a column, which must be the same.
fn lists(text: &[u8]) -> Vec<Vec<Option<String>>> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let rows = run(&unnested(), text).unwrap();
    let elements: Vec<Option<String>> = rows.columns[0].as_string::<i32>().iter().map(owned).collect();
    let offsets = rows.element_offsets.unwrap();
    let by_element: Vec<Vec<_>> =
        offsets.windows(2).map(|ends| elements[ends[0] as usize..ends[1] as usize].to_vec()).collect();
    let rows = run(&nested(), text).unwrap();
    let column = rows.columns[0].as_list::<i32>();
    let by_record: Vec<Vec<_>> =
        column.iter().map(|list| list.unwrap().as_string::<i32>().iter().map(owned).collect()).collect();
    assert_eq!(by_element, by_record);
    by_element
}

#[test]
fn texts_of_every_length_and_kind_come_as_they_are() {
    let mut random = Random::new(7);
    for round in 0..300 {
        let mut text = String::new();
        let mut expected = Vec::new();
        for _ in 0..1 + random.below(6) {
            let mut list = Vec::new();
            text.push_str("{\"l\":[");
            for element in 0..random.below(9) {
                text.push_str(random.pick::<&str>(if element == 0 {
                    &["", " "]
                } else {
                    &[",", ",", ",", ", ", " ,"]
                }));
                // Most are plain, and about as long as the steps in which they are read.
                let length = random.below(70);
                let plain = "0123456789abcdefghijklmnopqrstuvwxyz-_=[]{},:/".repeat(2)[..length].to_owned();
                let (json, value) = match random.below(12) {
                    0 => ("null".to_owned(), None),
                    1 => ("-1.50".to_owned(), Some("-1.50".to_owned())),
                    2 => (format!("\"{plain}\\\"\""), Some(format!("{plain}\""))),
                    3 => (format!("\"{plain}ä😀\""), Some(format!("{plain}ä😀"))),
                    4 => ("[\"a\", 1]".to_owned(), Some("[\"a\", 1]".to_owned())),
                    _ => (format!("\"{plain}\""), Some(plain)),
                };
                text.push_str(&json);
                list.push(value);
            }
            text.push_str("]}\n");
            expected.push(list);
        }
        assert_eq!(lists(text.as_bytes()), expected, "round {round}: {text}");
    }
}

#[test]
fn a_text_does_not_end_beyond_its_record() {
    // The quote that would close it is the next record's.
    let filling = " ".repeat(40);
    let text = format!("{{\"l\":[\"a\",\"b]}}\n{{\"x\":1,\"l\":[\"c\"]}}{filling}\n");
    for plan in [unnested(), nested()] {
        let error = run(&plan, text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("byte 10:"), "{error}");
        let rows = run(&ScanPlan { on_error: OnError::Skip, ..plan }, text.as_bytes()).unwrap();
        assert_eq!((rows.record_count, rows.skipped_count), (1, 1));
        let values = match rows.columns[0].data_type() {
            DataType::Utf8 => Arc::clone(&rows.columns[0]),
            _ => Arc::clone(rows.columns[0].as_list::<i32>().values()),
        };
        assert_eq!(values.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["c"]);
    }
}

#[test]
fn an_element_that_fails_leaves_nothing_behind() {
    let list = DataType::new_list(DataType::Int64, true);
    let structure = DataType::Struct(vec![Field::new("a", DataType::Int64, true)].into());
    // The first element of a record fails half-way, and one behind others.
    let of_lists = r#"{"l":[[1,"x"]]}
{"l":[[2],[3,4]]}
{"l":[[5],[6,"x"]]}
{"l":[[7]]}
"#;
    let of_structs = r#"{"l":[{"a":1,"a":[},{"a":2}]}
{"l":[{"a":2},{"a":3}]}
{"l":[{"a":5},{"a":{}}]}
{"l":[{"a":7}]}
"#;
    for (data_type, text) in [(list, of_lists), (structure, of_structs)] {
        let plan = ScanPlan { on_error: OnError::Skip, ..unnested() };
        let plan = ScanPlan { columns: vec![column("l", data_type)], ..plan };
        let rows = run(&plan, text.as_bytes()).unwrap();
        assert_eq!((rows.row_count, rows.record_count, rows.skipped_count), (3, 2, 2), "{text}");
        let elements = &rows.columns[0];
        let inner = match elements.as_list_opt::<i32>() {
            Some(lists) => {
                assert_eq!(lists.value_offsets(), [0, 1, 3, 4]);
                lists.values()
            }
            None => elements.as_struct().column(0),
        };
        let expected: &[i64] = if elements.as_list_opt::<i32>().is_some() { &[2, 3, 4, 7] } else { &[2, 3, 7] };
        assert_eq!(inner.as_primitive::<Int64Type>().values(), expected);
    }
}

#[test]
fn a_character_is_whole_in_one_text() {
    // Two halves of one character in neighbours, which would be UTF-8 if they were joined.
    let text = b"{\"l\":[\"plain\",\"\xc3\",\"\xa4\"]}                                        \n";
    for plan in [unnested(), nested()] {
        let error = run(&plan, text).unwrap_err().to_string();
        assert!(error.contains("UTF-8") && error.contains("byte 15"), "{error}");
    }
}
