//! A scanned column's page, open: mini-blocks of it as words, and single values.
//!
//! **Owns**: when a mini-block is unpacked. **Does not own**: how pages lie (`form`), which values are looked at, what
//! they are compared with.
//!
//! **Invariants**: the ordinal of value `i` of a block is its base plus word `i`, modulo 2^64, whatever the page's
//! encoding; of texts it is a code, in a sorted dictionary if the order of codes counts. A mini-block is unpacked at
//! most once while it is worked on.
//!
//! **Concurrency**: a reader belongs to one thread.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use thermocline_column_store::{Body, Frame, MINI_BLOCK_VALUES, Page, RunFrame, Validity};
use thermocline_narrow::DecimalFloats;

use super::ahead::{Ahead, Pace};
use super::array_texts;
use super::coded::Coded;
use super::form::{Form, Scratch, Unpacked};
use super::kept_texts::KeptTexts;
use super::native::Native;
use super::numbers::{Lane, Numbers};
use super::page_texts::PageTexts;
use super::place::PagePlace;
use super::runs::{self, RunReader, Runs};
use super::texts::TextUse;
use crate::ir::{TextMap, ValueType};
use crate::kernels::{MASK_WORDS, Mask, RunStarts, Words};
use crate::{PipelineError, TextList};

/// Most rows of a mini-block for which single values are taken out of packed bits instead of all.
pub(super) const SPARSE_ROWS: usize = 64;

/// The same of packed runs, whatever their width: there are fewer to unpack.
const SPARSE_RUN_ROWS: usize = 24;

/// Rows from which on, if they are taken out one by one, the next mini-block is brought near meanwhile: they lie in so
/// many of its cache lines that to wait for each takes longer than to read all of them. (Where this was measured, a line
/// takes 5 ns if many are read in a row, and 21 ns if it comes alone.)
const PREFETCHED_ROWS: usize = 6;

/// Values that are asked for before the first of them is taken, where they lie far apart.
const ROWS_AHEAD: usize = 24;

/// The most of [`SPARSE_ROWS`] for values of `width` bits: to unpack all takes as long as their words are wide.
fn sparse_rows(width: u32) -> usize {
    match width {
        0..=8 => SPARSE_ROWS / 8,
        9..=16 => SPARSE_ROWS / 4,
        _ => SPARSE_ROWS,
    }
}

/// Up to how many values of `width` bits in a mini-block are better looked up together with those of others: each takes
/// a cache line or two.
fn late_rows(width: u32) -> usize {
    match width {
        0..=8 => 4,
        9..=16 => 12,
        17..=32 => 16,
        _ => 32,
    }
}

/// A mini-block's values as words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) base: i64,
    pub(super) words: Words<'a>,
}

/// The packed bits of a mini-block, to be looked into one by one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packed<'p> {
    Values(Frame<'p>),
    Runs(RunFrame<'p>),
}

impl Packed<'_> {
    /// Calls `each` with the numbers of some rows, which rise.
    #[inline(always)]
    pub(super) fn for_each_of(&self, rows: &[u16], mut each: impl FnMut(u64)) {
        match self {
            Self::Values(Frame { base, differences }) => {
                differences.for_each_of(rows, |_, difference| each(base.wrapping_add(difference)));
            }
            Self::Runs(frame @ RunFrame { base, differences, .. }) => {
                let (mut runs, starts) = ([0; SPARSE_RUN_ROWS], RunStarts::new(frame.starts()));
                for rows in rows.chunks(SPARSE_RUN_ROWS) {
                    starts.runs_of(rows, &mut runs);
                    let of_rows = &runs[..rows.len()];
                    differences.for_each_of(of_rows, |_, difference| each(base.wrapping_add(difference)));
                }
            }
        }
    }
}

/// Which values are not NULL.
#[derive(Debug)]
enum Valid<'p> {
    Page(Validity<'p>),
    /// `None` if none is NULL.
    Array(Option<NullBuffer>),
}

/// The packed mini-blocks of a page, one after the other.
struct Frames<'f, 'p> {
    form: &'f Form<'p>,
    current: (usize, Option<Frame<'p>>),
}

impl<'f, 'p> Frames<'f, 'p> {
    fn of(form: &'f Form<'p>) -> Self {
        Self { form, current: (usize::MAX, None) }
    }

    /// The mini-block that a row of the page is in, and its place there.
    #[inline(always)]
    fn at(&mut self, row: u32) -> (Option<Frame<'p>>, usize) {
        let (index, place) = (row as usize / MINI_BLOCK_VALUES, row as usize % MINI_BLOCK_VALUES);
        if self.current.0 != index {
            self.current = (index, self.form.frame(index));
        }
        (self.current.1, place)
    }

    #[inline(always)]
    fn prefetch(&mut self, row: u32) {
        if let (Some(frame), place) = self.at(row) {
            frame.differences.prefetch_value(place);
        }
    }

    #[inline(always)]
    fn get(&mut self, row: u32) -> i64 {
        match self.at(row) {
            (Some(Frame { base, differences }), place) => base.wrapping_add(differences.get(place)) as i64,
            (None, _) => 0,
        }
    }
}

/// A page and the mini-block of it that is worked on.
#[derive(Debug)]
pub(super) struct ColumnReader<'p> {
    place: PagePlace,
    form: Form<'p>,
    valid: Valid<'p>,
    texts: Option<PageTexts<'p>>,
    /// In their place, if nobody but the sink takes them and they are spelt out.
    kept: Option<KeptTexts<'p>>,
    /// Made when a mini-block is unpacked first.
    scratch: Option<Box<Scratch>>,
    /// The mini-block that `scratch` holds, its base and where.
    current: Option<(usize, i64, Unpacked)>,
    runs: RunReader,
    ahead: Ahead<'p>,
}

impl<'p> ColumnReader<'p> {
    /// Opens a page whose checksum was found right, of which some mini-blocks will be asked for. Codes of texts are only
    /// ordered as these are if they must be.
    pub(super) fn of_page(
        bytes: &'p [u8],
        (value_type, text_use): (ValueType, TextUse),
        (row_count, mini_blocks): (usize, Range<usize>),
        place: PagePlace,
        pace: Pace,
    ) -> Result<Self, PipelineError> {
        let page = Page::open_verified(bytes).map_err(|source| place.page_error(source))?;
        let expected = value_type.physical_type();
        if page.physical_type() != expected {
            return Err(place.mismatch(page.physical_type().name().to_owned(), expected.name().to_owned()));
        }
        if page.value_count() != row_count {
            return Err(place.mismatch(format!("{} values", page.value_count()), row_count.to_string()));
        }
        let is_kept = matches!(text_use, TextUse::Kept | TextUse::Grouped);
        let kept = KeptTexts::of(&page, &mini_blocks).filter(|_| is_kept);
        let (form, texts) = match page.body() {
            _ if let Some(kept) = &kept => (Some(Form::row_numbers(kept.row_count(), mini_blocks.start)), None),
            Body::Texts(_) | Body::Symbols(_) if text_use != TextUse::Ordered => {
                let first_block = mini_blocks.start;
                let texts = page.decode_range(mini_blocks, &DataType::Utf8);
                let texts = texts.map_err(|source| place.page_error(source))?;
                (Some(Form::row_numbers(texts.len(), first_block)), Some(PageTexts::Listed(texts)))
            }
            _ => Form::of(&page, mini_blocks).map_err(|source| place.page_error(source))?,
        };
        let Some(form) = form else {
            return Err(place.mismatch(format!("{:?} values", page.encoding()), "numbers or texts".to_owned()));
        };
        let valid = Valid::Page(page.validity());
        Ok(Self { kept, ..Self::new(place, form, valid, texts, pace) })
    }

    /// Opens an array, likewise.
    pub(super) fn of_array(
        array: &'p ArrayRef,
        (value_type, text_use): (ValueType, TextUse),
        row_count: usize,
        place: PagePlace,
        pace: Pace,
    ) -> Result<Self, PipelineError> {
        if array.len() != row_count {
            return Err(place.mismatch(format!("{} values", array.len()), row_count.to_string()));
        }
        let mismatch = || place.mismatch(array.data_type().to_string(), format!("{value_type:?}"));
        let (form, texts) = match Native::of(array, value_type) {
            Some(native) => (Form::Native(native), None),
            None if value_type == ValueType::Text => {
                array_texts::of(array, text_use).map(|(form, texts)| (form, Some(texts))).ok_or_else(mismatch)?
            }
            None => (Form::Coded(Coded::of_numbers(array, value_type).ok_or_else(mismatch)?), None),
        };
        let valid = Valid::Array(array.logical_nulls().filter(|nulls| nulls.null_count() > 0));
        Ok(Self::new(place, form, valid, texts, pace))
    }

    /// One of which nothing is unpacked yet.
    fn new(place: PagePlace, form: Form<'p>, valid: Valid<'p>, texts: Option<PageTexts<'p>>, pace: Pace) -> Self {
        let ahead = Ahead::new(pace);
        let runs = RunReader::default();
        Self { place, form, valid, texts, kept: None, scratch: None, current: None, runs, ahead }
    }

    /// Makes other texts of the page's, whose codes nobody compares.
    pub(super) fn map_texts(&mut self, map: &TextMap) -> Result<(), PipelineError> {
        if let Some(texts) = &self.texts {
            let texts = texts.array().map_err(|error| self.place.mismatch(error.to_string(), "UTF-8".to_owned()))?;
            self.texts = Some(PageTexts::Listed(map.apply(&texts)?));
        }
        Ok(())
    }

    /// The page's texts, if it has texts that are not all NULL.
    pub(super) fn texts(&self) -> Option<&PageTexts<'p>> {
        self.texts.as_ref()
    }

    /// How many codes of texts there are.
    pub(super) fn text_count(&self) -> usize {
        let kept = self.kept.as_ref().map(KeptTexts::row_count);
        kept.or(self.texts.as_ref().map(PageTexts::entry_count)).unwrap_or(0)
    }

    /// The texts of some codes, which rise.
    pub(super) fn texts_of(&self, codes: &[usize]) -> Result<TextList, PipelineError> {
        if let Some(kept) = &self.kept {
            return kept.texts_of(codes, &self.place);
        }
        let mut found = TextList::new();
        for code in codes {
            let text = self.texts.as_ref().map_or(Ok(""), |texts| texts.text(*code));
            found.push(text.map_err(|error| {
                self.place.mismatch(format!("text {code} that is no UTF-8 ({error})"), "UTF-8".to_owned())
            })?);
        }
        Ok(found)
    }

    pub(super) fn place(&self) -> &PagePlace {
        &self.place
    }

    /// Whether single values cost next to nothing.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.form, Form::Native(_) | Form::Coded(_))
    }

    /// Whether values need more than 64 bits.
    pub(super) fn is_wide(&self) -> bool {
        match &self.form {
            Form::Wide(_) => true,
            Form::Native(native) => native.is_wide(),
            Form::Constant(value) => i64::try_from(*value).is_err(),
            _ => false,
        }
    }

    /// Whether no value of the page is NULL.
    #[inline]
    fn none_null(&self) -> bool {
        matches!(self.valid, Valid::Page(Validity::NoneNull) | Valid::Array(None))
    }

    /// Which values of a mini-block are not NULL; `None` if all of the page.
    #[inline]
    pub(super) fn valid(&self, index: usize) -> Option<Mask> {
        if self.none_null() { None } else { self.bitmap(index) }
    }

    #[inline(never)]
    fn bitmap(&self, index: usize) -> Option<Mask> {
        match &self.valid {
            Valid::Page(Validity::NoneNull) | Valid::Array(None) => None,
            Valid::Page(Validity::AllNull) => Some([0; MASK_WORDS]),
            Valid::Array(Some(nulls)) => {
                let start = (index * MINI_BLOCK_VALUES).min(nulls.len());
                let block = nulls.inner().slice(start, (nulls.len() - start).min(MINI_BLOCK_VALUES));
                let mut mask = [0; MASK_WORDS];
                mask.iter_mut().zip(block.bit_chunks().iter_padded()).for_each(|(word, bits)| *word = bits);
                Some(mask)
            }
            Valid::Page(Validity::Bitmap(bytes)) => {
                let mut mask = [0; MASK_WORDS];
                let block = bytes.get(index * MINI_BLOCK_VALUES / 8..).unwrap_or_default();
                for (word, bytes) in mask.iter_mut().zip(block.chunks(8)) {
                    let mut filled = [0; 8];
                    filled[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(filled);
                }
                Some(mask)
            }
        }
    }

    /// Between which numbers the values of a mini-block are, where that is known without unpacking it.
    #[inline]
    pub(super) fn bounds(&self, index: usize) -> Option<(i64, i64)> {
        match &self.form {
            Form::Constant(value) => i64::try_from(*value).ok().map(|value| (value, value)),
            form => {
                let (base, differences) = form.packed(index)?;
                let limit = u64::MAX.checked_shr(64 - differences.width()).unwrap_or(0);
                Some((base as i64, (base as i64).checked_add_unsigned(limit)?))
            }
        }
    }

    fn is_unpacked(&self, index: usize) -> bool {
        self.current.is_some_and(|(current, ..)| current == index)
    }

    /// The values of a mini-block, which are not wide.
    #[inline]
    pub(super) fn block(&mut self, index: usize) -> Result<Block<'_>, PipelineError> {
        if !self.is_unpacked(index) {
            self.unpack(index)?;
        }
        let (Some((_, base, unpacked)), Some(scratch)) = (self.current, &self.scratch) else {
            return Ok(Block { base: 0, words: Words::Zeros });
        };
        Ok(Block { base, words: scratch.words(unpacked) })
    }

    /// The values of a mini-block, which are not wide, to be folded: of floats that are kept as whole numbers these, and
    /// what they stand for.
    pub(super) fn foldable(&mut self, index: usize) -> Result<(Block<'_>, Option<DecimalFloats>), PipelineError> {
        if let Form::Native(native) = &self.form
            && let Some((numbers, floats)) = native.whole_numbers()
        {
            // They are no longs, which the floats themselves are unpacked as: these stay.
            let scratch = self.scratch.get_or_insert_with(Scratch::new);
            let (base, unpacked) = numbers.fill(index, scratch);
            return Ok((Block { base, words: scratch.words(unpacked) }, Some(floats)));
        }
        Ok((self.block(index)?, None))
    }

    /// Whether the runs of a mini-block are unpacked.
    pub(super) fn has_runs_of(&self, index: usize) -> bool {
        self.runs.has(index)
    }

    /// The runs of a mini-block, if it has packed ones.
    #[inline]
    pub(super) fn runs(&mut self, index: usize) -> Result<Option<Runs<'_>>, PipelineError> {
        if !self.runs.has(index) {
            let Some(frame) = self.form.run_frame(index) else { return Ok(None) };
            self.runs.unpack(index, frame).map_err(|source| self.place.page_error(source))?;
            self.bring_near(index);
        }
        Ok(self.runs.runs())
    }

    /// Takes a mini-block's values out of the page, and has the next one brought near.
    fn unpack(&mut self, index: usize) -> Result<(), PipelineError> {
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let (base, unpacked) = scratch.fill(&self.form, index).map_err(|source| self.place.page_error(source))?;
        self.current = Some((index, base, unpacked));
        // Now, that memory is idle.
        self.bring_near(index);
        Ok(())
    }

    /// The cache lines of the mini-block behind the one that was looked at last.
    #[inline]
    pub(super) fn ahead(&mut self) -> &mut Ahead<'p> {
        &mut self.ahead
    }

    /// Has the mini-block behind `index` brought near, by and by.
    fn bring_near(&mut self, index: usize) {
        self.ahead.turn_to(self.form.packed(index + 1).map(|(_, next)| next));
    }

    /// The packed bits of a mini-block, if they are worth looking into one by one for so many rows.
    #[inline]
    pub(super) fn packed(&mut self, index: usize, row_count: usize) -> Option<Packed<'p>> {
        if self.is_unpacked(index) || self.runs.has(index) || row_count > SPARSE_ROWS {
            return None;
        }
        let packed = match self.form.run_frame(index) {
            Some(frame) => Some(Packed::Runs(frame)).filter(|_| row_count <= SPARSE_RUN_ROWS),
            None => {
                let frame = self.form.frame(index);
                frame.filter(|frame| row_count <= sparse_rows(frame.differences.width())).map(Packed::Values)
            }
        };
        if packed.is_some() && row_count >= PREFETCHED_ROWS {
            self.bring_near(index);
        }
        packed
    }

    /// Up to how many rows of a mini-block, on average, are better looked up together with those of others; 0 if that
    /// gains nothing.
    pub(super) fn late_rows(&self) -> usize {
        self.form.packed(0).map_or(0, |(_, differences)| late_rows(differences.width()))
    }

    /// Whether so many rows of a mini-block are better looked up together with those of others.
    pub(super) fn is_late(&self, index: usize, row_count: usize) -> bool {
        !self.is_unpacked(index) && !self.runs.has(index) && row_count <= self.late_rows()
    }

    /// Appends some rows of the page, in order.
    pub(super) fn append_rows(&mut self, rows: &[u32], numbers: &mut Numbers) -> Result<(), PipelineError> {
        let block_of = |row: u32| row as usize / MINI_BLOCK_VALUES;
        if let (Form::Runs { runs, bias }, true, Lane::Narrow(values)) =
            (&self.form, self.none_null(), &mut numbers.lane)
        {
            runs::append_rows(runs, *bias, rows, values);
            return Ok(());
        }
        if let (Form::Frames { .. }, true, Lane::Narrow(values)) = (&self.form, self.none_null(), &mut numbers.lane) {
            // One goes ahead of the other.
            let (mut asking, mut taking) = (Frames::of(&self.form), Frames::of(&self.form));
            rows.iter().take(ROWS_AHEAD).for_each(|row| asking.prefetch(*row));
            for (at, row) in rows.iter().enumerate() {
                if let Some(row) = rows.get(at + ROWS_AHEAD) {
                    asking.prefetch(*row);
                }
                values.push(taking.get(*row));
            }
            return Ok(());
        }
        for rows in rows.chunk_by(|one, next| block_of(*one) == block_of(*next)) {
            let places: Vec<u16> = rows.iter().map(|row| (*row as usize % MINI_BLOCK_VALUES) as u16).collect();
            self.append(block_of(rows[0]), &places, numbers)?;
        }
        Ok(())
    }

    /// Appends some rows of a mini-block to those of others of this page.
    pub(super) fn append(&mut self, index: usize, rows: &[u16], numbers: &mut Numbers) -> Result<(), PipelineError> {
        if let Some(mask) = self.valid(index) {
            let valid = rows.iter().map(|row| mask[usize::from(*row) / 64] >> (row % 64) & 1 != 0);
            numbers.valid.get_or_insert_with(Vec::new).extend(valid);
        }
        match &mut numbers.lane {
            Lane::Narrow(values) => self.gather(index, rows, values),
            Lane::Wide(values) => self.gather_wide(index, rows, values),
        }
    }

    /// Appends the values of some rows of a mini-block, which are not wide.
    pub(super) fn gather(&mut self, index: usize, rows: &[u16], values: &mut Vec<i64>) -> Result<(), PipelineError> {
        if let Form::Native(native) = &self.form {
            native.gather(index, rows, values);
            return Ok(());
        }
        if let Form::Coded(coded) = &self.form {
            coded.gather(index, rows, values);
            return Ok(());
        }
        if let Some(packed) = self.packed(index, rows.len()) {
            packed.for_each_of(rows, |value| values.push(value as i64));
            return Ok(());
        }
        if !self.is_unpacked(index)
            && let Some(Runs { block: Block { base, words }, starts }) = self.runs(index)?
        {
            let mut runs = [0; MINI_BLOCK_VALUES / 4];
            for rows in rows.chunks(runs.len()) {
                starts.runs_of(rows, &mut runs);
                words.append_to(values, base, &runs[..rows.len()]);
            }
            return Ok(());
        }
        let Block { base, words } = self.block(index)?;
        words.append_to(values, base, rows);
        Ok(())
    }

    /// Appends the values of some rows of a mini-block, wide or not.
    pub(super) fn gather_wide(
        &mut self,
        index: usize,
        rows: &[u16],
        values: &mut Vec<i128>,
    ) -> Result<(), PipelineError> {
        match &self.form {
            Form::Wide(plain) => {
                let block = plain.get(index * MINI_BLOCK_VALUES..).unwrap_or_default();
                let value = |row: &u16| block.get(usize::from(*row)).map_or(0, |bytes| i128::from_le_bytes(*bytes));
                values.extend(rows.iter().map(value));
            }
            Form::Native(native) if native.is_wide() => native.gather_wide(index, rows, values),
            Form::Constant(value) => values.extend(rows.iter().map(|_| *value)),
            _ => {
                let mut narrow = Vec::with_capacity(rows.len());
                self.gather(index, rows, &mut narrow)?;
                values.extend(narrow.into_iter().map(i128::from));
            }
        }
        Ok(())
    }
}
