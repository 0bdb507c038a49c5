//! Filters to domains.
