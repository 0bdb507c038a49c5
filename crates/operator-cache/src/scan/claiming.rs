//! Who decodes which morsel: each is claimed once, fetched by whoever polls, and decoded by one stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{FutureExt, future};
use parking_lot::Mutex;

use super::state::{FetchedMorsel, Obtained, Phase, SharedFetch, State};
use super::{FailOnUnwind, SharedScan, wake};
use crate::error::CacheError;
use crate::source::Fetch;

/// What a claim gave.
pub(super) enum Claimed {
    /// Rows can be decoded at once.
    Morsel(usize, Obtained),
    /// They must be fetched.
    Fetch(usize, SharedFetch),
    /// Nothing for this stream; look again.
    Nothing,
}

impl SharedScan {
    /// Claims the next morsel for participant `me`, whose step counted the claim. Rows if it could be decoded at once.
    pub(super) fn claim(self: &Arc<Self>, me: u64) -> Claimed {
        let guard = FailOnUnwind(self);
        let clock = Arc::clone(self.cache.clock());
        // That comes once, and is none of what morsels take.
        let opened = self.open();
        let began_ns = clock.monotonic_ns();
        let next = opened.and_then(|source| Ok((source.next_morsel()?, source)));
        // Sources of files at hand read them here, and cut what they read.
        let obtaining_ns = clock.monotonic_ns().saturating_sub(began_ns);
        let claimed = match next {
            Err(error) => self.end_claim(|_| Err(CacheError::source(error))),
            Ok((None, _)) => self.end_claim(|state| {
                state.exhausted = true;
                Ok(Claimed::Nothing)
            }),
            Ok((Some(morsel), source)) => {
                let Ok(index) = usize::try_from(morsel.index) else { return self.gap() };
                if self.skip.contains(index) {
                    self.end_claim(|state| self.issue(state, index).map(|()| Claimed::Nothing))
                } else {
                    self.meters
                        .scanned_bytes
                        .fetch_add(morsel.end_bytes.saturating_sub(morsel.start_bytes), Ordering::Relaxed);
                    match source.fetch(morsel) {
                        Fetch::Ready(morsel) => self.end_claim(|state| {
                            self.issue(state, index)?;
                            let obtained = Obtained { morsel, obtaining_ns };
                            if state.begin_decoding(me, index) {
                                return Ok(Claimed::Morsel(index, obtained));
                            }
                            // The claimer sits elsewhere by now: whoever reads on here takes it up.
                            let fetched: FetchedMorsel = Arc::new(Mutex::new(Some(obtained)));
                            state.fetching.insert(index, future::ready(Ok(fetched)).boxed().shared());
                            Ok(Claimed::Nothing)
                        }),
                        Fetch::Pending(fetch) => {
                            let fetch = fetch
                                .map(move |fetched| match fetched {
                                    Ok(morsel) => {
                                        let obtaining_ns = clock.monotonic_ns().saturating_sub(began_ns);
                                        Ok(Arc::new(Mutex::new(Some(Obtained { morsel, obtaining_ns }))))
                                    }
                                    Err(error) => Err(CacheError::source(error)),
                                })
                                .boxed()
                                .shared();
                            self.end_claim(|state| {
                                self.issue(state, index)?;
                                state.fetching.insert(index, fetch.clone());
                                Ok(Claimed::Fetch(index, fetch))
                            })
                        }
                    }
                }
            }
        };
        guard.disarm();
        claimed
    }

    fn issue(&self, state: &mut State, index: usize) -> Result<(), CacheError> {
        // A morsel number far beyond the file's bytes would make the table of morsels huge.
        let bound = self.spec.end_bytes.saturating_sub(self.spec.start_bytes).saturating_add(1024);
        if index as u64 <= bound && state.issue(index) { Ok(()) } else { Err(self.broken_numbering()) }
    }

    fn end_claim(&self, end: impl FnOnce(&mut State) -> Result<Claimed, CacheError>) -> Claimed {
        let (ended, wakers) = {
            let mut state = self.state.lock();
            state.claiming_count -= 1;
            let ended = end(&mut state);
            (ended, state.take_wakers())
        };
        wake(wakers);
        ended.unwrap_or_else(|error| {
            self.fail(error);
            Claimed::Nothing
        })
    }

    fn gap(&self) -> Claimed {
        self.fail(self.broken_numbering());
        Claimed::Nothing
    }

    pub(super) fn broken_numbering(&self) -> CacheError {
        CacheError::Contract {
            path: Arc::clone(&self.source.path),
            what: "morsels must be numbered densely from 0, each number given out once".to_owned(),
        }
    }

    /// Takes a fetched morsel for decoding; None when another stream did, or when `me` sits elsewhere now.
    pub(super) fn take_fetched(&self, me: u64, index: usize, fetched: &FetchedMorsel) -> Option<Obtained> {
        let mut state = self.state.lock();
        if !state.seats.contains_key(&me) || matches!(state.phase, Phase::Failed(_)) {
            return None;
        }
        let obtained = fetched.lock().take()?;
        state.fetching.remove(&index);
        state.begin_decoding(me, index).then_some(obtained)
    }
}
