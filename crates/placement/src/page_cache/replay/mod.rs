//! A pool without bytes for tests: policies under random calls beside slow and obvious versions of themselves, and
//! under scans like those of queries.

mod calls;
mod flights;
mod pool;
mod scans;
mod two_queries;

pub(super) use calls::{SlowPages, same_answers};
