//! Some rows of a chunk on their way to an array.
//!
//! **Concurrency**: one thread at a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder, UInt16Array, UInt32Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::concat;

use crate::ChunkError;
use crate::dictionary::{Dictionary, spelt_out, spelt_text_bytes};
use crate::kind::{Kind, Stored};
use crate::page::PageValues;
use crate::plain::{Values, spread};

/// See the module.
pub(crate) struct Slice<'k> {
    kind: &'k Kind,
    room: usize,
    /// What was read in another way than what is being read now.
    done: Vec<ArrayRef>,
    current: Option<Part>,
}

/// Rows that are stored in one way.
struct Part {
    body: Body,
    /// Which are not NULL, once one was.
    valid: Option<BooleanBufferBuilder>,
}

enum Body {
    /// Codes of a dictionary of at most 65,536 values.
    Codes(Vec<u16>),
    LongCodes(Vec<u32>),
    Values(Values),
}

/// Bytes that the codes of one slice are spelt out to at most. Texts are long where it is more: few of them fit into a
/// dictionary of the size that writers make (1 MiB), and what they are repeated for takes no memory of the file's size.
const MOST_SPELT_BYTES: usize = 64 << 20;

/// Values of a dictionary that has codes of sixteen bits.
const SHORT_CODES: usize = 1 << 16;

impl Body {
    fn len(&self) -> usize {
        match self {
            Self::Codes(codes) => codes.len(),
            Self::LongCodes(codes) => codes.len(),
            Self::Values(values) => values.len(),
        }
    }
}

impl<'k> Slice<'k> {
    /// No rows yet, with room for some.
    pub(crate) fn new(kind: &'k Kind, room: usize) -> Self {
        Self { kind, room, done: Vec::new(), current: None }
    }

    /// Appends the next `rows` of a page, of which `count` are not NULL: those that `valid` says.
    pub(crate) fn append(
        &mut self,
        from: &mut PageValues,
        rows: usize,
        count: usize,
        valid: Option<BooleanBuffer>,
        dictionary: Option<&Arc<Dictionary>>,
    ) -> Result<(), ChunkError> {
        let is_coded = matches!(from, PageValues::Codes(_));
        if self.current.as_ref().is_some_and(|part| matches!(part.body, Body::Values(_)) == is_coded) {
            self.end_part(dictionary)?;
        }
        let (kind, room) = (self.kind, self.room);
        let part = self.current.get_or_insert_with(|| {
            let body = match dictionary.map_or(0, |dictionary| dictionary.len()) {
                _ if !is_coded => Body::Values(Values::new(kind, room)),
                0..=SHORT_CODES => Body::Codes(Vec::with_capacity(room)),
                _ => Body::LongCodes(Vec::with_capacity(room)),
            };
            Part { body, valid: None }
        });
        let begin = part.body.len();
        part.note_valid(begin, rows, valid.as_ref());
        let valid = valid.as_ref();
        match (&mut part.body, from) {
            (Body::Codes(codes), PageValues::Codes(stored)) => {
                stored.read(count, codes)?;
                spread(codes, begin, rows, valid);
            }
            (Body::LongCodes(codes), PageValues::Codes(stored)) => {
                stored.read(count, codes)?;
                spread(codes, begin, rows, valid);
            }
            (Body::Values(Values::Bits(bits)), PageValues::BitRuns(stored)) => {
                let set = stored.read_bits(count)?.unwrap_or_else(|| BooleanBuffer::new_set(count));
                match valid {
                    None => bits.append_buffer(&set),
                    Some(valid) => {
                        let mut next = set.iter();
                        valid.iter().for_each(|valid| bits.append(valid && next.next().unwrap_or_default()));
                    }
                }
            }
            (Body::Values(values), PageValues::Plain(stored)) => stored.read(rows, count, valid, values)?,
            _ => return Err(ChunkError::damaged("a page of another kind than its column")),
        }
        Ok(())
    }

    /// All rows.
    pub(crate) fn finish(mut self, dictionary: Option<&Arc<Dictionary>>) -> Result<ArrayRef, ChunkError> {
        self.end_part(dictionary)?;
        if self.done.len() == 1 {
            return Ok(self.done.swap_remove(0));
        }
        if self.done.is_empty() {
            return Values::new(self.kind, 0).into_array(self.kind, None);
        }
        if self.done.iter().map(spelt_text_bytes).sum::<usize>() > MOST_SPELT_BYTES {
            return Err(ChunkError::TooLong);
        }
        let spelt = self.done.into_iter().map(spelt_out).collect::<Result<Vec<_>, _>>()?;
        if self.kind.stored == Stored::Texts {
            let parts: Vec<_> = spelt.iter().map(|part| part.as_ref()).collect();
            return Ok(concat(&parts)?);
        }
        let parts: Vec<&ArrayRef> = spelt.iter().collect();
        Ok(thermocline_narrow::concat(&parts)?)
    }

    fn end_part(&mut self, dictionary: Option<&Arc<Dictionary>>) -> Result<(), ChunkError> {
        let Some(Part { body, valid }) = self.current.take() else { return Ok(()) };
        let nulls = valid.map(|mut valid| NullBuffer::new(valid.finish()));
        let dictionary = || dictionary.ok_or_else(|| ChunkError::damaged("codes without a dictionary"));
        let is_text = self.kind.stored == Stored::Texts;
        self.done.push(match body {
            Body::Values(values) => values.into_array(self.kind, nulls)?,
            Body::Codes(codes) => dictionary()?.array_of(UInt16Array::new(codes.into(), nulls), is_text)?,
            Body::LongCodes(codes) => dictionary()?.array_of(UInt32Array::new(codes.into(), nulls), is_text)?,
        });
        Ok(())
    }
}

impl Part {
    /// The next rows, behind `begin` others, are those that `valid` says.
    fn note_valid(&mut self, begin: usize, rows: usize, valid: Option<&BooleanBuffer>) {
        match (&mut self.valid, valid) {
            (None, None) => {}
            (Some(known), None) => known.append_n(rows, true),
            (known, Some(valid)) => {
                let known = known.get_or_insert_with(|| {
                    let mut all = BooleanBufferBuilder::new(begin + rows);
                    all.append_n(begin, true);
                    all
                });
                known.append_buffer(valid);
            }
        }
    }
}
