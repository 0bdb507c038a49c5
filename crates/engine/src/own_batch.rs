//! Batches that are held for long, each with its own memory.
//!
//! Operators give out slices of one large batch. Who holds such a slice holds all of it, and who counts the bytes that
//! its arrays point to counts all of it for each slice.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
    UInt64Array, make_array,
};
use datafusion::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};

/// What a batch may hold beyond twice its rows' bytes without being copied.
const SMALL_BYTES: usize = 64 << 10;

/// A view's own length, beside the texts that it points to.
const VIEW_BYTES: usize = size_of::<u128>();

/// Texts no longer than this lie in their views.
const INLINE_BYTES: usize = 12;

/// The batch. If it is a small part of what it holds, the columns that are so are copied.
///
/// # Errors
/// Arrow cannot copy it.
pub(crate) fn own(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if batch.get_array_memory_size() <= 2 * used_bytes(&batch)? + SMALL_BYTES {
        return Ok(batch);
    }
    let owned = |column: &ArrayRef| match column.get_array_memory_size() <= 2 * array_bytes(column)? {
        true => Ok(Arc::clone(column)),
        false => copied(column),
    };
    let columns = batch.columns().iter().map(owned).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// The array in memory that has its own values alone.
fn copied(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let nulls = || array.nulls().map(|nulls| nulls.iter().collect::<NullBuffer>());
    let taken = || take(array, &UInt64Array::from_iter_values(0..array.len() as u64), None);
    Ok(match array.data_type() {
        // Taken rows point into the same texts, which is right where many of them point to one. Without texts to
        // collect, the views are not copied, so they are taken first.
        DataType::Utf8View if view_bytes(array) < array.get_array_memory_size() => {
            Arc::new(taken()?.as_string_view().gc())
        }
        DataType::BinaryView if view_bytes(array) < array.get_array_memory_size() => {
            Arc::new(taken()?.as_binary_view().gc())
        }
        DataType::List(_) => Arc::new(copied_list::<i32>(array.as_list(), nulls())?),
        DataType::LargeList(_) => Arc::new(copied_list::<i64>(array.as_list(), nulls())?),
        DataType::Map(field, is_sorted) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = copied(&between(&entries, map.offsets()))?;
            let offsets = OffsetBuffer::from_lengths(map.offsets().lengths());
            let map = MapArray::try_new(Arc::clone(field), offsets, entries.as_struct().clone(), nulls(), *is_sorted);
            Arc::new(map?)
        }
        DataType::FixedSizeList(field, size) => {
            let values = copied(array.as_fixed_size_list().values())?;
            let list = FixedSizeListArray::try_new_with_length(Arc::clone(field), *size, values, nulls(), array.len());
            Arc::new(list?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(copied).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls(), array.len())?)
        }
        _ => match array.data_type().primitive_width() {
            Some(width) => copied_numbers(array, width, nulls())?,
            None => taken()?,
        },
    })
}

/// An array of values that take so many bytes each.
fn copied_numbers(array: &ArrayRef, width: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let values = &data.buffers()[0][data.offset() * width..][..data.len() * width];
    let copied = ArrayData::builder(array.data_type().clone())
        .len(data.len())
        .nulls(nulls)
        .add_buffer(Buffer::from_slice_ref(values));
    Ok(make_array(copied.build()?))
}

fn copied_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    nulls: Option<NullBuffer>,
) -> Result<GenericListArray<O>, ArrowError> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(ArrowError::InvalidArgumentError(format!("{} is no list", list.data_type())));
    };
    let values = copied(&between(list.values(), list.offsets()))?;
    GenericListArray::try_new(Arc::clone(field), OffsetBuffer::from_lengths(list.offsets().lengths()), values, nulls)
}

/// The values that lie between the first and the last of a list's offsets: a slice of a list has the others too.
fn between<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let (first, end) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    values.slice(first, end - first)
}

/// Bytes of the batch's rows alone.
///
/// # Errors
/// Arrow knows no such type.
pub fn used_bytes(batch: &RecordBatch) -> Result<usize, ArrowError> {
    batch.columns().iter().map(array_bytes).sum()
}

/// Bytes of the array's own values, whatever else is in the memory that it points to.
fn array_bytes(array: &ArrayRef) -> Result<usize, ArrowError> {
    let nulls_bytes = array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    let values_bytes = match array.data_type() {
        // Many views may point to one text.
        DataType::Utf8View | DataType::BinaryView => view_bytes(array).min(array.get_array_memory_size()),
        DataType::List(_) => list_bytes(array.as_list::<i32>().values(), array.as_list::<i32>().offsets())?,
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>().values(), array.as_list::<i64>().offsets())?,
        DataType::Map(_, _) => {
            let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
            list_bytes(&entries, array.as_map().offsets())?
        }
        DataType::FixedSizeList(_, _) => array_bytes(array.as_fixed_size_list().values())?,
        DataType::Struct(_) => array.as_struct().columns().iter().map(array_bytes).sum::<Result<usize, _>>()?,
        _ => return array.to_data().get_slice_memory_size(),
    };
    Ok(nulls_bytes + values_bytes)
}

fn list_bytes<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &OffsetBuffer<O>) -> Result<usize, ArrowError> {
    Ok(size_of_val(&offsets[..]) + array_bytes(&between(values, offsets))?)
}

/// Bytes of views and of the texts that they point to, one that several point to as often.
fn view_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => viewed_bytes(array.as_string_view().views()),
        _ => viewed_bytes(array.as_binary_view().views()),
    }
}

fn viewed_bytes(views: &[u128]) -> usize {
    // The low half of a view is the text's length.
    let long_bytes = |view: &u128| Some(*view as u32 as usize).filter(|length| *length > INLINE_BYTES).unwrap_or(0);
    views.iter().map(|view| VIEW_BYTES + long_bytes(view)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{Int64Array, StringArray, StringViewArray};
    use datafusion::arrow::datatypes::{Field, Fields};

    use super::*;

    #[test]
    fn slices_are_copied_and_whole_batches_are_not() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|number| number.to_string())));
        let views = (0..100_000).map(|number| format!("a text that lies apart, {number}"));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(views));
        let short = (0..100_000).map(|number| (number % 7 != 0).then(|| number.to_string()));
        let short: ArrayRef = Arc::new(short.collect::<StringViewArray>());
        let whole = RecordBatch::try_from_iter_with_nullable([
            ("n", numbers, false),
            ("t", texts, false),
            ("v", views, false),
            ("s", short, true),
        ])
        .unwrap();
        assert!(Arc::ptr_eq(own(whole.clone()).unwrap().column(0), whole.column(0)));
        let slice = whole.slice(50_000, 1000);
        let owned = own(slice.clone()).unwrap();
        assert_eq!(owned, slice);
        assert!(owned.get_array_memory_size() < 120_000, "{}", owned.get_array_memory_size());
    }

    /// Three texts, which lie apart, a row.
    fn lists(row_count: usize) -> Vec<(&'static str, ArrayRef)> {
        let texts = |row_count: usize| -> ArrayRef {
            Arc::new(StringViewArray::from_iter_values((0..3 * row_count).map(|text| format!("lies apart, {text:09}"))))
        };
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let nulls = || Some(NullBuffer::from_iter((0..row_count).map(|row| row % 7 != 0)));
        let threes = || std::iter::repeat_n(3, row_count);
        let values = texts(row_count);
        let list = GenericListArray::<i32>::new(
            Arc::clone(&item),
            OffsetBuffer::from_lengths(threes()),
            Arc::clone(&values),
            nulls(),
        );
        let large = GenericListArray::<i64>::new(
            Arc::clone(&item),
            OffsetBuffer::from_lengths(threes()),
            Arc::clone(&values),
            nulls(),
        );
        let fixed = FixedSizeListArray::new(item, 3, Arc::clone(&values), nulls());
        let keys = Arc::new(Int64Array::from_iter_values(0..3 * row_count as i64));
        let fields = Fields::from(vec![
            Field::new("key", DataType::Int64, false),
            Field::new("value", DataType::Utf8View, true),
        ]);
        let entries = StructArray::new(fields.clone(), vec![keys, values], None);
        let entry = Arc::new(Field::new("entries", DataType::Struct(fields), false));
        let map = MapArray::new(entry, OffsetBuffer::from_lengths(threes()), entries, nulls(), false);
        let inner: ArrayRef = Arc::new(list.clone());
        let nested = StructArray::new(
            Fields::from(vec![Field::new("inner", inner.data_type().clone(), true)]),
            vec![inner],
            nulls(),
        );
        vec![
            ("list", Arc::new(list)),
            ("large", Arc::new(large)),
            ("fixed", Arc::new(fixed)),
            ("map", Arc::new(map)),
            ("nested", Arc::new(nested)),
        ]
    }

    #[test]
    fn slices_of_lists_have_and_count_their_own_values_alone() {
        for (name, column) in lists(30_000) {
            let whole = RecordBatch::try_from_iter([(name, column)]).unwrap();
            let whole_bytes = used_bytes(&whole).unwrap();
            let slice = whole.slice(20_001, 1000);
            let slice_bytes = used_bytes(&slice).unwrap();
            assert!((20..=40).contains(&(whole_bytes / slice_bytes)), "{name}: {slice_bytes} of {whole_bytes} bytes");
            let owned = own(slice.clone()).unwrap();
            assert_eq!(owned, slice, "{name}");
            let owned_bytes = owned.get_array_memory_size();
            assert!(owned_bytes < 2 * slice_bytes + SMALL_BYTES, "{name}: {owned_bytes} bytes for {slice_bytes}");
        }
    }

    #[test]
    fn lists_without_rows_or_values_are_copied_too() {
        for (name, column) in lists(30_000) {
            let whole = RecordBatch::try_from_iter([(name, column)]).unwrap();
            let none = whole.slice(29_999, 0);
            let owned = own(none.clone()).unwrap();
            assert_eq!(owned, none, "{name}");
            assert!(owned.get_array_memory_size() < SMALL_BYTES, "{name}");
        }
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000).slice(0, 0));
        let empty: ArrayRef = Arc::new(FixedSizeListArray::try_new_with_length(item, 0, values, None, 5).unwrap());
        let empty = RecordBatch::try_from_iter([("empty", empty)]).unwrap();
        assert_eq!(own(empty.clone()).unwrap(), empty);
    }

    #[test]
    fn a_text_that_many_rows_share_stays_one() {
        let long = "x".repeat(100_000);
        let one = StringViewArray::from_iter_values([&long]);
        let views = std::iter::repeat_n(one.views()[0], 1000).collect();
        let views = StringViewArray::try_new(views, one.data_buffers().to_vec(), None).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000).slice(500, 1000));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("v", Arc::new(views) as ArrayRef)]).unwrap();
        let owned = own(batch.clone()).unwrap();
        assert_eq!(owned, batch);
        assert!(owned.get_array_memory_size() < 400_000, "{}", owned.get_array_memory_size());
    }
}
