//! What the line editor asks while somebody types: completion, whether Enter ends the input, colours.

use std::borrow::Cow;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::completion::{self, SessionNames};
use super::keywords::is_keyword;
use super::sql_text::{Kind, is_complete, pieces};
use crate::terminal::Paint;

/// The shell's side of the line editor.
pub(super) struct SqlLine {
    pub(super) names: SessionNames,
    pub(super) paint: Paint,
}

impl Helper for SqlLine {}

impl Hinter for SqlLine {
    type Hint = String;
}

impl Completer for SqlLine {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completion::complete(line, position, &self.names))
    }
}

impl Validator for SqlLine {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input()) { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for SqlLine {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.paint == Paint::PLAIN { Cow::Borrowed(line) } else { Cow::Owned(coloured(line, self.paint)) }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.paint != Paint::PLAIN && kind != CmdKind::MoveCursor
    }
}

/// Strings, comments and keywords stand out.
fn coloured(line: &str, paint: Paint) -> String {
    let mut text = String::with_capacity(line.len() * 2);
    for piece in pieces(line) {
        let content = &line[piece.start..piece.end];
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
        let text = coloured(line, Paint::COLOURED);
        assert!(text.contains("\x1b[36mWHERE\x1b[0m b>1"), "{text:?}");
        assert!(text.contains("\x1b[32m'from'\x1b[0m"), "{text:?}");
        let bare = text.replace("\x1b[36m", "").replace("\x1b[32m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
        assert_eq!(bare, line);
    }
}
