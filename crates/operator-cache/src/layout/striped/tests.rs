#![allow(clippy::unwrap_used, clippy::panic)]

use arrow::array::{AsArray, Int64Array, ListArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, Int64Type};
use thermocline_hardware::ManualClock;
use thermocline_seeded::Random;

use super::*;
use crate::layout::random_arrays::{Value, random_array, random_type};

fn shred(array: &ArrayRef) -> StripedColumn {
    StripedColumn::shred(array).unwrap()
}

fn assemble(column: &StripedColumn) -> ArrayRef {
    column.assemble(&ManualClock::new(0), &mut ReadTimes::default()).unwrap()
}

fn assemble_field(column: &StripedColumn, path: &[usize]) -> ArrayRef {
    column.assemble_field(path, &ManualClock::new(0), &mut ReadTimes::default()).unwrap()
}

/// What `path` leads to, found value by value.
fn field_of(value: &Value, path: &[usize]) -> Value {
    match (value, path.split_first()) {
        (_, None) => value.clone(),
        (Value::Struct(fields), Some((&index, rest))) => field_of(&fields[index], rest),
        (Value::List(elements), _) => Value::List(elements.iter().map(|element| field_of(element, path)).collect()),
        (other, _) => other.clone(),
    }
}

fn random_path(random: &mut Random, data_type: &DataType, path: &mut Vec<usize>) {
    match data_type {
        DataType::List(field) => random_path(random, field.data_type(), path),
        DataType::Struct(fields) if !fields.is_empty() && !random.one_in(4) => {
            path.push(random.below(fields.len()));
            random_path(random, fields[path[path.len() - 1]].data_type(), path);
        }
        _ => {}
    }
}

#[test]
fn what_is_assembled_is_what_was_shredded() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let data_type = random_type(&mut random, 1 + seed as usize % 5);
        let length = [0, 1, 7, 64, 65, 200][random.below(6)];
        let array = random_array(&mut random, &data_type, length, true);
        let column = shred(&array);
        let assembled = assemble(&column);
        assembled.to_data().validate_full().unwrap();
        assert_eq!(assembled.data_type(), &data_type, "seed {seed}");
        assert_eq!(Value::all_of(&assembled), Value::all_of(&array), "seed {seed}, type {data_type}");
    }
}

#[test]
fn a_field_is_assembled_through_structs_and_lists_as_if_taken_from_each_record() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let data_type = random_type(&mut random, 2 + seed as usize % 4);
        let length = [0, 1, 64, 150][random.below(4)];
        let array = random_array(&mut random, &data_type, length, true);
        let mut path = Vec::new();
        random_path(&mut random, &data_type, &mut path);
        let field = assemble_field(&shred(&array), &path);
        field.to_data().validate_full().unwrap();
        let expected: Vec<Value> = Value::all_of(&array).iter().map(|value| field_of(value, &path)).collect();
        assert_eq!(Value::all_of(&field), expected, "seed {seed}, type {data_type}, path {path:?}");
    }
}

#[test]
fn a_shredded_column_can_be_shredded_again() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let data_type = random_type(&mut random, 4);
        let array = random_array(&mut random, &data_type, 100, true);
        let once = assemble(&shred(&array));
        assert_eq!(Value::all_of(&assemble(&shred(&once))), Value::all_of(&array), "seed {seed}");
    }
}

#[test]
fn a_path_that_leads_nowhere_is_refused() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let (clock, mut times) = (ManualClock::new(0), ReadTimes::default());
    assert!(shred(&array).assemble_field(&[0], &clock, &mut times).is_err());
}

#[test]
fn other_types_are_refused() {
    let array = arrow::array::new_null_array(&DataType::LargeUtf8, 3);
    assert!(StripedColumn::shred(&array).unwrap_err().to_string().contains("LargeUtf8"));
}

#[test]
fn a_required_column_is_shared_and_has_no_levels() {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let column = shred(&array);
    assert!(column.size_bytes() < 8000 + 1000, "{}", column.size_bytes());
    let values = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().as_ptr();
    assert_eq!(values(&assemble(&column)), values(&array));
}

#[test]
fn null_places_hold_no_values() {
    let array: ArrayRef = Arc::new((0..1000).map(|n| (n % 10 == 0).then_some(n)).collect::<Int64Array>());
    let column = shred(&array);
    assert_eq!(column.leaves[0].values.as_ref().unwrap().len(), 100);
    assert!(column.size_bytes() < 100 * 8 + 1000 / 8 + 1000, "{}", column.size_bytes());
}

fn list(offsets: &[i32], elements: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", elements.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::new(offsets.to_vec().into()), elements, None))
}

fn record(fields: Vec<(&str, ArrayRef)>, nulls: Option<Vec<bool>>) -> ArrayRef {
    let (names, arrays): (Vec<_>, Vec<_>) =
        fields.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
    Arc::new(StructArray::new(names.into(), arrays, nulls.map(NullBuffer::from)))
}

/// The two documents of Dremel's Figure 2, and a third without anything, so that Links is optional in the data too.
fn documents() -> ArrayRef {
    let numbers = |numbers: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
    let language = record(
        vec![
            ("Code", Arc::new(StringArray::from(vec!["en-us", "en", "en-gb"]))),
            ("Country", Arc::new(StringArray::from(vec![Some("us"), None, Some("gb")]))),
        ],
        None,
    );
    let name = record(
        vec![
            ("Language", list(&[0, 2, 2, 3, 3], language)),
            ("Url", Arc::new(StringArray::from(vec![Some("http://A"), Some("http://B"), None, Some("http://C")]))),
        ],
        None,
    );
    let links = record(
        vec![
            ("Backward", list(&[0, 0, 2, 2], numbers(&[10, 30]))),
            ("Forward", list(&[0, 3, 4, 4], numbers(&[20, 40, 60, 80]))),
        ],
        Some(vec![true, true, false]),
    );
    record(vec![("DocId", numbers(&[10, 20, 30])), ("Links", links), ("Name", list(&[0, 3, 4, 4], name))], None)
}

#[test]
fn the_levels_are_those_of_dremels_figure_3() {
    let array = documents();
    let column = shred(&array);
    let triples = |leaf: usize| -> Vec<(Option<String>, u8, u8)> {
        let leaf = &column.leaves[leaf];
        let values = leaf.values.as_ref().unwrap();
        let values = arrow::compute::cast(values, &DataType::Utf8);
        let values = values.map_or_else(|_| Vec::new(), |values| values.as_string::<i32>().iter().collect_text());
        let mut values = values.into_iter();
        let definitions = leaf.definitions.unpack();
        let highest = leaf.definitions.highest();
        let entry = |(repetition, definition)| {
            let value = if definition == highest { values.next() } else { None };
            (value, repetition, definition)
        };
        leaf.repetitions.unpack().into_iter().zip(definitions).map(entry).collect()
    };
    let entry =
        |value: &str, repetition, definition| ((!value.is_empty()).then(|| value.to_owned()), repetition, definition);
    let third = entry("", 0, 0);
    assert_eq!(triples(0), [entry("10", 0, 0), entry("20", 0, 0), entry("30", 0, 0)], "DocId");
    assert_eq!(triples(1), [entry("", 0, 1), entry("10", 0, 2), entry("30", 1, 2), third.clone()], "Links.Backward");
    let forward = [entry("20", 0, 2), entry("40", 1, 2), entry("60", 1, 2), entry("80", 0, 2), third.clone()];
    assert_eq!(triples(2), forward, "Links.Forward");
    let code = [
        entry("en-us", 0, 2),
        entry("en", 2, 2),
        entry("", 1, 1),
        entry("en-gb", 1, 2),
        entry("", 0, 1),
        third.clone(),
    ];
    assert_eq!(triples(3), code, "Name.Language.Code");
    let country =
        [entry("us", 0, 3), entry("", 2, 2), entry("", 1, 1), entry("gb", 1, 3), entry("", 0, 1), third.clone()];
    assert_eq!(triples(4), country, "Name.Language.Country");
    let url = [entry("http://A", 0, 2), entry("http://B", 1, 2), entry("", 1, 1), entry("http://C", 0, 2), third];
    assert_eq!(triples(5), url, "Name.Url");
    assert_eq!(Value::all_of(&assemble(&column)), Value::all_of(&array));
}

trait CollectText {
    fn collect_text(self) -> Vec<String>;
}

impl<'a, I: Iterator<Item = Option<&'a str>>> CollectText for I {
    fn collect_text(self) -> Vec<String> {
        self.map(|text| text.unwrap().to_owned()).collect()
    }
}

#[test]
fn a_field_of_a_list_of_structs_is_a_list_of_its_values() {
    let codes = assemble_field(&shred(&documents()), &[2, 0, 0]);
    let text = |texts: &[&str]| Value::List(texts.iter().map(|text| Value::Scalar((*text).to_owned())).collect());
    let expected = [
        Value::List(vec![text(&["en-us", "en"]), text(&[]), text(&["en-gb"])]),
        Value::List(vec![text(&[])]),
        Value::List(vec![]),
    ];
    assert_eq!(Value::all_of(&codes), expected);
}

#[test]
fn packed_levels_compare_as_the_levels_do() {
    use super::levels::{BitmapWriter, WORD_ENTRIES, compress};
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (base, range) = (random.below(100) as u8, [1, 2, 3, 9, 150][random.below(5)]);
        let levels: Vec<u8> = (0..random.below(300)).map(|_| base + random.below(range) as u8).collect();
        let packed = Levels::pack(&levels);
        assert_eq!(packed.unpack(), levels, "seed {seed}");
        let threshold = base.saturating_add(random.below(range + 1) as u8);
        let mask: Vec<bool> = levels.iter().map(|_| random.one_in(2)).collect();
        let mut kept = BitmapWriter::with_capacity(levels.len());
        for index in 0..packed.word_count() {
            let first = index * WORD_ENTRIES;
            let bits = mask[first..].iter().take(WORD_ENTRIES).enumerate();
            let mask = bits.fold(0, |word, (at, &bit)| word | u64::from(bit) << at);
            kept.append(compress(packed.at_least(threshold, index), mask), mask.count_ones() as usize);
        }
        let expected = levels.iter().zip(&mask).filter(|(_, kept)| **kept).map(|(level, _)| *level >= threshold);
        assert_eq!(kept.finish().iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "seed {seed}");
    }
}
