//! Text that comes from files and pipes, read by threads of their own, so that Ctrl-C ends a run that waits for a
//! writer.
//!
//! A byte-order mark at the beginning is no part of the text.

use std::io::{self, Read};

use tokio::sync::{mpsc, oneshot};

use crate::failure::{Failure, Result};
use crate::statement::Conversation;

const BYTE_ORDER_MARK: char = '\u{feff}';
/// What is read at once: what a pipe holds.
const BIT_BYTES: usize = 64 * 1024;
/// Bits that wait for the statements before them; a reader that is further ahead waits.
const BITS_AHEAD: usize = 4;

/// All of what `open` opens.
///
/// # Errors
/// Ctrl-C; inside, what opening or reading fails with.
pub(crate) async fn whole<R: Read>(
    conversation: &mut Conversation,
    open: impl FnOnce() -> io::Result<R> + Send + 'static,
) -> Result<io::Result<String>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let read = || {
            let mut text = String::new();
            open()?.read_to_string(&mut text)?;
            Ok(match text.strip_prefix(BYTE_ORDER_MARK) {
                Some(unmarked) => unmarked.to_owned(),
                None => text,
            })
        };
        // Nobody waits for it after Ctrl-C.
        let _ = sender.send(read());
    });
    tokio::select! {
        biased;
        () = conversation.interrupt.next() => Err(Failure::Interrupted),
        outcome = receiver => Ok(outcome.unwrap_or_else(|_| Err(io::Error::other("its reader ended early")))),
    }
}

/// Standard input could not be read.
pub(crate) fn failure(error: io::Error) -> Failure {
    Failure::Stream { name: "standard input", error }
}

/// Standard input, bit by bit.
pub(crate) struct Incoming {
    bits: mpsc::Receiver<io::Result<String>>,
}

impl Incoming {
    /// Begins to read.
    pub(crate) fn start() -> Self {
        let (sender, bits) = mpsc::channel(BITS_AHEAD);
        std::thread::spawn(move || {
            let outcome = read_bits(io::stdin().lock(), |bit| sender.blocking_send(Ok(bit)).is_ok());
            if let Err(error) = outcome {
                // Nobody waits for it after Ctrl-C.
                let _ = sender.blocking_send(Err(error));
            }
        });
        Self { bits }
    }

    /// What has come since it was last asked; `None` at the end.
    pub(crate) async fn next(&mut self, conversation: &mut Conversation) -> Result<Option<String>> {
        tokio::select! {
            biased;
            () = conversation.interrupt.next() => Err(Failure::Interrupted),
            bit = self.bits.recv() => bit.transpose().map_err(failure),
        }
    }
}

/// Hands to `take` what comes, until it wants no more. A character that comes in two pieces waits for its end.
fn read_bits(mut input: impl Read, mut take: impl FnMut(String) -> bool) -> io::Result<()> {
    let mut buffer = vec![0; BIT_BYTES];
    let mut held_bytes = 0;
    let mut is_first = true;
    loop {
        let read_bytes = match input.read(&mut buffer[held_bytes..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome?,
        };
        let filled = &buffer[..held_bytes + read_bytes];
        let (text, is_wrong) = match std::str::from_utf8(filled) {
            Ok(text) => (text, false),
            Err(error) => {
                let text = std::str::from_utf8(&filled[..error.valid_up_to()]).unwrap_or("");
                (text, error.error_len().is_some() || read_bytes == 0)
            }
        };
        let used_bytes = text.len();
        let unmarked = if is_first { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
        is_first &= used_bytes == 0;
        if !unmarked.is_empty() && !take(unmarked.to_owned()) {
            return Ok(());
        }
        if is_wrong {
            // In the words of `read_to_string`.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"));
        }
        if read_bytes == 0 {
            return Ok(());
        }
        let filled_bytes = held_bytes + read_bytes;
        buffer.copy_within(used_bytes..filled_bytes, 0);
        held_bytes = filled_bytes - used_bytes;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Gives a few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn read(bytes: &[u8], at_once: usize) -> io::Result<String> {
        let mut text = String::new();
        read_bits(Slowly(bytes, at_once), |bit| {
            text.push_str(&bit);
            true
        })?;
        Ok(text)
    }

    #[test]
    fn characters_survive_wherever_the_bits_are_cut() {
        let text = "\u{feff}SELECT 'é日本';\u{feff}";
        for at_once in 1..8 {
            assert_eq!(read(text.as_bytes(), at_once).unwrap(), "SELECT 'é日本';\u{feff}", "{at_once}");
        }
    }

    #[test]
    fn what_is_no_text_is_an_error_after_what_is() {
        for (bytes, text) in
            [(b"SELECT 1;\xff;SELECT 2".as_slice(), "SELECT 1;"), (b"cut short \xe6\x97", "cut short "), (b"\xff", "")]
        {
            for at_once in 1..=bytes.len() + 1 {
                let mut seen = String::new();
                let outcome = read_bits(Slowly(bytes, at_once), |bit| {
                    seen.push_str(&bit);
                    true
                });
                let outcome = outcome.map_err(|error| error.kind());
                assert_eq!((seen.as_str(), outcome), (text, Err(io::ErrorKind::InvalidData)), "{at_once}");
            }
        }
    }
}
