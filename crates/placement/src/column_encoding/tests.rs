use super::*;

fn candidate(encoding: Encoding, size_bytes: u64) -> Candidate {
    Candidate { encoding, size_bytes, decoded_bytes: 8 * 1024, run_count: 0 }
}

#[test]
fn of_encodings_that_decode_alike_the_smaller_is_taken() {
    let plain = candidate(Encoding::Plain, 8192);
    let packed = candidate(Encoding::Integers(IntegerEncoding::FrameOfReference), 1024);
    let delta = candidate(Encoding::Integers(IntegerEncoding::Delta), 1000);
    assert_eq!(choose(1024, &[plain, packed]), Some(packed));
    // 24 bytes are not worth the chain of sums.
    assert_eq!(choose(1024, &[plain, delta, packed]), Some(packed));
    let short = Candidate { size_bytes: 128, ..delta };
    assert_eq!(choose(1024, &[plain, short, packed]), Some(short));
}

#[test]
fn runs_are_taken_only_where_they_are_long() {
    let packed = candidate(Encoding::Integers(IntegerEncoding::FrameOfReference), 1024);
    let runs = |run_count| Candidate {
        encoding: Encoding::Integers(IntegerEncoding::RunLength),
        size_bytes: 3 * run_count,
        decoded_bytes: 8192,
        run_count,
    };
    assert_eq!(choose(1024, &[packed, runs(10)]), Some(runs(10)));
    assert_eq!(choose(1024, &[packed, runs(300)]), Some(packed));
}

#[test]
fn the_first_of_equals_is_taken_and_none_of_none() {
    let one = candidate(Encoding::Plain, 64);
    let other = Candidate { encoding: Encoding::Constant, decoded_bytes: 0, ..one };
    let same = Candidate { decoded_bytes: 0, ..one };
    assert_eq!(choose(0, &[other, same]), Some(other));
    assert_eq!(choose(0, &[same, other]), Some(same));
    assert_eq!(choose(0, &[]), None);
}
