//! The four formats over one small result with everything in it that needs care.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use thermocline_engine::arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Date64Array, DictionaryArray, DurationMillisecondArray,
    DurationSecondArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray, MapArray, RunArray,
    StringArray, StructArray, TimestampMicrosecondArray, TimestampSecondArray, UnionArray,
};
use thermocline_engine::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use thermocline_engine::arrow::datatypes::{
    DataType, Field, Fields, Float64Type, Int32Type, Schema, TimestampSecondType, UnionFields,
};
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::{Format, Screen};
use crate::terminal::Paint;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn text(format: Format, screen: Option<Screen>, batches: &[RecordBatch]) -> String {
    let mut writer = format.writer(&batches[0].schema(), screen);
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out).unwrap();
    }
    writer.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn names() -> RecordBatch {
    batch(vec![
        ("name", Arc::new(StringArray::from(vec![Some("plain"), Some("a,b"), Some("say \"hi\""), Some(""), None]))),
        ("n", Arc::new(Int64Array::from(vec![Some(1), Some(-20), None, Some(4), Some(5)]))),
    ])
}

fn nested() -> RecordBatch {
    let fields = Fields::from(vec![Field::new("sku", DataType::Utf8, true), Field::new("q", DataType::Int32, true)]);
    let item = StructArray::new(
        fields,
        vec![
            Arc::new(StringArray::from(vec![Some("x\"y"), None])) as ArrayRef,
            Arc::new(Int32Array::from(vec![Some(3), Some(4)])),
        ],
        None,
    );
    let tags = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    batch(vec![("item", Arc::new(item)), ("tags", Arc::new(tags))])
}

fn numbers(count: i64) -> RecordBatch {
    batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..count)))])
}

#[test]
fn csv_quotes_what_must_be_and_tells_null_from_empty() {
    assert_eq!(text(Format::Csv, None, &[names()]), "name,n\nplain,1\n\"a,b\",-20\n\"say \"\"hi\"\"\",\n\"\",4\n,5\n");
    let lines = batch(vec![("a\nb", Arc::new(StringArray::from(vec!["one\ntwo", "cr\rlf"])))]);
    assert_eq!(text(Format::Csv, None, &[lines]), "\"a\nb\"\n\"one\ntwo\"\n\"cr\rlf\"\n");
}

#[test]
fn a_csv_row_of_one_null_does_not_vanish() {
    let column = batch(vec![("a", Arc::new(Int64Array::from(vec![None, Some(1)])))]);
    assert_eq!(text(Format::Csv, None, &[column]), "a\n\"\"\n1\n");
}

#[test]
fn csv_has_its_header_once_and_without_rows_too() {
    assert_eq!(text(Format::Csv, None, &[numbers(1), numbers(1)]), "n\n0\n0\n");
    assert_eq!(text(Format::Csv, None, &[numbers(0)]), "n\n");
}

#[test]
fn nested_values_are_json_in_every_format() {
    assert_eq!(
        text(Format::Json, None, &[nested()]),
        "{\"item\":{\"sku\":\"x\\\"y\",\"q\":3},\"tags\":[1,null]}\n{\"item\":{\"sku\":null,\"q\":4},\"tags\":null}\n"
    );
    let csv = text(Format::Csv, None, &[nested()]);
    assert!(csv.contains("\"{\"\"sku\"\":\"\"x\\\"\"y\"\",\"\"q\"\":3}\",\"[1,null]\"\n"), "{csv}");
    let table = text(Format::Table, None, &[nested()]);
    assert!(table.contains("│ {\"sku\":null,\"q\":4}"), "{table}");
}

#[test]
fn json_escapes_strings_and_has_no_infinities() {
    let values = batch(vec![
        ("quo\"te", Arc::new(StringArray::from(vec!["tab\tnew\nline\u{1}", "é"]))),
        ("x", Arc::new(Float64Array::from(vec![f64::INFINITY, 0.5]))),
    ]);
    assert_eq!(
        text(Format::Json, None, &[values]),
        "{\"quo\\\"te\":\"tab\\tnew\\nline\\u0001\",\"x\":null}\n{\"quo\\\"te\":\"é\",\"x\":0.5}\n"
    );
}

#[test]
fn json_names_that_are_there_twice_get_a_suffix() {
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let columns = batch(vec![("x", Arc::clone(&one)), ("x_1", Arc::clone(&one)), ("x", one)]);
    assert_eq!(text(Format::Json, None, &[columns]), "{\"x\":1,\"x_1\":1,\"x_2\":1}\n");
}

/// A list of all of `items`, in one row.
#[test]
fn names_within_values_that_are_there_twice_get_a_suffix_too() {
    let number = |value: i32| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
    let fields = ["a", "a", "a_1"].map(|name| Field::new(name, DataType::Int32, true));
    let fields = StructArray::new(Fields::from(fields.to_vec()), vec![number(1), number(2), number(3)], None);
    let keys = Arc::new(StringArray::from(vec!["k", "k", "k_2", "k"]));
    let entries = map(keys, Arc::new(Int32Array::from(vec![1, 2, 3, 4])));
    let values = batch(vec![("s", Arc::new(fields)), ("m", entries)]);
    let (fields, entries) = ("{\"a\":1,\"a_2\":2,\"a_1\":3}", "{\"k\":1,\"k_1\":2,\"k_2\":3,\"k_3\":4}");
    assert_eq!(
        text(Format::Json, None, std::slice::from_ref(&values)),
        format!("{{\"s\":{fields},\"m\":{entries}}}\n")
    );
    assert!(text(Format::Table, None, &[values]).contains(&format!("│ {fields} │ {entries} │")));
}

fn list(items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([items.len()]), items, None))
}

/// A map of one row.
fn map(keys: ArrayRef, values: ArrayRef) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("key", keys.data_type().clone(), false),
        Field::new("value", values.data_type().clone(), true),
    ]);
    let field = Arc::new(Field::new("entries", DataType::Struct(fields.clone()), false));
    let length = keys.len();
    let entries = StructArray::new(fields, vec![keys, values], None);
    Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([length]), entries, None, false))
}

/// All of `columns`, of one row each, in every format, without frames and headers.
fn in_every_format(columns: Vec<(&str, ArrayRef)>) -> [String; 4] {
    let batch = batch(columns);
    let line = |format, index: usize| {
        let text = text(format, None, std::slice::from_ref(&batch));
        text.lines().nth(index).unwrap().trim_matches(['│', '|', ' ']).to_owned()
    };
    [line(Format::Table, 3), line(Format::Csv, 1), line(Format::Markdown, 2), line(Format::Json, 0)]
}

#[test]
fn times_beyond_the_calendar_are_the_numbers_that_are_stored() {
    let far = 9_999_999_999_999_i64;
    let columns: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(TimestampSecondArray::from(vec![far])), "9999999999999"),
        (Arc::new(TimestampSecondArray::from(vec![i64::MIN]).with_timezone("+01:00")), "-9223372036854775808"),
        (Arc::new(Date64Array::from(vec![i64::MAX])), "9223372036854775807"),
        (Arc::new(Date32Array::from(vec![i32::MIN])), "-2147483648"),
        (Arc::new(DurationSecondArray::from(vec![i64::MAX])), "9223372036854775807"),
        (Arc::new(DurationMillisecondArray::from(vec![i64::MIN])), "-9223372036854775808"),
        (
            Arc::new(DictionaryArray::<Int32Type>::new(
                Int32Array::from(vec![0]),
                Arc::new(TimestampSecondArray::from(vec![far])),
            )),
            "9999999999999",
        ),
        (
            Arc::new(
                RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1]), &DurationSecondArray::from(vec![i64::MAX]))
                    .unwrap(),
            ),
            "9223372036854775807",
        ),
    ];
    for (column, number) in columns {
        let [table, csv, markdown, json] = in_every_format(vec![("t", Arc::clone(&column))]);
        let object = format!("{{\"t\":{number}}}");
        assert_eq!(
            [table.as_str(), csv.as_str(), markdown.as_str(), json.as_str()],
            [number, number, number, object.as_str()],
            "{}",
            column.data_type()
        );
        let [table, csv, markdown, json] = in_every_format(vec![("t", list(column))]);
        let (values, object) = (format!("[{number}]"), format!("{{\"t\":[{number}]}}"));
        assert_eq!(
            [table.as_str(), csv.as_str(), markdown.as_str(), json.as_str()],
            [values.as_str(), values.as_str(), values.as_str(), object.as_str()]
        );
    }
}

#[test]
fn times_within_the_calendar_are_text_beside_those_beyond() {
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(i64::MAX), Some(1_500_000), None]));
    let values = batch(vec![("t", times)]);
    assert_eq!(
        text(Format::Csv, None, std::slice::from_ref(&values)),
        "t\n9223372036854775807\n1970-01-01T00:00:01.500\n\"\"\n"
    );
    assert_eq!(
        text(Format::Json, None, &[values]),
        "{\"t\":9223372036854775807}\n{\"t\":\"1970-01-01T00:00:01.500\"}\n{\"t\":null}\n"
    );
}

#[test]
fn a_time_beyond_the_calendar_in_a_union_costs_no_row() {
    let fields = UnionFields::from_iter([(0, Arc::new(Field::new("t", DataType::Date32, true)))]);
    let union = UnionArray::try_new(
        fields,
        ScalarBuffer::from(vec![0_i8]),
        None,
        vec![Arc::new(Date32Array::from(vec![i32::MAX]))],
    )
    .unwrap();
    let [table, _, _, json] = in_every_format(vec![("u", Arc::new(union))]);
    assert_eq!((table.as_str(), json.as_str()), ("{t=2147483647}", "{\"u\":\"{t=2147483647}\"}"));
}

#[test]
fn infinities_within_values_are_words_where_people_read_and_null_in_json() {
    let floats = || -> ArrayRef {
        Arc::new(Float64Array::from(vec![
            Some(f64::NAN),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            None,
            Some(0.5),
        ]))
    };
    let single: ArrayRef = Arc::new(Float32Array::from(vec![f32::NAN]));
    let member = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Float32, true)), single)]);
    let [table, csv, markdown, json] = in_every_format(vec![("f", list(floats())), ("s", Arc::new(member))]);
    assert_eq!(table, "[NaN,inf,-inf,null,0.5] │ {\"x\":NaN}");
    assert_eq!(csv, "\"[NaN,inf,-inf,null,0.5]\",\"{\"\"x\"\":NaN}\"");
    assert_eq!(markdown, "[NaN,inf,-inf,null,0.5] | {\"x\":NaN}");
    assert_eq!(json, "{\"f\":[null,null,null,null,0.5],\"s\":{\"x\":null}}");
}

#[test]
fn keys_of_maps_are_their_text() {
    let values = || -> ArrayRef { Arc::new(StringArray::from(vec![Some("x"), None])) };
    let maps = vec![
        ("numbers", map(Arc::new(Int64Array::from(vec![1, -2])), values())),
        ("truths", map(Arc::new(BooleanArray::from(vec![true, false])), values())),
        ("dates", map(Arc::new(Date32Array::from(vec![0, i32::MAX])), values())),
        ("texts", map(Arc::new(StringArray::from(vec!["a\"b", ""])), values())),
        ("lists", {
            let keys = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), Some(vec![])]);
            map(Arc::new(keys), values())
        }),
    ];
    let [table, _, _, json] = in_every_format(maps);
    let texts = [
        r#"{"1":"x","-2":null}"#,
        r#"{"true":"x","false":null}"#,
        r#"{"1970-01-01":"x","2147483647":null}"#,
        r#"{"a\"b":"x","":null}"#,
        r#"{"[1]":"x","[]":null}"#,
    ];
    assert_eq!(table, texts.join(" │ "));
    let names = ["numbers", "truths", "dates", "texts", "lists"];
    let members: Vec<String> = names.iter().zip(texts).map(|(name, text)| format!("\"{name}\":{text}")).collect();
    assert_eq!(json, format!("{{{}}}", members.join(",")));
}

#[test]
fn encodings_change_nothing_at_any_depth() {
    let dictionary = DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![Some(1), None, Some(0), Some(2)]),
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])),
    );
    let without_values =
        DictionaryArray::<Int32Type>::new(Int32Array::from(vec![None::<i32>]), Arc::new(StringArray::new_null(0)));
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Float64Array::from(vec![Some(0.5), None]))
            .unwrap();
    let nested_times =
        ListArray::from_iter_primitive::<TimestampSecondType, _, _>([Some(vec![Some(0), Some(i64::MAX)])]);
    let sliced =
        ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(9.0)]), Some(vec![Some(1.0), None])]);
    let [table, _, _, json] = in_every_format(vec![
        ("d", list(Arc::new(dictionary))),
        ("e", list(Arc::new(without_values))),
        ("r", list(Arc::new(runs))),
        ("t", Arc::new(nested_times)),
        ("s", Arc::new(sliced.slice(1, 1))),
    ]);
    assert_eq!(
        table,
        "[\"b\",null,\"a\",null] │ [null] │ [0.5,0.5,null] │ [\"1970-01-01T00:00:00\",9223372036854775807] │ [1.0,null]"
    );
    assert_eq!(
        json,
        "{\"d\":[\"b\",null,\"a\",null],\"e\":[null],\"r\":[0.5,0.5,null],\
         \"t\":[\"1970-01-01T00:00:00\",9223372036854775807],\"s\":[1.0,null]}"
    );
}

#[test]
fn markdown_escapes_pipes_and_aligns_numbers() {
    let values = batch(vec![
        ("a|b", Arc::new(StringArray::from(vec![Some("x|y\nz"), None]))),
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    assert_eq!(
        text(Format::Markdown, None, &[values]),
        "| a\\|b | n |\n| --- | ---: |\n| x\\|y<br>z | 1 |\n| *NULL* | 2 |\n"
    );
}

#[test]
fn markdown_keeps_backslashes_and_line_breaks_of_every_kind() {
    for (value, cell) in [
        (r"a\|b", r"a\\\|b"),
        (r"a\\|b", r"a\\\\\|b"),
        (r"C:\Users\", r"C:\Users\"),
        (r"\*", r"\\*"),
        ("a\\\nb", r"a\\<br>b"),
        ("a\rb\r\nc\r", "a<br>b<br>c<br>"),
    ] {
        let values = batch(vec![(value, Arc::new(StringArray::from(vec![value])) as ArrayRef)]);
        assert_eq!(text(Format::Markdown, None, &[values]), format!("| {cell} |\n| --- |\n| {cell} |\n"));
    }
}

#[test]
fn a_table_aligns_numbers_right_and_wide_characters_by_the_columns_they_take() {
    let values = batch(vec![
        ("name", Arc::new(StringArray::from(vec![Some("日本"), Some("é"), None, Some("NULL")]))),
        ("n", Arc::new(Int64Array::from(vec![1, 200, 3, 4]))),
    ]);
    assert_eq!(
        text(Format::Table, None, &[values]),
        "\
┌────────┬─────┐
│ name   │   n │
├────────┼─────┤
│ 日本   │   1 │
│ é      │ 200 │
│ NULL   │   3 │
│ \"NULL\" │   4 │
└────────┴─────┘
"
    );
}

#[test]
fn a_cell_of_two_lines_takes_two() {
    let values = batch(vec![
        ("plan", Arc::new(StringArray::from(vec!["one\n  two"]))),
        ("n", Arc::new(Int64Array::from(vec![7]))),
    ]);
    let table = text(Format::Table, None, &[values]);
    assert!(table.contains("│ one   │ 7 │\n│   two │   │\n"), "{table}");
}

#[test]
fn the_string_null_stands_once_in_quotes_however_high_its_row() {
    let values = batch(vec![
        ("s", Arc::new(StringArray::from(vec![Some("NULL"), None]))),
        ("plan", Arc::new(StringArray::from(vec!["one\ntwo", "one\ntwo"]))),
    ]);
    let table = text(Format::Table, None, std::slice::from_ref(&values));
    assert!(
        table.contains("│ \"NULL\" │ one  │\n│        │ two  │\n│ NULL   │ one  │\n│        │ two  │\n"),
        "{table}"
    );
    let narrow = Screen { width_columns: 12, paint: Paint::PLAIN };
    let records = text(Format::Table, Some(narrow), &[values]);
    assert!(records.contains("s     \"NULL\"\n") && records.contains("s     NULL\n"), "{records}");
}

#[test]
fn a_column_name_of_two_lines_keeps_the_header_whole() {
    let values = batch(vec![("a\nb", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    assert_eq!(text(Format::Table, None, &[values]), "┌──────┐\n│ a\\nb │\n├──────┤\n│    1 │\n└──────┘\n");
}

#[test]
fn a_megabyte_of_text_sets_the_widths_before_the_rows_do() {
    let long = "x".repeat(3000);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 500]));
    let values = batch(vec![("s", texts)]);
    let mut writer = Format::Table.writer(&values.schema(), None);
    let mut out = Vec::new();
    writer.write(&values.slice(0, 300), &mut out).unwrap();
    assert!(out.is_empty(), "900 kB");
    writer.write(&values.slice(300, 200), &mut out).unwrap();
    assert!(out.len() > 500 * 3000, "1.5 MB");
    writer.finish(&mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 3 + 500 + 1);
}

#[test]
fn one_long_text_does_not_widen_all_rows() {
    let long = "x".repeat(100_000);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(), "y", "y"]));
    let table = text(Format::Table, None, &[batch(vec![("s", texts)])]);
    assert!(table.contains(&format!("│ {long} │\n")), "it is whole");
    assert!(table.lines().all(|line| line.chars().count() < 5000 || line.contains('x')), "{}", table.len());
}

#[test]
fn a_cell_of_many_lines_is_written_line_by_line() {
    let lines: Vec<String> = (0..200_000).map(|line| line.to_string()).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![lines.join("\n")]));
    let table = text(Format::Table, None, &[batch(vec![("s", texts)])]);
    assert_eq!(table.lines().count(), 3 + 200_000 + 1);
    assert!(table.ends_with("│ 199999 │\n└────────┘\n"));
}

#[test]
fn a_piped_table_is_never_cut_and_one_on_a_screen_is() {
    let batches = [numbers(700), numbers(534)];
    let piped = text(Format::Table, None, &batches);
    assert_eq!(piped.lines().count(), 3 + 1234 + 1);
    let screen = Screen { width_columns: 80, paint: Paint::PLAIN };
    let shown = text(Format::Table, Some(screen), &batches);
    assert_eq!(shown.lines().count(), 3 + 10 + 1 + 10 + 1 + 1);
    assert!(shown.ends_with("1,234 rows (20 shown)\n"), "{shown}");
    assert!(shown.contains("│ 533 │\n└"), "the last row is shown: {shown}");
    let few = text(Format::Table, Some(screen), &[numbers(40)]);
    assert!(few.ends_with("│ 39 │\n└────┘\n40 rows\n"), "{few}");
}

#[test]
fn the_end_of_a_result_is_shown_over_many_small_batches() {
    let batches: Vec<RecordBatch> = (0..50).map(|_| numbers(1)).chain([numbers(3)]).collect();
    let shown = text(Format::Table, Some(Screen { width_columns: 80, paint: Paint::PLAIN }), &batches);
    assert!(shown.ends_with("│ 0 │\n│ 0 │\n│ 1 │\n│ 2 │\n└───┘\n53 rows (20 shown)\n"), "{shown}");
}

#[test]
fn long_streams_go_out_before_their_end_with_the_widths_of_the_first_rows() {
    let wide = batch(vec![("n", Arc::new(Int64Array::from(vec![123_456_789])))]);
    let mut writer = Format::Table.writer(&wide.schema(), None);
    let mut out = Vec::new();
    writer.write(&numbers(8192), &mut out).unwrap();
    assert!(!out.is_empty());
    writer.write(&wide, &mut out).unwrap();
    writer.finish(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("│ 8191 │\n│ 123456789 │\n└──────┘\n"), "{}", &text[text.len() - 100..]);
}

#[test]
fn a_result_without_rows_still_names_its_columns() {
    assert_eq!(text(Format::Table, None, &[numbers(0)]), "┌───┐\n│ n │\n├───┤\n└───┘\n");
    let screen = Screen { width_columns: 80, paint: Paint::PLAIN };
    assert!(text(Format::Table, Some(screen), &[numbers(0)]).ends_with("0 rows\n"));
}

#[test]
fn a_wide_result_without_rows_shows_its_columns_on_a_screen() {
    let names: Vec<String> = (0..20).map(|index| format!("column_{index}")).collect();
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let wide = batch(names.iter().map(|name| (name.as_str(), Arc::clone(&none))).collect());
    let shown = text(Format::Table, Some(Screen { width_columns: 80, paint: Paint::PLAIN }), &[wide]);
    assert!(shown.starts_with('┌') && shown.contains("│ column_0 │") && shown.contains("│ column_19 │"), "{shown}");
    assert!(shown.contains("0 rows, 20 columns (") && shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn null_is_dim_where_there_are_colours() {
    let screen = Screen { width_columns: 80, paint: Paint::COLOURED };
    let table = text(Format::Table, Some(screen), &[names()]);
    assert!(table.contains("\x1b[2mNULL"), "{table:?}");
}

#[test]
fn a_wide_result_fits_the_screen_and_says_what_is_missing() {
    let one: ArrayRef = Arc::new(StringArray::from(vec!["a long text that takes its space"]));
    let names: Vec<String> = (0..20).map(|index| format!("column_{index}")).collect();
    let wide = batch(names.iter().map(|name| (name.as_str(), Arc::clone(&one))).collect());
    let shown = text(Format::Table, Some(Screen { width_columns: 80, paint: Paint::PLAIN }), &vec![wide; 5]);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(shown.contains("20 columns (") && shown.contains(" shown)"), "{shown}");
}

#[test]
fn few_rows_that_do_not_fit_stand_below_each_other_uncut() {
    let long = "x".repeat(100);
    let values = batch(vec![
        ("text", Arc::new(StringArray::from(vec![Some(long.as_str()), None]))),
        ("number", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    let screen = Screen { width_columns: 80, paint: Paint::PLAIN };
    assert_eq!(
        text(Format::Table, Some(screen), std::slice::from_ref(&values)),
        format!("── row 1 ──\ntext    {long}\nnumber  1\n── row 2 ──\ntext    NULL\nnumber  2\n2 rows\n")
    );
    let wide = Screen { width_columns: 120, paint: Paint::PLAIN };
    assert!(text(Format::Table, Some(wide), &[values]).starts_with('┌'));
}

#[test]
fn a_plan_is_neither_cut_nor_torn_apart() {
    let plan = format!("Filter\n  Scan {}\n", "x".repeat(100));
    let plans = batch(vec![
        ("plan_type", Arc::new(StringArray::from(vec!["logical_plan"]))),
        ("plan", Arc::new(StringArray::from(vec![plan.as_str()]))),
    ]);
    let shown = text(Format::Table, Some(Screen { width_columns: 80, paint: Paint::PLAIN }), &[plans]);
    assert!(shown.starts_with('┌') && !shown.contains('…'), "{shown}");
    assert_eq!(shown.lines().count(), 3 + 2 + 1 + 1, "no empty line after the plan: {shown}");
}
