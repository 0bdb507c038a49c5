//! Decoding under random plans against the slow parser and the standard library's number parsers.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type};
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_seeded::Random;

use super::super::decoder::CsvDecoder;
use super::super::dialect::CsvFormat;
use super::super::marks::Marks;
use super::for_seeds;
use super::oracle::{OracleField, OracleRecord, parse};
use super::structure::random_marks;
use crate::{Column, Decoder, OnError, RawError, Rows, ScanPlan};

const NAMES: [&str; 4] = ["i", "t", "f", "b"];

fn type_of(position: usize) -> DataType {
    [DataType::Int64, DataType::Utf8, DataType::Float64, DataType::Boolean][position].clone()
}

fn column(position: usize) -> Column {
    Column { path: FieldPath::root(NAMES[position]), data_type: type_of(position) }
}

fn csv_format(marks: Marks, has_header: bool, null_text: &str) -> CsvFormat {
    CsvFormat {
        delimiter: marks.delimiter,
        quote: marks.quote,
        escape: marks.escape,
        has_header,
        null_text: Arc::from(null_text),
        ..CsvFormat::with_columns(NAMES)
    }
}

/// One field as a writer would write it; now and then not as it should.
fn write_field(random: &mut Random, text: &[u8], marks: Marks, content: &mut Vec<u8>) {
    let Some(quote) = marks.quote else {
        content.extend(text.iter().filter(|byte| **byte != marks.delimiter && **byte != b'\n'));
        return;
    };
    let needs_quotes = text.iter().any(|byte| [marks.delimiter, b'\n', b'\r', quote].contains(byte));
    if !(needs_quotes || random.one_in(6)) || random.one_in(300) {
        content.extend(text);
        return;
    }
    content.push(quote);
    for &byte in text {
        match marks.escape {
            Some(escape) if byte == escape || (byte == quote && random.one_in(2)) => content.push(escape),
            _ if byte == quote => content.push(quote),
            _ => {}
        }
        content.push(byte);
    }
    content.push(quote);
    if random.one_in(200) {
        content.push(b'x');
    }
}

fn write_table(random: &mut Random, marks: Marks, has_header: bool) -> Vec<u8> {
    let mut content = Vec::new();
    if random.one_in(8) {
        content.extend(CsvFormat::BYTE_ORDER_MARK);
    }
    let is_wrong = random.one_in(2);
    let newline = *random.pick(&[&b"\n"[..], b"\r\n"]);
    if has_header {
        for (position, name) in NAMES.iter().enumerate() {
            if position > 0 {
                content.push(marks.delimiter);
            }
            content.extend(name.bytes());
        }
        content.extend(newline);
    }
    for _ in 0..random.below(40) {
        let count = if is_wrong && random.one_in(15) { random.below(7) + 1 } else { 4 };
        for position in 0..count {
            if position > 0 {
                content.push(marks.delimiter);
            }
            let kind = if is_wrong && random.one_in(30) { random.below(6) } else { position % 4 };
            let text: Vec<u8> = match kind {
                _ if random.one_in(8) => Vec::new(),
                _ if random.one_in(20) => b"NA".to_vec(),
                0 => format!("{}", random.below(200) as i64 - 100).into_bytes(),
                2 => format!("{}.{}", random.below(100), random.below(100)).into_bytes(),
                3 => random.pick(&["true", "false", "True", "FALSE"]).as_bytes().to_vec(),
                4 => vec![b'a', 0xff, b'b'],
                _ => (0..random.below(6))
                    .map(|_| *random.pick(&["a", "zß", ",", "\"", "\n", "\r\n", "\\", "'", "longer text"]))
                    .collect::<String>()
                    .into_bytes(),
            };
            write_field(random, &text, marks, &mut content);
        }
        content.extend(newline);
        if random.one_in(20) {
            content.extend(newline);
        }
    }
    if random.one_in(3) {
        content.truncate(content.len().saturating_sub(newline.len()));
    }
    if is_wrong && content.ends_with(b"\n") && random.one_in(4) {
        content.extend(b"1,\"unclosed");
    }
    content
}

type Cell = Option<String>;

/// The value of a field, or nothing when it has none of the type.
fn cell(field: &OracleField, position: usize, null_text: &str) -> Option<Cell> {
    if field.problem.is_some() {
        return None;
    }
    let is_null = !field.is_quoted && field.text == null_text.as_bytes();
    if is_null || (field.text.is_empty() && position != 1) {
        return Some(None);
    }
    let text = std::str::from_utf8(&field.text).ok()?;
    Some(Some(match position {
        0 => text.parse::<i64>().ok()?.to_string(),
        1 => text.to_owned(),
        2 => format!("{:?}", text.parse::<f64>().ok()?),
        _ => text.to_ascii_lowercase().parse::<bool>().ok()?.to_string(),
    }))
}

fn passes(domain: &Domain, position: usize, cell: &Cell) -> bool {
    let value = cell.as_ref().map(|text| match position {
        0 => Scalar::Int(text.parse().unwrap()),
        1 => Scalar::Utf8(Arc::from(text.as_str())),
        2 => Scalar::Float(text.parse().unwrap()),
        _ => Scalar::Boolean(text.parse().unwrap()),
    });
    domain.contains(value.as_ref())
}

struct Expected {
    rows: Vec<Vec<Cell>>,
    record_count: u64,
    skipped_count: u64,
    /// Start of the first bad record under [`OnError::Fail`].
    bad_start: Option<usize>,
}

fn expect(records: &[OracleRecord], plan: &ScanPlan, null_text: &str, content: &[u8]) -> Expected {
    let mut expected = Expected { rows: Vec::new(), record_count: 0, skipped_count: 0, bad_start: None };
    let position = |path: &FieldPath| NAMES.iter().position(|name| *path == FieldPath::root(name)).unwrap();
    let mut filters: Vec<_> = plan.predicate.fields().map(|(path, domain)| (position(path), domain)).collect();
    filters.sort_by_key(|(position, _)| (*position == 1, *position));
    for record in records.iter().filter(|record| !record.is_blank) {
        // `None`: bad; `Some(None)`: rejected.
        let row = || -> Option<Option<Vec<Cell>>> {
            let is_unclosed =
                record.fields.iter().any(|field| field.problem == Some(super::super::fault::Problem::Unclosed));
            let is_strictly_bad = plan.strict
                && (record.fields.iter().any(|field| field.problem.is_some())
                    || std::str::from_utf8(&content[record.start..record.end]).is_err());
            if is_unclosed || record.fields.len() != NAMES.len() || is_strictly_bad {
                return None;
            }
            for (position, domain) in &filters {
                if !passes(domain, *position, &cell(&record.fields[*position], *position, null_text)?) {
                    return Some(None);
                }
            }
            let cells = plan.columns.iter().map(|column| {
                let position = position(&column.path);
                cell(&record.fields[position], position, null_text)
            });
            cells.collect::<Option<Vec<_>>>().map(Some)
        };
        match row() {
            Some(row) => {
                expected.record_count += 1;
                expected.rows.extend(row);
            }
            None if plan.on_error == OnError::Skip => expected.skipped_count += 1,
            None => {
                expected.bad_start = Some(record.start);
                break;
            }
        }
    }
    expected
}

fn cells(array: &ArrayRef) -> Vec<Cell> {
    (0..array.len())
        .map(|row| {
            array.is_valid(row).then(|| match array.data_type() {
                DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
                DataType::Boolean => array.as_boolean().value(row).to_string(),
                _ => array.as_string::<i32>().value(row).to_owned(),
            })
        })
        .collect()
}

fn rows_of(rows: &Rows) -> Vec<Vec<Cell>> {
    let columns: Vec<_> = rows.columns.iter().map(cells).collect();
    for column in &columns {
        assert_eq!(column.len(), rows.row_count);
    }
    (0..rows.row_count).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn random_domain(random: &mut Random, position: usize) -> Domain {
    let value = |random: &mut Random| match position {
        0 => Scalar::Int(random.below(200) as i128 - 100),
        1 => Scalar::Utf8(Arc::from(*random.pick(&["", "a", "zß", "m", "NA"]))),
        2 => Scalar::Float(random.below(100) as f64),
        _ => Scalar::Boolean(random.one_in(2)),
    };
    let domain = match random.below(4) {
        0 => Domain::interval(Bound::Included(value(random)), Bound::Unbounded),
        1 => Domain::interval(Bound::Unbounded, Bound::Excluded(value(random))),
        2 => Domain::points([value(random), value(random)]).complement(),
        _ => Domain::not_null(),
    };
    if random.one_in(3) { domain.union(&Domain::null()) } else { domain }
}

fn random_plan(random: &mut Random) -> ScanPlan {
    let columns = (0..random.below(5)).map(|_| column(random.below(4))).collect();
    let mut plan = ScanPlan::all_rows(columns);
    for _ in 0..random.below(3) {
        let position = random.below(4);
        plan.predicate = plan.predicate.and(FieldPath::root(NAMES[position]), random_domain(random, position));
        plan.predicate_types.push(column(position));
    }
    plan.on_error = if random.one_in(2) { OnError::Skip } else { OnError::Fail };
    plan.strict = random.one_in(3);
    plan
}

/// Decodes the content in pieces that end where records do.
fn decode(decoder: &mut CsvDecoder, content: &[u8], ends: &[usize]) -> (Result<(), RawError>, Rows) {
    let mut start = 0;
    for end in ends.iter().copied().chain([content.len()]) {
        if let Err(error) = decoder.decode(&content[start..end], start as u64) {
            return (Err(error), decoder.finish().unwrap());
        }
        start = end;
    }
    (Ok(()), decoder.finish().unwrap())
}

#[test]
fn random_tables_under_random_plans_decode_as_the_slow_parser_reads_them() {
    for_seeds(6000, |random| {
        let marks = random_marks(random);
        let (has_header, null_text) = (random.one_in(2), *random.pick(&["", "", "NA"]));
        let content = write_table(random, marks, has_header);
        let format = csv_format(marks, has_header, null_text);
        let plan = random_plan(random);
        let body = content.strip_prefix(CsvFormat::BYTE_ORDER_MARK).unwrap_or(&content);
        let shift = content.len() - body.len();
        let mut records = parse(body, marks);
        if has_header && let Some(header) = records.iter().position(|record| !record.is_blank) {
            records.drain(..=header);
        }
        let expected = expect(&records, &plan, null_text, body);
        let mut ends: Vec<usize> = records
            .iter()
            .filter(|record| record.ends_with_newline && random.one_in(4))
            .map(|record| record.end + shift)
            .collect();
        ends.dedup();
        let window_bytes = random.below(300) + 1;
        let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap().with_window_bytes(window_bytes);
        // Twice: a decoder that has finished starts anew.
        for _ in 0..2 {
            let (outcome, rows) = decode(&mut decoder, &content, &ends);
            let shown = content.escape_ascii().to_string();
            assert_eq!(rows_of(&rows), expected.rows, "{plan:?} {shown}");
            assert_eq!(rows.record_count, expected.record_count, "{plan:?} {shown}");
            assert_eq!(rows.skipped_count, expected.skipped_count, "{plan:?} {shown}");
            match (outcome, expected.bad_start) {
                (Ok(()), None) => {}
                (Err(error), Some(start)) => {
                    let offset = error.fault().unwrap().offset_bytes as usize - shift;
                    let record = records.iter().find(|record| record.start == start).unwrap();
                    assert!((start..=record.end).contains(&offset), "{error} {shown}");
                }
                (outcome, bad_start) => panic!("{outcome:?}, expected a fault at {bad_start:?}: {shown}"),
            }
        }
    });
}

#[test]
fn a_pushed_down_predicate_gives_the_rows_a_filter_afterwards_gives() {
    for_seeds(500, |random| {
        let marks = Marks { delimiter: b',', quote: Some(b'"'), escape: None };
        let content = write_table(random, marks, false);
        let format = csv_format(marks, false, "");
        let mut plan = ScanPlan::all_rows((0..4).map(column).collect());
        plan.on_error = OnError::Skip;
        // Every column is read either way, so that the same records are bad.
        let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap();
        let (_, all) = decode(&mut decoder, &content, &[]);
        let mut predicate = Conjunction::all();
        for _ in 0..=random.below(3) {
            let position = random.below(4);
            predicate = predicate.and(FieldPath::root(NAMES[position]), random_domain(random, position));
        }
        let column_of = |path: &FieldPath| {
            let position = NAMES.iter().position(|name| *path == FieldPath::root(name))?;
            Some(Arc::clone(&all.columns[position]))
        };
        let mask = predicate.evaluate(all.row_count, &column_of).unwrap();
        plan.predicate = predicate;
        let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap();
        let (_, rows) = decode(&mut decoder, &content, &[]);
        if all.skipped_count > 0 {
            // A record rejected early may be bad in a column never read: it is not bad then.
            assert!(rows.skipped_count <= all.skipped_count);
        }
        let expected: Vec<_> = rows_of(&all)
            .into_iter()
            .enumerate()
            .filter(|(row, _)| mask.as_ref().is_none_or(|mask| mask.value(*row)))
            .map(|(_, cells)| cells)
            .collect();
        assert_eq!(rows_of(&rows), expected);
    });
}

#[test]
fn dates_are_tested_and_kept_as_they_are_read_afterwards() {
    let days: Vec<Option<i32>> = (0..1000).map(|row| (row % 9 != 0).then_some(19_723 + row % 28)).collect();
    let lines = days.iter().enumerate().map(|(row, days)| match days {
        Some(days) => format!("{row},2024-01-{:02}\n", days - 19_722),
        None => format!("{row},\n"),
    });
    let content: String = lines.collect();
    let format = CsvFormat { has_header: false, ..CsvFormat::with_columns(["n", "d"]) };
    let [number, date] = ["n", "d"].map(FieldPath::root);
    let interval = |from: i32, to: i32| {
        let bound = |value: i32| Bound::Included(Scalar::Int(value.into()));
        Domain::interval(bound(from), bound(to))
    };
    for (is_kept, with_nulls) in [(true, false), (true, true), (false, true)] {
        let domain = interval(19_730, 19_740);
        let domain = if with_nulls { domain.union(&Domain::null()) } else { domain };
        // Tested first, so that dates are the last.
        let predicate = Conjunction::all().and(number.clone(), interval(10, 900)).and(date.clone(), domain);
        let column = |path: &FieldPath, data_type| Column { path: path.clone(), data_type };
        let [numbers, dates] = [column(&number, DataType::Int64), column(&date, DataType::Date32)];
        let mut plan = ScanPlan::all_rows(vec![numbers.clone()]);
        plan.columns.extend(is_kept.then(|| dates.clone()));
        plan.predicate = predicate;
        plan.predicate_types = vec![numbers, dates];
        let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap().with_window_bytes(64);
        let (outcome, rows) = decode(&mut decoder, content.as_bytes(), &[]);
        outcome.unwrap();
        let passes = |days: Option<i32>| days.map_or(with_nulls, |days| (19_730..=19_740).contains(&days));
        let passing = || days.iter().enumerate().take(901).skip(10).filter(|(_, days)| passes(**days));
        let read: Vec<i64> = rows.columns[0].as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(read, passing().map(|(row, _)| row as i64).collect::<Vec<_>>());
        if is_kept {
            let read: Vec<Option<i32>> = rows.columns[1].as_primitive::<Date32Type>().iter().collect();
            assert_eq!(read, passing().map(|(_, days)| *days).collect::<Vec<_>>());
        }
    }
}

#[test]
fn arrays_own_exactly_the_bytes_they_need() {
    let content = b"1,abc,2.5,true\n".repeat(1000);
    let format = csv_format(Marks { delimiter: b',', quote: Some(b'"'), escape: None }, false, "");
    let plan = ScanPlan::all_rows(vec![column(0), column(2)]);
    let mut decoder = CsvDecoder::new(&plan, &format, Arc::from("t.csv")).unwrap();
    decoder.decode(&content, 0).unwrap();
    assert_eq!(decoder.row_count(), 1000);
    for array in decoder.finish().unwrap().columns {
        assert_eq!(array.to_data().buffers()[0].capacity(), 8000);
    }
}

#[test]
fn a_plan_without_columns_counts_rows() {
    let format = csv_format(Marks { delimiter: b',', quote: Some(b'"'), escape: None }, true, "");
    let mut decoder = CsvDecoder::new(&ScanPlan::all_rows(vec![]), &format, Arc::from("t.csv")).unwrap();
    decoder.decode(b"\xef\xbb\xbfi,t,f,b\r\n,,,\r\n1,\"a\r\nb\",,\r\n", 0).unwrap();
    let rows = decoder.finish().unwrap();
    assert_eq!((rows.columns.len(), rows.row_count, rows.record_count), (0, 2, 2));
}
