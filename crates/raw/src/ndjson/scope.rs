//! One level of a scan: records, or the elements of the unnested list, to rows.
//!
//! **Owns**: for each row-to-be: walking to the wanted fields, testing predicate fields as soon as they are seen,
//! putting off the others until the predicate has passed, missing fields as NULL, taking back what fails.
//!
//! **Does not own**: how the plan becomes targets (`program`), where records begin and end (`decoder`).
//!
//! **Invariants**
//! - Between rows every output slot holds exactly `row_count` rows, slots that only test hold none. Records are rows
//!   once, however many elements their list has: the list tells where each record's elements end.
//! - A field met while predicates are open is only remembered by position: a row that fails costs no parsing beyond its
//!   predicate fields, and what would be wrong in its other fields is not noticed.
//! - Nothing is allocated per row except by growing columns.

mod known;

use std::sync::Arc;

use arrow::buffer::OffsetBuffer;
use thermocline_predicate::Domain;

use super::bad::{Bad, What};
use super::byte_scan::{byte, skip_space};
use super::field_table::FieldTable;
use super::skip::{skip_rest, skip_value};
use super::token::{begins_value, literal};
use super::value::{ValueBuilder, walk_list};
use super::walk::{FieldSink, Walk, walk_object};

/// Who takes the value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// A column or a predicate field.
    Slot(usize),
    /// Fields below it are wanted.
    Object(usize),
    /// The list to unnest.
    List,
    /// More than one of these, in turn.
    Several(usize),
    /// Nobody: elements that are only counted. So many objects and lists are open around them.
    Nothing(u32),
}

/// An object some of whose fields are wanted.
#[derive(Debug)]
pub(super) struct ObjectNode {
    pub(super) table: FieldTable,
    /// By field number of the table.
    pub(super) targets: Vec<Target>,
    /// By field number: the last row it was taken for.
    pub(super) taken: Vec<u64>,
    /// How many objects and lists are open around it.
    pub(super) depth: u32,
    /// Its path, for messages.
    pub(super) column: Arc<str>,
}

/// A wanted value.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) builder: ValueBuilder,
    /// What the value must lie in.
    pub(super) domain: Option<Domain>,
    /// Whether it is a column; otherwise it is only tested.
    pub(super) is_output: bool,
    pub(super) depth: u32,
    /// The last row it was seen for.
    pub(super) seen: u64,
    /// The last row that its builder was appended to for: only that can have to be taken back.
    pub(super) appended: u64,
    /// Where its value was for that row.
    pub(super) at: usize,
    /// Where its value is, while it is put off.
    pub(super) put_off: Option<usize>,
}

/// The list to unnest and what is wanted of its elements.
#[derive(Debug)]
pub(super) struct ListTarget {
    pub(super) elements: Scope,
    /// How many objects and lists are open around the list.
    pub(super) depth: u32,
    pub(super) column: Arc<str>,
    /// Whether records none of whose elements pass are kept.
    keeps_empty: bool,
    put_off: Option<usize>,
    /// Where the present record's list is, once seen.
    at: Option<usize>,
    /// Rows of the elements before this record.
    rows_before: usize,
    /// Rows of the elements up to the end of each record that is kept.
    ends: Vec<i32>,
}

impl ListTarget {
    pub(super) fn new(elements: Scope, depth: u32, column: Arc<str>, keeps_empty: bool) -> Self {
        Self { elements, depth, column, keeps_empty, put_off: None, at: None, rows_before: 0, ends: Vec::new() }
    }

    /// Whether the present record has no element that passed, and is not kept without.
    fn lacks_elements(&self) -> bool {
        !self.keeps_empty && self.elements.row_count == self.rows_before
    }

    /// Rows of the elements before and after each record, which are handed over.
    pub(super) fn take_offsets(&mut self) -> OffsetBuffer<i32> {
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        // They ascend from zero: each is a number of rows, taken when there were no fewer than before.
        OffsetBuffer::new(offsets.into())
    }
}

/// One level of a scan.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) root: Target,
    pub(super) objects: Vec<ObjectNode>,
    pub(super) several: Vec<Vec<Target>>,
    pub(super) slots: Vec<Slot>,
    pub(super) list: Option<Box<ListTarget>>,
    predicate_count: usize,
    row_count: usize,
    /// Number of the present row-to-be, from one: marks what was seen for it.
    current: u64,
    predicates_left: usize,
    /// Objects being walked.
    open_objects: u32,
    /// Whether all wanted fields of the present row-to-be were looked for.
    is_walked: bool,
}

impl Scope {
    pub(super) fn new(
        root: Target,
        objects: Vec<ObjectNode>,
        several: Vec<Vec<Target>>,
        slots: Vec<Slot>,
        list: Option<Box<ListTarget>>,
    ) -> Self {
        let predicate_count = slots.iter().filter(|slot| slot.domain.is_some()).count();
        Self {
            root,
            objects,
            several,
            slots,
            list,
            predicate_count,
            row_count: 0,
            current: 0,
            predicates_left: 0,
            open_objects: 0,
            is_walked: false,
        }
    }

    /// Rows kept.
    #[inline]
    pub(super) fn row_count(&self) -> usize {
        self.row_count
    }

    /// Reads the value at `pos` (a record or an element), white space before it allowed. When it passes, its rows are
    /// kept; the position behind it is given. Otherwise nothing is kept.
    #[inline]
    pub(super) fn read<const IS_RECORD: bool>(&mut self, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        self.begin();
        let outcome = self.take::<IS_RECORD>(self.root, walk, pos).and_then(|end| {
            self.open_objects = 0;
            self.is_walked = true;
            if IS_RECORD && end != walk.end {
                return Err(Bad::new(skip_space(walk.buf, end), What::TrailingContent));
            }
            self.complete(walk, end)?;
            self.keep(walk, pos)?;
            Ok(end)
        });
        if outcome.is_err() {
            self.take_back();
        }
        outcome
    }

    /// The slot of values that are rows as they are, if nothing but that is wanted of them.
    #[inline]
    fn whole_value(&self) -> Option<usize> {
        match (self.root, self.slots.as_slice()) {
            (Target::Slot(slot), [only]) if only.domain.is_none() && only.is_output => Some(slot),
            _ => None,
        }
    }

    /// Begins the next row-to-be.
    #[inline]
    fn begin(&mut self) {
        self.current += 1;
        self.predicates_left = self.predicate_count;
        self.open_objects = 0;
        self.is_walked = false;
        if let Some(list) = &mut self.list {
            list.put_off = None;
            list.at = None;
            list.rows_before = list.elements.row_count;
        }
    }

    #[inline]
    fn take<const IS_RECORD: bool>(&mut self, target: Target, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        match target {
            Target::Slot(slot) => self.take_slot(slot, walk, pos),
            Target::Object(object) => self.take_object::<IS_RECORD>(object, walk, pos),
            Target::List => self.take_list(walk, pos),
            Target::Several(several) => {
                let mut end = pos;
                for at in 0..self.several[several].len() {
                    end = self.take::<false>(self.several[several][at], walk, pos)?;
                }
                Ok(end)
            }
            Target::Nothing(depth) => skip_value(walk.buf, pos, walk.end, depth),
        }
    }

    #[inline]
    fn take_slot(&mut self, at: usize, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        let slot = &mut self.slots[at];
        slot.seen = self.current;
        slot.at = pos;
        let Some(domain) = &slot.domain else {
            if self.predicates_left > 0 {
                slot.put_off = Some(pos);
                return skip_value(walk.buf, pos, walk.end, slot.depth);
            }
            slot.put_off = None;
            slot.appended = self.current;
            return slot.builder.append(walk, pos);
        };
        slot.appended = self.current;
        let end = slot.builder.append(walk, pos)?;
        let passes = slot.builder.test(domain);
        if !slot.is_output {
            slot.builder.truncate(0);
        }
        self.predicates_left -= 1;
        if passes { Ok(end) } else { Err(Bad::rejected(end)) }
    }

    fn take_object<const IS_RECORD: bool>(&mut self, at: usize, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        let pos = skip_space(walk.buf, pos);
        let object = &mut self.objects[at];
        match byte(walk.buf, pos) {
            b'{' => {}
            b'n' => return Ok(literal(walk.buf, pos)?.1),
            first if !begins_value(first) => return Err(Bad::new(pos, What::Value)),
            _ => return Err(walk.blame(pos, What::Mismatch, &object.column, "an object".to_owned())),
        }
        // Out of the arena while it is walked, so that its fields' targets can be reached through `self`.
        let mut table = std::mem::take(&mut object.table);
        let depth = object.depth;
        self.open_objects += 1;
        let mut fields = Fields { scope: self, object: at };
        let outcome = walk_object::<IS_RECORD, _>(&mut table, &mut fields, walk, pos, depth);
        self.objects[at].table = table;
        if outcome.is_ok() {
            self.open_objects -= 1;
        }
        outcome
    }

    fn take_list(&mut self, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        let Some(list) = &mut self.list else { return Err(Bad::new(pos, What::Value)) };
        list.at = Some(pos);
        if self.predicates_left > 0 {
            list.put_off = Some(pos);
            return skip_value(walk.buf, pos, walk.end, list.depth);
        }
        let end = list.read(walk, pos)?;
        // No element, no row: what follows in the record is of no interest.
        if list.lacks_elements() { Err(Bad::rejected(end)) } else { Ok(end) }
    }

    /// Everything that was seen has been taken: tests what is missing and reads what was put off.
    #[inline]
    fn complete(&mut self, walk: &mut Walk<'_>, end: usize) -> Result<(), Bad> {
        if self.predicates_left > 0 {
            for slot in &self.slots {
                if slot.seen != self.current
                    && let Some(domain) = &slot.domain
                    && !domain.admits_null()
                {
                    return Err(Bad::rejected(end));
                }
            }
        }
        if let Some(list) = &mut self.list {
            if let Some(pos) = list.put_off.take() {
                list.read(walk, pos)?;
            }
            if list.lacks_elements() {
                return Err(Bad::rejected(end));
            }
        }
        for slot in &mut self.slots {
            if slot.seen != self.current {
                if slot.is_output {
                    slot.appended = self.current;
                    slot.builder.append_null();
                }
            } else if let Some(pos) = slot.put_off.take() {
                slot.appended = self.current;
                slot.builder.append(walk, pos)?;
            }
        }
        Ok(())
    }

    /// Keeps the row, and how many rows its elements gave.
    #[inline]
    fn keep(&mut self, walk: &mut Walk<'_>, pos: usize) -> Result<(), Bad> {
        if let Some(list) = &mut self.list {
            let Ok(end) = i32::try_from(list.elements.row_count) else {
                return Err(walk.blame(pos, What::ColumnFull, &list.column, "fewer rows".to_owned()));
            };
            list.ends.push(end);
        }
        self.row_count += 1;
        Ok(())
    }

    /// Takes back what the present row left in the columns.
    #[inline]
    fn take_back(&mut self) {
        for slot in &mut self.slots {
            // Of a struct this goes through all its leaves, and most rows fail before they get there.
            if slot.appended == self.current {
                slot.builder.truncate(if slot.is_output { self.row_count } else { 0 });
            }
            slot.put_off = None;
        }
        if let Some(list) = &mut self.list {
            list.elements.truncate(list.rows_before);
        }
    }

    /// Takes whole rows from `len` on back.
    fn truncate(&mut self, len: usize) {
        if len < self.row_count {
            self.row_count = len;
            for slot in self.slots.iter_mut().filter(|slot| slot.is_output) {
                slot.builder.truncate(len);
            }
        }
    }

    /// Forgets its rows, which were handed over.
    pub(super) fn clear(&mut self) {
        self.row_count = 0;
        if let Some(list) = &mut self.list {
            list.elements.clear();
            list.ends.clear();
        }
    }
}

impl ListTarget {
    /// Reads all elements of the list at `pos`; each that passes becomes a row.
    fn read(&mut self, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        let pos = skip_space(walk.buf, pos);
        match byte(walk.buf, pos) {
            b'[' => {}
            b'n' => return Ok(literal(walk.buf, pos)?.1),
            first if !begins_value(first) => return Err(Bad::new(pos, What::Value)),
            _ => return Err(walk.blame(pos, What::Mismatch, &self.column, "a list".to_owned())),
        }
        let depth = self.depth + 1;
        let elements = &mut self.elements;
        if let Some(slot) = elements.whole_value() {
            // Each is a row: there is nothing to test, and nothing else of it is wanted.
            let builder = &mut elements.slots[slot].builder;
            let outcome = builder.append_elements(walk, pos);
            elements.row_count = builder.len();
            if outcome.is_err() {
                // The element that failed may have left something in the builder's children.
                builder.truncate(elements.row_count);
            }
            return outcome;
        }
        walk_list(walk.buf, pos, |element| match elements.read::<false>(walk, element) {
            Err(bad) if bad.is_rejection() => match elements.open_objects {
                0 => Ok(bad.at()),
                open => skip_rest(walk.buf, bad.at(), walk.end, open, depth, element),
            },
            outcome => outcome,
        })
    }
}

/// The fields of one object while it is walked.
struct Fields<'a> {
    scope: &'a mut Scope,
    object: usize,
}

impl FieldSink for Fields<'_> {
    #[inline(always)]
    fn is_taken(&self, field: u32) -> bool {
        self.scope.objects[self.object].taken[field as usize] == self.scope.current
    }

    #[inline(always)]
    fn take(&mut self, field: u32, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        let object = &mut self.scope.objects[self.object];
        object.taken[field as usize] = self.scope.current;
        let target = object.targets[field as usize];
        self.scope.take::<false>(target, walk, pos)
    }
}
