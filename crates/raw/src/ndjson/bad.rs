//! What stops a walk over a record: a fault or a failed predicate, in one machine word.
//!
//! **Owns**: [`Bad`] and the words for each fault.
//!
//! **Invariants**: `Result<usize, Bad>` travels in two registers; everything that takes memory (the column at fault,
//! the quotation) is made only once an error is reported.

/// Why a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum What {
    /// Not a fault: a predicate failed.
    Rejected,
    RecordStart,
    RecordEnd,
    FileEnd,
    TrailingContent,
    Key,
    Colon,
    CommaOrBrace,
    CommaOrBracket,
    Value,
    ClosingQuote,
    ClosingBrace,
    ClosingBracket,
    Number,
    Literal,
    Escape,
    Surrogate,
    ControlCharacter,
    Utf8,
    TooDeep,
    /// A value of another type than the column's; [`Walk::culprit`](super::walk::Walk) says which.
    Mismatch,
    /// A column outgrew Arrow's limits; the culprit says which.
    ColumnFull,
}

impl What {
    const ALL: [Self; 22] = [
        Self::Rejected,
        Self::RecordStart,
        Self::RecordEnd,
        Self::FileEnd,
        Self::TrailingContent,
        Self::Key,
        Self::Colon,
        Self::CommaOrBrace,
        Self::CommaOrBracket,
        Self::Value,
        Self::ClosingQuote,
        Self::ClosingBrace,
        Self::ClosingBracket,
        Self::Number,
        Self::Literal,
        Self::Escape,
        Self::Surrogate,
        Self::ControlCharacter,
        Self::Utf8,
        Self::TooDeep,
        Self::Mismatch,
        Self::ColumnFull,
    ];

    /// What a reader of the file would have expected.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Rejected => "a row that passes the predicate",
            Self::RecordStart => "a JSON object, one a line, beginning with '{'",
            Self::RecordEnd => "a JSON object that ends on the same line with '}'",
            Self::FileEnd => "a whole JSON object before the file ends",
            Self::TrailingContent => "the end of the line after the object",
            Self::Key => "a field name in double quotes",
            Self::Colon => "a colon after the field name",
            Self::CommaOrBrace => "a comma or a closing brace",
            Self::CommaOrBracket => "a comma or a closing bracket",
            Self::Value => "a JSON value",
            Self::ClosingQuote => "a closing quote for the string that begins here",
            Self::ClosingBrace => "a closing brace for the object that begins here",
            Self::ClosingBracket => "a closing bracket for the list that begins here",
            Self::Number => "a JSON number",
            Self::Literal => "true, false or null",
            Self::Escape => "an escape: \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\u and four hexadecimal digits",
            Self::Surrogate => "a UTF-16 surrogate pair of two \\u escapes",
            Self::ControlCharacter => "control characters to be escaped in strings",
            Self::Utf8 => "valid UTF-8",
            Self::TooDeep => "at most 512 levels of objects and lists",
            Self::Mismatch => "another type",
            Self::ColumnFull => "a smaller column",
        }
    }
}

/// A place in the buffer and why the walk stopped there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad(u64);

impl Bad {
    /// Stops at `at`, a position in the walk's buffer (below 2^56).
    #[cold]
    pub(super) fn new(at: usize, what: What) -> Self {
        Self::pack(at, what)
    }

    /// A failed predicate; `at` is just behind the value that failed it. Not cold: it is the common case of a
    /// selective query.
    #[inline]
    pub(super) fn rejected(at: usize) -> Self {
        Self::pack(at, What::Rejected)
    }

    #[inline]
    fn pack(at: usize, what: What) -> Self {
        Self((at as u64) << 8 | what as u64)
    }

    #[inline]
    pub(super) fn is_rejection(self) -> bool {
        self.0 & 0xff == What::Rejected as u64
    }

    /// The position.
    pub(super) fn at(self) -> usize {
        (self.0 >> 8) as usize
    }

    pub(super) fn what(self) -> What {
        What::ALL[(self.0 & 0xff) as usize]
    }
}
