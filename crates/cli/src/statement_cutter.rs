//! Text that comes bit by bit, cut into statements as soon as their semicolons have come.
//!
//! Knows the line of each, so that errors can name it. Looks at each byte a few times at most, however the text comes,
//! but for a string or comment over many bits with semicolons in it.

use crate::sql_text::{Kind, Tokens, is_word};

/// Cuts text into statements.
#[derive(Debug)]
pub(crate) struct StatementCutter {
    text: String,
    /// Before it, everything has been given out.
    start: usize,
    /// Between `start` and this there is no end of a statement, and a token begins here.
    seen: usize,
    /// Whether what is behind `seen` has a semicolon that was not looked at.
    is_due: bool,
    place: Place,
}

/// A place in the whole text, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    /// In characters.
    pub(crate) column: usize,
}

impl Place {
    const FIRST: Self = Self { line: 1, column: 1 };

    fn behind(self, text: &str) -> Self {
        match text.rsplit_once('\n') {
            None => Self { column: self.column + text.chars().count(), ..self },
            Some((before, last)) => {
                Self { line: self.line + 1 + before.matches('\n').count(), column: 1 + last.chars().count() }
            }
        }
    }
}

/// A statement with its semicolon and what stands before it: blanks and comments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) text: String,
    /// Where `text` begins.
    pub(crate) place: Place,
}

impl Cut {
    /// The line of the statement's first word; `None` where there is no statement.
    pub(crate) fn line(&self) -> Option<usize> {
        self.first_word().map(|at| self.place.behind(&self.text[..at]).line)
    }

    /// Whether it is a command of the shell, which is no SQL.
    pub(crate) fn is_dot_command(&self) -> bool {
        self.first_word().is_some_and(|at| self.text[at..].starts_with('.'))
    }

    /// The statement's first line.
    pub(crate) fn first_line(&self) -> &str {
        self.first_word().and_then(|at| self.text[at..].lines().next()).unwrap_or("")
    }

    fn first_word(&self) -> Option<usize> {
        Tokens::new(&self.text).find(|token| is_word(&self.text, token)).map(|token| token.start)
    }

    /// The text with as many lines and columns before it as stand before it in the whole text.
    pub(crate) fn in_place(&self) -> String {
        let mut text = "\n".repeat(self.place.line - 1);
        text.extend(std::iter::repeat_n(' ', self.place.column - 1));
        text.push_str(&self.text);
        text
    }
}

impl StatementCutter {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), start: 0, seen: 0, is_due: false, place: Place::FIRST }
    }

    /// Takes the next bit of the text.
    pub(crate) fn push(&mut self, bit: &str) {
        self.text.drain(..self.start);
        self.seen -= self.start;
        self.start = 0;
        self.text.push_str(bit);
        self.is_due |= bit.contains(';');
    }

    /// The next statement whose semicolon has come; it may be empty.
    pub(crate) fn next(&mut self) -> Option<Cut> {
        if !self.is_due {
            return None;
        }
        let from = self.seen;
        for token in Tokens::new(&self.text[from..]) {
            let (start, end) = (from + token.start, from + token.end);
            if token.kind != Kind::Code {
                continue;
            }
            match self.text[start..end].chars().next() {
                Some(';') => return Some(self.cut(end)),
                // What stands before a blank cannot be changed by what comes.
                Some(c) if c.is_whitespace() => self.seen = end,
                _ => {}
            }
        }
        self.is_due = false;
        None
    }

    /// What has no semicolon, at the text's end.
    pub(crate) fn rest(&mut self) -> Cut {
        self.cut(self.text.len())
    }

    /// Whether a statement, or a comment that goes on, has begun.
    pub(crate) fn is_open(&self) -> bool {
        let text = &self.text[self.start..];
        Tokens::new(text).any(|token| is_word(text, &token))
    }

    fn cut(&mut self, end: usize) -> Cut {
        let text = self.text[self.start..end].to_owned();
        let place = self.place;
        self.place = place.behind(&text);
        (self.start, self.seen) = (end, end);
        Cut { text, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bits: &[&str]) -> Vec<(String, Option<usize>)> {
        let mut cutter = StatementCutter::new();
        let mut cuts = Vec::new();
        for bit in bits {
            cutter.push(bit);
            cuts.extend(std::iter::from_fn(|| cutter.next()));
        }
        cuts.push(cutter.rest());
        cuts.into_iter().map(|cut| (cut.text.clone(), cut.line())).collect()
    }

    #[test]
    fn statements_end_at_their_semicolons_and_know_their_lines() {
        assert_eq!(
            cut(&["-- first\nSELECT 1;\n\n/* x;\n */ SELECT 'a;\nb'\n; SELECT 3\n"]),
            [
                ("-- first\nSELECT 1;".to_owned(), Some(2)),
                ("\n\n/* x;\n */ SELECT 'a;\nb'\n;".to_owned(), Some(5)),
                (" SELECT 3\n".to_owned(), Some(7)),
            ]
        );
        assert_eq!(
            cut(&[";; -- none"]),
            [(";".to_owned(), None), (";".to_owned(), None), (" -- none".to_owned(), None)]
        );
        assert_eq!(
            cut(&["\n/*! SELECT 1; */ ; /* open;\n"]),
            [("\n/*! SELECT 1; */ ;".to_owned(), Some(2)), (" /* open;\n".to_owned(), Some(2))]
        );
    }

    #[test]
    fn it_does_not_matter_how_the_text_comes() {
        let text = "SELECT E'a\\';', 'é;' -- ;\n, $t$;$t$; SELECT \"x;\"\n, q'[;]' /* ; */;\nSELECT 3";
        let whole = cut(&[text]);
        assert_eq!(whole.len(), 3);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(cut(&characters.iter().map(String::as_str).collect::<Vec<_>>()), whole);
        for (at, _) in text.char_indices() {
            assert_eq!(cut(&[&text[..at], &text[at..]]), whole, "{at}");
        }
    }

    #[test]
    fn a_statement_comes_with_its_semicolon() {
        let mut cutter = StatementCutter::new();
        cutter.push("SELECT 1;");
        assert_eq!(cutter.next().map(|cut| cut.text), Some("SELECT 1;".to_owned()));
        assert_eq!(cutter.next(), None);
        cutter.push("\n  SELECT '");
        assert_eq!(cutter.next(), None);
        cutter.push("'; ");
        let second = cutter.next().map(|cut| (cut.place, cut.in_place()));
        assert_eq!(second, Some((Place { line: 1, column: 10 }, "         \n  SELECT '';".to_owned())));
    }

    #[test]
    fn remarks_alone_leave_nothing_open() {
        for (text, is_open) in [
            ("", false),
            ("-- remark\n", false),
            ("/* remark */ \n", false),
            ("/* remark", true),
            ("SELECT 1\n", true),
            ("/*! SELECT 1 */\n", true),
        ] {
            let mut cutter = StatementCutter::new();
            cutter.push(text);
            assert_eq!(cutter.is_open(), is_open, "{text}");
        }
    }
}
