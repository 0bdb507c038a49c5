//! What fuzzers do with their bytes; the ordinary tests do it with seeded mutations.

pub mod page;
pub mod segment;
