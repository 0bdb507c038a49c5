//! From the groups or rows that a pipeline ends in to Arrow's arrays.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, GenericStringBuilder, Int8Array, Int16Array,
    Int32Array, Int64Array, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewBuilder,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, DecimalType, FieldRef, SchemaRef};
use datafusion::common::{Result, exec_err, internal_err};
use thermocline_budget::Reservation;
use thermocline_pipeline::{PipelineError, Rowset, RowsetColumn, RowsetValues, TextList, ValueType};

use super::star::Output;

/// The answer of groups as one batch with the types of `schema`, in the memory of their rowset.
///
/// # Errors
/// No memory; what cannot be given out, which operators then say in their words.
pub(super) fn reserved_batch(
    (rowset, reservation): (Rowset, Reservation),
    outputs: &[Output],
    schema: &SchemaRef,
) -> Result<(RecordBatch, Reservation), PipelineError> {
    reservation.try_grow(most_bytes(&rowset, outputs, schema))?;
    let batch = batch(rowset, outputs, schema).map_err(|error| PipelineError::Consumer(error.into()))?;
    reservation.resize(batch.get_array_memory_size() as u64)?;
    Ok((batch, reservation))
}

/// The answer as one batch with the types of `schema`.
///
/// # Errors
/// An average that does not fit its type; texts that are too long for an array.
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
        RowsetValues::Texts { codes, dictionary } if *data_type == DataType::Utf8View => {
            if dictionary.len() < codes.len() {
                return shared_views(codes, &dictionary, valid.as_deref());
            }
            let texts = texts_of(&codes, &dictionary, valid.as_deref());
            views(texts.clone().flatten().map(str::len).sum(), texts)
        }
        RowsetValues::Texts { codes, dictionary } => {
            let texts = texts_of(&codes, &dictionary, valid.as_deref());
            match data_type {
                DataType::Utf8 => spelt_out::<i32>(texts, data_type),
                DataType::LargeUtf8 => spelt_out::<i64>(texts, data_type),
                other => internal_err!("texts cannot be given out as {other}"),
            }
        }
    }
}

/// Most bytes that the answer takes while it is made, beside the rowset.
pub(super) fn most_bytes(rowset: &Rowset, outputs: &[Output], schema: &SchemaRef) -> u64 {
    let row_count = rowset.row_count as u64;
    let of_output = |(output, field): (&Output, &FieldRef)| match output {
        Output::Column(column) => {
            let column = &rowset.columns[*column];
            let of_values = match (&column.values, field.data_type()) {
                (RowsetValues::Texts { dictionary, .. }, DataType::Utf8View) => {
                    let shared = dictionary.len() as u64;
                    if shared < row_count {
                        // A view of each row, and of each text, its place and which it is; each text once.
                        16 * row_count + 24 * shared + column.text_bytes().min(dictionary.size_bytes() as u64)
                    } else {
                        16 * row_count + column.text_bytes()
                    }
                }
                (RowsetValues::Texts { .. }, _) => 8 * row_count + column.text_bytes(),
                (RowsetValues::Wide(_), _) => 16 * row_count,
                (RowsetValues::Integers(_) | RowsetValues::Unsigned(_) | RowsetValues::Floats(_), _) => 8 * row_count,
            };
            of_values + row_count.div_ceil(8)
        }
        // Decimals, each of which may be none, and the array of them.
        Output::Average { .. } => (32 + 16) * row_count,
    };
    outputs.iter().zip(schema.fields()).map(of_output).sum()
}

/// The text of each row that has one.
fn texts_of<'t>(
    codes: &'t [u32],
    dictionary: &'t TextList,
    valid: Option<&'t [bool]>,
) -> impl Iterator<Item = Option<&'t str>> + Clone {
    codes.iter().enumerate().map(move |(row, code)| {
        let is_valid = valid.is_none_or(|valid| valid[row]);
        is_valid.then(|| dictionary.get(*code as usize)).flatten()
    })
}

/// Texts one behind the other.
fn spelt_out<'t, O: OffsetSizeTrait>(
    texts: impl Iterator<Item = Option<&'t str>> + Clone,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let (row_count, text_bytes) =
        texts.clone().fold((0, 0), |(rows, bytes), text| (rows + 1, bytes + text.map_or(0, str::len)));
    if O::from_usize(text_bytes).is_none() {
        return exec_err!("texts of {text_bytes} bytes are too long for one array of {data_type}");
    }
    let mut builder = GenericStringBuilder::<O>::with_capacity(row_count, text_bytes);
    texts.for_each(|text| builder.append_option(text));
    Ok(Arc::new(builder.finish()))
}

/// Views of texts that have so many bytes.
fn views<'t>(text_bytes: usize, texts: impl Iterator<Item = Option<&'t str>> + Clone) -> Result<ArrayRef> {
    // In one block, as far as views reach.
    let block_bytes = u32::try_from(text_bytes).unwrap_or(u32::MAX).clamp(1, i32::MAX as u32);
    let mut builder = StringViewBuilder::with_capacity(texts.clone().count()).with_fixed_block_size(block_bytes);
    for text in texts {
        match text {
            Some(text) => builder.try_append_value(text)?,
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Views of texts, those of a dictionary that rows have once each.
fn shared_views(mut codes: Vec<u32>, dictionary: &TextList, valid: Option<&[bool]>) -> Result<ArrayRef> {
    const UNKNOWN: u32 = u32::MAX;
    let mut places = vec![UNKNOWN; dictionary.len()];
    let mut taken: Vec<u32> = Vec::with_capacity(dictionary.len());
    let mut text_bytes = 0;
    for (row, code) in codes.iter_mut().enumerate() {
        let place = places.get_mut(*code as usize).filter(|_| valid.is_none_or(|valid| valid[row]));
        // Nobody asks which text a NULL has.
        let Some(place) = place else {
            *code = 0;
            continue;
        };
        if *place == UNKNOWN {
            *place = taken.len() as u32;
            taken.push(*code);
            text_bytes += dictionary.len_of(*code as usize);
        }
        *code = *place;
    }
    let each = views(text_bytes, texts_of(&taken, dictionary, None))?;
    let places = UInt32Array::new(codes.into(), valid.map(NullBuffer::from));
    Ok(take(&each, &places, None)?)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray, StringArray};
    use datafusion::arrow::datatypes::{Field, Schema};
    use thermocline_budget::{Budget, Purpose};
    use thermocline_pipeline::ColumnShape;

    use super::*;

    /// A column of the texts that have these codes; of NULLs none.
    fn texts(dictionary: &TextList, codes: Vec<Option<u32>>) -> Rowset {
        let shape = ColumnShape { name: "t".to_owned(), value_type: ValueType::Text, nullable: true };
        let valid = codes.contains(&None).then(|| codes.iter().map(Option::is_some).collect());
        let (row_count, codes) = (codes.len(), codes.into_iter().map(|code| code.unwrap_or(7)).collect());
        let values = RowsetValues::Texts { codes, dictionary: Arc::new(dictionary.clone()) };
        Rowset { columns: vec![RowsetColumn { shape, values, valid }], row_count }
    }

    fn given_out(rowset: Rowset, data_type: DataType) -> Result<(ArrayRef, u64)> {
        let schema = Arc::new(Schema::new(vec![Field::new("t", data_type, true)]));
        let most_bytes = most_bytes(&rowset, &[Output::Column(0)], &schema);
        let batch = batch(rowset, &[Output::Column(0)], &schema)?;
        Ok((Arc::clone(batch.column(0)), most_bytes))
    }

    #[test]
    fn texts_are_spelt_out_as_far_as_rows_have_them_and_no_more_is_reserved() {
        let mut dictionary = TextList::new();
        let text = |number: u32| format!("{number} is not a short text");
        (0..50).for_each(|number| dictionary.push(&text(number)));
        dictionary.push(&"long ".repeat(1 << 18));
        let few: Vec<Option<u32>> = (0..100).map(|at| (at % 9 != 4).then_some(at % 3)).collect();
        for codes in [few.clone(), few[..40].to_vec(), vec![None; 60], vec![None; 9], Vec::new()] {
            let expected: StringArray = codes.iter().map(|code| code.map(text)).collect();
            for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
                let (array, most_bytes) = given_out(texts(&dictionary, codes.clone()), data_type.clone()).unwrap();
                assert_eq!(*cast(&array, &DataType::Utf8).unwrap().as_string::<i32>(), expected, "{data_type}");
                let made_bytes = array.get_array_memory_size() as u64;
                assert!(made_bytes < 10_000 && most_bytes < 10_000, "{data_type}: {made_bytes} of {most_bytes}");
                assert!(made_bytes <= most_bytes + 512, "{data_type}: {made_bytes} of {most_bytes}");
            }
        }
    }

    #[test]
    fn what_is_made_of_groups_is_reserved_before_it_is_made() {
        let mut dictionary = TextList::new();
        dictionary.push(&"long ".repeat(200));
        for (data_type, limit_bytes, fits) in [
            (DataType::Utf8, 500_000, false),
            (DataType::LargeUtf8, 500_000, false),
            (DataType::Utf8, 2_000_000, true),
            (DataType::Utf8View, 500_000, true),
        ] {
            let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("t", data_type.clone(), true)]));
            let rowset = texts(&dictionary, vec![Some(0); 1000]);
            let account = Budget::new(limit_bytes, None).account("test", Purpose::Query);
            let reservation = account.try_reserve(rowset.size_bytes()).unwrap();
            match reserved_batch((rowset, reservation), &[Output::Column(0)], &schema) {
                Ok((batch, reservation)) if fits => {
                    assert_eq!(reservation.size_bytes(), batch.get_array_memory_size() as u64);
                }
                Err(PipelineError::Memory(_)) if !fits => {}
                other => panic!("{other:?}: {data_type} in {limit_bytes} bytes"),
            }
            assert_eq!(account.reserved_bytes(), 0);
        }
    }

    #[test]
    fn texts_beyond_what_an_array_holds_are_refused_before_they_are_copied() {
        let mut dictionary = TextList::new();
        dictionary.push(&"long ".repeat(1 << 18));
        let error = given_out(texts(&dictionary, vec![Some(0); 2000]), DataType::Utf8).unwrap_err().to_string();
        assert!(error.contains("texts of 2621440000 bytes are too long for one array of Utf8"), "{error}");
        let (shared, _) = given_out(texts(&dictionary, vec![Some(0); 2000]), DataType::Utf8View).unwrap();
        assert!(shared.get_array_memory_size() < 2 << 20);
    }
}
