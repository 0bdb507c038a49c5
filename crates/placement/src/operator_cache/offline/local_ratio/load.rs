//! Bytes held at each moment: a tree over moments that adds to a stretch of them and finds the highest.

use std::ops::Range;

/// A complete binary tree in an array; node `n` has the children `2n` and `2n + 1`.
#[derive(Debug)]
pub(super) struct Load {
    /// Moments, rounded up to a power of two.
    leaf_count: usize,
    /// Highest load below a node, what was added to the node itself included.
    highest: Vec<i128>,
    /// What was added to all of a node's moments at once.
    added: Vec<i128>,
}

impl Load {
    /// Nothing at any of `moment_count` moments.
    pub(super) fn new(moment_count: usize) -> Self {
        let leaf_count = moment_count.max(1).next_power_of_two();
        Self { leaf_count, highest: vec![0; 2 * leaf_count], added: vec![0; 2 * leaf_count] }
    }

    /// Adds to every moment of the range.
    pub(super) fn add(&mut self, moments: Range<usize>, bytes: i128) {
        self.add_below(1, 0..self.leaf_count, &moments, bytes);
    }

    fn add_below(&mut self, node: usize, covers: Range<usize>, moments: &Range<usize>, bytes: i128) {
        if moments.end <= covers.start || covers.end <= moments.start {
            return;
        }
        if moments.start <= covers.start && covers.end <= moments.end {
            self.highest[node] += bytes;
            self.added[node] += bytes;
            return;
        }
        let middle = covers.start.midpoint(covers.end);
        self.add_below(2 * node, covers.start..middle, moments, bytes);
        self.add_below(2 * node + 1, middle..covers.end, moments, bytes);
        self.highest[node] = self.added[node] + self.highest[2 * node].max(self.highest[2 * node + 1]);
    }

    /// The first of the moments with the highest load, and that load. None only if the load is zero or less everywhere.
    pub(super) fn highest(&self) -> Option<(usize, i128)> {
        let bytes = self.highest[1];
        let mut node = 1;
        while node < self.leaf_count {
            node = if self.highest[2 * node] >= self.highest[2 * node + 1] { 2 * node } else { 2 * node + 1 };
        }
        (bytes > 0).then_some((node - self.leaf_count, bytes))
    }

    /// The highest load in a range of moments; zero for an empty one.
    pub(super) fn highest_in(&self, moments: Range<usize>) -> i128 {
        self.highest_below(1, 0..self.leaf_count, &moments).unwrap_or(0)
    }

    fn highest_below(&self, node: usize, covers: Range<usize>, moments: &Range<usize>) -> Option<i128> {
        if moments.end <= covers.start || covers.end <= moments.start {
            return None;
        }
        if moments.start <= covers.start && covers.end <= moments.end {
            return Some(self.highest[node]);
        }
        let middle = covers.start.midpoint(covers.end);
        let left = self.highest_below(2 * node, covers.start..middle, moments);
        let right = self.highest_below(2 * node + 1, middle..covers.end, moments);
        left.max(right).map(|highest| highest + self.added[node])
    }
}

#[cfg(test)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn loads_equal_those_of_a_list() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let count = 1 + random.below_u64(40) as usize;
            let (mut load, mut list) = (Load::new(count), vec![0_i128; count]);
            for step in 0..60 {
                let start = random.below_u64(count as u64) as usize;
                let end = start + random.below_u64((count - start) as u64 + 1) as usize;
                let bytes = i128::from(random.below_u64(100)) - 30;
                load.add(start..end, bytes);
                list[start..end].iter_mut().for_each(|held| *held += bytes);
                let context = format!("seed {seed}, step {step}, {list:?}");
                let highest = list.iter().copied().max().filter(|bytes| *bytes > 0);
                let first = list.iter().position(|held| Some(*held) == highest);
                assert_eq!(load.highest(), first.zip(highest), "{context}");
                let from = random.below_u64(count as u64) as usize;
                let asked = from..from + random.below_u64((count - from) as u64 + 1) as usize;
                let expected = list[asked.clone()].iter().copied().max().unwrap_or(0);
                assert_eq!(load.highest_in(asked.clone()), expected, "{asked:?}, {context}");
            }
        }
    }
}
