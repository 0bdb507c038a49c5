//! What DataFusion evaluates of one column of texts: conditions that sets of them cannot express, such as patterns, and
//! texts that are made of them.
//!
//! It is evaluated with what stands in for stock operations in plans of operators ([`stand_ins`]), so that both answer
//! alike, and for the different texts of a page or a table where these have a dictionary.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use thermocline_pipeline::{TextMap, TextTest, ValueType};

use super::expressions::value_type;
use super::join_graph::{BaseColumn, JoinGraph};
use super::patterns::Pieces;
use crate::stand_ins;

/// The column of texts that a condition is about, if it is about one alone, and the condition as a test of them. What
/// DataFusion cannot plan is none.
pub(super) fn text_test(expr: &Expr, graph: &JoinGraph) -> Option<(BaseColumn, TextTest)> {
    let (base, evaluated) = Evaluated::of(expr, graph)?;
    let of_null = evaluated.answers(&evaluated.nothing()).ok()?;
    let of_null = of_null.is_valid(0).then(|| of_null.value(0));
    let pieces = Pieces::of(expr);
    let test = TextTest::new(graph.readable(expr), of_null, move |texts: &ArrayRef| {
        let by_pieces = pieces.as_ref().and_then(|pieces| pieces.answers(texts));
        by_pieces.map_or_else(|| Ok(evaluated.answers(texts)?), Ok)
    });
    Some((base, if is_total(expr) { test.never_failing() } else { test }))
}

/// Whether an expression has a value for every text.
fn is_total(expr: &Expr) -> bool {
    !expr.exists(|nested| Ok(!is_total_itself(nested))).unwrap_or(true)
}

/// Whether it has one for whatever values the expressions below it have.
fn is_total_itself(expr: &Expr) -> bool {
    const FUNCTIONS: [&str; 13] = [
        "btrim",
        "character_length",
        "contains",
        "ends_with",
        "lower",
        "ltrim",
        "octet_length",
        "reverse",
        "rtrim",
        "starts_with",
        "strpos",
        "substr",
        "upper",
    ];
    match expr {
        Expr::Column(_) | Expr::Like(_) | Expr::InList(_) | Expr::Between(_) | Expr::Not(_) => true,
        Expr::IsNull(_) | Expr::IsNotNull(_) => true,
        Expr::Literal(value, _) => !value.is_null(),
        // A regular expression may be none.
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
                | Operator::LikeMatch
                | Operator::NotLikeMatch
                | Operator::ILikeMatch
                | Operator::NotILikeMatch
                | Operator::StringConcat
        ),
        Expr::ScalarFunction(call) => FUNCTIONS.contains(&call.func.name()),
        _ => false,
    }
}

/// The column of texts that an expression makes a text of, if it takes nothing else, and the expression as a function of
/// them. What DataFusion cannot plan is none, nor is what makes a text of NULL, or NULL of a text.
pub(super) fn text_map(expr: &Expr, graph: &JoinGraph) -> Option<(BaseColumn, TextMap)> {
    if expr.exists(|nested| Ok(may_drop(nested))).unwrap_or(true) {
        return None;
    }
    let (base, evaluated) = Evaluated::of(expr, graph)?;
    let of_null = evaluated.evaluate(&evaluated.nothing()).ok()?;
    if value_type(of_null.data_type()) != Some(ValueType::Text) || of_null.is_valid(0) {
        return None;
    }
    let map = TextMap::new(graph.readable(expr), move |texts: &ArrayRef| Ok(evaluated.evaluate(texts)?));
    Some((base, if is_total(expr) { map.never_failing() } else { map }))
}

/// Whether an expression is made to be NULL for some texts.
fn may_drop(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) | Expr::TryCast(_) => true,
        Expr::ScalarFunction(call) => call.func.name() == "nullif",
        _ => false,
    }
}

/// An expression, planned for batches of the one column that it is about.
struct Evaluated {
    expr: Arc<dyn PhysicalExpr>,
    schema: Arc<Schema>,
    data_type: DataType,
}

impl Evaluated {
    /// The column of texts that an expression is about, if it is about one alone.
    fn of(expr: &Expr, graph: &JoinGraph) -> Option<(BaseColumn, Self)> {
        let mut columns = expr.column_refs().into_iter();
        let base = graph.named(columns.next()?)?;
        let field = graph.relations[base.relation].schema.field(base.column);
        if columns.next().is_some() || value_type(field.data_type()) != Some(ValueType::Text) {
            return None;
        }
        Some((base, Self::new(expr, base, field, graph).ok()?))
    }

    fn new(expr: &Expr, base: BaseColumn, field: &Field, graph: &JoinGraph) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
        let qualifier = TableReference::bare(base.relation.to_string());
        let qualified = DFSchema::try_from_qualified_schema(qualifier, &schema)?;
        let props =
            ExecutionProps { config_options: Some(Arc::clone(&graph.planning.options)), ..ExecutionProps::new() };
        let planning = PhysicalPlanningContext::default();
        // As operators compute it.
        let expr = stand_ins::replaced(expr.clone(), &qualified)?.data;
        let expr = create_physical_expr(&expr, &qualified, &props, &planning)?;
        Ok(Self { expr, schema, data_type: field.data_type().clone() })
    }

    /// A NULL.
    fn nothing(&self) -> ArrayRef {
        new_null_array(&self.data_type, 1)
    }

    fn evaluate(&self, texts: &ArrayRef) -> Result<ArrayRef> {
        let texts =
            if *texts.data_type() == self.data_type { Arc::clone(texts) } else { cast(texts, &self.data_type)? };
        let count = texts.len();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![texts])?;
        self.expr.evaluate(&batch)?.into_array(count)
    }

    fn answers(&self, texts: &ArrayRef) -> Result<BooleanArray> {
        let answers = self.evaluate(texts)?;
        // A condition that is always unknown has the type of NULL.
        let answers =
            if *answers.data_type() == DataType::Boolean { answers } else { cast(&answers, &DataType::Boolean)? };
        Ok(answers.as_boolean().clone())
    }
}
