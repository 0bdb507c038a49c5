//! Reads into memory in several places, beside a copy of what the file has.

use std::io::IoSliceMut;
use std::sync::mpsc;

use super::*;

/// A read into buffers of its own, which come back when it is over.
struct Scattered {
    offset_bytes: u64,
    parts: Vec<AlignedBuffer>,
    told: mpsc::Sender<(u64, Vec<AlignedBuffer>, Result<()>)>,
}

fn slices(parts: &mut [AlignedBuffer]) -> Vec<IoSliceMut<'_>> {
    parts.iter_mut().map(|part| IoSliceMut::new(part)).collect()
}

impl PendingRead for Scattered {
    fn destination(&mut self) -> Destination<'_> {
        Destination::Several(slices(&mut self.parts))
    }

    fn completed(self: Box<Self>, outcome: Result<()>) {
        self.told.send((self.offset_bytes, self.parts, outcome)).unwrap();
    }
}

/// Parts of random sizes, none among them; some without bytes.
fn random_parts(seeded: &mut Seeded) -> Vec<AlignedBuffer> {
    let is_aligned = seeded.below(3) > 0;
    let size = |seeded: &mut Seeded| match seeded.below(4) {
        0 if !is_aligned => seeded.below(9000) as usize,
        _ => seeded.below(4) as usize * DIRECT_ALIGNMENT_BYTES,
    };
    (0..seeded.below(12)).map(|_| AlignedBuffer::new(size(seeded))).collect()
}

fn check(content: &[u8], offset_bytes: u64, parts: &[AlignedBuffer], outcome: &Result<()>) {
    let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    check_read(content, offset_bytes as usize, outcome, &whole);
}

#[test]
fn every_medium_fills_parts_as_it_fills_one_buffer() {
    for seed in 1..=3 {
        for_each_medium(|name, medium| {
            println!("medium {name}, seed {seed}");
            let seeded = &mut Seeded::new(seed);
            // The last page of the file is not whole.
            let content = random_bytes(seeded, 40 * DIRECT_ALIGNMENT_BYTES + 1234);
            let file = medium.create("column").unwrap();
            medium.write_at(&file, 0, &content).unwrap();
            let (told, heard) = mpsc::channel();
            for _ in 0..10 {
                let reads: Vec<ReadAt> = (0..seeded.below(40))
                    .map(|_| {
                        let offset_bytes = random_size(seeded, 40) as u64;
                        let read = Scattered { offset_bytes, parts: random_parts(seeded), told: told.clone() };
                        ReadAt { file: file.clone(), offset_bytes, read: Box::new(read) }
                    })
                    .collect();
                let count = reads.len();
                medium.submit(reads);
                for _ in 0..count {
                    let (offset_bytes, parts, outcome) = heard.recv().unwrap();
                    check(&content, offset_bytes, &parts, &outcome);
                }
                let (offset, mut parts) = (random_size(seeded, 40) as u64, random_parts(seeded));
                let outcome = medium.read_vectored_at(&file, offset, &mut slices(&mut parts));
                check(&content, offset, &parts, &outcome);
            }
        });
    }
}

#[test]
fn a_read_may_have_more_parts_than_the_system_takes_at_once() {
    for_each_medium(|name, medium| {
        let content: Vec<u8> = (0..4000_u32).map(|index| (index % 251) as u8).collect();
        let file = medium.create("column").unwrap();
        medium.write_at(&file, 0, &content).unwrap();
        // Parts without bytes, more of them than the system looks at, before and between those with some.
        let lengths = [0, 1, 0, 1].into_iter().flat_map(|length| std::iter::repeat_n(length, 1500));
        let mut parts: Vec<AlignedBuffer> = lengths.map(AlignedBuffer::new).collect();
        let (told, heard) = mpsc::channel();
        let outcome = medium.read_vectored_at(&file, 7, &mut slices(&mut parts));
        outcome.unwrap();
        check(&content, 7, &parts, &Ok(()));
        parts.iter_mut().for_each(|part| part.fill(0));
        let read = Box::new(Scattered { offset_bytes: 7, parts, told });
        medium.submit(vec![ReadAt { file, offset_bytes: 7, read }]);
        let (offset_bytes, parts, outcome) = heard.recv().unwrap();
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
        check(&content, offset_bytes, &parts, &outcome);
    });
}

#[test]
fn a_read_into_parts_is_one_read_of_a_disk_and_fails_as_one() {
    let medium = SimulatedMedium::new(512);
    let file = medium.create("column").unwrap();
    medium.write_at(&file, 0, &[3; 8192]).unwrap();
    let mut parts = [AlignedBuffer::new(4096), AlignedBuffer::new(4096)];
    medium.fail_read_at(1);
    medium.read_vectored_at(&file, 0, &mut slices(&mut parts)).unwrap();
    let error = medium.read_vectored_at(&file, 0, &mut slices(&mut parts)).unwrap_err().to_string();
    assert!(error.contains("column: cannot read 8192 bytes at byte 0"), "{error}");
    assert_eq!(medium.read_count(), 2);
    let error = medium.read_vectored_at(&file, 4096, &mut slices(&mut parts)).unwrap_err().to_string();
    assert!(error.contains("cannot read 8192 bytes at byte 4096"), "{error}");
}
