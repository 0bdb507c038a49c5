//! The schema of NDJSON files from a sample of their records.
//!
//! **Owns**: [`infer`] and the widening rule.
//!
//! **Does not own**: how a sample is read.
//!
//! | seen at one place | type |
//! |---|---|
//! | only `null`, or nothing in the lists found | Utf8 |
//! | booleans | Boolean |
//! | integers within 64 bits | Int64 |
//! | numbers, some with fraction or exponent | Float64 |
//! | integers, some beyond 64 bits | Float64, or Utf8 by [`BigIntegers`] |
//! | numbers, some beyond the doubles | Utf8 |
//! | strings, dates among them | Utf8 |
//! | objects | Struct of the union of their fields, in order of first appearance |
//! | objects without any field, or with more than [`MAX_FIELDS`] together | Utf8 |
//! | lists | List of what all their elements together are |
//! | any two of booleans, numbers, strings, objects, lists | Utf8, holding the JSON text of what is no string |
//!
//! `null` widens nothing. Of duplicate fields in an object the first counts. Every field is nullable.
//!
//! **Invariants**: every record of the sample decodes under the inferred schema. Widening is associative, so that
//! pieces of a sample are read side by side and merged in file order, with the outcome of reading them in turn.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::bad::Bad;
use super::byte_scan::{byte, skip_space, string_end};
use super::decoder::{BYTE_ORDER_MARK, error_of};
use super::token::{literal, number_end, unescape};
use super::validate::validate_record;
use super::value::walk_list;
use crate::leaf::number::{parse_f64, parse_i64};
use crate::{BigIntegers, OnError, RawError, Sample};

/// What the user said about inference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferOptions {
    /// Records looked at, over all samples.
    pub sample_rows: usize,
    /// The type of integers beyond 64 bits.
    pub big_integers: BigIntegers,
    /// Whether a record that is no JSON object is left out rather than an error.
    pub on_error: OnError,
    /// Threads that a large sample is spread over.
    pub threads: usize,
}

impl Default for InferOptions {
    fn default() -> Self {
        Self { sample_rows: 10_000, big_integers: BigIntegers::default(), on_error: OnError::Fail, threads: 1 }
    }
}

/// Most fields of a struct. Objects with more are maps, with data for keys: as a struct each row would take time and
/// memory for the keys of all others.
const MAX_FIELDS: usize = 1000;

/// A thread costs some 50 µs to start; this much takes one 2 ms to read.
const PIECE_LEAST_BYTES: usize = 512 << 10;

/// Infers the columns of a table from the beginnings of its files, each of which gives an equal share of the sampled
/// rows at most, and what the files before it left of theirs. Sampled records are validated whole.
///
/// # Errors
/// No sample has a whole record, or only empty objects; a record is not JSON (naming the byte), unless those are
/// skipped.
pub fn infer<'a>(samples: impl IntoIterator<Item = Sample<'a>>, options: &InferOptions) -> Result<SchemaRef, RawError> {
    let mut root = ObjectShape::default();
    let mut first: Option<(Arc<str>, &'static str)> = None;
    let samples: Vec<Sample<'a>> = samples.into_iter().collect();
    let mut rows_left = options.sample_rows.max(1);
    for (at, sample) in samples.iter().enumerate() {
        let reason = match sample.bytes {
            [] if sample.is_whole => "the file is empty",
            _ => "there is no whole record with a field in the sample",
        };
        first.get_or_insert_with(|| (Arc::clone(&sample.file), reason));
        // Its share of the rows, or a long file would use up those of the files behind it.
        let share = rows_left.div_ceil(samples.len() - at);
        let mut share_left = share;
        read_sample(sample, options, &mut root, &mut share_left)?;
        rows_left -= share - share_left;
        if rows_left == 0 {
            break;
        }
    }
    if root.fields.is_empty() {
        let (file, reason) = first.unwrap_or((Arc::from("(no file)"), "there is no file"));
        return Err(RawError::NothingToInfer { file, reason: reason.to_owned() });
    }
    Ok(Arc::new(Schema::new(root.arrow_fields(options.big_integers))))
}

fn read_sample(
    sample: &Sample<'_>,
    options: &InferOptions,
    root: &mut ObjectShape,
    rows_left: &mut usize,
) -> Result<(), RawError> {
    let mut start = if sample.bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let pieces = pieces(sample.bytes, start, *rows_left, options.threads);
    if pieces.len() > 1 {
        let read_piece = |piece: Range<usize>| {
            let mut shape = ObjectShape::default();
            // A piece has no more lines than rows are left.
            let mut piece_rows_left = usize::MAX;
            read_lines(sample, piece, options, &mut shape, &mut piece_rows_left)?;
            Ok((shape, usize::MAX - piece_rows_left))
        };
        let read = thread::scope(|scope| {
            let readers: Vec<_> = pieces.iter().map(|piece| scope.spawn(|| read_piece(piece.clone()))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let read: Vec<Result<(ObjectShape, usize), RawError>> = read;
        for outcome in read {
            let (shape, row_count) = outcome?;
            root.merge(shape);
            *rows_left -= row_count;
        }
        start = pieces.last().map_or(start, |last| last.end);
    }
    // All of a small sample; what blank lines and skipped records of a large one left to be read.
    read_lines(sample, start..sample.bytes.len(), options, root, rows_left)
}

/// Cuts the first `line_count` lines of `buf[start..]` into one piece a thread, unless they are too small for that.
fn pieces(buf: &[u8], start: usize, line_count: usize, threads: usize) -> Vec<Range<usize>> {
    let count = threads.min((buf.len() - start) / PIECE_LEAST_BYTES);
    if count < 2 {
        return Vec::new();
    }
    let newline = memchr::memchr_iter(b'\n', &buf[start..]).take(line_count).last();
    let end = newline.map_or(start, |at| start + at + 1);
    let mut pieces = Vec::with_capacity(count);
    let mut piece_start = start;
    for number in 1..=count {
        let aim = (start + (end - start) / count * number).max(piece_start);
        let newline = memchr::memchr(b'\n', &buf[aim..end]).filter(|_| number < count);
        let piece_end = newline.map_or(end, |at| aim + at + 1);
        if piece_end > piece_start {
            pieces.push(piece_start..piece_end);
        }
        piece_start = piece_end;
    }
    pieces
}

/// Reads the lines that start in `range`, which begins at a line's start.
fn read_lines(
    sample: &Sample<'_>,
    range: Range<usize>,
    options: &InferOptions,
    root: &mut ObjectShape,
    rows_left: &mut usize,
) -> Result<(), RawError> {
    let buf = sample.bytes;
    let mut scratch = String::new();
    let mut start = range.start;
    while start < range.end && *rows_left > 0 {
        let newline = memchr::memchr(b'\n', &buf[start..]).map(|at| start + at);
        if newline.is_none() && !sample.is_whole {
            break;
        }
        let end = newline.unwrap_or(buf.len());
        let first = skip_space(buf, start);
        start = end + 1;
        if first >= end {
            continue;
        }
        let last = end - buf[first..end].iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        let outcome = validate_record(buf, first, last).and_then(|()| root.observe(buf, first, &mut scratch));
        match outcome {
            Ok(_) => *rows_left -= 1,
            Err(_) if options.on_error == OnError::Skip => {}
            Err(bad) => return Err(error_of(&sample.file, bad, None, &buf[..last], first, newline.is_some(), 0)),
        }
    }
    Ok(())
}

/// What was seen at one place.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Shape {
    /// Nothing but `null`.
    #[default]
    Null,
    Boolean,
    Integer,
    /// Integers, some beyond 64 bits.
    BigInteger,
    /// Numbers, some with a fraction or an exponent.
    Float,
    /// The same, and some integers beyond 64 bits.
    BigFloat,
    Text,
    List(Box<Shape>),
    Object(ObjectShape),
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ObjectShape {
    /// In order of first appearance.
    fields: Vec<ShapedField>,
    by_name: BTreeMap<Arc<str>, usize>,
    /// Objects seen: marks which fields the present one had.
    object_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ShapedField {
    name: Arc<str>,
    shape: Shape,
    last_seen: u64,
}

impl Shape {
    /// Widens by the (valid) value at `pos`; gives the position behind it.
    fn observe(&mut self, buf: &[u8], pos: usize, scratch: &mut String) -> Result<usize, Bad> {
        let pos = skip_space(buf, pos);
        match byte(buf, pos) {
            b'{' => {
                if matches!(self, Self::Null) {
                    *self = Self::Object(ObjectShape::default());
                }
                match self {
                    Self::Object(object) => object.observe(buf, pos, scratch),
                    _ => {
                        *self = Self::Text;
                        ObjectShape::default().observe(buf, pos, scratch)
                    }
                }
            }
            b'[' => {
                if matches!(self, Self::Null) {
                    *self = Self::List(Box::default());
                }
                let mut other = Self::Null;
                let element = match self {
                    Self::List(element) => element.as_mut(),
                    _ => {
                        *self = Self::Text;
                        &mut other
                    }
                };
                walk_list(buf, pos, |at| element.observe(buf, at, scratch))
            }
            b'"' => {
                self.widen(Self::Text);
                Ok(string_end(buf, pos + 1, buf.len())?.0 + 1)
            }
            b'-' | b'0'..=b'9' => {
                let end = number_end(buf, pos)?;
                self.widen(Self::of_number(&buf[pos..end]));
                Ok(end)
            }
            first => {
                if first != b'n' {
                    self.widen(Self::Boolean);
                }
                Ok(literal(buf, pos)?.1)
            }
        }
    }

    fn of_number(text: &[u8]) -> Self {
        if parse_i64(text).is_some() {
            Self::Integer
        } else if parse_f64(text).is_none() {
            Self::Text
        } else if text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            Self::Float
        } else {
            Self::BigInteger
        }
    }

    /// Widens by a scalar's kind.
    fn widen(&mut self, other: Self) {
        *self = match (std::mem::take(self), other) {
            (Self::Null, other) => other,
            (this, other) if this == other => this,
            (Self::Integer, Self::Float) | (Self::Float, Self::Integer) => Self::Float,
            (Self::Integer, Self::BigInteger) | (Self::BigInteger, Self::Integer) => Self::BigInteger,
            (Self::Float, Self::BigInteger) | (Self::BigInteger, Self::Float) => Self::BigFloat,
            (Self::BigFloat, Self::Integer | Self::Float | Self::BigInteger)
            | (Self::Integer | Self::Float | Self::BigInteger, Self::BigFloat) => Self::BigFloat,
            _ => Self::Text,
        };
    }

    /// Widens by what was seen at the same place in a later piece.
    fn merge(&mut self, later: Self) {
        match (&mut *self, later) {
            (_, Self::Null) => {}
            (Self::Object(this), Self::Object(later)) => this.merge(later),
            (Self::List(this), Self::List(later)) => this.merge(*later),
            (_, later) => self.widen(later),
        }
    }

    fn data_type(&self, big_integers: BigIntegers) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::BigInteger | Self::BigFloat if big_integers == BigIntegers::Float64 => DataType::Float64,
            Self::List(element) => DataType::new_list(element.data_type(big_integers), true),
            Self::Object(object) if (1..=MAX_FIELDS).contains(&object.fields.len()) => {
                DataType::Struct(object.arrow_fields(big_integers).into())
            }
            Self::Null | Self::BigInteger | Self::BigFloat | Self::Text | Self::Object(_) => DataType::Utf8,
        }
    }
}

impl ObjectShape {
    /// Widens by the (valid) object at `open`; gives the position behind it.
    fn observe(&mut self, buf: &[u8], open: usize, scratch: &mut String) -> Result<usize, Bad> {
        self.object_count += 1;
        let mut guess = 0;
        let mut pos = skip_space(buf, open + 1);
        while byte(buf, pos) == b'"' {
            let (quote, has_escape) = string_end(buf, pos + 1, buf.len())?;
            let key = &buf[pos + 1..quote];
            let at = if has_escape {
                unescape(key, scratch)?;
                self.find(scratch, guess)
            } else {
                match self.fields.get(guess) {
                    Some(field) if field.name.as_bytes() == key => guess,
                    // Valid: the record was validated.
                    _ => self.find(&String::from_utf8_lossy(key), guess),
                }
            };
            guess = at + 1;
            let value = skip_space(buf, quote + 1) + 1;
            let field = &mut self.fields[at];
            let mut repeated = Shape::Null;
            let shape = if field.last_seen == self.object_count { &mut repeated } else { &mut field.shape };
            field.last_seen = self.object_count;
            pos = skip_space(buf, shape.observe(buf, value, scratch)?);
            if byte(buf, pos) == b',' {
                pos = skip_space(buf, pos + 1);
            }
        }
        Ok(pos + 1)
    }

    /// The number of the field `name`, new or known; `guess` is tried first.
    fn find(&mut self, name: &str, guess: usize) -> usize {
        if self.fields.get(guess).is_some_and(|field| field.name.as_ref() == name) {
            return guess;
        }
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        let name: Arc<str> = Arc::from(name);
        let at = self.fields.len();
        self.by_name.insert(Arc::clone(&name), at);
        self.fields.push(ShapedField { name, shape: Shape::Null, last_seen: 0 });
        at
    }

    /// Widens by the objects of a later piece.
    fn merge(&mut self, later: Self) {
        for (at, field) in later.fields.into_iter().enumerate() {
            let at = self.find(&field.name, at);
            self.fields[at].shape.merge(field.shape);
        }
    }

    fn arrow_fields(&self, big_integers: BigIntegers) -> Vec<FieldRef> {
        self.fields
            .iter()
            .map(|field| Arc::new(Field::new(field.name.as_ref(), field.shape.data_type(big_integers), true)))
            .collect()
    }
}
