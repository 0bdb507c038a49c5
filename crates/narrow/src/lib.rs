//! Arrow arrays whose values lie in fewer bytes than their type takes, so that more of them fit into the same memory and
//! are read faster.
//!
//! **Owns**: which forms there are ([`narrow`] chooses one, by the values that are there), the way back ([`widen`]),
//! joining arrays of several forms ([`concat()`]), and what a float's form means ([`DecimalFloats`]). **Does not own**:
//! when values are kept so, who reads them as they are.
//!
//! | type | forms |
//! |---|---|
//! | `Int16` to `Int64`, `UInt16`, `UInt32` | shorter integers with a sign, or without |
//! | `Float64` | signed integers of 8 and 16 bits, if all values are whole; `Decimal32(9, s)` if they are decimals of up to [`MAX_SCALE`] places |
//! | `Decimal128(p, s)` | `Decimal32(9, s)`, `Decimal64(18, s)` |
//! | `Utf8` | `Dictionary(UInt8, Utf8)`, or with `UInt16` or `UInt32`, if texts of up to [`MOST_TEXT_BYTES`] come again |
//!
//! An array does not tell the type that it is a form of: whoever keeps it knows.
//!
//! **Invariants**: every value comes back with its very bits, and every NULL. Floats with a negative zero, NaNs,
//! infinities or too many digits among them stay as they are.
//!
//! **Concurrency**: plain functions.
//!
//! **Paper**: floats as in Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point Compression" (SIGMOD 2024),
//! §3.1. Deviations: the whole number is divided by the power of ten instead of multiplied by its inexact inverse, which
//! gives back every decimal; no exceptions, since single values must be read without a search.

mod floats;
mod forms;
mod integers;
#[cfg(test)]
mod tests;
mod texts;

pub use floats::{DecimalFloats, MAX_SCALE};
pub use forms::{concat, narrow, widen};
pub use texts::{MOST_TEXT_BYTES, with_dictionary};
