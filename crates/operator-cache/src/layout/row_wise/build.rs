//! From columns to rows.
//!
//! Fields get their places first: values by width, then bits. Then rows are written a tile at a time, so that the rows
//! that each field's pass writes to are still in the cache when the next field's comes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, StringArray, make_array};
use arrow::buffer::{BooleanBuffer, MutableBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::{Field, Place, RowBlock, width_bytes};

/// Bytes of rows that are written field by field: half of a first-level cache, whose other half is for the columns.
const TILE_BYTES: usize = 16 << 10;

pub(super) fn build(columns: &[ArrayRef], row_count: usize) -> Result<RowBlock, ArrowError> {
    for (index, column) in columns.iter().enumerate() {
        if column.len() != row_count {
            return Err(ArrowError::InvalidArgumentError(format!(
                "column {index} has {} values, {row_count} rows were expected",
                column.len()
            )));
        }
    }
    let mut plan = Plan::default();
    let mut fields = columns.iter().map(|column| plan.field(column)).collect::<Result<Vec<_>, _>>()?;
    let stride_bytes = plan.place();
    plan.give_offsets(&mut fields);
    let size_bytes = row_count.checked_mul(stride_bytes).ok_or_else(|| {
        ArrowError::InvalidArgumentError(format!("{row_count} rows of {stride_bytes} bytes are too many"))
    })?;
    let mut rows = MutableBuffer::from_len_zeroed(size_bytes);
    let mut heap = plan.heap()?;
    // Rows of lists alone, or of no columns, are empty.
    if let Some(tile_rows) = TILE_BYTES.checked_div(stride_bytes) {
        let tile_rows = tile_rows.max(1);
        for (index, tile) in rows.as_slice_mut().chunks_mut(tile_rows * stride_bytes).enumerate() {
            plan.write(tile, stride_bytes, index * tile_rows, &mut heap);
        }
    }
    Ok(RowBlock { row_count, stride_bytes, rows: rows.into(), heap, columns: fields, size_bytes: 0 })
}

/// What is to be written into each row.
#[derive(Default)]
struct Plan {
    values: Vec<PlannedValue>,
    bits: Vec<BooleanBuffer>,
    /// The byte of a row where its bits begin.
    bits_offset_bytes: usize,
}

struct PlannedValue {
    array: ArrayRef,
    width_bytes: usize,
    offset_bytes: usize,
}

impl Plan {
    /// Plans a field and what is in it. Until [`Plan::give_offsets`], places are numbers of values and of bits.
    fn field(&mut self, array: &ArrayRef) -> Result<Field, ArrowError> {
        let data_type = array.data_type().clone();
        if let DataType::List(_) = data_type {
            return Ok(Field { data_type, validity_bit: None, place: Place::Beside(owned(array)?) });
        }
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let validity_bit = nulls.map(|nulls| self.bit(nulls.inner().clone()));
        let place = match &data_type {
            DataType::Struct(fields) => {
                let children = array.as_struct().columns();
                let children = children.iter().map(|child| self.field(child)).collect::<Result<Vec<_>, _>>()?;
                Place::Fields { fields: fields.clone(), children }
            }
            DataType::Boolean => Place::Bit(self.bit(array.as_boolean().values().clone())),
            DataType::Dictionary(key, _) => {
                let coded = array.as_any_dictionary();
                let offset_bytes = self.value(make_array(coded.keys().to_data()), key)?;
                Place::Code { offset_bytes, key: key.as_ref().clone(), dictionary: Arc::clone(coded.values()) }
            }
            _ => Place::Value { offset_bytes: self.value(Arc::clone(array), &data_type)? },
        };
        Ok(Field { data_type, validity_bit, place })
    }

    fn value(&mut self, array: ArrayRef, data_type: &DataType) -> Result<usize, ArrowError> {
        let width_bytes = width_bytes(data_type).ok_or_else(|| {
            ArrowError::NotYetImplemented(format!("columns of type {data_type} cannot be laid out in rows"))
        })?;
        self.values.push(PlannedValue { array, width_bytes, offset_bytes: 0 });
        Ok(self.values.len() - 1)
    }

    fn bit(&mut self, bits: BooleanBuffer) -> usize {
        self.bits.push(bits);
        self.bits.len() - 1
    }

    /// Finds every value's place; returns the stride.
    fn place(&mut self) -> usize {
        let mut widest_first: Vec<&mut PlannedValue> = self.values.iter_mut().collect();
        widest_first.sort_by_key(|value| std::cmp::Reverse(value.width_bytes));
        let alignment_bytes = widest_first.first().map_or(1, |value| value.width_bytes.min(8));
        let mut end_bytes = 0;
        for value in widest_first {
            value.offset_bytes = end_bytes;
            end_bytes += value.width_bytes;
        }
        self.bits_offset_bytes = end_bytes;
        (end_bytes + self.bits.len().div_ceil(8)).next_multiple_of(alignment_bytes)
    }

    fn give_offsets(&self, fields: &mut [Field]) {
        for field in fields {
            if let Some(bit) = &mut field.validity_bit {
                *bit += self.bits_offset_bytes * 8;
            }
            match &mut field.place {
                Place::Value { offset_bytes } | Place::Code { offset_bytes, .. } => {
                    *offset_bytes = self.values[*offset_bytes].offset_bytes;
                }
                Place::Bit(bit) => *bit += self.bits_offset_bytes * 8,
                Place::Fields { children, .. } => self.give_offsets(children),
                Place::Beside(_) => {}
            }
        }
    }

    fn strings(&self) -> impl Iterator<Item = (&StringArray, usize)> {
        self.values.iter().filter_map(|value| Some((value.array.as_string_opt::<i32>()?, value.offset_bytes)))
    }

    /// An empty heap with room for all strings.
    fn heap(&self) -> Result<Vec<u8>, ArrowError> {
        let mut total_bytes = 0;
        for (strings, _) in self.strings() {
            let offsets = strings.value_offsets();
            let hidden_bytes: usize = match strings.nulls() {
                Some(nulls) => (0..strings.len())
                    .filter(|&row| nulls.is_null(row))
                    .map(|row| (offsets[row + 1] - offsets[row]) as usize)
                    .sum(),
                None => 0,
            };
            total_bytes += (offsets[strings.len()] - offsets[0]) as usize - hidden_bytes;
        }
        match u32::try_from(total_bytes) {
            Ok(_) => Ok(Vec::with_capacity(total_bytes)),
            Err(_) => Err(ArrowError::InvalidArgumentError(format!(
                "{total_bytes} bytes of strings are too many for a block of rows, at most {} fit",
                u32::MAX
            ))),
        }
    }

    /// Writes the rows of `tile`, the first of which is row `first`.
    fn write(&self, tile: &mut [u8], stride_bytes: usize, first: usize, heap: &mut Vec<u8>) {
        for value in self.values.iter().filter(|value| value.array.data_type() != &DataType::Utf8) {
            let data = value.array.to_data();
            let bytes = &data.buffers()[0].as_slice()[(data.offset() + first) * value.width_bytes..];
            let rows = &mut tile[value.offset_bytes..];
            match value.width_bytes {
                1 => write_values::<1>(rows, stride_bytes, bytes),
                2 => write_values::<2>(rows, stride_bytes, bytes),
                4 => write_values::<4>(rows, stride_bytes, bytes),
                8 => write_values::<8>(rows, stride_bytes, bytes),
                _ => write_values::<16>(rows, stride_bytes, bytes),
            }
        }
        for (index, bits) in self.bits.iter().enumerate() {
            let (byte, shift) = (self.bits_offset_bytes + index / 8, index % 8);
            for (at, row) in tile.chunks_exact_mut(stride_bytes).enumerate() {
                row[byte] |= u8::from(bits.value(first + at)) << shift;
            }
        }
        let strings: Vec<(&StringArray, usize)> = self.strings().collect();
        if strings.is_empty() {
            return;
        }
        for (at, row) in tile.chunks_exact_mut(stride_bytes).enumerate() {
            for (strings, offset_bytes) in &strings {
                let start = heap.len() as u32;
                if strings.is_valid(first + at) {
                    heap.extend_from_slice(strings.value(first + at).as_bytes());
                }
                let length = heap.len() as u32 - start;
                row[*offset_bytes..offset_bytes + 4].copy_from_slice(&start.to_le_bytes());
                row[offset_bytes + 4..offset_bytes + 8].copy_from_slice(&length.to_le_bytes());
            }
        }
    }
}

/// Copies the values of `W` bytes each in `values` to the start of every stride of `rows`.
fn write_values<const W: usize>(rows: &mut [u8], stride_bytes: usize, values: &[u8]) {
    let (values, _) = values.as_chunks::<W>();
    for (row, value) in rows.chunks_mut(stride_bytes).zip(values) {
        row[..W].copy_from_slice(value);
    }
}

/// The array in buffers that are not much larger than its content.
fn owned(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let needed_bytes = data.get_slice_memory_size()?;
    // Content that fills three quarters of its buffers wastes less than a copy costs.
    if array.get_buffer_memory_size() <= needed_bytes.saturating_add(needed_bytes / 3).saturating_add(1024) {
        return Ok(Arc::clone(array));
    }
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    let mut array = make_array(copy.freeze());
    if let Some(array) = Arc::get_mut(&mut array) {
        array.shrink_to_fit();
    }
    Ok(array)
}
