//! Where in SQL text one is: inside quotes or comments, at the end of a statement, within a word.
//!
//! As much of SQL's lexical grammar as a shell needs while somebody types. It never refuses anything: what the text
//! means is the parser's business.

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words, numbers, operators, blanks.
    Code,
    /// `'…'`, a string or a path.
    Text,
    /// `"…"`, a name.
    Name,
    /// `-- …` or `/* … */`.
    Comment,
}

/// A piece of text: bytes `start..end` are of one kind, quotes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether the closing quote or comment mark is there. Code is always closed.
    pub(super) closed: bool,
}

/// Cuts `text` into its pieces, in order and without gaps.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (kind, length, closed) = match rest {
            [b'\'', ..] => quoted(rest, b'\'', Kind::Text),
            [b'"', ..] => quoted(rest, b'"', Kind::Name),
            [b'-', b'-', ..] => match rest.iter().position(|&byte| byte == b'\n') {
                Some(end) => (Kind::Comment, end + 1, true),
                None => (Kind::Comment, rest.len(), false),
            },
            [b'/', b'*', ..] => block_comment(rest),
            _ => (Kind::Code, 1, true),
        };
        match pieces.last_mut() {
            Some(last) if kind == Kind::Code && last.kind == Kind::Code => last.end += length,
            _ => pieces.push(Piece { kind, start: at, end: at + length, closed }),
        }
        at += length;
    }
    pieces
}

/// A doubled quote is a quote inside.
fn quoted(rest: &[u8], quote: u8, kind: Kind) -> (Kind, usize, bool) {
    let mut at = 1;
    while at < rest.len() {
        if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return (kind, at + 1, true);
        }
    }
    (kind, rest.len(), false)
}

/// Block comments nest.
fn block_comment(rest: &[u8]) -> (Kind, usize, bool) {
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() {
        match &rest[at..] {
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return (Kind::Comment, at, true);
                }
            }
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    (Kind::Comment, rest.len(), false)
}

/// Whether Enter should run `text`: a dot command, nothing at all, or statements of which the last ends with `;`.
pub(super) fn is_complete(text: &str) -> bool {
    if text.trim().is_empty() || text.trim_start().starts_with('.') {
        return true;
    }
    let pieces = pieces(text);
    // A comment that runs to the end of the line is open without harm; any other open piece goes on in the next line.
    let is_open = |piece: &Piece| !piece.closed && !text[piece.start..piece.end].starts_with("--");
    if pieces.iter().any(is_open) {
        return false;
    }
    let last = pieces
        .iter()
        .rev()
        .filter(|piece| piece.kind != Kind::Comment)
        .map(|piece| text[piece.start..piece.end].trim_end())
        .find(|code| !code.is_empty());
    last.is_none_or(|code| code.ends_with(';'))
}

/// The strings that stand where a table stands (after `FROM`, `JOIN` or a comma): paths, with their quotes undone.
pub(super) fn quoted_paths(text: &str) -> Vec<String> {
    let mut before = "";
    let mut paths = Vec::new();
    for piece in pieces(text) {
        let content = &text[piece.start..piece.end];
        match piece.kind {
            Kind::Code => before = content,
            Kind::Text if piece.closed => {
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
    use super::*;

    #[test]
    fn a_statement_is_complete_at_its_semicolon_outside_quotes_and_comments() {
        assert!(is_complete("SELECT 1;"));
        assert!(is_complete("SELECT 1; -- done"));
        assert!(is_complete("SELECT 1; /* done */  \n"));
        assert!(is_complete("SELECT 'it''s';"));
        assert!(is_complete(".help"));
        assert!(is_complete("   "));
        assert!(is_complete("-- only a remark"));
        assert!(!is_complete("SELECT 1"));
        assert!(!is_complete("SELECT ';"));
        assert!(!is_complete("SELECT \"a;"));
        assert!(!is_complete("SELECT 1 -- ;"));
        assert!(!is_complete("SELECT /* /* */ ;"));
        assert!(!is_complete("SELECT 'it''s;"));
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
    }
}
