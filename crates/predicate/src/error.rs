//! What can go wrong when a predicate meets a column.

use arrow::datatypes::DataType;

use crate::{FieldPath, ScalarKind};

/// Errors of predicate evaluation. None of them depends on the data: they mean that the plan and the columns
/// disagree about types or lengths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredicateError {
    /// The bounds are of a kind that this column type is not compared with.
    #[error("a predicate over {kind} values can't be evaluated on a column of type {data_type}")]
    TypeMismatch {
        /// Kind of the predicate's bounds.
        kind: ScalarKind,
        /// Type of the column.
        data_type: DataType,
    },
    /// A field of the conjunction has no column.
    #[error("no column for {path}, which the predicate constrains")]
    MissingColumn {
        /// The constrained field.
        path: FieldPath,
    },
    /// A column is longer or shorter than the rows to evaluate.
    #[error("column {path} has {seen_rows} rows, expected {expected_rows}")]
    LengthMismatch {
        /// The constrained field.
        path: FieldPath,
        /// Rows the caller announced.
        expected_rows: usize,
        /// Rows the column has.
        seen_rows: usize,
    },
    /// Evaluation of one field of a conjunction failed.
    #[error("column {path}: {source}")]
    Field {
        /// The constrained field.
        path: FieldPath,
        /// Why.
        source: Box<PredicateError>,
    },
}
