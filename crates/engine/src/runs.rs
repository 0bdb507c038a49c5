//! One execution of a scan after the other.
//!
//! The partitions of a node share a queue of work, which is one execution's. A node may be executed once more, partition
//! by partition. Executions are told apart by a partition that is asked for again, so one that was given up before all
//! its partitions had begun would be gone on with: who may do that gives each execution nodes of its own
//! (`interruption::repeatable`).

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The execution of a node that goes on.
pub(crate) struct Runs<R> {
    current: Mutex<Option<Current<R>>>,
}

struct Current<R> {
    run: Arc<R>,
    /// Partitions that were handed out.
    taken: Vec<usize>,
}

impl<R> Runs<R> {
    /// The execution that `partition` belongs to: the present one, if the partition was not asked for in it; else one
    /// that begins.
    pub(crate) fn of(&self, partition: usize, begin: impl FnOnce() -> Arc<R>) -> Arc<R> {
        let mut current = self.current.lock();
        match current.as_mut() {
            Some(current) if !current.taken.contains(&partition) => {
                current.taken.push(partition);
                Arc::clone(&current.run)
            }
            _ => {
                let run = begin();
                *current = Some(Current { run: Arc::clone(&run), taken: vec![partition] });
                run
            }
        }
    }
}

impl<R> Default for Runs<R> {
    fn default() -> Self {
        Self { current: Mutex::new(None) }
    }
}

impl<R> fmt::Debug for Runs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_asked_for_again_begins_another_execution() {
        let (runs, mut begun) = (Runs::default(), 0);
        let mut of = |partition| {
            *runs.of(partition, || {
                begun += 1;
                Arc::new(begun)
            })
        };
        assert_eq!([0, 2, 1, 2, 0, 1, 0].map(&mut of), [1, 1, 1, 2, 2, 2, 3]);
    }
}
