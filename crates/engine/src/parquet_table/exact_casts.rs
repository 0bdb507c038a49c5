//! Casts in what a Parquet scan evaluates, out of reach of the simplifier that would cast constants against them.
//!
//! DataFusion's scan simplifies filters and selected expressions once more for each file, with the casts between the
//! file's types and the table's, and unwraps casts from comparisons where that changes answers
//! ([`casts`](crate::logical_rules::casts)). Such casts are put into calls of [`apart`], behind which nothing is pruned.
//! Comparisons of timestamps with constants are said so that they can be unwrapped, if there is a way.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal, TryCastExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};

use crate::logical_rules::{apart, casts};

/// DataFusion's adapters of expressions to files, with the casts kept.
#[derive(Debug)]
pub(super) struct ExactCastAdapters;

impl PhysicalExprAdapterFactory for ExactCastAdapters {
    fn create(&self, table_schema: SchemaRef, file_schema: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let inner = DefaultPhysicalExprAdapterFactory.create(table_schema, Arc::clone(&file_schema))?;
        Ok(Arc::new(ExactCastAdapter { inner, file_schema }))
    }
}

#[derive(Debug)]
struct ExactCastAdapter {
    inner: Arc<dyn PhysicalExprAdapter>,
    file_schema: SchemaRef,
}

impl PhysicalExprAdapter for ExactCastAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        kept(self.inner.rewrite(expr)?, &self.file_schema)
    }
}

/// `expr`, about columns of `schema`, with its casts kept where unwrapping them may change its value.
pub(super) fn kept(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|node| {
        if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
            return Ok(match exact_comparison(binary, schema)? {
                Some(comparison) => Transformed::yes(comparison),
                None => Transformed::no(node),
            });
        }
        let loses = match (node.downcast_ref::<CastExpr>(), node.downcast_ref::<TryCastExpr>()) {
            (Some(cast), _) => casts::loses(&cast.expr().data_type(schema)?, cast.cast_type(), false),
            (_, Some(cast)) => casts::loses(&cast.expr().data_type(schema)?, cast.cast_type(), true),
            _ => false,
        };
        if !loses {
            return Ok(Transformed::no(node));
        }
        let call =
            ScalarFunctionExpr::try_new(apart::function(), vec![node], schema, Arc::new(ConfigOptions::default()))?;
        Ok(Transformed::yes(Arc::new(call)))
    })
    .data()
}

/// What a call of [`apart`] is of.
fn inside(mut expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    while let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && call.fun() == apart::function().as_ref()
        && let [value] = call.args()
    {
        expr = value;
    }
    expr
}

/// A comparison of a timestamp, cast to a finer unit, with a constant that is a number of the coarser one.
fn exact_comparison(binary: &BinaryExpr, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let (cast, op, constant) = match (inside(binary.left()), inside(binary.right())) {
        (cast, constant) if constant.is::<Literal>() => (cast, Some(*binary.op()), constant),
        (constant, cast) if constant.is::<Literal>() => (cast, binary.op().swap(), constant),
        _ => return Ok(None),
    };
    let (Some(of), Some(op), Some(value)) = (cast.downcast_ref::<CastExpr>(), op, constant.downcast_ref::<Literal>())
    else {
        return Ok(None);
    };
    // What is computed may be of casts itself.
    if !of.expr().is::<Column>() {
        return Ok(None);
    }
    let (DataType::Timestamp(from, from_zone), DataType::Timestamp(to, to_zone)) =
        (of.expr().data_type(schema)?, of.cast_type())
    else {
        return Ok(None);
    };
    let Some((number, _)) = casts::timestamp(value.value()).filter(|(_, unit)| unit == to && *to > from) else {
        return Ok(None);
    };
    if !casts::is_same_clock(from_zone.as_deref(), to_zone.as_deref()) {
        return Ok(None);
    }
    let (floor, is_exact) = casts::in_unit(number, *to, from);
    let compared = |op: Operator, constant: Arc<dyn PhysicalExpr>| -> Option<Arc<dyn PhysicalExpr>> {
        Some(Arc::new(BinaryExpr::new(Arc::clone(cast), op, constant)))
    };
    let with_floor = |op: Operator| {
        let floor = casts::in_finer_unit(floor, from, *to)?;
        compared(op, lit(casts::timestamp_of(Some(floor), *to, to_zone.as_deref())))
    };
    Ok(match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq if is_exact => compared(op, Arc::clone(constant)),
        Lt | LtEq => with_floor(LtEq),
        Gt | GtEq => with_floor(Gt),
        _ => None,
    })
}
