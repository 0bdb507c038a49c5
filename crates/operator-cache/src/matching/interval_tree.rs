//! One R-tree over the intervals that items ask of one field (ReCache §3.3).
//!
//! An interval is the point (low key, high key). The items that cover a wanted interval are those in the quadrant
//! `low <= wanted.low, high >= wanted.high`. Beyond the paper they come tightest first, so that a bounded look finds
//! the items that hold the least beside what was asked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rstar::{AABB, ParentNode, RTree, RTreeNode, RTreeObject};

use super::key::Key;

/// Place of an item in its index.
pub(crate) type Place = u32;

/// An item's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    low: Key,
    high: Key,
    place: Place,
}

impl RTreeObject for Entry {
    type Envelope = AABB<[Key; 2]>;

    fn envelope(&self) -> Self::Envelope {
        AABB::from_point([self.low, self.high])
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct IntervalTree {
    tree: RTree<Entry>,
}

impl IntervalTree {
    pub(crate) fn insert(&mut self, (low, high): (i128, i128), place: Place) {
        self.tree.insert(Entry { low: Key::new(low), high: Key::new(high), place });
    }

    pub(crate) fn remove(&mut self, (low, high): (i128, i128), place: Place) -> bool {
        self.tree.remove(&Entry { low: Key::new(low), high: Key::new(high), place }).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.size() == 0
    }

    /// The items whose interval covers `[low, high]`, tightest first.
    pub(crate) fn covering(&self, (low, high): (i128, i128)) -> Covering<'_> {
        let mut covering = Covering { low, high, heap: BinaryHeap::new(), nodes: Vec::new() };
        if !self.is_empty() {
            covering.push_children(self.tree.root());
        }
        covering
    }
}

/// Best-first walk of the quadrant. A step costs a handful of comparisons per child of the node it opens.
pub(crate) struct Covering<'a> {
    low: i128,
    high: i128,
    /// (least slack below, index into `nodes`)
    heap: BinaryHeap<Reverse<(u128, usize)>>,
    nodes: Vec<&'a RTreeNode<Entry>>,
}

impl<'a> Covering<'a> {
    fn push_children(&mut self, parent: &'a ParentNode<Entry>) {
        for child in parent.children() {
            // The corner of the child nearest to the wanted interval.
            let (least_low, nearest_low, nearest_high, greatest_high) = match child {
                RTreeNode::Leaf(entry) => {
                    let (low, high) = (entry.low.exact(), entry.high.exact());
                    (low, low, high, high)
                }
                RTreeNode::Parent(node) => {
                    let envelope = node.envelope();
                    let ([low_min, high_min], [low_max, high_max]) = (envelope.lower(), envelope.upper());
                    let nearest_low = low_max.exact().min(self.low);
                    (low_min.exact(), nearest_low, high_min.exact().max(self.high), high_max.exact())
                }
            };
            if least_low <= self.low && greatest_high >= self.high {
                let slack = self.low.abs_diff(nearest_low).saturating_add(nearest_high.abs_diff(self.high));
                self.heap.push(Reverse((slack, self.nodes.len())));
                self.nodes.push(child);
            }
        }
    }
}

impl Iterator for Covering<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        while let Some(Reverse((_, index))) = self.heap.pop() {
            match self.nodes[index] {
                RTreeNode::Leaf(entry) => return Some(entry.place),
                RTreeNode::Parent(node) => self.push_children(node),
            }
        }
        None
    }
}
