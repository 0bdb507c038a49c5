//! Columns that are equal in every row of a join's result, and what follows from it.
//!
//! A column that another relation carries to where a value is needed need not be carried if the relation there, or one
//! nearer to it, has a column that it is equal to: tables are smaller, and values need not be looked up. An equality
//! that would close a circle of joins is no condition if it follows from the others; then the one relation's table
//! sieves the rows of the other's.
//!
//! **Invariants**: only columns of one type, whose equal values cannot be told apart, and which are no texts: which
//! relation has a text decides whether it has a code. Only what inner joins make equal: neither is NULL then.

use thermocline_pipeline::{ProbeKind, ValueType};

use super::expressions::value_type;
use super::join_graph::{BaseColumn, JoinGraph};
use super::tree::Child;

/// Classes of columns that are equal.
#[derive(Debug, Default)]
pub(super) struct Equalities {
    classes: Vec<Vec<BaseColumn>>,
}

impl Equalities {
    /// What the look-ups in `child` make equal.
    pub(super) fn add(&mut self, child: &Child, graph: &JoinGraph) {
        if child.kind != ProbeKind::Inner {
            return;
        }
        for (own, key) in child.own_keys.iter().zip(&child.keys) {
            if is_of_one_type(*own, *key, graph) {
                self.unite(*own, *key);
            }
        }
    }

    fn unite(&mut self, one: BaseColumn, other: BaseColumn) {
        let mut united = Vec::new();
        for column in [one, other] {
            match self.classes.iter().position(|class| class.contains(&column)) {
                Some(at) => united.extend(self.classes.swap_remove(at)),
                None if !united.contains(&column) => united.push(column),
                None => {}
            }
        }
        self.classes.push(united);
    }

    /// All columns that are equal to this one, itself among them; none where nothing is known of it.
    pub(super) fn of(&self, column: BaseColumn) -> &[BaseColumn] {
        self.classes.iter().find(|class| class.contains(&column)).map_or(&[], Vec::as_slice)
    }

    /// Whether these two are equal.
    pub(super) fn are_equal(&self, one: BaseColumn, other: BaseColumn) -> bool {
        self.of(one).contains(&other)
    }
}

/// Whether equal values of two columns are the same whatever is done with them.
fn is_of_one_type(one: BaseColumn, other: BaseColumn, graph: &JoinGraph) -> bool {
    let type_of = |base: BaseColumn| graph.relations[base.relation].schema.field(base.column).data_type();
    let made = value_type(type_of(one));
    let is_whole = made.is_some_and(|made| !made.is_float() && made != ValueType::Text);
    is_whole && type_of(one) == type_of(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_equals_the_same_is_equal() {
        let column = |relation| BaseColumn { relation, column: 0 };
        let mut equalities = Equalities::default();
        for (one, other) in [(0, 1), (2, 3), (1, 0), (3, 1)] {
            equalities.unite(column(one), column(other));
        }
        assert_eq!(equalities.of(column(0)).len(), 4);
        assert!(equalities.are_equal(column(0), column(2)) && !equalities.are_equal(column(0), column(4)));
    }
}
