//! `apart(value)`: that value, in a form that hides how it is computed from the expressions around it.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

static APART: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Apart::default())));

/// Immutable, so that equal calls count as equal and a call of a constant is that constant; no name that SQL could
/// find.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart {
    signature: Signature,
}

impl Default for Apart {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        "apart"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [value] => Ok(value.clone()),
            types => plan_err!("apart takes one argument, not {}", types.len()),
        }
    }

    /// The value's own, nullability included.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [value] => Ok(Arc::clone(value)),
            fields => plan_err!("apart takes one argument, not {}", fields.len()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (args.args.pop(), args.args.len()) {
            (Some(value), 0) => Ok(value),
            (_, others) => plan_err!("apart takes one argument, not {}", others + 1),
        }
    }
}

/// `apart(value)`.
pub(crate) fn call(value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&APART), vec![value]))
}

/// The function itself, for physical plans.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::clone(&APART)
}

/// Whether `expr` is `apart(..)`.
pub(super) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if Arc::ptr_eq(&call.func, &APART))
}

/// `expr` with the values in the places of their calls.
pub(super) fn rejoin(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|nested| match nested {
        Expr::ScalarFunction(mut call) if Arc::ptr_eq(&call.func, &APART) => match call.args.pop() {
            Some(value) => Ok(Transformed::yes(value)),
            None => plan_err!("apart takes one argument, not 0"),
        },
        other => Ok(Transformed::no(other)),
    })
}
