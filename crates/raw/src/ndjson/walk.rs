//! The walk over one object: field after field, values handed to whoever wants them, the rest skipped.
//!
//! **Owns**: the loop over an object's fields, shared by records and by nested columns, and what the walk carries
//! along.
//!
//! **Does not own**: what is done with a wanted value ([`FieldSink`]), which names are wanted ([`FieldTable`]).
//!
//! **Invariants**: of several fields of one name the first counts. Hence the walk ends as soon as every wanted name was
//! seen: a record's tail is never looked at, a nested object's tail is skipped in blocks.

use std::sync::Arc;

use super::bad::{Bad, What};
use super::byte_scan::{byte, skip_space};
use super::field_table::{FieldTable, UNWANTED};
use super::skip::{skip_rest, skip_value};

/// What a walk over a record carries along.
pub(super) struct Walk<'a> {
    /// The buffer that positions point into.
    pub(super) buf: &'a [u8],
    /// End of the record: behind its closing brace.
    pub(super) end: usize,
    /// Room for a string without its escapes.
    pub(super) scratch: &'a mut String,
    /// The column and type that a mismatch is about.
    pub(super) culprit: Option<Culprit>,
}

/// A column that could not take a value.
pub(super) struct Culprit {
    pub(super) column: Arc<str>,
    pub(super) expected: String,
}

impl Walk<'_> {
    /// A fault of the value at `pos` against a column.
    #[cold]
    pub(super) fn blame(&mut self, pos: usize, what: What, column: &Arc<str>, expected: String) -> Bad {
        self.culprit = Some(Culprit { column: Arc::clone(column), expected });
        Bad::new(pos, what)
    }
}

/// Takes the wanted values of an object.
pub(super) trait FieldSink {
    /// Whether `field` was taken from this object already.
    fn is_taken(&self, field: u32) -> bool;

    /// Takes the value of `field` at `pos`, white space before it allowed; gives the position behind the value.
    fn take(&mut self, field: u32, walk: &mut Walk<'_>, pos: usize) -> Result<usize, Bad>;
}

/// Walks the object that opens at `open` inside of `depth` others; gives the position behind it. With `IS_RECORD` the
/// object ends where the record does, which the caller has checked to be a brace.
#[inline]
pub(super) fn walk_object<const IS_RECORD: bool, S: FieldSink>(
    table: &mut FieldTable,
    sink: &mut S,
    walk: &mut Walk<'_>,
    open: usize,
    depth: u32,
) -> Result<usize, Bad> {
    let buf = walk.buf;
    let end = walk.end;
    let mut left = table.len();
    let mut pos = open + 1;
    let mut guess = 0;
    if left > 0 {
        pos = skip_space(buf, pos);
        if byte(buf, pos) == b'}' {
            return Ok(pos + 1);
        }
    }
    while left > 0 {
        if byte(buf, pos) != b'"' {
            return Err(Bad::new(pos, What::Key));
        }
        let (field, value) = table.next(walk, pos + 1, &mut guess)?;
        if field == UNWANTED || sink.is_taken(field) {
            pos = skip_value(buf, value, end, depth + 1)?;
        } else {
            pos = sink.take(field, walk, value)?;
            left -= 1;
        }
        let mut next = byte(buf, pos);
        if next <= b' ' {
            pos = skip_space(buf, pos);
            next = byte(buf, pos);
        }
        match next {
            b',' => {
                pos += 1;
                if byte(buf, pos) <= b' ' {
                    pos = skip_space(buf, pos);
                }
            }
            b'}' => return Ok(pos + 1),
            _ => return Err(Bad::new(pos, What::CommaOrBrace)),
        }
    }
    if IS_RECORD { Ok(end) } else { skip_rest(buf, pos, end, 1, depth, open) }
}
