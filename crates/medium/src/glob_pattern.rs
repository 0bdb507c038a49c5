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
pub(crate) enum Segment {
    /// Exactly this name.
    Literal(String),
    /// Names that match.
    Pattern { matcher: GlobMatcher, hidden: bool },
    /// `**`: any number of folders, none included.
    AnyFolders,
}

impl Segment {
    /// Whether one name matches; `**` matches any visible one.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Pattern { matcher, hidden } => (*hidden || !name.starts_with('.')) && matcher.is_match(name),
            Self::AnyFolders => !name.starts_with('.'),
        }
    }
}

/// Splits a pattern without a leading slash into names.
pub(crate) fn segments(pattern: &str) -> Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        if name == "**" {
            // Two in a row are one; matching them separately would find each file once per split.
            if !matches!(segments.last(), Some(Segment::AnyFolders)) {
                segments.push(Segment::AnyFolders);
            }
        } else if is_glob(name) {
            let matcher = GlobBuilder::new(&escape_braces(name))
                .literal_separator(true)
                .backslash_escape(false)
                .build()
                .map_err(|error| MediumError::InvalidLocation {
                    location: pattern.to_owned(),
                    reason: format!("the pattern '{name}' is broken: {}; a literal '[' is written '[[]'", error.kind()),
                })?
                .compile_matcher();
            segments.push(Segment::Pattern { matcher, hidden: name.starts_with('.') });
        } else {
            segments.push(Segment::Literal(name.to_owned()));
        }
    }
    // A pattern that ends in ** means the files below.
    if matches!(segments.last(), Some(Segment::AnyFolders)) {
        segments.extend(self::segments("*")?);
    }
    Ok(segments)
}

/// Whether the names of a key match the pattern from end to end.
pub(crate) fn matches(segments: &[Segment], names: &[&str]) -> bool {
    let Some((segment, rest)) = segments.split_first() else { return names.is_empty() };
    match segment {
        Segment::AnyFolders => {
            matches(rest, names)
                || names.split_first().is_some_and(|(name, below)| segment.matches(name) && matches(segments, below))
        }
        _ => names.split_first().is_some_and(|(name, below)| segment.matches(name) && matches(rest, below)),
    }
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
        matches(&segments(pattern).unwrap(), &key.split('/').collect::<Vec<_>>())
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
        let error = segments("x/a[b").unwrap_err().to_string();
        assert!(error.contains("'a[b'") && error.contains("[[]"), "{error}");
    }

    #[test]
    fn many_double_stars_do_not_explode_on_repeats() {
        assert_eq!(segments("a/**/**/**/b").unwrap().len(), 3);
    }
}
