//! Field and record ends: the bit masks, the index and the splitter.

use thermocline_seeded::Random;

use super::super::dialect::CsvFormat;
use super::super::fault::Problem;
use super::super::field::{FieldText, read_field};
use super::super::index::RecordIndex;
use super::super::marks::{BlockLoop, BlockMasks, Marks, MaskSource, QuoteState, WordMasks, run_blocks};
use super::super::splitter::Splitter;
use super::for_seeds;
use super::oracle::{OracleField, OracleRecord, parse};

pub(super) fn random_marks(random: &mut Random) -> Marks {
    Marks {
        delimiter: *random.pick(b",;\t|"),
        quote: if random.one_in(8) { None } else { Some(*random.pick(b"\"\"'")) },
        escape: random.one_in(4).then_some(b'\\'),
    }
}

/// Bytes in which structure is frequent, or rare enough for whole blocks without.
pub(super) fn random_content(random: &mut Random, marks: Marks, max_len: usize) -> Vec<u8> {
    let len = random.below(max_len);
    let quotes = *random.pick(&[0, 1, 3, 8]);
    let plain = *random.pick(&[4, 20, 100]);
    let quote = marks.quote.unwrap_or(b'"');
    let mut content = Vec::with_capacity(len + 8);
    while content.len() < len {
        match random.below(8 + quotes + plain) {
            0..=2 => content.push(marks.delimiter),
            3 | 4 => content.push(b'\n'),
            5 => content.extend(b"\r\n"),
            6 => content.push(*random.pick(b"\\\r,0")),
            7 if quotes > 0 => {
                // A well-formed quoted field now and then, or the random bytes hardly ever are.
                content.extend([marks.delimiter, quote]);
                content.extend(*random.pick(&[&b"x\n"[..], b"a, b", b""]));
                content.extend([quote, marks.delimiter]);
            }
            at if at < 8 + quotes => content.push(quote),
            _ => content.extend(random.pick(&["a", "b7", "ü", "日本", "1", " "]).as_bytes()),
        }
    }
    content
}

struct AllMasks<'a>(&'a [u8]);

impl BlockLoop for AllMasks<'_> {
    type Output = Vec<BlockMasks>;

    #[inline(always)]
    fn run<M: MaskSource>(self, source: M) -> Vec<BlockMasks> {
        self.0.as_chunks::<64>().0.iter().map(|block| source.masks(block)).collect()
    }
}

#[test]
fn masks_of_every_instruction_set_equal_those_taken_byte_by_byte() {
    for_seeds(300, |random| {
        let marks = random_marks(random);
        let content: Vec<u8> = if random.one_in(2) {
            (0..640).map(|_| random.below(256) as u8).collect()
        } else {
            random_content(random, marks, 1000)
        };
        let expected: Vec<BlockMasks> = content
            .as_chunks::<64>()
            .0
            .iter()
            .map(|block| {
                let mask = |mark: Option<u8>| {
                    let bit = |(at, byte): (usize, &u8)| u64::from(Some(*byte) == mark) << at;
                    block.iter().enumerate().map(bit).sum()
                };
                BlockMasks {
                    delimiters: mask(Some(marks.delimiter)),
                    newlines: mask(Some(b'\n')),
                    quotes: marks.quote.map_or(0, |quote| mask(Some(quote))),
                    escapes: marks.escape.map_or(0, |escape| mask(Some(escape))),
                }
            })
            .collect();
        assert_eq!(AllMasks(&content).run(WordMasks(marks)), expected);
        assert_eq!(run_blocks(AllMasks(&content), marks), expected);
    });
}

#[test]
fn toggled_quotes_and_the_bitwise_walk_agree() {
    for_seeds(2000, |random| {
        let marks = random_marks(random);
        let content = random_content(random, marks, 2000);
        let (mut toggled, mut walked) = (QuoteState::default(), QuoteState::default());
        for masks in AllMasks(&content).run(WordMasks(marks)) {
            assert_eq!(toggled.field_ends(masks), walked.partial_field_ends(masks, 64));
            assert_eq!(toggled, walked);
        }
    });
}

fn indexed(index: &RecordIndex, content: &[u8], marks: Marks) -> Vec<OracleRecord> {
    let mut scratch = Vec::new();
    (0..index.record_count())
        .map(|record| {
            let fields = index.record(record);
            let last = *fields.ends.last().unwrap() as usize;
            OracleRecord {
                start: fields.start as usize,
                end: (last + 1).min(content.len()),
                ends_with_newline: content.get(last) == Some(&b'\n'),
                is_blank: fields.bytes(content).is_empty(),
                fields: (0..fields.ends.len())
                    .map(|position| {
                        let start = match position {
                            0 => fields.start,
                            _ => fields.ends[position - 1] + 1,
                        };
                        let read = read_field(fields.field(content, position), marks, &mut scratch);
                        let (is_quoted, text, problem) = match read {
                            FieldText::Bare(text) => (false, text, None),
                            FieldText::Quoted(text) => (true, text, None),
                            FieldText::TrailingText => (true, &[][..], Some(Problem::TrailingText)),
                            FieldText::Unclosed => (true, &[][..], Some(Problem::Unclosed)),
                        };
                        OracleField { start: start as usize, is_quoted, text: text.to_vec(), problem }
                    })
                    .collect(),
            }
        })
        .collect()
}

/// The text of wrongly written fields is nobody's business.
fn without_wrong_texts(mut records: Vec<OracleRecord>) -> Vec<OracleRecord> {
    for field in records.iter_mut().flat_map(|record| &mut record.fields) {
        if field.problem.is_some() {
            field.text.clear();
        }
    }
    records
}

#[test]
fn the_index_finds_the_fields_that_the_slow_parser_finds() {
    let mut index = RecordIndex::default();
    let index = std::cell::RefCell::new(&mut index);
    for_seeds(4000, |random| {
        let marks = random_marks(random);
        let content = random_content(random, marks, 600);
        let expected = without_wrong_texts(parse(&content, marks));
        let mut index = index.borrow_mut();
        index.build(&content, marks, true);
        assert_eq!(indexed(&index, &content, marks), expected, "{:?}", content.escape_ascii().to_string());
        let is_open = expected
            .last()
            .and_then(|record| record.fields.last())
            .is_some_and(|field| field.problem == Some(Problem::Unclosed));
        assert_eq!(index.has_open_quote(), is_open);
        // What the end of a piece cuts off is left out.
        index.build(&content, marks, false);
        let whole = expected.iter().filter(|record| record.ends_with_newline).count();
        assert_eq!(index.record_count(), whole);
        assert_eq!(index.covered_bytes(), whole.checked_sub(1).map_or(0, |last| expected[last].end));
    });
}

fn format(marks: Marks) -> CsvFormat {
    CsvFormat { delimiter: marks.delimiter, quote: marks.quote, escape: marks.escape, ..CsvFormat::with_columns(["a"]) }
}

/// The record ends a splitter reports for these pieces, as offsets in the whole.
fn split(content: &[u8], pieces: &[usize], marks: Marks) -> (Vec<usize>, bool) {
    let mut splitter = Splitter::new(&format(marks), 1);
    let mut ends = Vec::new();
    let mut start = 0;
    for end in pieces.iter().copied().chain([content.len()]) {
        let piece = &content[start..end];
        match splitter.last_record_end(piece) {
            0 => {}
            at => ends.push(start + at),
        }
        start = end;
    }
    // Only within quotes a newline ends nothing.
    let is_inside = splitter.last_record_end(b"\n") == 0;
    (ends, is_inside)
}

/// The last record end within each of these pieces.
fn split_slowly(content: &[u8], pieces: &[usize], marks: Marks) -> Vec<usize> {
    let records = parse(content, marks);
    let mut start = 0;
    let mut ends = Vec::new();
    for end in pieces.iter().copied().chain([content.len()]) {
        let last = records
            .iter()
            .filter(|record| record.ends_with_newline && record.end > start && record.end <= end)
            .map(|record| record.end)
            .next_back();
        ends.extend(last);
        start = end;
    }
    ends
}

#[test]
fn a_splitter_finds_the_same_record_ends_whatever_the_pieces() {
    for_seeds(3000, |random| {
        let marks = random_marks(random);
        let content = random_content(random, marks, 500);
        let mut pieces: Vec<usize> = (0..random.below(12)).map(|_| random.below(content.len() + 1)).collect();
        pieces.sort_unstable();
        let (ends, is_inside) = split(&content, &pieces, marks);
        assert_eq!(ends, split_slowly(&content, &pieces, marks), "{pieces:?} {:?}", content.escape_ascii().to_string());
        let (_, expected) = split(&content, &[], marks);
        assert_eq!(is_inside, expected);
    });
}

#[test]
fn a_splitter_can_be_cut_at_every_byte() {
    let marks = Marks { delimiter: b',', quote: Some(b'"'), escape: None };
    let content = b"a,\"b\nc\"\r\n\"\"\"\n\"\"\",5\" pipe\nx\"y,\"\"\n\n\"unclosed\n,".as_slice();
    for cut in 0..=content.len() {
        assert_eq!(split(content, &[cut], marks).0, split_slowly(content, &[cut], marks), "cut at {cut}");
        assert!(split(content, &[cut], marks).1);
    }
    let all: Vec<usize> = (1..content.len()).collect();
    assert_eq!(split(content, &all, marks).0, [9, 25, 32, 33]);
}

#[test]
fn a_record_behind_a_byte_order_mark_may_begin_with_a_quote() {
    let marks = Marks { delimiter: b',', quote: Some(b'"'), escape: None };
    let ends = |content: &[u8], pieces: &[usize]| {
        let mut splitter = Splitter::new(&format(marks), 0);
        let mut start = 0;
        let mut ends = Vec::new();
        for end in pieces.iter().copied().chain([content.len()]) {
            let at = splitter.last_record_end(&content[start..end]);
            ends.extend((at > 0).then_some(start + at));
            start = end;
        }
        ends
    };
    let marked = b"\xef\xbb\xbf\"a\nb\",c\n1,2\n".as_slice();
    let all: Vec<usize> = (1..marked.len()).collect();
    assert_eq!(ends(marked, &[]), [marked.len()]);
    assert_eq!(ends(marked, &all), [11, 15], "the newline within quotes ends nothing");
    for cut in 0..=marked.len() {
        let expected: &[usize] = if (11..15).contains(&cut) { &[11, 15] } else { &[15] };
        assert_eq!(ends(marked, &[cut]), expected, "cut at {cut}");
    }
    // A part of one is data, and so is a quote behind it.
    let data = b"\xef\xbb\"a\nb\",c\n".as_slice();
    let all: Vec<usize> = (1..data.len()).collect();
    assert_eq!(ends(data, &all), [5, 10]);
}

#[test]
fn the_index_of_a_long_record_takes_room_for_its_fields_and_gives_it_back() {
    let marks = Marks { delimiter: b',', quote: Some(b'"'), escape: None };
    let mut index = RecordIndex::default();
    let long = ["1,\"", &"x".repeat(4 << 20), "\"\n2,y\n"].concat();
    index.build(long.as_bytes(), marks, true);
    assert_eq!((index.record_count(), index.record(1).ends.len()), (2, 2));
    assert!(index.heap_bytes() < 4096, "{} bytes", index.heap_bytes());
    // Nothing but ends of fields and records, inside quotes and out.
    let dense = [",\n".repeat(500_000), ["\"", &",".repeat(500_000), "\""].concat()].concat();
    index.build(dense.as_bytes(), marks, true);
    assert_eq!((index.record_count(), index.record(500_000).ends.len()), (500_001, 1));
    index.clear();
    assert!(index.heap_bytes() <= 3 << 20, "{} bytes", index.heap_bytes());
    index.build(b"a,b\n", marks, false);
    assert_eq!((index.record_count(), index.record(0).ends.len()), (1, 2));
}
