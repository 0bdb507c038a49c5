//! What is known of a column table before it is read, for the order of joins and for queries that ask nothing else.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use thermocline_column_store::{RowGroup, ZoneValue};

/// Of one column of type `data_type`, over the given row groups.
pub(super) fn of_column<'a>(
    row_groups: impl Iterator<Item = &'a RowGroup>,
    column: usize,
    data_type: &DataType,
) -> ColumnStatistics {
    let (null_count, bounds) = bounds(row_groups, column);
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(null_count);
    if let Some((least, greatest)) = bounds
        && let (Some(least), Some(greatest)) = (scalar(least, data_type), scalar(greatest, data_type))
    {
        statistics.min_value = Precision::Exact(least);
        statistics.max_value = Precision::Exact(greatest);
    }
    statistics
}

/// The NULLs of a column, and its least and greatest value if all are whole numbers and there is one.
pub(super) fn bounds<'a>(
    row_groups: impl Iterator<Item = &'a RowGroup>,
    column: usize,
) -> (usize, Option<(i128, i128)>) {
    let mut null_count = 0;
    let mut bounds: Option<(i128, i128)> = None;
    let mut is_bounded = true;
    for row_group in row_groups {
        let page = &row_group.pages()[column];
        null_count += page.null_count();
        let zone_map = page.zone_map();
        match (&zone_map.least, &zone_map.greatest) {
            (Some(ZoneValue::Integer(least)), Some(ZoneValue::Integer(greatest))) => {
                bounds = Some(match bounds {
                    None => (*least, *greatest),
                    Some((low, high)) => (low.min(*least), high.max(*greatest)),
                });
            }
            (None, None) if page.null_count() == row_group.row_count() => {}
            // Floats have NaNs and two zeros, texts are cut.
            _ => is_bounded = false,
        }
    }
    (null_count, bounds.filter(|_| is_bounded))
}

/// The value of a column whose pages hold it as this whole number.
fn scalar(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Boolean => ScalarValue::Boolean(Some(value != 0)),
        DataType::Int8 => ScalarValue::Int8(i8::try_from(value).ok()),
        DataType::Int16 => ScalarValue::Int16(i16::try_from(value).ok()),
        DataType::Int32 => ScalarValue::Int32(i32::try_from(value).ok()),
        DataType::Int64 => ScalarValue::Int64(i64::try_from(value).ok()),
        DataType::UInt8 => ScalarValue::UInt8(u8::try_from(value).ok()),
        DataType::UInt16 => ScalarValue::UInt16(u16::try_from(value).ok()),
        DataType::UInt32 => ScalarValue::UInt32(u32::try_from(value).ok()),
        DataType::UInt64 => ScalarValue::UInt64(u64::try_from(value).ok()),
        DataType::Date32 => ScalarValue::Date32(i32::try_from(value).ok()),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(value), *precision, *scale),
        DataType::Timestamp(_, _) => ScalarValue::Int64(i64::try_from(value).ok()).cast_to(data_type).ok()?,
        _ => return None,
    })
}
