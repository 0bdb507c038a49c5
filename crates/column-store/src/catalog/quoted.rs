//! Texts in quotes, on one line. Each text is written in one way only.

use std::fmt::Write;

/// Appends `text` in quotes.
pub(super) fn quote(text: &str, to: &mut String) {
    to.push('"');
    for character in text.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            control if control.is_control() => {
                write!(to, "\\u{{{:x}}}", u32::from(control)).expect("a String takes everything");
            }
            other => to.push(other),
        }
    }
    to.push('"');
}

/// The text that `line` starts with in quotes, and what follows them; `None` if it starts with none, or with one
/// written otherwise than [`quote`] does.
pub(super) fn unquote(line: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = line.strip_prefix('"')?;
    loop {
        let plain = rest.find(['"', '\\'])?;
        text.push_str(&rest[..plain]);
        let is_end = rest.as_bytes()[plain] == b'"';
        rest = &rest[plain + 1..];
        if is_end {
            break;
        }
        let (character, after) = unescape(rest)?;
        text.push(character);
        rest = after;
    }
    let mut again = String::with_capacity(line.len() - rest.len());
    quote(&text, &mut again);
    (again == line[..line.len() - rest.len()]).then_some((text, rest))
}

/// The character that stands behind a backslash, and what follows it.
fn unescape(rest: &str) -> Option<(char, &str)> {
    let mut characters = rest.chars();
    let character = match characters.next()? {
        escaped @ ('"' | '\\') => escaped,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let (code, after) = characters.as_str().strip_prefix('{')?.split_once('}')?;
            return Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, after));
        }
        _ => return None,
    };
    Some((character, characters.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn texts_come_back_whatever_they_hold() {
        for seed in 1..2000 {
            let mut random = Random::new(seed);
            let pieces =
                ["a", "\"", "\\", "\n", "\r", "\t", "\0", "\u{7f}", "\u{85}", "ü", "\u{2028}", "🐟", " ", "u{a}", "{"];
            let text: String = (0..random.below(12)).map(|_| *random.pick(&pieces)).collect();
            let mut line = String::new();
            quote(&text, &mut line);
            assert!(!line.chars().any(char::is_control), "seed {seed}: {line}");
            line.push_str(" rest \"");
            assert_eq!(unquote(&line), Some((text, " rest \"")), "seed {seed}");
        }
    }

    #[test]
    fn a_text_is_read_as_it_is_written_alone() {
        for line in [
            "",
            "a",
            "\"",
            "\"a",
            "\"a\\",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u{61}\"",
            "\"\\u{0a}\"",
            "\"\\u{a}\"",
            "\"\\u{7F}\"",
            "\"\\u{+1}\"",
            "\"\\u{110000}\"",
            "\"\\u7f\"",
            "\"\\u{7f\"",
            "\"a\tb\"",
        ] {
            assert_eq!(unquote(line), None, "{line}");
        }
        assert_eq!(unquote("\"\\u{7f}\""), Some(("\u{7f}".to_owned(), "")));
    }
}
