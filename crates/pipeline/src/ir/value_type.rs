//! The types of values in pipelines: numbers of all kinds, truth values, and texts.

use std::fmt;

use thermocline_column_store::PhysicalType;

/// Most digits of a decimal.
pub(crate) const MAX_PRECISION: u8 = 38;

/// The type of a column, of a computed value or of a result. Binaries are not among them: who has such columns must not
/// ask a pipeline for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// IEEE 754, 32 bits, in total order.
    Float32,
    /// IEEE 754, 64 bits, in total order.
    Float64,
    /// False before true.
    Boolean,
    /// Days since 1970-01-01, 32 bits.
    Date,
    /// Units since 1970-01-01 that the column's own type knows, 64 bits.
    Timestamp,
    /// Decimals of up to 38 digits; a value is the whole number over 10^`scale`.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// UTF-8, in the order of its bytes.
    Text,
}

impl ValueType {
    /// How pages store such values.
    pub fn physical_type(self) -> PhysicalType {
        match self {
            Self::Int8 => PhysicalType::Int8,
            Self::Int16 => PhysicalType::Int16,
            Self::Int32 | Self::Date => PhysicalType::Int32,
            Self::Int64 | Self::Timestamp => PhysicalType::Int64,
            Self::UInt8 => PhysicalType::UInt8,
            Self::UInt16 => PhysicalType::UInt16,
            Self::UInt32 => PhysicalType::UInt32,
            Self::UInt64 => PhysicalType::UInt64,
            Self::Float32 => PhysicalType::Float32,
            Self::Float64 => PhysicalType::Float64,
            Self::Boolean => PhysicalType::Boolean,
            Self::Decimal { .. } => PhysicalType::Decimal128,
            Self::Text => PhysicalType::Text,
        }
    }

    /// Whether it is an integer that can be computed with; dates and timestamps are not.
    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// Whether it is an integer without a sign.
    pub fn is_unsigned_integer(self) -> bool {
        matches!(self, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Whether keys of tables can have columns of it: whole numbers that signed ones of 64 bits hold, and texts.
    pub fn is_key(self) -> bool {
        self.is_integer() && self != Self::UInt64 || matches!(self, Self::Date | Self::Timestamp | Self::Text)
    }

    /// Whether keys of these types find each other: integers of any width do.
    pub fn matches_key(self, other: Self) -> bool {
        self == other || self.is_integer() && other.is_integer()
    }

    /// Whether all values of it fit 64 bits (texts by their codes), so that groups can be made by them.
    pub fn fits_group_key(self) -> bool {
        match self {
            Self::Decimal { precision, .. } => precision <= 18,
            _ => true,
        }
    }

    /// The least and greatest whole number of the type; of decimals those of its digits. `None` for texts and floats.
    pub fn range(self) -> Option<(i128, i128)> {
        let signed = |bits: u32| Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1));
        let unsigned = |bits: u32| Some((0, (1i128 << bits) - 1));
        match self {
            Self::Int8 => signed(8),
            Self::Int16 => signed(16),
            Self::Int32 | Self::Date => signed(32),
            Self::Int64 | Self::Timestamp => signed(64),
            Self::UInt8 => unsigned(8),
            Self::UInt16 => unsigned(16),
            Self::UInt32 => unsigned(32),
            Self::UInt64 => unsigned(64),
            Self::Boolean => unsigned(1),
            Self::Decimal { precision, .. } => {
                let end = 10i128.checked_pow(u32::from(precision)).map_or(i128::MAX, |power| power - 1);
                Some((-end, end))
            }
            Self::Text | Self::Float32 | Self::Float64 => None,
        }
    }

    /// Whether [`Expression::Cast`](super::Expression::Cast) makes values of the other type of this one's.
    pub(crate) fn casts_to(self, to: Self) -> bool {
        let is_exact = match (self, to) {
            (Self::Decimal { precision: p1, scale: s1 }, Self::Decimal { precision: p2, scale: s2 }) => {
                s1 <= s2 && p1 - s1 <= p2 - s2
            }
            // The whole numbers behind decimals.
            (from, Self::Decimal { precision, scale }) if from.is_integer() => {
                let whole = Self::Decimal { precision: precision - scale, scale: 0 }.range();
                from.range().zip(whole).is_some_and(|(inner, outer)| outer.0 <= inner.0 && inner.1 <= outer.1)
            }
            (from, to) if from.is_integer() && to.is_integer() => {
                from.range().zip(to.range()).is_some_and(|(inner, outer)| outer.0 <= inner.0 && inner.1 <= outer.1)
            }
            _ => false,
        };
        let is_decimal = |of: Self| matches!(of, Self::Decimal { .. });
        is_exact
            || to.is_float() && self.is_integer()
            || matches!((self, to), (Self::Float32, Self::Float64))
            || to == Self::Float64 && is_decimal(self)
            || self == Self::Float64 && is_decimal(to)
    }

    /// A whole number brought into the type's bits, as integer arithmetic wraps around.
    #[inline(always)]
    pub(crate) fn wrap(self, value: i64) -> i64 {
        match self {
            Self::Int8 => i64::from(value as i8),
            Self::Int16 => i64::from(value as i16),
            Self::Int32 | Self::Date => i64::from(value as i32),
            Self::UInt8 => i64::from(value as u8),
            Self::UInt16 => i64::from(value as u16),
            Self::UInt32 => i64::from(value as u32),
            _ => value,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision}, {scale})"),
            Self::Text => "text",
        })
    }
}
