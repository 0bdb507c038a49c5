//! Hashes of a file's content by aligned blocks, which prove that an old prefix is still there.
//!
//! Reading and hashing is an order of magnitude cheaper than parsing (xxh3 hashes faster than memory is read), so a
//! file that grew is checked by reading its old part again and comparing. The hash is not cryptographic: it guards
//! against writers that do not know of it, not against forgery.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use xxhash_rust::xxh3::xxh3_64;

use crate::{PinnedFile, Result};

/// Bytes of a block. Large enough that 8 bytes a block are nothing (1 MiB of hashes for 128 GiB), small enough that a
/// block stays in the second-level cache between reading and hashing.
pub const BLOCK_BYTES: usize = 1 << 20;

/// What comparing a prefix gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixMatch {
    /// The file still begins with exactly these bytes.
    Same,
    /// It does not.
    Different,
    /// What could be compared is the same, but the rest of the prefix lies inside a block of which only another length
    /// was hashed, or beyond what was hashed, or the comparison was stopped.
    Unknown {
        /// The file begins with this many of the same bytes.
        verified_bytes: u64,
    },
}

impl PrefixMatch {
    /// Whether the whole prefix is proven unchanged.
    pub fn is_same(self) -> bool {
        self == Self::Same
    }
}

/// The xxh3-64 of each aligned block of a file's first bytes, of the last one exactly as much as was covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHashes {
    size_bytes: u64,
    whole: Box<[u64]>,
    /// Of the `size_bytes % BLOCK_BYTES` bytes after the whole blocks; `None` when there are none.
    tail: Option<u64>,
}

impl BlockHashes {
    pub(crate) fn from_parts(size_bytes: u64, whole: Box<[u64]>, tail: Option<u64>) -> Self {
        Self { size_bytes, whole, tail }
    }

    pub(crate) fn whole_blocks(&self) -> &[u64] {
        &self.whole
    }

    /// Whether `content`, which is block `index` of a file and has that hash, begins with what was hashed of the block.
    pub(crate) fn is_prefix_of_block(&self, index: usize, content: &[u8], hash: u64) -> bool {
        match self.whole.get(index) {
            Some(whole) => content.len() == BLOCK_BYTES && *whole == hash,
            None if index == self.whole.len() => {
                let tail_bytes = (self.size_bytes % BLOCK_BYTES as u64) as usize;
                self.tail.is_none_or(|tail| content.get(..tail_bytes).is_some_and(|begin| xxh3_64(begin) == tail))
            }
            None => true,
        }
    }

    /// How many of the file's first bytes are covered.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        size_of_val::<[u64]>(&self.whole)
    }

    /// Compares the first `prefix_bytes` of `file` with those that were hashed, reading them in parallel.
    ///
    /// The whole answer is given for [`size_bytes`](Self::size_bytes) (the usual question, after growth) and for
    /// multiples of [`BLOCK_BYTES`] below it. Costs one read of the prefix, a buffer of one block a thread, and at most
    /// `available_parallelism` threads; stops at the first difference. A file shorter than the prefix is different.
    ///
    /// # Errors
    /// Failures of the system while reading.
    pub fn prefix_matches(&self, file: &PinnedFile, prefix_bytes: u64) -> Result<PrefixMatch> {
        self.prefix_matches_until(file, prefix_bytes, &AtomicBool::new(false))
    }

    /// As [`prefix_matches`](Self::prefix_matches); another thread may set `stop`, and the answer is `Unknown` within
    /// the time of reading one block.
    ///
    /// # Errors
    /// Failures of the system while reading.
    pub fn prefix_matches_until(&self, file: &PinnedFile, prefix_bytes: u64, stop: &AtomicBool) -> Result<PrefixMatch> {
        if file.size_bytes() < prefix_bytes {
            return Ok(PrefixMatch::Different);
        }
        let pieces = self.pieces(prefix_bytes);
        let next_piece = AtomicU64::new(0);
        let difference = AtomicBool::new(false);
        let compare = || -> Result<()> {
            let mut buffer = vec![0; BLOCK_BYTES.min(usize::try_from(prefix_bytes).unwrap_or(BLOCK_BYTES))];
            while !stop.load(Ordering::Relaxed) && !difference.load(Ordering::Relaxed) {
                let index = next_piece.fetch_add(1, Ordering::Relaxed);
                let Some(piece) = pieces.get(index) else { break };
                let content = &mut buffer[..piece.length_bytes];
                let read_bytes = file.read_at(content, index * BLOCK_BYTES as u64)?;
                if read_bytes < piece.length_bytes || xxh3_64(content) != piece.hash {
                    difference.store(true, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        let thread_count = thread::available_parallelism().map_or(1, usize::from) as u64;
        let helper_count = thread_count.min(pieces.count()).saturating_sub(1);
        thread::scope(|scope| {
            // Where the system has no more threads, those that there are do it.
            let helper = |_| thread::Builder::new().spawn_scoped(scope, compare).ok();
            let helpers: Vec<_> = (0..helper_count).map_while(helper).collect();
            let own = compare();
            helpers.into_iter().fold(own, |result, helper| {
                result.and(helper.join().unwrap_or_else(|payload| panic::resume_unwind(payload)))
            })
        })?;
        Ok(if difference.load(Ordering::Relaxed) {
            PrefixMatch::Different
        } else if stop.load(Ordering::Relaxed) {
            PrefixMatch::Unknown { verified_bytes: 0 }
        } else if pieces.covered_bytes == prefix_bytes {
            PrefixMatch::Same
        } else {
            PrefixMatch::Unknown { verified_bytes: pieces.covered_bytes }
        })
    }

    /// The blocks by which a prefix can be compared.
    fn pieces(&self, prefix_bytes: u64) -> Pieces<'_> {
        let block_bytes = BLOCK_BYTES as u64;
        if prefix_bytes >= self.size_bytes {
            return Pieces {
                whole: &self.whole,
                tail: self.tail,
                tail_bytes: (self.size_bytes % block_bytes) as usize,
                covered_bytes: self.size_bytes,
            };
        }
        let whole_count = (prefix_bytes / block_bytes) as usize;
        Pieces {
            whole: &self.whole[..whole_count],
            tail: None,
            tail_bytes: 0,
            covered_bytes: whole_count as u64 * block_bytes,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pieces<'a> {
    whole: &'a [u64],
    tail: Option<u64>,
    tail_bytes: usize,
    covered_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    hash: u64,
    length_bytes: usize,
}

impl Pieces<'_> {
    fn count(&self) -> u64 {
        self.whole.len() as u64 + u64::from(self.tail.is_some())
    }

    fn get(&self, index: u64) -> Option<Piece> {
        let index = usize::try_from(index).ok()?;
        match self.whole.get(index) {
            Some(&hash) => Some(Piece { hash, length_bytes: BLOCK_BYTES }),
            None if index == self.whole.len() => self.tail.map(|hash| Piece { hash, length_bytes: self.tail_bytes }),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
