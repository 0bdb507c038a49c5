//! What is written is read again, and what can't be read says where and why.

use thermocline_seeded::Random;

use super::*;

fn random_request(random: &mut Random) -> Request {
    let answers = [Answered::Hit, Answered::Subsumed, Answered::Joined, Answered::Extended, Answered::Missed];
    let alphabet: Vec<char> = "a/\"\\ \u{1}\n\u{e4}\u{1f600},:{}".chars().collect();
    let source: String =
        (0..random.below_u64(12)).map(|_| alphabet[random.below_u64(alphabet.len() as u64) as usize]).collect();
    // Up to the largest number, not only to those that a double can hold.
    let mut number = || u64::MAX >> random.below_u64(64);
    Request {
        wall_ns: number(),
        item: number(),
        asked: number(),
        size_bytes: number(),
        execute_ns: number(),
        cache_ns: number(),
        reuse_scan_ns: number(),
        lookup_ns: number(),
        answered: answers[random.below_u64(5) as usize],
        source: source.into(),
        kind: if random.below_u64(2) == 0 { SourceKind::Csv } else { SourceKind::Json },
    }
}

#[test]
fn a_trace_that_is_written_and_read_is_the_same() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let requests: Vec<Request> = (0..random.below_u64(20)).map(|_| random_request(&mut random)).collect();
        let mut text = header() + "\n";
        for request in &requests {
            text += &format!("{request}\n");
        }
        assert_eq!(text.lines().count(), requests.len() + 1, "seed {seed}: one line a request");
        assert_eq!(parse(&text), Ok(requests.clone()), "seed {seed}");
        let twice: Vec<Request> = requests.iter().chain(&requests).cloned().collect();
        assert_eq!(parse(&format!("{text}\n{text}")), Ok(twice), "seed {seed}");
    }
}

const LINE: &str = r#"{"wall_ns":1,"answered":"hit","source":"a","kind":"csv","item":"00000000000000ff","asked":"0",
"size_bytes":2,"execute_ns":3,"cache_ns":4,"reuse_scan_ns":5,"lookup_ns":6}"#;

fn with_header(line: &str) -> Result<Vec<Request>, TraceError> {
    parse(&format!("{}\n{}", header(), line.replace('\n', "")))
}

#[test]
fn order_blanks_escapes_and_unknown_fields_do_not_matter() {
    let plain = with_header(LINE);
    assert_eq!(plain.as_ref().map(|requests| (requests[0].item, requests[0].lookup_ns)), Ok((255, 6)));
    let other = LINE
        .replace("{\"wall_ns\":1,", "{ \"new\" : \"\\ud83d\\ude00\\n\" , \"more\":7,")
        .replace("}", ", \"wall_ns\":1}");
    assert_eq!(with_header(&other.replace("\"a\"", r#""\u0061""#)), plain);
}

#[test]
fn a_bad_line_is_named_with_its_field_and_value() {
    let cases = [
        (LINE.replace("\"csv\"", "\"xml\""), "line 2: `kind`: expected `csv` or `json`, found `xml`"),
        (LINE.replace("\"hit\"", "\"hot\""), "`answered`: expected `hit`"),
        (LINE.replace("\"kind\"", "\"kinds\""), "the field `kind` is missing"),
        (LINE.replace(":3,", ":-3,"), "`execute_ns`: expected a string or a whole number, found `-`"),
        (LINE.replace(":3,", ":99999999999999999999,"), "`execute_ns`: expected a whole number below 2^64"),
        (LINE.replace("ff", "fg"), "`item`: expected 16 hexadecimal digits"),
        (LINE.replace("6}", "6"), "expected `,` or `}`, found the line's end"),
        (LINE.replace("6}", "6}}"), "expected the line's end after `}`, found `}`"),
        (LINE.replace("\"a\"", r#""\ud800x""#), "expected `\\`, found `x`"),
        (header().replace('1', "2"), "`version`: expected 1, found 2"),
        (header().replace("cache", "cash"), "`format`: expected `thermocline-cache-trace`"),
    ];
    for (line, expected) in cases {
        let message = with_header(&line).map_err(|error| error.to_string());
        assert!(message.as_ref().is_err_and(|message| message.contains(expected)), "{line}: {message:?}");
    }
    for text in ["", "\n", LINE] {
        assert!(parse(&text.replace('\n', "")).is_err_and(|error| error.to_string().contains("expected the header")));
    }
}
