//! Many values at once, on several threads: tables are put together and rows of threads joined while nothing else runs.
//!
//! **Concurrency**: each thread has a part of the values; all are done when these return.

use std::ops::Range;

/// Fewer values are not worth waking a thread for.
const FEW_VALUES: usize = if cfg!(test) { 128 } else { 1 << 16 };

/// So many threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads(pub(crate) usize);

impl Threads {
    /// How many values each thread has of so many.
    fn part(self, value_count: usize) -> usize {
        if value_count < FEW_VALUES { value_count.max(1) } else { value_count.div_ceil(self.0.max(1)) }
    }

    /// Has `fill` write `value_count` values, told which ones they are.
    pub(crate) fn filled<T: Copy + Default + Send>(
        self,
        value_count: usize,
        fill: impl Fn(Range<usize>, &mut [T]) + Sync,
    ) -> Vec<T> {
        let part = self.part(value_count);
        let mut values = vec![T::default(); value_count];
        std::thread::scope(|scope| {
            let fill = &fill;
            let mut parts = values.chunks_mut(part).enumerate();
            let own = parts.next();
            for (number, values) in parts {
                scope.spawn(move || fill(number * part..number * part + values.len(), values));
            }
            if let Some((_, values)) = own {
                fill(0..values.len(), values);
            }
        });
        values
    }

    /// What `of` finds for each part of so many values.
    pub(crate) fn each<T: Send>(self, value_count: usize, of: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
        in_parts(value_count, self.part(value_count), of)
    }

    /// The same for parts that are many values each.
    pub(crate) fn each_of_few<T: Send>(self, count: usize, of: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
        in_parts(count, count.div_ceil(self.0.max(1)).max(1), of)
    }

    /// The values of all parts, one behind the other.
    pub(crate) fn joined<T: Copy + Default + Send + Sync>(self, mut parts: Vec<Vec<T>>) -> Vec<T> {
        parts.retain(|part| !part.is_empty());
        if parts.len() <= 1 {
            return parts.pop().unwrap_or_default();
        }
        self.filled(parts.iter().map(Vec::len).sum(), |places, mut values: &mut [T]| {
            let mut before = 0;
            for part in &parts {
                let start = places.start.clamp(before, before + part.len()) - before;
                let end = places.end.clamp(before, before + part.len()) - before;
                let (own, rest) = values.split_at_mut(end - start);
                own.copy_from_slice(&part[start..end]);
                values = rest;
                before += part.len();
            }
        })
    }

    /// The least and the greatest of so many values, of those that there are.
    pub(crate) fn range(self, value_count: usize, value: impl Fn(usize) -> Option<i64> + Sync) -> Option<(i64, i64)> {
        let of_part = |values: Range<usize>| {
            let widened = |range: Option<(i64, i64)>, value: i64| match range {
                Some((least, greatest)) => Some((least.min(value), greatest.max(value))),
                None => Some((value, value)),
            };
            values.filter_map(&value).fold(None, widened)
        };
        let ranges = self.each(value_count, of_part).into_iter().flatten();
        ranges.reduce(|left, right| (left.0.min(right.0), left.1.max(right.1)))
    }
}

/// What `of` finds for each `part` of so many values, each on a thread of its own.
fn in_parts<T: Send>(value_count: usize, part: usize, of: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let mut parts = (0..value_count).step_by(part).map(|start| start..(start + part).min(value_count));
    std::thread::scope(|scope| {
        let of = &of;
        let own = parts.next();
        let others: Vec<_> = parts.map(|values| scope.spawn(move || of(values))).collect();
        let own = own.map(of);
        let joined = others.into_iter().map(|thread| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        own.into_iter().chain(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_written_once_by_whoever_has_it() {
        for (value_count, thread_count) in
            [(0, 2), (1, 2), (FEW_VALUES - 1, 3), (FEW_VALUES, 1), (10 * FEW_VALUES + 7, 4)]
        {
            let threads = Threads(thread_count);
            let squares = threads.filled(value_count, |range: Range<usize>, values: &mut [usize]| {
                assert_eq!(range.len(), values.len());
                values.iter_mut().zip(range).for_each(|(value, place)| *value = place * place);
            });
            assert!(squares.iter().enumerate().all(|(place, value)| *value == place * place));
            assert_eq!(squares.len(), value_count);
            let counts = threads.each(value_count, |range| range.len());
            assert_eq!(counts.iter().sum::<usize>(), value_count);
            let odd = |place: usize| (place % 2 == 1).then_some(place as i64);
            let expected = (0..value_count).filter_map(odd).min().zip((0..value_count).filter_map(odd).max());
            assert_eq!(threads.range(value_count, odd), expected);
            let parts = threads.each_of_few(value_count.min(5), |range| range.collect::<Vec<_>>());
            assert!(parts.len() <= thread_count && parts.concat().len() == value_count.min(5));
            let (first, last) = squares.split_at(value_count / 3);
            assert_eq!(threads.joined(vec![first.to_vec(), Vec::new(), last.to_vec()]), squares);
        }
    }
}
