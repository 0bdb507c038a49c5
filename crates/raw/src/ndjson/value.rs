//! Columns that grow from JSON values: flat ones, structs and lists, to any depth.
//!
//! **Owns**: which JSON value may become which Arrow type, and building nested arrays.
//!
//! | column | takes |
//! |---|---|
//! | Boolean | `true`, `false` |
//! | integers, floats | numbers (a fraction or exponent never becomes an integer) |
//! | Date32, Timestamp, Decimal128 | numbers and strings; numbers count days or units since 1970 |
//! | Utf8 | strings unescaped; of every other value its JSON text as it stands |
//! | Struct | objects; of several fields of one name the first; missing fields are NULL |
//! | List | lists |
//! | each | `null` as NULL |
//!
//! **Invariants**: after a fault a builder may have rows too many, in itself or in its children, until
//! [`ValueBuilder::truncate`]; the caller takes the record back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StructArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use arrow::error::ArrowError;
use thermocline_predicate::{Domain, FieldPath};

use super::bad::{Bad, What};
use super::byte_scan::{PLAIN_STEP, byte, plain_length, skip_space, string_end};
use super::field_table::FieldTable;
use super::skip::skip_container;
use super::token::{Literal, begins_value, literal, number_end, unescape};
use super::walk::{FieldSink, Walk, walk_object};
use crate::error::MAX_DEPTH;
use crate::leaf::Nulls;
use crate::{LeafBuilder, Mismatch, RawError};

/// A column under construction, fed with positions of JSON values.
#[derive(Debug, Clone)]
pub(super) struct ValueBuilder {
    /// The column's path, for messages.
    column: Arc<str>,
    /// How many objects and lists are open around its values.
    depth: u32,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Leaf(Leaf),
    Struct(Box<StructBuilder>),
    List(Box<ListBuilder>),
}

#[derive(Debug, Clone)]
struct Leaf {
    builder: LeafBuilder,
    /// Whether strings are values of its type.
    takes_strings: bool,
    /// Whether it takes the text of everything.
    is_text: bool,
}

#[derive(Debug, Clone)]
struct StructBuilder {
    fields: Fields,
    table: FieldTable,
    children: Vec<ValueBuilder>,
    nulls: Nulls,
    len: usize,
}

#[derive(Debug, Clone)]
struct ListBuilder {
    field: FieldRef,
    child: ValueBuilder,
    /// `ends[i]` is the child's length after list `i`.
    ends: Vec<i32>,
    nulls: Nulls,
}

impl ValueBuilder {
    /// An empty column for values at `path` inside of `depth` objects and lists.
    pub(super) fn new(path: &FieldPath, data_type: &DataType, depth: u32) -> Result<Self, RawError> {
        if depth as usize > MAX_DEPTH {
            return Err(RawError::plan(path, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let check = |field: &FieldRef| {
            if field.is_nullable() {
                Ok(())
            } else {
                Err(RawError::plan(
                    path,
                    format!("field {:?} is NOT NULL, which raw files cannot promise", field.name()),
                ))
            }
        };
        let kind = match data_type {
            DataType::Struct(fields) => {
                if fields.is_empty() {
                    return Err(RawError::plan(path, "a struct needs at least one field"));
                }
                fields.iter().try_for_each(check)?;
                let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
                let table = FieldTable::new(names.iter().copied());
                names.sort_unstable();
                if let Some(name) = names.windows(2).find_map(|pair| (pair[0] == pair[1]).then_some(pair[0])) {
                    return Err(RawError::plan(path, format!("two fields are named {name:?}")));
                }
                let children = fields
                    .iter()
                    .map(|field| Self::new(&path.child(field.name()), field.data_type(), depth + 1))
                    .collect::<Result<_, _>>()?;
                Kind::Struct(Box::new(StructBuilder {
                    fields: fields.clone(),
                    table,
                    children,
                    nulls: Nulls::default(),
                    len: 0,
                }))
            }
            DataType::List(field) => {
                check(field)?;
                let child = Self::new(path, field.data_type(), depth + 1)?;
                let nulls = Nulls::default();
                Kind::List(Box::new(ListBuilder { field: Arc::clone(field), child, ends: Vec::new(), nulls }))
            }
            flat => {
                let builder = LeafBuilder::new(flat)
                    .ok_or_else(|| RawError::plan(path, format!("type {flat} cannot be read from NDJSON")))?;
                let is_text = flat == &DataType::Utf8;
                let takes_strings =
                    is_text || matches!(flat, DataType::Date32 | DataType::Timestamp(..) | DataType::Decimal128(..));
                Kind::Leaf(Leaf { builder, takes_strings, is_text })
            }
        };
        Ok(Self { column: Arc::from(path.to_string()), depth, kind })
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Leaf(leaf) => leaf.builder.len(),
            Kind::Struct(builder) => builder.len,
            Kind::List(builder) => builder.ends.len(),
        }
    }

    /// Appends the value at `pos`, white space before it allowed; gives the position behind it.
    #[inline]
    pub(super) fn append(&mut self, walk: &mut Walk<'_>, mut pos: usize) -> Result<usize, Bad> {
        if byte(walk.buf, pos) <= b' ' {
            pos = skip_space(walk.buf, pos);
        }
        match &mut self.kind {
            Kind::Leaf(leaf) => leaf.append(walk, pos, &self.column, self.depth),
            _ => self.append_nested(walk, pos),
        }
    }

    fn append_nested(&mut self, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        match (&mut self.kind, byte(walk.buf, pos)) {
            (Kind::Struct(builder), b'{') => builder.append(walk, pos, self.depth),
            (Kind::List(builder), b'[') => builder.append(walk, pos, &self.column),
            (_, b'n') => {
                let (_, end) = literal(walk.buf, pos)?;
                self.append_null();
                Ok(end)
            }
            (_, first) if !begins_value(first) => Err(Bad::new(pos, What::Value)),
            (kind, _) => {
                let expected = if matches!(kind, Kind::Struct(_)) { "an object" } else { "a list" };
                Err(walk.blame(pos, What::Mismatch, &self.column, expected.to_owned()))
            }
        }
    }

    /// Appends all elements of the list that opens at `open`; gives the position behind it.
    #[inline]
    pub(super) fn append_elements(&mut self, walk: &mut Walk<'_>, open: usize) -> Result<usize, Bad> {
        walk_list(walk.buf, open, |pos| {
            let end = match &mut self.kind {
                Kind::Leaf(leaf) => leaf.append_plain_texts(walk, pos),
                _ => pos,
            };
            if end > pos { Ok(end) } else { self.append(walk, pos) }
        })
    }

    pub(super) fn append_null(&mut self) {
        match &mut self.kind {
            Kind::Leaf(leaf) => leaf.builder.append_null(),
            Kind::Struct(builder) => {
                builder.nulls.push(builder.len);
                builder.len += 1;
                builder.children.iter_mut().for_each(Self::append_null);
            }
            Kind::List(builder) => {
                builder.nulls.push(builder.ends.len());
                builder.ends.push(builder.end());
            }
        }
    }

    /// Takes rows from `len` on back, whole or begun.
    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        match &mut self.kind {
            Kind::Leaf(leaf) => leaf.builder.truncate(len),
            _ => self.truncate_nested(len),
        }
    }

    fn truncate_nested(&mut self, len: usize) {
        match &mut self.kind {
            Kind::Leaf(leaf) => leaf.builder.truncate(len),
            Kind::Struct(builder) => {
                builder.len = builder.len.min(len);
                builder.nulls.truncate(len);
                builder.children.iter_mut().for_each(|child| child.truncate(len));
            }
            Kind::List(builder) => {
                builder.ends.truncate(len);
                builder.nulls.truncate(len);
                builder.child.truncate(builder.end() as usize);
            }
        }
    }

    /// Whether the last row lies in `domain`. Of structs and lists only NULL and not NULL can be told apart.
    #[inline]
    pub(super) fn test(&self, domain: &Domain) -> bool {
        let is_null = match &self.kind {
            Kind::Leaf(leaf) => return leaf.builder.test(domain),
            Kind::Struct(builder) => builder.len > 0 && builder.nulls.is_last(builder.len - 1),
            Kind::List(builder) => !builder.ends.is_empty() && builder.nulls.is_last(builder.ends.len() - 1),
        };
        if is_null { domain.admits_null() } else { !domain.intervals().is_empty() }
    }

    /// All rows as an exactly sized array; starts anew.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match &mut self.kind {
            Kind::Leaf(leaf) => leaf.builder.finish(),
            Kind::Struct(builder) => {
                let children = builder.children.iter_mut().map(Self::finish).collect::<Result<Vec<_>, _>>()?;
                let nulls = builder.nulls.finish(builder.len);
                builder.len = 0;
                Ok(Arc::new(StructArray::try_new(builder.fields.clone(), children, nulls)?))
            }
            Kind::List(builder) => {
                let mut offsets = Vec::with_capacity(builder.ends.len() + 1);
                offsets.push(0);
                offsets.extend_from_slice(&builder.ends);
                let nulls = builder.nulls.finish(builder.ends.len());
                builder.ends.clear();
                let values = builder.child.finish()?;
                debug_assert_eq!(values.len(), offsets.last().map_or(0, |&end| end as usize));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Ok(Arc::new(ListArray::try_new(Arc::clone(&builder.field), offsets, values, nulls)?))
            }
        }
    }
}

impl Leaf {
    #[inline]
    fn append(&mut self, walk: &mut Walk<'_>, pos: usize, column: &Arc<str>, depth: u32) -> Result<usize, Bad> {
        let buf = walk.buf;
        let (outcome, end) = match byte(buf, pos) {
            b'-' | b'0'..=b'9' => {
                let end = number_end(buf, pos)?;
                (self.builder.append_number(&buf[pos..end]), end)
            }
            b'"' => {
                let (quote, has_escape) = string_end(buf, pos + 1, walk.end)?;
                let content = &buf[pos + 1..quote];
                let outcome = if !self.takes_strings {
                    Err(Mismatch::NotOfType)
                } else if has_escape {
                    unescape(content, walk.scratch).map_err(|bad| Bad::new(pos + 1 + bad.at(), bad.what()))?;
                    self.builder.append_str(walk.scratch)
                } else {
                    self.builder.append_text(content)
                };
                (outcome, quote + 1)
            }
            b'n' | b't' | b'f' => {
                let (value, end) = literal(buf, pos)?;
                let outcome = match value {
                    Literal::Null => {
                        self.builder.append_null();
                        Ok(())
                    }
                    Literal::True => self.builder.append_boolean(true),
                    Literal::False => self.builder.append_boolean(false),
                };
                (outcome, end)
            }
            b'{' | b'[' if self.is_text => {
                let end = skip_container(buf, pos, walk.end, depth)?;
                (self.builder.append_text(&buf[pos..end]), end)
            }
            b'{' | b'[' => (Err(Mismatch::NotOfType), pos),
            _ => return Err(Bad::new(pos, What::Value)),
        };
        match outcome {
            Ok(()) => Ok(end),
            Err(mismatch) => Err(self.refuse(walk, pos, column, mismatch)),
        }
    }

    /// Appends the strings from `pos` on that are nothing but ASCII and follow one another, commas between them; gives
    /// the position behind the last, or `pos` if there is none, or the column is of another type.
    #[inline]
    fn append_plain_texts(&mut self, walk: &Walk<'_>, mut pos: usize) -> usize {
        let (buf, mut end) = (walk.buf, pos);
        let Some(texts) = self.builder.texts() else { return end };
        while byte(buf, pos) == b'"' {
            let mut at = pos + 1;
            let is_closed = loop {
                let Some(step) = buf.get(at..).and_then(|rest| rest.first_chunk::<PLAIN_STEP>()) else { break false };
                let length = plain_length(step);
                texts.begin_ascii(step, length);
                at += length;
                if length < PLAIN_STEP {
                    break step[length] == b'"' && at < walk.end;
                }
            };
            if !is_closed || !texts.append_begun() {
                texts.drop_begun();
                break;
            }
            end = at + 1;
            if byte(buf, end) != b',' {
                break;
            }
            pos = end + 1;
        }
        end
    }

    #[cold]
    fn refuse(&self, walk: &mut Walk<'_>, pos: usize, column: &Arc<str>, mismatch: Mismatch) -> Bad {
        let what = match mismatch {
            Mismatch::NotOfType => What::Mismatch,
            Mismatch::NotUtf8 => What::Utf8,
            Mismatch::ColumnFull => What::ColumnFull,
        };
        let expected = match mismatch {
            Mismatch::NotUtf8 => what.expected().to_owned(),
            _ => self.builder.data_type().to_string(),
        };
        let pos = match mismatch {
            Mismatch::NotUtf8 => {
                // Not in the bytes before the value's text, a quote at most.
                pos + std::str::from_utf8(&walk.buf[pos..walk.end]).map_or_else(|error| error.valid_up_to(), str::len)
            }
            _ => pos,
        };
        walk.blame(pos, what, column, expected)
    }
}

impl StructBuilder {
    fn append(&mut self, walk: &mut Walk<'_>, pos: usize, depth: u32) -> Result<usize, Bad> {
        let mut sink = Children { children: &mut self.children, len: self.len };
        let end = walk_object::<false, _>(&mut self.table, &mut sink, walk, pos, depth)?;
        self.len += 1;
        for child in &mut self.children {
            if child.len() < self.len {
                child.append_null();
            }
        }
        Ok(end)
    }
}

/// The fields of a struct while one object is read.
struct Children<'a> {
    children: &'a mut [ValueBuilder],
    /// Rows before this object.
    len: usize,
}

impl FieldSink for Children<'_> {
    #[inline(always)]
    fn is_taken(&self, field: u32) -> bool {
        self.children[field as usize].len() > self.len
    }

    #[inline(always)]
    fn take(&mut self, field: u32, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad> {
        self.children[field as usize].append(walk, pos)
    }
}

impl ListBuilder {
    fn end(&self) -> i32 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn append(&mut self, walk: &mut Walk<'_>, open: usize, column: &Arc<str>) -> Result<usize, Bad> {
        let end = self.child.append_elements(walk, open)?;
        let Ok(length) = i32::try_from(self.child.len()) else {
            return Err(walk.blame(open, What::ColumnFull, column, "fewer elements".to_owned()));
        };
        self.ends.push(length);
        Ok(end)
    }
}

/// Walks the list that opens at `open`; `element` gets the position of each element and gives that behind it.
#[inline(always)]
pub(super) fn walk_list(
    buf: &[u8],
    open: usize,
    mut element: impl FnMut(usize) -> Result<usize, Bad>,
) -> Result<usize, Bad> {
    let mut pos = skip_space(buf, open + 1);
    if byte(buf, pos) == b']' {
        return Ok(pos + 1);
    }
    loop {
        pos = skip_space(buf, element(pos)?);
        match byte(buf, pos) {
            b',' => pos = skip_space(buf, pos + 1),
            b']' => return Ok(pos + 1),
            _ => return Err(Bad::new(pos, What::CommaOrBracket)),
        }
    }
}
