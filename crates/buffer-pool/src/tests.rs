#![allow(clippy::unwrap_used, clippy::panic)]

mod failing;
mod interleaved;
mod reading_ahead;
mod room;
mod sharing;
mod stage;
