//! From an Arrow array to leaf columns.
//!
//! Goes down the type once, a field at a time over all records (not record by record): the entries of a node are those
//! of the node above it with their levels raised where it is there, and multiplied where it is a list.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MutableArrayData, StructArray, UInt32Array, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::levels::Levels;
use super::{Leaf, Node, NodeKind, place};

pub(super) fn shred(array: &ArrayRef) -> Result<(Node, Vec<Leaf>), ArrowError> {
    let entries = Entries {
        definitions: LevelColumn::new(vec![0; array.len()]),
        repetitions: LevelColumn::new(vec![0; array.len()]),
        places: Places::Run { first: 0, count: array.len() },
    };
    let mut leaves = Vec::new();
    let position = Position { definition: 0, place_definition: 0, repetition: 0 };
    let root = shred_node(array, &entries, position, &mut leaves)?;
    leaves.shrink_to_fit();
    Ok((root, leaves))
}

/// Levels while the columns below are still to be made, packed when the first leaf needs them.
struct LevelColumn {
    levels: Vec<u8>,
    packed: OnceCell<Arc<Levels>>,
}

impl LevelColumn {
    fn new(levels: Vec<u8>) -> Rc<Self> {
        Rc::new(Self { levels, packed: OnceCell::new() })
    }

    fn packed(&self) -> Arc<Levels> {
        Arc::clone(self.packed.get_or_init(|| Arc::new(Levels::pack(&self.levels))))
    }
}

/// The entries of a node: their levels, and where in the node's array those lie that have got that far.
struct Entries {
    definitions: Rc<LevelColumn>,
    repetitions: Rc<LevelColumn>,
    /// One place for each entry of the highest definition level so far, in order.
    places: Places,
}

enum Places {
    Run { first: usize, count: usize },
    Picked(Vec<u32>),
}

impl Places {
    fn count(&self) -> usize {
        match self {
            Self::Run { count, .. } => *count,
            Self::Picked(places) => places.len(),
        }
    }

    fn for_each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Self::Run { first, count } => (*first..first + count).for_each(visit),
            Self::Picked(places) => places.iter().for_each(|&place| visit(place as usize)),
        }
    }
}

/// Where a node is on its path; see [`Node`].
#[derive(Clone, Copy)]
struct Position {
    definition: u8,
    place_definition: u8,
    repetition: u8,
}

fn shred_node(
    array: &ArrayRef,
    entries: &Entries,
    mut position: Position,
    leaves: &mut Vec<Leaf>,
) -> Result<Node, ArrowError> {
    if u32::try_from(array.len()).is_err() {
        return Err(ArrowError::InvalidArgumentError(format!(
            "a field of {} values cannot be striped, at most {} can",
            array.len(),
            u32::MAX
        )));
    }
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let present;
    let entries = match nulls {
        Some(nulls) => {
            present = keep_present(entries, nulls, position.definition);
            position.definition = next_level(position.definition)?;
            &present
        }
        None => entries,
    };
    let first_leaf = leaves.len();
    let kind = match array.data_type() {
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let elements = enter_list(entries, list, position)?;
            let definition = next_level(position.definition)?;
            let below = Position { definition, place_definition: definition, repetition: position.repetition + 1 };
            let element = Box::new(shred_node(list.values(), &elements, below, leaves)?);
            NodeKind::List { field: Arc::clone(field), element }
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let array: &StructArray = array.as_struct();
            let mut children = Vec::with_capacity(fields.len());
            for child in array.columns() {
                children.push(shred_node(child, entries, position, leaves)?);
            }
            NodeKind::Struct { fields: fields.clone(), children }
        }
        data_type => {
            let is_empty_struct = matches!(data_type, DataType::Struct(_));
            if !is_empty_struct {
                place::check_scalar(data_type)?;
            }
            let values = if is_empty_struct { None } else { Some(pick(array, &entries.places)?) };
            let (definitions, repetitions) = (entries.definitions.packed(), entries.repetitions.packed());
            leaves.push(Leaf { definitions, repetitions, values });
            NodeKind::Leaf
        }
    };
    let source =
        (first_leaf..leaves.len()).min_by_key(|&leaf| leaves[leaf].definitions.entry_count()).unwrap_or(first_leaf);
    Ok(Node {
        data_type: array.data_type().clone(),
        is_optional: nulls.is_some(),
        definition: position.definition,
        place_definition: position.place_definition,
        repetition: position.repetition,
        source,
        kind,
    })
}

fn next_level(level: u8) -> Result<u8, ArrowError> {
    // 255 is left out so that a threshold one above any level is still a level.
    match level {
        0..254 => Ok(level + 1),
        _ => Err(ArrowError::InvalidArgumentError("a type of more than 254 levels cannot be striped".to_owned())),
    }
}

/// The entries with those one level up whose place is not NULL.
fn keep_present(entries: &Entries, nulls: &NullBuffer, definition: u8) -> Entries {
    let count = entries.places.count();
    let mut present = Vec::with_capacity(count);
    // One more than there are places, so that the look-ahead below stays in bounds.
    let mut raised = Vec::with_capacity(count + 1);
    entries.places.for_each(|place| {
        let is_valid = nulls.is_valid(place);
        raised.push(u8::from(is_valid));
        if is_valid {
            present.push(place as u32);
        }
    });
    raised.push(0);
    let mut next = 0;
    let raise = |&level: &u8| {
        let is_here = level == definition;
        let level = level + (raised[next] & u8::from(is_here));
        next += usize::from(is_here);
        level
    };
    let definitions = entries.definitions.levels.iter().map(raise).collect();
    Entries {
        definitions: LevelColumn::new(definitions),
        repetitions: Rc::clone(&entries.repetitions),
        places: Places::Picked(present),
    }
}

/// The entries of a list's elements: one for each element, one for each list that is empty, and the others as they are.
fn enter_list(entries: &Entries, list: &ListArray, position: Position) -> Result<Entries, ArrowError> {
    let offsets = list.value_offsets();
    let (mut element_count, mut empty_count, mut run_end) = (0, 0, None);
    let (mut first, mut is_run) = (0, true);
    let mut ranges = Vec::with_capacity(entries.places.count());
    entries.places.for_each(|place| {
        let (start, end) = (offsets[place] as usize, offsets[place + 1] as usize);
        ranges.push((start as u32, end as u32));
        if start == end {
            empty_count += 1;
        } else {
            element_count += end - start;
            is_run &= run_end.is_none_or(|run_end| run_end == start);
            if run_end.is_none() {
                first = start;
            }
            run_end = Some(end);
        }
    });
    let elsewhere_count = entries.definitions.levels.len() - ranges.len();
    let entry_count = element_count + empty_count + elsewhere_count;
    let mut definitions = Vec::with_capacity(entry_count);
    let mut repetitions = Vec::with_capacity(entry_count);
    let (here, element) = (position.definition, next_level(position.definition)?);
    let again = next_level(position.repetition)?;
    let mut next = ranges.iter();
    for (&definition, &repetition) in entries.definitions.levels.iter().zip(&entries.repetitions.levels) {
        repetitions.push(repetition);
        let range = if definition == here { next.next() } else { None };
        match range {
            Some((start, end)) if start < end => {
                let length = (end - start) as usize;
                definitions.resize(definitions.len() + length, element);
                repetitions.resize(repetitions.len() + length - 1, again);
            }
            _ => definitions.push(definition),
        }
    }
    let places = if is_run {
        Places::Run { first, count: element_count }
    } else {
        let mut picked = Vec::with_capacity(element_count);
        for (start, end) in ranges {
            picked.extend(start..end);
        }
        Places::Picked(picked)
    };
    Ok(Entries { definitions: LevelColumn::new(definitions), repetitions: LevelColumn::new(repetitions), places })
}

/// The values at `places`, none of them NULL, in buffers that are not much larger than they need to be.
fn pick(array: &ArrayRef, places: &Places) -> Result<ArrayRef, ArrowError> {
    let mut values = match places {
        Places::Run { first, count } => array.slice(*first, *count),
        Places::Picked(places) => compute::take(array, &UInt32Array::new(places.clone().into(), None), None)?,
    };
    if values.nulls().is_some() {
        values = make_array(values.to_data().into_builder().nulls(None).build()?);
    }
    // Values that fill three quarters of their buffers waste less than a copy costs.
    let data = values.to_data();
    let needed_bytes = data.get_slice_memory_size()?;
    if values.get_buffer_memory_size() > needed_bytes.saturating_add(needed_bytes / 3).saturating_add(1024) {
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        values = make_array(copy.freeze());
        if let Some(values) = Arc::get_mut(&mut values) {
            values.shrink_to_fit();
        }
    }
    Ok(values)
}
