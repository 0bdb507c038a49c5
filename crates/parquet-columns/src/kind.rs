//! What a column's values are stored as, and what they are read as.
//!
//! **Concurrency**: plain values.

use arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use parquet::basic::{ConvertedType, Encoding, LogicalType, TimeUnit, Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescriptor;

/// The kind of a column's values. It is that of all chunks of a column in a file whose encodings are known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub(crate) data_type: DataType,
    pub(crate) stored: Stored,
    /// Whether pages say which values are NULL.
    pub(crate) has_levels: bool,
}

/// What values are in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Bits,
    Int32,
    Int64,
    Float,
    Double,
    /// Decimals, the highest byte first, of so many bytes.
    Fixed(usize),
    Texts,
}

impl Stored {
    /// How many values there can be in so many bytes.
    pub(crate) fn most_values(self, size_bytes: usize) -> usize {
        match self {
            Self::Bits => size_bytes.saturating_mul(8),
            // A text has its length before it.
            Self::Int32 | Self::Float | Self::Texts => size_bytes / 4,
            Self::Int64 | Self::Double => size_bytes / 8,
            Self::Fixed(width) => size_bytes / width.max(1),
        }
    }
}

impl Kind {
    /// The kind of a column that has this type in the table, by the footer's words on one of its chunks.
    ///
    /// # Errors
    /// Why such a column is not read here, for people.
    pub fn of(column: &ColumnDescriptor, chunk: &ColumnChunkMetaData, data_type: &DataType) -> Result<Self, String> {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 || column.path().parts().len() > 1 {
            return Err("it is nested".to_owned());
        }
        if let Some(encoding) = chunk.encodings().find(|encoding| !is_known(*encoding)) {
            return Err(format!("it is encoded as {encoding}"));
        }
        let stored = stored(column, data_type)
            .ok_or_else(|| format!("{} is not read as {data_type}", column.physical_type()))?;
        Ok(Self { data_type: data_type.clone(), stored, has_levels: column.max_def_level() == 1 })
    }

    /// Whether values are texts.
    pub fn is_text(&self) -> bool {
        self.stored == Stored::Texts
    }
}

/// Encodings of values and levels.
fn is_known(encoding: Encoding) -> bool {
    #[expect(deprecated, reason = "old writers name it for levels that need no bits")]
    let for_levels = encoding == Encoding::BIT_PACKED;
    for_levels
        || matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY | Encoding::RLE)
}

fn stored(column: &ColumnDescriptor, data_type: &DataType) -> Option<Stored> {
    let decimal = |most_precision: u8, stored: Stored| match data_type {
        DataType::Decimal128(precision, scale)
            if i32::from(*precision) == column.type_precision()
                && i32::from(*scale) == column.type_scale()
                && *scale >= 0
                && is_decimal(column)
                && *precision <= most_precision =>
        {
            Some(stored)
        }
        _ => None,
    };
    match column.physical_type() {
        Type::BOOLEAN => (*data_type == DataType::Boolean).then_some(Stored::Bits),
        Type::FLOAT => (*data_type == DataType::Float32).then_some(Stored::Float),
        Type::DOUBLE => (*data_type == DataType::Float64).then_some(Stored::Double),
        Type::INT32 => match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => is_integer(column, true).then_some(Stored::Int32),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => is_integer(column, false).then_some(Stored::Int32),
            DataType::Date32 => (column.converted_type() == ConvertedType::DATE).then_some(Stored::Int32),
            _ => decimal(9, Stored::Int32),
        },
        Type::INT64 => match data_type {
            DataType::Int64 => is_integer(column, true).then_some(Stored::Int64),
            DataType::UInt64 => is_integer(column, false).then_some(Stored::Int64),
            // What is cast from a local time to an instant, or back, is another number.
            DataType::Timestamp(unit, zone) => {
                (timestamp(column) == Some((*unit, zone.is_some()))).then_some(Stored::Int64)
            }
            _ => decimal(18, Stored::Int64),
        },
        Type::FIXED_LEN_BYTE_ARRAY => {
            let length = usize::try_from(column.type_length()).ok().filter(|length| (1..=16).contains(length))?;
            decimal(38, Stored::Fixed(length))
        }
        Type::BYTE_ARRAY => {
            let is_text = column.converted_type() == ConvertedType::UTF8
                || matches!(column.logical_type_ref(), Some(LogicalType::String));
            let is_read_so = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
            (is_text && is_read_so).then_some(Stored::Texts)
        }
        Type::INT96 => None,
    }
}

/// Whether an integer is nothing else, with a sign or without.
fn is_integer(column: &ColumnDescriptor, is_signed: bool) -> bool {
    use ConvertedType::{INT_8, INT_16, INT_32, INT_64, NONE, UINT_8, UINT_16, UINT_32, UINT_64};
    match column.converted_type() {
        NONE => is_signed && column.logical_type_ref().is_none(),
        INT_8 | INT_16 | INT_32 | INT_64 => is_signed,
        UINT_8 | UINT_16 | UINT_32 | UINT_64 => !is_signed,
        _ => false,
    }
}

fn is_decimal(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)))
}

/// The unit of a column's times, and whether they are instants.
fn timestamp(column: &ColumnDescriptor) -> Option<(ArrowUnit, bool)> {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(timestamp)), _) => {
            let unit = match timestamp.unit {
                TimeUnit::MILLIS => ArrowUnit::Millisecond,
                TimeUnit::MICROS => ArrowUnit::Microsecond,
                TimeUnit::NANOS => ArrowUnit::Nanosecond,
            };
            Some((unit, timestamp.is_adjusted_to_u_t_c))
        }
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some((ArrowUnit::Millisecond, true)),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some((ArrowUnit::Microsecond, true)),
        _ => None,
    }
}
