//! What is said about files that cannot be read, and on which line it happened.

use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

use super::super::decoder::CsvDecoder;
use super::super::dialect::CsvFormat;
use super::super::fault::line_at;
use super::super::index::RecordIndex;
use super::super::splitter::Splitter;
use crate::{Column, Decoder, MAX_RECORD_BYTES, OnError, RawError, Rows, ScanPlan, Unnest};

fn plan(columns: &[(&str, DataType)]) -> ScanPlan {
    let column =
        |(name, data_type): &(&str, DataType)| Column { path: FieldPath::root(name), data_type: data_type.clone() };
    ScanPlan::all_rows(columns.iter().map(column).collect())
}

fn all() -> ScanPlan {
    plan(&[("n", DataType::Int64), ("s", DataType::Utf8)])
}

fn decode(content: &[u8], plan: &ScanPlan) -> (Result<(), RawError>, Rows) {
    let format = CsvFormat::with_columns(["n", "s"]);
    let mut decoder = CsvDecoder::new(plan, &format, Arc::from("/data/t.csv")).unwrap();
    let outcome = decoder.decode(content, 0).map_err(|error| {
        let offset_bytes = error.fault().map(|fault| fault.offset_bytes);
        match offset_bytes {
            Some(offset_bytes) => error.with_line(line_at(content, offset_bytes).unwrap()),
            None => error,
        }
    });
    (outcome, decoder.finish().unwrap())
}

/// The error's message, the line it names, and the rows before it. Skipping must lose just one record.
fn fail(content: &[u8], plan: &ScanPlan) -> (String, u64, usize) {
    let (outcome, rows) = decode(content, plan);
    let error = outcome.unwrap_err();
    let skipping = ScanPlan { on_error: OnError::Skip, ..plan.clone() };
    let (skipped, rest) = decode(content, &skipping);
    skipped.unwrap();
    assert_eq!(rest.skipped_count, 1);
    (error.to_string(), error.fault().unwrap().line.unwrap(), rows.row_count)
}

#[test]
fn a_value_of_another_type_names_file_line_byte_column_seen_expected_and_sample_rows() {
    let content = b"n,s\r\n1,\"two\r\nlines\"\r\n\r\n3,c\r\n1.5,d\r\n4,e\r\n";
    let (message, line, rows) = fail(content, &all());
    assert_eq!((line, rows), (6, 2), "{message}");
    assert!(message.starts_with("/data/t.csv, line 6, byte 28, column n: expected Int64, found '1.5'; "), "{message}");
    assert!(message.contains("`sample_rows`"), "{message}");
    assert_eq!(decode(content, &plan(&[("s", DataType::Utf8)])).1.row_count, 4);
}

#[test]
fn too_few_and_too_many_fields_are_errors_even_in_columns_nobody_reads() {
    for plan in [all(), plan(&[("n", DataType::Int64)]), plan(&[])] {
        let (message, line, rows) = fail(b"n,s\n1,a\n2\n3,c\n", &plan);
        assert_eq!((line, rows), (3, 1));
        assert!(message.ends_with("expected 2 fields, found 1 field: '2'"), "{message}");
        let (message, line, rows) = fail(b"n,s\n1,a\n2,b\n3,c,\"d\ne\",f\n4,d", &plan);
        assert_eq!((line, rows), (4, 2));
        assert!(message.contains("expected 2 fields, found 4 fields: '3,c,\"d\\ne\",f'"), "{message}");
    }
}

#[test]
fn an_unclosed_quote_names_the_line_where_it_opened() {
    for plan in [all(), plan(&[("n", DataType::Int64)]), plan(&[])] {
        let (message, line, rows) = fail(b"n,s\n1,\"a\nb\"\n2,\"c\n3,d\n4,e\n", &plan);
        assert_eq!((line, rows), (4, 1), "{message}");
        assert!(message.contains("byte 14") && message.contains("closing quote"), "{message}");
        // After a doubled quote it is still the first one that opened.
        let (_, line, _) = fail(b"n,s\n2,\"c\n\"\"3,d\n4,e\n", &plan);
        assert_eq!(line, 2);
    }
}

#[test]
fn text_after_a_closing_quote_is_an_error_in_a_needed_column_or_under_strict() {
    let content = b"n,s\n1,\"a\"\n2,\"b\"x\n3,\"c\"\n";
    let (message, line, rows) = fail(content, &all());
    assert_eq!((line, rows), (3, 1));
    assert!(message.contains("column s: expected a delimiter or the end of the line"), "{message}");
    let mut counting = plan(&[]);
    assert_eq!(decode(content, &counting).1.row_count, 3);
    counting.strict = true;
    assert_eq!(fail(content, &counting).1, 3);
}

#[test]
fn invalid_utf8_is_an_error_in_a_needed_text_column_or_under_strict() {
    let content = b"n,s\n1,a\n2,b\xffc\n3,c\n";
    let (message, line, rows) = fail(content, &all());
    assert_eq!((line, rows), (3, 1));
    assert!(message.contains("byte 11, column s: expected valid UTF-8, found 'b\\xffc'"), "{message}");
    let mut counting = plan(&[("n", DataType::Int64)]);
    assert_eq!(decode(content, &counting).1.row_count, 3);
    counting.strict = true;
    assert_eq!(fail(content, &counting).1, 3);
}

#[test]
fn the_first_bad_record_of_the_file_is_the_one_reported() {
    // In column order the quick way would meet line 4 first.
    let content = b"n,s\n1,a\n2,b\xff\nx,c\n";
    assert_eq!(decode(content, &all()).0.unwrap_err().fault().unwrap().line, Some(3));
}

#[test]
fn a_record_the_predicate_rejects_is_not_parsed_further() {
    let mut plan = plan(&[("s", DataType::Utf8)]);
    plan.predicate_types = all().columns;
    let small = Domain::interval(Bound::Unbounded, Bound::Excluded(Scalar::Int(2)));
    plan.predicate = Conjunction::all().and(FieldPath::root("n"), small);
    let (outcome, rows) = decode(b"n,s\n1,a\n2,b\xff\n", &plan);
    outcome.unwrap();
    assert_eq!((rows.row_count, rows.record_count), (1, 2));
}

#[test]
fn a_header_that_differs_from_the_columns_is_an_error() {
    let (outcome, _) = decode(b"\n\nn,t\n1,a\n", &all());
    let message = outcome.unwrap_err().to_string();
    assert!(
        message.starts_with("/data/t.csv, line 3, byte 4: expected the header to name column 2 's', found 't'"),
        "{message}"
    );
    let message = decode(b"n,s,t\n1,a,b\n", &all()).0.unwrap_err().to_string();
    assert!(message.contains("expected 2 fields, found 3 fields"), "{message}");
}

#[test]
fn blank_lines_before_a_header_are_skipped_as_long_as_one_piece_holds_them() {
    let format = CsvFormat::with_columns(["n", "s"]);
    let mut decoder = CsvDecoder::new(&all(), &format, Arc::from("t")).unwrap();
    decoder.decode(b"\xef\xbb\xbf\n\r\n", 0).unwrap();
    decoder.decode(b"n,s\n1,a\n", 6).unwrap();
    assert_eq!(decoder.finish().unwrap().row_count, 1);
    let blank = vec![b'\n'; 1 << 16];
    let message = decoder.decode(&blank, 0).unwrap_err().to_string();
    assert!(message.contains("expected a header"), "{message}");
}

#[test]
fn a_record_of_more_than_256_mib_is_an_error() {
    let mut content = vec![b'x'; MAX_RECORD_BYTES + 10];
    content[..5].copy_from_slice(b"1,a\n2");
    content[5] = b',';
    let mut format = CsvFormat::with_columns(["n", "s"]);
    format.has_header = false;
    let mut decoder = CsvDecoder::new(&plan(&[("n", DataType::Int64)]), &format, Arc::from("t")).unwrap();
    let error = decoder.decode(&content, 0).unwrap_err();
    assert!(matches!(error, RawError::RecordTooLong { offset_bytes: 4, .. }), "{error}");
    assert_eq!(decoder.finish().unwrap().row_count, 1);
    // With a newline at last it is a whole record, and too long all the same.
    *content.last_mut().unwrap() = b'\n';
    content.extend(b"3,c\n");
    let error = decoder.decode(&content, 0).unwrap_err();
    assert!(matches!(error, RawError::RecordTooLong { offset_bytes: 4, .. }), "{error}");
}

#[test]
fn plans_and_formats_that_cannot_hold_are_refused() {
    let format = CsvFormat::with_columns(["n", "s"]);
    let refuse = |plan: &ScanPlan, format: &CsvFormat| match CsvDecoder::new(plan, format, Arc::from("t")) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    assert!(refuse(&plan(&[("x", DataType::Int64)]), &format).contains("no such column"));
    let nested = Column { path: FieldPath::root("n").child("m"), data_type: DataType::Int64 };
    assert!(refuse(&ScanPlan::all_rows(vec![nested]), &format).contains("nested"));
    assert!(refuse(&plan(&[("n", DataType::Time64(TimeUnit::Microsecond))]), &format).contains("Time64"));
    let unnest = ScanPlan { unnest: Some(Unnest { path: FieldPath::root("n"), keeps_empty: false }), ..all() };
    assert!(refuse(&unnest, &format).contains("unnest"));
    let untyped = ScanPlan {
        predicate: Conjunction::all().and(FieldPath::root("n"), Domain::not_null()),
        ..ScanPlan::all_rows(vec![])
    };
    assert!(refuse(&untyped, &format).contains("no type"));
    let same = CsvFormat { quote: Some(b','), ..format.clone() };
    assert!(refuse(&all(), &same).contains("option `quote`: ',' is the delimiter too"));
    let newline = CsvFormat { delimiter: b'\n', ..format.clone() };
    assert!(refuse(&all(), &newline).contains("option `delimiter`"));
    let wide = CsvFormat { escape: Some(0xe9), ..format };
    assert!(refuse(&all(), &wide).contains("ASCII"));
}

#[test]
fn lines_are_counted_by_newlines_before_the_offset() {
    let content = b"a\nb\r\n\nc";
    let lines: Vec<u64> = (0..=content.len() as u64).map(|at| line_at(&content[..], at).unwrap()).collect();
    assert_eq!(lines, [1, 1, 2, 2, 2, 3, 4, 4]);
    assert_eq!(line_at(&content[..], 1000).unwrap(), 4);
}

#[test]
fn an_unclosed_quote_swallows_the_rest_for_splitter_and_index_alike() {
    let format = CsvFormat::with_columns(["n", "s"]);
    let content = b"1,a\n2,\"b\n3,c\n";
    let mut splitter = Splitter::new(&format, 0);
    assert_eq!(splitter.last_record_end(content), 4);
    assert_eq!(splitter.last_record_end(b"4,d\n"), 0);
    let mut index = RecordIndex::default();
    index.build(content, format.marks(), false);
    assert_eq!((index.record_count(), index.covered_bytes()), (1, 4));
}
