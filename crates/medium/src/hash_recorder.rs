//! Collects the block hashes of a file while a scan reads it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::block_hashes::{BLOCK_BYTES, BlockHashes};

/// Filled by the threads of one scan, block by block in any order; each block is hashed outside the lock. Scans that
/// share the reading of one content share a recorder.
///
/// ```
/// use thermocline_medium::{BLOCK_BYTES, HashRecorder};
/// let recorder = HashRecorder::new();
/// recorder.record(1, b"the tail");
/// recorder.record(0, &vec![0; BLOCK_BYTES]);
/// let hashes = recorder.finish(BLOCK_BYTES as u64 + 8).expect("both blocks were recorded");
/// assert_eq!(hashes.size_bytes(), BLOCK_BYTES as u64 + 8);
/// ```
#[derive(Debug, Default)]
pub struct HashRecorder {
    blocks: Mutex<Vec<Option<Block>>>,
    earlier: Option<Arc<BlockHashes>>,
    has_other_prefix: AtomicBool,
    has_two_contents: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    hash: u64,
    length_bytes: u32,
    /// Whether it was recorded, not known from an earlier scan.
    is_recorded: bool,
}

impl HashRecorder {
    /// An empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder that knows the whole blocks of `prefix` already, for a scan that starts at or after its end.
    ///
    /// The prefix's partial last block, if any, must be recorded anew, whole.
    pub fn after_prefix(prefix: &BlockHashes) -> Self {
        let block = |&hash: &u64| Some(Block { hash, length_bytes: BLOCK_BYTES as u32, is_recorded: false });
        Self { blocks: Mutex::new(prefix.whole_blocks().iter().map(block).collect()), ..Self::default() }
    }

    /// The same, which also finds out whether what is recorded begins with what was hashed earlier.
    #[must_use]
    pub fn against(self, earlier: Arc<BlockHashes>) -> Self {
        Self { earlier: Some(earlier), ..self }
    }

    /// Whether a block was recorded that is not as it was hashed earlier, as far as it was hashed then.
    pub fn has_other_prefix(&self) -> bool {
        self.has_other_prefix.load(Ordering::Relaxed)
    }

    /// Whether a block was recorded twice, of one length and with different content: there is no one content then that
    /// was read.
    pub fn has_two_contents(&self) -> bool {
        self.has_two_contents.load(Ordering::Relaxed)
    }

    /// Records block `block_index`: the whole of it, or as much as the file has of its last one. The same block may be
    /// recorded again; the last call counts.
    ///
    /// # Panics
    /// When `content` is longer than a block (with debug assertions); such a record is ignored otherwise.
    pub fn record(&self, block_index: u64, content: &[u8]) {
        debug_assert!(content.len() <= BLOCK_BYTES, "a block has {BLOCK_BYTES} bytes, got {}", content.len());
        let (Ok(index), Ok(length_bytes)) = (usize::try_from(block_index), u32::try_from(content.len())) else {
            return;
        };
        if content.len() > BLOCK_BYTES {
            return;
        }
        let block = Block { hash: xxh3_64(content), length_bytes, is_recorded: true };
        if let Some(earlier) = &self.earlier
            && !earlier.is_prefix_of_block(index, content, block.hash)
        {
            self.has_other_prefix.store(true, Ordering::Relaxed);
        }
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() <= index {
            blocks.resize(index + 1, None);
        }
        if let Some(before) = blocks[index].replace(block)
            && before.is_recorded
            && before.length_bytes == length_bytes
            && before.hash != block.hash
        {
            self.has_two_contents.store(true, Ordering::Relaxed);
        }
    }

    /// The hashes of a file of `size_bytes`; `None` when a block is missing or was recorded with another length than
    /// a file of that size gives it (the recorder may be finished again, for another size).
    pub fn finish(&self, size_bytes: u64) -> Option<BlockHashes> {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let whole_count = usize::try_from(size_bytes / BLOCK_BYTES as u64).ok()?;
        let tail_bytes = (size_bytes % BLOCK_BYTES as u64) as u32;
        let hash_of = |index: usize, length_bytes: u32| {
            blocks
                .get(index)
                .copied()
                .flatten()
                .filter(|block| block.length_bytes == length_bytes)
                .map(|block| block.hash)
        };
        let whole = (0..whole_count).map(|index| hash_of(index, BLOCK_BYTES as u32)).collect::<Option<Box<[u64]>>>()?;
        let tail = if tail_bytes == 0 { None } else { Some(hash_of(whole_count, tail_bytes)?) };
        Some(BlockHashes::from_parts(size_bytes, whole, tail))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn blocks_may_come_in_any_order_and_from_many_threads() {
        let content: Vec<u8> = (0..BLOCK_BYTES * 5 + 77).map(|at| (at / 1000) as u8).collect();
        let in_order = HashRecorder::new();
        for (index, block) in content.chunks(BLOCK_BYTES).enumerate() {
            in_order.record(index as u64, block);
        }
        let threaded = HashRecorder::new();
        std::thread::scope(|scope| {
            for (index, block) in content.chunks(BLOCK_BYTES).enumerate().rev() {
                let threaded = &threaded;
                scope.spawn(move || threaded.record(index as u64, block));
            }
        });
        let size_bytes = content.len() as u64;
        assert_eq!(in_order.finish(size_bytes).unwrap(), threaded.finish(size_bytes).unwrap());
    }

    #[test]
    fn a_missing_block_or_a_wrong_length_gives_nothing() {
        let recorder = HashRecorder::new();
        let whole = vec![1; BLOCK_BYTES];
        recorder.record(0, &whole);
        recorder.record(2, b"tail");
        assert!(recorder.finish(2 * BLOCK_BYTES as u64 + 4).is_none(), "block 1 is missing");
        recorder.record(1, &whole[1..]);
        assert!(recorder.finish(2 * BLOCK_BYTES as u64 + 4).is_none(), "block 1 is too short");
        recorder.record(1, &whole);
        assert!(recorder.finish(2 * BLOCK_BYTES as u64 + 3).is_none(), "the tail is too long");
        assert!(recorder.finish(2 * BLOCK_BYTES as u64 + 4).is_some());
        assert!(recorder.finish(2 * BLOCK_BYTES as u64).is_some(), "the prefix of whole blocks");
        assert!(recorder.finish(BLOCK_BYTES as u64 * 4).is_none());
    }

    #[test]
    fn another_prefix_than_earlier_is_seen_in_whole_blocks_and_within_one() {
        let old: Vec<u8> = (0..BLOCK_BYTES + 9).map(|at| (at / 7) as u8).collect();
        let record = |recorder: HashRecorder, content: &[u8]| {
            for (index, block) in content.chunks(BLOCK_BYTES).enumerate() {
                recorder.record(index as u64, block);
            }
            recorder
        };
        let earlier = Arc::new(record(HashRecorder::new(), &old).finish(old.len() as u64).unwrap());
        let has_other_prefix =
            |content: &[u8]| record(HashRecorder::new().against(Arc::clone(&earlier)), content).has_other_prefix();
        let grown = [old.as_slice(), &vec![5; 2 * BLOCK_BYTES]].concat();
        assert!(!has_other_prefix(&old) && !has_other_prefix(&grown));
        for at in [0, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 8] {
            let mut other = grown.clone();
            other[at] ^= 1;
            assert!(has_other_prefix(&other), "{at}");
        }
        let mut other = grown;
        other[BLOCK_BYTES + 9] ^= 1;
        assert!(!has_other_prefix(&other), "behind what was hashed");
        assert!(has_other_prefix(&old[..BLOCK_BYTES + 3]), "shorter");
    }

    #[test]
    fn a_block_that_is_read_again_with_other_content_is_seen() {
        let known = HashRecorder::new();
        known.record(0, &vec![1; BLOCK_BYTES]);
        let known = known.finish(BLOCK_BYTES as u64).unwrap();
        for (recorder, is_first) in [(HashRecorder::new(), true), (HashRecorder::after_prefix(&known), false)] {
            for content in [vec![2; BLOCK_BYTES], vec![2; BLOCK_BYTES], vec![2; 7]] {
                recorder.record(0, &content);
                assert!(!recorder.has_two_contents(), "first: {is_first}");
            }
            recorder.record(0, b"another");
            assert!(recorder.has_two_contents(), "first: {is_first}");
        }
    }

    #[test]
    fn an_empty_file_has_hashes_too() {
        assert_eq!(HashRecorder::new().finish(0).unwrap().size_bytes(), 0);
    }

    #[test]
    fn a_recorder_after_a_prefix_needs_only_what_follows_its_whole_blocks() {
        let content: Vec<u8> = (0..BLOCK_BYTES * 3 + 5).map(|at| (at / 7) as u8).collect();
        let record = |recorder: &HashRecorder, from: usize, end: usize| {
            for (index, block) in content[..end].chunks(BLOCK_BYTES).enumerate().skip(from) {
                recorder.record(index as u64, block);
            }
            recorder.finish(end as u64).unwrap()
        };
        let old = record(&HashRecorder::new(), 0, BLOCK_BYTES * 2 + 9);
        let continued = HashRecorder::after_prefix(&old);
        assert_eq!(record(&continued, 2, content.len()), record(&HashRecorder::new(), 0, content.len()));
    }
}
