//! The drawn data sets: the same bytes for a seed, well-formed JSON, sizes and shares as the module texts state them.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const KINDS: [DataKind; 6] = [
    DataKind::Lists { element_count: 3 },
    DataKind::Spam,
    DataKind::SpamCsv { mail_count: 300 },
    DataKind::YelpBusiness,
    DataKind::YelpUser,
    DataKind::YelpReview,
];

fn text(kind: DataKind, record_count: u64, seed: u64, thread_count: usize) -> String {
    let mut out = Vec::new();
    let written = write_records(kind, record_count, seed, thread_count, &mut out).unwrap();
    assert_eq!(written, out.len() as u64);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_bytes_depend_on_the_seed_and_not_on_the_number_of_threads() {
    for kind in KINDS {
        let expected = text(kind, 4_000, 1, 1);
        assert!(expected == text(kind, 4_000, 1, 3), "{kind:?}");
        assert!(expected != text(kind, 4_000, 2, 1), "{kind:?}");
    }
}

#[test]
fn fewer_records_are_the_first_of_more() {
    for kind in KINDS {
        assert!(text(kind, 4_000, 1, 2).starts_with(&text(kind, 1_234, 1, 2)), "{kind:?}");
    }
}

#[test]
fn every_line_is_one_well_formed_object() {
    for kind in KINDS.into_iter().filter(|kind| !matches!(kind, DataKind::SpamCsv { .. })) {
        let text = text(kind, 2_000, 5, 2);
        assert!(text.ends_with('\n'));
        assert_eq!(text.lines().count(), 2_000);
        for line in text.lines() {
            assert!(line.starts_with('{'), "{kind:?}: {line}");
            check_json(line).unwrap_or_else(|error| panic!("{kind:?}: {error}\n{line}"));
        }
    }
}

#[test]
fn the_checker_refuses_what_is_no_json() {
    for bad in [
        "{",
        "{}}",
        "[1,]",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "\"a\nb\"",
        "\"\\x\"",
        "01",
        "1.",
        "-",
        "[1 2]",
        "tru",
        "",
    ] {
        assert!(check_json(bad).is_err(), "{bad}");
    }
    for good in ["{}", "[]", "{\"a\":[1,-2.50,{\"b\":true}],\"c\":\"\\\"\\n\\u00e9\"}", "0.5e-3", "null"] {
        assert_eq!(check_json(good), Ok(()), "{good}");
    }
}

#[test]
fn records_are_as_long_as_stated() {
    for (kind, least, most) in [
        (DataKind::Spam, 1_050.0, 1_250.0),
        (DataKind::SpamCsv { mail_count: 3_000_000 }, 52.0, 58.0),
        (DataKind::YelpBusiness, 800.0, 1_200.0),
        (DataKind::YelpUser, 1_200.0, 1_600.0),
        (DataKind::YelpReview, 650.0, 950.0),
    ] {
        let mean = text(kind, 10_000, 3, 2).len() as f64 / 10_000.0;
        assert!((least..most).contains(&mean), "{kind:?}: {mean} bytes a record");
    }
}

#[test]
fn optional_fields_are_there_as_often_as_stated() {
    let mails = text(DataKind::Spam, 10_000, 11, 2);
    for (field, percent) in
        [("bot", 40.0), ("reply_to", 15.0), ("location", 80.0), ("urls", 80.0), ("attachments", 40.0)]
    {
        assert_share(&mails, &format!("\"{field}\":"), percent);
    }
    assert_share(&mails, "\"attachments\":[]", 12.0);
    let businesses = text(DataKind::YelpBusiness, 10_000, 11, 2);
    for (field, percent) in
        [("hours", 72.0), ("RestaurantsPriceRange2", 62.0), ("WiFi", 30.0), ("BusinessParking", 35.0)]
    {
        assert_share(&businesses, &format!("\"{field}\":"), percent);
    }
}

#[track_caller]
fn assert_share(text: &str, needle: &str, percent: f64) {
    let (with, all) = (text.lines().filter(|line| line.contains(needle)).count(), text.lines().count());
    let found = 100.0 * with as f64 / all as f64;
    // 10,000 draws stray by less than 2 points but once in thousands of runs, and the seed is fixed.
    assert!((found - percent).abs() < 2.0, "{needle} in {found} % of the lines, not {percent} %");
}

#[test]
fn lists_have_exactly_the_number_of_elements_asked_for() {
    for element_count in [0, 1, 7, 40] {
        for line in text(DataKind::Lists { element_count }, 50, 1, 1).lines() {
            assert_eq!(line.matches("\"l_partkey\"").count() as u64, element_count);
        }
    }
}

#[test]
fn users_have_long_lists_of_friends() {
    let users = text(DataKind::YelpUser, 10_000, 1, 2);
    let mut counts: Vec<usize> = users
        .lines()
        .map(|line| {
            let friends = line.split_once("\"friends\":[").unwrap().1.split_once(']').unwrap().0;
            friends.matches(',').count() + usize::from(!friends.is_empty())
        })
        .collect();
    counts.sort_unstable();
    let with: Vec<usize> = counts.into_iter().filter(|&count| count > 0).collect();
    assert!((5_500..6_300).contains(&with.len()), "{} users have friends", with.len());
    assert!((14..24).contains(&with[with.len() / 2]), "{} friends in the middle", with[with.len() / 2]);
    assert!(*with.last().unwrap() > 1_000, "at most {} friends", with.last().unwrap());
}

#[test]
fn csv_lines_have_all_columns_and_belong_to_a_mail() {
    let text = text(DataKind::SpamCsv { mail_count: 300 }, 4_000, 1, 2);
    let mut lines = text.lines();
    let column_count = lines.next().unwrap().split(',').count();
    let mut seen = [false; 300];
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        assert_eq!(values.len(), column_count, "{line}");
        assert!(values.iter().all(|value| value.parse::<f64>().is_ok()), "{line}");
        seen[values[0].parse::<usize>().unwrap()] = true;
    }
    assert!(seen.iter().filter(|&&mail| mail).count() > 290);
}

/// Says where `text` stops being exactly one JSON value. No more of RFC 8259 than that: values are not kept.
fn check_json(text: &str) -> Result<(), String> {
    let rest = after_value(text.as_bytes())?;
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes follow the value", rest.len())) }
}

fn after_value(text: &[u8]) -> Result<&[u8], String> {
    match text.first() {
        Some(b'{') => after_members(&text[1..], b'}', |text| {
            let text = after_string(text)?;
            after_value(text.strip_prefix(b":").ok_or("no colon after a name")?)
        }),
        Some(b'[') => after_members(&text[1..], b']', after_value),
        Some(b'"') => after_string(text),
        Some(b'-' | b'0'..=b'9') => after_number(text),
        _ => [&b"true"[..], b"false", b"null"]
            .into_iter()
            .find_map(|word| text.strip_prefix(word))
            .ok_or_else(|| format!("no value at {:?}", String::from_utf8_lossy(&text[..text.len().min(20)]))),
    }
}

fn after_members(
    mut text: &[u8],
    end: u8,
    after_member: impl Fn(&[u8]) -> Result<&[u8], String>,
) -> Result<&[u8], String> {
    if text.first() == Some(&end) {
        return Ok(&text[1..]);
    }
    loop {
        text = after_member(text)?;
        match text.split_first() {
            Some((b',', rest)) => text = rest,
            Some((byte, rest)) if *byte == end => return Ok(rest),
            _ => return Err(format!("neither a comma nor {:?}", end as char)),
        }
    }
}

fn after_string(text: &[u8]) -> Result<&[u8], String> {
    let mut rest = text.strip_prefix(b"\"").ok_or("no string")?;
    loop {
        rest = match rest {
            [b'"', rest @ ..] => return Ok(rest),
            [b'\\', b'u', a, b, c, d, rest @ ..] if [a, b, c, d].iter().all(|byte| byte.is_ascii_hexdigit()) => rest,
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => rest,
            [0..0x20 | b'\\', ..] | [] => {
                return Err("a string with a raw control byte, a bad escape or no end".to_owned());
            }
            [_, rest @ ..] => rest,
        };
    }
}

fn after_number(text: &[u8]) -> Result<&[u8], String> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = match text {
        [b'0', rest @ ..] => rest,
        _ => after_digits(text)?,
    };
    let text = text.strip_prefix(b".").map_or(Ok(text), after_digits)?;
    match text {
        [b'e' | b'E', b'+' | b'-', rest @ ..] | [b'e' | b'E', rest @ ..] => after_digits(rest),
        _ => Ok(text),
    }
}

fn after_digits(text: &[u8]) -> Result<&[u8], String> {
    match text.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => Err("no digit".to_owned()),
        count => Ok(&text[count..]),
    }
}
