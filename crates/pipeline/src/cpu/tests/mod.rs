mod behaviour;
mod equivalence;
mod failing;
mod generator;
mod statistics;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use thermocline_budget::{Account, Budget, Purpose};
use thermocline_column_store::encode;
use thermocline_hardware::Clock;
use thermocline_predicate::{Domain, Scalar};

use crate::ir::{PipelineBuilder, Slot, ValueType};
use crate::{
    BuiltTable, GroupWay, InstructionSet, MemoryPages, Outcome, PageSource, Pipeline, PipelineError, RunOptions,
    RunReport, Value, run,
};

/// A clock that goes by leaps, so that measurements order stages in every way.
#[derive(Debug)]
struct LeapingClock(AtomicU64);

impl Clock for LeapingClock {
    fn monotonic_ns(&self) -> u64 {
        let leap = self.0.load(Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        self.0.fetch_add(leap + 1, Ordering::Relaxed)
    }

    fn wall_ns(&self) -> i64 {
        0
    }
}

fn pages(row_groups: Vec<Vec<ArrayRef>>) -> MemoryPages {
    let mut source = MemoryPages::new();
    for columns in row_groups {
        let page = |column: &ArrayRef| {
            let mut bytes = Vec::new();
            let summary = encode(column, &mut bytes).unwrap();
            (bytes, summary)
        };
        source.push(columns.iter().map(page).collect());
    }
    source
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn scan_longs(builder: &mut PipelineBuilder, count: usize) -> Vec<Slot> {
    (0..count).map(|number| builder.scan(format!("c{number}"), number, ValueType::Int64, false).unwrap()).collect()
}

fn equals(value: i128) -> Domain {
    Domain::point(Scalar::Int(value))
}

fn account(limit_bytes: u64) -> Account {
    Budget::new(limit_bytes, None).account("pipeline", Purpose::Query)
}

/// Runs a pipeline with all else as tests need it.
fn run_with(
    pipeline: &Pipeline,
    source: &dyn PageSource,
    tables: &[Arc<BuiltTable>],
    thread_count: usize,
    instructions: InstructionSet,
) -> Result<(Outcome, RunReport), PipelineError> {
    run_by(thread_count, instructions, |options| run(pipeline, source, tables, options))
}

fn run_by<R>(thread_count: usize, instructions: InstructionSet, run: impl FnOnce(&RunOptions<'_>) -> R) -> R {
    let clock = LeapingClock(AtomicU64::new(thread_count as u64));
    let account = account(1 << 30);
    let cancelled = AtomicBool::new(false);
    run(&RunOptions {
        thread_count,
        instructions,
        clock: &clock,
        account: &account,
        cancelled: &cancelled,
        // Tests of both ways run on all numbers of threads.
        groups: if thread_count == 2 { GroupWay::Parted } else { GroupWay::Together },
    })
}

fn rows_of(outcome: Outcome) -> Vec<Vec<Value>> {
    match outcome {
        Outcome::Rows { rowset, .. } => rowset.sorted_rows(),
        Outcome::Table(table) => panic!("a table: {table:?}"),
    }
}

fn table_of(outcome: Outcome) -> Arc<BuiltTable> {
    match outcome {
        Outcome::Table(table) => table,
        Outcome::Rows { rowset, .. } => panic!("rows: {rowset:?}"),
    }
}
