//! The fuzz targets' bodies over seeded mutations of small corpora. A failure prints its seed, and a page its bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, missing_docs, unreachable_pub)]

mod fuzz_bodies;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use thermocline_column_store::{EncodedRowGroup, Encoding, IntegerEncoding, SegmentWriter, encode, encode_as};
use thermocline_medium::{Medium, MemoryMedium};
use thermocline_seeded::Random;

/// Pages of every encoding.
fn corpus() -> Vec<Vec<u8>> {
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

/// Changes a byte of `region`, or copies some bytes there.
fn mutate(input: &mut [u8], region: Range<usize>, random: &mut Random) {
    let at = region.start + random.below(region.len());
    match random.below(5) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        2 => input[at] = input[at].wrapping_add(1),
        3 => input[at] = random.below(256) as u8,
        _ => {
            let from = random.below(input.len());
            let length = (1 + random.below(16)).min(input.len() - at.max(from));
            input.copy_within(from..from + length, at);
        }
    }
}

#[test]
fn mutated_pages_are_pages_or_errors() {
    let corpus = corpus();
    for page in &corpus {
        fuzz_bodies::page::run(page);
    }
    for seed in 1..=20_000u64 {
        let mut random = Random::new(seed);
        let mut input = corpus[random.below(corpus.len())].clone();
        for _ in 0..1 + random.below(3) {
            // The header, what follows it, or anywhere.
            let region = [128, 400, input.len()][random.below(3)].min(input.len());
            mutate(&mut input, 0..region, &mut random);
        }
        if catch_unwind(AssertUnwindSafe(|| fuzz_bodies::page::run(&input))).is_err() {
            panic!("seed {seed}: {input:02x?}");
        }
    }
}

/// Files of segments with so many rows in each row group, and where their footers start.
fn segment(row_counts: &[i64]) -> (Vec<u8>, usize) {
    let schema = fuzz_bodies::segment::schema();
    let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let mut writer = SegmentWriter::create(Arc::clone(&medium), "s", Arc::clone(&schema)).unwrap();
    for count in row_counts {
        let numbers = || 0..*count;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(numbers())),
            Arc::new(StringArray::from_iter(
                numbers().map(|number| (number % 3 > 0).then(|| format!("text {number}"))),
            )),
            Arc::new(
                TimestampMicrosecondArray::from_iter(numbers().map(|number| (number % 2 > 0).then_some(number * 1000)))
                    .with_timezone("Europe/Berlin"),
            ),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        writer.append(&EncodedRowGroup::encode(&schema, &[batch]).unwrap()).unwrap();
    }
    let footer_at = writer.size_bytes() as usize;
    writer.finish().unwrap();
    let file = medium.open("s").unwrap();
    let mut bytes = vec![0; medium.size_bytes(&file).unwrap() as usize];
    medium.read_at(&file, 0, &mut bytes).unwrap();
    (bytes, footer_at)
}

#[test]
fn mutated_segments_are_consistent_or_errors() {
    let corpus = [segment(&[]), segment(&[10]), segment(&[1500, 3, 700])];
    for (file, _) in &corpus {
        fuzz_bodies::segment::run(file);
    }
    for seed in 1..=6000u64 {
        let mut random = Random::new(seed);
        let (file, footer_at) = &corpus[random.below(corpus.len())];
        let mut input = file.clone();
        for _ in 0..1 + random.below(3) {
            let end = input.len();
            // The columns, the directory and the trailer, mostly.
            let regions = [*footer_at..footer_at + 120, *footer_at..footer_at + 900, end - 64..end, 0..end];
            mutate(&mut input, regions[random.below(4)].clone(), &mut random);
        }
        if catch_unwind(AssertUnwindSafe(|| fuzz_bodies::segment::run(&input))).is_err() {
            panic!("seed {seed}");
        }
    }
}
