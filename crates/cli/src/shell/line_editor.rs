//! What the line editor asks while somebody types: completion and colours, both seen from the lines before.

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::completion::{self, SessionNames};
use super::keywords::is_keyword;
use crate::sql_text::{Kind, pieces};
use crate::terminal::Paint;

/// The shell's side of the line editor.
pub(super) struct SqlLine {
    pub(super) names: SessionNames,
    pub(super) paint: Paint,
    /// The lines before this one of a statement that goes on.
    pub(super) before: String,
}

impl Helper for SqlLine {}

impl Hinter for SqlLine {
    type Hint = String;
}

impl Completer for SqlLine {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let text = format!("{}{line}", self.before);
        let (start, found) = completion::complete(&text, self.before.len() + position, &self.names);
        // What begins in another line is not to be replaced from here.
        Ok(start.checked_sub(self.before.len()).map_or((position, Vec::new()), |start| (start, found)))
    }
}

/// Enter always ends a line; whether the statement goes on is for the shell to see.
impl Validator for SqlLine {}

impl Highlighter for SqlLine {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.paint == Paint::PLAIN {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(coloured(&self.before, line, self.paint))
        }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.paint != Paint::PLAIN && kind != CmdKind::MoveCursor
    }
}

/// Strings, comments and keywords of `line` stand out, which stands behind `before`.
fn coloured(before: &str, line: &str, paint: Paint) -> String {
    let whole = format!("{before}{line}");
    let mut text = String::with_capacity(line.len() * 2);
    for piece in pieces(&whole) {
        if piece.end <= before.len() {
            continue;
        }
        let content = &whole[piece.start.max(before.len())..piece.end];
        match piece.kind {
            Kind::Text => text.push_str(&paint.green(content)),
            Kind::Comment => text.push_str(&paint.dim(content)),
            Kind::Name => text.push_str(content),
            Kind::Code => {
                for part in content.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
                    let word = part.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
                    if is_keyword(word) {
                        text.push_str(&paint.cyan(word));
                        text.push_str(&part[word.len()..]);
                    } else {
                        text.push_str(part);
                    }
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_nothing_but_colours() {
        let line = "SELECT a, 'from' FROM t -- where\nWHERE b>1";
        let text = coloured("", line, Paint::COLOURED);
        assert!(text.contains("\x1b[36mWHERE\x1b[0m b>1"), "{text:?}");
        assert!(text.contains("\x1b[32m'from'\x1b[0m"), "{text:?}");
        let bare = text.replace("\x1b[36m", "").replace("\x1b[32m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        assert_eq!(bare, line);
    }

    #[test]
    fn a_line_within_a_string_is_a_string() {
        let text = coloured("SELECT 'a\n", "from' FROM", Paint::COLOURED);
        assert_eq!(text, "\x1b[32mfrom'\x1b[0m \x1b[36mFROM\x1b[0m");
    }
}
