//! A value in a bound.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value in a bound, in the kind and unit of the column it is compared with. Never NULL.
///
/// Ordered within a kind; kinds are ordered among each other only so that the order is total, no operation of
/// this crate compares across them.
#[derive(Clone, Debug)]
pub enum Scalar {
    /// A truth value; `false < true`.
    Boolean(bool),
    /// Every integer-like type, exactly: integers, dates in days or milliseconds, times, durations and timestamps
    /// in the column's own unit, decimals unscaled (in the column's own scale).
    Int(i128),
    /// A floating-point number, ordered by IEEE 754 totalOrder: `-0.0 < 0.0`, every NaN has its place at the ends.
    Float(f64),
    /// A string, ordered by its bytes.
    Utf8(Arc<str>),
}

/// Which variant of [`Scalar`] a value, an interval or a domain is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScalarKind {
    /// [`Scalar::Boolean`]
    Boolean,
    /// [`Scalar::Int`]
    Int,
    /// [`Scalar::Float`]
    Float,
    /// [`Scalar::Utf8`]
    Utf8,
}

impl Scalar {
    /// Which kind of value this is.
    pub fn kind(&self) -> ScalarKind {
        match self {
            Self::Boolean(_) => ScalarKind::Boolean,
            Self::Int(_) => ScalarKind::Int,
            Self::Float(_) => ScalarKind::Float,
            Self::Utf8(_) => ScalarKind::Utf8,
        }
    }
}

/// The position of `value` in IEEE 754 totalOrder: `a.total_cmp(&b) == key(a).cmp(&key(b))`.
#[inline]
pub(crate) fn total_order_key(value: f64) -> i64 {
    // Positive floats order like their bits; negative ones in reverse, so all bits but the sign are flipped.
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Utf8(a), Self::Utf8(b)) => a.cmp(b),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
        match self {
            Self::Boolean(value) => value.hash(state),
            Self::Int(value) => value.hash(state),
            Self::Float(value) => value.to_bits().hash(state),
            Self::Utf8(value) => value.hash(state),
        }
    }
}

/// As a SQL literal, except that dates, timestamps and decimals show the integer that stands for them.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) if value.is_nan() && value.is_sign_negative() => f.write_str("-NaN"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Utf8(value) => write!(f, "'{}'", value.replace('\'', "''")),
        }
    }
}

impl fmt::Display for ScalarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Int => "integer",
            Self::Float => "float",
            Self::Utf8 => "string",
        })
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Int(value.into())
    }
}

impl From<i128> for Scalar {
    fn from(value: i128) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Scalar {
    fn from(value: &str) -> Self {
        Self::Utf8(Arc::from(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: [f64; 13] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1.5,
        -f64::MIN_POSITIVE,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        f64::MIN_POSITIVE,
        1.5,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];

    #[test]
    fn the_total_order_key_orders_floats_as_total_cmp_does() {
        let floats: Vec<f64> = FLOATS.iter().flat_map(|&v| [v, -v]).collect();
        for &a in &floats {
            for &b in &floats {
                assert_eq!(a.total_cmp(&b), total_order_key(a).cmp(&total_order_key(b)), "{a} and {b}");
            }
        }
    }

    #[test]
    fn literals_are_shown_as_sql_writes_them() {
        let shown = |scalar: Scalar| scalar.to_string();
        assert_eq!(shown(Scalar::from("it's")), "'it''s'");
        assert_eq!(shown(Scalar::from(1.0)), "1.0");
        assert_eq!(shown(Scalar::from(-0.0)), "-0.0");
        assert_eq!(shown(Scalar::from(i128::MAX)), i128::MAX.to_string());
        assert_eq!(shown(Scalar::from(true)), "true");
    }

    #[test]
    fn zeros_of_either_sign_are_different_values_and_nan_equals_itself() {
        assert_ne!(Scalar::from(0.0), Scalar::from(-0.0));
        assert_eq!(Scalar::from(f64::NAN), Scalar::from(f64::NAN));
        assert!(Scalar::from(f64::NAN) > Scalar::from(f64::INFINITY));
    }
}
