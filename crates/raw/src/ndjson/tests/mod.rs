//! The decoder against a slow, obvious one.

mod differential;
mod faults;
pub(crate) mod generator;
mod inference;
mod json;
pub(crate) mod oracle;
mod text_lists;
