//! Records read by their positions are the records that were read before.

use thermocline_predicate::{Domain, Scalar};

use super::*;
use crate::RecordPositions;
use crate::file_scan::positions::{PositionCut, PositionGrain};

fn tiny_positions(random: &mut Random) -> PositionGrain {
    let least = 1 + random.below(100) as u64;
    PositionGrain {
        gap_bytes: random.below(60) as u64,
        first_reach_bytes: 1 + random.below(100) as u64,
        read_bytes: 1 + random.below(300) as u64,
        morsel_bytes: (least, least + random.below(200) as u64),
        span_bytes: 1 + random.below(2000) as u64,
        record_bytes: random.below(80) as u64,
    }
}

fn both(bytes: &[u8]) -> (TestFile, [Source; 2]) {
    let file = file_of(bytes);
    let sources = [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(bytes))];
    (file, sources)
}

/// Where lines begin that are not blank, quotes hiding newlines where `has_quotes`; and each line.
fn lines(text: &str, has_quotes: bool) -> Vec<(usize, &str)> {
    let mut starts = vec![0];
    let mut is_inside = false;
    for (at, byte) in text.bytes().enumerate() {
        is_inside ^= has_quotes && byte == b'"';
        if byte == b'\n' && !is_inside {
            starts.push(at + 1);
        }
    }
    starts.push(text.len());
    let line = |pair: &[usize]| {
        let line = &text[pair[0]..pair[1]];
        // A record of NDJSON begins behind white space, one of CSV with it.
        let indent = if has_quotes { 0 } else { line.len() - line.trim_start().len() };
        (pair[0] + indent, &line[indent..])
    };
    starts.windows(2).map(line).filter(|(_, line)| !line.trim().is_empty()).collect()
}

/// What decoding these lines one by one gives, and which of them give rows.
fn one_by_one(lines: &[(usize, &str)], format: &Format, plan: &ScanPlan) -> (Vec<Vec<Cell>>, Vec<u64>) {
    let mut decoder: Box<dyn Decoder> = match format {
        Format::Ndjson => Box::new(NdjsonDecoder::new(plan, Arc::from("f")).unwrap()),
        Format::Csv(format) => Box::new(CsvDecoder::new(plan, format, Arc::from("f")).unwrap()),
    };
    let (mut rows, mut positions) = (Vec::new(), Vec::new());
    for (at, line) in lines {
        // Not at the file's start, so that no header is looked for.
        decoder.decode(line.as_bytes(), 1 + *at as u64).unwrap();
        let decoded = decoder.finish().unwrap();
        let found = cells(&decoded, plan);
        if !found.is_empty() {
            positions.push(*at as u64);
        }
        rows.extend(found);
    }
    (rows, positions)
}

/// A text, its format, a plan, and the records without the header.
pub(super) fn any_file(random: &mut Random) -> (String, Format, ScanPlan) {
    if random.one_in(2) {
        let (fields, mut text) = random_ndjson(random);
        if random.one_in(4) {
            text = text.replace("\n{", "\n \t{");
        }
        return (text, Format::Ndjson, plan(random, &fields));
    }
    let text = random_csv(random);
    let (format, mut plan) = csv_plan(&text);
    if random.one_in(2) {
        plan.columns.insert(0, Column { path: FieldPath::root("n"), data_type: DataType::Int64 });
    }
    if random.one_in(2) {
        let domain = Domain::points((0..40).filter(|_| random.one_in(3)).map(Scalar::Int));
        plan.predicate = plan.predicate.and(FieldPath::root("id"), domain);
    }
    (text, format, plan)
}

fn records<'a>(text: &'a str, format: &Format) -> Vec<(usize, &'a str)> {
    match format {
        Format::Ndjson => lines(text, false),
        Format::Csv(_) => lines(text, true).split_off(1),
    }
}

#[test]
fn a_scan_notes_the_records_that_gave_rows_and_only_those() {
    for seed in 1..=400 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = any_file(random);
        let plan = ScanPlan { positions: true, ..plan };
        let (expected, expected_positions) = one_by_one(&records(&text, &format), &format, &plan);
        let (_file, sources) = both(text.as_bytes());
        for source in sources {
            let (range, grain) = (0..text.len() as u64, tiny(random));
            let scan =
                FileScan::with_grain(source, range, format.clone(), Compression::None, plan.clone(), None, grain)
                    .unwrap();
            let outcome = drain(&scan).unwrap();
            assert_eq!(outcome.rows, expected, "seed {seed}\n{text}");
            let positions = outcome.positions;
            assert_eq!(positions.iter().collect::<Vec<_>>(), expected_positions, "seed {seed} {grain:?}\n{text}");
        }
    }
}

#[test]
fn nothing_is_noted_unless_asked_for() {
    let file = file_of(b"{\"a\":1}\n");
    let scan = scan_of(&file, Format::Ndjson, Compression::None, ints());
    let morsel = scan.next_morsel().unwrap().unwrap();
    assert_eq!(scan.decode(morsel).unwrap().positions, None);
}

#[test]
fn records_at_any_positions_are_read_as_if_alone() {
    for seed in 1..=600 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = any_file(random);
        let plan = ScanPlan { positions: true, ..plan };
        let mut wanted = records(&text, &format);
        let share = 1 + random.below(4);
        wanted.retain(|_| random.one_in(share));
        let (expected, expected_positions) = one_by_one(&wanted, &format, &plan);
        let positions: Arc<RecordPositions> = Arc::new(wanted.iter().map(|record| record.0 as u64).collect());
        let (_file, sources) = both(text.as_bytes());
        for source in sources {
            let grain = tiny_positions(random);
            let (positions, size) = (Arc::clone(&positions), text.len() as u64);
            let scan = FileScan::at_positions_with(
                source,
                Arc::clone(&positions),
                size,
                format.clone(),
                Compression::None,
                plan.clone(),
                grain,
            )
            .unwrap();
            let context = format!("seed {seed} {grain:?} {:?}\n{text}", positions.iter().collect::<Vec<_>>());
            let outcome = drain(&scan).unwrap_or_else(|error| panic!("{error} {context}"));
            assert_eq!(outcome.rows, expected, "{context}");
            assert_eq!(outcome.records, positions.len() as u64, "{context}");
            assert_eq!(outcome.positions.iter().collect::<Vec<_>>(), expected_positions, "{context}");
            assert_eq!(scan.covered_end(), None);
        }
    }
}

#[test]
fn many_records_of_every_length_are_found_again() {
    let random = &mut Random::new(5);
    let mut text = String::new();
    let mut starts = Vec::new();
    for at in 0..30_000 {
        starts.push(text.len());
        let length = match random.below(2000) {
            0 => 700_000,
            1..10 => 20_000,
            _ => 40,
        };
        text.push_str(&format!("{{\"a\":{at},\"b\":\"{}\"}}\n", "x".repeat(random.below(length))));
    }
    let (_file, sources) = both(text.as_bytes());
    for source in sources {
        for share in [1, 3, 200] {
            let wanted: Vec<usize> = (0..starts.len()).filter(|_| random.one_in(share)).collect();
            let positions = Arc::new(wanted.iter().map(|&at| starts[at] as u64).collect());
            let (size, format) = (text.len() as u64, Format::Ndjson);
            let scan = FileScan::at_positions(source.clone(), positions, 0, size, format, Compression::None, ints());
            let scan = scan.unwrap();
            let expected: Vec<Vec<Cell>> = wanted.iter().map(|&at| vec![Cell::Int(at as i128)]).collect();
            assert!(drain(&scan).unwrap().rows == expected, "one in {share} of {source:?}");
        }
    }
}

fn at(source: Source, positions: &[u64], end_bytes: u64, format: Format) -> Result<FileScan, RawError> {
    let positions = Arc::new(positions.iter().copied().collect());
    FileScan::at_positions(source, positions, 0, end_bytes, format, Compression::None, ints())
}

#[test]
fn no_positions_are_no_rows() {
    let (_file, sources) = both(b"{\"a\":1}\n");
    for source in sources {
        let scan = at(source, &[], 8, Format::Ndjson).unwrap();
        assert!(scan.next_morsel().unwrap().is_none());
        assert_eq!(scan.total_bytes(), 0);
    }
}

#[test]
fn positions_that_cannot_be_are_errors() {
    let (_file, sources) = both(b"{\"a\":1}\n{\"a\":2}\n");
    for source in sources {
        let error = at(source.clone(), &[0, 16], 16, Format::Ndjson).unwrap_err();
        assert!(matches!(error, RawError::Position { offset_bytes: 16, .. }), "{error}");
        let error = drain(&at(source.clone(), &[0, 5], 16, Format::Ndjson).unwrap()).unwrap_err();
        assert!(matches!(error, RawError::Position { offset_bytes: 5, .. }), "{error}");
        let error = drain(&at(source.clone(), &[5], 16, Format::Ndjson).unwrap()).unwrap_err();
        assert_eq!(error.fault().unwrap().offset_bytes, 5, "{error}");
        let headed = Format::Csv(Arc::new(CsvFormat::with_columns(["a"])));
        let error = at(source.clone(), &[0], 16, headed).unwrap_err();
        assert!(matches!(error, RawError::Position { offset_bytes: 0, .. }), "{error}");
        let zstd = FileScan::at_positions(source, Arc::default(), 0, 16, Format::Ndjson, Compression::Zstd, ints());
        assert!(matches!(zstd, Err(RawError::Option { name: "compression", .. })));
    }
}

#[test]
fn a_file_truncated_below_a_position_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "{\"a\":1}\n".repeat(1000)).unwrap();
    let pinned = Arc::new(PinnedFile::open(&path).unwrap());
    File::options().write(true).open(&path).unwrap().set_len(4000).unwrap();
    for (position, offset) in [(6400, 4000), (3200, 4000)] {
        let scan = at(Source::Local(Arc::clone(&pinned)), &[position], 8000, Format::Ndjson).unwrap();
        let error = drain(&scan).unwrap_err();
        let RawError::Truncated { offset_bytes, expected_bytes: 8000, .. } = error else { panic!("{error}") };
        assert!(offset_bytes >= offset, "{position}: {offset_bytes}");
    }
}

#[test]
fn a_bad_record_is_named_by_its_byte_and_line_or_left_out() {
    let text = "a\n1\n\"\n\"\n2\nx\n3\n";
    let headed = Format::Csv(Arc::new(CsvFormat::with_columns(["a"])));
    let file = file_of(text.as_bytes());
    let source = Source::Local(Arc::clone(&file.pinned));
    let error = drain(&at(source.clone(), &[2, 8, 10, 12], 14, headed.clone()).unwrap()).unwrap_err();
    let fault = error.fault().unwrap();
    assert_eq!((fault.offset_bytes, fault.line), (10, Some(6)), "{error}");
    let positions = Arc::new([2, 8, 10, 12].into_iter().collect());
    let skipping = ScanPlan { on_error: OnError::Skip, ..ints() };
    let scan = FileScan::at_positions(source, positions, 0, 14, headed, Compression::None, skipping).unwrap();
    let outcome = drain(&scan).unwrap();
    assert_eq!((outcome.rows.len(), outcome.skipped), (3, 1));
}

fn cut_of(positions: &[u64], end_bytes: u64, grain: PositionGrain) -> PositionCut {
    PositionCut::new(Arc::new(positions.iter().copied().collect()), end_bytes, &Format::Ndjson, grain)
}

#[test]
fn one_long_record_does_not_make_the_reads_behind_it_long_or_single() {
    let grain = PositionGrain {
        gap_bytes: 100,
        first_reach_bytes: 100,
        read_bytes: 10_000,
        morsel_bytes: (1 << 20, 1 << 20),
        span_bytes: 1 << 20,
        record_bytes: 0,
    };
    let offsets: Vec<u64> = (0..1000).map(|at| at * 40).collect();
    let cut = cut_of(&offsets, 40_000, grain);
    // Adjacent records end where the next begins, however long one of them may be.
    assert_eq!(cut.next_read(&offsets, 1 << 20), (10_000, 250));
    assert_eq!(cut.next_read(&offsets[999..], 1 << 20), (40_000, 1));
    // Far from each other they are read for what they take.
    let mut reach = cut.next_reach(100, 1 << 20, 1 << 20);
    assert_eq!(reach, grain.read_bytes);
    for _ in 0..10 {
        reach = cut.next_reach(reach, 40, 1 << 20);
    }
    assert_eq!(reach, grain.first_reach_bytes);
    let sparse: Vec<u64> = (0..100).map(|at| at * 400).collect();
    assert_eq!(cut_of(&sparse, 40_000, grain).next_read(&sparse, reach), (100, 1));
}

/// Of each morsel the bytes from its first position to the next morsel's, and its records.
fn spans(cut: &PositionCut) -> Vec<(u64, usize)> {
    let of = |index| Some((cut.range_of(index)?, cut.numbers_of(index).len()));
    (0..).map_while(of).map(|(range, count)| (range.end - range.start, count)).collect()
}

#[test]
fn what_a_morsel_reads_is_bounded_however_long_its_records_are() {
    const MIB: u64 = 1 << 20;
    let local = |record_bytes| PositionGrain { record_bytes, ..PositionGrain::LOCAL };
    // By the mean length of the file's records a morsel takes as much as in any scan.
    for length in [100_000, MIB, 9 * MIB] {
        let offsets: Vec<u64> = (0..250).map(|at| at * length).collect();
        let spans = spans(&cut_of(&offsets, 250 * length, local(length)));
        assert_eq!(spans.iter().map(|span| span.1).sum::<usize>(), 250);
        assert!(spans.iter().all(|span| span.0 <= (8 * MIB).max(length)), "{length}: {spans:?}");
    }
    // Short records that are followed by long ones, which the mean does not tell of.
    let mut offsets: Vec<u64> = (0..100_000).map(|at| at * 100).collect();
    offsets.extend((1..=250).map(|at| 100_000 * 100 + at * 9 * MIB));
    let end = offsets.last().unwrap() + 9 * MIB;
    let spans_of = |record_bytes| spans(&cut_of(&offsets, end, local(record_bytes)));
    for record_bytes in [0, 100] {
        let spans = spans_of(record_bytes);
        assert_eq!(spans.iter().map(|span| span.1).sum::<usize>(), offsets.len());
        assert!(spans.iter().all(|span| span.0 <= 64 * MIB), "{spans:?}");
    }
    // Short records far from each other: many to a morsel, as long as it does not span too much.
    let sparse: Vec<u64> = (0..10_000).map(|at| at * 100_000).collect();
    let spans = spans(&cut_of(&sparse, 10_000 * 100_000, local(100)));
    assert!(spans.len() < 100, "{}", spans.len());
}

#[test]
fn a_record_that_reaches_into_the_next_position_is_an_error() {
    let text = ["{\"a\":1,\"b\":\"", &"x".repeat(400_000), "\"}\n{\"a\":2}\n"].concat();
    let (_file, [local, _]) = both(text.as_bytes());
    // The second position lies within the record that begins at the first, and too far behind it for one read.
    let scan = at(local, &[0, 300_000], text.len() as u64, Format::Ndjson).unwrap();
    let error = drain(&scan).unwrap_err();
    assert!(matches!(error, RawError::Position { offset_bytes: 300_000, .. }), "{error}");
}
