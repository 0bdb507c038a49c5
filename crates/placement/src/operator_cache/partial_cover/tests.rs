//! The cheapest cover against all sets of items, and the cases a reader would ask about.

use thermocline_seeded::Random;

use super::*;

fn item(id: u64, spans: &[Span], scan_ns: u64) -> PartialItem {
    PartialItem { id, spans: spans.to_vec(), scan_ns }
}

fn piece(span: Span, source: Source) -> Piece {
    Piece { span, source }
}

fn width(span: &Span) -> f64 {
    // As floats: the width of an unbounded range is beyond i128.
    (span.end as f64 - span.start as f64).max(0.0)
}

/// The share of a request that a span has, if rows are spread evenly over the request's ordinals.
fn even_share(request: &[Span]) -> impl Fn(&Span) -> f64 + use<> {
    let whole: f64 = disjoint(request).iter().map(width).sum();
    move |span| if whole > 0.0 { width(span) / whole } else { 0.0 }
}

fn cover_evenly(request: &[Span], items: &[PartialItem], file: &FileScan) -> PartialCover {
    cover(request, items, file, &even_share(request))
}

/// Reading the file costs as much as parsing and keeping everything in it.
const FILE: FileScan = FileScan { file_ns: 1000, kept_ns: 1000 };

#[test]
fn items_that_cover_the_range_together_need_no_scan_and_each_row_comes_from_one() {
    let items = [item(1, &[0..60], 50), item(2, &[40..100], 50)];
    let answer = cover_evenly(&[0..100], &items, &FILE);
    assert_eq!(answer.pieces, [piece(0..60, Source::Item(1)), piece(60..100, Source::Item(2))]);
    assert_eq!((answer.predicted_ns, answer.scan_anew_ns), (100.0, 2000.0));
    assert!(answer.uses_items() && !answer.scans_file());
}

#[test]
fn a_remainder_pays_for_the_whole_file_and_saves_what_is_not_kept_again() {
    let answer = cover_evenly(&[0..100], &[item(1, &[0..80], 300)], &FILE);
    assert_eq!(answer.pieces, [piece(0..80, Source::Item(1)), piece(80..100, Source::Remainder)]);
    assert_eq!(answer.predicted_ns, 1000.0 + 300.0 + 200.0);
    assert!(answer.uses_items() && answer.scans_file());
    // The item costs as much as keeping its part anew: nothing is gained.
    let no_gain = cover_evenly(&[0..100], &[item(1, &[0..80], 800)], &FILE);
    assert_eq!(no_gain.pieces, [piece(0..100, Source::Remainder)]);
    assert_eq!(no_gain.predicted_ns, 2000.0);
}

#[test]
fn one_row_that_no_item_has_costs_the_file() {
    let items = [item(1, &[0..50], 10), item(2, &[51..100], 10)];
    let answer = cover_evenly(&[0..100], &items, &FILE);
    assert_eq!(answer.predicted_ns, 1000.0 + 20.0 + 10.0);
    // A third item with that row is worth nearly the file.
    let closed = [&items[..], &[item(3, &[40..60], 900)]].concat();
    let answer = cover_evenly(&[0..100], &closed, &FILE);
    assert_eq!(answer.predicted_ns, 920.0);
    let sources: Vec<Source> = answer.pieces.iter().map(|piece| piece.source).collect();
    assert_eq!(sources, [1, 3, 2].map(Source::Item));
}

#[test]
fn an_item_of_several_ranges_is_paid_for_once() {
    // x < 20 OR x > 80 is kept, and 10 < x < 90.
    let items = [item(1, &[0..20, 80..100], 400), item(2, &[10..90], 500)];
    let answer = cover_evenly(&[0..100], &items, &FILE);
    assert_eq!(answer.predicted_ns, 900.0);
    let sources: Vec<Source> = answer.pieces.iter().map(|piece| piece.source).collect();
    assert_eq!(sources, [1, 2, 1].map(Source::Item));
}

#[test]
fn a_gap_in_the_request_is_nobodys_to_cover() {
    let request = [60..100, 0..40];
    let answer = cover_evenly(&request, &[item(7, &[60..200, -5..40], 10)], &FILE);
    assert_eq!(answer.pieces, [piece(0..40, Source::Item(7)), piece(60..100, Source::Item(7))]);
    assert_eq!(answer.predicted_ns, 10.0);
}

#[test]
fn a_request_without_values_costs_nothing_and_one_without_items_is_scanned() {
    let nothing = cover_evenly(&[5..5], &[item(1, &[0..9], 1)], &FILE);
    assert_eq!((nothing.pieces.len(), nothing.predicted_ns), (0, 0.0));
    let anew = cover_evenly(&[i128::MIN..i128::MAX], &[], &FILE);
    assert_eq!(anew.pieces, [piece(i128::MIN..i128::MAX, Source::Remainder)]);
    let useless = cover_evenly(&[0..9], &[item(1, &[20..30], 0), item(2, &[], 0)], &FILE);
    assert!(!useless.uses_items());
}

#[test]
fn of_equally_cheap_ways_the_one_with_fewer_items_is_taken() {
    let items = [item(1, &[0..50], 50), item(2, &[50..100], 50), item(3, &[0..100], 100)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let answer = cover_evenly(&[0..100], &order.map(|index: usize| items[index].clone()), &FILE);
        assert_eq!(answer.pieces, [piece(0..100, Source::Item(3))]);
    }
}

/// Every set of items, ordinal by ordinal.
fn exhaustive(request: &[Span], items: &[PartialItem], file: &FileScan) -> f64 {
    let wanted = |ordinal: &i128| request.iter().any(|span| span.contains(ordinal));
    let wanted: Vec<i128> = (0..40).filter(wanted).collect();
    let mut least = file.file_ns as f64 + file.kept_ns as f64;
    for chosen in 0..1_u32 << items.len() {
        let chosen: Vec<&PartialItem> =
            items.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, item)| item).collect();
        let is_covered =
            |ordinal: &&i128| chosen.iter().any(|item| item.spans.iter().any(|span| span.contains(*ordinal)));
        let missing = wanted.len() - wanted.iter().filter(is_covered).count();
        let items_ns: f64 = chosen.iter().map(|item| item.scan_ns as f64).sum();
        let remainder_ns = if missing == 0 {
            0.0
        } else {
            file.file_ns as f64 + file.kept_ns as f64 * missing as f64 / wanted.len() as f64
        };
        least = least.min(items_ns + remainder_ns);
    }
    least
}

fn random_spans(random: &mut Random, most: u64) -> Vec<Span> {
    (0..1 + random.below_u64(most))
        .map(|_| {
            let start = random.below_u64(40) as i128;
            start..(start + 1 + random.below_u64(20) as i128).min(40)
        })
        .collect()
}

#[test]
fn no_set_of_items_is_cheaper_and_the_pieces_are_the_request() {
    let (mut covered, mut in_part, mut anew) = (0, 0, 0);
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let request = random_spans(&mut random, 3);
        let item_count = random.below_u64(8);
        let items: Vec<PartialItem> = (0..item_count)
            .map(|id| {
                // At most as many items of several runs as are tried in all combinations.
                let most = if id < MAX_SCATTERED_ITEMS as u64 && random.below_u64(3) == 0 { 3 } else { 1 };
                let scan_ns = random.below_u64(800);
                let mut spans = random_spans(&mut random, most);
                if id >= MAX_SCATTERED_ITEMS as u64 || most == 1 {
                    spans.truncate(1);
                }
                item(id * 3, &spans, scan_ns)
            })
            .collect();
        let file = FileScan { file_ns: random.below_u64(1500), kept_ns: random.below_u64(3000) };
        let answer = cover_evenly(&request, &items, &file);
        let least = exhaustive(&request, &items, &file);
        assert!((answer.predicted_ns - least).abs() < 1e-6, "seed {seed}: {least} is possible, {answer:?}");

        let mut ordinals = Vec::new();
        for piece in &answer.pieces {
            assert!(piece.span.start < piece.span.end, "seed {seed}");
            ordinals.extend(piece.span.clone());
            if let Source::Item(id) = piece.source {
                let spans = &items.iter().find(|item| item.id == id).unwrap().spans;
                let has = |ordinal: i128| spans.iter().any(|span| span.contains(&ordinal));
                assert!(piece.span.clone().all(has), "seed {seed}: {piece:?}");
            }
        }
        let wanted: Vec<i128> = (0..40).filter(|ordinal| request.iter().any(|span| span.contains(ordinal))).collect();
        assert_eq!(ordinals, wanted, "seed {seed}");

        // What was predicted is what the pieces cost.
        let read = |item: &&PartialItem| answer.pieces.iter().any(|piece| piece.source == Source::Item(item.id));
        let items_ns: f64 = items.iter().filter(read).map(|item| item.scan_ns as f64).sum();
        let in_remainder = |piece: &&Piece| piece.source == Source::Remainder;
        let remainder: f64 = answer.pieces.iter().filter(in_remainder).map(|piece| width(&piece.span)).sum();
        let file_ns = if answer.scans_file() { file.file_ns as f64 } else { 0.0 };
        let cost_ns = items_ns + file_ns + file.kept_ns as f64 * remainder / wanted.len() as f64;
        assert!((cost_ns - answer.predicted_ns).abs() < 1e-6, "seed {seed}: {cost_ns}, {answer:?}");
        match (answer.uses_items(), answer.scans_file()) {
            (true, false) => covered += 1,
            (true, true) => in_part += 1,
            _ => anew += 1,
        }
    }
    assert!(covered > 100 && in_part > 100 && anew > 100, "{covered} {in_part} {anew}");
}

#[test]
fn with_more_scattered_items_than_are_combined_the_answer_is_right_and_no_dearer_than_a_scan() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let items: Vec<PartialItem> =
            (0..20).map(|id| item(id, &random_spans(&mut random, 4), random.below_u64(500))).collect();
        let answer = cover_evenly(&[0..40], &items, &FILE);
        assert!(answer.predicted_ns <= answer.scan_anew_ns, "seed {seed}");
        for piece in &answer.pieces {
            if let Source::Item(id) = piece.source {
                let spans = &items[id as usize].spans;
                let has = |ordinal: i128| spans.iter().any(|span| span.contains(&ordinal));
                assert!(piece.span.clone().all(has), "seed {seed}: {piece:?}");
            }
        }
        let total: i128 = answer.pieces.iter().map(|piece| piece.span.end - piece.span.start).sum();
        assert_eq!(total, 40, "seed {seed}");
    }
}
