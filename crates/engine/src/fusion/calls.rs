//! Aggregate functions as DataFusion's plans have them, and what pipelines make of them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{Case, Cast, Expr, ExprSchemable, lit};

use super::Refusal;

/// An aggregate function and what it takes.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: Function,
    /// `None` if it counts rows.
    pub(super) argument: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    Sum,
    Minimum,
    Maximum,
    /// Of whole numbers and decimals, whose sum is exact.
    Average,
    AverageOfFloats,
}

impl Call {
    /// The call that an expression over a plan of this schema is; `over` brings its argument down to the relations.
    pub(super) fn of(
        expr: &Expr,
        schema: &DFSchema,
        over: &dyn Fn(&Expr) -> Result<Expr, Refusal>,
    ) -> Result<Self, Refusal> {
        let unaliased = expr.clone().unalias();
        let Expr::AggregateFunction(call) = &unaliased else {
            return Err(Refusal::new(format!("{expr} is no aggregate function")));
        };
        let params = &call.params;
        let is_plain =
            !params.distinct && params.order_by.is_empty() && params.null_treatment.is_none() && params.args.len() == 1;
        let known = [
            (count_udaf(), Function::Count),
            (sum_udaf(), Function::Sum),
            (min_udaf(), Function::Minimum),
            (max_udaf(), Function::Maximum),
            (avg_udaf(), Function::Average),
        ];
        let function = known.into_iter().find(|(function, _)| *function == call.func);
        let (Some((_, function)), true) = (function, is_plain) else {
            return Err(Refusal::new(format!("{unaliased} is not computed in pipelines")));
        };
        let argument = unaliased_argument(&params.args[0]);
        let is_float = |expr: &Expr| -> Result<bool, Refusal> {
            Ok(matches!(expr.get_type(schema)?, DataType::Float32 | DataType::Float64))
        };
        let (function, argument) = match function {
            Function::Sum => (function, summed(argument, schema)?),
            Function::Average => match averaged(argument, schema)? {
                exact if !is_float(exact)? => (function, exact),
                _ => (Function::AverageOfFloats, argument),
            },
            _ => (function, argument),
        };
        let counts_rows =
            matches!((function, argument), (Function::Count, Expr::Literal(value, _)) if !value.is_null());
        let argument = match params.filter.as_deref() {
            None => (!counts_rows).then(|| argument.clone()),
            Some(filter) => Some(filtered(function, (!counts_rows).then_some(argument), filter)),
        };
        Ok(Self { function, argument: argument.as_ref().map(over).transpose()? })
    }

    /// Whether statistics of a whole table tell it.
    pub(super) fn is_known(&self) -> bool {
        let of_column = self.argument.as_ref().is_none_or(|argument| matches!(argument, Expr::Column(_)));
        of_column && matches!(self.function, Function::Count | Function::Minimum | Function::Maximum)
    }
}

/// What an aggregate takes that passes over rows of which a condition is not true: NULL for those. Counts take a number
/// in the place of a value, which may be a text.
fn filtered(function: Function, argument: Option<&Expr>, filter: &Expr) -> Expr {
    let (condition, value) = match (function, argument) {
        (Function::Count, Some(argument)) => (filter.clone().and(argument.clone().is_not_null()), lit(1i64)),
        (_, Some(argument)) => (filter.clone(), argument.clone()),
        (_, None) => (filter.clone(), lit(1i64)),
    };
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(value))], None))
}

fn unaliased_argument(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased_argument(&alias.expr),
        other => other,
    }
}

/// What a sum takes: a cast of integers to 64 bits is what it does itself, without a cast for each row.
fn summed<'e>(expr: &'e Expr, schema: &DFSchema) -> Result<&'e Expr, Refusal> {
    let Expr::Cast(Cast { expr: operand, field }) = expr else { return Ok(expr) };
    let from = operand.get_type(schema)?;
    let is_widened = match field.data_type() {
        DataType::Int64 => from.is_signed_integer(),
        DataType::UInt64 => from.is_unsigned_integer(),
        _ => false,
    };
    Ok(if is_widened { operand } else { expr })
}

/// What an average of integers takes, which DataFusion turns into floats first. Decimals are those of another number
/// then.
fn averaged<'e>(expr: &'e Expr, schema: &DFSchema) -> Result<&'e Expr, Refusal> {
    match expr {
        Expr::Cast(Cast { expr: operand, field })
            if *field.data_type() == DataType::Float64 && operand.get_type(schema)?.is_integer() =>
        {
            Ok(operand)
        }
        other => Ok(other),
    }
}
