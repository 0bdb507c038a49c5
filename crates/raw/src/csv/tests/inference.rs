//! Types, names, delimiters and headers guessed from samples.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use thermocline_predicate::FieldPath;

use super::super::decoder::CsvDecoder;
use super::super::dialect::{CsvFormat, CsvOptions};
use super::super::infer::{InferOptions, Sample, infer};
use super::super::types::{BigIntegers, ValueKind};
use super::for_seeds;
use super::structure::{random_content, random_marks};
use crate::leaf::LeafBuilder;
use crate::{Column, Decoder, OnError, RawError, ScanPlan};

fn sample(content: &[u8]) -> Sample<'_> {
    Sample { file: Arc::from("/data/t.csv"), bytes: content, is_whole: true }
}

fn infer_one(content: &[u8]) -> (SchemaRef, CsvFormat) {
    infer([sample(content)], &InferOptions::default()).unwrap()
}

/// `name type, …`
fn shown(schema: &SchemaRef) -> String {
    let fields: Vec<_> =
        schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    fields.join(", ")
}

fn type_of(values: &[&str]) -> DataType {
    type_with(values, BigIntegers::Float64)
}

fn type_with(values: &[&str], big_integers: BigIntegers) -> DataType {
    let content = format!("name,v\n{}", values.iter().map(|value| format!("x,{value}\n")).collect::<String>());
    let mut options = InferOptions { big_integers, ..InferOptions::default() };
    options.csv.has_header = Some(true);
    let (schema, _) = infer([sample(content.as_bytes())], &options).unwrap();
    schema.field(1).data_type().clone()
}

fn timestamp(unit: TimeUnit, zone: Option<&str>) -> DataType {
    DataType::Timestamp(unit, zone.map(Into::into))
}

#[test]
fn each_kind_of_value_has_its_type() {
    for value in ["true", "FALSE", "True"] {
        assert_eq!(type_of(&[value]), DataType::Boolean, "{value}");
    }
    for value in ["0", "-12", "007", "9223372036854775807", "-9223372036854775808"] {
        assert_eq!(type_of(&[value]), DataType::Int64, "{value}");
    }
    for value in ["1.5", "-.5", "5.", "1e9", "1.5E-3", "NaN", "nan", "inf", "-inf", "9223372036854775808"] {
        assert_eq!(type_of(&[value]), DataType::Float64, "{value}");
    }
    for value in ["2026-01-31", "2024-02-29", "0001-01-01"] {
        assert_eq!(type_of(&[value]), DataType::Date32, "{value}");
    }
    for value in ["2026-01-31 12:34:56", "2026-01-31T12:34:56.123456", "2026-01-31 12:34", "1000-01-01 00:00:00"] {
        assert_eq!(type_of(&[value]), timestamp(TimeUnit::Microsecond, None), "{value}");
    }
    for value in ["2026-01-31T12:34:56Z", "2026-01-31 12:34:56.5+02:00", "2026-01-31 12:34:56-0130"] {
        assert_eq!(type_of(&[value]), timestamp(TimeUnit::Microsecond, Some("UTC")), "{value}");
    }
    for value in [
        "a",
        "-",
        ".",
        "1.2.3",
        "1e",
        "+5",
        " 1",
        "1 ",
        "0x1",
        "1_000",
        "2026-02-30",
        "2026-13-01",
        "2026-1-1",
        "2026-01-31 24:00:00",
        "2026-01-31T",
        "1e999",
        "t",
        "yes",
        "NULL",
        "-infinity",
    ] {
        assert_eq!(type_of(&[value]), DataType::Utf8, "{value}");
    }
}

#[test]
fn kinds_widen_by_the_documented_rule() {
    assert_eq!(type_of(&["1", "2.5"]), DataType::Float64);
    assert_eq!(type_of(&["", "3", ""]), DataType::Int64);
    assert_eq!(type_of(&["", "\"\""]), DataType::Utf8);
    assert_eq!(type_of(&["true", "1"]), DataType::Utf8);
    assert_eq!(type_of(&["2026-01-31", "5"]), DataType::Utf8);
    assert_eq!(type_of(&["2026-01-31", "2026-01-31 01:00:00"]), timestamp(TimeUnit::Microsecond, None));
    assert_eq!(type_of(&["2026-01-31", "2026-01-31 01:00:00Z"]), DataType::Utf8);
    assert_eq!(type_of(&["2026-01-31 01:00:00", "2026-01-31 01:00:00Z"]), DataType::Utf8);
    let fine = "2026-01-31 01:00:00.123456789";
    assert_eq!(type_of(&["2026-01-31 01:00:00", fine]), timestamp(TimeUnit::Nanosecond, None));
    assert_eq!(type_of(&["2026-01-31", fine]), timestamp(TimeUnit::Nanosecond, None));
    // Nanoseconds reach from 1677 to 2262 only.
    assert_eq!(type_of(&["0001-01-01 01:00:00", fine]), DataType::Utf8);
    assert_eq!(type_of(&[fine, "9999-12-31"]), DataType::Utf8);
    assert_eq!(type_of(&["9999-12-31", "2026-01-31", fine]), DataType::Utf8);
}

#[test]
fn integers_beyond_64_bits_are_doubles_or_text_by_option() {
    let values = ["1", "99999999999999999999"];
    assert_eq!(type_with(&values, BigIntegers::Float64), DataType::Float64);
    assert_eq!(type_with(&values, BigIntegers::Utf8), DataType::Utf8);
}

#[test]
fn every_recognised_text_is_accepted_by_its_type_and_by_every_wider_one() {
    const PARTS: [&str; 22] = [
        "1",
        "20",
        "2026",
        "-",
        "+",
        ".",
        "e",
        "-01",
        "-31",
        "T",
        " ",
        "12:34",
        ":56",
        "Z",
        "true",
        "nan",
        "inf",
        "99999999999",
        "0",
        "+02:00",
        ".123456789",
        "9",
    ];
    for_seeds(30_000, |random| {
        let mut text = || {
            let text: String = (0..=random.below(5)).map(|_| *random.pick(&PARTS)).collect();
            if random.one_in(3) { format!("2026-01-31 12:34{text}") } else { text }
        };
        let (a, b) = (text(), text());
        let kinds = [&a, &b].map(|text| ValueKind::of(text.as_bytes(), BigIntegers::Float64));
        let wider = kinds[0].widen(kinds[1]);
        assert_eq!(wider, kinds[1].widen(kinds[0]), "{a} {b}");
        for kind in [kinds[0], wider] {
            let mut builder = LeafBuilder::new(&kind.data_type()).unwrap();
            assert_eq!(builder.append_text(a.as_bytes()), Ok(()), "{a} as {kind:?}");
        }
    });
}

#[test]
fn names_are_made_unique_and_never_empty() {
    let (schema, format) = infer_one(b"a,a,,a_1,a,\"q \"\"x\"\"\"\n1,2,3,4,5,6\n");
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "a_2", "column_3", "a_1", "a_3", "q \"x\""]);
    assert_eq!(format.column_names, names.into_iter().map(Arc::from).collect::<Vec<_>>());
    assert_eq!(shown(&infer_one(b"1,x\n2,y\n").0), "column_1 Int64, column_2 Utf8");
}

#[test]
fn very_many_columns_may_have_the_same_name() {
    let count = 100_000;
    let text = ["a".to_owned(), ",a".repeat(count - 1), "\n".to_owned()].concat();
    let mut options = InferOptions::default();
    options.csv.has_header = Some(true);
    let (schema, _) = infer([sample(text.as_bytes())], &options).unwrap();
    assert_eq!((schema.field(1).name().as_str(), schema.fields().len()), ("a_1", count));
    assert_eq!(schema.field(count - 1).name(), "a_99999");
}

#[test]
fn a_header_is_text_over_values_or_distinct_text_over_text() {
    let is_header = |content: &[u8]| infer_one(content).1.has_header;
    assert!(is_header(b"id,name\n1,a\n2,b\n"));
    assert!(!is_header(b"1,a\n2,b\n"));
    assert!(is_header(b"first,second\nx,y\n"));
    assert!(!is_header(b"x,x\nx,y\n"));
    assert!(!is_header(b"x,\ny,z\n"));
    assert!(is_header(b"id,when\n"));
    assert!(!is_header(b"1,when\n"));
    assert!(is_header(b"2024,when\n,2024-01-01\n"));
    assert!(!is_header(b"2024,a\n2025,b\n"));
}

#[test]
fn a_header_of_texts_may_lack_names_of_empty_columns_and_repeat_others() {
    let names = |content: &[u8]| {
        let (_, format) = infer_one(content);
        format.has_header.then(|| format.column_names.join(" "))
    };
    let is = |names: &str| Some(names.to_owned());
    assert_eq!(names(b"name,city,\nann,rome,\nbob,oslo,\n"), is("name city column_3"));
    assert_eq!(names(b"name,,city,\"\"\nann,,rome,\n"), is("name column_2 city column_4"));
    assert_eq!(names(b"name,city,\nann,rome,\nbob,oslo,x\n"), None);
    assert_eq!(names(b",,\n,,\n"), None);
    assert_eq!(names(b"name,city,city\nann,rome,oslo\n"), is("name city city_1"));
    // A value that its column has again.
    assert_eq!(names(b"yes,yes,ann\nno,no,bob\nno,\"yes\",eve\n"), None);
    assert_eq!(names(b"name,city,city\nann,rome,oslo\nname,city,city\n"), None);
    // Names need not differ from each other's values.
    assert_eq!(names(b"name,city,city\ncity,name,oslo\n"), is("name city city_1"));
}

#[test]
fn the_delimiter_is_the_one_that_divides_all_records_alike() {
    let delimiter = |content: &[u8]| infer_one(content).1.delimiter;
    assert_eq!(delimiter(b"a,b\n1,2\n"), b',');
    assert_eq!(delimiter(b"a;b;c\n1,5;2;3\n1;2;3\n"), b';');
    assert_eq!(delimiter(b"a\tb\n1, 2\tx\n"), b'\t');
    assert_eq!(delimiter(b"1|2|3\n4|5|6\n"), b'|');
    assert_eq!(delimiter(b"a;b\n\"x;\ny\";2\n\n1;2\n"), b';');
    assert_eq!(delimiter(b"single\ncolumn\n"), b',');
    assert_eq!(delimiter(b"1|a|"), b'|');
    let mut options = InferOptions::default();
    options.csv.escape = Some(b'"');
    assert_eq!(infer([sample(b"\"a,b\";1\n\"c\";2\n")], &options).unwrap().1.delimiter, b';');
    let mut options = InferOptions::default();
    options.csv.delimiter = Some(b':');
    let (schema, format) = infer([sample(b"a:b\n1:2\n")], &options).unwrap();
    assert_eq!((schema.fields().len(), format.delimiter), (2, b':'));
}

#[test]
fn the_byte_order_mark_and_crlf_leave_no_trace() {
    let (schema, format) = infer_one(b"\xef\xbb\xbfid,name\r\n1,\"a\"\r\n\r\n2,b");
    assert_eq!(shown(&schema), "id Int64, name Utf8");
    assert!(format.has_header);
}

#[test]
fn lines_that_end_with_cr_alone_are_an_error_with_their_place() {
    let message = |content: &[u8]| infer([sample(content)], &InferOptions::default()).unwrap_err().to_string();
    let expected = "/data/t.csv, line 1, byte 7: expected LF or CRLF at the end of the line (a CR within a field stands \
                    between quotes), found CR without LF in 'name\\r1'";
    assert_eq!(message(b"id,name\r1,Ann\r2,Bob\r"), expected);
    assert_eq!(message(b"id,name\r1,Ann\r2,Bob\r\n3,Eve\r\n"), expected);
    assert!(message(b"\xef\xbb\xbfid\r1\r2").contains("byte 5: "));
    // Also where records are left out, and in files behind the first.
    let skip = InferOptions { on_error: OnError::Skip, ..InferOptions::default() };
    assert!(infer([sample(b"id,name\r1,Ann\r")], &skip).is_err());
    assert!(infer([sample(b"id,name\n1,Ann\n"), sample(b"id,name\r1,Ann\r")], &skip).is_err());
    // And where no line is a header.
    let mut no_header = InferOptions::default();
    no_header.csv.has_header = Some(false);
    for content in [&b"1,Ann\r2,Bob\r"[..], b"1,Ann\r2,Bob", b"\n1,Ann\r2,Bob\r"] {
        let message = infer([sample(content)], &no_header).unwrap_err().to_string();
        assert!(message.contains("found CR without LF in 'Ann\\r2'"), "{message}");
    }
    assert!(infer([sample(b"1,\"A\rnn\"\r")], &no_header).is_ok());
    // The file goes on: no record ends in its sample.
    let cut = Sample { is_whole: false, ..sample(b"id,name\r1,Ann\r2,B") };
    let cut = infer([cut], &InferOptions::default()).unwrap_err().to_string();
    assert!(cut.contains("its lines end with CR, expected LF or CRLF"), "{cut}");
    // Where it is data, or the end of a last line that is cut short.
    for (content, options, names) in [
        (&b"id,\"na\rme\"\n1,Ann\n"[..], &InferOptions::default(), ["id", "na\rme"]),
        (b"id,name\n1,A\rnn\n", &InferOptions::default(), ["id", "name"]),
        (b"id,name\r", &InferOptions::default(), ["id", "name"]),
        (b"1,A\rnn\n2,Bob\n", &no_header, ["column_1", "column_2"]),
    ] {
        let (schema, _) = infer([sample(content)], options).unwrap();
        let found: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(found, names, "{}", content.escape_ascii());
    }
}

#[test]
fn utf_16_is_an_error_that_says_so() {
    for (content, mark) in [(&b"\xff\xfei\0d\0\n\0"[..], "FF FE"), (b"\xfe\xff\0i\0d\0\n", "FE FF")] {
        let message = infer([sample(content)], &InferOptions::default()).unwrap_err().to_string();
        let expected =
            format!("/data/t.csv, line 1, byte 0: expected text in UTF-8, found the mark of UTF-16 ({mark})");
        assert_eq!(message, expected);
    }
}

#[test]
fn a_file_without_records_has_no_columns_to_infer() {
    let message = |content: &[u8]| infer([sample(content)], &InferOptions::default()).unwrap_err().to_string();
    assert!(message(b"").contains("/data/t.csv: no columns can be inferred: the file is empty; declare them"));
    assert!(message(b"\xef\xbb\xbf").contains("empty"));
    assert!(message(b"\n\r\n").contains("no whole record"));
    // An empty file beside others does no harm.
    let (schema, _) = infer([sample(b""), sample(b"a,b\n1,2\n")], &InferOptions::default()).unwrap();
    assert_eq!(shown(&schema), "a Int64, b Int64");
}

#[test]
fn a_ragged_or_unclosed_sample_is_an_error_with_its_line_unless_records_are_skipped() {
    let fail = |content: &[u8]| match infer([sample(content)], &InferOptions::default()) {
        Ok(_) => panic!("accepted"),
        Err(error) => (error.fault().unwrap().line.unwrap(), error.to_string()),
    };
    let (line, message) = fail(b"a,b\n1,2\n\n3\n");
    assert_eq!(line, 4);
    assert!(message.contains("expected 2 fields, found 1 field: '3'"), "{message}");
    assert_eq!(fail(b"a,b\n1,\"x\ny\"\n3,\"\n\n").0, 4);
    assert_eq!(fail(b"a,b\n1,\"x\"y\n").0, 2);
    assert_eq!(fail(b"a,\xff\n1,2\n").0, 1);
    let mut options = InferOptions { on_error: OnError::Skip, ..InferOptions::default() };
    let (schema, _) = infer([sample(b"a,b\n1,2\n3\n4,5,6\n7,\"8\"9\n10,\"")], &options).unwrap();
    assert_eq!(shown(&schema), "a Int64, b Int64");
    assert!(infer([sample(b"\"a\"x,b\n1,2\n")], &options).is_err());
    options.csv.has_header = Some(false);
    assert_eq!(shown(&infer([sample(b"\"a\"x,b\n1,2\n")], &options).unwrap().0), "column_1 Int64, column_2 Int64");
}

#[test]
fn a_sample_is_cut_at_its_last_whole_record_and_at_sample_rows() {
    let cut = Sample { is_whole: false, ..sample(b"a,b\n1,2\n3,\"x") };
    assert_eq!(shown(&infer([cut], &InferOptions::default()).unwrap().0), "a Int64, b Int64");
    let options = InferOptions { sample_rows: 3, ..InferOptions::default() };
    let content = b"a,b\n1,2\n3,4\nx,y\n";
    assert_eq!(shown(&infer([sample(content)], &options).unwrap().0), "a Int64, b Int64");
}

#[test]
fn a_long_first_file_leaves_rows_to_those_behind_it() {
    let options = |sample_rows| InferOptions { sample_rows, ..InferOptions::default() };
    let long = ["a\n", &"1\n".repeat(100)].concat();
    let infer_with = |sample_rows, second: &'static [u8]| {
        shown(&infer([sample(long.as_bytes()), sample(second)], &options(sample_rows)).unwrap().0)
    };
    assert_eq!(infer_with(100, b"a\n2.5\n"), "a Float64");
    assert_eq!(infer_with(100, &b"a\n2\n3\n4\n5.5\n"[..]), "a Float64");
    // Too few for a share each: the header needs the record behind it.
    assert_eq!(infer_with(2, b"a\n2.5\n"), "a Int64");
    assert_eq!(infer_with(3, b"a\n2.5\n"), "a Float64");
}

#[test]
fn further_files_widen_the_types_and_must_have_the_same_columns() {
    let infer_all =
        |contents: &[&'static [u8]]| infer(contents.iter().map(|content| sample(content)), &InferOptions::default());
    let (schema, _) = infer_all(&[b"a,b\n1,2\n", b"", b"a,b\n1.5,x\n"]).unwrap();
    assert_eq!(shown(&schema), "a Float64, b Utf8");
    let message = infer_all(&[b"a,b\n1,2\n", b"\nb,a\n1,2\n"]).unwrap_err().to_string();
    assert!(message.contains("line 2, byte 1: expected the header to name column 1 'a', found 'b'"), "{message}");
    let (schema, _) = infer_all(&[b"1,2\n", b"x,2.5\n"]).unwrap();
    assert_eq!(shown(&schema), "column_1 Utf8, column_2 Float64");
    assert!(infer_all(&[b"1,2\n", b"1,2,3\n"]).is_err());
}

#[test]
fn null_text_and_quotes_are_as_told() {
    let csv = CsvOptions { null_text: Arc::from("NA"), quote: Some(b'\''), ..CsvOptions::default() };
    let options = InferOptions { csv, ..InferOptions::default() };
    let (schema, _) = infer([sample(b"a,b\n1,'x,y'\nNA,NA\n")], &options).unwrap();
    assert_eq!(shown(&schema), "a Int64, b Utf8");
}

#[test]
fn whatever_is_sampled_decodes_under_the_inferred_schema() {
    for_seeds(4000, |random| {
        let marks = random_marks(random);
        let content = random_content(random, marks, 300);
        let mut options = InferOptions { on_error: OnError::Skip, ..InferOptions::default() };
        options.csv.quote = marks.quote;
        options.csv.escape = marks.escape;
        options.csv.delimiter = random.one_in(2).then_some(marks.delimiter);
        options.csv.has_header = *random.pick(&[None, Some(false), Some(true)]);
        let shown = content.escape_ascii().to_string();
        let (schema, format) = match infer([sample(&content)], &options) {
            Ok(inferred) => inferred,
            Err(RawError::NothingToInfer { .. }) => return,
            // The first record may be the header.
            Err(RawError::Malformed(_)) if options.csv.has_header != Some(false) => return,
            // All there is, as in a file whose lines end with CR alone.
            Err(RawError::Malformed(_)) if content.contains(&b'\r') && !content.ends_with(b"\n") => return,
            Err(error) => panic!("{error}: {shown}"),
        };
        let columns = schema
            .fields()
            .iter()
            .map(|field| Column { path: FieldPath::root(field.name()), data_type: field.data_type().clone() });
        let mut plan = ScanPlan::all_rows(columns.collect());
        plan.on_error = OnError::Skip;
        let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap();
        decoder.decode(&content, 0).unwrap();
        let skipping = decoder.finish().unwrap().skipped_count;
        // Strictly ragged or wrongly quoted records are all that is skipped.
        options.on_error = OnError::Fail;
        if infer([sample(&content)], &options).is_ok() {
            assert_eq!(skipping, 0, "{schema:?} {shown}");
        }
    });
}
