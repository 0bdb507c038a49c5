//! How the values of a column are stored, whatever they mean: dates are integers, texts of all kinds are bytes.
//!
//! **Owns**: the mapping from Arrow's types, and the codes in the header. **Does not own**: the column's full type
//! (unit, time zone, precision and scale), which the table's schema knows and which who decodes a page names.
//!
//! **Concurrency**: plain values.

use arrow::datatypes::DataType;

use crate::zone_map::ZoneKind;

macro_rules! physical_types {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $width:expr, $zone:ident;)*) => {
        /// How the values of a page are stored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum PhysicalType {
            $($(#[$doc])* $name = $code,)*
        }

        impl PhysicalType {
            /// `None` for a code that no type has.
            pub(crate) fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name in messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Bytes of a plain value; `None` for booleans, which are bits, and for values of any length.
            pub fn width_bytes(self) -> Option<usize> {
                match self {
                    $(Self::$name => $width,)*
                }
            }

            pub(crate) fn zone_kind(self) -> ZoneKind {
                match self {
                    $(Self::$name => ZoneKind::$zone,)*
                }
            }

            pub(crate) fn expected_codes() -> String {
                let codes: &[u8] = &[$($code),*];
                format!("1 to {}", codes.len())
            }
        }
    };
}

physical_types! {
    /// Bits.
    Boolean = 1, "boolean", None, Integer;
    /// Signed, 8 bits.
    Int8 = 2, "8-bit integer", Some(1), Integer;
    /// Signed, 16 bits.
    Int16 = 3, "16-bit integer", Some(2), Integer;
    /// Signed, 32 bits; also dates and times of day.
    Int32 = 4, "32-bit integer", Some(4), Integer;
    /// Signed, 64 bits; also timestamps, durations, and times and dates of 64 bits.
    Int64 = 5, "64-bit integer", Some(8), Integer;
    /// Unsigned, 8 bits.
    UInt8 = 6, "8-bit unsigned integer", Some(1), Integer;
    /// Unsigned, 16 bits.
    UInt16 = 7, "16-bit unsigned integer", Some(2), Integer;
    /// Unsigned, 32 bits.
    UInt32 = 8, "32-bit unsigned integer", Some(4), Integer;
    /// Unsigned, 64 bits.
    UInt64 = 9, "64-bit unsigned integer", Some(8), Integer;
    /// IEEE 754, 32 bits.
    Float32 = 10, "32-bit float", Some(4), Float;
    /// IEEE 754, 64 bits.
    Float64 = 11, "64-bit float", Some(8), Float;
    /// Decimals of up to 38 digits.
    Decimal128 = 12, "decimal", Some(16), Integer;
    /// UTF-8, whatever the offsets of the column.
    Text = 13, "text", None, Bytes;
    /// Bytes, whatever the offsets of the column.
    Binary = 14, "binary", None, Bytes;
}

impl PhysicalType {
    /// How values of this Arrow type are stored; `None` if they cannot be.
    pub fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Self::Int32,
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(_, _) => Self::Decimal128,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Binary,
            _ => return None,
        })
    }

    /// The code in the header.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Whether the order of the values is that of signed integers.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 | Self::Decimal128)
    }
}
