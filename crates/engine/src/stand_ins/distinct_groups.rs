//! Which values of any type each group has, in one table.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{cast, concat, filter};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The distinct values of groups, NULL left out.
///
/// Values are kept as Arrow's rows: bytes that are equal where the values are.
#[derive(Debug)]
pub(super) struct DistinctGroups {
    /// Of a dictionary, the type of its values.
    value_type: DataType,
    converter: RowConverter,
    /// The rows of a batch, whose memory the next one takes.
    batch_rows: Rows,
    values: Values,
    groups: Vec<Group>,
}

/// Its values are linked, the last one first.
#[derive(Debug, Clone, Copy)]
struct Group {
    count: i64,
    last: u32,
}

/// Pairs of a group and a value, each once.
///
/// Groups that are gone leave their pairs until half of all are theirs: where groups come in order and go out in parts,
/// the others are not moved each time.
#[derive(Debug, Default)]
struct Values {
    pairs: Vec<Pair>,
    bytes: Vec<u8>,
    /// Places in `pairs`.
    table: HashTable<u32>,
    /// How many groups are gone. Pairs count groups from the first that ever was.
    gone_groups: usize,
    gone_pairs: usize,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    group: u32,
    /// The pair of the same group that came before.
    before: u32,
    /// Where the value ends in `bytes`; it begins where that of the pair before in `pairs` ends.
    end: usize,
}

/// No place.
const NONE: u32 = u32::MAX;

/// Of texts in views so many bytes are made at once: each array has a buffer of its own, which an offset of 32 bits
/// has to reach.
const VIEWED_BYTES: usize = 1 << 30;

impl DistinctGroups {
    /// Whether there are rows of the type's values that give back the same values.
    pub(super) fn supports(data_type: &DataType) -> bool {
        fn has_rows(data_type: &DataType) -> bool {
            match data_type {
                DataType::Struct(fields) => fields.iter().all(|field| has_rows(field.data_type())),
                DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                    has_rows(field.data_type())
                }
                other => !other.is_nested() && !matches!(other, DataType::Dictionary(..)),
            }
        }
        has_rows(type_of_values(data_type))
    }

    /// No groups yet; of a type that is [supported](Self::supports).
    pub(super) fn try_new(data_type: &DataType) -> Result<Self> {
        let value_type = type_of_values(data_type).clone();
        let converter = RowConverter::new(vec![SortField::new(value_type.clone())])?;
        let batch_rows = converter.empty_rows(0, 0);
        Ok(Self { value_type, converter, batch_rows, values: Values::default(), groups: Vec::new() })
    }

    /// What its values are of.
    pub(super) fn value_type(&self) -> &DataType {
        &self.value_type
    }

    fn with_groups(&mut self, group_count: usize) {
        self.groups.resize(group_count, Group { count: 0, last: NONE });
    }

    /// Puts the values of an array in, each into the group that `group_of` says, if any.
    fn put(&mut self, array: &ArrayRef, group_of: impl Iterator<Item = Option<usize>>) -> Result<()> {
        let array = cast(array, &self.value_type)?;
        self.batch_rows.clear();
        self.converter.append(&mut self.batch_rows, &[array])?;
        for (row, group) in group_of.enumerate() {
            let Some(group) = group else { continue };
            self.values.put(group, &mut self.groups[group], self.batch_rows.row(row).as_ref())?;
        }
        Ok(())
    }

    /// The distinct values of groups.
    fn lists(&self, groups: &[Group]) -> Result<ListArray> {
        let offsets = OffsetBuffer::<i32>::from_lengths(groups.iter().map(|group| group.count as usize));
        let places: Vec<u32> = groups.iter().flat_map(|group| self.values.places(group)).collect();
        let parser = self.converter.parser();
        let array_of = |places: &[u32]| -> Result<ArrayRef> {
            let rows = places.iter().map(|place| parser.parse(self.values.value(*place)));
            Ok(self.converter.convert_rows(rows)?.remove(0))
        };
        let values_bytes: usize = places.iter().map(|place| self.values.value(*place).len()).sum();
        let values = match self.value_type {
            DataType::Utf8View | DataType::BinaryView if values_bytes > VIEWED_BYTES => {
                let arrays = self.values.split(&places, VIEWED_BYTES).into_iter().map(array_of);
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?
            }
            _ => array_of(&places)?,
        };
        Ok(ListArray::try_new(Arc::new(Field::new_list_field(self.value_type.clone(), true)), offsets, values, None)?)
    }

    /// Whether the values of groups can be in one array.
    fn require_in_one_array(&self, groups: &[Group]) -> Result<()> {
        let value_count: i64 = groups.iter().map(|group| group.count).sum();
        if i32::try_from(value_count).is_err() {
            return Err(too_many(format!("{value_count} of them in one batch, expected {} at most", i32::MAX)));
        }
        let has_short_offsets =
            matches!(self.value_type, DataType::Utf8 | DataType::Binary) || self.value_type.is_nested();
        if !has_short_offsets || self.values.bytes.len() <= i32::MAX as usize {
            return Ok(());
        }
        let places = groups.iter().flat_map(|group| self.values.places(group));
        let bytes: usize = places.map(|place| self.values.value(place).len()).sum();
        match i32::try_from(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(too_many(format!("{bytes} bytes of them in one batch, expected {} at most", i32::MAX))),
        }
    }

    /// Forgets groups that are gone; the others have moved up.
    fn forget(&mut self, gone: &[Group]) -> Result<()> {
        self.values.gone_groups += gone.len();
        self.values.gone_pairs += gone.iter().map(|group| group.count as usize).sum::<usize>();
        if self.groups.is_empty() {
            self.values = Values::default();
        } else if self.values.gone_pairs > self.values.pairs.len() / 2 {
            let before = std::mem::take(&mut self.values);
            for (number, group) in self.groups.iter_mut().enumerate() {
                let kept = std::mem::replace(group, Group { count: 0, last: NONE });
                for place in before.places(&kept) {
                    self.values.put(number, group, before.value(place))?;
                }
            }
        }
        Ok(())
    }
}

impl Values {
    fn value(&self, place: u32) -> &[u8] {
        value_at(&self.pairs, &self.bytes, place)
    }

    /// The places of a group's values.
    fn places(&self, group: &Group) -> impl Iterator<Item = u32> {
        let place_of = |place: u32| (place != NONE).then_some(place);
        std::iter::successors(place_of(group.last), move |place| place_of(self.pairs[*place as usize].before))
    }

    /// Places in turn, as many together as have so many bytes, and one at least.
    fn split<'p>(&self, places: &'p [u32], bytes: usize) -> Vec<&'p [u32]> {
        let mut parts = Vec::new();
        let (mut first, mut part_bytes) = (0, 0);
        for (number, place) in places.iter().enumerate() {
            let value_bytes = self.value(*place).len();
            if part_bytes + value_bytes > bytes && number > first {
                parts.push(&places[first..number]);
                (first, part_bytes) = (number, 0);
            }
            part_bytes += value_bytes;
        }
        parts.push(&places[first..]);
        parts
    }

    /// Gives the group of a number a value that it may have.
    fn put(&mut self, number: usize, group: &mut Group, value: &[u8]) -> Result<()> {
        self.make_room();
        let (pairs, bytes) = (&mut self.pairs, &mut self.bytes);
        let number =
            u32::try_from(self.gone_groups + number).map_err(|_| too_many(format!("{NONE} groups of them")))?;
        let place = u32::try_from(pairs.len()).ok().filter(|place| *place != NONE);
        let place = place.ok_or_else(|| too_many(format!("{NONE} of them")))?;
        let entry = self.table.entry(
            hash(number, value),
            |other| pairs[*other as usize].group == number && value_at(pairs, bytes, *other) == value,
            |other| hash(pairs[*other as usize].group, value_at(pairs, bytes, *other)),
        );
        let Entry::Vacant(vacant) = entry else { return Ok(()) };
        vacant.insert(place);
        grow(bytes, value.len());
        bytes.extend_from_slice(value);
        grow(pairs, 1);
        pairs.push(Pair { group: number, before: group.last, end: bytes.len() });
        *group = Group { count: group.count + 1, last: place };
        Ok(())
    }

    /// Room in the table for one more pair. Left to itself the table would go through its own order, which is that of the
    /// hashes, and find each pair in another place of memory.
    fn make_room(&mut self) {
        if self.table.len() < self.table.capacity() {
            return;
        }
        let Self { pairs, bytes, table, .. } = self;
        let hash_of = |place: &u32| hash(pairs[*place as usize].group, value_at(pairs, bytes, *place));
        *table = HashTable::new();
        table.reserve(2 * pairs.len().max(32), hash_of);
        for place in 0..pairs.len() as u32 {
            table.insert_unique(hash_of(&place), place, hash_of);
        }
    }

    fn size_bytes(&self) -> usize {
        // A slot of the table has a byte of its own, and an eighth of the slots stay empty.
        let slot_bytes = size_of::<u32>() + 1;
        self.pairs.capacity() * size_of::<Pair>() + self.bytes.capacity() + self.table.capacity() * slot_bytes * 8 / 7
    }
}

fn value_at<'b>(pairs: &[Pair], bytes: &'b [u8], place: u32) -> &'b [u8] {
    let place = place as usize;
    let begin = place.checked_sub(1).map_or(0, |before| pairs[before].end);
    &bytes[begin..pairs[place].end]
}

fn too_many(found: String) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("a count of distinct values has {found}"))
}

fn hash(group: u32, value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, u64::from(group))
}

/// Room for some more, and for an eighth of what is there: what is counted only after a batch must not double in one.
fn grow<T>(held: &mut Vec<T>, additional: usize) {
    if held.capacity() - held.len() < additional {
        held.reserve_exact(additional.max(held.len() / 8).max(64));
    }
}

fn type_of_values(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Which rows are counted: those that have a value and that the filter, if any, is true for.
fn counted(values: &ArrayRef, opt_filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let valid = values.logical_nulls().map(NullBuffer::into_inner);
    let filtered = opt_filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    match (valid, filtered) {
        (Some(valid), Some(filtered)) => Some(&valid & &filtered),
        (either, or) => either.or(or),
    }
}

impl GroupsAccumulator for DistinctGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.with_groups(total_num_groups);
        let is_counted = counted(&values[0], opt_filter);
        let group_of =
            |row: usize| is_counted.as_ref().is_none_or(|counted| counted.value(row)).then(|| group_indices[row]);
        self.put(&values[0], (0..group_indices.len()).map(group_of))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.with_groups(total_num_groups);
        let lists = values[0].as_list::<i32>();
        let (first, end) = (lists.offsets()[0] as usize, lists.offsets()[lists.len()] as usize);
        let of_lists = group_indices.iter().zip(lists.offsets().lengths());
        let group_of = of_lists.flat_map(|(group, length)| std::iter::repeat_n(Some(*group), length));
        self.put(&lists.values().slice(first, end - first), group_of)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let gone = emit_to.take_needed(&mut self.groups);
        self.forget(&gone)?;
        Ok(Arc::new(Int64Array::from_iter_values(gone.iter().map(|group| group.count))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let gone = emit_to.take_needed(&mut self.groups);
        self.require_in_one_array(&gone)?;
        if self.groups.is_empty() {
            // What is not needed any more goes before the lists come.
            self.values.table = HashTable::new();
            self.batch_rows = self.converter.empty_rows(0, 0);
        }
        let lists = self.lists(&gone)?;
        self.forget(&gone)?;
        Ok(vec![Arc::new(lists)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = cast(&values[0], &self.value_type)?;
        let is_counted = counted(&array, opt_filter).unwrap_or_else(|| BooleanBuffer::new_set(array.len()));
        let offsets = OffsetBuffer::<i32>::from_lengths(is_counted.iter().map(usize::from));
        let values = filter(&array, &BooleanArray::new(is_counted, None))?;
        let field = Arc::new(Field::new_list_field(self.value_type.clone(), true));
        Ok(vec![Arc::new(ListArray::try_new(field, offsets, values, None)?)])
    }

    fn size(&self) -> usize {
        self.values.size_bytes() + self.batch_rows.size() + self.groups.capacity() * size_of::<Group>()
    }
}

#[cfg(test)]
mod tests;
