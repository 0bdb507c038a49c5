//! What a select operator asks of its fields, as data: typed bounds, sets of values, conjunctions in normal form.
//!
//! **Owns**: the vocabulary of predicates that the scanners evaluate while they parse, that the operator cache
//! compares when it looks for an item that answers a query, and that turns into a residual filter when the item
//! holds more than was asked for.
//!
//! **Does not own**: SQL expressions (the engine translates those it can into a [`Conjunction`] and keeps the
//! rest as a filter above the scan), type coercion (a bound arrives in the kind and unit of its column), indexes
//! over predicates (the operator cache builds them from [`Interval::numeric_key`]).
//!
//! **Invariants**
//! - A [`Domain`] is canonical: its intervals are not empty, sorted, disjoint and not adjacent. Two domains of the
//!   same kind that admit the same values are equal and hash alike, however they were built.
//! - A [`Conjunction`] holds no field that admits everything.
//! - Floats are ordered by IEEE 754 totalOrder, as the comparison kernels of arrow-rs and thus DataFusion order
//!   them: `-NaN < -inf < … < -0.0 < 0.0 < … < inf < NaN`. Strings are ordered by their UTF-8 bytes.
//! - A comparison with NULL is never true: only `IS NULL` and the absence of a predicate admit NULL.
//!
//! **Concurrency**: everything here is an immutable value; share it freely.
//!
//! **Paper**: query subsumption on range predicates of ReCache (PVLDB 2017) §3.3. Beyond it: IN-lists, `IS NULL`,
//! string ranges and unions of ranges subsume each other too, and coverage is exact rather than by bounding box:
//! integers, booleans, floats and strings are all discrete here (a string's successor is that string with a zero
//! byte appended), so `x > 5` and `x >= 6` are one predicate.

mod conjunction;
mod cut;
mod domain;
mod error;
mod field_path;
mod interval;
mod ruler;
mod scalar;

pub use conjunction::Conjunction;
pub use domain::{Domain, Span};
pub use error::PredicateError;
pub use field_path::FieldPath;
pub use interval::Interval;
pub use ruler::Ruler;
pub use scalar::{Scalar, ScalarKind};

#[cfg(test)]
mod generator;
