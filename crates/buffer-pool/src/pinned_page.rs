//! A page in memory that stays where it is.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::frame::Frame;

/// The bytes of a page, kept in memory until the last clone is dropped. They begin at a multiple of 4096.
#[derive(Clone)]
pub struct PinnedPage {
    frame: Arc<Frame>,
    waited_ns: u64,
    was_hit: bool,
}

impl PinnedPage {
    /// The frame is settled.
    pub(crate) fn new(frame: Arc<Frame>, waited_ns: u64, was_hit: bool) -> Self {
        Self { frame, waited_ns, was_hit }
    }

    /// Its number within its source.
    pub fn page(&self) -> u32 {
        self.frame.key().page
    }

    /// How long the reader waited for it after it was first polled, by the pool's clock; 0 if it was there.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Whether it was in memory, or on its way there for another reader, when it was asked for.
    pub fn was_hit(&self) -> bool {
        self.was_hit
    }
}

impl Deref for PinnedPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.frame.bytes()
    }
}

impl AsRef<[u8]> for PinnedPage {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedPage")
            .field("key", &self.frame.key())
            .field("size_bytes", &self.len())
            .field("waited_ns", &self.waited_ns)
            .field("was_hit", &self.was_hit)
            .finish()
    }
}
