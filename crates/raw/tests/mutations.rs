//! The fuzz targets' bodies over seeded mutations of a small corpus. A failure prints its seed and input.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, unreachable_pub)]

mod fuzz_bodies;

use thermocline_seeded::Random;

const CSV: [&[u8]; 10] = [
    b"id,name,price,day,at,ok\n1,ann,1.5,2026-01-31,2026-01-31 12:00:00,true\n2,bob,,2024-02-29,2026-01-31T12:00:00,false\n",
    b"\xef\xbb\xbfa;b\r\n1;\"x;y\"\r\n\r\n2;\"line\r\nbreak\"\r\n3;\"\"\r\n",
    b"\xef\xbb\xbf\"a\n\",b\n1,2\n",
    b"1,\"a\"\"b\",5\" pipe\n2,\"\",NA\n-3,'c','d'\n",
    b"k\tv\n99999999999999999999\t1e9\nNaN\t-.5\n",
    b"a|b|c\n1|2\n1|2|3|4\n1|2|3\n",
    b"q,r\n\"unclosed,1\n2,3\n",
    b"s,t\n\"x\\\"y\",1\n\"\\\\\",2\n\\,3\n",
    b"one\ntwo\n\nthree\n\"\"\n",
    b"u,v\n\xff,\xc3\xbc\n\"a\"b,c\n2026-01-31T00:00:00.123456789Z,2026-01-31 00:00:00+02:00\n",
];

const NDJSON: [&[u8]; 9] = [
    b"{\"a\":1,\"b\":\"x\",\"c\":1.5,\"d\":true,\"e\":null}\n{\"a\":-2,\"b\":\"\\u00fc\\n\\\\\"}\n",
    b"\xef\xbb\xbf{\"o\":{\"p\":{\"q\":[1,2,3]},\"r\":\"s\"}}\r\n\r\n{\"o\":null}\r\n{\"o\":{}}\r\n",
    b"{\"k\":1,\"items\":[{\"n\":1,\"t\":\"a\"},{\"n\":2}]}\n{\"k\":2,\"items\":[]}\n{\"k\":3,\"items\":null}\n{\"k\":4}\n",
    b"{\"x\":99999999999999999999}\n{\"x\":1e308}\n{\"x\":-0.0}\n",
    b"{\"m\":[[1],[2,3],[]],\"s\":[\"a\",null]}\n{\"m\":null,\"s\":[]}\n",
    b"{\"a\":1,\"a\":2}\n{\"\\ud83d\\ude00\":\"\\ud800\"}\n",
    b"{\"a\":1}\n{\"a\":}\n[1]\n{\"a\":1}x\n{\"a\":2}\n",
    b" { \"a\" : [ 1 , 2 ] , \"b\" : { \"c\" : \"d\" } } \n\t{}\n{\"a\":[",
    b"{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":{\"b\":1}}\n{\"a\":[true]}\n",
];

/// A few edits, mostly with bytes that mean something to the format.
fn mutate(random: &mut Random, corpus: &[&[u8]], special: &[u8]) -> Vec<u8> {
    let mut content = corpus[random.below(corpus.len())].to_vec();
    for _ in 0..random.below(12) {
        let at = random.below(content.len() + 1);
        let end = (at + random.below(20)).min(content.len());
        match random.below(7) {
            0 => drop(content.drain(at..end)),
            1 => {
                let copy = content[at..end].to_vec();
                let to = random.below(content.len() + 1);
                content.splice(to..to, copy);
            }
            2 => {
                let other = corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                let part = &other[from..(from + random.below(40)).min(other.len())];
                content.splice(at..at, part.iter().copied());
            }
            3 if at < content.len() => content[at] = random.below(256) as u8,
            4 => content.truncate(content.len() - random.below(8).min(content.len())),
            _ => content.insert(at, special[random.below(special.len())]),
        }
    }
    content
}

fn run(rounds: u64, corpus: &[&[u8]], special: &[u8], choice_bytes: usize, body: fn(&[u8])) {
    for seed in 1..=rounds {
        let mut random = Random::new(seed);
        let mut input: Vec<u8> = (0..choice_bytes).map(|_| random.below(256) as u8).collect();
        input.extend(mutate(&mut random, corpus, special));
        if let Err(panic) = std::panic::catch_unwind(|| body(&input)) {
            eprintln!("seed {seed}, input {}", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn mutated_csv_is_a_table_or_an_error_and_reads_alike_in_pieces() {
    run(20_000, &CSV, b"\",;\t|\n\r\\' 0a", fuzz_bodies::csv::CHOICE_BYTES, fuzz_bodies::csv::run);
}

#[test]
fn mutated_ndjson_is_a_table_or_an_error_and_reads_alike_in_pieces() {
    let special = b"{}[]\":,\\\n\r 0-.eu\xc3\x00";
    run(20_000, &NDJSON, special, fuzz_bodies::ndjson::CHOICE_BYTES, fuzz_bodies::ndjson::run);
}

#[test]
fn empty_input_is_read_like_any_other() {
    fuzz_bodies::csv::run(b"");
    fuzz_bodies::ndjson::run(b"");
}
