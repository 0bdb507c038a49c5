//! Text that looks written: sentences, names, identifiers, hosts.
//!
//! Owns the words. Everything here can stand inside a JSON string as it is, escapes included.

use super::draws::Draws;
use thermocline_tpch::push_integer;

/// Frequent words first, so that a skewed pick repeats some as people do.
const WORDS: [&str; 96] = [
    "the",
    "to",
    "and",
    "a",
    "of",
    "you",
    "in",
    "is",
    "for",
    "your",
    "it",
    "was",
    "we",
    "with",
    "this",
    "on",
    "be",
    "have",
    "at",
    "that",
    "are",
    "our",
    "from",
    "but",
    "not",
    "very",
    "here",
    "all",
    "they",
    "so",
    "will",
    "were",
    "free",
    "now",
    "good",
    "great",
    "time",
    "place",
    "offer",
    "service",
    "click",
    "order",
    "price",
    "account",
    "money",
    "today",
    "would",
    "back",
    "only",
    "there",
    "like",
    "food",
    "more",
    "please",
    "best",
    "if",
    "first",
    "limited",
    "again",
    "never",
    "friendly",
    "night",
    "received",
    "message",
    "secure",
    "payment",
    "winner",
    "little",
    "watch",
    "discount",
    "staff",
    "minutes",
    "transfer",
    "pharmacy",
    "guaranteed",
    "delicious",
    "business",
    "menu",
    "update",
    "confirm",
    "bank",
    "chicken",
    "million",
    "unsubscribe",
    "replica",
    "table",
    "quality",
    "weight",
    "parking",
    "café",
    "casino",
    "überweisen",
    "password",
    "señor",
    "invoice",
    "naïve",
];

const HOSTS: [&str; 16] = [
    "mail", "shop", "secure", "news", "login", "cdn", "track", "offers", "pills", "watches", "bank", "update", "win",
    "promo", "img", "account",
];

const DOMAINS: [&str; 8] = ["com", "net", "ru", "info", "biz", "cn", "org", "co.uk"];

/// The letters of identifiers, 64 of them, so that six bits of a draw give one.
const IDENTIFIER_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends words, without quotes around them, until at least `size_bytes` are written. With `paragraphs`, some words
/// stand in (escaped) quotes and some sentences end a line.
pub(super) fn push_prose(out: &mut Vec<u8>, draws: &mut Draws, size_bytes: usize, paragraphs: bool) {
    let end = out.len() + size_bytes;
    let mut sentence_words = 0;
    while out.len() < end {
        let word = draws.pick_skewed(&WORDS);
        if sentence_words > 0 {
            out.push(b' ');
        }
        if paragraphs && draws.chance(1) {
            out.extend_from_slice(b"\\\"");
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(b"\\\"");
        } else {
            out.extend_from_slice(word.as_bytes());
        }
        sentence_words += 1;
        if sentence_words > 5 && draws.chance(12) {
            out.extend_from_slice(if paragraphs && draws.chance(20) { b".\\n" } else { b". " });
            sentence_words = 0;
        }
    }
    while out.last() == Some(&b' ') {
        out.pop();
    }
}

/// Appends `length` letters, digits, `-` and `_`, without quotes.
pub(super) fn push_identifier(out: &mut Vec<u8>, draws: &mut Draws, length: usize) {
    for _ in 0..length {
        out.push(IDENTIFIER_LETTERS[draws.below(64) as usize]);
    }
}

/// Appends a host's name, without quotes.
pub(super) fn push_host(out: &mut Vec<u8>, draws: &mut Draws) {
    out.extend_from_slice(draws.pick_skewed(&HOSTS).as_bytes());
    out.push(b'.');
    out.extend_from_slice(draws.pick_skewed(&WORDS[30..90]).as_bytes());
    push_integer(out, draws.between(1, 999));
    out.push(b'.');
    out.extend_from_slice(draws.pick_skewed(&DOMAINS).as_bytes());
}

/// Appends an IPv4 address, without quotes.
pub(super) fn push_ip(out: &mut Vec<u8>, address: u32) {
    for (index, byte) in address.to_be_bytes().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        push_integer(out, byte.into());
    }
}

/// Appends a date, `YYYY-MM-DD`, of the years 2005 to 2017, without quotes.
pub(super) fn push_date(out: &mut Vec<u8>, draws: &mut Draws) {
    push_integer(out, draws.between(2005, 2017));
    for highest in [12, 28] {
        let number = draws.between(1, highest);
        out.extend_from_slice(if number < 10 { b"-0" } else { b"-" });
        push_integer(out, number);
    }
}

/// Appends a string in quotes.
pub(super) fn quoted(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    fill(out);
    out.push(b'"');
}
