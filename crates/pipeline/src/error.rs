//! What can go wrong with a pipeline: it cannot be expressed, it does not fit its tables, or it fails while it runs.

use std::error::Error;

use thermocline_budget::BudgetError;
use thermocline_column_store::PageError;

use crate::{FailedElsewhere, ProbeKind, ValueType};

/// An error of a pipeline. The first group is found while a pipeline is made: what is not expressed here has to run
/// elsewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A slot that the pipeline does not have.
    #[error("slot {slot} is not there: the pipeline has {slot_count}")]
    UnknownSlot {
        /// Its number.
        slot: usize,
        /// Slots that there are.
        slot_count: usize,
    },
    /// More slots than a pipeline can have.
    #[error("a pipeline has at most {limit} slots")]
    TooManySlots {
        /// The most.
        limit: usize,
    },
    /// A payload column that the table does not have.
    #[error("table {table} has {payload_count} payload columns, and none with the number {payload}")]
    UnknownPayload {
        /// The table's name.
        table: String,
        /// The number.
        payload: usize,
        /// Payload columns that there are.
        payload_count: usize,
    },
    /// Payload of a probe that gives none.
    #[error("table {table}: a probe of this kind ({}) gives no payload", kind.name())]
    NoPayload {
        /// The table's name.
        table: String,
        /// How it is probed.
        kind: ProbeKind,
    },
    /// A key of more or fewer columns than the table's.
    #[error("table {table}: the key has {found} columns, expected {expected}")]
    KeyColumns {
        /// The table's name.
        table: String,
        /// How many it could have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// A value of a type that this use of it does not have.
    #[error("{name} is of type {value_type}; expected {expected}")]
    Type {
        /// Whose type.
        name: String,
        /// The type.
        value_type: ValueType,
        /// What it could be.
        expected: &'static str,
    },
    /// A filter by values of another kind than the column's.
    #[error("{name} is of type {value_type} and cannot be compared with a {found}")]
    Domain {
        /// The value's name.
        name: String,
        /// Its type.
        value_type: ValueType,
        /// The kind of the domain's bounds.
        found: String,
    },
    /// Arithmetic that pipelines do not do.
    #[error("{reason}")]
    Expression {
        /// What is wrong with it.
        reason: String,
    },
    /// A parameter that was not bound to a value of its type.
    #[error("parameter ${number} has no value of type {expected}")]
    Parameter {
        /// Its number.
        number: usize,
        /// The type.
        expected: ValueType,
    },
    /// Other tables than the pipeline was made for.
    #[error("probe {probe} of the pipeline expects {expected}; found {found}")]
    Table {
        /// Which probe.
        probe: usize,
        /// The table it was made for.
        expected: String,
        /// What it was given.
        found: String,
    },
    /// The source does not give a page.
    #[error("row group {row_group}, column {column}: {source}")]
    Source {
        /// Which row group.
        row_group: usize,
        /// The column's name.
        column: String,
        /// What the source says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The source does not give a batch.
    #[error("{source}")]
    Batches {
        /// What the source says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A page that cannot be read.
    #[error("row group {row_group}, column {column}: {source}")]
    Page {
        /// Which row group.
        row_group: usize,
        /// The column's name.
        column: String,
        /// What is wrong with it.
        source: PageError,
    },
    /// A page that is not what the pipeline or the source says.
    #[error("row group {row_group}, column {column}: the page has {found}, expected {expected}")]
    PageMismatch {
        /// Which row group.
        row_group: usize,
        /// The column's name.
        column: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A value outside of what was known of its column beforehand, which groups were counted on for: of a file that
    /// others wrote its footer may be wrong. Who takes nothing for known still has an answer.
    #[error(
        "row group {row_group}, column {column}: a value is {found}, outside of {expected}, between which all are by the \
         file's statistics"
    )]
    OutsideOfStatistics {
        /// Which row group.
        row_group: usize,
        /// The column's name.
        column: String,
        /// The value.
        found: String,
        /// What it should be: from the least to the greatest.
        expected: String,
    },
    /// Arithmetic whose result does not fit its type.
    #[error("overflow: {left} {operator} {right} does not fit the type of the result")]
    Overflow {
        /// The left operand.
        left: i128,
        /// What was done.
        operator: &'static str,
        /// The right operand.
        right: i128,
    },
    /// A sum that an average is made of and that 128 bits do not hold.
    #[error("overflow: the values of {name} add up to more than 38 digits")]
    SumOverflow {
        /// The average's sum.
        name: String,
    },
    /// A division of integers by zero.
    #[error("division by zero: {left} {operator} 0")]
    DivisionByZero {
        /// The left operand.
        left: i128,
        /// What was done.
        operator: &'static str,
    },
    /// A number that has no place in the type that it is cast to.
    #[error("{value} does not fit {to}")]
    Cast {
        /// The number.
        value: f64,
        /// The type.
        to: ValueType,
    },
    /// A date whose parts have no numbers that other engines agree on.
    #[error("the {part} of a date {days} days from 1970-01-01, beyond the calendar")]
    DateOutOfRange {
        /// What of it was to be taken.
        part: &'static str,
        /// The date.
        days: i64,
    },
    /// A test of texts that fails, or tells neither yes nor no.
    #[error("{test}: {source}")]
    TextTest {
        /// The test, as people know it.
        test: String,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A function of texts that fails, or makes no text of one.
    #[error("{text}: {source}")]
    TextMap {
        /// What it makes, as people know it.
        text: String,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A decimal with more digits than its type allows, where it has to fit 64 bits.
    #[error("{name}: the decimal {value} (without its point) has more than 18 digits, which its type does not")]
    Digits {
        /// Whose value.
        name: String,
        /// The whole number behind it.
        value: i128,
    },
    /// More distinct texts or rows than codes of 32 bits can tell apart.
    #[error("{what}: more than 2^32")]
    TooMany {
        /// Of what.
        what: String,
    },
    /// More groups than the run was to make.
    #[error("more than {limit} groups")]
    TooManyGroups {
        /// The most.
        limit: u64,
    },
    /// More keys in a table than what follows is worth it with.
    #[error("more than {limit} keys")]
    TooManyKeys {
        /// The most.
        limit: u64,
    },
    /// A pipeline that builds a table was to give batches of rows.
    #[error("table {table} is built as a whole and not given out in batches")]
    TableInBatches {
        /// The table's name.
        table: String,
    },
    /// Whoever takes the rows of a pipeline does not go on.
    #[error("the rows are not taken: {0}")]
    Consumer(#[source] Box<dyn Error + Send + Sync>),
    /// There is no memory for what the pipeline keeps.
    #[error(transparent)]
    Memory(#[from] BudgetError),
    /// It was cancelled.
    #[error("the pipeline was cancelled")]
    Cancelled,
}

impl PipelineError {
    /// Whether a thread ends with it because another one has failed.
    pub(crate) fn follows_another(&self) -> bool {
        match self {
            Self::Cancelled => true,
            Self::Source { source, .. } => source.is::<FailedElsewhere>(),
            _ => false,
        }
    }
}

/// The result of every fallible call of this crate.
pub type Result<T, E = PipelineError> = std::result::Result<T, E>;
