//! What standard output and standard error are: a terminal or not, how wide, with colours or without.
//!
//! What messages and tables show of text from elsewhere passes through [`printable`]. CSV, JSON and Markdown do not: they
//! are for programs, which need every character. Colours are used on a terminal only, and not when `NO_COLOR` is set to
//! anything or `TERM` is `dumb`.

use std::io::{self, IsTerminal, Write};

/// Columns assumed where the terminal does not tell.
const FALLBACK_WIDTH_COLUMNS: usize = 80;

/// Puts text between escape sequences, or leaves it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// No colours.
    pub(crate) const PLAIN: Self = Self { on: false };
    /// Colours.
    #[cfg(test)]
    pub(crate) const COLOURED: Self = Self { on: true };

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Less visible: frames, remarks, NULL.
    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// More visible: headings.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Errors.
    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// What became faster.
    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// What came from files.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// What came from memory; SQL.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether somebody watches.
    pub(crate) is_terminal: bool,
    /// How text is coloured there.
    pub(crate) paint: Paint,
    term: Stream,
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Output,
    Error,
}

impl Terminal {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::new(io::stdout().is_terminal(), Stream::Output)
    }

    /// Standard error.
    pub(crate) fn stderr() -> Self {
        Self::new(io::stderr().is_terminal(), Stream::Error)
    }

    fn new(is_terminal: bool, term: Stream) -> Self {
        let on = is_terminal && colours_wanted(std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Self { is_terminal, paint: Paint { on }, term }
    }

    /// Columns of the window now; it may change between two calls.
    pub(crate) fn width_columns(&self) -> usize {
        let term = match self.term {
            Stream::Output => console::Term::stdout(),
            Stream::Error => console::Term::stderr(),
        };
        term.size_checked().map_or(FALLBACK_WIDTH_COLUMNS, |(_, columns)| usize::from(columns).max(20))
    }

    /// Writes a line to standard error; when that is closed there is nobody left to tell.
    pub(crate) fn note(&self, line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// What would move the cursor is spelled out, but for line breaks.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(|c| c.is_control() && c != '\n') {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push('\n'),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

fn colours_wanted(no_color: Option<std::ffi::OsString>, term: Option<std::ffi::OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_wins_unless_it_is_empty() {
        assert!(colours_wanted(None, Some("xterm".into())));
        assert!(colours_wanted(Some("".into()), None));
        assert!(!colours_wanted(Some("1".into()), Some("xterm".into())));
        assert!(!colours_wanted(None, Some("dumb".into())));
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(printable("a\tb\x1b[2Jc\r"), "a\\tb\\u{1b}[2Jc\\r");
        assert_eq!(printable("two\nlines"), "two\nlines");
    }

    #[test]
    fn plain_paint_leaves_text_alone() {
        assert_eq!(Paint::PLAIN.red("x"), "x");
        assert_eq!(Paint::COLOURED.dim("x"), "\x1b[2mx\x1b[0m");
    }
}
