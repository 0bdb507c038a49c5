//! Which columns are shown in a window, and how wide.

use super::extent::width_of;
use super::{Column, Row};

/// The least a text column is narrowed to.
const LEAST_WIDTH_COLUMNS: usize = 12;

pub(super) fn natural_widths(columns: &[Column], rows: &[Row]) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| width_of(&column.name)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let cell_width = match cell {
                Some(text) => text.split('\n').map(width_of).max().unwrap_or(0),
                None => 4,
            };
            *width = (*width).max(cell_width);
        }
    }
    widths
}

/// Which columns are shown, and how wide.
pub(super) struct Fitted {
    /// Indices of the columns shown.
    pub(super) shown: Vec<usize>,
    /// Where among the shown ones the mark for those left out stands.
    pub(super) gap: Option<usize>,
    /// Widths of what is printed, the mark included.
    pub(super) widths: Vec<usize>,
}

/// Narrows text columns, the widest first; leaves out columns from the middle while that is not enough.
pub(super) fn fit(columns: &[Column], natural: &[usize], window: usize) -> Fitted {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    loop {
        let gap = (shown.len() < columns.len()).then_some(shown.len().div_ceil(2));
        // A frame and two blanks a column, one frame at the end; the mark is a column of width one.
        let room =
            window.saturating_sub(3 * (shown.len() + usize::from(gap.is_some())) + 1 + usize::from(gap.is_some()));
        let least =
            |index: usize| if columns[index].right { natural[index] } else { natural[index].min(LEAST_WIDTH_COLUMNS) };
        let needed: usize = shown.iter().map(|&index| least(index)).sum();
        if needed > room && shown.len() > 2 {
            shown.remove(shown.len() / 2);
            continue;
        }
        let capped = |cap: usize, index: usize| natural[index].min(cap.max(least(index)));
        let total = |cap: usize| shown.iter().map(|&index| capped(cap, index)).sum::<usize>();
        let widest = shown.iter().map(|&index| natural[index]).max().unwrap_or(0);
        // The largest cap that fits; widths are some thousands at most, and the sum grows with the cap.
        let (mut low, mut high) = (0, widest);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if total(middle) <= room {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let mut widths: Vec<usize> = shown.iter().map(|&index| capped(low, index)).collect();
        if let Some(gap) = gap {
            widths.insert(gap, 1);
        }
        return Fitted { shown, gap, widths };
    }
}

/// Keeps the items of the columns shown and puts the mark among them.
pub(super) fn leave_out<T>(items: &mut Vec<T>, fitted: &Fitted, gap: usize, mark: impl FnOnce() -> T) {
    let mut index = 0;
    items.retain(|_| {
        index += 1;
        fitted.shown.binary_search(&(index - 1)).is_ok()
    });
    items.insert(gap, mark());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(right: bool) -> Column {
        Column { name: String::new(), right }
    }

    #[test]
    fn numbers_keep_their_width_and_text_shares_the_rest() {
        let columns = [column(true), column(false), column(false)];
        let fitted = fit(&columns, &[20, 60, 60], 80);
        assert_eq!(fitted.gap, None);
        assert_eq!(fitted.widths[0], 20);
        assert_eq!(fitted.widths[1], fitted.widths[2]);
        assert!(fitted.widths.iter().sum::<usize>() + 10 <= 80);
        assert!(fitted.widths.iter().sum::<usize>() + 10 >= 79, "the window is used: {:?}", fitted.widths);
    }

    #[test]
    fn the_middle_columns_go_first_and_the_window_is_kept_to() {
        let columns: Vec<Column> = (0..30).map(|_| column(true)).collect();
        let fitted = fit(&columns, &[10; 30], 100);
        assert!(fitted.widths.iter().map(|width| width + 3).sum::<usize>() < 100);
        assert_eq!(fitted.shown.first(), Some(&0));
        assert_eq!(fitted.shown.last(), Some(&29));
        assert!(fitted.gap.is_some());
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let fitted = fit(&[column(false), column(true)], &[30, 5], usize::MAX);
        assert_eq!(fitted.widths, [30, 5]);
        assert_eq!(fitted.gap, None);
    }
}
