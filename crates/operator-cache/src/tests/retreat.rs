//! Values that can't be read fail those alone who ask for them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::noop_waker;
use thermocline_budget::ReclaimableCache;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

/// Keeps all rows of `kept`, where `names` of some rows are asked for.
fn bet(names: &[&str], kept: &[&str], range: (i64, i64)) -> SelectRequest {
    SelectRequest {
        retain_predicate: Arc::default(),
        retain_columns: columns(kept),
        ..request(names, &between(range.0, range.1))
    }
}

/// The first row with an `a` in the range, of those from `from` on.
fn row_with(range: (i64, i64), from: u64) -> u64 {
    (from..RECORDS).find(|&row| (range.0..=range.1).contains(&a_of(row))).unwrap()
}

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, asked: &SelectRequest) -> Result<Vec<i64>, CacheError> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    answer(cache.begin(asked, &pinned, true, fake.factory()), 2)
}

#[test]
fn a_value_of_a_row_that_is_rejected_fails_nobody_and_is_not_bet_on_again() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    fake.bad_values.lock().push(("b", row_with((900, 999), 500)));
    for low in [0, 100] {
        let asked = bet(&["a", "b"], &["a", "b"], (low, low + 200));
        assert_eq!(ask(&cache, &fake, &asked).unwrap(), expected(RECORDS, &asked.predicate));
    }
    let specs = fake.specs.lock();
    assert!(specs[0].predicate.is_all() && !specs[1].predicate.is_all(), "a scan of all rows, then one of those asked");
    assert!(specs[2..].iter().all(|spec| !spec.predicate.is_all()), "{specs:?}");
    drop(specs);
    let error = ask(&cache, &fake, &bet(&["a", "b"], &["a", "b"], (800, 999))).unwrap_err().to_string();
    assert!(error.contains("bad b in record"), "{error}");
}

#[test]
fn a_value_of_a_column_that_others_asked_for_fails_nobody_else() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    fake.bad_values.lock().push(("s", row_with((0, 999), 700)));
    let asked = bet(&["a", "b"], &["a", "b", "s"], (0, 500));
    assert_eq!(ask(&cache, &fake, &asked).unwrap(), expected(RECORDS, &asked.predicate));
    assert_eq!(fake.specs.lock().last().unwrap().columns, columns(&["a", "b"]));
    let error = ask(&cache, &fake, &request(&["a", "b", "s"], &between(0, 999))).unwrap_err().to_string();
    assert!(error.contains("bad s in record"), "{error}");
}

/// One query over a file some of whose values are bad.
struct Query {
    asked: SelectRequest,
    participant: Arc<Participant>,
    streams: Vec<Option<RowStream>>,
    found: Vec<i64>,
}

impl Query {
    /// Whether it looks at a bad value.
    fn must_fail(asked: &SelectRequest, bad_values: &[(&'static str, u64)]) -> bool {
        bad_values.iter().any(|(name, row)| {
            asked.columns.iter().any(|column| path(name).starts_with(&column.path))
                && asked.predicate.domain(&path("a")).unwrap().contains_int(a_of(*row).into())
        })
    }

    /// None once it has ended, as it must.
    fn poll(mut self, random: &mut Random, must_fail: bool, context: &str) -> Option<Self> {
        let at = random.below_u64(self.streams.len() as u64) as usize;
        let Some(stream) = &mut self.streams[at] else { return Some(self) };
        match Pin::new(stream).poll_next(&mut Context::from_waker(&noop_waker())) {
            Poll::Pending => {}
            Poll::Ready(None) => self.streams[at] = None,
            Poll::Ready(Some(Ok(rows))) => self.found.extend(delivered(&self.participant, &rows)),
            Poll::Ready(Some(Err(error))) => {
                assert!(must_fail, "{context}: {error}");
                return None;
            }
        }
        if self.streams.iter().any(Option::is_some) {
            return Some(self);
        }
        assert!(!must_fail, "{context}: a bad value was passed over");
        self.found.sort_unstable();
        assert_eq!(self.found, expected(RECORDS, &self.asked.predicate), "{context}");
        None
    }
}

fn random_request(random: &mut Random) -> SelectRequest {
    let names: [&[&str]; 4] = [&["a", "b"], &["a", "b", "s"], &["a", "b", "s.z"], &["a", "b", "s"]];
    let low = random.below_u64(8) as i64 * 100;
    let range = (low, low + 99 + random.below_u64(4) as i64 * 100);
    let names = names[random.below(4)];
    let asked = match random.below(3) {
        0 => bet(names, names, range),
        1 if !names.contains(&"s.z") => bet(names, &["a", "b", "s"], range),
        _ => request(names, &between(range.0, range.1)),
    };
    SelectRequest { further_columns: if random.one_in(2) { columns(&["s", "w"]) } else { Arc::default() }, ..asked }
}

#[test]
fn who_reads_on_alone_reads_just_what_it_asked_for() {
    for (stream_count, fetch_polls) in [(1, 0), (3, 0), (3, 2)] {
        let (cache, _budget) = timed_cache(64 << 20);
        let fake = Arc::new(Fake { fetch_polls, ..Fake::default() });
        let asked = bet(&["a", "b"], &["a", "b", "s"], (100, 200));
        let (interrupted, mut decode_count) = (Arc::clone(&cache), 0);
        *fake.interrupt.lock() = Some(Box::new(move |seam| {
            decode_count += u32::from(seam == Seam::Decode);
            if decode_count == 8 {
                interrupted.release(u64::MAX);
            }
        }));
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let found = answer(cache.begin(&asked, &pinned, true, fake.factory()), stream_count).unwrap();
        assert_eq!(found, expected(RECORDS, &asked.predicate));
        let specs = fake.specs.lock();
        let [wide, own] = &specs[..] else { panic!("{specs:?}") };
        assert!(wide.predicate.is_all() && wide.columns.len() == 3);
        assert_eq!((&own.predicate, &own.columns), (&asked.predicate, &asked.columns));
        assert_eq!(fake.most_decodes(), 1);
    }
}

/// What a poll gives a query, which may be nothing yet; `None` at the end.
fn next_rows(participant: &Participant, stream: &mut RowStream) -> Option<Vec<i64>> {
    match Pin::new(stream).poll_next(&mut Context::from_waker(&noop_waker())) {
        Poll::Ready(rows) => rows.map(|rows| delivered(participant, &rows.unwrap())),
        Poll::Pending => Some(Vec::new()),
    }
}

#[test]
fn rows_handed_to_one_who_is_sent_away_before_taking_them_are_not_lost() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let asked = bet(&["a", "b"], &["a", "b", "s"], (0, 999));
    fake.bad_values.lock().push(("s", row_with((0, 999), 5 * fake.morsel_records)));
    let begun = || match cache.begin(&asked, &pin(&cache, &object("f", "1", RECORDS)), true, fake.factory()) {
        Start::Scan(participant) => participant,
        other => panic!("{other:?}"),
    };
    let (heir, other) = (begun(), begun());
    let (mut stream, mut other_stream) = (heir.stream(), other.stream());
    let mut found: Vec<i64> = (0..5).flat_map(|_| next_rows(&heir, &mut stream).unwrap()).collect();
    let of_other = Arc::new(parking_lot::Mutex::new(Vec::new()));
    // While a stream of the heir finds what is bad, another query that is decoding loses its seat, and hands over its rows.
    let (inner_fake, inner_cache, rows, participant) =
        (Arc::clone(&fake), Arc::clone(&cache), Arc::clone(&of_other), Arc::clone(&other));
    let (sender, back) = std::sync::mpsc::channel();
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        let Some(sender) = (seam == Seam::Bad).then(|| sender.clone()) else { return };
        let released = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (cache, is_released) = (Arc::clone(&inner_cache), Arc::clone(&released));
        *inner_fake.interrupt.lock() = Some(Box::new(move |seam| {
            if seam == Seam::Decode && !is_released.swap(true, std::sync::atomic::Ordering::Relaxed) {
                cache.release(1 << 20);
            }
        }));
        while !released.load(std::sync::atomic::Ordering::Relaxed) {
            rows.lock().extend(next_rows(&participant, &mut other_stream).unwrap());
        }
        let _ = sender.send(());
    }));
    for poll_count in 0.. {
        assert!(poll_count < 1000, "no progress");
        let Some(rows) = next_rows(&heir, &mut stream) else { break };
        found.extend(rows);
    }
    back.try_recv().unwrap();
    found.sort_unstable();
    assert_eq!(found, expected(RECORDS, &asked.predicate));
}

/// The rows of `participant`, one of whose streams meets a bad value, whose other one then does `meanwhile` and goes on to
/// the end while the first is still at it.
fn rows_around_an_end(
    fake: &Arc<Fake>,
    participant: &Arc<Participant>,
    meanwhile: impl FnOnce() + Send + 'static,
) -> Vec<i64> {
    let (mut stream, mut other_stream) = (participant.stream(), participant.stream());
    let of_other = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (reading, rows) = (Arc::clone(participant), Arc::clone(&of_other));
    let mut meanwhile = Some(meanwhile);
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        let Some(meanwhile) = (seam == Seam::Bad).then(|| meanwhile.take()).flatten() else { return };
        meanwhile();
        for poll_count in 0.. {
            assert!(poll_count < 1000, "no progress");
            let Some(more) = next_rows(&reading, &mut other_stream) else { break };
            rows.lock().extend(more);
        }
    }));
    let mut found = Vec::new();
    for poll_count in 0.. {
        assert!(poll_count < 1000, "no progress");
        let Some(rows) = next_rows(participant, &mut stream) else { break };
        found.extend(rows);
    }
    assert!(!of_other.lock().is_empty(), "the other stream was to read on");
    found.extend(of_other.lock().drain(..));
    found.sort_unstable();
    found
}

#[test]
fn what_a_stream_fails_to_decode_after_another_came_to_the_end_is_read_again() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let asked = bet(&["a", "b"], &["a", "b", "s"], (0, 999));
    // In the first morsel, and in the one that the other stream takes up then.
    for morsel in [0, 1] {
        fake.bad_values.lock().push(("s", row_with((0, 999), morsel * fake.morsel_records)));
    }
    let participant = match cache.begin(&asked, &pin(&cache, &object("f", "1", RECORDS)), true, fake.factory()) {
        Start::Scan(participant) => participant,
        other => panic!("{other:?}"),
    };
    let found = rows_around_an_end(&fake, &participant, || {});
    assert_eq!(found, expected(RECORDS, &asked.predicate));
}

#[test]
fn what_a_stream_fails_to_decode_after_its_scan_was_given_up_and_read_to_the_end_is_read_again() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let asked = bet(&["a", "b"], &["a", "b", "s"], (0, 999));
    fake.bad_values.lock().push(("s", row_with((0, 999), fake.morsel_records)));
    let begun = || match cache.begin(&asked, &pin(&cache, &object("f", "1", RECORDS)), true, fake.factory()) {
        Start::Scan(participant) => participant,
        other => panic!("{other:?}"),
    };
    // The one that goes on with the scan is the one that has seen most.
    let (heir, participant) = (begun(), begun());
    let mut of_heir = heir.stream();
    assert_eq!(next_rows(&heir, &mut of_heir).unwrap().len() as u64, fake.morsel_records);
    let releasing = Arc::clone(&cache);
    let found = rows_around_an_end(&fake, &participant, move || {
        releasing.release(1 << 20);
    });
    assert_eq!(found, expected(RECORDS, &asked.predicate));
}

#[test]
fn queries_that_share_scans_fail_by_their_own_values_alone() {
    let (mut failed_count, mut spared_count) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let (cache, _budget) = cache(64 << 20);
        told(&cache, AdmissionMode::ALL[seed as usize % 3]);
        let fake = Arc::new(Fake { fetch_polls: seed % 3, ..Fake::default() });
        let names = ["b", "s", "s.z"];
        let bad_values: Vec<_> =
            (0..1 + random.below(3)).map(|_| (names[random.below(3)], random.below_u64(RECORDS))).collect();
        fake.bad_values.lock().extend(bad_values.iter().copied());
        // Scans may stop sharing while one of their streams finds what is bad.
        let (interrupted, stops_at) =
            (Arc::clone(&cache), [None, Some(Seam::Bad), Some(Seam::Decode)][random.below(3)]);
        let mut passed_count = random.below_u64(if stops_at == Some(Seam::Bad) { 2 } else { 100 });
        *fake.interrupt.lock() = Some(Box::new(move |seam| {
            if stops_at == Some(seam) {
                if passed_count == 0 {
                    interrupted.release(1 << 20);
                }
                passed_count = passed_count.wrapping_sub(1);
            }
        }));
        let mut queries: Vec<Query> = Vec::new();
        let mut begun_count = 0;
        for poll_count in 0.. {
            assert!(poll_count < 100_000, "no progress, seed {seed}");
            if begun_count < 8 && (queries.is_empty() || random.one_in(20)) {
                begun_count += 1;
                let asked = random_request(&mut random);
                let context = format!("seed {seed} {bad_values:?} {asked:?}");
                let must_fail = Query::must_fail(&asked, &bad_values);
                *if must_fail { &mut failed_count } else { &mut spared_count } += 1;
                let pinned = pin(&cache, &object("f", "1", RECORDS));
                let (found, participant) = match cache.begin(&asked, &pinned, true, fake.factory()) {
                    Start::Hit { item, residual, .. } => (read(&item, &residual), None),
                    Start::Combine { parts, remainder } => {
                        (parts.iter().flat_map(|part| read(&part.item, &part.residual)).collect(), remainder)
                    }
                    Start::Scan(participant) => (Vec::new(), Some(participant)),
                    Start::Wait(_) => panic!("the request may not wait"),
                };
                match participant {
                    Some(participant) => {
                        let streams = (0..1 + random.below(3)).map(|_| Some(participant.stream())).collect();
                        queries.push(Query { asked, participant, streams, found });
                    }
                    None => {
                        let mut found = found;
                        found.sort_unstable();
                        assert!(!must_fail, "{context}: a bad value is kept");
                        assert_eq!(found, expected(RECORDS, &asked.predicate), "{context}");
                    }
                }
            }
            if queries.is_empty() {
                if begun_count == 8 {
                    break;
                }
                continue;
            }
            let query = queries.swap_remove(random.below(queries.len()));
            let must_fail = Query::must_fail(&query.asked, &bad_values);
            let context = format!("seed {seed} {bad_values:?} {:?}", query.asked);
            queries.extend(query.poll(&mut random, must_fail, &context));
        }
    }
    assert!(failed_count > 1000 && spared_count > 1000, "{failed_count} failed, {spared_count} were spared");
}
