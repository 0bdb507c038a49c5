//! How many groups, texts and rows there may be, by what is known of relations at planning.
//!
//! **Does not own**: how many are too many (`placement`).

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use thermocline_pipeline::ValueType;
use thermocline_placement::fusion::{self, GroupFacts};
use thermocline_predicate::{Conjunction, Domain, FieldPath};

use super::Refusal;
use super::calls::Call;
use super::expressions::value_type;
use super::join_graph::{BaseColumn, JoinGraph};
use super::relation::Relation;
use super::tree::Tree;

/// That columns whose values are carried along or grouped by are not of too many different texts.
pub(super) fn expect_few_texts<'b>(
    graph: &JoinGraph,
    mut columns: impl Iterator<Item = &'b BaseColumn>,
) -> Result<(), Refusal> {
    match columns.find(|base| has_many_texts(graph, base)) {
        Some(base) => {
            let name = graph.relations[base.relation].schema.field(base.column).name();
            Err(Refusal::new(format!("too many different texts in {}.{name}", graph.table_name(base.relation))))
        }
        None => Ok(()),
    }
}

/// Whether a column has texts of which too many are different.
pub(super) fn has_many_texts(graph: &JoinGraph, base: &BaseColumn) -> bool {
    text_bytes(graph, base).is_some_and(|(row_count, bytes)| fusion::has_many_texts(row_count, bytes))
}

/// Whether a column has texts of which most are different.
pub(super) fn has_different_texts(graph: &JoinGraph, base: &BaseColumn) -> bool {
    text_bytes(graph, base).is_some_and(|(row_count, bytes)| fusion::are_mostly_different(row_count, bytes))
}

/// Of a column of texts the number of rows, and the bytes that they take. Of text files none are taken at all.
fn text_bytes(graph: &JoinGraph, base: &BaseColumn) -> Option<(u64, u64)> {
    let table = &graph.relations[base.relation];
    let is_text = value_type(table.schema.field(base.column).data_type()) == Some(ValueType::Text);
    Some((table.row_count(), table.column_bytes(base.column).filter(|_| is_text)?))
}

/// Whether an expression takes so few letters of a text that few different ones come out, however many go in.
pub(super) fn makes_few_texts(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    let count = match (call.func.name(), call.args.as_slice()) {
        ("substr", [_, _, count]) | ("left" | "right", [_, count]) => count,
        _ => return false,
    };
    matches!(count, Expr::Literal(ScalarValue::Int64(Some(count)), _) if fusion::makes_few_texts(*count))
}

/// About how many rows of a relation pass its own filters, if values are spread evenly: as many as where nothing is
/// known of the filtered columns.
pub(super) fn expected_rows(relation: &Relation, predicate: &Conjunction) -> u64 {
    let share = |(path, domain): (&FieldPath, &Domain)| {
        let column =
            relation.schema.index_of(path.parts().first()?).ok().filter(|column| relation.knows_values(*column))?;
        let width = |(low, high): (i128, i128)| high as f64 - low as f64 + 1.0;
        let intervals = domain.intervals().iter().map(|interval| interval.numeric_key().map(width));
        Some((intervals.sum::<Option<f64>>()? / relation.most_values(column) as f64).min(1.0))
    };
    let passing: f64 = predicate.fields().map(|field| share(field).unwrap_or(1.0)).product();
    (relation.row_count() as f64 * passing) as u64
}

/// How many groups there are at most, without rows that joins multiply; just one if there is nothing to group by.
pub(super) fn most_rows(groups: &[Expr], graph: &JoinGraph, tree: &Tree) -> (u64, bool) {
    let row_count = graph.relations[tree.root].row_count();
    let most_values = |group: &Expr| {
        graph.base_column(group).map_or(row_count, |base| graph.relations[base.relation].most_values(base.column))
    };
    let most = groups.iter().fold(1u64, |most, group| most.saturating_mul(most_values(group)));
    (most.min(row_count.max(1)), groups.is_empty())
}

/// What is known of an aggregate's groups, of which there are at most so many.
pub(super) fn group_facts(groups: &[Expr], calls: &[Call], most_groups: u64, graph: &JoinGraph) -> GroupFacts {
    let known = |group: &Expr| {
        let base = graph.base_column(group)?;
        let relation = &graph.relations[base.relation];
        relation.knows_values(base.column).then(|| relation.most_values(base.column))
    };
    let most_values: Vec<Option<u64>> = groups.iter().map(known).collect();
    let is_number = |call: &Call| {
        let base = call.argument.as_ref().and_then(|argument| graph.base_column(argument));
        let data_type = base.map(|base| graph.relations[base.relation].schema.field(base.column).data_type().clone());
        data_type.as_ref().and_then(value_type) != Some(ValueType::Text)
    };
    GroupFacts {
        table_count: graph.relations.len(),
        most_groups,
        most_known_groups: most_values.iter().flatten().fold(1, |most, values| u64::saturating_mul(most, *values)),
        are_known: most_values.iter().all(Option::is_some),
        are_numbers: calls.iter().all(is_number),
    }
}
