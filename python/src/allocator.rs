//! The allocator of this extension module; the interpreter and other modules have allocators of their own.

#![allow(unsafe_code)]

pub(crate) use thermocline_allocator::{IDLE_THREAD, allocated_bytes, heed_scarcity};

thermocline_allocator::install!();
