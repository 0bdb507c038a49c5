//! The least and greatest value of a page, and whether a range of values can be in it.
//!
//! **Owns**: the values' order, their 24 bytes each in the header, the test. **Does not own**: predicates; what becomes
//! a range.
//!
//! **Invariants**: [`ZoneMap::may_contain`] is false only if no value of the page is in the range, whether
//! floating-point numbers are compared by IEEE 754's ordinary rules (both zeros equal, NaN outside all ranges) or by
//! its total order.
//!
//! **Concurrency**: plain values.
//!
//! Texts and binaries keep at most 23 bytes: of the greatest value too only the beginning is kept, and whatever starts
//! with it counts as not greater.

use std::ops::Bound;

/// Bytes of one bound in the header.
pub(crate) const BOUND_BYTES: usize = 24;
/// Bytes of a text that its bound keeps; the first byte says how many there are.
const PREFIX_BYTES: usize = BOUND_BYTES - 1;

pub(crate) const FLAG_PRESENT: u8 = 1;
pub(crate) const FLAG_CUT: u8 = 2;
pub(crate) const FLAG_NAN: u8 = 4;

/// A value as zone maps compare it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ZoneValue {
    /// Booleans (0 and 1), integers, and the whole numbers behind dates, times and decimals.
    Integer(i128),
    /// Floating-point numbers.
    Float(f64),
    /// Texts (UTF-8) and binaries.
    Bytes(Vec<u8>),
}

/// The kind of a page's values, which says how its bounds are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneKind {
    Integer,
    Float,
    Bytes,
}

/// What is known of a page's values that are not NULL.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ZoneMap {
    /// The least value; of a text its beginning. `None` if all values are NULL or NaN.
    pub least: Option<ZoneValue>,
    /// The greatest value; of a text its beginning. `None` if all values are NULL or NaN.
    pub greatest: Option<ZoneValue>,
    /// Whether `greatest` is only the beginning of the greatest text.
    pub greatest_is_cut: bool,
    /// Whether there are NaNs; `least` and `greatest` leave them out.
    pub has_nan: bool,
}

impl ZoneMap {
    pub(crate) fn integers(least: i128, greatest: i128) -> Self {
        Self { least: Some(ZoneValue::Integer(least)), greatest: Some(ZoneValue::Integer(greatest)), ..Self::default() }
    }

    /// Of the values of a page, none of them NULL.
    pub(crate) fn floats(values: impl Iterator<Item = f64>) -> Self {
        let mut map = Self::default();
        let mut bounds: Option<(f64, f64)> = None;
        for value in values {
            if value.is_nan() {
                map.has_nan = true;
                continue;
            }
            bounds = Some(match bounds {
                None => (value, value),
                Some((least, greatest)) => (least.min(value), greatest.max(value)),
            });
        }
        if let Some((least, greatest)) = bounds {
            map.least = Some(ZoneValue::Float(least));
            map.greatest = Some(ZoneValue::Float(greatest));
        }
        map
    }

    pub(crate) fn bytes(least: &[u8], greatest: &[u8]) -> Self {
        let cut = |value: &[u8]| ZoneValue::Bytes(value[..value.len().min(PREFIX_BYTES)].to_vec());
        Self {
            least: Some(cut(least)),
            greatest: Some(cut(greatest)),
            greatest_is_cut: greatest.len() > PREFIX_BYTES,
            has_nan: false,
        }
    }

    /// Whether a value between `lower` and `upper` can be in the page. NULLs are in no range. With bounds of another
    /// kind than the page's values the answer is true.
    pub fn may_contain(&self, lower: Bound<&ZoneValue>, upper: Bound<&ZoneValue>) -> bool {
        // In the total order NaNs stand outside everything else: only an open end or a NaN reaches them.
        let reaches_nan = |bound: Bound<&ZoneValue>| match bound {
            Bound::Unbounded => true,
            Bound::Included(ZoneValue::Float(value)) | Bound::Excluded(ZoneValue::Float(value)) => value.is_nan(),
            _ => false,
        };
        if self.has_nan && (reaches_nan(lower) || reaches_nan(upper)) {
            return true;
        }
        let (Some(least), Some(greatest)) = (&self.least, &self.greatest) else { return false };
        !self.all_below(greatest, lower) && !all_above(least, upper)
    }

    /// Whether every value is below the range, given the greatest of them.
    fn all_below(&self, greatest: &ZoneValue, lower: Bound<&ZoneValue>) -> bool {
        match (greatest, lower) {
            (ZoneValue::Integer(greatest), Bound::Included(ZoneValue::Integer(lower))) => greatest < lower,
            (ZoneValue::Integer(greatest), Bound::Excluded(ZoneValue::Integer(lower))) => greatest <= lower,
            // A zero may be equal to the other zero or not, and comparisons with NaN are false: the page stays in.
            (ZoneValue::Float(greatest), Bound::Included(ZoneValue::Float(lower))) => greatest < lower,
            (ZoneValue::Float(greatest), Bound::Excluded(ZoneValue::Float(lower))) => {
                greatest < lower || (greatest == lower && *lower != 0.0)
            }
            (ZoneValue::Bytes(greatest), Bound::Included(ZoneValue::Bytes(lower))) => {
                greatest < lower && !(self.greatest_is_cut && lower.starts_with(greatest))
            }
            (ZoneValue::Bytes(greatest), Bound::Excluded(ZoneValue::Bytes(lower))) => {
                greatest <= lower && !(self.greatest_is_cut && lower.starts_with(greatest))
            }
            _ => false,
        }
    }

    /// The header's flags and two bounds.
    pub(crate) fn to_header(&self) -> (u8, [u8; BOUND_BYTES], [u8; BOUND_BYTES]) {
        let mut flags = 0;
        if self.has_nan {
            flags |= FLAG_NAN;
        }
        if self.greatest_is_cut {
            flags |= FLAG_CUT;
        }
        let (Some(least), Some(greatest)) = (&self.least, &self.greatest) else {
            return (flags, [0; BOUND_BYTES], [0; BOUND_BYTES]);
        };
        (flags | FLAG_PRESENT, bound_bytes(least), bound_bytes(greatest))
    }

    /// `None` if the bounds are not what [`ZoneMap::to_header`] writes.
    pub(crate) fn from_header(
        kind: ZoneKind,
        flags: u8,
        least: &[u8; BOUND_BYTES],
        greatest: &[u8; BOUND_BYTES],
    ) -> Option<Self> {
        let known = match kind {
            ZoneKind::Integer => FLAG_PRESENT,
            ZoneKind::Float => FLAG_PRESENT | FLAG_NAN,
            ZoneKind::Bytes => FLAG_PRESENT | FLAG_CUT,
        };
        if flags & !known != 0 {
            return None;
        }
        let mut map =
            Self { has_nan: flags & FLAG_NAN != 0, greatest_is_cut: flags & FLAG_CUT != 0, ..Self::default() };
        if flags & FLAG_PRESENT == 0 {
            return (!map.greatest_is_cut).then_some(map);
        }
        map.least = Some(bound_value(kind, least)?);
        map.greatest = Some(bound_value(kind, greatest)?);
        Some(map)
    }
}

/// Whether every value is above the range, given the least of them (of a text its beginning, which is not greater).
fn all_above(least: &ZoneValue, upper: Bound<&ZoneValue>) -> bool {
    match (least, upper) {
        (ZoneValue::Integer(least), Bound::Included(ZoneValue::Integer(upper))) => least > upper,
        (ZoneValue::Integer(least), Bound::Excluded(ZoneValue::Integer(upper))) => least >= upper,
        (ZoneValue::Float(least), Bound::Included(ZoneValue::Float(upper))) => least > upper,
        (ZoneValue::Float(least), Bound::Excluded(ZoneValue::Float(upper))) => {
            least > upper || (least == upper && *upper != 0.0)
        }
        (ZoneValue::Bytes(least), Bound::Included(ZoneValue::Bytes(upper))) => least > upper,
        (ZoneValue::Bytes(least), Bound::Excluded(ZoneValue::Bytes(upper))) => least >= upper,
        _ => false,
    }
}

fn bound_bytes(value: &ZoneValue) -> [u8; BOUND_BYTES] {
    let mut bytes = [0; BOUND_BYTES];
    match value {
        ZoneValue::Integer(value) => bytes[..16].copy_from_slice(&value.to_le_bytes()),
        ZoneValue::Float(value) => bytes[..8].copy_from_slice(&value.to_bits().to_le_bytes()),
        ZoneValue::Bytes(value) => {
            let kept = &value[..value.len().min(PREFIX_BYTES)];
            bytes[0] = kept.len() as u8;
            bytes[1..=kept.len()].copy_from_slice(kept);
        }
    }
    bytes
}

fn bound_value(kind: ZoneKind, bytes: &[u8; BOUND_BYTES]) -> Option<ZoneValue> {
    Some(match kind {
        ZoneKind::Integer => ZoneValue::Integer(i128::from_le_bytes(*bytes.first_chunk()?)),
        ZoneKind::Float => ZoneValue::Float(f64::from_bits(u64::from_le_bytes(*bytes.first_chunk()?))),
        ZoneKind::Bytes => ZoneValue::Bytes(bytes[1..].get(..usize::from(bytes[0]))?.to_vec()),
    })
}
