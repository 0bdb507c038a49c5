//! Texts of scanned columns, numbered for the whole run, so that pages with dictionaries of their own agree.
//!
//! **Invariants**: a text has one number, and a number one text. **Concurrency**: one lock, taken for the texts of a
//! mini-block that a thread has not met in its page.

use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;
use hashbrown::HashTable;
use thermocline_budget::Account;

use super::memory::Memory;
use crate::{PipelineError, TextList};

/// Bytes that a text takes besides its own: where it ends, in a vector that grows by doubling, and 17 in the table, of
/// whose places an eighth is free, and which is there three times while it doubles.
const ENTRY_BYTES: usize = 16 + 60;

#[derive(Debug)]
pub(super) struct Interner {
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Hashes and numbers.
    numbers: HashTable<(u64, u32)>,
    /// By their numbers. Whoever was given them keeps them as they were.
    texts: Arc<TextList>,
    memory: Memory,
    size_bytes: usize,
}

impl Interner {
    pub(super) fn new(account: &Account) -> Result<Self, PipelineError> {
        let memory = Memory::new(account, 0)?;
        let state = State { numbers: HashTable::new(), texts: Arc::default(), memory, size_bytes: 0 };
        Ok(Self { hasher: RandomState::new(), state: Mutex::new(state) })
    }

    /// Notes the numbers of some of a page's texts by their codes there.
    pub(super) fn number(&self, codes: &[usize], found: &TextList, numbers: &mut [u32]) -> Result<(), PipelineError> {
        // What needs no lock comes first: others wait for it.
        let hashed: Vec<u64> = found.iter().map(|text| self.hasher.hash_one(text)).collect();
        // A panic elsewhere leaves at most a text without its number, which is then numbered again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { numbers: known, texts, memory, size_bytes } = &mut *state;
        let texts = Arc::make_mut(texts);
        for ((code, text), hash) in codes.iter().zip(found.iter()).zip(hashed) {
            let is_same = |(of, number): &(u64, u32)| *of == hash && texts.get(*number as usize) == Some(text);
            numbers[*code] = match known.find(hash, is_same) {
                Some((_, number)) => *number,
                None => {
                    let number = u32::try_from(texts.len())
                        .map_err(|_| PipelineError::TooMany { what: "different texts of a column".to_owned() })?;
                    *size_bytes += 2 * text.len() + ENTRY_BYTES;
                    memory.ensure(*size_bytes)?;
                    texts.push(text);
                    known.insert_unique(hash, (hash, number), |(hash, _)| *hash);
                    number
                }
            };
        }
        Ok(())
    }

    /// The memory of the texts, for who goes on holding them; all else is given back.
    pub(super) fn into_memory(self) -> Memory {
        let State { texts, memory, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        memory.shrink_to(texts.allocated_bytes());
        memory
    }

    /// All texts by their numbers.
    pub(super) fn texts(&self) -> Arc<TextList> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&state.texts)
    }
}
