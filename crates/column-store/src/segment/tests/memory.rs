//! What encoding takes is what it says: counted by an allocator that remembers each thread's peak.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    StringViewArray,
};
use thermocline_seeded::Random;

use crate::{EncodedRowGroup, ROW_GROUP_ROWS, encoding_bytes};

/// Allocated by this thread, less what it gave back, and the most that it was.
struct Meter;

thread_local! {
    static NOW_AND_PEAK: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: isize) {
    let _ = NOW_AND_PEAK.try_with(|meter| {
        let (now, peak) = meter.get();
        meter.set((now + bytes, peak.max(now + bytes)));
    });
}

// SAFETY: all is done by the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static METER: Meter = Meter;

/// The most that was allocated beside what there was before.
fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW_AND_PEAK.with(|meter| {
        let (now, _) = meter.get();
        meter.set((now, now));
        now
    });
    let done = work();
    (done, NOW_AND_PEAK.with(|meter| meter.get().1 - before) as usize)
}

/// Whatever encodings keep beside values: tables of symbols while they are searched for.
const FIXED_BYTES: usize = 1 << 20;

#[test]
fn encoding_takes_no_more_memory_than_it_says() {
    const ROWS: usize = 100_000;
    let mut random = Random::new(7);
    let long = |random: &mut Random| format!("{:030}", random.below_u64(1 << 40)).repeat(1 + random.below(9));
    let texts = |random: &mut Random, distinct: usize, text: &dyn Fn(&mut Random) -> String| -> ArrayRef {
        let known: Vec<String> = (0..distinct).map(|_| text(random)).collect();
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| random.pick(&known).as_str())))
    };
    let noise = |random: &mut Random| (0..20).map(|_| random.below(128) as u8 as char).collect::<String>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("long texts", texts(&mut random, ROWS, &long)),
        ("short texts", texts(&mut random, 2 * ROWS, &|random| random.below_u64(1 << 30).to_string())),
        ("noise", texts(&mut random, ROWS, &noise)),
        ("many distinct texts", texts(&mut random, ROWS / 3, &|random| random.below_u64(1 << 44).to_string())),
        ("few texts", texts(&mut random, 9, &long)),
        ("letters", texts(&mut random, 20, &|random| "abcdefg"[random.below(7)..][..1].to_owned())),
        ("bytes", Arc::new(Int8Array::from_iter_values((0..ROWS).map(|_| random.below(99) as i8)))),
        ("narrow numbers", Arc::new(Int32Array::from_iter_values((0..ROWS).map(|_| random.below(99) as i32)))),
        ("numbers", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| random.next_u64() as i64)))),
        (
            "prices",
            Arc::new(Float64Array::from_iter_values((0..ROWS).map(|_| random.below_u64(1 << 30) as f64 / 100.0))),
        ),
        ("floats", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|_| random.next_u64() as f64 / 7.7e10)))),
        (
            "decimals",
            Arc::new(Decimal128Array::from_iter_values((0..ROWS).map(|_| i128::from(random.next_u64()) << 40))),
        ),
    ];
    let together = RecordBatch::try_from_iter(columns.clone()).unwrap();
    let alone = columns.iter().map(|(name, column)| RecordBatch::try_from_iter([(*name, Arc::clone(column))]).unwrap());
    for batch in std::iter::once(together).chain(alone) {
        check(&batch);
    }
}

#[test]
fn as_many_texts_as_a_dictionary_has_at_most_take_no_more_memory_than_they_say() {
    // Half as many as rows, one more, with which they are given up, and numbers at which the table that finds them has
    // just grown.
    for distinct in [41_000, 65_537, 82_000, ROW_GROUP_ROWS / 2, ROW_GROUP_ROWS / 2 + 1, ROW_GROUP_ROWS / 2 + 2] {
        let text = |row: usize| format!("k{}", row * distinct / ROW_GROUP_ROWS);
        let plain: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROW_GROUP_ROWS).map(text)));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..ROW_GROUP_ROWS).map(text)));
        for (layout, column) in [("plain", plain), ("views", views)] {
            check(&RecordBatch::try_from_iter([(format!("{distinct} {layout}"), column)]).unwrap());
        }
    }
}

#[test]
fn long_texts_in_a_dictionary_that_is_given_up_take_no_more_memory_than_they_say() {
    const ROWS: usize = 100_000;
    let mut random = Random::new(11);
    // A third of the rows has nearly all bytes, so that a dictionary is as large as the texts. As many as a buffer that
    // doubles would have twice the room for.
    let noise = |random: &mut Random| (0..400).map(|_| random.below(128) as u8 as char).collect::<String>();
    let digits = |random: &mut Random| (0..400).map(|_| (b'0' + random.below(10) as u8) as char).collect::<String>();
    let texts = |random: &mut Random, long: &dyn Fn(&mut Random) -> String| -> Vec<String> {
        (0..ROWS).map(|row| if row % 3 == 0 { long(random) } else { format!("{}", row % 7) }).collect()
    };
    for (name, long) in [("noise", &noise as &dyn Fn(&mut Random) -> String), ("digits", &digits)] {
        let texts = texts(&mut random, long);
        let plain: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        let with_null: ArrayRef = Arc::new(StringArray::from_iter(
            texts.iter().enumerate().map(|(row, text)| (row % 9 != 0).then_some(text)),
        ));
        for (layout, column) in [("plain", plain), ("views", views), ("with NULLs", with_null)] {
            check(&RecordBatch::try_from_iter_with_nullable([(format!("{name} {layout}"), column, true)]).unwrap());
        }
    }
}

/// Encodes the rows in batches as they come, and compares what that takes with what is told.
fn check(batch: &RecordBatch) {
    let rows = batch.num_rows();
    let pieces: Vec<RecordBatch> = (0..rows).step_by(8192).map(|row| batch.slice(row, 8192.min(rows - row))).collect();
    let told_bytes = pieces.iter().map(encoding_bytes).sum::<usize>() + FIXED_BYTES;
    let (group, peak_bytes) = peak_bytes(|| EncodedRowGroup::encode(&batch.schema(), &pieces).unwrap());
    let name = batch.schema().field(0).name().clone();
    assert!(peak_bytes <= told_bytes, "{name}: {peak_bytes} bytes taken, {told_bytes} told");
    // Told too much, other queries' memory would be taken for nothing.
    assert!(told_bytes < 6 * peak_bytes + 8 * FIXED_BYTES, "{name}: {peak_bytes} bytes taken, {told_bytes} told");
    assert!(group.size_bytes() as usize <= told_bytes, "{name}");
}
