//! `one_row(value, row_count)`: the value, of a row at most.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::max;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static ONE_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OneRow::default())));

/// `one_row(value, row_count)`.
pub(super) fn call(value: Expr, row_count: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&ONE_ROW), vec![value, row_count]))
}

/// No name that SQL could find. Volatile, so that it is asked where it stands: of the rows that a query is about.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl Default for OneRow {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [value, _] => Ok(value.clone()),
            types => plan_err!("one_row takes two arguments, not {}", types.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [value, _] => Ok(Arc::new(Field::new(self.name(), value.data_type().clone(), true))),
            fields => plan_err!("one_row takes two arguments, not {}", fields.len()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (Some(row_counts), Some(value), 0) = (args.args.pop(), args.args.pop(), args.args.len()) else {
            return plan_err!("one_row takes two arguments");
        };
        let row_counts = row_counts.into_array(args.number_rows)?;
        if let Some(most) = max(row_counts.as_primitive::<Int64Type>())
            && most > 1
        {
            return exec_err!(
                "a subquery that is used as a value has {most} rows for a row of the query around it, where there may be one at \
                 most: take an aggregate of them, or LIMIT 1"
            );
        }
        Ok(value)
    }
}
