//! One R-tree over the intervals that items ask of one field (ReCache §3.3).
//!
//! An interval is the point (low key, high key). The items that cover a wanted interval are those in the quadrant
//! `low <= wanted.low, high >= wanted.high`. Beyond the paper they come tightest first, so that a bounded look finds
//! the items that hold the least beside what was asked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rstar::{AABB, ParentNode, RTree, RTreeNode, RTreeObject};

use super::bounds::Digest;
use super::key::Key;

/// Place of an item in its index.
pub(crate) type Place = u32;

/// An item's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    low: Key,
    high: Key,
    digest: Digest,
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
    /// Of the keys: the first that came.
    origin: i128,
}

impl IntervalTree {
    pub(crate) fn insert(&mut self, keys: (i128, i128), digest: Digest, place: Place) {
        if self.is_empty() {
            self.origin = if keys.0 == i128::MIN { keys.1 } else { keys.0 };
        }
        self.tree.insert(self.entry(keys, digest, place));
    }

    pub(crate) fn remove(&mut self, keys: (i128, i128), digest: Digest, place: Place) -> bool {
        self.tree.remove(&self.entry(keys, digest, place)).is_some()
    }

    fn entry(&self, (low, high): (i128, i128), digest: Digest, place: Place) -> Entry {
        Entry { low: Key::new(low, self.origin), high: Key::new(high, self.origin), digest, place }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree.size() == 0
    }

    /// The items whose interval covers `[low, high]` and whose points may: all of them in order of tightness where few
    /// nodes must be opened for that, else most of the tightest.
    pub(crate) fn covering(&self, (low, high): (i128, i128), digest: Digest) -> Covering<'_> {
        let mut covering = Covering {
            low,
            high,
            digest,
            opened_count: 0,
            heap: BinaryHeap::new(),
            nodes: Vec::new(),
            path: Vec::new(),
        };
        if !self.is_empty() {
            covering.open(self.tree.root());
        }
        covering
    }

    /// The items whose interval has a key in `[low, high]`: all of them in order of overlap where few nodes must be
    /// opened for that, else most of those that overlap most.
    pub(crate) fn overlapping(&self, (low, high): (i128, i128)) -> Overlapping<'_> {
        let mut overlapping = Overlapping { low, high, opened_count: 0, heap: BinaryHeap::new(), nodes: Vec::new() };
        if !self.is_empty() {
            overlapping.open(self.tree.root());
        }
        overlapping
    }
}

/// Nodes opened in strict order of slack. Where intervals lie unevenly (strings, whose keys leap at every carry) many
/// nodes look as if they might hold something tight; then the order is given up before the time is.
const STRICT_NODES: usize = 48;

/// Nodes opened at all.
const OPENED_NODES: usize = 128;

/// Walk of the quadrant: best first, then, once [`STRICT_NODES`] are opened, into the best node left and its best child
/// first. A step costs a handful of comparisons per child of the node it opens.
pub(crate) struct Covering<'a> {
    low: i128,
    high: i128,
    digest: Digest,
    opened_count: usize,
    /// (least slack below, index into `nodes`)
    heap: BinaryHeap<Reverse<(u128, usize)>>,
    nodes: Vec<&'a RTreeNode<Entry>>,
    /// Where the walk no longer minds the order: siblings not yet entered, the best last.
    path: Vec<(u128, &'a RTreeNode<Entry>)>,
}

impl<'a> Covering<'a> {
    fn open(&mut self, parent: &'a ParentNode<Entry>) {
        self.opened_count += 1;
        let is_strict = self.opened_count <= STRICT_NODES;
        let sibling_count = self.path.len();
        for child in parent.children() {
            let Some(slack) = self.least_slack(child) else { continue };
            if is_strict {
                self.heap.push(Reverse((slack, self.nodes.len())));
                self.nodes.push(child);
            } else {
                self.path.push((slack, child));
            }
        }
        self.path[sibling_count..].sort_unstable_by_key(|(slack, _)| Reverse(*slack));
    }

    /// How much wider than wanted the intervals below a node are at least; None when none of them covers.
    fn least_slack(&self, node: &RTreeNode<Entry>) -> Option<u128> {
        // The corner of the node nearest to the wanted interval.
        let (least_low, nearest_low, nearest_high, greatest_high) = match node {
            RTreeNode::Leaf(entry) if !entry.digest.may_cover(&self.digest) => return None,
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
        (least_low <= self.low && greatest_high >= self.high)
            .then(|| self.low.abs_diff(nearest_low).saturating_add(nearest_high.abs_diff(self.high)))
    }
}

impl Iterator for Covering<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        loop {
            let node = match self.path.pop() {
                Some((_, node)) => node,
                None => {
                    let Reverse((_, index)) = self.heap.pop()?;
                    self.nodes[index]
                }
            };
            match node {
                RTreeNode::Leaf(entry) => return Some(entry.place),
                RTreeNode::Parent(_) if self.opened_count == OPENED_NODES => {}
                RTreeNode::Parent(parent) => self.open(parent),
            }
        }
    }
}

/// Walk of the quadrant `low <= wanted.high, high >= wanted.low`, best first. Of nodes that may hold equally much, of
/// which there are many where it is all that is wanted, the one opened last goes first: that leads down to items.
pub(crate) struct Overlapping<'a> {
    low: i128,
    high: i128,
    opened_count: usize,
    /// (greatest overlap below, index into `nodes`)
    heap: BinaryHeap<(u128, usize)>,
    nodes: Vec<&'a RTreeNode<Entry>>,
}

impl<'a> Overlapping<'a> {
    fn open(&mut self, parent: &'a ParentNode<Entry>) {
        self.opened_count += 1;
        for child in parent.children() {
            if let Some(overlap) = self.greatest_overlap(child) {
                self.heap.push((overlap, self.nodes.len()));
                self.nodes.push(child);
            }
        }
    }

    /// How much of the wanted interval those below a node have at most; None when none of them has any.
    fn greatest_overlap(&self, node: &RTreeNode<Entry>) -> Option<u128> {
        let (least_low, greatest_high) = match node {
            RTreeNode::Leaf(entry) => (entry.low.exact(), entry.high.exact()),
            RTreeNode::Parent(node) => {
                let envelope = node.envelope();
                (envelope.lower()[0].exact(), envelope.upper()[1].exact())
            }
        };
        let (from, to) = (least_low.max(self.low), greatest_high.min(self.high));
        (from <= to).then(|| to.abs_diff(from))
    }
}

impl Iterator for Overlapping<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        loop {
            let (_, index) = self.heap.pop()?;
            match self.nodes[index] {
                RTreeNode::Leaf(entry) => return Some(entry.place),
                RTreeNode::Parent(_) if self.opened_count == OPENED_NODES => {}
                RTreeNode::Parent(parent) => self.open(parent),
            }
        }
    }
}
