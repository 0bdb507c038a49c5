//! Texts of scanned columns, numbered for the whole run, so that pages with dictionaries of their own agree.
//!
//! **Invariants**: a text has one number, and a number one text. **Concurrency**: one lock, taken for the texts of a
//! mini-block that a thread has not met in its page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::RandomState;
use thermocline_budget::Account;

use super::memory::Memory;
use super::page_texts::PageTexts;
use super::place::PagePlace;
use crate::PipelineError;

/// Bytes that a text takes besides its own: in the table, in the list, and its counts.
const ENTRY_BYTES: usize = 96;

#[derive(Debug)]
pub(super) struct Interner {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    texts: Vec<Arc<str>>,
    /// `texts` as they were given out last.
    given: Arc<[Arc<str>]>,
    memory: Memory,
    size_bytes: usize,
}

impl Interner {
    pub(super) fn new(account: &Account) -> Result<Self, PipelineError> {
        let memory = Memory::new(account, 0)?;
        let state =
            State { numbers: HashMap::default(), texts: Vec::new(), given: Arc::new([]), memory, size_bytes: 0 };
        Ok(Self { state: Mutex::new(state) })
    }

    /// Notes the numbers of some of a page's texts by their codes there.
    pub(super) fn number(
        &self,
        codes: &[usize],
        texts: &PageTexts<'_>,
        place: &PagePlace,
        numbers: &mut [u32],
    ) -> Result<(), PipelineError> {
        // A panic elsewhere leaves at most a text without its number, which is then numbered again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for code in codes {
            let bytes = texts.entry(*code).unwrap_or_default();
            let text = std::str::from_utf8(bytes).map_err(|error| {
                place.mismatch(format!("text {code} that is no UTF-8 ({error})"), "UTF-8".to_owned())
            })?;
            numbers[*code] = state.number(text)?;
        }
        Ok(())
    }

    /// All texts by their numbers.
    pub(super) fn texts(&self) -> Arc<[Arc<str>]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.given.len() < state.texts.len() {
            state.given = state.texts.as_slice().into();
        }
        Arc::clone(&state.given)
    }
}

impl State {
    fn number(&mut self, text: &str) -> Result<u32, PipelineError> {
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        let number = u32::try_from(self.texts.len())
            .map_err(|_| PipelineError::TooMany { what: "different texts of a column".to_owned() })?;
        self.size_bytes += text.len() + ENTRY_BYTES;
        self.memory.ensure(self.size_bytes)?;
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        Ok(number)
    }
}
