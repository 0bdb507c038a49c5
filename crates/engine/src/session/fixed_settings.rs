//! DataFusion's settings that can have one value only, since the scan of Parquet files looks at no other.

use crate::error::{Error, Result};

/// Each with the value that it can have, and what is done by it.
const FIXED: [(&str, Option<&str>, &str); 5] = [
    ("pushdown_filters", Some("true"), "filters of Parquet files are always evaluated by their scan"),
    ("coerce_int96", Some("us"), "INT96 timestamps are always read as microseconds"),
    ("coerce_int96_tz", None, "INT96 timestamps are always read without a time zone"),
    (
        "binary_as_string",
        Some("false"),
        "binary columns are always read as such: CAST(column AS VARCHAR) makes text of them",
    ),
    ("schema_force_view_types", Some("true"), "texts and binaries are always read as views"),
];

/// Refuses values that would not be looked at.
pub(super) fn check(variable: &str, value: &str) -> Result<()> {
    let variable = variable.to_ascii_lowercase();
    let Some(name) = variable.strip_prefix("datafusion.execution.parquet.") else { return Ok(()) };
    match FIXED.iter().find(|(fixed, ..)| *fixed == name) {
        Some((_, known, reason)) if known.is_none_or(|known| !value.trim().eq_ignore_ascii_case(known)) => {
            Err(Error::input(format!("{variable} = '{value}' is not supported: {reason}")))
        }
        _ => Ok(()),
    }
}
