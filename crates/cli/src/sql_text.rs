//! Where in SQL text one is: inside quotes or comments, at the end of a statement, within a word.
//!
//! As much of SQL's lexical grammar as it takes to cut text into statements and to help somebody who types: that of the
//! engine's default dialect. It never refuses anything: what the text means is the parser's business.

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words, numbers, operators, blanks.
    Code,
    /// A string, or a path: `'…'`, `$$…$$`, `$tag$…$tag$`. Letters that say how quotes are read (`E'…'`) are code.
    Text,
    /// `"…"` or `` `…` ``, a name.
    Name,
    /// `-- …` or `/* … */`.
    Comment,
}

/// A piece of text: bytes `start..end` are of one kind, quotes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the closing quote or comment mark is there. Code is always closed.
    pub(crate) closed: bool,
}

/// Whether the parser makes something of `piece` of `text`, which blanks, semicolons and remarks are not. What stands in a
/// comment for MySQL, `/*!50110 … */`, is code to it, and a block comment without an end an error.
pub(crate) fn is_word(text: &str, piece: &Piece) -> bool {
    let content = &text[piece.start..piece.end];
    match piece.kind {
        Kind::Text | Kind::Name => true,
        Kind::Code => !content.chars().all(|c| c.is_whitespace() || c == ';'),
        Kind::Comment if content.starts_with("--") => false,
        Kind::Comment if !piece.closed => true,
        Kind::Comment => content.strip_prefix("/*!").and_then(|hint| hint.strip_suffix("*/")).is_some_and(|hint| {
            let code = hint.trim_start_matches(|c: char| c.is_ascii_digit());
            // Comments within are comments, whatever they begin with.
            Tokens::new(code).any(|inner| inner.kind != Kind::Comment && is_word(code, &inner))
        }),
    }
}

/// Cuts `text` into its pieces, in order and without gaps.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for token in Tokens::new(text) {
        match pieces.last_mut() {
            Some(last) if token.kind == Kind::Code && last.kind == Kind::Code => last.end = token.end,
            _ => pieces.push(token),
        }
    }
    pieces
}

/// The smallest pieces: words, numbers and single characters of code stand apart.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// How quotes right behind the last token are read.
    quoting: Quoting,
}

/// How a string ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// At a quote; a doubled one is inside.
    Plain,
    /// `E'…'` and `X'…'`: as plain, and so is one behind a backslash.
    Escaped,
    /// `R'…'`: as plain, or at three quotes if it begins with three.
    Raw,
    /// `Q'[…]'`: where the character behind the first quote, or its counterpart, stands before a quote.
    Delimited,
}

impl Quoting {
    /// What `word` says of the quote behind it.
    fn after(word: &str) -> Self {
        match word {
            "E" | "e" | "X" | "x" => Self::Escaped,
            "R" | "r" => Self::Raw,
            _ if word.eq_ignore_ascii_case("q") || word.eq_ignore_ascii_case("nq") => Self::Delimited,
            _ => Self::Plain,
        }
    }
}

impl<'a> Tokens<'a> {
    /// The tokens of `text`, which begins with one.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, quoting: Quoting::Plain }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let quoting = std::mem::replace(&mut self.quoting, Quoting::Plain);
        let (kind, end) = match first {
            '\'' => (Kind::Text, string_end(rest, '\'', quoting)),
            '"' if quoting == Quoting::Raw => (Kind::Text, string_end(rest, '"', quoting)),
            '"' | '`' => (Kind::Name, string_end(rest, first, Quoting::Plain)),
            '$' => match dollar_mark(rest) {
                Some(mark) => (Kind::Text, after(rest, mark.len(), mark)),
                None => (Kind::Code, Some(1 + length_of(&rest[1..], is_in_tag))),
            },
            '-' if rest.starts_with("--") => (Kind::Comment, after(rest, 2, "\n")),
            // Whole division, whatever stands behind it.
            '/' if rest.starts_with("//") => (Kind::Code, Some(2)),
            '/' if rest.starts_with("/*") => (Kind::Comment, block_comment_end(rest)),
            '0'..='9' => (Kind::Code, Some(number_length(rest))),
            c if is_in_word(c) => {
                let word = &rest[..length_of(rest, is_in_word)];
                self.quoting = Quoting::after(word);
                (Kind::Code, Some(word.len()))
            }
            c => (Kind::Code, Some(c.len_utf8())),
        };
        let start = self.at;
        self.at += end.unwrap_or(rest.len());
        Some(Piece { kind, start, end: self.at, closed: end.is_some() })
    }
}

/// Digits too: where one begins a token, it is a number's.
fn is_in_word(c: char) -> bool {
    c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '#' | '@' | '$')
}

/// Bytes of the characters at the beginning of `text` that are `accepted`.
fn length_of(text: &str, accepted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !accepted(c)).unwrap_or(text.len())
}

/// Where `mark` ends that stands in `rest` at `from` or later.
fn after(rest: &str, from: usize, mark: &str) -> Option<usize> {
    rest[from..].find(mark).map(|at| from + at + mark.len())
}

/// Digits, a fraction and an exponent: letters behind them begin another token, such as that of `1E'…'`.
fn number_length(rest: &str) -> usize {
    let digits = |text: &str| length_of(text, |c| c.is_ascii_digit());
    let mut length = digits(rest);
    if &rest[..length] == "0" && rest[length..].starts_with('x') {
        return length + 1 + length_of(&rest[length + 1..], |c| c.is_ascii_hexdigit());
    }
    if rest[length..].starts_with('.') {
        length += 1 + digits(&rest[length + 1..]);
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(&rest[length + 1 + sign..]);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length + usize::from(rest[length..].starts_with('L'))
}

fn is_in_tag(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `$$` or `$tag$` at the beginning of `rest`: what ends the string that it begins.
fn dollar_mark(rest: &str) -> Option<&str> {
    let tag = length_of(&rest[1..], is_in_tag);
    rest[1 + tag..].starts_with('$').then(|| &rest[..tag + 2])
}

/// Where the string or name ends that `rest` begins with.
fn string_end(rest: &str, quote: char, quoting: Quoting) -> Option<usize> {
    if quoting == Quoting::Raw {
        let quotes = length_of(rest, |c| c == quote);
        match quotes {
            1 => {}
            2 => return Some(2),
            _ => return after(rest, 3, &rest[..3]),
        }
    }
    if quoting == Quoting::Delimited {
        let delimiter = rest[1..].chars().next()?;
        let end = match delimiter {
            '[' => ']',
            '{' => '}',
            '<' => '>',
            '(' => ')',
            other => other,
        };
        return after(rest, 1 + delimiter.len_utf8(), &format!("{end}'"));
    }
    let bytes = rest.as_bytes();
    let quote = quote as u8;
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && quoting == Quoting::Escaped {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return Some(at + 1);
        }
    }
    None
}

/// Block comments nest.
fn block_comment_end(rest: &str) -> Option<usize> {
    let rest = rest.as_bytes();
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() {
        match &rest[at..] {
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}

/// The strings that stand where a table stands (after `FROM`, `JOIN` or a comma): paths, with their quotes undone.
pub(crate) fn quoted_paths(text: &str) -> Vec<String> {
    let mut before = "";
    let mut paths = Vec::new();
    for piece in pieces(text) {
        let content = &text[piece.start..piece.end];
        match piece.kind {
            Kind::Code => before = content,
            Kind::Text if piece.closed && content.starts_with('\'') => {
                let word = before.trim_end().rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("");
                if word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("join") || word.ends_with(',') {
                    paths.push(content[1..content.len() - 1].replace("''", "'"));
                }
                before = "";
            }
            _ => {}
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use thermocline_engine::datafusion::sql::sqlparser::dialect::GenericDialect;
    use thermocline_engine::datafusion::sql::sqlparser::parser::Parser;
    use thermocline_engine::datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

    use super::*;

    /// Offsets of the semicolons that end statements, and whether the text ends within quotes or a comment.
    fn ours(text: &str) -> (Vec<usize>, bool) {
        let tokens: Vec<Piece> = Tokens::new(text).collect();
        let is_semicolon = |token: &&Piece| token.kind == Kind::Code && text[token.start..].starts_with(';');
        let ends = tokens.iter().filter(is_semicolon).map(|token| token.start).collect();
        let is_open = |token: &Piece| !token.closed && !text[token.start..].starts_with("--");
        (ends, tokens.iter().any(is_open))
    }

    /// The same by the parser's tokenizer; `None` where the text is wrong in another way than being cut short.
    fn parsers(text: &str) -> Option<(Vec<usize>, bool)> {
        let mut tokens = Vec::new();
        let outcome = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
        let is_open = match outcome {
            Ok(()) => false,
            Err(error) => {
                let cut_short = ["Unterminated", "Expected close delimiter", "Unexpected EOF"];
                if !cut_short.iter().any(|beginning| error.message.starts_with(beginning)) {
                    return None;
                }
                true
            }
        };
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let offset = |line: u64, column: u64| {
            let line = &text[starts[line as usize - 1]..];
            text.len() - line.len() + line.char_indices().nth(column as usize - 1).unwrap().0
        };
        let ends = tokens
            .iter()
            .filter(|token| token.token == Token::SemiColon)
            .map(|token| offset(token.span.start.line, token.span.start.column))
            .collect();
        Some((ends, is_open))
    }

    #[test]
    fn quotes_and_comments_end_where_the_parser_ends_them() {
        const PARTS: [&str; 45] = [
            "'", "'", "'", "''", "\"", "`", "\\", "\\'", "$", "$$", "$$", "$a$", "$a$", "$1", "E'", "e'", "xe'", "X'",
            "r'", "R\"", "r'''", "'''", "b'", "N'", "q'[", "]'", "nq'!", "!'", "U&'", "--", "\n", "\n", "/*", "/*!",
            "*/", ";", ";", ";", "a", "b ", " ", " ", "1", "1.5e", "é",
        ];
        // Numbers by Steele and Vigna's splitmix64.
        let mut state = 7_u64;
        let mut next = |bound: usize| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % bound as u64) as usize
        };
        let mut compared = 0;
        for _ in 0..60_000 {
            let text: String = (0..1 + next(14)).map(|_| PARTS[next(PARTS.len())]).collect();
            // What follows these backslashes may be no escape, which the tokenizer tells as a string without an end.
            let is_odd = ["\\x", "\\X"].iter().any(|part| text.contains(part));
            if is_odd || (text.contains('\\') && text.contains("U&'")) {
                continue;
            }
            // A comment for MySQL ends where any other does; semicolons within are no ends to us, however it is read. The
            // mark must not be taken from a string that ends with it.
            if text.contains("/*!") && text.contains("nq'!") {
                continue;
            }
            if let Some(expected) = parsers(&text.replace("/*!", "/* ")) {
                assert_eq!(ours(&text), expected, "{text:?}");
                compared += 1;
            }
        }
        assert!(compared > 30_000, "{compared}");
    }

    #[test]
    fn strings_of_every_kind_may_have_semicolons() {
        for text in [
            "SELECT 1;",
            "SELECT 1; -- done;",
            "SELECT 1; /* done; */  \n",
            "SELECT 'it''s;';",
            "SELECT $$a;\nb$$;",
            "SELECT $f$ $$;$$ $f$;",
            r"SELECT E'a\';b';",
            r"SELECT xE'a\'; --';",
            "SELECT q'[it's;]';",
            "SELECT r'''a';b''';",
            "SELECT $1;",
            "SELECT `a;b`;",
            "SELECT 4 //*;",
        ] {
            let (ends, is_open) = ours(text);
            assert_eq!((ends.len(), is_open), (1, false), "{text}");
        }
        for text in ["SELECT ';", "SELECT \"a;", "SELECT /* /* */ ;", "SELECT 'it''s;", "SELECT $$a;", r"SELECT E'a\';"]
        {
            assert_eq!(ours(text), (Vec::new(), true), "{text}");
        }
        assert_eq!(ours("SELECT 1 -- ;"), (Vec::new(), false));
    }

    #[test]
    fn comments_say_something_where_the_parser_reads_them() {
        for (text, says_something) in [
            ("-- remark", false),
            ("-- /*! 1 */", false),
            ("/* SELECT 1 */", false),
            ("/*!*/", false),
            ("/*!50110 ; -- none */", false),
            ("/*! /*! 1 */ */", false),
            ("/*! SELECT 1 */", true),
            ("/*!50110 'a' */", true),
            ("/* open", true),
            ("/*! open", true),
            (" ;\n", false),
            ("; \"a\"", true),
        ] {
            assert_eq!(Tokens::new(text).any(|token| is_word(text, &token)), says_something, "{text}");
            let parsed = Parser::parse_sql(&GenericDialect {}, text);
            assert_eq!(!parsed.is_ok_and(|statements| statements.is_empty()), says_something, "{text}");
        }
    }

    #[test]
    fn pieces_cover_the_text_without_gaps() {
        let text = "SELECT 'a''b', \"c\" -- d\nFROM /* e */ 'f";
        let found = pieces(text);
        assert_eq!(found[0].start, 0);
        for pair in found.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
        }
        assert_eq!(
            found.last().map(|piece| (piece.end, piece.kind, piece.closed)),
            Some((text.len(), Kind::Text, false))
        );
        let kinds: Vec<Kind> = found.iter().map(|piece| piece.kind).collect();
        assert_eq!(
            kinds,
            [
                Kind::Code,
                Kind::Text,
                Kind::Code,
                Kind::Name,
                Kind::Code,
                Kind::Comment,
                Kind::Code,
                Kind::Comment,
                Kind::Code,
                Kind::Text
            ]
        );
    }

    #[test]
    fn paths_are_the_strings_in_the_place_of_tables() {
        assert_eq!(
            quoted_paths("SELECT 'x' FROM 'a.csv' AS a, 'b''s.csv' JOIN ( SELECT * FROM 'c.json') WHERE d = 'no'"),
            ["a.csv", "b's.csv", "c.json"]
        );
        assert!(quoted_paths("SELECT 'open FROM").is_empty());
        assert!(quoted_paths("SELECT * FROM $$a.csv$$").is_empty());
    }
}
