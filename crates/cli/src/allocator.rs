//! The allocator of this process.

#![allow(unsafe_code)]

pub(crate) use thermocline_allocator::{IDLE_THREAD, allocated_bytes, heed_scarcity};

thermocline_allocator::install!();
