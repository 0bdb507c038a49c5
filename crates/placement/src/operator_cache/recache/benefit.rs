//! The benefit metric `b(p) = n · (t + c − s − l) / log B`.
//!
//! Paper: ReCache §5.1. Deviations: the saving is never negative (the print assumes that lookup and scan are cheap,
//! which measurements of tiny items contradict), `n` is at least one, and the logarithm, to base 2, is at least 1, so
//! that an item of one byte or none has a finite benefit. The base scales all keys alike and changes no decision.

use crate::operator_cache::ItemMeasurements;

/// Benefit of keeping an item, in seconds per log₂ byte. Never negative, always finite.
pub fn benefit(item: &ItemMeasurements) -> f64 {
    item.history_s() / log_size(item.size_bytes)
}

/// log₂ B, at least 1: what gives smaller items a slight preference.
pub fn log_size(size_bytes: u64) -> f64 {
    (size_bytes.max(2) as f64).log2()
}
