//! Names that stand for more than one thing.

use std::collections::BTreeMap;

use arrow::datatypes::Fields;

/// The names that several of `fields` have, as text.
pub(crate) fn repeated(fields: &Fields) -> Option<String> {
    let mut counts = BTreeMap::new();
    for field in fields {
        *counts.entry(field.name().as_str()).or_insert(0) += 1;
    }
    let names: Vec<_> =
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| format!("\"{name}\"")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
