//! From a scan plan to what the walk does at each field.
//!
//! **Owns**: turning paths into a tree of wanted names, one for the record and one for the elements of the unnested
//! list; which columns and predicate fields share a slot.
//!
//! **Invariants**: columns of one path and type are read once. Where several slots want one value, predicates come
//! first.

use std::sync::Arc;

use arrow::datatypes::DataType;
use thermocline_predicate::{Domain, FieldPath};

use super::field_table::FieldTable;
use super::scope::{ListTarget, ObjectNode, Scope, Slot, Target};
use super::value::ValueBuilder;
use crate::error::MAX_DEPTH;
use crate::{RawError, ScanPlan};

/// Where an output column is built.
#[derive(Debug, Clone, Copy)]
pub(super) enum Output {
    /// In this slot of the record.
    Record(usize),
    /// In this slot of the list's elements.
    Element(usize),
}

/// A compiled plan.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) record: Scope,
    /// By column of the plan.
    pub(super) outputs: Vec<Output>,
    /// Paths of the record's slots, and of the list to unnest.
    pub(super) map_paths: Vec<FieldPath>,
}

impl Program {
    pub(super) fn compile(plan: &ScanPlan) -> Result<Self, RawError> {
        let mut record = ScopeDraft::new(FieldPath::new([] as [&str; 0]), 0);
        let mut element = match &plan.unnest {
            Some(unnest) if unnest.path.is_empty() => {
                return Err(RawError::plan(&unnest.path, "the record itself cannot be unnested"));
            }
            Some(unnest) => Some(ScopeDraft::new(unnest.path.clone(), unnest.path.len() as u32 + 1)),
            None => None,
        };
        let mut outputs = Vec::with_capacity(plan.columns.len());
        for column in &plan.columns {
            outputs.push(match &mut element {
                Some(element) if column.path.starts_with(&element.base) => {
                    Output::Element(element.column(&column.path, &column.data_type)?)
                }
                _ => Output::Record(record.column(&column.path, &column.data_type)?),
            });
        }
        for (path, domain) in plan.predicate.fields() {
            let data_type =
                plan.type_of(path).ok_or_else(|| RawError::plan(path, "the predicate's field has no type"))?;
            match &mut element {
                Some(element) if path.starts_with(&element.base) => element.predicate(path, data_type, domain)?,
                _ => record.predicate(path, data_type, domain)?,
            }
        }
        let list = element.map(|element| {
            let column = Arc::from(element.base.to_string());
            let (path, depth) = (element.base.clone(), element.depth);
            record.tree.at(path.parts()).is_list = true;
            let keeps_empty = plan.unnest.as_ref().is_some_and(|unnest| unnest.keeps_empty);
            Box::new(ListTarget::new(element.finish(None, false), depth - 1, column, keeps_empty))
        });
        let slots = record.slots.iter().map(|slot| slot.path.clone());
        let map_paths = slots.chain(plan.unnest.iter().map(|unnest| unnest.path.clone())).collect();
        Ok(Self { record: record.finish(list, true), outputs, map_paths })
    }
}

/// A scope while its paths are gathered.
struct ScopeDraft {
    /// Where it begins: the record, or the unnested list.
    base: FieldPath,
    /// How many objects and lists are open around its values.
    depth: u32,
    slots: Vec<SlotDraft>,
    tree: Tree,
}

struct SlotDraft {
    path: FieldPath,
    data_type: DataType,
    slot: Slot,
}

/// Wanted names, and who wants the values.
#[derive(Default)]
struct Tree {
    slots: Vec<usize>,
    is_list: bool,
    children: Vec<(Arc<str>, Tree)>,
}

impl Tree {
    fn at(&mut self, names: &[Arc<str>]) -> &mut Self {
        let Some((name, rest)) = names.split_first() else { return self };
        let at = self.children.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.children.push((Arc::clone(name), Self::default()));
            self.children.len() - 1
        });
        self.children[at].1.at(rest)
    }
}

impl ScopeDraft {
    fn new(base: FieldPath, depth: u32) -> Self {
        Self { base, depth, slots: Vec::new(), tree: Tree::default() }
    }

    fn column(&mut self, path: &FieldPath, data_type: &DataType) -> Result<usize, RawError> {
        self.slot(path, data_type, true)
    }

    fn predicate(&mut self, path: &FieldPath, data_type: &DataType, domain: &Domain) -> Result<(), RawError> {
        let at = self.slot(path, data_type, false)?;
        self.slots[at].slot.domain = Some(domain.clone());
        Ok(())
    }

    fn slot(&mut self, path: &FieldPath, data_type: &DataType, is_output: bool) -> Result<usize, RawError> {
        if let Some(at) = self.slots.iter().position(|slot| &slot.path == path && &slot.data_type == data_type) {
            self.slots[at].slot.is_output |= is_output;
            return Ok(at);
        }
        if path.is_empty() {
            return Err(RawError::plan(path, "a column needs a name"));
        }
        if path.len() > MAX_DEPTH {
            return Err(RawError::plan(path, format!("a path of more than {MAX_DEPTH} names")));
        }
        let rest = path.parts().get(self.base.len()..).unwrap_or_default();
        let depth = self.depth + rest.len() as u32;
        let builder = ValueBuilder::new(path, data_type, depth)?;
        self.tree.at(rest).slots.push(self.slots.len());
        let slot = Slot { builder, domain: None, is_output, depth, seen: 0, appended: 0, at: 0, put_off: None };
        self.slots.push(SlotDraft { path: path.clone(), data_type: data_type.clone(), slot });
        Ok(self.slots.len() - 1)
    }

    fn finish(self, list: Option<Box<ListTarget>>, is_record: bool) -> Scope {
        let mut nodes = Nodes {
            tests: self.slots.iter().map(|slot| slot.slot.domain.is_some()).collect(),
            objects: Vec::new(),
            several: Vec::new(),
        };
        let root = if is_record {
            nodes.object(&self.tree, self.depth, &self.base)
        } else {
            nodes.target(&self.tree, self.depth, &self.base)
        };
        let slots = self.slots.into_iter().map(|draft| draft.slot).collect();
        Scope::new(root, nodes.objects, nodes.several, slots, list)
    }
}

/// The walk's nodes while they are laid out.
struct Nodes {
    /// By slot: whether it is a predicate's.
    tests: Vec<bool>,
    objects: Vec<ObjectNode>,
    several: Vec<Vec<Target>>,
}

impl Nodes {
    fn target(&mut self, tree: &Tree, depth: u32, path: &FieldPath) -> Target {
        let mut targets: Vec<Target> = Vec::new();
        for wants_test in [true, false] {
            let slots = tree.slots.iter().filter(|&&slot| self.tests[slot] == wants_test);
            targets.extend(slots.map(|&slot| Target::Slot(slot)));
        }
        if !tree.children.is_empty() {
            targets.push(self.object(tree, depth, path));
        }
        if tree.is_list {
            targets.push(Target::List);
        }
        match targets.as_slice() {
            [] => Target::Nothing(depth),
            [single] => *single,
            _ => {
                self.several.push(targets);
                Target::Several(self.several.len() - 1)
            }
        }
    }

    fn object(&mut self, tree: &Tree, depth: u32, path: &FieldPath) -> Target {
        let table = FieldTable::new(tree.children.iter().map(|(name, _)| name.as_ref()));
        let mut targets = Vec::with_capacity(tree.children.len());
        for (name, child) in &tree.children {
            targets.push(self.target(child, depth + 1, &path.child(name)));
        }
        let taken = vec![0; targets.len()];
        let column = Arc::from(path.to_string());
        self.objects.push(ObjectNode { table, targets, taken, depth, column });
        Target::Object(self.objects.len() - 1)
    }
}
