//! Arbitrary bytes as a column page.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use thermocline_column_store::{Body, Encoding, IntegerEncoding, Integers, Page, PhysicalType, encode, encode_as};

/// Pages of every encoding.
pub fn corpus() -> Vec<Vec<u8>> {
    let numbers = |of: fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter((0..2500).map(|index| (index % 9 != 4).then_some(of(index)))))
    };
    let texts = |of: fn(usize) -> String| -> ArrayRef { Arc::new(StringArray::from_iter_values((0..1500).map(of))) };
    let mut pages = Vec::new();
    let mut add = |array: &ArrayRef, encoding: Option<Encoding>| {
        let mut page = Vec::new();
        match encoding {
            None => encode(array, &mut page).unwrap(),
            Some(encoding) => encode_as(array, encoding, &mut page).unwrap(),
        };
        pages.push(page);
    };
    for encoding in IntegerEncoding::ALL {
        add(&numbers(|index| index / 30 * 1000), Some(Encoding::Integers(encoding)));
        add(&texts(|index| format!("name {}", index / 40 % 9)), Some(Encoding::Dictionary(encoding)));
        let prices = Float64Array::from_iter_values((0..1500).map(|index| f64::from(index) / 7.0));
        add(&(Arc::new(prices) as ArrayRef), Some(Encoding::DecimalFloats(encoding)));
    }
    add(&numbers(|index| index.wrapping_mul(0x1234_5678_9abc_def1)), None);
    add(&numbers(|_| 7), None);
    add(&texts(|index| "x".repeat(index % 20)), Some(Encoding::Plain));
    add(&texts(|index| format!("https://example.org/{index}/ü")), Some(Encoding::Symbols));
    add(&(Arc::new(BooleanArray::from_iter((0..1030).map(|index| Some(index % 3 == 0)))) as ArrayRef), None);
    add(&(Arc::new(Decimal128Array::from(vec![Some(1), None, Some(i128::MAX / 5)])) as ArrayRef), None);
    add(&(Arc::new(Int64Array::from(vec![None; 5])) as ArrayRef), None);
    pages
}

/// An Arrow type that is stored so.
fn data_type(physical_type: PhysicalType) -> Option<DataType> {
    let known = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 2),
        DataType::Utf8,
        DataType::Binary,
    ];
    known.into_iter().find(|known| PhysicalType::of(known) == Some(physical_type))
}

/// Any bytes are a page or an error, whether or not their checksum is right; what can be decoded is the same in parts.
pub fn run(input: &[u8]) {
    let Ok(page) = Page::open_verified(input) else {
        assert!(Page::open(input).is_err(), "the checksum alone makes no page");
        return;
    };
    walk(&page);
    let data_type = data_type(page.physical_type()).expect("a type that the page was opened with");
    let Ok(whole) = page.decode(&data_type) else { return };
    assert_eq!(whole.len(), page.value_count());
    assert_eq!(whole.null_count(), page.null_count());
    for index in 0..page.mini_block_count() {
        let part = page.decode_range(index..index + 1, &data_type).expect("a part of a page that could be decoded");
        assert_eq!(part.to_data(), whole.slice(index * 1024, part.len()).to_data(), "mini-block {index}");
    }
}

/// Looks at the encoded values as who works on them does.
fn walk(page: &Page<'_>) {
    let integers = match page.body() {
        Body::Integers(integers) => *integers,
        Body::DecimalFloats(floats) => {
            for index in 0..=page.mini_block_count() {
                assert!(floats.exceptions(index).all(|(place, _)| place < 1024));
            }
            *floats.numbers()
        }
        Body::Dictionary { dictionary, codes } => {
            for code in 0..dictionary.entry_count() {
                assert!(dictionary.entry(code).is_some(), "entry {code}");
            }
            assert_eq!(dictionary.entry(dictionary.entry_count()), None);
            let (Ok(place) | Err(place)) = dictionary.code_of(b"a text");
            assert!(place <= dictionary.entry_count());
            *codes
        }
        _ => return,
    };
    for index in 0..page.mini_block_count() {
        match integers {
            Integers::FrameOfReference(frames) => {
                let frame = frames.frame(index).expect("a frame for each mini-block");
                let mut values = [0u64; 1024];
                frame.differences.unpack(&mut values).expect("any value fits 64 bits");
                assert_eq!(frame.differences.get(1023), values[1023]);
            }
            Integers::Delta(deltas) => {
                assert!(deltas.first(index).is_some() && deltas.steps(index).is_some(), "mini-block {index}");
            }
            Integers::RunLength(runs) => {
                let end = runs.runs(index).map(|(end, _)| end).last();
                assert_eq!(end, Some((page.value_count() - index * 1024).min(1024)), "mini-block {index}");
            }
            Integers::PackedRuns(runs) => {
                let frame = runs.frame(index).expect("a frame for each mini-block");
                let (mut decoded, mut differences) = ([0u64; 1024], [0u64; 1024]);
                integers.decode(index, &mut decoded);
                frame.unpack(&mut differences).expect("any value fits 64 bits");
                let last = frame.starts().iter().map(|word| word.count_ones() as usize).sum::<usize>() - 1;
                assert_eq!(frame.differences.get(last), differences[1023], "mini-block {index}");
                assert_eq!(frame.base.wrapping_add(differences[0]), decoded[0], "mini-block {index}");
            }
            _ => {}
        }
    }
}
