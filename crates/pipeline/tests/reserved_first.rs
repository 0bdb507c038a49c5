//! What pipelines allocate was reserved before: an allocator that knows the account looks at each allocation.
//!
//! One test, since the process has one allocator; the data are so large that what is never reserved (what is there of a
//! mini-block, tables of a fixed size) is little beside any of it.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, Int64Array, StringArray};
use thermocline_budget::{Account, Budget, Purpose};
use thermocline_column_store::encode;
use thermocline_hardware::ManualClock;
use thermocline_pipeline::{
    Aggregate, GroupWay, InstructionSet, MemoryPages, Outcome, Pipeline, PipelineBuilder, PipelineError, RunOptions,
    Slot, ValueType, run,
};

/// The system's allocator, which compares what is allocated with what is reserved.
struct Comparing;

static ACCOUNT: OnceLock<Account> = OnceLock::new();
static ALLOCATED_BYTES: AtomicI64 = AtomicI64::new(0);
/// What there was before a run.
static BEFORE_BYTES: AtomicI64 = AtomicI64::new(i64::MAX / 2);
/// The most that was allocated beyond what was reserved.
static EXCESS_BYTES: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    // Another thread may reserve and allocate, or free and give back, between the looks at what is allocated and at what
    // is reserved: of the reserved bytes before and after, the more are those that its own belong to.
    let reserved_bytes = || ACCOUNT.get().filter(|_| bytes > 0).map(|account| account.reserved_bytes() as i64);
    let before_bytes = reserved_bytes();
    let allocated_bytes = ALLOCATED_BYTES.fetch_add(bytes, Ordering::AcqRel) + bytes;
    if let Some(reserved_bytes) = before_bytes.max(reserved_bytes()) {
        let of_run = allocated_bytes - BEFORE_BYTES.load(Ordering::Relaxed);
        EXCESS_BYTES.fetch_max(of_run - reserved_bytes, Ordering::Relaxed);
    }
}

// SAFETY: all is done by the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Comparing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) };
        count(-(layout.size() as i64));
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count(new_bytes as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }
}

#[global_allocator]
static COMPARING: Comparing = Comparing;

const ROWS: i64 = 400_000;
const ROW_GROUP_ROWS: i64 = 2_000;
/// Of each of two threads: what is there of a mini-block, a bitmap of a million numbers, empty tables.
const UNRESERVED_BYTES: i64 = 1 << 18;

/// Columns of rows by their numbers, as pages.
fn pages(columns: &[&dyn Fn(i64) -> ArrayRef]) -> MemoryPages {
    let mut source = MemoryPages::new();
    for start in (0..ROWS).step_by(ROW_GROUP_ROWS as usize) {
        let page = |column: &&dyn Fn(i64) -> ArrayRef| {
            let mut bytes = Vec::new();
            let summary = encode(&column(start), &mut bytes).unwrap();
            (bytes, summary)
        };
        source.push(columns.iter().map(page).collect());
    }
    source
}

fn longs(value: impl Fn(i64) -> i64) -> impl Fn(i64) -> ArrayRef {
    move |start| Arc::new(Int64Array::from_iter_values((start..start + ROW_GROUP_ROWS).map(&value)))
}

fn texts(text: impl Fn(i64) -> String) -> impl Fn(i64) -> ArrayRef {
    move |start| Arc::new(StringArray::from_iter_values((start..start + ROW_GROUP_ROWS).map(&text)))
}

fn scans(types: &[ValueType]) -> (PipelineBuilder, Vec<Slot>) {
    let mut builder = PipelineBuilder::new();
    let scan = |(number, value_type): (usize, &ValueType)| {
        builder.scan(format!("c{number}"), number, *value_type, false).unwrap()
    };
    let slots = types.iter().enumerate().map(scan).collect();
    (builder, slots)
}

/// Scrambled, so that no order or closeness helps.
fn scrambled(row: i64) -> i64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64).rotate_left(23)
}

fn table(types: &[ValueType], key_count: usize, lists_texts: bool) -> Pipeline {
    let (builder, slots) = scans(types);
    let (keys, payload) = slots.split_at(key_count);
    let table = builder.build("t", keys, payload.to_vec()).unwrap();
    if lists_texts { table.listing_texts() } else { table }
}

fn groups(types: &[ValueType], group_count: usize, aggregates: fn(&[Slot]) -> Vec<Aggregate>) -> Pipeline {
    let (builder, slots) = scans(types);
    builder.aggregate(slots[..group_count].to_vec(), aggregates(&slots)).unwrap()
}

/// Runs a pipeline within a limit; what the outcome holds beyond what is reserved in the end, and the most that there was
/// beyond it before.
fn excess_bytes(
    pipeline: &Pipeline,
    source: &MemoryPages,
    (thread_count, groups): (usize, GroupWay),
    account: &Account,
) -> Result<(i64, i64), PipelineError> {
    let (clock, cancelled) = (ManualClock::new(0), AtomicBool::new(false));
    let instructions = InstructionSet::detect();
    let options = RunOptions { thread_count, instructions, clock: &clock, account, cancelled: &cancelled, groups };
    let before_bytes = ALLOCATED_BYTES.load(Ordering::Relaxed);
    EXCESS_BYTES.store(0, Ordering::Relaxed);
    BEFORE_BYTES.store(before_bytes, Ordering::Relaxed);
    let outcome = run(pipeline, source, &[], &options);
    BEFORE_BYTES.store(i64::MAX / 2, Ordering::Relaxed);
    let held_bytes = ALLOCATED_BYTES.load(Ordering::Relaxed) - before_bytes;
    let left_bytes = held_bytes - account.reserved_bytes() as i64;
    match outcome? {
        (Outcome::Rows { rowset, reservation: _held }, _) => assert!(rowset.row_count >= 100),
        (Outcome::Table(table), _) => assert_eq!(table.row_count() as i64, ROWS),
    }
    Ok((left_bytes, EXCESS_BYTES.load(Ordering::Relaxed)))
}

#[test]
fn nothing_that_grows_with_the_data_is_allocated_before_it_is_reserved() {
    use ValueType::{Int64, Text};
    let budget = Budget::new(1 << 40, None);
    let account = ACCOUNT.get_or_init(|| budget.account("pipeline", Purpose::Query));
    let number = longs(scrambled);
    let near = longs(|row| row);
    let repeated = longs(|row| scrambled(row % 100_000));
    let halves = longs(|row| scrambled(row / 2));
    let few_numbers = longs(|row| row % 1000);
    let many_texts = texts(|row| format!("a text that is not short {row}"));
    let some_texts = texts(|row| format!("a text that is not short {}", row % 60_000));
    let few_texts = texts(|row| format!("a text {}", row % 100));
    // Each of a thousand many times in a row.
    let long_texts = texts(|row| format!("{:04}{}", row / 400, "long ".repeat(800)));
    let sums = |slots: &[Slot]| vec![Aggregate::Sum(slots[1]), Aggregate::Maximum(slots[1]), Aggregate::CountRows];
    let by_two = |slots: &[Slot]| vec![Aggregate::Sum(slots[2])];
    let greatest = |slots: &[Slot]| vec![Aggregate::Maximum(slots[1]), Aggregate::Minimum(slots[1])];
    type Column<'c> = &'c dyn Fn(i64) -> ArrayRef;
    let both: &[GroupWay] = &[GroupWay::Together, GroupWay::Parted];
    let one: &[GroupWay] = &[GroupWay::Together];
    let cases: Vec<(&str, Vec<Column<'_>>, Pipeline, &[GroupWay])> = vec![
        ("a table of many texts", vec![&near, &many_texts], table(&[Int64, Text], 1, false), one),
        ("a table that lists texts", vec![&near, &many_texts], table(&[Int64, Text], 1, true), one),
        ("a table of some texts", vec![&number, &some_texts], table(&[Int64, Text], 1, false), one),
        ("a table of few texts", vec![&number, &few_texts], table(&[Int64, Text], 1, true), one),
        ("a table of several rows a key", vec![&repeated, &number], table(&[Int64, Int64], 1, false), one),
        ("a table of long texts", vec![&number, &long_texts], table(&[Int64, Text], 1, false), one),
        ("a table by long texts", vec![&long_texts, &number], table(&[Text, Int64], 1, false), one),
        ("a table by texts", vec![&many_texts, &number], table(&[Text, Int64], 1, false), one),
        ("a table by hashed pairs", vec![&number, &many_texts, &near], table(&[Int64, Text, Int64], 2, true), one),
        ("groups by numbers", vec![&number, &near], groups(&[Int64, Int64], 1, sums), both),
        ("groups by near numbers", vec![&near, &near], groups(&[Int64, Int64], 1, sums), both),
        ("groups by texts", vec![&many_texts, &near], groups(&[Text, Int64], 1, sums), both),
        ("groups by two", vec![&some_texts, &few_numbers, &near], groups(&[Text, Int64, Int64], 2, by_two), both),
        ("groups alone", vec![&halves, &near], groups(&[Int64, Int64], 1, |_| Vec::new()), both),
        ("long texts of groups", vec![&few_numbers, &long_texts], groups(&[Int64, Text], 1, greatest), one),
        ("texts of groups", vec![&near, &many_texts], groups(&[Int64, Text], 1, greatest), one),
    ];
    let mut failures = Vec::new();
    for (name, columns, pipeline, ways) in &cases {
        let source = pages(columns);
        for by in [1, 2].iter().flat_map(|threads| ways.iter().map(move |way| (*threads, *way))) {
            let (left_bytes, excess_bytes) = excess_bytes(pipeline, &source, by, account).unwrap();
            assert_eq!(account.reserved_bytes(), 0, "{name}");
            if excess_bytes > UNRESERVED_BYTES {
                failures.push(format!("{name}, {by:?}: {excess_bytes} bytes too early"));
            }
            if left_bytes > UNRESERVED_BYTES {
                failures.push(format!("{name}, {by:?}: {left_bytes} bytes never reserved"));
            }
        }
        // With twice as much room each time, until there is enough.
        let mut limit_bytes = 1 << 20;
        while budget.limit_bytes() != u64::MAX {
            budget.set_limit(limit_bytes);
            limit_bytes *= 2;
            let ended = excess_bytes(pipeline, &source, (2, ways[ways.len() - 1]), account);
            assert_eq!(account.reserved_bytes(), 0, "{name} in {limit_bytes} bytes");
            match ended {
                Ok(_) => budget.set_limit(u64::MAX),
                Err(PipelineError::Memory(_)) => {}
                Err(error) => failures.push(format!("{name} in {limit_bytes} bytes: {error}")),
            }
            let excess_bytes = EXCESS_BYTES.load(Ordering::Relaxed);
            if excess_bytes > UNRESERVED_BYTES {
                failures.push(format!("{name} in {limit_bytes} bytes: {excess_bytes} too early"));
            }
        }
        budget.set_limit(1 << 40);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
