#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::*;
use crate::HashRecorder;

const BLOCK: u64 = BLOCK_BYTES as u64;

fn noise(size_bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..size_bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn file_with(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.ndjson");
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn hashes_of(content: &[u8]) -> BlockHashes {
    let recorder = HashRecorder::new();
    for (index, block) in content.chunks(BLOCK_BYTES).enumerate() {
        recorder.record(index as u64, block);
    }
    recorder.finish(content.len() as u64).unwrap()
}

fn write_at(path: &Path, offset: u64, content: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(content).unwrap();
}

fn compare(hashes: &BlockHashes, path: &Path, prefix_bytes: u64) -> PrefixMatch {
    hashes.prefix_matches(&PinnedFile::open(path).unwrap(), prefix_bytes).unwrap()
}

#[test]
fn an_unchanged_prefix_is_the_same_before_and_after_growth() {
    for size_bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES, 5 * BLOCK_BYTES + 12_345] {
        let content = noise(size_bytes);
        let (_folder, path) = file_with(&content);
        let hashes = hashes_of(&content);
        assert_eq!(compare(&hashes, &path, hashes.size_bytes()), PrefixMatch::Same, "{size_bytes} bytes");
        write_at(&path, size_bytes as u64, &noise(2 * BLOCK_BYTES + 3));
        assert_eq!(compare(&hashes, &path, hashes.size_bytes()), PrefixMatch::Same, "{size_bytes} bytes, grown");
    }
}

#[test]
fn one_changed_byte_anywhere_in_the_prefix_is_found() {
    let content = noise(3 * BLOCK_BYTES + 777);
    let hashes = hashes_of(&content);
    let last = content.len() as u64 - 1;
    for at in [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5, 3 * BLOCK, last] {
        let (_folder, path) = file_with(&content);
        write_at(&path, at, &[!content[at as usize]]);
        write_at(&path, last + 1, b"appended");
        assert_eq!(compare(&hashes, &path, hashes.size_bytes()), PrefixMatch::Different, "byte {at}");
    }
}

#[test]
fn a_file_shorter_than_the_prefix_is_different() {
    let content = noise(BLOCK_BYTES + 100);
    let hashes = hashes_of(&content);
    let (_folder, path) = file_with(&content[..BLOCK_BYTES + 99]);
    assert_eq!(compare(&hashes, &path, hashes.size_bytes()), PrefixMatch::Different);
    assert_eq!(compare(&hashes, &path, BLOCK), PrefixMatch::Same, "the first block is still there");
}

#[test]
fn a_prefix_that_ends_inside_a_block_is_known_only_up_to_that_block() {
    let content = noise(3 * BLOCK_BYTES + 500);
    let hashes = hashes_of(&content);
    let (_folder, path) = file_with(&content);
    assert_eq!(compare(&hashes, &path, 2 * BLOCK), PrefixMatch::Same);
    let known = PrefixMatch::Unknown { verified_bytes: 2 * BLOCK };
    assert_eq!(compare(&hashes, &path, 2 * BLOCK + 9), known);
    let known = PrefixMatch::Unknown { verified_bytes: 3 * BLOCK };
    assert_eq!(compare(&hashes, &path, 3 * BLOCK + 499), known);
    write_at(&path, 3 * BLOCK + 600, b"more");
    let known = PrefixMatch::Unknown { verified_bytes: 3 * BLOCK + 500 };
    assert_eq!(compare(&hashes, &path, 3 * BLOCK + 600), known, "beyond what was hashed");
    write_at(&path, 5, b"!!!!");
    assert_eq!(compare(&hashes, &path, 2 * BLOCK + 9), PrefixMatch::Different);
}

#[test]
fn a_file_truncated_under_the_pin_is_different() {
    // Zeros and equal blocks too: what a buffer held before must not pass for what was read.
    for content in [noise(2 * BLOCK_BYTES), vec![0; 2 * BLOCK_BYTES], vec![7; 2 * BLOCK_BYTES]] {
        let hashes = hashes_of(&content);
        let (_folder, path) = file_with(&content);
        let file = PinnedFile::open(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(BLOCK + 7).unwrap();
        assert_eq!(hashes.prefix_matches(&file, 2 * BLOCK).unwrap(), PrefixMatch::Different);
    }
}

#[test]
fn a_stopped_comparison_claims_nothing() {
    let content = noise(2 * BLOCK_BYTES);
    let hashes = hashes_of(&content);
    let (_folder, path) = file_with(&content);
    let file = PinnedFile::open(&path).unwrap();
    let stopped = hashes.prefix_matches_until(&file, 2 * BLOCK, &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped, PrefixMatch::Unknown { verified_bytes: 0 });
    assert!(!stopped.is_same());
}

#[test]
fn hashes_take_eight_bytes_a_block() {
    assert_eq!(hashes_of(&noise(3 * BLOCK_BYTES + 1)).heap_bytes(), 24);
}
