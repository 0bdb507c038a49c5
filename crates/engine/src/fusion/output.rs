//! From the groups or rows that a pipeline ends in to Arrow's arrays.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeStringBuilder, PrimitiveArray, RecordBatch, RecordBatchOptions, StringBuilder, StringViewBuilder, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, DecimalType, SchemaRef};
use datafusion::common::{Result, exec_err, internal_err};
use thermocline_pipeline::{Rowset, RowsetColumn, RowsetValues, ValueType};

use super::star::Output;

/// The answer as one batch with the types of `schema`.
///
/// # Errors
/// An average that does not fit its type.
pub(super) fn batch(mut rowset: Rowset, outputs: &[Output], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(outputs.len());
    for (number, (output, field)) in outputs.iter().zip(schema.fields()).enumerate() {
        arrays.push(match output {
            Output::Column(column) => {
                let is_needed_on = outputs[number + 1..].iter().any(|later| later.takes(*column));
                let column = &mut rowset.columns[*column];
                let empty = RowsetColumn {
                    shape: column.shape.clone(),
                    values: RowsetValues::Integers(Vec::new()),
                    valid: None,
                };
                let column = if is_needed_on { column.clone() } else { std::mem::replace(column, empty) };
                array(column, field.data_type())?
            }
            Output::Average { sum, count } => {
                average(&rowset.columns[*sum], &rowset.columns[*count], field.data_type())?
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rowset.row_count));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

fn array(column: RowsetColumn, data_type: &DataType) -> Result<ArrayRef> {
    let RowsetColumn { values, valid, .. } = column;
    let nulls = || valid.as_ref().map(|valid| NullBuffer::from(valid.as_slice()));
    match values {
        RowsetValues::Integers(values) => integers(values, nulls(), data_type),
        RowsetValues::Unsigned(values) => Ok(Arc::new(UInt64Array::new(values.into(), nulls()))),
        RowsetValues::Floats(values) => {
            let doubles = Float64Array::new(values.into(), nulls());
            if *data_type == DataType::Float32 { Ok(cast(&doubles, data_type)?) } else { Ok(Arc::new(doubles)) }
        }
        RowsetValues::Wide(values) => {
            let DataType::Decimal128(precision, scale) = data_type else {
                return internal_err!("decimals cannot be given out as {data_type}");
            };
            let array = Decimal128Array::new(values.into(), nulls());
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        RowsetValues::Texts { codes, dictionary } if dictionary.len() < codes.len() => {
            // Each text is put into the array's form once.
            let each = texts_of(dictionary.iter().map(Some), data_type)?;
            let codes = UInt32Array::new(codes.into(), nulls());
            Ok(take(&each, &codes, None)?)
        }
        RowsetValues::Texts { codes, dictionary } => {
            let texts = codes.iter().enumerate().map(|(row, code)| {
                let is_valid = valid.as_ref().is_none_or(|valid| valid[row]);
                is_valid.then(|| dictionary.get(*code as usize)).flatten()
            });
            texts_of(texts, data_type)
        }
    }
}

fn texts_of<'a>(texts: impl Iterator<Item = Option<&'a str>>, data_type: &DataType) -> Result<ArrayRef> {
    macro_rules! built {
        ($builder:ty) => {{
            let mut builder = <$builder>::new();
            texts.for_each(|text| builder.append_option(text));
            Ok(Arc::new(builder.finish()))
        }};
    }
    match data_type {
        DataType::Utf8 => built!(StringBuilder),
        DataType::LargeUtf8 => built!(LargeStringBuilder),
        DataType::Utf8View => built!(StringViewBuilder),
        other => internal_err!("texts cannot be given out as {other}"),
    }
}

fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    /// Values that are of the type, apart from NULLs, which may be anything.
    fn narrowed<T: ArrowPrimitiveType>(
        values: Vec<i64>,
        nulls: Option<NullBuffer>,
        narrow: impl Fn(i64) -> T::Native,
    ) -> PrimitiveArray<T> {
        PrimitiveArray::new(values.iter().map(|value| narrow(*value)).collect::<Vec<_>>().into(), nulls)
    }
    Ok(match data_type {
        DataType::Int8 => Arc::new(narrowed(values, nulls, |value| value as i8)) as Arc<Int8Array>,
        DataType::Int16 => Arc::new(narrowed(values, nulls, |value| value as i16)) as Arc<Int16Array>,
        DataType::Int32 => Arc::new(narrowed(values, nulls, |value| value as i32)) as Arc<Int32Array>,
        DataType::UInt8 => Arc::new(narrowed(values, nulls, |value| value as u8)) as Arc<UInt8Array>,
        DataType::UInt16 => Arc::new(narrowed(values, nulls, |value| value as u16)) as Arc<UInt16Array>,
        DataType::UInt32 => Arc::new(narrowed(values, nulls, |value| value as u32)) as Arc<UInt32Array>,
        DataType::Date32 => Arc::new(narrowed(values, nulls, |value| value as i32)) as Arc<Date32Array>,
        DataType::Int64 => Arc::new(Int64Array::new(values.into(), nulls)),
        DataType::Boolean => {
            Arc::new(BooleanArray::new(values.iter().map(|value| *value != 0).collect::<Vec<_>>().into(), nulls))
        }
        DataType::Timestamp(_, _) => cast(&Int64Array::new(values.into(), nulls), data_type)?,
        other => return internal_err!("whole numbers cannot be given out as {other}"),
    })
}

/// Sums divided by counts, as DataFusion divides them: of integers as floats, of decimals with more digits, cut.
fn average(sum: &RowsetColumn, count: &RowsetColumn, data_type: &DataType) -> Result<ArrayRef> {
    let (sums, counts) = match (&sum.values, &count.values) {
        (RowsetValues::Wide(sums), RowsetValues::Integers(counts)) => (sums, counts),
        (RowsetValues::Floats(sums), RowsetValues::Integers(counts)) => {
            let groups = sums.iter().zip(counts);
            let averages = groups.map(|(sum, count)| (*count > 0).then(|| *sum / *count as f64));
            return Ok(Arc::new(averages.collect::<Float64Array>()));
        }
        _ => return internal_err!("an average of other than sums and counts"),
    };
    let groups = sums.iter().zip(counts);
    match (data_type, sum.shape.value_type) {
        (DataType::Float64, _) => {
            let averages = groups.map(|(sum, count)| (*count > 0).then(|| *sum as f64 / *count as f64));
            Ok(Arc::new(averages.collect::<Float64Array>()))
        }
        (DataType::Decimal128(precision, scale), ValueType::Decimal { scale: sum_scale, .. }) => {
            let more_digits = u32::try_from(i16::from(*scale) - i16::from(sum_scale)).ok();
            let factor = more_digits.and_then(|digits| 10i128.checked_pow(digits));
            let mut averages = Vec::with_capacity(sums.len());
            for (sum, count) in groups {
                if *count == 0 {
                    averages.push(None);
                    continue;
                }
                let average = factor.and_then(|factor| sum.checked_mul(factor)).map(|sum| sum / i128::from(*count));
                let fits =
                    |average: &i128| Decimal128Type::validate_decimal_precision(*average, *precision, *scale).is_ok();
                match average.filter(fits) {
                    Some(average) => averages.push(Some(average)),
                    None => return exec_err!("an average does not fit {data_type}"),
                }
            }
            let array = averages.into_iter().collect::<Decimal128Array>();
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        (other, _) => internal_err!("an average cannot be given out as {other}"),
    }
}
