//! Manifests as bytes: what comes back, and what is refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use thermocline_medium::{Medium, MemoryMedium};
use thermocline_seeded::Random;
use xxhash_rust::xxh3::xxh3_64;

use super::changes::{name, table, view};
use crate::catalog::encode::LIMIT_BYTES;
use crate::catalog::segment_names::name_of;
use crate::catalog::{Catalog, CatalogError, ColumnTable, Entry, EntryName, Manifest};
use crate::{PhysicalType, SegmentInfo};

/// The types that column pages hold, with units, time zones, precisions and scales.
fn types() -> Vec<DataType> {
    let mut types = vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.extend([DataType::Duration(unit), DataType::Timestamp(unit, None)]);
        for zone in ["UTC", "+05:30", "America/Argentina/Buenos_Aires"] {
            types.push(DataType::Timestamp(unit, Some(zone.into())));
        }
    }
    for (precision, scale) in [(1, 0), (38, 0), (38, 38), (10, 2), (5, -3), (38, -38)] {
        types.push(DataType::Decimal128(precision, scale));
    }
    types
}

fn text(random: &mut Random) -> String {
    let pieces = ["a", "B", " ", "\"", "\\", "\n", "\r\n", "\t", "\0", "ü", "🐟", "table", "\u{85}", "'", "{}"];
    (0..random.below(8)).map(|_| *random.pick(&pieces)).collect()
}

fn metadata(random: &mut Random) -> HashMap<String, String> {
    (0..random.below(3)).map(|_| (text(random), text(random))).collect()
}

/// Any manifest that may be written.
fn manifest(random: &mut Random) -> Manifest {
    let types = types();
    let mut number = random.below(5) as u64;
    let mut entries = BTreeMap::new();
    for _ in 0..random.below(6) {
        let entry = match random.below(3) {
            0 => Entry::View { definition: text(random) },
            1 => Entry::ExternalTable { definition: text(random) },
            _ => {
                let fields: Vec<Field> = (0..random.below(5))
                    .map(|_| {
                        let field = Field::new(text(random), random.pick(&types).clone(), random.one_in(2));
                        field.with_metadata(metadata(random))
                    })
                    .collect();
                let segments = (0..random.below(4))
                    .map(|_| {
                        number += 1 + random.below(3) as u64;
                        let (size_bytes, row_count) = (random.next_u64(), random.next_u64() >> random.below(60));
                        SegmentInfo { name: name_of(number), size_bytes, row_count, footer_checksum: random.next_u64() }
                    })
                    .collect();
                let columns = Schema::new_with_metadata(fields, metadata(random));
                Entry::ColumnTable(ColumnTable::with_segments(Arc::new(columns), segments))
            }
        };
        entries.insert(EntryName::new(text(random), text(random)), entry);
    }
    Manifest { entries, version: random.next_u64() >> random.below(64), next_file: number + 1 }
}

/// A file with this text below line 1, and a line 1 that is right.
fn file_of(body: &str) -> Vec<u8> {
    format!("thermocline-manifest 1 {} {:016x}\n{body}", body.len(), xxh3_64(body.as_bytes())).into_bytes()
}

#[test]
fn manifests_come_back_whatever_they_hold() {
    for seed in 1..1000 {
        let manifest = manifest(&mut Random::new(seed));
        let bytes = manifest.to_bytes().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let again = Manifest::from_bytes(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(again, manifest, "seed {seed}");
        assert_eq!(again.to_bytes().unwrap(), bytes, "seed {seed}");
    }
}

#[test]
fn every_type_of_pages_comes_back() {
    for data_type in types() {
        assert!(PhysicalType::of(&data_type).is_some(), "{data_type}");
        let columns = Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), true)]));
        let entries = [(name("t"), Entry::ColumnTable(ColumnTable::new(columns)))].into();
        let manifest = Manifest { entries, ..Manifest::default() };
        assert_eq!(Manifest::from_bytes(&manifest.to_bytes().unwrap()).unwrap(), manifest, "{data_type}");
    }
}

#[test]
fn types_that_would_not_come_back_are_refused_before_they_are_written() {
    let nested = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let unit = DataType::Time32(TimeUnit::Nanosecond);
    let zone = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
    for data_type in [DataType::Float16, nested, unit, zone(&"x".repeat(2000)), zone("a\u{7}b")] {
        let columns = Arc::new(Schema::new(vec![Field::new("a", data_type.clone(), true)]));
        let entries = [(name("t"), Entry::ColumnTable(ColumnTable::new(columns)))].into();
        let manifest = Manifest { entries, ..Manifest::default() };
        match manifest.to_bytes() {
            Err(error @ CatalogError::Type { .. }) => {
                assert!(error.to_string().starts_with("public.t: column \"a\" is of type "), "{error}");
            }
            Ok(bytes) => assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest, "{data_type}"),
            Err(error) => panic!("{data_type}: {error}"),
        }
    }
}

#[test]
fn the_format_does_not_change_unnoticed() {
    let columns = Schema::new_with_metadata(
        vec![
            Field::new("key", DataType::Int64, false),
            Field::new("at \"now\"", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true)
                .with_metadata([("unit".to_owned(), "ns".to_owned())].into()),
        ],
        [("origin".to_owned(), "a\nb".to_owned())].into(),
    );
    let segment =
        SegmentInfo { name: name_of(3), size_bytes: 4096, row_count: 12, footer_checksum: 0x0123_4567_89ab_cdef };
    let entries = [
        (name("t"), Entry::ColumnTable(ColumnTable::with_segments(Arc::new(columns), vec![segment]))),
        (name("e"), Entry::ExternalTable { definition: "CREATE EXTERNAL TABLE e LOCATION 'x'".to_owned() }),
        (EntryName::new("other", "v"), view("SELECT 1")),
    ];
    let manifest = Manifest { entries: entries.into(), version: 7, next_file: 1024 };
    let expected = r#"version 7
next-file 1024
view "other" "v" "SELECT 1"
external "public" "e" "CREATE EXTERNAL TABLE e LOCATION 'x'"
table "public" "t"
metadata "origin" "a\nb"
column "key" "Int64" not-null
column "at \"now\"" "Timestamp(ns, \"UTC\")" nullable
metadata "unit" "ns"
segment "00000003.segment" 4096 12 0123456789abcdef
"#;
    assert_eq!(String::from_utf8(manifest.to_bytes().unwrap()).unwrap(), String::from_utf8(file_of(expected)).unwrap());
}

#[test]
fn the_example_in_the_documentation_is_a_manifest() {
    let document = include_str!("../../../../../docs/formats/manifest.md");
    let example = document.split("```\n").nth(1).unwrap();
    let body = example.split_once('\n').unwrap().1;
    assert_eq!(example, String::from_utf8(file_of(body)).unwrap());
    assert_eq!(Manifest::from_bytes(example.as_bytes()).unwrap().entries.len(), 3);
}

/// A manifest with a line of each kind.
fn example() -> Manifest {
    let segment = SegmentInfo { name: name_of(0), size_bytes: 4096, row_count: 12, footer_checksum: 77 };
    let entries = [
        (name("t"), table(&[&segment])),
        (name("v"), view("SELECT 1")),
        (name("e"), Entry::ExternalTable { definition: "x".to_owned() }),
    ];
    Manifest { entries: entries.into(), version: 7, next_file: 1024 }
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let bytes = example().to_bytes().unwrap();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << bit;
            assert!(Manifest::from_bytes(&damaged).is_err(), "bit {bit} of byte {index}");
        }
        assert!(Manifest::from_bytes(&bytes[..index]).is_err(), "cut at byte {index}");
    }
    assert!(Manifest::from_bytes(&[bytes.as_slice(), b"\n"].concat()).is_err());
}

#[test]
fn messages_say_where_and_what() {
    let bytes = example().to_bytes().unwrap();
    let said = |bytes: &[u8]| Manifest::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(said(b""), "manifest, byte 0: found \"\", expected \"thermocline-manifest \": this file is no manifest");
    assert!(said(b"PAR1").contains("found \"PAR1\""));
    assert_eq!(
        said(b"thermocline-manifest 2 anything"),
        "manifest, line 1: version 2 of the format, expected 1; open the database with a newer program"
    );
    assert_eq!(said(b"thermocline-manifest 1"), "manifest, line 1: found \"\", expected a length in bytes");
    let cut = said(&bytes[..bytes.len() - 10]);
    assert!(cut.starts_with("manifest: ") && cut.contains(" bytes after line 1, expected "), "{cut}");
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() = b' ';
    assert!(said(&damaged).starts_with("manifest: the checksum is "));
    assert!(matches!(Manifest::from_bytes(&file_of("version 1\n")), Err(CatalogError::Line { line: 3, .. })));
    let mut no_text = b"version 1\n\xff\n".to_vec();
    let head = format!("thermocline-manifest 1 {} {:016x}\n", no_text.len(), xxh3_64(&no_text));
    no_text.splice(0..0, head.bytes());
    assert_eq!(
        said(&no_text),
        format!("manifest, byte {}: found bytes that are no UTF-8, expected text", head.len() + 10)
    );
}

#[test]
fn lines_that_contradict_the_format_are_errors_with_their_number() {
    let start = "version 1\nnext-file 9\n";
    let column = "column \"a\" \"Int64\" nullable\n";
    let table = "table \"s\" \"t\"\n";
    let segment = "segment \"00000001.segment\" 1 2 0000000000000003\n";
    let whole = format!("{start}{table}{column}{segment}view \"s\" \"u\" \"\"\n");
    assert!(Manifest::from_bytes(&file_of(&whole)).is_ok());
    let cases: Vec<(String, u64, &str)> = vec![
        ("version 01\nnext-file 9\n".into(), 2, "and a number"),
        ("version +1\nnext-file 9\n".into(), 2, "and a number"),
        ("version 1 \nnext-file 9\n".into(), 2, "the line's end"),
        ("next-file 9\nversion 1\n".into(), 2, "\"version\" and a number"),
        ("version 1\nnext-file 99999999999999999999\n".into(), 3, "and a number"),
        (format!("{start}\n"), 4, "\"table\""),
        (start.trim_end().to_owned(), 4, "a newline"),
        (format!("{start}index \"s\" \"t\"\n"), 4, "\"table\""),
        (format!("{start}table s t\n"), 4, "a schema in quotes"),
        (format!("{start}table \"s\"\n"), 4, "a name in quotes"),
        (format!("{start}table  \"s\" \"t\"\n"), 4, "a schema in quotes"),
        (format!("{start}table \"s\"\"t\"\n"), 4, "a schema in quotes"),
        (format!("{start}{column}"), 4, "below a table"),
        (format!("{start}{table}{table}"), 5, "a name after"),
        (format!("{start}{table}view \"s\" \"a\" \"\"\n"), 5, "a name after"),
        (format!("{start}{table}{segment}{column}"), 6, "in this order"),
        (format!("{start}{table}{segment}{segment}"), 6, "that no line before has"),
        (format!("{start}{table}{}", segment.replace("01.s", "09.s")), 5, "a segment below 9"),
        (format!("{start}{table}{}", segment.replace("00000001", "../x")), 5, "a segment below 9"),
        (format!("{start}{table}{}", segment.replace("0003", "003")), 5, "16 hexadecimal digits"),
        (format!("{start}{table}{}", segment.replace("0003", "000A")), 5, "16 hexadecimal digits"),
        (format!("{start}{table}{}", column.replace("Int64", "int64")), 5, "a type that column pages hold"),
        (format!("{start}{table}{}", column.replace("Int64", "Float16")), 5, "a type that column pages hold"),
        (format!("{start}{table}{}", column.replace("Int64", &"List(".repeat(9999))), 5, "a type that"),
        (format!("{start}{table}{}", column.replace("nullable", "NULL")), 5, "\"nullable\" or \"not-null\""),
        (format!("{start}{table}metadata \"b\" \"\"\nmetadata \"a\" \"\"\n"), 6, "a key after"),
        (format!("{start}view \"s\" \"t\" \"\\x\"\n"), 4, "a definition in quotes"),
    ];
    for (body, at, expects) in cases {
        match Manifest::from_bytes(&file_of(&body)) {
            Err(CatalogError::Line { line, expected, found }) => {
                assert_eq!(line, at, "{body}: found {found}, expected {expected}");
                assert!(expected.contains(expects), "{body}: {expected}");
                assert!(found.len() < 300, "{found}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn a_database_with_a_damaged_manifest_is_not_opened_and_keeps_its_files() {
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let file = medium.create("manifest").unwrap();
    let segment = name_of(5);
    medium.create(&segment).unwrap();
    for content in [b"".as_slice(), b"thermocline-manifest 1 0 2d06800538d394c", b"thermocline-manifest 9\n"] {
        medium.write_at(&file, 0, content).unwrap();
        assert!(Catalog::open(Arc::clone(&medium)).is_err(), "{content:?}");
        assert_eq!(medium.list().unwrap(), [segment.as_str(), "manifest"]);
    }
    medium.write_at(&file, LIMIT_BYTES, b"x").unwrap();
    let error = Catalog::open(Arc::clone(&medium)).unwrap_err();
    assert_eq!(error.to_string(), "manifest: 67108865 bytes, expected at most 67108864");
}

#[test]
fn a_manifest_that_would_be_too_large_is_not_written() {
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let result = catalog.commit(|manifest| {
        manifest.entries.insert(name("v"), view(&"x".repeat(LIMIT_BYTES as usize)));
        Ok(())
    });
    assert!(matches!(result, Err(CatalogError::TooLarge { .. })));
    assert!(medium.list().unwrap().is_empty() && catalog.snapshot().entries.is_empty());
}
