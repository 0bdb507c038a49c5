#![allow(clippy::unwrap_used, clippy::panic)]

mod failing;
mod filled;
mod interleaved;
mod reading_ahead;
mod room;
mod scattered;
mod sharing;
pub(crate) mod stage;
mod tuning;
