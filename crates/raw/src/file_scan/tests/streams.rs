//! Streams that are cut in order: who gets which piece, and what is kept for whom.

use thermocline_medium::MediumError;

use super::*;
use crate::file_scan::cutter::Cutter;

/// A scan of a remote file whose stream gives a piece for each few bytes, and the stream.
fn streamed(bytes: &[u8], compression: Compression, chunk_bytes: u64) -> FileScan {
    let grain = Grain { chunk_bytes, ..Grain::new(0, 1) };
    let range = 0..bytes.len() as u64;
    let source = Source::Remote(remote_of(bytes));
    let (format, plan) =
        if compression == Compression::None { (one_column(), ints()) } else { (Format::Ndjson, ints()) };
    FileScan::with_grain(source, range, format, compression, plan, None, grain).unwrap()
}

fn stream_of(scan: &FileScan) -> &RemoteStream {
    let Way::Remote(stream) = &scan.way else { panic!("{scan:?} is cut otherwise") };
    stream
}

#[test]
fn pieces_are_kept_only_while_someone_holds_their_claim() {
    let text: String = (10..90).map(|at| format!("{at}\n")).collect();
    let scan = streamed(text.as_bytes(), Compression::None, 30);
    let mut morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel().unwrap()).collect();
    assert_eq!(morsels.len(), 8);
    let last = morsels.pop().unwrap();
    // Dropped before their pieces are cut.
    morsels.drain(..3);
    let fetched = block_on(scan.fetch(last)).unwrap();
    assert_eq!(scan.decode(fetched).unwrap().row_count, 10);
    assert_eq!(stream_of(&scan).waiting_count(), 4);
    // Dropped after.
    morsels.truncate(2);
    assert_eq!(stream_of(&scan).waiting_count(), 2);
    for morsel in morsels {
        let fetched = block_on(scan.fetch(morsel)).unwrap();
        assert_eq!(scan.decode(fetched).unwrap().row_count, 10);
    }
    assert_eq!(stream_of(&scan).waiting_count(), 0);
}

#[test]
fn a_failure_is_told_to_everyone_who_waits_and_to_those_who_come_later() {
    let text: String = (0..5000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let bytes = [&gzip(text.as_bytes())[..], &[b'x'; 1000]].concat();
    let scan = streamed(&bytes, Compression::Gzip, 100);
    let mut morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel().unwrap()).collect();
    let messages: Vec<String> = morsels
        .drain(morsels.len() - 3..)
        .map(|morsel| {
            let error = block_on(scan.fetch(morsel)).unwrap_err();
            assert!(matches!(unshared(&error), RawError::Decompress { .. }), "{error}");
            error.to_string()
        })
        .collect();
    assert!(messages.iter().all(|message| message == &messages[0]), "{messages:?}");
    // What was cut before is still had.
    assert!(block_on(scan.fetch(morsels.remove(0))).is_ok());
}

#[test]
fn the_mediums_error_is_a_cause_of_a_failure_that_is_shared() {
    let changed = || MediumError::Changed { path: "s3://b/k".to_owned(), difference: "another tag".to_owned() };
    let shared = RawError::Shared(Arc::new(changed().into()));
    assert_eq!(shared.to_string(), changed().to_string());
    let mut causes = std::iter::successors(Some(&shared as &dyn std::error::Error), |error| error.source());
    assert!(causes.any(|error| matches!(error.downcast_ref(), Some(MediumError::Changed { .. }))));
}

#[test]
fn a_long_record_is_gathered_without_being_copied_for_each_piece() {
    let mut cutter = Cutter::new(&Format::Ndjson, 0);
    let file: Arc<str> = Arc::from("f");
    for _ in 0..4 {
        cutter.window().extend(&[b'x'; 10_000]);
        cutter.find_records(&file).unwrap();
        let piece = cutter.take(Window::default(), false);
        assert_eq!((piece.offset, piece.window.content().len(), piece.window.heap_bytes()), (0, 0, 0));
    }
    cutter.window().extend(b"\nyy");
    cutter.find_records(&file).unwrap();
    let piece = cutter.take(Window::default(), false);
    assert_eq!((piece.offset, piece.window.content().len()), (0, 40_001));
    assert_eq!(cutter.window().content(), b"yy");
}

#[test]
fn blank_lines_before_a_header_are_not_covered() {
    let covered = |text: &str| {
        let file = file_of(text.as_bytes());
        let format = Format::Csv(Arc::new(CsvFormat::with_columns(["a"])));
        let scan = scan_of(&file, format, Compression::None, ints());
        assert_eq!(drain(&scan).unwrap().rows.len(), usize::from(text.contains('1')));
        scan.covered_end()
    };
    assert_eq!(covered("\n\r\n\n"), Some(0));
    assert_eq!(covered("\u{feff}\r\n"), Some(0));
    assert_eq!(covered("\n\r\na\n"), Some(5));
    assert_eq!(covered("\n\na\n\n1\n\n"), Some(8));
    let headless = file_of(b"\n\n");
    let scan = scan_of(&headless, one_column(), Compression::None, ints());
    drain(&scan).unwrap();
    assert_eq!(scan.covered_end(), Some(2));
}
