//! Every way a file is cut gives what decoding it whole gives.

mod mapped;
mod positions;
mod streams;

use std::fs::File;
use std::io::Write;

use arrow::datatypes::{DataType, Fields};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use thermocline_predicate::FieldPath;
use thermocline_seeded::Random;

use super::*;
use crate::csv::{self, CsvFormat};
use crate::ndjson::tests::generator::{any_fields, object, plan};
use crate::ndjson::tests::oracle::{Cell, cells};
use crate::{Column, OnError, RecordPositions, Sample};

/// A file in a folder of its own.
struct TestFile {
    _folder: TempDir,
    pinned: Arc<PinnedFile>,
}

fn file_of(bytes: &[u8]) -> TestFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    TestFile { pinned: Arc::new(PinnedFile::open(&path).unwrap()), _folder: folder }
}

fn remote_of(bytes: &[u8]) -> Arc<RemoteFile> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = ObjectPath::from("file");
    block_on(store.put(&path, bytes.to_vec().into())).unwrap();
    Arc::new(block_on(RemoteFile::open(store, "memory://", path)).unwrap())
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes compressed as two members or frames, cut anywhere.
fn compressed(random: &mut Random, bytes: &[u8], compression: Compression) -> Vec<u8> {
    let (first, second) = bytes.split_at(random.below(bytes.len() + 1));
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => [gzip(first), gzip(second)].concat(),
        Compression::Zstd => [zstd(first), zstd(second)].concat(),
    }
}

fn tiny(random: &mut Random) -> Grain {
    Grain {
        morsel_bytes: 1 + random.below(300) as u64,
        piece_bytes: 1 + random.below(300),
        window_bytes: 1 + random.below(100) as u64,
        chunk_bytes: 1 + random.below(120) as u64,
    }
}

/// What all morsels of a scan give, in their order.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    rows: Vec<Vec<Cell>>,
    records: u64,
    skipped: u64,
    positions: RecordPositions,
}

pub(super) fn drain(scan: &FileScan) -> Result<Outcome, RawError> {
    let mut outcome = Outcome { rows: Vec::new(), records: 0, skipped: 0, positions: RecordPositions::default() };
    let mut expected_index = 0;
    while let Some(morsel) = scan.next_morsel()? {
        assert_eq!(morsel.index, expected_index);
        expected_index += 1;
        let morsel = block_on(scan.fetch(morsel))?;
        let rows = scan.decode(morsel)?;
        outcome.rows.extend(cells(&rows, &scan.plan));
        outcome.records += rows.record_count;
        outcome.skipped += rows.skipped_count;
        if let Some(positions) = &rows.positions {
            outcome.positions.append(positions);
        }
    }
    Ok(outcome)
}

/// The error itself, of one that was told to several.
pub(super) fn unshared(error: &RawError) -> &RawError {
    match error {
        RawError::Shared(error) => unshared(error),
        error => error,
    }
}

pub(super) fn whole(bytes: &[u8], format: &Format, plan: &ScanPlan) -> Result<Outcome, RawError> {
    let mut decoder: Box<dyn Decoder> = match format {
        Format::Ndjson => Box::new(NdjsonDecoder::new(plan, Arc::from("f"))?),
        Format::Csv(format) => Box::new(CsvDecoder::new(plan, format, Arc::from("f"))?),
    };
    decoder.decode(bytes, 0)?;
    let rows = decoder.finish()?;
    let positions = rows.positions.clone().unwrap_or_default();
    Ok(Outcome { rows: cells(&rows, plan), records: rows.record_count, skipped: rows.skipped_count, positions })
}

fn random_ndjson(random: &mut Random) -> (Fields, String) {
    let fields = any_fields(random, 2, 5);
    let mut text = String::new();
    for _ in 0..random.below(25) {
        if random.one_in(10) {
            text.push_str("\n\r\n");
        }
        object(random, &fields, &mut text);
        text.push('\n');
    }
    if random.one_in(3) {
        text.truncate(text.trim_end().len());
    }
    (fields, text)
}

/// Records of three fields, quoted ones with newlines, commas and quotes inside.
fn random_csv(random: &mut Random) -> String {
    let mut text = String::from("id,text,n\n");
    for id in 0..random.below(25) {
        let field = random.pick(&["plain", "\"a\nb\"", "\"x,\"\"y\"\"\r\n\"", "\"\"", "", "\"\n\n\n\""]);
        text.push_str(&format!("{id},{field},{}{}", random.below(100), random.pick(&["\n", "\r\n"])));
    }
    if random.one_in(3) {
        text.truncate(text.trim_end().len());
    }
    text
}

pub(super) fn csv_plan(text: &str) -> (Format, ScanPlan) {
    let format = CsvFormat { has_header: true, ..CsvFormat::with_columns(["id", "text", "n"]) };
    let columns = [("text", DataType::Utf8), ("id", DataType::Int64)];
    let columns = columns.map(|(name, data_type)| Column { path: FieldPath::root(name), data_type });
    assert!(text.starts_with("id,text,n"));
    (Format::Csv(Arc::new(format)), ScanPlan::all_rows(columns.to_vec()))
}

#[test]
fn morsels_of_any_size_hold_each_record_once_in_every_format_and_compression() {
    for seed in 1..=400 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = if random.one_in(2) {
            let (fields, text) = random_ndjson(random);
            let plan = plan(random, &fields);
            (text, Format::Ndjson, plan)
        } else {
            let text = random_csv(random);
            let (format, plan) = csv_plan(&text);
            (text, format, plan)
        };
        let expected = whole(text.as_bytes(), &format, &plan).unwrap();
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let bytes = compressed(random, text.as_bytes(), compression);
            let file = file_of(&bytes);
            let remote = remote_of(&bytes);
            for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote)] {
                let range = 0..bytes.len() as u64;
                let grain = tiny(random);
                let context = format!("seed {seed} {compression:?} {grain:?} {source:?}\n{text}");
                let scan = FileScan::with_grain(source, range, format.clone(), compression, plan.clone(), None, grain)
                    .unwrap();
                assert_eq!(drain(&scan).unwrap(), expected, "{context}");
                if let Some(covered) = scan.covered_end() {
                    let terminated = match &format {
                        Format::Ndjson => text.rfind('\n').map_or(0, |at| at + 1),
                        Format::Csv(_) if text.ends_with('\n') => text.len(),
                        Format::Csv(_) => continue,
                    };
                    assert_eq!(covered, terminated as u64, "{context}");
                }
            }
        }
    }
}

#[test]
fn a_scan_between_two_record_borders_reads_exactly_those_records() {
    for seed in 1..=300 {
        let random = &mut Random::new(seed);
        let (fields, text) = random_ndjson(random);
        let plan = plan(random, &fields);
        let mut borders: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        borders.push(text.len());
        let start = borders[random.below(borders.len())];
        let end = start.max(borders[random.below(borders.len())]);
        let mut decoder = NdjsonDecoder::new(&plan, Arc::from("f")).unwrap();
        // Not at the file's start, so that no byte order mark is looked for.
        decoder.decode(&text.as_bytes()[start..end], start as u64).unwrap();
        let expected = cells(&decoder.finish().unwrap(), &plan);
        let file = file_of(text.as_bytes());
        for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(text.as_bytes()))] {
            let (range, grain) = (start as u64..end as u64, tiny(random));
            let scan =
                FileScan::with_grain(source, range, Format::Ndjson, Compression::None, plan.clone(), None, grain)
                    .unwrap();
            assert_eq!(drain(&scan).unwrap().rows, expected, "seed {seed} {start}..{end} {grain:?}\n{text}");
            assert!(scan.covered_end().unwrap() >= start as u64);
            assert_eq!(scan.total_bytes(), (end - start) as u64);
        }
    }
}

fn one_column() -> Format {
    Format::Csv(Arc::new(CsvFormat { has_header: false, ..CsvFormat::with_columns(["a"]) }))
}

pub(super) fn ints() -> ScanPlan {
    ScanPlan::all_rows(vec![Column { path: FieldPath::root("a"), data_type: DataType::Int64 }])
}

fn scan_of(file: &TestFile, format: Format, compression: Compression, plan: ScanPlan) -> FileScan {
    let source = Source::Local(Arc::clone(&file.pinned));
    FileScan::new(source, 0, file.pinned.size_bytes(), format, compression, plan, None, 4).unwrap()
}

#[test]
fn errors_in_any_morsel_name_the_byte_of_the_file() {
    for seed in 1..=200 {
        let random = &mut Random::new(seed);
        let mut text = String::new();
        let bad = random.below(20);
        let mut at = 0;
        for record in 0..20 {
            if record == bad {
                at = text.len() + 5;
                text.push_str("{\"a\":1.5}\n");
            } else {
                text.push_str(&format!("{{\"a\":{record}}}\n"));
            }
        }
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let bytes = compressed(random, text.as_bytes(), compression);
            let file = file_of(&bytes);
            for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
                let (range, grain) = (0..bytes.len() as u64, tiny(random));
                let scan =
                    FileScan::with_grain(source, range, Format::Ndjson, compression, ints(), None, grain).unwrap();
                let error = drain(&scan).unwrap_err();
                assert_eq!(error.fault().unwrap().offset_bytes, at as u64, "seed {seed} {grain:?} {error}");
            }
        }
    }
}

#[test]
fn errors_in_csv_name_the_line_however_the_file_is_read() {
    let text = "id,text,n\n1,\"a\nb\",2\n3,\"\n\",x\nbad,c,4\n";
    let (format, plan) = csv_plan(text);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        for seed in 1..=30 {
            let random = &mut Random::new(seed);
            let bytes = compressed(random, text.as_bytes(), compression);
            let file = file_of(&bytes);
            for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
                let range = 0..bytes.len() as u64;
                let scan =
                    FileScan::with_grain(source, range, format.clone(), compression, plan.clone(), None, tiny(random))
                        .unwrap();
                let error = drain(&scan).unwrap_err();
                assert_eq!(error.fault().unwrap().line, Some(6), "{error}");
            }
        }
    }
}

#[test]
fn hashes_are_those_of_the_bytes_wherever_the_scan_starts() {
    // No record of either format: what is skipped is hashed too.
    let record = "x".repeat(1000) + "\n";
    let text = record.repeat((5 * BLOCK_BYTES / 2) / record.len());
    let file = file_of(text.as_bytes());
    let size = text.len() as u64;
    let hashed = |format: Format, compression, recorder: HashRecorder, file: &TestFile, start: u64| {
        let recorder = Arc::new(recorder);
        let source = Source::Local(Arc::clone(&file.pinned));
        let plan = ScanPlan { on_error: OnError::Skip, ..ints() };
        let end = file.pinned.size_bytes();
        let scan =
            FileScan::new(source, start, end, format, compression, plan, Some(Arc::clone(&recorder)), 2).unwrap();
        drain(&scan).unwrap();
        recorder.finish(end).unwrap()
    };
    let from_start = hashed(Format::Ndjson, Compression::None, HashRecorder::new(), &file, 0);
    assert!(from_start.prefix_matches(&file.pinned, size).unwrap().is_same());
    let as_csv = hashed(one_column(), Compression::None, HashRecorder::new(), &file, 0);
    assert!(as_csv.prefix_matches(&file.pinned, size).unwrap().is_same());

    // An appended part is hashed on from the prefix, though it starts within a block.
    let longer = file_of(text.repeat(2).as_bytes());
    for format in [Format::Ndjson, one_column()] {
        let grown = hashed(format, Compression::None, HashRecorder::after_prefix(&from_start), &longer, size);
        assert!(grown.prefix_matches(&longer.pinned, 2 * size).unwrap().is_same());
    }

    // Of compressed files the compressed bytes are hashed.
    let mut random = Random::new(7);
    let noise: String = (0..700_000).map(|_| format!("{{\"a\":{}}}\n", random.below(1 << 30))).collect();
    for (compression, bytes) in
        [(Compression::Gzip, gzip(noise.as_bytes())), (Compression::Zstd, zstd(noise.as_bytes()))]
    {
        assert!(bytes.len() > BLOCK_BYTES);
        let file = file_of(&bytes);
        let hashes = hashed(Format::Ndjson, compression, HashRecorder::new(), &file, 0);
        assert!(hashes.prefix_matches(&file.pinned, bytes.len() as u64).unwrap().is_same(), "{compression:?}");
    }
}

#[test]
fn threads_share_a_scan_without_losing_or_doubling_records() {
    let text: String = (0..400_000).map(|at| format!("{{\"a\":{at},\"b\":\"some text\"}}\n")).collect();
    for (compression, bytes) in
        [(Compression::None, text.clone().into_bytes()), (Compression::Zstd, zstd(text.as_bytes()))]
    {
        let file = file_of(&bytes);
        let scan = scan_of(&file, Format::Ndjson, compression, ints());
        let mut pieces: Vec<(u64, Vec<Vec<Cell>>)> = std::thread::scope(|scope| {
            let worker = || {
                let mut pieces = Vec::new();
                while let Some(morsel) = scan.next_morsel().unwrap() {
                    let index = morsel.index;
                    pieces.push((index, cells(&scan.decode(morsel).unwrap(), &scan.plan)));
                }
                pieces
            };
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        pieces.sort_by_key(|piece| piece.0);
        let rows: Vec<Vec<Cell>> = pieces.into_iter().flat_map(|piece| piece.1).collect();
        let expected: Vec<Vec<Cell>> = (0..400_000).map(|at| vec![Cell::Int(at)]).collect();
        assert!(rows == expected, "{compression:?}");
    }
}

#[test]
fn remote_pieces_can_be_fetched_in_any_order() {
    let text: String = (0..2000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let bytes = gzip(text.as_bytes());
    let grain = Grain { chunk_bytes: 700, ..Grain::new(0, 1) };
    let range = 0..bytes.len() as u64;
    let scan = FileScan::with_grain(
        Source::Remote(remote_of(&bytes)),
        range,
        Format::Ndjson,
        Compression::Gzip,
        ints(),
        None,
        grain,
    )
    .unwrap();
    let mut morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel().unwrap()).collect();
    assert!(morsels.len() > 3);
    morsels.reverse();
    let mut pieces: Vec<(u64, Vec<Vec<Cell>>)> = Vec::new();
    for morsel in morsels {
        let index = morsel.index;
        let fetched = block_on(scan.fetch(morsel)).unwrap();
        pieces.push((index, cells(&scan.decode(fetched).unwrap(), &scan.plan)));
    }
    pieces.sort_by_key(|piece| piece.0);
    let rows: Vec<Vec<Cell>> = pieces.into_iter().flat_map(|piece| piece.1).collect();
    assert!(rows == (0..2000).map(|at| vec![Cell::Int(at)]).collect::<Vec<_>>());
}

#[test]
fn a_remote_morsel_must_be_fetched_first() {
    let source = Source::Remote(remote_of(b"{\"a\":1}\n"));
    let scan = FileScan::new(source, 0, 8, Format::Ndjson, Compression::None, ints(), None, 1).unwrap();
    let morsel = scan.next_morsel().unwrap().unwrap();
    assert!(matches!(scan.decode(morsel), Err(RawError::NotFetched { .. })));
}

#[test]
fn a_last_record_without_newline_counts_but_is_not_covered() {
    let file = file_of(b"{\"a\":1}\n{\"a\":2}");
    let scan = scan_of(&file, Format::Ndjson, Compression::None, ints());
    assert_eq!(drain(&scan).unwrap().rows.len(), 2);
    assert_eq!(scan.covered_end(), Some(8));
    let cut = file_of(b"{\"a\":1}\n{\"a\":");
    let error = drain(&scan_of(&cut, Format::Ndjson, Compression::None, ints())).unwrap_err();
    assert_eq!(error.fault().unwrap().offset_bytes, 13, "{error}");
}

#[test]
fn a_file_truncated_during_the_scan_is_an_error() {
    let text = "{\"a\":1}\n".repeat(1000);
    for (format, compression) in
        [(Format::Ndjson, Compression::None), (one_column(), Compression::None), (Format::Ndjson, Compression::Gzip)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, &text).unwrap();
        let pinned = Arc::new(PinnedFile::open(&path).unwrap());
        File::options().write(true).open(&path).unwrap().set_len(4000).unwrap();
        let source = Source::Local(pinned);
        let scan = FileScan::new(source, 0, 8000, format, compression, ints(), None, 1).unwrap();
        let error = drain(&scan).unwrap_err();
        assert!(matches!(error, RawError::Truncated { offset_bytes: 4000, expected_bytes: 8000, .. }), "{error}");
        assert!(scan.next_morsel().unwrap().is_none(), "nothing follows an error");
    }
}

#[test]
fn damaged_and_incomplete_compressed_files_are_errors() {
    let text: String = (0..5000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    for (compression, bytes) in [(Compression::Gzip, gzip(text.as_bytes())), (Compression::Zstd, zstd(text.as_bytes()))]
    {
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x55;
        damaged[middle + 1] ^= 0x55;
        for bad in [&bytes[..bytes.len() - 3], &bytes[..bytes.len() / 2], &damaged, b"no archive at all"] {
            let file = file_of(bad);
            for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(bad))] {
                let scan =
                    FileScan::new(source, 0, bad.len() as u64, Format::Ndjson, compression, ints(), None, 1).unwrap();
                let error = drain(&scan).unwrap_err();
                let is_damage = matches!(unshared(&error), RawError::Decompress { .. });
                assert!(is_damage, "{compression:?} {} bytes: {error}", bad.len());
            }
        }
    }
}

#[test]
fn a_file_without_line_ends_is_given_up_after_256_mib() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zeros");
    let file = File::create(&path).unwrap();
    file.set_len(300 << 20).unwrap();
    let pinned = Arc::new(PinnedFile::open(&path).unwrap());
    let scan = |format| {
        FileScan::new(Source::Local(Arc::clone(&pinned)), 0, 300 << 20, format, Compression::None, ints(), None, 1)
            .unwrap()
    };
    let error = drain(&scan(Format::Ndjson)).unwrap_err();
    assert!(matches!(error, RawError::RecordTooLong { offset_bytes: 0, .. }), "{error}");
    let error = drain(&scan(one_column())).unwrap_err();
    assert!(matches!(error, RawError::RecordTooLong { offset_bytes: 0, .. }), "{error}");
}

#[test]
fn empty_files_have_no_morsels_or_no_rows() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let bytes = match compression {
            Compression::None => Vec::new(),
            Compression::Gzip => gzip(b""),
            Compression::Zstd => zstd(b""),
        };
        let file = file_of(&bytes);
        for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
            let scan =
                FileScan::new(source, 0, bytes.len() as u64, Format::Ndjson, compression, ints(), None, 2).unwrap();
            assert_eq!(drain(&scan).unwrap().rows.len(), 0);
        }
    }
}

fn head_of(
    source: &Source,
    size_bytes: u64,
    compression: Compression,
    row_count: usize,
    most_bytes: usize,
) -> Result<Head, RawError> {
    block_on(read_head(source, size_bytes, compression, HeadSize { row_count, most_bytes }, &|_| Ok(())))
}

#[test]
fn a_first_record_beyond_the_wanted_bytes_is_read_to_its_end() {
    let long = "x".repeat(5 << 20);
    let text = format!("{{\"a\":\"{long}\"}}\n{{\"a\":\"{long}\"}}\n") + &"{\"a\":\"y\"}\n".repeat(3_000_000);
    let mut random = Random::new(3);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let bytes = compressed(&mut random, text.as_bytes(), compression);
        let file = file_of(&bytes);
        for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
            let head = head_of(&source, bytes.len() as u64, compression, 1000, 1 << 20).unwrap();
            assert!(!head.is_whole && text.as_bytes().starts_with(&head.bytes), "{compression:?} {source:?}");
            assert!(memchr::memchr_iter(b'\n', &head.bytes).count() >= 2, "{compression:?} {source:?}");
        }
    }
}

#[test]
fn a_head_takes_no_more_memory_than_it_asked_for() {
    let text = "{\"a\":1}\n".repeat(1_000_000);
    let mut random = Random::new(3);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let bytes = compressed(&mut random, text.as_bytes(), compression);
        let file = file_of(&bytes);
        for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
            let wanted = HeadSize { row_count: usize::MAX, most_bytes: usize::MAX };
            let size_bytes = bytes.len() as u64;
            let held = AtomicU64::new(0);
            let hold_any = |bytes: u64| {
                held.fetch_max(bytes, Ordering::Relaxed);
                Ok(())
            };
            let head = block_on(read_head(&source, size_bytes, compression, wanted, &hold_any)).unwrap();
            let held_bytes = held.load(Ordering::Relaxed);
            assert!(held_bytes >= head.bytes.capacity() as u64, "{compression:?} {source:?}: {held_bytes}");
            let hold_few = |bytes: u64| match bytes {
                ..=2_000_000 => Ok(()),
                _ => Err("none is left".into()),
            };
            let error = block_on(read_head(&source, size_bytes, compression, wanted, &hold_few)).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, RawError::SampleMemory { .. }), "{message}");
            assert!(message.contains("none is left") && message.contains("`sample_rows`"), "{message}");
        }
    }
}

#[test]
fn heads_hold_the_wanted_records_of_every_source() {
    let text: String = (0..300_000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let mut random = Random::new(3);
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let bytes = compressed(&mut random, text.as_bytes(), compression);
        let file = file_of(&bytes);
        for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(&bytes))] {
            let size = bytes.len() as u64;
            let head = head_of(&source, size, compression, 100, usize::MAX).unwrap();
            assert!(text.as_bytes().starts_with(&head.bytes) && head.bytes.len() > 1000, "{compression:?}");
            assert_eq!(head.is_whole, head.bytes.len() == text.len(), "{compression:?} {source:?}");
            let head = head_of(&source, size, compression, usize::MAX, usize::MAX).unwrap();
            assert!(head.is_whole && head.bytes == text.as_bytes(), "{compression:?} {source:?}");
            let some = head_of(&source, size, compression, usize::MAX, 1 << 20).unwrap();
            assert!(!some.is_whole && some.bytes.len() >= 1 << 20);
            let sample = Sample { file: Arc::clone(source.path()), bytes: &some.bytes, is_whole: some.is_whole };
            assert!(csv::infer([sample], &csv::InferOptions::default()).is_ok());
        }
    }
}

#[test]
fn an_unterminated_last_record_is_read_but_never_covered() {
    let text = "id,text\n1,a\n2,b";
    let file = file_of(text.as_bytes());
    let columns = ["id", "text"].map(|name| Column { path: FieldPath::root(name), data_type: DataType::Utf8 });
    let format = || Format::Csv(Arc::new(CsvFormat::with_columns(["id", "text"])));
    for piece_bytes in [1, 5, 8, 100] {
        let grain = Grain { morsel_bytes: 10, piece_bytes, window_bytes: 3, chunk_bytes: 4 };
        let source = Source::Local(Arc::clone(&file.pinned));
        let plan = ScanPlan::all_rows(columns.to_vec());
        let scan =
            FileScan::with_grain(source, 0..text.len() as u64, format(), Compression::None, plan, None, grain).unwrap();
        assert_eq!(drain(&scan).unwrap().rows.len(), 2);
        assert_eq!(scan.covered_end(), Some(12), "pieces of {piece_bytes} bytes");
    }
}
