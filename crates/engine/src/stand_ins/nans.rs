//! NaNs that are computed as one value, the largest of all.
//!
//! The processor gives `0.0 / 0.0` and `inf - inf` a NaN of either sign, x86's negative. In the order of all values,
//! by which operators compare, sort and group, a negative one is the least of all and another than a positive one.
//! [`made_one`] makes it the positive one.
//!
//! Deviations: NaNs of sums, and those that Parquet files and Arrow tables bring with a sign, stay as they are.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

static ONE_NAN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OneNan::default())));

/// Functions that have no number for some numbers.
const PARTIAL_FUNCTIONS: [&str; 13] =
    ["acos", "acosh", "asin", "atanh", "cos", "cot", "ln", "log", "log10", "log2", "power", "sin", "tan"];

/// Whether the expression computes something, and so may make a NaN if that is a float.
pub(super) fn computes(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => PARTIAL_FUNCTIONS.contains(&call.func.name()),
        Expr::Cast(_) | Expr::TryCast(_) => true,
        other => is_arithmetic(other),
    }
}

fn is_arithmetic(expr: &Expr) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Plus | Minus | Multiply | Divide | Modulo),
        Expr::Negative(_) => true,
        _ => false,
    }
}

/// Whether the expression makes NaNs: computes a float, of the casts those of texts.
pub(super) fn makes(expr: &Expr, schema: &DFSchema) -> bool {
    let is_text = |of: &Expr| of.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    let may_make = match expr {
        Expr::Cast(cast) => is_text(&cast.expr),
        Expr::TryCast(cast) => is_text(&cast.expr),
        other => computes(other),
    };
    may_make && super::is_float(expr, schema)
}

/// The expression with one NaN wherever some are made.
pub(super) fn made_one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.rewrite(&mut OneNanAbove { schema, path: Vec::new() })
}

/// Operands of arithmetic may have any NaN: what is made of one is a NaN again. Which expressions are to have one is
/// decided on the way down, while the types below are told without looking through calls.
struct OneNanAbove<'s> {
    schema: &'s DFSchema,
    path: Vec<Step>,
}

/// An expression on the way down.
struct Step {
    /// Whether it is to have one NaN.
    is_made_one: bool,
    /// Whether its operands may have any.
    is_arithmetic: bool,
}

impl TreeNodeRewriter for OneNanAbove<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let is_operand = self.path.last().is_some_and(|above| above.is_arithmetic);
        let is_made_one = !is_operand && makes(&expr, self.schema);
        let is_arithmetic = (is_made_one || is_operand) && is_arithmetic(&expr);
        self.path.push(Step { is_made_one, is_arithmetic });
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match self.path.pop() {
            Some(Step { is_made_one: true, .. }) => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&ONE_NAN), vec![expr])))
            }
            _ => Transformed::no(expr),
        })
    }
}

/// `one_nan(float)`: no name that SQL could find.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneNan {
    signature: Signature,
}

impl Default for OneNan {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OneNan {
    fn name(&self) -> &str {
        "one_nan"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [float] => Ok(float.clone()),
            types => plan_err!("one_nan takes one argument, not {}", types.len()),
        }
    }

    /// The argument's own, nullability included.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [float] => Ok(Arc::clone(float)),
            fields => plan_err!("one_nan takes one argument, not {}", fields.len()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (args.args.pop(), args.args.len()) {
            (Some(ColumnarValue::Array(array)), 0) => Ok(ColumnarValue::Array(of_array(array))),
            (Some(ColumnarValue::Scalar(scalar)), 0) => {
                let array = of_array(scalar.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            (_, others) => plan_err!("one_nan takes one argument, not {}", others + 1),
        }
    }
}

/// The same values, which most often are the same array.
fn of_array(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float16 => of_floats::<Float16Type>(array, Half::NAN),
        DataType::Float32 => of_floats::<Float32Type>(array, f32::NAN),
        DataType::Float64 => of_floats::<Float64Type>(array, f64::NAN),
        _ => array,
    }
}

/// No other value differs from itself.
#[allow(clippy::eq_op)]
fn of_floats<T: ArrowPrimitiveType<Native: PartialEq>>(array: ArrayRef, nan: T::Native) -> ArrayRef {
    let floats: &PrimitiveArray<T> = array.as_primitive();
    // Without an early end, so that it is vectors' work.
    match floats.values().iter().fold(false, |found, value| found | (value != value)) {
        true => Arc::new(floats.unary::<_, T>(|value| if value != value { nan } else { value })),
        false => array,
    }
}
