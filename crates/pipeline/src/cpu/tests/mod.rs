mod behaviour;
mod equivalence;
mod generator;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_budget::{Account, Budget, Purpose};
use thermocline_hardware::Clock;

use crate::{
    BuiltTable, InstructionSet, Outcome, PageSource, Pipeline, PipelineError, RunOptions, RunReport, Value, run,
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
    let clock = LeapingClock(AtomicU64::new(thread_count as u64));
    let account = account(1 << 30);
    let cancelled = AtomicBool::new(false);
    let options = RunOptions { thread_count, instructions, clock: &clock, account: &account, cancelled: &cancelled };
    run(pipeline, source, tables, &options)
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
