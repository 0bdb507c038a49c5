//! Which rows of a mini-block have a number in a set, by kernels over all values or one by one.
//!
//! **Concurrency**: plain functions.

use thermocline_column_store::MINI_BLOCK_VALUES;

use super::super::column::{Block, ColumnReader, SPARSE_ROWS};
use super::super::numbers::{Lane, Numbers};
use super::super::runs::Runs;
use super::super::selection::{Selection, room_for};
use crate::PipelineError;
use crate::kernels::{InstructionSet, MASK_WORDS, NO_RANK, Words};
use crate::membership::Membership;
use crate::table::KeyIndex;

/// Up to so many rows, ranges are tested value by value where all are unpacked: a vector loop over all takes as long.
const SPARSE_RANGE_ROWS: usize = 8;
/// Up to so many rows, an array's values are taken as they lie, and not made words of first.
const FEW_NATIVE_ROWS: usize = 256;
/// Ranges that are tested one after the other on whole mini-blocks.
const FEW_RANGES: usize = 4;

/// Drops the rows whose number is not in a set.
pub(super) fn members(
    membership: &Membership,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &mut Selection,
    instructions: InstructionSet,
) -> Result<(), PipelineError> {
    if let Some((least, greatest)) = reader.bounds(block) {
        if membership.covers(least, greatest) {
            return Ok(());
        }
        if !membership.may_meet(least, greatest) {
            selection.clear();
            return Ok(());
        }
    }
    let ranges = match membership {
        Membership::Never => {
            selection.clear();
            return Ok(());
        }
        Membership::Set { base, bits } => {
            let contains = |value| membership.contains(value);
            return in_set(*base, bits, contains, reader, block, selection, instructions);
        }
        Membership::Range(low, high) => &[(*low, *high)][..],
        Membership::Ranges(ranges) => ranges,
    };
    let is_sparse = selection.count() <= SPARSE_RANGE_ROWS
        || reader.packed(block, selection.count()).is_some()
        || selection.count() <= SPARSE_ROWS && reader.has_runs_of(block)
        || reader.is_array() && selection.count() <= FEW_NATIVE_ROWS;
    if is_sparse || ranges.len() > FEW_RANGES {
        return one_by_one(|value| membership.contains(value), reader, block, selection, instructions);
    }
    of_runs_or_rows(reader, block, selection, instructions, |Block { base, words }, selection| {
        let retain = |range: (i64, i64), mask: &mut [u64]| retain_in_range(base, words, range, mask, instructions);
        if let [range] = ranges {
            return selection.drop_by(|mask| retain(*range, mask));
        }
        let mut any = [0; MASK_WORDS];
        for range in ranges {
            let mut mask = *selection.mask();
            retain(*range, &mut mask);
            any.iter_mut().zip(mask).for_each(|(word, more)| *word |= more);
        }
        selection.intersect(&any);
    })
}

/// Drops rows by what drops selected words: those of the rows, or of the runs that they are in where there are such.
#[inline(always)]
fn of_runs_or_rows(
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &mut Selection,
    instructions: InstructionSet,
    drop: impl FnOnce(Block<'_>, &mut Selection),
) -> Result<(), PipelineError> {
    if let Some(runs) = reader.runs(block)? {
        let mut kept = Selection::all(runs.starts.count());
        drop(runs.block, &mut kept);
        selection.intersect(&instructions.rows_of_runs(kept.mask(), runs.starts));
    } else {
        drop(reader.block(block)?, selection);
    }
    Ok(())
}

/// Drops the values that are not from `low` to `high`; how many are left. Values are `base` plus the word.
fn retain_in_range(
    base: i64,
    words: Words<'_>,
    (low, high): (i64, i64),
    mask: &mut [u64],
    instructions: InstructionSet,
) -> usize {
    if let Words::U64(_) = words {
        // Modulo 2^64 all differences are exact.
        let (low, span) = (low.wrapping_sub(base) as u64, high.wrapping_sub(low) as u64);
        return instructions.retain_in_range(words, low, span, mask);
    }
    let low = (i128::from(low) - i128::from(base)).max(0);
    let high = (i128::from(high) - i128::from(base)).min(words.limit().into());
    if low > high {
        mask.fill(0);
        return 0;
    }
    instructions.retain_in_range(words, low as u64, (high - low) as u64, mask)
}

/// Drops the rows whose number is not `base` plus the place of a set bit, which `contains` says of one.
pub(super) fn in_set(
    base: i64,
    bits: &[u64],
    contains: impl Fn(i64) -> bool,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &mut Selection,
    instructions: InstructionSet,
) -> Result<(), PipelineError> {
    if selection.count() <= instructions.sparse_set_rows() {
        return one_by_one(contains, reader, block, selection, instructions);
    }
    of_runs_or_rows(reader, block, selection, instructions, |Block { base: block_base, words }, selection| {
        let shift = block_base.wrapping_sub(base) as u64;
        let word_count = selection.word_count();
        let found = if selection.count() <= word_count * 64 / 2 {
            instructions.in_set_of(words, selection.mask(), shift, bits)
        } else {
            instructions.in_set(words, word_count, shift, bits)
        };
        selection.intersect(&found);
    })
}

// What is found of them is gathered in 64 bits.
const _: () = assert!(SPARSE_ROWS <= 64);

/// Drops the rows whose number does not pass a test.
#[inline(always)]
pub(super) fn one_by_one(
    contains: impl Fn(i64) -> bool,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &mut Selection,
    instructions: InstructionSet,
) -> Result<(), PipelineError> {
    let (mut found, mut count) = (0, 0);
    // In a register: a mask in memory would have each row wait until the one before it is written.
    let mut take = |value: u64| {
        found |= u64::from(contains(value as i64)) << count;
        count += 1;
    };
    if let Some(packed) = reader.packed(block, selection.count()) {
        let mut rows = [0; room_for(SPARSE_ROWS)];
        packed.for_each_of(selection.rows(&mut rows), take);
        drop_unfound(selection, found, instructions);
        return Ok(());
    }
    if reader.is_array() && selection.count() <= FEW_NATIVE_ROWS {
        let mut rows = [0; room_for(FEW_NATIVE_ROWS)];
        let mut ordinals = Vec::with_capacity(selection.count());
        reader.gather(block, selection.rows(&mut rows), &mut ordinals)?;
        let mut ordinals = ordinals.into_iter();
        selection.retain(|_| ordinals.next().is_some_and(&contains));
        return Ok(());
    }
    if selection.count() <= SPARSE_ROWS {
        let mut rows = [0; room_for(SPARSE_ROWS)];
        let rows = selection.rows(&mut rows);
        let mut runs = [0; SPARSE_ROWS];
        let (Block { base, words }, places) = match reader.runs(block)? {
            Some(of_block) => {
                of_block.starts.runs_of(rows, &mut runs);
                (of_block.block, &runs[..rows.len()])
            }
            None => (reader.block(block)?, rows),
        };
        let base = base as u64;
        macro_rules! test {
            ($words:expr) => {
                for at in places {
                    take(base.wrapping_add($words[usize::from(*at) % MINI_BLOCK_VALUES].into()));
                }
            };
        }
        match words {
            Words::Zeros => places.iter().for_each(|_| take(base)),
            Words::U8(words) => test!(words),
            Words::U16(words) => test!(words),
            Words::U32(words) => test!(words),
            Words::U64(words) => test!(words),
        }
        drop_unfound(selection, found, instructions);
        return Ok(());
    }
    let Block { base, words } = reader.block(block)?;
    let base = base as u64;
    macro_rules! retain {
        ($words:expr) => {
            selection.retain(|row| contains(base.wrapping_add($words[row % MINI_BLOCK_VALUES].into()) as i64))
        };
    }
    match words {
        Words::Zeros => selection.retain(|_| contains(base as i64)),
        Words::U8(words) => retain!(words),
        Words::U16(words) => retain!(words),
        Words::U32(words) => retain!(words),
        Words::U64(words) => retain!(words),
    }
    Ok(())
}

/// Drops the rows whose bit of `found`, which has one for each, is not set.
fn drop_unfound(selection: &mut Selection, found: u64, instructions: InstructionSet) {
    selection.drop_by(|mask| {
        instructions.spread(found, mask);
        found.count_ones() as usize
    });
}

/// Drops the rows whose number is no key of a table: all are looked up together, so that none waits for another.
pub(super) fn are_keys(
    keys: &KeyIndex,
    reader: &mut ColumnReader<'_>,
    block: usize,
    selection: &mut Selection,
    instructions: InstructionSet,
) -> Result<(), PipelineError> {
    let mut rows = [0; room_for(MINI_BLOCK_VALUES)];
    let retain = |numbers: &[i64], selection: &mut Selection| {
        let mut found = keys.rows(numbers).into_iter();
        selection.retain(|_| found.next().is_some_and(|row| row != NO_RANK));
    };
    if selection.count() > SPARSE_ROWS
        && let Some(Runs { block: Block { base, words }, starts }) = reader.runs(block)?
    {
        let mut kept = Selection::all(starts.count());
        let mut numbers = Vec::with_capacity(kept.count());
        words.append_to(&mut numbers, base, kept.rows(&mut rows));
        retain(&numbers, &mut kept);
        selection.intersect(&instructions.rows_of_runs(kept.mask(), starts));
        return Ok(());
    }
    let mut numbers = Numbers::none(false, selection.count());
    reader.append(block, selection.rows(&mut rows), &mut numbers)?;
    if let Lane::Narrow(numbers) = numbers.lane {
        retain(&numbers, selection);
    }
    Ok(())
}
