//! Globs, name by name: `?`, `*` and `[…]` within one name, `**` for any number of folders.
//!
//! As in a shell, a name that starts with a dot is matched only by a pattern that does, and `**` does not enter hidden
//! folders. Braces and backslashes are ordinary characters.

use globset::{GlobBuilder, GlobMatcher};

use crate::{MediumError, Result};

/// Whether `text` holds a character that makes it a glob.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// One name of a pattern.
#[derive(Debug, Clone)]
enum Segment {
    /// Exactly this name.
    Literal(String),
    /// Names that match.
    Pattern { matcher: GlobMatcher, hidden: bool },
    /// `**`: any number of folders, none included.
    AnyFolders,
}

impl Segment {
    /// Whether one name matches; `**` matches any visible one.
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Pattern { matcher, hidden } => (*hidden || !name.starts_with('.')) && matcher.is_match(name),
            Self::AnyFolders => !name.starts_with('.'),
        }
    }
}

/// A parsed glob, matched as an automaton over names: all ways to read a path are followed at once, so that each path
/// is visited once and no pattern takes more than paths × names steps.
#[derive(Debug, Clone)]
pub(crate) struct GlobPattern {
    segments: Vec<Segment>,
}

/// How far into the pattern some leading names may have come; sorted, without repeats. Empty: no match below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    positions: Vec<usize>,
}

impl Progress {
    /// Whether nothing below can match.
    pub(crate) fn is_dead(&self) -> bool {
        self.positions.is_empty()
    }
}

impl GlobPattern {
    /// Splits a pattern into names; slashes at either end are ignored.
    ///
    /// # Errors
    /// A broken bracket expression.
    pub(crate) fn parse(pattern: &str) -> Result<Self> {
        let mut segments: Vec<Segment> = Vec::new();
        for name in pattern.split('/').filter(|name| !name.is_empty()) {
            segments.push(if name == "**" {
                Segment::AnyFolders
            } else if is_glob(name) {
                Segment::Pattern { matcher: matcher(pattern, name)?, hidden: name.starts_with('.') }
            } else {
                Segment::Literal(name.to_owned())
            });
        }
        // A pattern that ends in ** means the files below.
        if matches!(segments.last(), Some(Segment::AnyFolders)) {
            segments.push(Segment::Pattern { matcher: matcher(pattern, "*")?, hidden: false });
        }
        Ok(Self { segments })
    }

    /// Before the first name.
    pub(crate) fn start(&self) -> Progress {
        self.closed(vec![0])
    }

    /// After one more name. `**` passes over it only when `is_passable`: the name is that of a folder, not of a link to
    /// one.
    pub(crate) fn step(&self, progress: &Progress, name: &str, is_passable: bool) -> Progress {
        let mut positions = Vec::with_capacity(progress.positions.len() + 1);
        for &position in &progress.positions {
            match self.segments.get(position) {
                Some(Segment::AnyFolders) if is_passable && Segment::AnyFolders.matches(name) => {
                    positions.push(position)
                }
                Some(Segment::AnyFolders) | None => {}
                Some(segment) if segment.matches(name) => positions.push(position + 1),
                Some(_) => {}
            }
        }
        self.closed(positions)
    }

    /// Whether the names so far are a match.
    pub(crate) fn is_match(&self, progress: &Progress) -> bool {
        progress.positions.last() == Some(&self.segments.len())
    }

    /// The only names that can come next, if those are known without looking.
    pub(crate) fn next_literals(&self, progress: &Progress) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        for &position in &progress.positions {
            match self.segments.get(position) {
                Some(Segment::Literal(name)) => names.push(name.as_str()),
                Some(_) => return None,
                None => {}
            }
        }
        names.sort_unstable();
        names.dedup();
        Some(names)
    }

    /// Whether the names of a key match from end to end.
    pub(crate) fn matches_key(&self, key: &str) -> bool {
        let progress = key.split('/').fold(self.start(), |progress, name| self.step(&progress, name, true));
        self.is_match(&progress)
    }

    /// `**` may also stand for no folder at all.
    fn closed(&self, mut positions: Vec<usize>) -> Progress {
        let mut index = 0;
        while let Some(&position) = positions.get(index) {
            if matches!(self.segments.get(position), Some(Segment::AnyFolders)) {
                positions.push(position + 1);
            }
            index += 1;
        }
        positions.sort_unstable();
        positions.dedup();
        Progress { positions }
    }
}

/// The whole names before the first one with a glob character, without a slash at the end.
pub(crate) fn literal_prefix(pattern: &str) -> &str {
    let wildcard = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    pattern[..wildcard].rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn matcher(pattern: &str, name: &str) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(&escape_braces(name)).literal_separator(true).backslash_escape(false).build();
    let glob = glob.map_err(|error| MediumError::InvalidLocation {
        location: pattern.to_owned(),
        reason: format!("the pattern '{name}' is broken: {}; a literal '[' is written '[[]'", error.kind()),
    })?;
    Ok(glob.compile_matcher())
}

/// globset would read `{a,b}` as alternatives; inside brackets a brace is literal anyway.
fn escape_braces(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    let mut in_class = false;
    for letter in name.chars() {
        match letter {
            '[' => in_class = true,
            ']' => in_class = false,
            '{' | '}' if !in_class => {
                escaped.extend(['[', letter, ']']);
                continue;
            }
            _ => {}
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn glob(pattern: &str, key: &str) -> bool {
        GlobPattern::parse(pattern).unwrap().matches_key(key)
    }

    #[test]
    fn stars_stay_within_a_name_and_double_stars_cross_folders() {
        assert!(glob("a/*.csv", "a/b.csv"));
        assert!(!glob("a/*.csv", "a/b/c.csv"));
        assert!(glob("a/**/*.csv", "a/c.csv"));
        assert!(glob("a/**/*.csv", "a/x/y/c.csv"));
        assert!(!glob("a/**/*.csv", "b/x/c.csv"));
        assert!(glob("**", "a/b/c"));
        assert!(glob("a/**", "a/b/c") && !glob("a/**", "b"));
        assert!(glob("**/x/**/y", "x/y") && glob("**/x/**/y", "1/x/2/3/y"));
        assert!(glob("a?[0-9].c", "ab7.c") && !glob("a?[0-9].c", "ab.c"));
        assert!(glob("[!a].c", "b.c") && !glob("[!a].c", "a.c"));
    }

    #[test]
    fn hidden_names_are_matched_only_by_a_leading_dot() {
        assert!(!glob("*.csv", ".a.csv"));
        assert!(glob(".*.csv", ".a.csv"));
        assert!(!glob("**/a.csv", ".git/a.csv"));
        assert!(glob(".git/*.csv", ".git/a.csv"));
    }

    #[test]
    fn braces_and_backslashes_are_ordinary() {
        assert!(glob("{a,b}*.csv", "{a,b}1.csv") && !glob("{a,b}*.csv", "a1.csv"));
        assert!(glob("[{]*", "{x") && glob("a\\*", "a\\b"));
    }

    #[test]
    fn a_broken_pattern_says_how_to_write_a_bracket() {
        let error = GlobPattern::parse("x/a[b").unwrap_err().to_string();
        assert!(error.contains("'a[b'") && error.contains("[[]"), "{error}");
    }

    #[test]
    fn many_double_stars_do_not_explode() {
        let pattern = "**/a/".repeat(30) + "b";
        assert!(!glob(&pattern, &"a/".repeat(200)));
        assert!(glob(&pattern, &("a/".repeat(200) + "b")));
    }

    #[test]
    fn the_names_that_can_come_next_are_known_where_the_pattern_is_literal() {
        let pattern = GlobPattern::parse("/a/b/*.csv").unwrap();
        let start = pattern.start();
        assert_eq!(pattern.next_literals(&start), Some(vec!["a"]));
        let below = pattern.step(&pattern.step(&start, "a", true), "b", true);
        assert_eq!(pattern.next_literals(&below), None);
        assert!(pattern.step(&start, "x", true).is_dead());
    }

    #[test]
    fn the_literal_prefix_is_of_whole_names() {
        assert_eq!(literal_prefix("/a/b/c*.csv"), "/a/b");
        assert_eq!(literal_prefix("/*.csv"), "");
        assert_eq!(literal_prefix("a*"), "");
    }
}
