//! Which of several items that answer a query to read.
//!
//! The model: scanning a columnar item costs time in proportion to its rows times the columns that the query reads.
//! Pure. Paper: ReCache §3.3 finds all subsuming items and leaves the choice open.

/// An item that covers the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveringItem {
    /// The cache's name for the item.
    pub id: u64,
    /// Rows it holds.
    pub row_count: u64,
    /// Its columns that the query would read, those of the residual filter included.
    pub column_count: u64,
}

impl CoveringItem {
    /// Values to read. An item without columns still counts its rows once.
    pub fn scan_cost(&self) -> u128 {
        u128::from(self.row_count) * u128::from(self.column_count.max(1))
    }
}

/// The item that is cheapest to scan, or `None` if there is none. Of equal ones that with the lowest id, which is as
/// good as any and makes the choice repeatable.
pub fn choose_item(covering: impl IntoIterator<Item = CoveringItem>) -> Option<CoveringItem> {
    covering.into_iter().min_by_key(|item| (item.scan_cost(), item.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_item_with_the_fewest_values_to_read_is_chosen() {
        let item = |id, row_count, column_count| CoveringItem { id, row_count, column_count };
        assert_eq!(choose_item([item(1, 100, 3), item(2, 150, 1), item(3, 75, 2)]), Some(item(2, 150, 1)));
        assert_eq!(choose_item([item(7, 10, 1), item(4, 10, 1), item(9, 10, 0)]), Some(item(4, 10, 1)));
        assert_eq!(choose_item([item(1, u64::MAX, u64::MAX), item(2, u64::MAX, 2)]).map(|i| i.id), Some(2));
        assert_eq!(choose_item([]), None);
    }
}
