//! The texts of an Arrow array, each where it lies: nothing is copied to look at them.

use std::ops::Range;

use arrow::array::{
    Array, AsArray, BinaryViewArray, GenericByteArray, GenericByteViewArray, MAX_INLINE_VIEW_LEN, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, ByteViewType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};

use super::Text;

/// The texts or binaries of an array of any of their types, not all of which are NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextValues<'t> {
    layout: Layout<'t>,
    nulls: Option<&'t NullBuffer>,
    value_count: usize,
}

#[derive(Debug, Clone, Copy)]
enum Layout<'t> {
    Offsets { bytes: &'t [u8], offsets: &'t [i32] },
    LargeOffsets { bytes: &'t [u8], offsets: &'t [i64] },
    TextViews(&'t StringViewArray),
    BinaryViews(&'t BinaryViewArray),
}

impl<'t> TextValues<'t> {
    /// `None` for an array of other values.
    pub(crate) fn of(array: &'t dyn Array) -> Option<Self> {
        let layout = match array.data_type() {
            DataType::Utf8 => offsets(array.as_bytes::<Utf8Type>()),
            DataType::Binary => offsets(array.as_bytes::<BinaryType>()),
            DataType::LargeUtf8 => large_offsets(array.as_bytes::<LargeUtf8Type>()),
            DataType::LargeBinary => large_offsets(array.as_bytes::<LargeBinaryType>()),
            DataType::Utf8View => Layout::TextViews(array.as_byte_view()),
            DataType::BinaryView => Layout::BinaryViews(array.as_byte_view()),
            _ => return None,
        };
        Some(Self { layout, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0), value_count: array.len() })
    }

    /// Values, NULLs included.
    pub(crate) fn len(&self) -> usize {
        self.value_count
    }

    #[inline]
    fn is_valid(&self, index: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(index))
    }

    /// The bytes of a text; of a NULL anything.
    #[inline]
    fn bytes(&self, index: usize) -> &'t [u8] {
        match self.layout {
            Layout::Offsets { bytes, offsets } => &bytes[between(offsets, index)],
            Layout::LargeOffsets { bytes, offsets } => &bytes[between(offsets, index)],
            Layout::TextViews(array) => array.value(index).as_bytes(),
            Layout::BinaryViews(array) => array.value(index),
        }
    }

    /// A text; of a NULL anything.
    #[inline]
    fn text(&self, index: usize) -> Text<'t> {
        match self.layout {
            Layout::Offsets { bytes, offsets } => Text::within(bytes, between(offsets, index)),
            Layout::LargeOffsets { bytes, offsets } => Text::within(bytes, between(offsets, index)),
            Layout::TextViews(array) => viewed(array, index),
            Layout::BinaryViews(array) => viewed(array, index),
        }
    }

    /// The texts with each NULL replaced by the one before it, the leading ones by the first, so that NULLs cost no
    /// encoding anything.
    pub(crate) fn filled(&self) -> impl Iterator<Item = Text<'t>> {
        let first = self.nulls.and_then(|nulls| nulls.valid_indices().next()).unwrap_or(0);
        let mut last = self.text(first);
        (0..self.value_count).map(move |index| {
            if self.is_valid(index) {
                last = self.text(index);
            }
            last
        })
    }

    /// The texts of these values as they are written one behind the other: empty ones for NULLs.
    pub(crate) fn written(&self, values: Range<usize>) -> impl ExactSizeIterator<Item = &'t [u8]> {
        values.map(|index| if self.is_valid(index) { self.bytes(index) } else { &[] })
    }

    /// Where each text starts in what is written, and all that is written if `bytes` is asked for.
    pub(crate) fn starts(&self, bytes: Option<&mut Vec<u8>>) -> Vec<u64> {
        // Without NULLs the array has both.
        match self.layout {
            Layout::Offsets { bytes: all, offsets } if self.nulls.is_none() => from_offsets(all, offsets, bytes),
            Layout::LargeOffsets { bytes: all, offsets } if self.nulls.is_none() => from_offsets(all, offsets, bytes),
            _ => {
                let mut end = 0;
                let start = |text: &[u8]| {
                    let start = end;
                    end += text.len() as u64;
                    start
                };
                let starts = self.written(0..self.value_count).map(start).collect();
                if let Some(bytes) = bytes {
                    bytes.reserve_exact(end as usize);
                    self.written(0..self.value_count).for_each(|text| bytes.extend_from_slice(text));
                }
                starts
            }
        }
    }

    /// Bytes of all that is written.
    pub(crate) fn text_bytes(&self) -> usize {
        let lengths = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum();
        match self.layout {
            _ if self.nulls.is_some() => self.written(0..self.value_count).map(<[u8]>::len).sum(),
            Layout::Offsets { offsets, .. } => (offsets[self.value_count] - offsets[0]).as_usize(),
            Layout::LargeOffsets { offsets, .. } => (offsets[self.value_count] - offsets[0]).as_usize(),
            Layout::TextViews(array) => lengths(array.views()),
            Layout::BinaryViews(array) => lengths(array.views()),
        }
    }
}

#[inline]
fn between<O: ArrowNativeType>(offsets: &[O], index: usize) -> Range<usize> {
    offsets[index].as_usize()..offsets[index + 1].as_usize()
}

fn from_offsets<O: ArrowNativeType>(all: &[u8], offsets: &[O], bytes: Option<&mut Vec<u8>>) -> Vec<u64> {
    let (starts, end) = offsets.split_at(offsets.len() - 1);
    let first = starts[0].as_usize();
    if let Some(bytes) = bytes {
        bytes.extend_from_slice(&all[first..end[0].as_usize()]);
    }
    starts.iter().map(|start| (start.as_usize() - first) as u64).collect()
}

fn offsets<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> Layout<'_> {
    Layout::Offsets { bytes: array.value_data(), offsets: array.value_offsets() }
}

fn large_offsets<T: ByteArrayType<Offset = i64>>(array: &GenericByteArray<T>) -> Layout<'_> {
    Layout::LargeOffsets { bytes: array.value_data(), offsets: array.value_offsets() }
}

#[inline]
fn viewed<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>, index: usize) -> Text<'_> {
    let bytes: &[u8] = array.value(index).as_ref();
    // The length, and then up to twelve bytes of text; or else where the text is.
    let view = array.views()[index];
    match view as u32 {
        0..=MAX_INLINE_VIEW_LEN => Text::with_head(bytes, view >> 32),
        _ => Text::new(bytes),
    }
}
