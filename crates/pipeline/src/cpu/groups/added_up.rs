//! Adding up rows that were parted by their groups: part by part, on all threads.
//!
//! **Concurrency**: each part is one thread's.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Groups;
use super::parted::Chunk;
use crate::cpu::RunOptions;
use crate::cpu::keyed::Interners;
use crate::cpu::memory::Memory;
use crate::cpu::view::RunContext;
use crate::ir::{Aggregate, Slot};
use crate::threads::Threads;
use crate::{PipelineError, Result, Rowset, TextList};

/// The groups of rows that threads have parted, and the memory that they take.
pub(in crate::cpu) fn added_up(
    mut parted: Vec<Box<Groups<'_>>>,
    context: RunContext<'_>,
    sink: (&[Slot], &[Aggregate]),
    interners: &Interners,
    texts: &[(Slot, Arc<TextList>)],
    options: &RunOptions<'_>,
) -> Result<(Rowset, Memory)> {
    let part_count = parted.iter().map(|groups| groups.parts.as_ref().map_or(0, |parts| parts.count())).max();
    let parts: Vec<_> = (0..part_count.unwrap_or(0))
        .map(|part| {
            let of_thread = |groups: &mut Box<Groups<'_>>| groups.parts.as_mut().map(|parts| parts.take(part));
            let chunks: Vec<Chunk> = parted.iter_mut().filter_map(of_thread).flatten().collect();
            let row_count = chunks.iter().map(Chunk::row_count).sum();
            let by = parted.iter().find_map(|groups| groups.parts.as_ref());
            let dimensions = by.map(|parts| parts.dimensions(part, row_count)).unwrap_or_default();
            Mutex::new((chunks, dimensions))
        })
        .collect();
    let of_thread = |numbers: std::ops::Range<usize>| -> Result<(Option<Rowset>, Memory)> {
        let memory = Memory::new(options.account, 0)?;
        let mut all: Option<Rowset> = None;
        for part in &parts[numbers] {
            if options.cancelled.load(Ordering::Relaxed) {
                return Err(PipelineError::Cancelled);
            }
            let (chunks, dimensions) = match part.lock() {
                Ok(mut part) => std::mem::take(&mut *part),
                // A thread that panicked took the run along.
                Err(_) => continue,
            };
            if chunks.is_empty() {
                continue;
            }
            let mut groups = Groups::together(context, sink, &dimensions, interners, options)?;
            for chunk in chunks {
                groups.add_chunk(context, chunk)?;
            }
            let (rowset, _held) = groups.finish(context, texts)?;
            let row_count = all.as_ref().map_or(0, |all| all.row_count) + rowset.row_count;
            // Vectors grow by doubling. The part's own rows are held until they are taken over.
            memory.ensure(2 * row_count * rowset.row_bytes())?;
            match &mut all {
                Some(all) => all.append(rowset),
                None => all = Some(rowset),
            }
        }
        Ok((all, memory))
    };
    let of_threads = Threads(options.thread_count).each_of_few(parts.len(), of_thread);
    let mut whole: Option<Rowset> = None;
    let held = Memory::new(options.account, 0)?;
    for of_thread in of_threads {
        let (rowset, memory) = of_thread?;
        held.absorb(memory);
        let Some(rowset) = rowset else { continue };
        match &mut whole {
            Some(whole) => {
                let row_count = 2 * (whole.row_count + rowset.row_count) + rowset.row_count;
                held.ensure(row_count * rowset.row_bytes())?;
                whole.append(rowset);
            }
            None => whole = Some(rowset),
        }
    }
    match whole {
        Some(whole) => Ok((whole, held)),
        None => Groups::together(context, sink, &vec![None; sink.0.len()], interners, options)?.finish(context, texts),
    }
}
