//! Giving items another layout: the mover of what `placement` decides.
//!
//! **Owns**: telling the layout rule how an item was read, and converting an item when the rule says so. The converted
//! item takes the place of the old one at once, which becomes its mirror where the rule keeps such; whoever reads that
//! one goes on to.
//! **Does not own**: the rules, what a layout is (`layout`).
//!
//! **Memory**: both forms are there while the item is converted, chunk by chunk, each reserved from free room alone
//! before it is made: where there is none the item stays as it is. **Concurrency**: one conversion an item; it runs on
//! whichever thread it is given.
//!
//! **Paper**: ReCache (PVLDB 2017) §4.2. Deviation: there the query after which the layout is switched waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray};
use arrow::error::ArrowError;
use thermocline_placement::operator_cache::layout::row_or_column::ColumnRead;
use thermocline_placement::operator_cache::layout::rule::{LayoutHistory, LayoutRule};
use thermocline_placement::operator_cache::layout::{Forms, ItemShape, Layout, LayoutObservation, Spare, Switch};

use crate::cache::OperatorCache;
use crate::cut::{Cut, View};
use crate::decisions::DecisionKind;
use crate::item::{Chunk, Item, ItemId};
use crate::layout::{Content, Reading, piece_entries};

/// An item that is to be converted. Hand it to [`OperatorCache::convert`], on a thread that may be busy for a while.
#[derive(Debug)]
pub struct Conversion {
    item: Arc<Item>,
    switch: Switch,
}

impl OperatorCache {
    /// The rule that decides on layouts.
    pub fn layout_rule(&self) -> LayoutRule {
        *self.layout_rule.lock()
    }

    /// Changes the rule for all sessions. Items change when they are next read; mirrors go if the rule keeps none.
    pub fn set_layout_rule(&self, rule: LayoutRule) {
        *self.layout_rule.lock() = rule;
        if !rule.keeps_mirrors() {
            self.clear_mirrors();
        }
    }

    /// Told by a reader that was answered from all of `item`, read in `layout`, what that took and did, in the sum of its
    /// threads. A conversion is due if one is given.
    pub fn finish_reading(&self, item: &Arc<Item>, layout: Layout, cut: &Cut, reading: &Reading) -> Option<Conversion> {
        let Reading { times, counts, .. } = *reading;
        item.record_reuse(times.data_ns.saturating_add(times.compute_ns));
        let (record_columns, element_columns) = cut.column_counts();
        let observation = LayoutObservation {
            layout,
            data_ns: times.data_ns,
            compute_ns: times.compute_ns,
            reads_elements: cut.view() == View::Elements && item.source.unnest.is_some(),
            record_columns,
            element_columns,
            as_kept: cut.leaves_as_kept(),
            counts,
        };
        let columns = cut.columns_read(&item.widths_bytes, item.source.unnest.as_ref());
        let rule = self.layout_rule().for_items(item.source.unnest.is_some());
        let mirror = item.mirror.describe().filter(|_| rule.keeps_mirrors());
        let forms = Forms { own: item.layout, mirror: mirror.map(|(layout, _)| layout) };
        let switch = {
            let mut history = item.layouts.lock();
            if item.source.unnest.is_some() {
                // As predicted of a query that was not measured yet.
                let numbers = reading_numbers(&item.shape, &observation, &columns, &history);
                let reason = if layout == item.layout { "read" } else { "its mirror was read" };
                self.record_item(DecisionKind::Read, item, numbers, reason);
            }
            history.observe(rule, &item.shape, forms, &observation, &columns);
            let spare = Spare {
                bytes: self.budget().cache_room_bytes(),
                processors: self.idle_processors.now(&**self.clock()),
            };
            history.decide(rule, &item.shape, item.layout, spare)
        }?;
        if item.is_converting.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some(Conversion { item: Arc::clone(item), switch })
    }

    /// Gives an item another layout, unless there is no room for that or the item has gone meanwhile.
    pub fn convert(&self, conversion: Conversion) {
        let Conversion { item, switch } = conversion;
        let began_ns = self.clock().monotonic_ns();
        let converted = self.converted(&item.chunks, switch.to);
        let took_ns = self.clock().monotonic_ns().saturating_sub(began_ns);
        let mut numbers = vec![
            ("present_cost", switch.present_cost),
            ("other_cost", switch.other_cost),
            ("conversion_cost", switch.conversion_cost),
            ("took_ns", took_ns as f64),
            ("size_bytes", item.size_bytes as f64),
        ];
        let (chunks, structure) = match converted {
            Ok(Some(chunks)) => match self.reserve_if_free(item.structure_bytes(chunks.len())) {
                Some(structure) => (chunks, structure),
                None => return self.stay(&item, numbers, "no room for the converted item"),
            },
            Ok(None) => return self.stay(&item, numbers, "no room for the converted item"),
            Err(_) => return self.stay(&item, numbers, "the layout does not take its values"),
        };
        item.layouts.lock().switched(&item.shape, switch.to, took_ns);
        let other = item.with_layout(ItemId(self.next_number()), chunks, structure, switch.to);
        numbers.push(("converted_bytes", other.size_bytes as f64));
        let other = Arc::new(other);
        if self.layout_rule().keeps_mirrors() {
            self.mirror(&other, Arc::clone(&item));
        }
        let replaced = {
            let mut catalog = self.catalog();
            if catalog.holds(&item) { catalog.insert(Arc::clone(&other), Some(item.id)) } else { Vec::new() }
        };
        if replaced.is_empty() {
            return self.stay(&item, numbers, "the item has gone meanwhile");
        }
        self.record_item(DecisionKind::SwitchLayout, &other, numbers, switch_reason(switch.to));
    }

    fn stay(&self, item: &Arc<Item>, numbers: Vec<(&'static str, f64)>, reason: &'static str) {
        // Asked again when a window has gathered as much once more.
        item.layouts.lock().switched(&item.shape, item.layout, 0);
        item.is_converting.store(false, Ordering::Relaxed);
        self.record_item(DecisionKind::KeepLayout, item, numbers, reason);
    }

    /// The chunks in another layout; None without room for them.
    pub(crate) fn converted(
        &self,
        chunks: &[Arc<Chunk>],
        layout: Layout,
    ) -> Result<Option<Vec<Arc<Chunk>>>, ArrowError> {
        let mut converted = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let content = chunk.content();
            if content.layout() == layout {
                converted.push(Arc::clone(chunk));
                continue;
            }
            let entry_count = content.entry_count();
            let step = match layout {
                Layout::Nested | Layout::Flat => entry_count.max(1),
                // These are read block by block.
                Layout::Striped | Layout::RowWise => piece_entries(entry_count, content.row_count()),
            };
            for first in (0..entry_count).step_by(step) {
                let rows = content.to_rows(first, step.min(entry_count - first), &**self.clock())?;
                let rows = Arc::new(rows.into_owned());
                let foretold_bytes = Content::foretold_bytes(&rows, layout);
                let Some(reservation) = self.reserve_if_free(foretold_bytes) else { return Ok(None) };
                let content = Content::of(&rows, layout)?;
                if reservation.resize(content.size_bytes()).is_err() {
                    return Ok(None);
                }
                let made = Chunk::new(content, reservation);
                let is_whole = step >= entry_count;
                converted.push(Arc::new(if is_whole { made.knowing_spans_of(chunk) } else { made }));
            }
        }
        Ok(Some(converted))
    }
}

/// What was observed of a reading, and what queries before it let predict of the same in every layout.
fn reading_numbers(
    shape: &ItemShape,
    observation: &LayoutObservation,
    columns: &[ColumnRead],
    history: &LayoutHistory,
) -> Vec<(&'static str, f64)> {
    let predicted = |layout| history.predict_ns(shape, layout, observation, columns);
    vec![
        ("data_ns", observation.data_ns as f64),
        ("compute_ns", observation.compute_ns as f64),
        ("rows_read", observation.rows_read(shape) as f64),
        ("columns_read", f64::from(observation.columns_read())),
        ("selected_rows", observation.counts.selected_rows() as f64),
        ("row_count", shape.flat_row_count as f64),
        ("nested_ns", predicted(Layout::Nested)),
        ("flat_ns", predicted(Layout::Flat)),
        ("striped_ns", predicted(Layout::Striped)),
        ("row_ns", predicted(Layout::RowWise)),
    ]
}

fn switch_reason(to: Layout) -> &'static str {
    match to {
        Layout::Nested => "its queries are served best by nested arrays",
        Layout::Flat => "its queries are served best by flat columns",
        Layout::Striped => "its queries are served best by striped columns",
        Layout::RowWise => "its queries are served best by rows",
    }
}

/// What the layout rules are told of an item that is made of these chunks, and bytes of a value of each column. The
/// chunks are as scans deliver them, or all of one layout.
pub(crate) fn shape_of(chunks: &[Arc<Chunk>], is_element: &[bool], base: Option<&Item>) -> (ItemShape, Arc<[u32]>) {
    let mut record_count = base.map_or(0, |base| base.shape.record_count);
    let mut flat_row_count = base.map_or(0, |base| base.shape.flat_row_count);
    let (mut record_bytes, mut element_bytes, mut flat_record_bytes) = (0_u64, 0_u64, 0_u64);
    let mut widths = vec![0_u64; is_element.len()];
    for rows in chunks.iter().filter_map(|chunk| chunk.content().as_arrays()) {
        let entry_count = rows.entry_count() as u64;
        let flat_rows: u64 = match &rows.elements {
            Some(elements) => elements.offsets.lengths().map(|count| count.max(1) as u64).sum(),
            None => rows.row_count as u64,
        };
        record_count += entry_count;
        flat_row_count += flat_rows;
        for (index, column) in rows.columns.iter().enumerate() {
            let size_bytes = column.get_buffer_memory_size() as u64;
            widths[index] += size_bytes;
            if is_element[index] {
                element_bytes += size_bytes;
            } else {
                record_bytes += size_bytes;
                // Who repeats texts that are codes repeats those.
                let dictionary_bytes =
                    column.as_any_dictionary_opt().map_or(0, |coded| coded.values().get_buffer_memory_size());
                let repeated_bytes = size_bytes.saturating_sub(dictionary_bytes as u64);
                flat_record_bytes +=
                    dictionary_bytes as u64 + repeated_bytes.saturating_mul(flat_rows) / entry_count.max(1);
            }
        }
    }
    let nested_bytes = record_bytes + element_bytes + 4 * record_count;
    let flat_bytes = flat_record_bytes + element_bytes;
    let elements = is_element.iter().filter(|is| **is).count() as u32;
    let records = is_element.len() as u32 - elements;
    // A level of a bit or two for each value.
    let level_bytes = (record_count * u64::from(records) + flat_row_count * u64::from(elements)) / 4;
    let base_bytes = base.map_or([0; 4], |base| base.shape.size_bytes);
    let own_bytes = [nested_bytes, flat_bytes, nested_bytes + level_bytes, flat_bytes];
    let widths = widths.iter().zip(is_element).map(|(bytes, is_element)| {
        let values = if *is_element { flat_row_count } else { record_count };
        // Whole bytes, for most columns have nothing but their values.
        u32::try_from((bytes + values / 2) / values.max(1)).unwrap_or(u32::MAX)
    });
    let shape = ItemShape {
        record_count,
        flat_row_count,
        record_columns: records,
        element_columns: elements,
        size_bytes: std::array::from_fn(|layout| base_bytes[layout] + own_bytes[layout]),
    };
    (shape, widths.collect())
}
