//! A scan by a positional map gives what an ordinary scan gives.

use super::positions::any_file;
use super::*;
use crate::file_scan::positions::PositionGrain;
use crate::{MapPiece, PositionalMap, Unnest};

/// The pieces of a scan, by morsel.
fn pieces(source: Source, size_bytes: u64, format: &Format, plan: &ScanPlan, grain: Grain) -> Vec<(u64, MapPiece)> {
    let plan = ScanPlan { map: true, ..plan.clone() };
    let scan =
        FileScan::with_grain(source, 0..size_bytes, format.clone(), Compression::None, plan, None, grain).unwrap();
    let mut pieces = Vec::new();
    while let Some(morsel) = scan.next_morsel().unwrap() {
        let index = morsel.index;
        let morsel = block_on(scan.fetch(morsel)).unwrap();
        pieces.push((index, scan.decode(morsel).unwrap().map_piece.unwrap()));
    }
    pieces
}

/// The map that a scan gives whose morsels end in any order.
fn map_of(random: &mut Random, bytes: &[u8], format: &Format, plan: &ScanPlan) -> Option<PositionalMap> {
    let file = file_of(bytes);
    let (source, size_bytes) = (Source::Local(Arc::clone(&file.pinned)), bytes.len() as u64);
    let mut pieces = pieces(source, size_bytes, format, plan, tiny(random));
    let mut builder = PositionalMap::builder(usize::MAX);
    while !pieces.is_empty() {
        let (index, piece) = pieces.swap_remove(random.below(pieces.len()));
        builder.add(index, piece);
    }
    builder.finish(size_bytes)
}

fn scan_by(
    random: &mut Random,
    source: Source,
    map: &PositionalMap,
    format: &Format,
    plan: &ScanPlan,
) -> Result<FileScan, RawError> {
    let least = 1 + random.below(100) as u64;
    let grain = PositionGrain { morsel_bytes: (least, least + 100), ..PositionGrain::WHOLE };
    let read_bytes = random.below(300) as u64;
    FileScan::with_map_read(source, Arc::new(map.clone()), format.clone(), plan.clone(), None, grain, read_bytes)
}

/// Plans over the same fields.
fn variants(first: &ScanPlan, second: &ScanPlan) -> Vec<ScanPlan> {
    let mut variants = vec![first.clone(), second.clone()];
    for (columns, filters) in [(first, second), (second, first)] {
        variants.push(ScanPlan {
            predicate: filters.predicate.clone(),
            predicate_types: filters.predicate_types.iter().chain(&filters.columns).cloned().collect(),
            ..columns.clone()
        });
        variants.push(ScanPlan { predicate: Default::default(), predicate_types: Vec::new(), ..columns.clone() });
        variants.push(ScanPlan { unnest: None, ..columns.clone() });
    }
    variants
}

/// Whether the map knows all fields that the plan reads.
fn knows_all(map: &PositionalMap, plan: &ScanPlan) -> bool {
    let columns = plan.columns.iter().map(|column| &column.path);
    let paths = columns.chain(plan.predicate.fields().map(|(path, _)| path));
    map.knows(paths, plan.unnest.as_ref().map(|unnest| &unnest.path))
}

#[test]
fn a_scan_by_a_map_gives_the_rows_of_an_ordinary_scan() {
    let (mut covered_count, mut uncovered_count) = (0, 0);
    for seed in 1..=250 {
        let random = &mut Random::new(seed);
        let (text, format, first) = any_file(random);
        let first = ScanPlan { strict: false, ..first };
        let second = match &format {
            Format::Csv(_) => ScanPlan { columns: Vec::new(), predicate_types: first.columns.clone(), ..first.clone() },
            Format::Ndjson => ScanPlan { columns: first.columns.iter().rev().cloned().collect(), ..first.clone() },
        };
        let maps = [&first, &second].map(|plan| map_of(random, text.as_bytes(), &format, plan).unwrap());
        assert_eq!(maps[0].records(), maps[1].records(), "seed {seed}\n{text}");
        let all = maps[0].merged(&maps[1]).unwrap();
        let list = first.unnest.as_ref().map(|unnest| &unnest.path);
        let mut of_records =
            first.columns.iter().filter(|column| list.is_none_or(|list| !column.path.starts_with(list)));
        let few = ScanPlan { columns: of_records.next().into_iter().cloned().collect(), unnest: None, ..first.clone() };
        let few = ScanPlan { predicate: Default::default(), ..few };
        let few = map_of(random, text.as_bytes(), &format, &few).unwrap();
        let file = file_of(text.as_bytes());
        for plan in variants(&first, &second) {
            let map = if random.below(3) == 0 { &few } else { &all };
            let Ok(expected) = whole(text.as_bytes(), &format, &plan) else { continue };
            let count = if knows_all(map, &plan) { &mut covered_count } else { &mut uncovered_count };
            *count += 1;
            for source in [Source::Local(Arc::clone(&file.pinned)), Source::Remote(remote_of(text.as_bytes()))] {
                let context = format!("seed {seed} {plan:?} {source:?}\n{text}");
                let scan = scan_by(random, source, map, &format, &plan).unwrap();
                let outcome = drain(&scan).unwrap_or_else(|error| panic!("{error} {context}"));
                assert_eq!(outcome, expected, "{context}");
            }
        }
    }
    assert!(covered_count > 400 && uncovered_count > 100, "{covered_count} plans were covered, {uncovered_count} not");
}

#[test]
fn a_map_made_by_a_scan_by_a_map_serves_as_well() {
    for seed in 1..=100 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = any_file(random);
        let plan = ScanPlan { strict: false, ..plan };
        let map = map_of(random, text.as_bytes(), &format, &plan).unwrap();
        let expected = whole(text.as_bytes(), &format, &plan).unwrap();
        let mapping = ScanPlan { map: true, ..plan.clone() };
        let file = file_of(text.as_bytes());
        let scan = scan_by(random, Source::Local(Arc::clone(&file.pinned)), &map, &format, &mapping).unwrap();
        let mut builder = PositionalMap::builder(usize::MAX);
        while let Some(morsel) = scan.next_morsel().unwrap() {
            let index = morsel.index;
            builder.add(index, scan.decode(morsel).unwrap().map_piece.unwrap());
        }
        let again = builder.finish(text.len() as u64).unwrap();
        assert_eq!(again.records(), map.records(), "seed {seed}\n{text}");
        let scan = scan_by(random, Source::Local(Arc::clone(&file.pinned)), &again, &format, &plan).unwrap();
        assert_eq!(drain(&scan).unwrap(), expected, "seed {seed}\n{text}");
    }
}

fn column(path: &str, data_type: DataType) -> Column {
    Column { path: FieldPath::new(path.split('.')), data_type }
}

#[test]
fn duplicates_escapes_missing_fields_and_nulls_are_read_by_a_map_as_by_a_walk() {
    let text = concat!(
        "{\"a\":1,\"a\":2,\"o\":{\"b\":\"x\"},\"l\":[1,2]}\n",
        "\r\n",
        "  {\"o\":null,\"l\":[],\"\\u0061\": 3 }  \r\n",
        "{\"l\":null,\"o\":{\"c\":1,\"b\":\"q\\\"\\u00e4\"},\"o\":{\"b\":\"second\"}}\n",
        "{}\n",
        "{\"o\":{},\"a\":null,\"l\":[7]}",
    );
    let plan = ScanPlan::all_rows(vec![column("o.b", DataType::Utf8), column("a", DataType::Int64)]);
    let unnested = |keeps_empty| ScanPlan {
        unnest: Some(Unnest { path: FieldPath::root("l"), keeps_empty }),
        columns: vec![column("l", DataType::Int64), column("a", DataType::Int64)],
        ..plan.clone()
    };
    let random = &mut Random::new(1);
    let file = file_of(text.as_bytes());
    for plan in [unnested(false), unnested(true), plan] {
        let map = map_of(random, text.as_bytes(), &Format::Ndjson, &plan).unwrap();
        assert_eq!(map.records().len(), 5);
        let source = Source::Local(Arc::clone(&file.pinned));
        let outcome = drain(&scan_by(random, source, &map, &Format::Ndjson, &plan).unwrap()).unwrap();
        assert_eq!(outcome, whole(text.as_bytes(), &Format::Ndjson, &plan).unwrap());
    }
}

#[test]
fn values_of_another_type_are_the_same_error_or_left_out_alike() {
    let text = "{\"a\":1,\"b\":2}\n{\"b\":3,\"a\":\"x\"}\n{\"a\":4,\"b\":5}\n";
    let random = &mut Random::new(1);
    let texts = ScanPlan::all_rows(vec![column("a", DataType::Utf8), column("b", DataType::Utf8)]);
    let map = map_of(random, text.as_bytes(), &Format::Ndjson, &texts).unwrap();
    let file = file_of(text.as_bytes());
    let source = || Source::Local(Arc::clone(&file.pinned));
    let error = drain(&scan_by(random, source(), &map, &Format::Ndjson, &ints()).unwrap()).unwrap_err();
    let expected = whole(text.as_bytes(), &Format::Ndjson, &ints()).unwrap_err();
    assert_eq!(error.fault().unwrap().offset_bytes, expected.fault().unwrap().offset_bytes);
    let skipping = ScanPlan { on_error: OnError::Skip, ..ints() };
    let outcome = drain(&scan_by(random, source(), &map, &Format::Ndjson, &skipping).unwrap()).unwrap();
    assert_eq!(outcome, whole(text.as_bytes(), &Format::Ndjson, &skipping).unwrap());
    // A scan that left records out does not know where their fields are.
    assert_eq!(map_of(random, text.as_bytes(), &Format::Ndjson, &skipping), None);
}

#[test]
fn counting_records_by_a_map_reads_nothing() {
    let text = "{\"a\":1}\n".repeat(100);
    let file = file_of(text.as_bytes());
    let map = map_of(&mut Random::new(1), text.as_bytes(), &Format::Ndjson, &ints()).unwrap();
    File::options().write(true).open(&**file.pinned.path()).unwrap().set_len(0).unwrap();
    let source = Source::Local(Arc::clone(&file.pinned));
    let scan = FileScan::with_map(source, Arc::new(map), Format::Ndjson, ScanPlan::all_rows(Vec::new()), None).unwrap();
    let morsel = scan.next_morsel().unwrap().unwrap();
    assert_eq!(scan.decode(morsel).unwrap().row_count, 100);
}

#[test]
fn a_map_of_another_file_gives_errors_or_rows_but_no_panic() {
    for seed in 1..=300 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = any_file(random);
        let plan = ScanPlan { strict: false, ..plan };
        let map = map_of(random, text.as_bytes(), &format, &plan).unwrap();
        let mut bytes = text.into_bytes();
        for _ in 0..=random.below(20) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = *random.pick(b"\"\\{}[]:,0 \n\xff");
            }
        }
        bytes.truncate(bytes.len() - if random.one_in(3) { random.below(bytes.len() + 1) } else { 0 });
        let file = file_of(&bytes);
        let scan = scan_by(random, Source::Local(Arc::clone(&file.pinned)), &map, &format, &plan).unwrap();
        let _ = drain(&scan);
    }
}

#[test]
fn what_one_scan_reads_up_to_any_border_and_another_behind_it_is_all_of_the_file_however_they_read() {
    for seed in 1..=150 {
        let random = &mut Random::new(seed);
        let (text, format, plan) = any_file(random);
        let plan = ScanPlan { strict: false, on_error: OnError::Skip, positions: false, ..plan };
        let file = file_of(text.as_bytes());
        let (source, end) = (Source::Local(Arc::clone(&file.pinned)), text.len() as u64);
        let map = map_of(random, text.as_bytes(), &format, &plan).unwrap();
        let plain_scan = |start: u64, grain: Grain| {
            let (range, none) = (start..end, Compression::None);
            FileScan::with_grain(source.clone(), range, format.clone(), none, plan.clone(), None, grain).unwrap()
        };
        let expected = drain(&plain_scan(0, tiny(random))).unwrap();
        let first = match random.one_in(2) {
            true => scan_by(random, source.clone(), &map, &format, &plan).unwrap(),
            false => plain_scan(0, tiny(random)),
        };
        // The head that ends with each of the first scan's morsels.
        let mut head = Outcome { rows: Vec::new(), records: 0, skipped: 0, positions: RecordPositions::default() };
        while let Some(morsel) = first.next_morsel().unwrap() {
            let head_bytes = first.head_end(&morsel);
            let rows = first.decode(morsel).unwrap();
            head.rows.extend(cells(&rows, &plan));
            head.records += rows.record_count;
            let rest = match random.one_in(2) {
                true => scan_by(random, source.clone(), &map, &format, &plan).unwrap().without_first(head.records),
                false if matches!(format, Format::Csv(_)) => plain_scan(head_bytes, tiny(random)),
                false => plain_scan(0, tiny(random)).begun_at(head_bytes),
            };
            let rest = drain(&rest).unwrap();
            let rows = [head.rows.as_slice(), rest.rows.as_slice()].concat();
            assert_eq!(rows, expected.rows, "seed {seed}, {head_bytes} of {end}\n{text}");
            assert_eq!(head.records + rest.records, expected.records, "seed {seed}, {head_bytes} of {end}\n{text}");
        }
    }
}

#[test]
fn strict_plans_are_refused() {
    let text = b"{\"a\":1}\n";
    let map = map_of(&mut Random::new(1), text, &Format::Ndjson, &ints()).unwrap();
    let file = file_of(text);
    let random = &mut Random::new(1);
    let plan = ScanPlan { strict: true, ..ints() };
    let source = Source::Local(Arc::clone(&file.pinned));
    assert!(scan_by(random, source, &map, &Format::Ndjson, &plan).is_err());
}

#[test]
fn a_map_that_outgrows_its_limit_gives_up_fields_and_then_everything() {
    let text: String = (0..20_000).map(|at| format!("{{\"a\":{at},\"b\":{}}}\n", at % 7)).collect();
    let file = file_of(text.as_bytes());
    let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64), column("b", DataType::Int64)]);
    let built = |limit_bytes: usize| {
        let source = Source::Local(Arc::clone(&file.pinned));
        let grain = Grain { morsel_bytes: 30_000, ..Grain::new(0, 1) };
        let mut builder = PositionalMap::builder(limit_bytes);
        for (index, piece) in pieces(source, text.len() as u64, &Format::Ndjson, &plan, grain) {
            builder.add(index, piece);
            assert!(builder.size_bytes() <= limit_bytes);
        }
        builder.finish(text.len() as u64)
    };
    let all = built(1 << 20).unwrap();
    assert_eq!(all.paths().count(), 2);
    assert_eq!(all.records().len(), 20_000);
    let mut last = 2;
    for limit_bytes in (0..40_000).rev().step_by(500) {
        let count = built(limit_bytes).map_or(0, |map| 1 + map.paths().count());
        assert!(count <= last.max(3));
        last = count;
    }
    assert_eq!(last, 0);
    assert!((0..40_000).step_by(500).any(|limit| built(limit).is_some_and(|map| map.paths().count() < 2)));
}

#[test]
fn a_scan_by_a_map_hashes_what_an_ordinary_scan_hashes_and_tells_whether_the_file_can_grow() {
    for seed in 1..=24 {
        let random = &mut Random::new(seed);
        let mut text = String::from(*random.pick(&["", "\n\n", "\u{feff}"]));
        let size_bytes = BLOCK_BYTES * random.below(4) + random.below(BLOCK_BYTES);
        while text.len() < size_bytes {
            let length = if random.one_in(200) { random.below(3 * BLOCK_BYTES / 2) } else { random.below(9000) };
            text += &format!("{{\"a\":{},\"t\":\"{}\"}}\n", text.len(), "x".repeat(length));
        }
        if random.one_in(2) {
            text += *random.pick(&["{\"a\":1,\"t\":\"\"}", "\n\r\n", "{\"a\":1}\n{}"]);
        }
        let plan = ScanPlan::all_rows(vec![column("a", DataType::Int64)]);
        let file = file_of(text.as_bytes());
        let source = Source::Local(Arc::clone(&file.pinned));
        let mut builder = PositionalMap::builder(usize::MAX);
        for (index, piece) in pieces(source.clone(), text.len() as u64, &Format::Ndjson, &plan, Grain::new(0, 1)) {
            builder.add(index, piece);
        }
        let map = builder.finish(text.len() as u64).unwrap();
        let (ordinary, by_map) = (Arc::new(HashRecorder::new()), Arc::new(HashRecorder::new()));
        let end = text.len() as u64;
        let (format, recorder) = (Format::Ndjson, Some(Arc::clone(&ordinary)));
        let none = Compression::None;
        let scan = FileScan::new(source.clone(), 0, end, format.clone(), none, plan.clone(), recorder, 2).unwrap();
        let expected = drain(&scan).unwrap();
        let least = 1 + random.below(400_000) as u64;
        let grain = PositionGrain { morsel_bytes: (least, 2 * least), ..PositionGrain::WHOLE };
        let recorder = Some(Arc::clone(&by_map));
        let mapped = FileScan::with_map_read(source, Arc::new(map), format, plan, recorder, grain, 1000).unwrap();
        assert_eq!(drain(&mapped).unwrap(), expected, "seed {seed}");
        if expected.records > 0 {
            assert_eq!(by_map.finish(end), ordinary.finish(end), "seed {seed}");
            assert!(by_map.finish(end).is_some());
            let is_grown = scan.covered_end() == Some(end);
            assert_eq!(mapped.covered_end(), is_grown.then_some(end), "seed {seed}");
        }
    }
}
