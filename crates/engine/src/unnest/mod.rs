//! `UNNEST` in the FROM clause, and unnesting inside the scan of a raw file.
//!
//! Owns: what `UNNEST(t.items) AS i` means when it stands in FROM ([`relation`]: names and nested fields of its
//! argument,
//! [`lateral`]: its rewriting into a plan that DataFusion can run), and the
//! rule that lets a raw table produce one row per list element itself ([`push_down`]), so that filters on elements
//! reach the scan and its cache. Does not own: the UNNEST operator (DataFusion's), nor how a scan decodes elements
//! (`raw`).
//!
//! Invariants: every rewrite keeps the output's qualified names, types and nullability; a rule that finds nothing to do
//! returns the plan untouched. Concurrency: all types here are stateless and shared freely.
//!
//! Paper: ReCache (PVLDB 2017), §4, where a cached select keeps flattened rows of nested data; that `unnest` is an
//! operator of its own which has to be pushed there is DataFusion's shape of the same thing.

pub(crate) mod lateral;
pub(crate) mod push_down;
pub(crate) mod relation;
